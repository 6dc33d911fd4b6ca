/* The exchange of heads for tokens between ranks that share sequences (DeepSpeed-Ulysses, Jacobs et al. 2023).
 *
 * Before attention a rank has all heads of its own tokens; during attention it has the tokens of all inner ranks for
 * its part of the heads, in the order of the sequence; after attention it has all heads of its own tokens again. Each
 * direction is one all-to-all, and its gradient is the all-to-all in the other direction.
 *
 *   split   [own rows, (H + 2 G) D]  ->  [joined rows, (h + 2 g) D]      h = H / ranks
 *   join    [joined rows, h D]       ->  [own rows, H D]
 *
 * With fewer heads of keys and values than ranks, adjacent ranks have copies of a head (g = 1), and the gradients of
 * the copies are summed in the order of the ranks. The part for one rank is contiguous: its rows' queries, then their
 * keys and values. */
#include "base/count.h"
#include "base/memory.h"
#include "device/kernels.h"
#include "ops/attention.h"
#include "ops/context.h"

typedef struct exchange_heads {
  bool splits;
  int64_t ranks, own_rows;
  tri_heads all, part;       /* heads in a row of own tokens, and in a joined row; kv_heads 0: rows have queries only */
  int64_t copies;            /* number of ranks that have the same head of keys and values */
  const int64_t *row_begins; /* [ranks + 1], first joined row of each rank's tokens */
  const int64_t *own_begins; /* [ranks + 1], first element of the part of own rows that has each rank's heads */
  const int64_t *joined_begins; /* [ranks + 1], first element of the part of joined rows that has each rank's tokens */
} exchange_heads;

static int64_t own_width(const exchange_heads *at) { return tri_attention_width(at->all); }
static int64_t joined_width(const exchange_heads *at) { return tri_attention_width(at->part); }

static char *element_at(const tri_op_call *call, void *at, int64_t elements) {
  return (char *)at + (size_t)elements * tri_dtype_bytes(call->type);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t own_bytes(const tri_op_call *call) {
  const exchange_heads *at = call->attributes;
  return tri_bytes_in_lines((size_t)at->own_begins[at->ranks] * tri_dtype_bytes(call->type));
}

/* Returns the bytes of the transfer buffer: parts of own rows, then of joined rows. One of the two is sent and the
 * other is received. */
static size_t op_exchange_heads_transfer_bytes(const tri_op_call *call) {
  const exchange_heads *at = call->attributes;
  return own_bytes(call) + tri_bytes_in_lines((size_t)at->joined_begins[at->ranks] * tri_dtype_bytes(call->type));
}

static tri_status op_exchange_heads_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                          tri_shape outputs[TRI_OP_OUTPUTS]) {
  const exchange_heads *at = call->attributes;
  (void)inputs;
  outputs[0] = at->splits ? (tri_shape){at->row_begins[at->ranks], joined_width(at), call->type}
                          : (tri_shape){at->own_rows, own_width(at), call->type};
  return TRI_OK;
}

/* Returns the bytes of one rank's gradients of keys and values in the wide type, which is also the size of the sum over
 * copies; 0 without copies. */
static size_t sum_bytes(const tri_op_call *call) {
  const exchange_heads *at = call->attributes;
  size_t elements = (size_t)(at->own_rows * tri_attention_key_width(at->part));
  return at->copies == 1 ? 0 : tri_bytes_in_lines(elements * tri_dtype_bytes(tri_dtype_wide(call->type)));
}

static tri_status op_exchange_heads_memory(const tri_op_call *call, const tri_device_description *device,
                                           tri_op_memory *out) {
  (void)device;
  out->workspace_bytes = 2 * sum_bytes(call);
  return TRI_OK;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* A range of columns of some rows. */
typedef struct columns {
  const int32_t *rows; /* indices of the rows; NULL: 0, 1, ... */
  char *at;
  int64_t stride;
} columns;

/* Copies columns `here` to columns `there`; if `back` is true, `there` to `here`. */
static tri_status move(const tri_run *run, const tri_op_call *call, bool back, int64_t rows, int64_t width,
                       columns here, columns there) {
  const columns from = back ? there : here, to = back ? here : there;
  const tri_row_copy copy = {tri_all_rows(rows), width, call->type, call->type, from.stride, to.stride};
  if (width == 0) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, copy_rows, &copy, from.rows, from.at, to.rows, to.at);
  return TRI_OK;
}

/* Return, in a part of `rows` rows, the columns of queries; of keys and values together, which follow the queries; and
 * of values alone. */
static columns part_queries(const tri_op_call *call, char *part) {
  const exchange_heads *at = call->attributes;
  return (columns){NULL, part, tri_attention_query_width(at->part)};
}

static columns part_keys(const tri_op_call *call, char *part, int64_t rows) {
  const exchange_heads *at = call->attributes;
  return (columns){NULL, element_at(call, part, rows * tri_attention_query_width(at->part)),
                   tri_attention_key_width(at->part)};
}

static columns part_values(const tri_op_call *call, char *part, int64_t rows) {
  const exchange_heads *at = call->attributes;
  columns keys = part_keys(call, part, rows);
  keys.at = element_at(call, keys.at, at->part.kv_heads * at->part.head_dim);
  return keys;
}

static columns own_columns(const tri_op_call *call, void *own, int64_t first_head) {
  const exchange_heads *at = call->attributes;
  return (columns){NULL, element_at(call, own, first_head * at->all.head_dim), own_width(at)};
}

/* Returns the columns, from element `first` on, of the joined rows that have rank r's tokens. */
static columns joined_columns(const tri_run *run, const tri_op_call *call, int64_t r, void *joined, int64_t first) {
  const exchange_heads *at = call->attributes;
  return (columns){run->inner_order + at->row_begins[r], element_at(call, joined, first), joined_width(at)};
}

/* Copies rank r's heads of keys and values from rows of own tokens to r's part, or back. */
static tri_status move_keys(const tri_run *run, const tri_op_call *call, bool back, int64_t r, void *own, char *part) {
  const exchange_heads *at = call->attributes;
  int64_t rows = at->own_rows, width = at->part.kv_heads * at->part.head_dim;
  int64_t key = at->all.heads + r * at->part.kv_heads / at->copies, value = key + at->all.kv_heads;
  TRI_TRY(move(run, call, back, rows, width, own_columns(call, own, key), part_keys(call, part, rows)));
  return move(run, call, back, rows, width, own_columns(call, own, value), part_values(call, part, rows));
}

static tri_status move_queries(const tri_run *run, const tri_op_call *call, bool back, int64_t r, void *own,
                               char *part) {
  const exchange_heads *at = call->attributes;
  return move(run, call, back, at->own_rows, tri_attention_query_width(at->part),
              own_columns(call, own, r * at->part.heads), part_queries(call, part));
}

/* Copies rank r's tokens from joined rows to r's part, or back. */
static tri_status move_joined(const tri_run *run, const tri_op_call *call, bool back, int64_t r, void *joined,
                              char *part) {
  const exchange_heads *at = call->attributes;
  int64_t rows = at->row_begins[r + 1] - at->row_begins[r], queries = tri_attention_query_width(at->part);
  TRI_TRY(move(run, call, back, rows, queries, joined_columns(run, call, r, joined, 0), part_queries(call, part)));
  return move(run, call, back, rows, tri_attention_key_width(at->part), joined_columns(run, call, r, joined, queries),
              part_keys(call, part, rows));
}

/* Sums the gradients of keys and values that ranks r to r + copies - 1 computed for the same heads, into rank r's part.
 */
static tri_status add_copies(const tri_run *run, const tri_op_call *call, int64_t r, char *part) {
  const exchange_heads *at = call->attributes;
  int64_t width = tri_attention_key_width(at->part), count = at->own_rows * width;
  tri_dtype wide = tri_dtype_wide(call->type);
  char *keys = part_keys(call, part, at->own_rows).at, *sum = run->workspace, *term = sum + sum_bytes(call);
  TRI_KERNEL_CALL(run->queue, convert, count, call->type, keys, wide, sum);
  for (int64_t copy = 1; copy < at->copies; copy++) {
    char *other = element_at(call, keys, at->own_begins[r + copy] - at->own_begins[r]);
    TRI_KERNEL_CALL(run->queue, convert, count, call->type, other, wide, term);
    TRI_KERNEL_CALL(run->queue, add, wide, tri_all_rows(at->own_rows), width, sum, term, sum);
  }
  TRI_KERNEL_CALL(run->queue, convert, count, wide, sum, call->type, keys);
  return TRI_OK;
}

static tri_status unpack_own(const tri_run *run, const tri_op_call *call, int64_t r, void *own, char *part) {
  const exchange_heads *at = call->attributes;
  TRI_TRY(move_queries(run, call, true, r, own, part));
  if (r % at->copies != 0) return TRI_OK;
  if (at->copies > 1) TRI_TRY(add_copies(run, call, r, part));
  return move_keys(run, call, true, r, own, part);
}

/* ---- both ways --------------------------------------------------------------------------------------------------- */

static tri_status to_joined(tri_run *run, const tri_op_call *call, void *own, void *joined) {
  const exchange_heads *at = call->attributes;
  char *out = run->transfer, *in = out + own_bytes(call);
  for (int64_t r = 0; r < at->ranks; r++) {
    char *part = element_at(call, out, at->own_begins[r]);
    TRI_TRY(move_queries(run, call, false, r, own, part));
    TRI_TRY(move_keys(run, call, false, r, own, part));
  }
  TRI_TRY(tri_run_all_to_all(run, TRI_DOMAIN_CONTEXT_INNER, call->type, at->own_begins, out, at->joined_begins, in));
  for (int64_t r = 0; r < at->ranks; r++) {
    TRI_TRY(move_joined(run, call, true, r, joined, element_at(call, in, at->joined_begins[r])));
  }
  return TRI_OK;
}

static tri_status to_own(tri_run *run, const tri_op_call *call, void *joined, void *own) {
  const exchange_heads *at = call->attributes;
  char *in = run->transfer, *out = in + own_bytes(call);
  for (int64_t r = 0; r < at->ranks; r++) {
    TRI_TRY(move_joined(run, call, false, r, joined, element_at(call, out, at->joined_begins[r])));
  }
  TRI_TRY(tri_run_all_to_all(run, TRI_DOMAIN_CONTEXT_INNER, call->type, at->joined_begins, out, at->own_begins, in));
  for (int64_t r = 0; r < at->ranks; r++) {
    TRI_TRY(unpack_own(run, call, r, own, element_at(call, in, at->own_begins[r])));
  }
  return TRI_OK;
}

static tri_status op_exchange_heads_forward(tri_run *run, const tri_op_call *call) {
  const exchange_heads *at = call->attributes;
  void *x = run->slots[call->inputs[0]], *y = run->slots[call->outputs[0]];
  return at->splits ? to_joined(run, call, x, y) : to_own(run, call, x, y);
}

static tri_status op_exchange_heads_backward_input(tri_run *run, const tri_op_call *call) {
  const exchange_heads *at = call->attributes;
  void *dx = run->gradients[call->inputs[0]], *dy = run->gradients[call->outputs[0]];
  return at->splits ? to_own(run, call, dy, dx) : to_joined(run, call, dy, dx);
}

static void op_exchange_heads_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const exchange_heads *at = call->attributes;
  (void)pass;
  double own = (double)at->own_begins[at->ranks], joined = (double)at->joined_begins[at->ranks];
  double element = (double)tri_dtype_bytes(call->type);
  out->copied = 2.0 * (own + joined) * element;
  out->exchanges[0] = (tri_cost_exchange){.collective = TRI_COLLECTIVE_ALL_TO_ALL,
                                          .domain = TRI_DOMAIN_CONTEXT_INNER,
                                          .bytes = (own > joined ? own : joined) * element};
}

static const tri_op op_exchange_heads = {
    .name = "exchange_heads",
    .shape = op_exchange_heads_shape,
    .memory = op_exchange_heads_memory,
    .transfer = op_exchange_heads_transfer_bytes,
    .forward = op_exchange_heads_forward,
    .backward_input = op_exchange_heads_backward_input,
    .cost = op_exchange_heads_cost,
};

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* Computes the beginnings of each rank's part, in rows and in elements. */
static tri_status keep_begins(tri_op_list *list, const tri_op_context *context, exchange_heads *at) {
  int64_t *begins = NULL, count = context->inner + 1, width = joined_width(at);
  const void *kept = NULL;
  TRI_TRY(tri_alloc("parts of rows", 3 * (size_t)count, sizeof *begins, &begins));
  for (int64_t r = 0; r < context->inner; r++) {
    int64_t rows = list->batch * tri_op_context_rows(context, context->outer_rank * context->inner + r);
    begins[r + 1] = begins[r] + rows;
    begins[count + r + 1] = (r + 1) * at->own_rows * width;
    begins[2 * count + r + 1] = begins[r + 1] * width;
  }
  tri_status status = tri_op_list_keep(list, begins, 3 * (size_t)count * sizeof *begins, &kept);
  tri_free(begins);
  at->row_begins = kept;
  at->own_begins = at->row_begins + count;
  at->joined_begins = at->own_begins + count;
  return status;
}

/* Returns a rank's share of all heads. If rows have keys and values, the share has at least one head of them, which may
 * be a copy. */
static tri_heads part_of(tri_heads all, int64_t ranks) {
  const bool copied = all.kv_heads > 0 && all.kv_heads < ranks;
  return (tri_heads){all.heads / ranks, copied ? 1 : all.kv_heads / ranks, all.head_dim};
}

/* Appends the exchange. The next calls work on the tokens of all inner ranks or, after a join, on this rank's own
 * tokens. */
static tri_status append(tri_op_list *list, bool splits, tri_heads all, int32_t x, int32_t *out) {
  const tri_op_context context = tri_op_list_context(list);
  const int64_t ranks = context.inner;
  const tri_heads part = part_of(all, ranks);
  exchange_heads at = {.splits = splits,
                       .ranks = ranks,
                       .own_rows = list->batch * tri_op_context_rows(&context, context.rank),
                       .all = all,
                       .part = part,
                       .copies = part.kv_heads * ranks > all.kv_heads ? ranks / all.kv_heads : 1};
  TRI_TRY(keep_begins(list, &context, &at));
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_exchange_heads, &at, sizeof at, &call));
  call.inputs[0] = x;
  TRI_TRY(tri_op_list_append_first(list, &call, 1, out));
  list->sequence =
      splits ? tri_op_context_joined_rows(&context, context.outer_rank) : tri_op_context_rows(&context, context.rank);
  return TRI_OK;
}

tri_status tri_op_split_heads(tri_op_list *list, tri_heads *heads, int32_t qkv, int32_t *out) {
  const tri_op_context context = tri_op_list_context(list);
  const tri_heads all = *heads;
  *heads = part_of(all, context.inner);
  return append(list, true, all, qkv, out);
}

tri_status tri_op_join_heads(tri_op_list *list, tri_heads heads, int32_t x, int32_t *out) {
  heads.kv_heads = 0;
  return append(list, false, heads, x, out);
}
