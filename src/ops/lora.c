/* y[R, out] += scale x[R, in] A^T B^T, with A[rank, in] and B[out, rank]: the addition of LoRA (Hu et al. 2021) to the
 * product of a frozen matrix. If several matrices share a GEMM, each may have factors of its own: their A factors are
 * adjacent and one GEMM, u = scale x A^T; each B adds to its own columns of y. Each pair has its own rank, a range of
 * columns of u, and its own scale.
 *
 *   du = dy B        dx += scale du A        dB = dy^T u        dA = scale du^T x
 *
 * Under tensor parallelism the factors are split as the matrix is. If the matrix is split by columns (its outputs), so
 * is B, and every rank has all of A, whose gradients are partial sums; if it is split by rows, so is A, and u and
 * everything computed from it are partial sums: the reduction after the GEMM completes them.
 *
 * The initial factors, if they are subtracted (model/trainable.h), are a frozen pair with the opposite scale, whose
 * input has no dropout: a separate call, without gradients of its own. */
#include "ops/lora.h"

#include "base/count.h"
#include "device/kernels.h"
#include "ops/weight.h"

#include <assert.h>

enum { Y, X };   /* inputs */
enum { SUM, U }; /* outputs */
enum { A, B };   /* parameters: the first of each */

typedef tri_factors factors;

static tri_status op_factors_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                   tri_shape outputs[TRI_OP_OUTPUTS]) {
  const factors *at = call->attributes;
  outputs[SUM] = inputs[Y];
  outputs[U] = (tri_shape){inputs[Y].rows, at->down.out, call->type};
  return TRI_OK;
}

/* Returns the shape of B of pair number `target` of the factors. */
static tri_weight up_of(const factors *at, int64_t target) {
  return (tri_weight){at->rank[target], at->width[target], TRI_WEIGHT_OUT_IN};
}

/* Returns the GEMM with a B, which is small, and read in place. */
static tri_matmul up_product(const tri_op_call *call, int64_t target, tri_direction direction, int64_t rows) {
  const factors *at = call->attributes;
  const tri_weight up = up_of(at, target);
  tri_matmul gemm = tri_weight_gemm(call, &up, direction, rows);
  gemm.b_type = tri_dtype_wide(call->type);
  switch (direction) {
    case TRI_DIRECTION_FORWARD:
      gemm.lda = at->down.out;
      gemm.ldc = at->out;
      gemm.accumulate = true;
      break;
    case TRI_DIRECTION_BACKWARD:
      gemm.lda = at->out;
      gemm.ldc = at->down.out;
      break;
  }
  return gemm;
}

static tri_matmul up_gradient(const tri_op_call *call, int64_t target, int64_t rows) {
  const factors *at = call->attributes;
  const tri_weight up = up_of(at, target);
  tri_matmul gemm = tri_weight_gradient(call, &up, rows);
  gemm.lda = at->out;
  gemm.ldb = at->down.out;
  return gemm;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t u_bytes(const tri_op_call *call, int64_t rows) {
  const factors *at = call->attributes;
  return tri_bytes_in_lines((size_t)(rows * at->down.out) * tri_dtype_bytes(call->type));
}

/* Returns the bytes of a scratch copy of the columns of u of one pair whose scale differs from the first pair's: the
 * maximum over such pairs. */
static size_t other_bytes(const tri_op_call *call, int64_t rows) {
  const factors *at = call->attributes;
  int64_t most = 0;
  for (int64_t t = 1; t < at->count; t++) {
    if (at->scale[t] != at->scale[0] && at->rank[t] > most) most = at->rank[t];
  }
  return tri_bytes_in_lines((size_t)(rows * most) * tri_dtype_bytes(call->type));
}

static tri_status want_gradient(const tri_device_description *device, tri_matmul gemm, tri_op_memory *out) {
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    gemm.accumulate = accumulate == 1;
    TRI_TRY(tri_gemm_memory(device, &gemm, out));
  }
  return TRI_OK;
}

static tri_status op_factors_memory(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out) {
  const factors *at = call->attributes;
  if (out->workspace_bytes < other_bytes(call, call->rows)) out->workspace_bytes = other_bytes(call, call->rows);
  for (int direction = 0; direction < tri_op_directions(call); direction++) {
    tri_matmul down = tri_weight_gemm(call, &at->down, (tri_direction)direction, call->rows);
    down.accumulate = direction == TRI_DIRECTION_BACKWARD && call->accumulate[X];
    TRI_TRY(tri_weight_memory(call, device, &down, (tri_direction)direction, out));
  }
  for (int direction = 0; direction < (call->training ? 2 : 1); direction++) { /* gradients of A use du, too */
    for (int64_t t = 0; t < at->count; t++) {
      const tri_matmul up = up_product(call, t, (tri_direction)direction, call->rows);
      TRI_TRY(tri_gemm_memory(device, &up, out));
    }
  }
  if (!call->training) return TRI_OK;
  if (tri_op_has_weights(call)) {
    TRI_TRY(want_gradient(device, tri_weight_gradient(call, &at->down, call->rows), out));
    for (int64_t t = 0; t < at->count; t++) TRI_TRY(want_gradient(device, up_gradient(call, t, call->rows), out));
  }
  out->workspace_bytes += u_bytes(call, call->rows); /* du is at the start of the workspace */
  return TRI_OK;
}

static tri_status op_factors_prepare(tri_run *run, const tri_op_call *call) {
  const factors *at = call->attributes;
  for (int direction = 0; direction < tri_op_directions(call); direction++) {
    const tri_matmul gemm = tri_weight_gemm(call, &at->down, (tri_direction)direction, call->rows);
    TRI_TRY(tri_weight_prepare(run, call, &gemm, (tri_direction)direction));
  }
  return TRI_OK;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static char *columns(const tri_op_call *call, void *matrix, int64_t first) {
  return (char *)matrix + (size_t)first * tri_dtype_bytes(call->type);
}

static tri_run_parameter *b_of(const tri_run *run, const tri_op_call *call, int64_t target) {
  return &run->parameters[call->parameters[B] + target];
}

/* Copies the input to the output, or their gradients, unless both share memory. */
static tri_status pass_on(tri_run *run, const tri_op_call *call, int64_t rows, const void *from, void *to) {
  const factors *at = call->attributes;
  if (from != to) TRI_KERNEL_CALL(run->queue, convert, rows * at->out, call->type, from, call->type, to);
  return TRI_OK;
}

/* Multiplies u or du by the scales of the pairs of factors, in place. All columns are multiplied by the scale of the
 * first pair; columns of pairs with another scale are then corrected in the scratch memory `behind`. */
static tri_status scale_columns(tri_run *run, const tri_op_call *call, int64_t rows, void *u, void *behind) {
  const factors *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, scale, call->type, rows * at->down.out, at->scale[0], u, u);
  for (int64_t t = 1; t < at->count; t++) {
    if (at->scale[t] == at->scale[0]) continue;
    const tri_row_copy out = {tri_all_rows(rows), at->rank[t], call->type, call->type, at->down.out, at->rank[t]};
    const tri_row_copy back = {tri_all_rows(rows), at->rank[t], call->type, call->type, at->rank[t], at->down.out};
    void *own = columns(call, u, at->begin[t]);
    TRI_KERNEL_CALL(run->queue, copy_rows, &out, NULL, own, NULL, behind);
    TRI_KERNEL_CALL(run->queue, scale, call->type, rows * at->rank[t], at->scale[t] / at->scale[0], behind, behind);
    TRI_KERNEL_CALL(run->queue, copy_rows, &back, NULL, behind, NULL, own);
  }
  return TRI_OK;
}

static tri_status op_factors_forward(tri_run *run, const tri_op_call *call) {
  const factors *at = call->attributes;
  const int64_t rows = tri_run_rows(run, call);
  void *u = run->slots[call->outputs[U]], *y = run->slots[call->outputs[SUM]];
  if (run->without_factors) return pass_on(run, call, rows, run->slots[call->inputs[Y]], y);
  const tri_matmul down = tri_weight_gemm(call, &at->down, TRI_DIRECTION_FORWARD, rows);
  TRI_TRY(tri_weight_multiply(run, call, &down, TRI_DIRECTION_FORWARD, run->slots[call->inputs[X]], NULL, u,
                              run->workspace));
  TRI_TRY(scale_columns(run, call, rows, u, run->workspace));
  TRI_TRY(pass_on(run, call, rows, run->slots[call->inputs[Y]], y));
  for (int64_t t = 0; t < at->count; t++) {
    const tri_matmul up = up_product(call, t, TRI_DIRECTION_FORWARD, rows);
    TRI_KERNEL_CALL(run->queue, matmul, &up, columns(call, u, at->begin[t]), b_of(run, call, t)->value, NULL,
                    columns(call, y, at->first[t]), run->workspace);
  }
  return TRI_OK;
}

/* Computes scale du at the start of the workspace, unless backward_input has left it there. Sets *du to its address and
 * *behind to the scratch memory for the GEMMs. */
static tri_status make_du(tri_run *run, const tri_op_call *call, void **du, void **behind) {
  const factors *at = call->attributes;
  const int64_t rows = tri_run_rows(run, call);
  *du = run->workspace;
  *behind = (char *)run->workspace + u_bytes(call, call->rows);
  if (run->after_inputs) return TRI_OK;
  for (int64_t t = 0; t < at->count; t++) {
    const tri_matmul up = up_product(call, t, TRI_DIRECTION_BACKWARD, rows);
    TRI_KERNEL_CALL(run->queue, matmul, &up, columns(call, run->gradients[call->outputs[SUM]], at->first[t]),
                    b_of(run, call, t)->value, NULL, columns(call, *du, at->begin[t]), *behind);
  }
  return scale_columns(run, call, rows, *du, *behind);
}

static tri_status op_factors_backward_input(tri_run *run, const tri_op_call *call) {
  const factors *at = call->attributes;
  const int64_t rows = tri_run_rows(run, call);
  void *du = NULL, *behind = NULL;
  TRI_TRY(make_du(run, call, &du, &behind));
  tri_matmul down = tri_weight_gemm(call, &at->down, TRI_DIRECTION_BACKWARD, rows);
  down.accumulate = call->accumulate[X];
  TRI_TRY(
      tri_weight_multiply(run, call, &down, TRI_DIRECTION_BACKWARD, du, NULL, run->gradients[call->inputs[X]], behind));
  return pass_on(run, call, rows, run->gradients[call->outputs[SUM]], run->gradients[call->inputs[Y]]);
}

static tri_status op_factors_backward_weight(tri_run *run, const tri_op_call *call) {
  const factors *at = call->attributes;
  const int64_t rows = tri_run_rows(run, call);
  void *du = NULL, *behind = NULL, *u = run->slots[call->outputs[U]];
  TRI_TRY(make_du(run, call, &du, &behind));
  const tri_matmul down = tri_weight_gradient(call, &at->down, rows);
  TRI_TRY(tri_weight_accumulate(run, call, &at->down, &down, run->slots[call->inputs[X]], du, behind));
  for (int64_t t = 0; t < at->count; t++) {
    tri_run_parameter *b = b_of(run, call, t);
    tri_matmul up = up_gradient(call, t, rows);
    up.accumulate = b->gradient_written;
    TRI_KERNEL_CALL(run->queue, matmul, &up, columns(call, run->gradients[call->outputs[SUM]], at->first[t]),
                    columns(call, u, at->begin[t]), NULL, b->gradient, behind);
    b->gradient_written = true;
  }
  return TRI_OK;
}

/* Sets the cost: two thin GEMMs in the forward and in backward_input, and three in backward_weight, which may compute
 * du again. Memory traffic dominates. */
static void op_factors_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const factors *at = call->attributes;
  const double rows = (double)call->rows, in = (double)at->down.in, ranks = (double)at->down.out;
  const double element = (double)tri_dtype_bytes(call->type);
  double width = 0, each = 0;
  for (int64_t t = 0; t < at->count; t++) width += (double)at->width[t];
  for (int64_t t = 0; t < at->count; t++) each += (double)at->rank[t] * (double)at->width[t];
  const double once = tri_pass_choose(pass, 1, 1, 2);
  *out = (tri_cost){
      .flops = 2.0 * rows * (in * ranks + once * each),
      .rows = tri_pass_choose(pass, rows, rows, ranks),
      .inner = tri_pass_choose(pass, in, ranks, rows),
      .columns = tri_pass_choose(pass, ranks, in, in),
      .products = 1,
      .form = tri_weight_form(pass, TRI_WEIGHT_OUT_IN),
      .elements = rows * ranks,
      .bytes = rows * (in + (once + 1) * width + 3.0 * ranks) * element,
  };
}

static const tri_op op_factors = {
    .name = "factors",
    .keeps_inputs = 1u << X,
    .keeps_outputs = 1u << U,
    .in_place = true,
    .backward_in_place = true,
    .adds_gradients = 1u << X,
    .shape = op_factors_shape,
    .memory = op_factors_memory,
    .prepare = op_factors_prepare,
    .forward = op_factors_forward,
    .backward_input = op_factors_backward_input,
    .weights_read = true,
    .backward_weight = op_factors_backward_weight,
    .cost = op_factors_cost,
};

/* The initial factors, which are subtracted: they have no gradients, so no activations are kept. */
static const tri_op op_first_factors = {
    .name = "first factors",
    .in_place = true,
    .backward_in_place = true,
    .adds_gradients = 1u << X,
    .shape = op_factors_shape,
    .memory = op_factors_memory,
    .prepare = op_factors_prepare,
    .forward = op_factors_forward,
    .backward_input = op_factors_backward_input,
    .cost = op_factors_cost,
};

/* ---- in a list --------------------------------------------------------------------------------------------------- */

static const int32_t *pair_of(const tri_op_parameter *matrix, bool firsts) {
  return firsts ? matrix->firsts : matrix->factors;
}

tri_factors tri_factors_of(const tri_op_list *list, bool firsts, int64_t in, int32_t weight, int32_t *a, int32_t *b) {
  factors at = {.count = 0};
  int64_t ranks = 0;
  for (int64_t i = weight; i < list->num_parameters && (i == weight || list->parameters[i].joined); i++) {
    const tri_op_parameter *matrix = &list->parameters[i];
    const int32_t *pair = pair_of(matrix, firsts);
    const bool shared = at.count > 0 && pair[A] == pair_of(matrix - 1, firsts)[A];
    if (pair[A] >= 0 && shared) { /* several parts of one matrix */
      at.width[at.count - 1] += matrix->out;
    } else if (pair[A] >= 0) {
      assert(at.count < TRI_FACTORS_MOST);
      if (at.count == 0) *a = pair[A];
      if (at.count == 0) *b = pair[B];
      const tri_op_parameter *down = &list->parameters[pair[A]];
      at.rank[at.count] = down->out;
      at.begin[at.count] = ranks;
      at.scale[at.count] = firsts ? -down->scale : down->scale;
      ranks += down->out;
      at.first[at.count] = at.out;
      at.width[at.count++] = matrix->out;
    }
    at.out += matrix->out;
  }
  at.down = (tri_weight){in, ranks, TRI_WEIGHT_OUT_IN};
  return at;
}

/* Appends the call of the factors or, if `firsts` is true, of their initial values, on x as given: the caller has
 * applied dropout if needed. */
static tri_status append(tri_op_list *list, bool firsts, int64_t in, int32_t weight, int32_t x, int32_t *y) {
  int32_t a = -1, b = -1;
  const factors at = tri_factors_of(list, firsts, in, weight, &a, &b);
  if (at.count == 0) return TRI_OK;
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, firsts ? &op_first_factors : &op_factors, &at, sizeof at, &call));
  call.inputs[Y] = *y;
  call.inputs[X] = x;
  call.parameters[A] = a;
  call.parameters[B] = b;
  return tri_op_list_append_first(list, &call, 2, y); /* *y is the output SUM */
}

tri_status tri_op_lora_dropped(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t y, int32_t *out) {
  *out = y;
  return append(list, false, in, weight, x, out);
}

tri_status tri_op_factor_dropout(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t *out) {
  int32_t a = -1, b = -1;
  *out = x;
  if (tri_factors_of(list, false, in, weight, &a, &b).count == 0) return TRI_OK;
  const tri_op_parameter *down = &list->parameters[a];
  return tri_op_dropout_columns(list, list->adapter.dropout, TRI_FACTOR_SITES + weight, down->in, down->first, x, out);
}

tri_status tri_op_lora(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t y, int32_t *out) {
  int32_t dropped = x;
  TRI_TRY(tri_op_factor_dropout(list, in, weight, x, &dropped));
  TRI_TRY(tri_op_lora_dropped(list, in, weight, dropped, y, out));
  return append(list, true, in, weight, x, out);
}
