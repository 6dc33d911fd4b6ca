/* DoRA (Liu et al. 2024): y = x V^T, with V = W + scale B A; column c of y is multiplied by m[c] / |V[c]|, where V[c]
 * is row c of V and m is trained. The backward treats the norm as a constant (section 4.3 of the paper), as in PEFT:
 *
 *   y'[c] = f[c] (y[c] - bias[c]) + bias[c],  f = m / |V|
 *   dy = f dy'        dm = sum over the rows of dy' (y - bias), divided by |V|        dbias = column sums of dy'
 *
 * Norms are recomputed whenever weights have changed: W is widened some rows at a time, the factors' product is added
 * to it, and squares are summed. If inputs are split over tensor ranks (then A is, too), the sums of squares are
 * reduced. Under ZeRO 3 weights are gathered for each use, and norms are computed in each forward.
 *
 * With dropout, PEFT uses xd, which is x after dropout, also for a product with W: y' = x W^T + bias + (f - 1) xd W^T +
 * f scale xd A^T B^T. That equals (x - xd) W^T + bias, plus f times the product of V and xd. */
#include "ops/magnitude.h"

#include "base/count.h"
#include "device/kernels.h"
#include "ops/lora.h"

enum { Y };                  /* inputs */
enum { W, BIAS, A, B, M };   /* parameters: the first of each */
enum { SQUARES };            /* buffers */
enum { ELEMENTS = 1 << 19 }; /* elements of W that are widened at a time, approximately */

typedef struct magnitudes {
  tri_factors factors;
  tri_weight weight;
  bool adds_bias, alone;
  bool sums; /* whether the sums of squares are reduced over tensor ranks */
} magnitudes;

static tri_dtype wide_of(const tri_op_call *call) { return tri_dtype_wide(call->type); }

static char *behind(void *array, int64_t elements, tri_dtype type) {
  return (char *)array + (size_t)elements * tri_dtype_bytes(type);
}

static tri_status op_magnitude_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                     tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)call;
  outputs[0] = inputs[Y];
  return TRI_OK;
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

static bool is_in_out(const magnitudes *at) {
  switch (at->weight.order) {
    case TRI_WEIGHT_IN_OUT: return true;
    case TRI_WEIGHT_OUT_IN: return false;
  }
  return false;
}

/* Return the rows and columns of the matrix as it is stored. */
static int64_t stored_rows(const magnitudes *at) { return is_in_out(at) ? at->weight.in : at->weight.out; }
static int64_t stored_columns(const magnitudes *at) { return is_in_out(at) ? at->weight.out : at->weight.in; }

static int64_t rows_at_once(const magnitudes *at) {
  const int64_t rows = ELEMENTS / stored_columns(at), all = stored_rows(at);
  return rows < 1 ? 1 : rows < all ? rows : all;
}

/* Returns the GEMM that adds the product of pair number `target` of the factors to `rows` rows of its matrix as it is
 * stored: b[rows, rank] a[rank, in], or a[rank, rows]^T b[out, rank]^T. */
static tri_matmul addition(const tri_op_call *call, int64_t target, int64_t rows) {
  const magnitudes *at = call->attributes;
  const tri_dtype wide = wide_of(call);
  const int64_t rank = at->factors.rank[target], columns = stored_columns(at);
  const bool in_out = is_in_out(at);
  return (tri_matmul){.m = rows,
                      .n = columns,
                      .k = rank,
                      .lda = in_out ? at->weight.in : rank,
                      .ldb = in_out ? rank : columns,
                      .ldc = columns,
                      .a_type = wide,
                      .b_type = wide,
                      .c_type = wide,
                      .a_transposed = in_out,
                      .b_transposed = in_out,
                      .b_unpacked = true,
                      .accumulate = true};
}

/* Offsets in the scratch memory, which begins with some rows of the matrix. scaled: B times the scale; sums: sums of
 * squares of these rows; products: scratch of the GEMMs. */
typedef struct scratch {
  size_t scaled, sums, products;
} scratch;

static scratch scratch_of(const tri_op_call *call) {
  const magnitudes *at = call->attributes;
  const size_t element = tri_dtype_bytes(wide_of(call));
  int64_t most = 0;
  for (int64_t t = 0; t < at->factors.count; t++) {
    if (at->factors.width[t] * at->factors.rank[t] > most) most = at->factors.width[t] * at->factors.rank[t];
  }
  scratch s = {.scaled = tri_bytes_in_lines((size_t)(rows_at_once(at) * stored_columns(at)) * element)};
  s.sums = s.scaled + tri_bytes_in_lines((size_t)most * element);
  s.products = s.sums + tri_bytes_in_lines((size_t)at->weight.out * element);
  return s;
}

static tri_status op_magnitude_memory(const tri_op_call *call, const tri_device_description *device,
                                      tri_op_memory *out) {
  const magnitudes *at = call->attributes;
  size_t most = 0;
  for (int64_t t = 0; t < at->factors.count; t++) {
    const tri_matmul gemm = addition(call, t, rows_at_once(at));
    size_t bytes = 0;
    TRI_TRY(device->matmul_workspace(device, &gemm, &bytes));
    if (bytes > most) most = bytes;
  }
  out->workspace_bytes = tri_bytes_plus(scratch_of(call).products, most);
  out->buffer_bytes[SQUARES] = (size_t)at->weight.out * tri_dtype_bytes(wide_of(call));
  return TRI_OK;
}

/* Computes the sums of squares of rows [first, first + rows) of the stored matrix of pair `target`, plus its factors'
 * product. If rows are outputs, their elements of `squares` are written; if rows are inputs, `squares` accumulates.
 * `b`: the rows of B of these outputs, or all of B if rows are inputs. */
static tri_status add_rows(tri_run *run, const tri_op_call *call, int64_t target, int64_t first, int64_t rows,
                           const void *a, const void *b, void *squares) {
  const magnitudes *at = call->attributes;
  const scratch s = scratch_of(call);
  const tri_dtype wide = wide_of(call);
  const int64_t columns = stored_columns(at);
  const bool in_out = is_in_out(at), adds = in_out && first > 0;
  char *sums = (char *)run->workspace + s.sums;
  const tri_matmul gemm = addition(call, target, rows);
  const tri_matrix_squares sides = {rows, columns, 1, 1};
  TRI_TRY(tri_weight_widen(run, call, first * columns, rows * columns, run->workspace));
  TRI_KERNEL_CALL(run->queue, matmul, &gemm, in_out ? a : b, in_out ? b : a, NULL, run->workspace,
                  (char *)run->workspace + s.products);
  TRI_KERNEL_CALL(run->queue, matrix_squares, wide, &sides, NULL, run->workspace, in_out ? NULL : squares,
                  !in_out ? NULL
                  : adds  ? sums
                          : squares);
  if (adds) TRI_KERNEL_CALL(run->queue, add, wide, tri_all_rows(1), columns, squares, sums, squares);
  return TRI_OK;
}

/* Computes the sums of squares of the outputs of the matrix of pair `target` of the factors. */
static tri_status make_target(tri_run *run, const tri_op_call *call, int64_t target, char *squares) {
  const magnitudes *at = call->attributes;
  const tri_factors *factors = &at->factors;
  const tri_dtype wide = wide_of(call);
  const int64_t rank = factors->rank[target], width = factors->width[target], first = factors->first[target];
  const int64_t begin = is_in_out(at) ? 0 : first, end = is_in_out(at) ? at->weight.in : first + width;
  char *a = behind(run->parameters[call->parameters[A]].value, factors->begin[target] * at->weight.in, wide);
  char *b = (char *)run->workspace + scratch_of(call).scaled;
  TRI_KERNEL_CALL(run->queue, scale, wide, width * rank, factors->scale[target],
                  run->parameters[call->parameters[B] + target].value, b);
  for (int64_t row = begin; row < end; row += rows_at_once(at)) {
    const int64_t rows = end - row < rows_at_once(at) ? end - row : rows_at_once(at);
    const char *of_a = is_in_out(at) ? behind(a, row, wide) : a;
    const char *of_b = is_in_out(at) ? b : behind(b, (row - first) * rank, wide);
    char *to = is_in_out(at) ? squares : behind(squares, row, wide);
    TRI_TRY(add_rows(run, call, target, row, rows, of_a, of_b, to));
  }
  return TRI_OK;
}

/* Computes the sums of squares of all columns of y with magnitudes. */
static tri_status make_squares(tri_run *run, const tri_op_call *call) {
  const magnitudes *at = call->attributes;
  char *squares = run->buffers[call->index * TRI_OP_BUFFERS + SQUARES];
  for (int64_t t = 0; t < at->factors.count; t++) TRI_TRY(make_target(run, call, t, squares));
  if (!at->sums) return TRI_OK;
  return tri_run_all_reduce(run, TRI_DOMAIN_TENSOR, wide_of(call), at->weight.out, squares);
}

static tri_status op_magnitude_prepare(tri_run *run, const tri_op_call *call) {
  return call->weights_gathered ? TRI_OK : make_squares(run, call);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* A target is a matrix with factors and magnitudes: its columns of y, and arguments of the kernels. */
typedef struct target {
  int64_t first, width;
  const void *magnitudes, *squares, *bias;
  tri_run_parameter *parameter;
} target;

static target target_of(tri_run *run, const tri_op_call *call, int64_t number) {
  const magnitudes *at = call->attributes;
  const int64_t first = at->factors.first[number];
  const bool biased = call->parameters[BIAS] >= 0 && at->adds_bias;
  void *squares = run->buffers[call->index * TRI_OP_BUFFERS + SQUARES];
  tri_run_parameter *parameter = &run->parameters[call->parameters[M] + number];
  return (target){
      .first = first,
      .width = at->factors.width[number],
      .magnitudes = parameter->value,
      .squares = behind(squares, first, wide_of(call)),
      .bias = biased ? behind(run->parameters[call->parameters[BIAS]].value, first, wide_of(call)) : NULL,
      .parameter = parameter,
  };
}

/* Copies all columns of y if some of them have no magnitudes, or in a run without factors; columns with magnitudes are
 * overwritten later. */
static tri_status pass_on(tri_run *run, const tri_op_call *call, const void *from, void *to) {
  const magnitudes *at = call->attributes;
  int64_t own = 0;
  for (int64_t t = 0; t < at->factors.count; t++) own += at->factors.width[t];
  if (own == at->weight.out && !run->without_factors) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, convert, tri_run_rows(run, call) * at->weight.out, call->type, from, call->type, to);
  return TRI_OK;
}

static tri_status multiply(tri_run *run, const tri_op_call *call, bool biased, void *from, void *to) {
  const magnitudes *at = call->attributes;
  TRI_TRY(pass_on(run, call, from, to));
  for (int64_t t = 0; t < at->factors.count; t++) {
    const target of = target_of(run, call, t);
    TRI_KERNEL_CALL(run->queue, magnitude_forward, call->type, tri_all_rows(tri_run_rows(run, call)), of.width,
                    at->weight.out, of.magnitudes, of.squares, biased ? of.bias : NULL,
                    behind(from, of.first, call->type), behind(to, of.first, call->type));
  }
  return TRI_OK;
}

static tri_status op_magnitude_forward(tri_run *run, const tri_op_call *call) {
  const magnitudes *at = call->attributes;
  void *y = run->slots[call->outputs[0]];
  const size_t bytes = (size_t)(tri_run_rows(run, call) * at->weight.out) * tri_dtype_bytes(call->type);
  if (run->without_factors && !at->alone) return pass_on(run, call, run->slots[call->inputs[Y]], y);
  if (run->without_factors) {
    TRI_KERNEL_CALL(run->queue, fill_zero, bytes, y);
    return TRI_OK;
  }
  if (call->weights_gathered) TRI_TRY(make_squares(run, call));
  return multiply(run, call, true, run->slots[call->inputs[Y]], y);
}

static tri_status op_magnitude_backward_input(tri_run *run, const tri_op_call *call) {
  return multiply(run, call, false, run->gradients[call->outputs[0]], run->gradients[call->inputs[Y]]);
}

/* Computes the whole gradient of the bias, for columns without magnitudes too, because the GEMM's call does not compute
 * it. */
static tri_status add_to_bias(tri_run *run, const tri_op_call *call, const void *dy) {
  const magnitudes *at = call->attributes;
  if (call->parameters[BIAS] < 0 || tri_op_is_frozen(call, BIAS)) return TRI_OK;
  tri_run_parameter *bias = &run->parameters[call->parameters[BIAS]];
  TRI_KERNEL_CALL(run->queue, column_sum, call->type, tri_all_rows(tri_run_rows(run, call)), at->weight.out,
                  at->weight.out, dy, bias->gradient, bias->gradient_written);
  bias->gradient_written = true;
  return TRI_OK;
}

static tri_status op_magnitude_backward_weight(tri_run *run, const tri_op_call *call) {
  const magnitudes *at = call->attributes;
  void *dy = run->gradients[call->outputs[0]], *y = run->slots[call->inputs[Y]];
  for (int64_t t = 0; t < at->factors.count; t++) {
    const target of = target_of(run, call, t);
    TRI_KERNEL_CALL(run->queue, magnitude_backward, call->type, tri_all_rows(tri_run_rows(run, call)), of.width,
                    at->weight.out, behind(dy, of.first, call->type), behind(y, of.first, call->type), of.squares,
                    of.bias, of.parameter->gradient, of.parameter->gradient_written);
    of.parameter->gradient_written = true;
  }
  return add_to_bias(run, call, dy);
}

/* Adds the cost of the norms: one pass over W and the GEMM of the factors. */
static void add_norms(const tri_op_call *call, tri_cost *out) {
  const magnitudes *at = call->attributes;
  const double narrow = (double)tri_dtype_bytes(call->type), wide = (double)tri_dtype_bytes(wide_of(call));
  for (int64_t t = 0; t < at->factors.count; t++) {
    const double weights = (double)at->factors.width[t] * (double)at->weight.in;
    out->vector_flops += 2 * weights * (double)at->factors.rank[t];
    out->bytes += weights * (narrow + 4 * wide);
  }
}

/* Sets the cost: each array is read or written once; if weights are gathered for each use, each forward also computes
 * the norms. */
static void op_magnitude_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const magnitudes *at = call->attributes;
  const double elements = (double)call->rows * (double)at->weight.out;
  const double narrow = (double)tri_dtype_bytes(call->type);
  *out = (tri_cost){.elements = elements, .vector_flops = 2 * elements, .bytes = 2 * elements * narrow};
  if (pass == TRI_PASS_FORWARD && call->weights_gathered) add_norms(call, out);
}

static void op_magnitude_prepare_cost(const tri_op_call *call, tri_cost *out) {
  if (!call->weights_gathered) add_norms(call, out);
}

static const tri_op op_magnitude = {
    .name = "magnitude",
    .work = "copy",
    .keeps_inputs = 1u << Y,
    .only_for_weights = 1u << Y,
    .shape = op_magnitude_shape,
    .memory = op_magnitude_memory,
    .prepare = op_magnitude_prepare,
    .forward = op_magnitude_forward,
    .backward_input = op_magnitude_backward_input,
    .weights_read = true,
    .backward_weight = op_magnitude_backward_weight,
    .cost = op_magnitude_cost,
    .prepare_cost = op_magnitude_prepare_cost,
};

/* Returns the number of the parameter with the magnitudes of the first matrix that has some; the magnitudes of the
 * other matrices follow. */
static int32_t first_magnitude(const tri_op_list *list, int32_t weight) {
  int32_t i = weight;
  while (list->parameters[i].magnitude < 0) i++;
  return list->parameters[i].magnitude;
}

tri_status tri_op_magnitude(tri_op_list *list, const tri_weight *weight, int32_t parameter, int32_t bias,
                            bool adds_bias, bool alone, int32_t y, int32_t *out) {
  int32_t a = -1, b = -1;
  magnitudes at = {.factors = tri_factors_of(list, false, weight->in, parameter, &a, &b),
                   .weight = *weight,
                   .adds_bias = adds_bias,
                   .alone = alone};
  at.sums = list->parameters[a].in > weight->in;
  if (is_in_out(&at) && (at.factors.count > 1 || at.factors.width[0] < weight->out)) {
    return tri_fail_internal("magnitudes of one of several matrices of [in, out]");
  }
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_magnitude, &at, sizeof at, &call));
  call.inputs[Y] = y;
  call.parameters[W] = parameter;
  call.parameters[BIAS] = bias;
  call.parameters[A] = a;
  call.parameters[B] = b;
  call.parameters[M] = first_magnitude(list, parameter);
  return tri_op_list_append_first(list, &call, 1, out);
}

/* ---- x minus x after dropout ------------------------------------------------------------------------------ */

enum { X, DROPPED };

static int64_t count_of(const tri_run *run, const tri_op_call *call) {
  return tri_run_rows(run, call) * *(const int64_t *)call->attributes;
}

static tri_status op_left_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)call;
  outputs[0] = inputs[X];
  return TRI_OK;
}

static tri_status op_left_forward(tri_run *run, const tri_op_call *call) {
  const int64_t count = count_of(run, call);
  const void *x = run->slots[call->inputs[X]];
  void *y = run->slots[call->outputs[0]];
  if (run->without_factors) {
    TRI_KERNEL_CALL(run->queue, convert, count, call->type, x, call->type, y);
    return TRI_OK;
  }
  TRI_KERNEL_CALL(run->queue, scale, call->type, count, -1, run->slots[call->inputs[DROPPED]], y);
  TRI_KERNEL_CALL(run->queue, add, call->type, tri_all_rows(1), count, y, x, y);
  return TRI_OK;
}

/* Sets the workspace, for values that are added to a gradient. */
static tri_status op_left_memory(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out) {
  (void)device;
  const int64_t width = *(const int64_t *)call->attributes;
  out->workspace_bytes = (size_t)(call->rows * width) * tri_dtype_bytes(call->type);
  return TRI_OK;
}

static tri_status op_left_backward_input(tri_run *run, const tri_op_call *call) {
  const int64_t count = count_of(run, call);
  const void *dy = run->gradients[call->outputs[0]];
  for (int i = 0; i < 2; i++) {
    void *to = run->gradients[call->inputs[i]], *made = call->accumulate[i] ? run->workspace : to;
    TRI_KERNEL_CALL(run->queue, scale, call->type, count, i == X ? 1 : -1, dy, made);
    if (made != to) TRI_KERNEL_CALL(run->queue, add, call->type, tri_all_rows(1), count, to, made, to);
  }
  return TRI_OK;
}

static void op_left_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  (void)pass;
  tri_op_cost_of_elements(call, (double)call->rows * (double)*(const int64_t *)call->attributes, 2.0, 5.0, out);
}

static const tri_op op_left = {
    .name = "left by dropout",
    .work = "copy",
    .adds_gradients = 1u << X | 1u << DROPPED,
    .shape = op_left_shape,
    .memory = op_left_memory,
    .forward = op_left_forward,
    .backward_input = op_left_backward_input,
    .cost = op_left_cost,
};

tri_status tri_op_left_by_dropout(tri_op_list *list, int32_t x, int32_t dropped, int32_t *out) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_left, &list->slots[x].shape.width, sizeof(int64_t), &call));
  call.inputs[X] = x;
  call.inputs[DROPPED] = dropped;
  return tri_op_list_append_first(list, &call, 1, out);
}
