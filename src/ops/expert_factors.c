/* y += scale x A_e^T B_e^T for the rows of each expert e, with A_e[rank, in] and B_e[out, rank]: LoRA (ops/lora.c) for
 * the GEMMs of experts, each with its own pair. Gate and up are one matrix here, [2 * ffn, width], and have one pair.
 *
 *   u = scale x A_e^T        du = scale dy B_e        dx += du A_e        dB_e = dy^T u        dA_e = du^T x
 *
 * The scale is in u and in du, so that the GEMMs of y, dx, dB and dA need none. If `expert_tensor` ranks have parts of
 * a matrix, factors are split in the same way: for gate and up, B is split by rows, and dA is a partial sum; for down,
 * A is split by columns, so that u, y and dB are partial sums. */
#include "ops/expert_factors.h"

#include "base/count.h"
#include "device/kernels.h"
#include "ops/weight.h"

enum { Y, X, TABLES }; /* inputs */
enum { SUM, U };       /* outputs */
enum { A, B };         /* parameters */

typedef struct expert_factors {
  tri_weight down, up; /* A and B of an expert */
  int64_t count, capacity, begins;
  double scale;
  double expected; /* number of rows that the cost assumes */
} expert_factors;

static tri_status op_expert_factors_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                          tri_shape outputs[TRI_OP_OUTPUTS]) {
  const expert_factors *at = call->attributes;
  if (inputs[X].width != at->down.in || inputs[Y].width != at->up.out) {
    return tri_fail_internal("factors of experts of [%ld, %ld] were given %ld and %ld", (long)at->up.out,
                             (long)at->down.in, (long)inputs[Y].width, (long)inputs[X].width);
  }
  outputs[SUM] = inputs[Y];
  outputs[U] = (tri_shape){at->capacity, at->down.out, call->type};
  return TRI_OK;
}

/* Returns the GEMM with the A factors of all experts. `accumulate` (backward): adds to the input's gradient instead of
 * overwriting it. */
static tri_matmul down_product(const tri_op_call *call, tri_direction direction, bool accumulate) {
  const expert_factors *at = call->attributes;
  tri_matmul gemm = tri_weight_gemm(call, &at->down, direction, at->capacity);
  gemm.accumulate = accumulate;
  return gemm;
}

/* Returns the GEMM with the B factors of all experts, which are small, and read in place. */
static tri_grouped_matmul up_product(const tri_op_call *call, tri_direction direction) {
  const expert_factors *at = call->attributes;
  tri_matmul gemm = tri_weight_gemm(call, &at->up, direction, at->capacity);
  gemm.b_type = tri_dtype_wide(call->type);
  gemm.generating = false;
  switch (direction) {
    case TRI_DIRECTION_FORWARD: gemm.accumulate = true; break;
    case TRI_DIRECTION_BACKWARD: break;
  }
  return (tri_grouped_matmul){.product = gemm, .groups = at->count, .stride = at->up.in * at->up.out};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Returns the bytes of u, and also of du. */
static size_t u_bytes(const tri_op_call *call) {
  const expert_factors *at = call->attributes;
  return tri_bytes_in_lines(tri_bytes_times((size_t)(at->capacity * at->down.out), tri_dtype_bytes(call->type)));
}

static tri_status want_up(const tri_op_call *call, const tri_device_description *device, tri_direction direction,
                          tri_op_memory *out) {
  const tri_grouped_matmul up = up_product(call, direction);
  size_t bytes = 0;
  TRI_TRY(device->grouped_workspace(device, &up, &bytes));
  if (bytes > out->workspace_bytes) out->workspace_bytes = bytes;
  return TRI_OK;
}

/* Raises *out to the memory of GEMMs and of packed weights, without u and du. */
static tri_status want_products(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out) {
  const expert_factors *at = call->attributes;
  tri_matmul down = down_product(call, TRI_DIRECTION_FORWARD, false);
  TRI_TRY(tri_weight_stack_memory(call, device, &down, at->count, TRI_DIRECTION_FORWARD, out));
  TRI_TRY(want_up(call, device, TRI_DIRECTION_FORWARD, out));
  if (!call->training) return TRI_OK;
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    down = down_product(call, TRI_DIRECTION_BACKWARD, accumulate == 1);
    TRI_TRY(tri_weight_stack_memory(call, device, &down, at->count, TRI_DIRECTION_BACKWARD, out));
  }
  TRI_TRY(want_up(call, device, TRI_DIRECTION_BACKWARD, out));
  const tri_matmul of_a = tri_weight_gradient(call, &at->down, at->capacity);
  const tri_matmul of_b = tri_weight_gradient(call, &at->up, at->capacity);
  TRI_TRY(tri_weight_stack_gradient_memory(device, &of_a, at->count, out));
  return tri_weight_stack_gradient_memory(device, &of_b, at->count, out);
}

static tri_status op_expert_factors_memory(const tri_op_call *call, const tri_device_description *device,
                                           tri_op_memory *out) {
  TRI_TRY(want_products(call, device, out));
  if (call->training)
    out->workspace_bytes = tri_bytes_plus(out->workspace_bytes, u_bytes(call)); /* du, at the start of the workspace */
  return TRI_OK;
}

tri_status tri_expert_factors_workspace(const tri_op_call *call, const tri_device_description *device, size_t *bytes) {
  tri_op_memory memory = {0};
  TRI_TRY(want_products(call, device, &memory));
  *bytes = tri_bytes_plus(memory.workspace_bytes, tri_bytes_times(2, u_bytes(call)));
  return TRI_OK;
}

static tri_status op_expert_factors_prepare(tri_run *run, const tri_op_call *call) {
  const expert_factors *at = call->attributes;
  tri_matmul down = down_product(call, TRI_DIRECTION_FORWARD, false);
  TRI_TRY(tri_weight_stack_prepare(run, call, &down, at->count, TRI_DIRECTION_FORWARD));
  if (!call->training) return TRI_OK;
  down = down_product(call, TRI_DIRECTION_BACKWARD, false);
  return tri_weight_stack_prepare(run, call, &down, at->count, TRI_DIRECTION_BACKWARD);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static tri_status scale_rows(tri_run *run, const tri_op_call *call, void *u) {
  const expert_factors *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, scale, call->type, at->capacity * at->down.out, at->scale, u, u);
  return TRI_OK;
}

static tri_status make_u(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x, void *u,
                         void *workspace) {
  const expert_factors *at = call->attributes;
  const tri_matmul down = down_product(call, TRI_DIRECTION_FORWARD, false);
  TRI_TRY(tri_weight_stack_multiply(run, call, &down, at->count, TRI_DIRECTION_FORWARD, begins, x, u, workspace));
  return scale_rows(run, call, u);
}

static tri_status add_up(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *u, void *y,
                         void *workspace) {
  const tri_grouped_matmul up = up_product(call, TRI_DIRECTION_FORWARD);
  TRI_KERNEL_CALL(run->queue, grouped_matmul, &up, begins, u, run->parameters[call->parameters[B]].value, y, workspace);
  return TRI_OK;
}

static tri_status make_du(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *gradient_y,
                          void *du, void *workspace) {
  const tri_grouped_matmul up = up_product(call, TRI_DIRECTION_BACKWARD);
  TRI_KERNEL_CALL(run->queue, grouped_matmul, &up, begins, gradient_y, run->parameters[call->parameters[B]].value, du,
                  workspace);
  return scale_rows(run, call, du);
}

/* Computes the gradient of x. `workspace`: du, then scratch for the GEMMs. */
static tri_status pass_back(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *gradient_y,
                            void *gradient_x, bool accumulate, void *workspace) {
  const expert_factors *at = call->attributes;
  void *du = workspace, *behind = (char *)workspace + u_bytes(call);
  const tri_matmul down = down_product(call, TRI_DIRECTION_BACKWARD, accumulate);
  TRI_TRY(make_du(run, call, begins, gradient_y, du, behind));
  return tri_weight_stack_multiply(run, call, &down, at->count, TRI_DIRECTION_BACKWARD, begins, du, gradient_x, behind);
}

static tri_status add_gradients(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x,
                                const void *u, const void *gradient_y, void *workspace) {
  const expert_factors *at = call->attributes;
  tri_run_parameter *b = &run->parameters[call->parameters[B]];
  void *du = workspace, *behind = (char *)workspace + u_bytes(call);
  const tri_matmul of_a = tri_weight_gradient(call, &at->down, at->capacity);
  tri_grouped_matmul of_b = {.product = tri_weight_gradient(call, &at->up, at->capacity),
                             .groups = at->count,
                             .stride = at->up.in * at->up.out};
  TRI_TRY(make_du(run, call, begins, gradient_y, du, behind));
  TRI_TRY(tri_weight_stack_accumulate(run, call, &of_a, at->count, begins, x, du, behind));
  of_b.product.accumulate = b->gradient_written;
  TRI_KERNEL_CALL(run->queue, grouped_matmul, &of_b, begins, gradient_y, u, b->gradient, behind);
  b->gradient_written = true;
  return TRI_OK;
}

/* ---- rows of other calls ----------------------------------------------------------------------------------------- */

tri_status tri_expert_factors_add(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x, void *y,
                                  void *workspace) {
  void *behind = (char *)workspace + u_bytes(call);
  if (run->without_factors) return TRI_OK;
  TRI_TRY(make_u(run, call, begins, x, workspace, behind));
  return add_up(run, call, begins, workspace, y, behind);
}

tri_status tri_expert_factors_back(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *gradient_y,
                                   void *gradient_x, void *workspace) {
  return pass_back(run, call, begins, gradient_y, gradient_x, true, workspace);
}

tri_status tri_expert_factors_accumulate(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x,
                                         const void *gradient_y, void *workspace) {
  void *behind = (char *)workspace + u_bytes(call);
  TRI_TRY(make_u(run, call, begins, x, workspace, behind));
  return add_gradients(run, call, begins, x, workspace, gradient_y, behind);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static const int32_t *begins_of(const tri_run *run, const tri_op_call *call) {
  const expert_factors *at = call->attributes;
  return tri_expert_table(run, call->inputs[TABLES], at->begins);
}

/* Copies the input to the output, or their gradients, unless both share memory. */
static tri_status pass_on(tri_run *run, const tri_op_call *call, const void *from, void *to) {
  const expert_factors *at = call->attributes;
  const int64_t width = at->up.out;
  const tri_rows rows = {at->capacity, begins_of(run, call) + at->count};
  const tri_row_copy what = {rows, width, call->type, call->type, width, width};
  if (from != to) TRI_KERNEL_CALL(run->queue, copy_rows, &what, NULL, from, NULL, to);
  return TRI_OK;
}

static tri_status op_expert_factors_forward(tri_run *run, const tri_op_call *call) {
  const int32_t *begins = begins_of(run, call);
  void *u = run->slots[call->outputs[U]], *y = run->slots[call->outputs[SUM]];
  TRI_TRY(pass_on(run, call, run->slots[call->inputs[Y]], y));
  if (run->without_factors) return TRI_OK;
  TRI_TRY(make_u(run, call, begins, run->slots[call->inputs[X]], u, run->workspace));
  return add_up(run, call, begins, u, y, run->workspace);
}

static tri_status op_expert_factors_backward_input(tri_run *run, const tri_op_call *call) {
  const void *gradient_y = run->gradients[call->outputs[SUM]];
  TRI_TRY(pass_back(run, call, begins_of(run, call), gradient_y, run->gradients[call->inputs[X]], call->accumulate[X],
                    run->workspace));
  return pass_on(run, call, gradient_y, run->gradients[call->inputs[Y]]);
}

static tri_status op_expert_factors_backward_weight(tri_run *run, const tri_op_call *call) {
  return add_gradients(run, call, begins_of(run, call), run->slots[call->inputs[X]], run->slots[call->outputs[U]],
                       run->gradients[call->outputs[SUM]], run->workspace);
}

/* Sets the cost: for each expert two thin GEMMs in the forward and in backward_input, and three in backward_weight,
 * which computes du again. Memory traffic dominates. */
static void op_expert_factors_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const expert_factors *at = call->attributes;
  const double rows = at->expected, count = (double)at->count, of_each = rows / count;
  const double in = (double)at->down.in, rank = (double)at->down.out, width = (double)at->up.out;
  const double narrow = (double)tri_dtype_bytes(call->type), wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  const double once = tri_pass_choose(pass, 1, 1, 2);
  *out = (tri_cost){
      .flops = 2.0 * rows * rank * (in + once * width),
      .rows = tri_pass_choose(pass, of_each, of_each, rank),
      .inner = tri_pass_choose(pass, in, rank, of_each),
      .columns = tri_pass_choose(pass, rank, in, in),
      .products = count,
      .form = tri_weight_form(pass, TRI_WEIGHT_OUT_IN),
      .elements = rows * rank,
      .bytes = rows * (in + (once + 1) * width + 3.0 * rank) * narrow + count * rank * (in + width) * wide,
  };
}

static const tri_op op_expert_factors = {
    .name = "expert factors",
    .of_experts = true,
    .keeps_inputs = 1u << X | 1u << TABLES,
    .keeps_outputs = 1u << U,
    .only_for_weights = 1u << X,
    .no_gradients = 1u << TABLES,
    .in_place = true,
    .backward_in_place = true,
    .adds_gradients = 1u << X,
    .shape = op_expert_factors_shape,
    .memory = op_expert_factors_memory,
    .prepare = op_expert_factors_prepare,
    .forward = op_expert_factors_forward,
    .backward_input = op_expert_factors_backward_input,
    .weights_read = true,
    .backward_weight = op_expert_factors_backward_weight,
    .cost = op_expert_factors_cost,
};

tri_status tri_op_expert_factors(tri_op_list *list, const tri_expert_rows *rows, int64_t in, int32_t parameter,
                                 int32_t x, int32_t tables, int32_t *y, int32_t *number) {
  const bool has = list->parameters != NULL && list->parameters[parameter].factors[A] >= 0;
  *number = -1;
  if (!has) return TRI_OK;
  const tri_op_parameter *matrix = &list->parameters[parameter], *down = &list->parameters[matrix->factors[A]];
  const int64_t out = list->slots[*y].shape.width;
  const expert_factors at = {.down = {in, down->out, TRI_WEIGHT_OUT_IN},
                             .up = {down->out, out, TRI_WEIGHT_OUT_IN},
                             .count = rows->num_experts,
                             .capacity = rows->capacity,
                             .begins = rows->here,
                             .scale = down->scale,
                             .expected = tri_expert_rows_first(rows)};
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_expert_factors, &at, sizeof at, &call));
  call.inputs[Y] = *y;
  call.inputs[X] = x;
  call.inputs[TABLES] = tables;
  call.parameters[A] = matrix->factors[A];
  call.parameters[B] = matrix->factors[B];
  TRI_TRY(tri_op_list_append_first(list, &call, 2, y)); /* *y is the output SUM */
  *number = list->slots[*y].producer;
  return TRI_OK;
}
