/* y[R,out] = x[R,in] W (+ bias[out]).
 *
 *   dx = dy W^T        dW = x^T dy        dbias = column sums of dy
 *
 * Several adjacent parameters may form one W (q, k and v of attention, gate and up of SwiGLU): their gradients are
 * adjacent too, and only the first has the flag `gradient_written`. If only some of them are trained, each range of
 * adjacent ones is a GEMM of its own, and the results are joined.
 *
 * Under tensor parallelism (Megatron-LM, Shoeybi et al. 2019) W is split by columns, and every rank computes its
 * columns of y; or by rows (tri_op_linear_row), and every rank's y is a partial sum. Then one rank adds the bias, whose
 * gradient is the same on all. */
#include "device/kernels.h"
#include "ops/lora.h"
#include "ops/magnitude.h"
#include "ops/weight.h"

typedef struct linear {
  tri_weight weight;
  bool adds_bias;
  bool bias_elsewhere; /* whether another call computes the bias's gradient */
} linear;

static bool has_bias(const tri_op_call *call) {
  const linear *at = call->attributes;
  return call->parameters[1] >= 0 && at->adds_bias;
}

static tri_status op_linear_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                  tri_shape outputs[TRI_OP_OUTPUTS]) {
  const linear *at = call->attributes;
  if (inputs[0].width != at->weight.in) {
    return tri_fail_internal("linear takes width %ld and was given %ld", (long)at->weight.in, (long)inputs[0].width);
  }
  outputs[0] = (tri_shape){inputs[0].rows, at->weight.out, call->type};
  return TRI_OK;
}

static tri_status op_linear_memory(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out) {
  const linear *at = call->attributes;
  tri_matmul forward = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_FORWARD, call->rows);
  forward.bias = has_bias(call);
  TRI_TRY(tri_weight_memory(call, device, &forward, TRI_DIRECTION_FORWARD, out));
  if (!call->training) {
    forward.m = call->rows / call->sequence; /* generation, one position at a time */
    return tri_weight_memory(call, device, &forward, TRI_DIRECTION_FORWARD, out);
  }
  tri_matmul backward = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_BACKWARD, call->rows);
  TRI_TRY(tri_weight_memory(call, device, &backward, TRI_DIRECTION_BACKWARD, out));
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    tri_matmul gradient = tri_weight_gradient(call, &at->weight, call->rows);
    gradient.accumulate = accumulate == 1;
    size_t bytes = 0;
    TRI_TRY(device->matmul_workspace(device, &gradient, &bytes));
    if (bytes > out->workspace_bytes) out->workspace_bytes = bytes;
  }
  return TRI_OK;
}

static tri_status op_linear_prepare(tri_run *run, const tri_op_call *call) {
  const linear *at = call->attributes;
  for (int direction = 0; direction < tri_op_directions(call); direction++) {
    tri_matmul gemm = tri_weight_gemm(call, &at->weight, (tri_direction)direction, call->rows);
    gemm.bias = direction == TRI_DIRECTION_FORWARD && has_bias(call);
    TRI_TRY(tri_weight_prepare(run, call, &gemm, (tri_direction)direction));
  }
  return TRI_OK;
}

static tri_status op_linear_forward(tri_run *run, const tri_op_call *call) {
  const linear *at = call->attributes;
  tri_matmul gemm = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_FORWARD, tri_run_rows(run, call));
  gemm.bias = has_bias(call);
  const void *bias = gemm.bias ? run->parameters[call->parameters[1]].value : NULL;
  return tri_weight_multiply(run, call, &gemm, TRI_DIRECTION_FORWARD, run->slots[call->inputs[0]], bias,
                             run->slots[call->outputs[0]], run->workspace);
}

static tri_status op_linear_backward_input(tri_run *run, const tri_op_call *call) {
  const linear *at = call->attributes;
  tri_matmul gemm = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_BACKWARD, tri_run_rows(run, call));
  gemm.accumulate = call->accumulate[0];
  return tri_weight_multiply(run, call, &gemm, TRI_DIRECTION_BACKWARD, run->gradients[call->outputs[0]], NULL,
                             run->gradients[call->inputs[0]], run->workspace);
}

static tri_status op_linear_backward_weight(tri_run *run, const tri_op_call *call) {
  const linear *at = call->attributes;
  const void *gradient_y = run->gradients[call->outputs[0]];
  tri_matmul gemm = tri_weight_gradient(call, &at->weight, tri_run_rows(run, call));
  TRI_TRY(
      tri_weight_accumulate(run, call, &at->weight, &gemm, run->slots[call->inputs[0]], gradient_y, run->workspace));
  if (call->parameters[1] < 0 || tri_op_is_frozen(call, 1) || at->bias_elsewhere) return TRI_OK;
  tri_run_parameter *bias = &run->parameters[call->parameters[1]];
  TRI_KERNEL_CALL(run->queue, column_sum, call->type, tri_all_rows(tri_run_rows(run, call)), at->weight.out,
                  at->weight.out, gradient_y, bias->gradient, bias->gradient_written);
  bias->gradient_written = true;
  return TRI_OK;
}

static void op_linear_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const linear *at = call->attributes;
  double rows = (double)call->rows, in = (double)at->weight.in, width = (double)at->weight.out;
  const bool alone = pass == TRI_PASS_BACKWARD_WEIGHT && tri_op_is_frozen(call, 0); /* only the bias is trained */
  bool in_out = at->weight.order == TRI_WEIGHT_IN_OUT,
       biased = pass == TRI_PASS_BACKWARD_WEIGHT && call->parameters[1] >= 0 && !tri_op_is_frozen(call, 1);
  double narrow = (double)tri_dtype_bytes(call->type), wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  if (alone) {
    *out = (tri_cost){.elements = rows * width, .bytes = rows * width * narrow};
    return;
  }
  /* x W, dy W^T and x^T dy are GEMMs of the same size. */
  *out = (tri_cost){
      .flops = 2.0 * rows * in * width,
      .form = tri_weight_form(pass, at->weight.order),
      .unpacked = call->weights_gathered,
      .elements = biased ? rows * width : 0,
      .rows = tri_pass_choose(pass, rows, rows, in_out ? in : width),
      .inner = tri_pass_choose(pass, in, width, rows),
      .columns = tri_pass_choose(pass, width, in, in_out ? width : in),
      .products = 1,
      .copied = tri_weight_copied(call, pass, in * width),
      .bytes = (rows * in + rows * width) * (double)tri_dtype_bytes(call->type) +
               in * width * tri_pass_choose(pass, narrow, narrow, wide),
  };
}

static const tri_op op_linear = {
    .name = "linear",
    .keeps_inputs = 1u << 0,
    .only_for_weights = 1u << 0,
    .adds_gradients = 1u << 0,
    .shape = op_linear_shape,
    .memory = op_linear_memory,
    .prepare = op_linear_prepare,
    .forward = op_linear_forward,
    .backward_input = op_linear_backward_input,
    .backward_weight = op_linear_backward_weight,
    .cost = op_linear_cost,
};

/* Appends the GEMM without factors or magnitudes. */
static tri_status append_product(tri_op_list *list, const linear *attributes, int32_t x, int32_t weight, int32_t bias,
                                 int32_t *out) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_linear, attributes, sizeof *attributes, &call));
  call.inputs[0] = x;
  call.parameters[0] = weight;
  call.parameters[1] = bias;
  return tri_op_list_append_first(list, &call, 1, out);
}

/* Appends the GEMM of a matrix with magnitudes. With dropout, let x' be x after dropout: x - x' is multiplied by the
 * matrix alone, and x' by the matrix with factors and magnitudes (magnitude.c). */
static tri_status append_with_magnitudes(tri_op_list *list, const linear *attributes, int32_t x, int32_t weight,
                                         int32_t bias, int32_t *out) {
  linear at = *attributes;
  int32_t dropped = x, left = x, rest = -1, y = -1;
  TRI_TRY(tri_op_factor_dropout(list, at.weight.in, weight, x, &dropped));
  const bool drops = dropped != x;
  if (drops) {
    TRI_TRY(tri_op_left_by_dropout(list, x, dropped, &left));
    TRI_TRY(append_product(list, &at, left, weight, bias, &rest));
  }
  at.bias_elsewhere = true;
  const int32_t own_bias = drops ? -1 : bias;
  TRI_TRY(append_product(list, &at, dropped, weight, own_bias, &y));
  TRI_TRY(tri_op_lora_dropped(list, at.weight.in, weight, dropped, y, &y));
  TRI_TRY(tri_op_magnitude(list, &at.weight, weight, own_bias, at.adds_bias, drops, y, out));
  return drops ? tri_op_add(list, rest, *out, out) : TRI_OK;
}

/* Appends the product with matrices that are adjacent in memory (such as q, k and v), with their LoRA factors and DoRA
 * magnitudes. */
static tri_status append_one(tri_op_list *list, const linear *attributes, int32_t x, int32_t weight, int32_t bias,
                             int32_t *out) {
  int32_t y = -1;
  if (tri_op_list_has_magnitudes(list, weight)) return append_with_magnitudes(list, attributes, x, weight, bias, out);
  TRI_TRY(append_product(list, attributes, x, weight, bias, &y));
  return tri_op_lora(list, attributes->weight.in, weight, x, y, out);
}

/* Returns the number of matrices from weight + first on that are adjacent in memory and whose biases are adjacent too;
 * a trained and a frozen matrix are not adjacent (model/trainable.c). `most`: outputs of all matrices from `first` on.
 * *width: the sum of the outputs of the counted matrices. */
static int64_t count_joined(const tri_op_list *list, int32_t weight, int32_t bias, int64_t first, int64_t most,
                            int64_t *width) {
  const tri_op_parameter *weights = list->parameters + weight, *biases = bias < 0 ? NULL : list->parameters + bias;
  int64_t end = first;
  *width = 0;
  do {
    *width += weights[end++].out;
  } while (*width < most && weights[end].joined && (biases == NULL || biases[end].joined));
  return end - first;
}

static tri_status op_linear_append(tri_op_list *list, const linear *attributes, int32_t x, int32_t weight, int32_t bias,
                                   int32_t *out) {
  const int64_t all = attributes->weight.out;
  int32_t parts[TRI_OP_INPUTS];
  int64_t count = 0, matrix = 0, done = 0;
  if (list->parameters == NULL) return append_one(list, attributes, x, weight, bias, out);
  while (done < all) {
    linear at = *attributes;
    const int64_t joined = count_joined(list, weight, bias, matrix, all - done, &at.weight.out);
    if (count == TRI_OP_INPUTS || at.weight.out == 0) return tri_fail_internal("a product of %ld parts", (long)count);
    const int32_t own_bias = bias < 0 ? -1 : bias + (int32_t)matrix;
    TRI_TRY(append_one(list, &at, x, weight + (int32_t)matrix, own_bias, &parts[count++]));
    matrix += joined;
    done += at.weight.out;
  }
  return tri_op_join_columns(list, count, parts, out);
}

tri_status tri_op_linear(tri_op_list *list, int64_t in, int64_t out_width, tri_weight_order order, int32_t x,
                         int32_t weight, int32_t bias, int32_t *out) {
  return op_linear_append(list, &(linear){{in, out_width, order}, true, false}, x, weight, bias, out);
}

tri_status tri_op_linear_part(tri_op_list *list, int64_t in, int64_t out_width, tri_weight_order order, int32_t x,
                              int32_t weight, int32_t bias, int32_t *out) {
  return op_linear_append(list,
                          &(linear){{in, out_width, order}, tri_op_list_rank(list, TRI_DOMAIN_TENSOR) == 0, false}, x,
                          weight, bias, out);
}

tri_status tri_op_linear_row(tri_op_list *list, int64_t in, int64_t out_width, tri_weight_order order, int32_t x,
                             int32_t weight, int32_t bias, int32_t *out) {
  TRI_TRY(tri_op_linear_part(list, in, out_width, order, x, weight, bias, out));
  return tri_op_leave_tensor(list, *out, out);
}
