/* Gathers all heads of queries, keys and values on every rank of a layer, for operations on the whole width (norms),
 * and takes each rank's own heads from the result.
 *
 * joined   y = all heads, each from the rank that has it           dx = this rank's heads of dy
 * parted   y = this rank's heads of x                              dx = all heads of dy
 *
 * All ranks compute the calls between the two redundantly. If several ranks have copies of a head of keys, the first of
 * them provides it, and receives its whole gradient; the others receive zero, so that the sum of the gradients is
 * right. To join, each rank puts its own heads into a row of zeros, and the rows are summed, which is exact. */
#include "device/kernels.h"
#include "ops/attention.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct tensor_heads {
  bool joins;
  tri_heads all, own;
  int64_t first_head, first_kv_head; /* this rank's first query head, and its first head of keys and values */
  bool gives_kv;                     /* whether this rank is the first that has its heads of keys */
} tensor_heads;

static tri_status op_tensor_heads_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                        tri_shape outputs[TRI_OP_OUTPUTS]) {
  const tensor_heads *at = call->attributes;
  outputs[0] = (tri_shape){inputs[0].rows, tri_attention_width(at->joins ? at->all : at->own), call->type};
  return TRI_OK;
}

/* Copies `heads` heads of queries, keys or values of this rank between a row of its own heads and a row of all
 * heads. */
static tri_status move_heads(tri_run *run, const tri_op_call *call, bool to_all, int64_t heads, int64_t own_head,
                             int64_t head, const void *from, void *to) {
  const tensor_heads *at = call->attributes;
  const int64_t d = at->all.head_dim, own_row = tri_attention_width(at->own), all_row = tri_attention_width(at->all);
  const size_t element = tri_dtype_bytes(call->type);
  const size_t own_bytes = (size_t)(own_head * d) * element, all_bytes = (size_t)(head * d) * element;
  const tri_row_copy copy = {.rows = tri_all_rows(tri_run_rows(run, call)),
                             .width = heads * d,
                             .from_type = call->type,
                             .to_type = call->type,
                             .from_stride = to_all ? own_row : all_row,
                             .to_stride = to_all ? all_row : own_row};
  TRI_KERNEL_CALL(run->queue, copy_rows, &copy, NULL, (const char *)from + (to_all ? own_bytes : all_bytes), NULL,
                  (char *)to + (to_all ? all_bytes : own_bytes));
  return TRI_OK;
}

static tri_status move_own(tri_run *run, const tri_op_call *call, bool to_all, bool with_kv, const void *from,
                           void *to) {
  const tensor_heads *at = call->attributes;
  const tri_heads own = at->own, all = at->all;
  TRI_TRY(move_heads(run, call, to_all, own.heads, 0, at->first_head, from, to));
  if (!with_kv) return TRI_OK;
  TRI_TRY(move_heads(run, call, to_all, own.kv_heads, own.heads, all.heads + at->first_kv_head, from, to));
  return move_heads(run, call, to_all, own.kv_heads, own.heads + own.kv_heads,
                    all.heads + all.kv_heads + at->first_kv_head, from, to);
}

static tri_status fill_zero(tri_run *run, const tri_op_call *call, tri_heads heads, void *matrix) {
  const size_t elements = (size_t)tri_run_rows(run, call) * (size_t)tri_attention_width(heads);
  TRI_KERNEL_CALL(run->queue, fill_zero, elements * tri_dtype_bytes(call->type), matrix);
  return TRI_OK;
}

static tri_status join(tri_run *run, const tri_op_call *call, bool with_kv, const void *own, void *all) {
  const tensor_heads *at = call->attributes;
  TRI_TRY(fill_zero(run, call, at->all, all));
  TRI_TRY(move_own(run, call, true, with_kv, own, all));
  return tri_run_all_reduce(run, TRI_DOMAIN_TENSOR, call->type, tri_run_rows(run, call) * tri_attention_width(at->all),
                            all);
}

static tri_status part(tri_run *run, const tri_op_call *call, bool with_kv, const void *all, void *own) {
  const tensor_heads *at = call->attributes;
  if (!with_kv) TRI_TRY(fill_zero(run, call, at->own, own));
  return move_own(run, call, false, with_kv, all, own);
}

static tri_status op_tensor_heads_forward(tri_run *run, const tri_op_call *call) {
  const tensor_heads *at = call->attributes;
  const void *x = run->slots[call->inputs[0]];
  void *y = run->slots[call->outputs[0]];
  return at->joins ? join(run, call, at->gives_kv, x, y) : part(run, call, true, x, y);
}

static tri_status op_tensor_heads_backward_input(tri_run *run, const tri_op_call *call) {
  const tensor_heads *at = call->attributes;
  const void *gradient_y = run->gradients[call->outputs[0]];
  void *gradient_x = run->gradients[call->inputs[0]];
  if (at->joins) return part(run, call, at->gives_kv, gradient_y, gradient_x);
  return join(run, call, true, gradient_y, gradient_x);
}

static void op_tensor_heads_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const tensor_heads *at = call->attributes;
  const double element = (double)tri_dtype_bytes(call->type), rows = (double)call->rows;
  const double own = rows * (double)tri_attention_width(at->own) * element,
               all = rows * (double)tri_attention_width(at->all) * element;
  const bool joins = tri_pass_choose(pass, at->joins, !at->joins, 0) != 0;
  out->copied = 2.0 * own + (joins ? all : 0);
  if (joins) {
    out->exchanges[0] =
        (tri_cost_exchange){.collective = TRI_COLLECTIVE_ALL_REDUCE, .domain = TRI_DOMAIN_TENSOR, .bytes = all};
  }
}

#define FUNCTIONS                                                                                                      \
  .shape = op_tensor_heads_shape, .forward = op_tensor_heads_forward,                                                  \
  .backward_input = op_tensor_heads_backward_input, .cost = op_tensor_heads_cost
static const tri_op op_join_tensor_heads = {.name = "join_tensor_heads", FUNCTIONS};
static const tri_op op_part_tensor_heads = {.name = "part_tensor_heads", FUNCTIONS};

static tri_status append(tri_op_list *list, const tri_op *op, bool joins, tri_heads all, int32_t x, int32_t *out) {
  const int64_t ranks = tri_op_list_ranks(list, TRI_DOMAIN_TENSOR), rank = tri_op_list_rank(list, TRI_DOMAIN_TENSOR);
  tensor_heads at = {
      .joins = joins, .all = all, .own = tri_op_share_heads(list, all.heads, all.kv_heads, all.head_dim)};
  int64_t count = 0;
  *out = x;
  if (ranks == 1) return TRI_OK;
  tri_op_share_of(list, all.heads, &at.first_head, &count);
  if (all.kv_heads >= ranks) {
    tri_op_share_of(list, all.kv_heads, &at.first_kv_head, &count);
    at.gives_kv = true;
  } else {
    at.first_kv_head = rank * all.kv_heads / ranks;
    at.gives_kv = rank == 0 || (rank - 1) * all.kv_heads / ranks != at.first_kv_head;
  }
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, op, &at, sizeof at, &call));
  call.inputs[0] = x;
  return tri_op_list_append_first(list, &call, 1, out);
}

tri_status tri_op_join_tensor_heads(tri_op_list *list, tri_heads all, int32_t qkv, int32_t *out) {
  return append(list, &op_join_tensor_heads, true, all, qkv, out);
}

tri_status tri_op_part_tensor_heads(tri_op_list *list, tri_heads all, int32_t qkv, int32_t *out) {
  return append(list, &op_part_tensor_heads, false, all, qkv, out);
}
