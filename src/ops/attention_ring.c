/* Attention of a rank's own queries on keys and values that pass round a ring, a block for each of the outer ranks
 * (Ring Attention, Liu et al. 2023; Ring Self-Attention, Li et al. 2021).
 *
 * In step s rank r has the block of rank r - s, and computes on it while the block of rank r - s - 1 arrives. A query's
 * results on the blocks are merged in the wide type, weighted by the sums of exponentials of its scores on each block.
 * The backward passes the blocks round again. It computes the probabilities of a block with the sums of exponentials
 * over all blocks, so that gradients are sums over blocks: the gradients of a rank's queries are summed locally; those
 * of a block's keys and values follow the block one step later, from rank to rank, until they reach the block's owner.
 */
#include "base/count.h"
#include "device/kernels.h"
#include "ops/attention.h"
#include "ops/context.h"

typedef struct attention_ring {
  tri_heads heads;
  tri_scores scores;
  tri_op_context context;
  int64_t batch, most_rows; /* sequences of a micro-batch; rows of the largest block of keys */
  bool windowed; /* whether a query may have several slices in a block, one for each range of adjacent tokens */
} attention_ring;

static int64_t key_width(const tri_op_call *call) {
  const attention_ring *at = call->attributes;
  return tri_attention_key_width(at->heads);
}

static size_t block_bytes(const tri_op_call *call, tri_dtype type) {
  const attention_ring *at = call->attributes;
  return tri_bytes_in_lines((size_t)(at->most_rows * key_width(call)) * tri_dtype_bytes(type));
}

static size_t query_bytes(const tri_op_call *call, tri_dtype type) {
  const attention_ring *at = call->attributes;
  return tri_bytes_in_lines((size_t)(call->rows * tri_attention_query_width(at->heads)) * tri_dtype_bytes(type));
}

static bool is_narrow(const tri_op_call *call) { return tri_dtype_wide(call->type) != call->type; }

/* Returns the bytes of two blocks of keys and values and, in training, of two blocks of their gradients: one block of
 * each is used while the next one arrives. */
static size_t op_attention_ring_transfer_bytes(const tri_op_call *call) {
  size_t keys = 2 * block_bytes(call, call->type), gradients = 2 * block_bytes(call, tri_dtype_wide(call->type));
  return keys + (call->training ? gradients : 0);
}

/* Returns the description of attention on the largest block, whose results are merged with those of earlier blocks. The
 * caller sets key_rows for another block, and clears `merge` for the first block. */
static tri_attention ring_problem(const tri_op_call *call) {
  const attention_ring *at = call->attributes;
  tri_attention p = tri_attention_of(call, at->heads, at->scores, call->rows);
  p.out_type = p.gradient_type = tri_dtype_wide(call->type);
  p.key_rows = at->most_rows;
  p.k_row = p.v_row = key_width(call);
  p.most_keys = at->most_rows / at->batch;
  p.shares_keys = p.merge = p.accumulate = true;
  p.shares_queries = at->windowed;
  return p;
}

static tri_status op_attention_ring_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                          tri_shape outputs[TRI_OP_OUTPUTS]) {
  const attention_ring *at = call->attributes;
  return tri_attention_shape(call, at->heads, &inputs[0], outputs);
}

/* The workspace. Forward: the merged output, if it is wider than the slot. Backward: dense rows of queries and of their
 * gradients, and `partial`, the gradients that this rank adds to those of a block. */
typedef struct ring_memory {
  char *out, *q, *gradient_q, *partial, *scratch;
} ring_memory;

/* Returns the bytes of all parts but `scratch`. */
static size_t memory_bytes(const tri_op_call *call) {
  tri_dtype wide = tri_dtype_wide(call->type);
  size_t forward = is_narrow(call) ? query_bytes(call, wide) : 0;
  size_t backward = query_bytes(call, call->type) + query_bytes(call, wide) + block_bytes(call, wide);
  return call->training && backward > forward ? backward : forward;
}

static ring_memory lay_out(const tri_op_call *call, char *base) {
  ring_memory m = {.out = base, .q = base, .scratch = base + memory_bytes(call)};
  m.gradient_q = m.q + query_bytes(call, call->type);
  m.partial = m.gradient_q + query_bytes(call, tri_dtype_wide(call->type));
  return m;
}

static tri_status op_attention_ring_memory(const tri_op_call *call, const tri_device_description *device,
                                           tri_op_memory *out) {
  tri_attention p = ring_problem(call);
  TRI_TRY(device->attention_workspace(device, &p, &out->workspace_bytes));
  out->workspace_bytes += memory_bytes(call);
  return TRI_OK;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static int64_t outer_rank(const attention_ring *at, int64_t away) {
  return (at->context.outer_rank + away + at->context.outer) % at->context.outer;
}

static int64_t block_rows(const attention_ring *at, int64_t owner) {
  return at->batch * tri_op_context_joined_rows(&at->context, owner);
}

/* Starts to send the block of rank `owner`, at `from`, to the next rank, and to receive the block of the rank before
 * the owner into `to`. */
static tri_status start_pass(tri_run *run, const tri_op_call *call, tri_dtype type, int64_t owner, const void *from,
                             void *to, tri_transfer **out) {
  const attention_ring *at = call->attributes;
  size_t row = (size_t)key_width(call) * tri_dtype_bytes(type);
  int64_t next = (owner - 1 + at->context.outer) % at->context.outer;
  return tri_run_pass_start(run, TRI_DOMAIN_CONTEXT_OUTER, (int)outer_rank(at, 1), row * (size_t)block_rows(at, owner),
                            from, (int)outer_rank(at, -1), row * (size_t)block_rows(at, next), to, out);
}

static char *keys_at(const tri_run *run, const tri_op_call *call, int64_t step) {
  return (char *)run->transfer + (size_t)(step % 2) * block_bytes(call, call->type);
}

static char *gradients_at(const tri_run *run, const tri_op_call *call, int64_t step) {
  return keys_at(run, call, 0) + 2 * block_bytes(call, call->type) +
         (size_t)(step % 2) * block_bytes(call, tri_dtype_wide(call->type));
}

/* Copies columns between this rank's rows of q, k and v and a dense matrix. */
static tri_status copy_columns(const tri_run *run, const tri_row_copy *copy, const void *from, void *to) {
  TRI_KERNEL_CALL(run->queue, copy_rows, copy, NULL, from, NULL, to);
  return TRI_OK;
}

static tri_status copy_own_keys(const tri_run *run, const tri_op_call *call) {
  const attention_ring *at = call->attributes;
  int64_t width = key_width(call);
  const tri_row_copy copy = {tri_all_rows(call->rows),       width, call->type, call->type,
                             tri_attention_width(at->heads), width};
  void *keys = tri_attention_keys(call, at->heads, run->slots[call->inputs[0]]);
  return copy_columns(run, &copy, keys, keys_at(run, call, 0));
}

static char *values_of(const tri_op_call *call, char *keys, tri_dtype type) {
  return keys + (size_t)key_width(call) / 2 * tri_dtype_bytes(type);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static tri_status op_attention_ring_forward(tri_run *run, const tri_op_call *call) {
  const attention_ring *at = call->attributes;
  const tri_dtype wide = tri_dtype_wide(call->type);
  const int64_t ranks = at->context.outer;
  const ring_memory m = lay_out(call, run->workspace);
  void *qkv = run->slots[call->inputs[0]], *slot = run->slots[call->outputs[0]];
  void *out = is_narrow(call) ? m.out : slot;
  TRI_TRY(copy_own_keys(run, call));
  for (int64_t step = 0; step < ranks; step++) {
    tri_transfer *transfer = NULL;
    const int64_t owner = outer_rank(at, -step);
    char *keys = keys_at(run, call, step);
    if (step + 1 < ranks) {
      TRI_TRY(start_pass(run, call, call->type, owner, keys, keys_at(run, call, step + 1), &transfer));
    }
    tri_attention p = ring_problem(call);
    const tri_attention_slice *slices = tri_attention_set_slices(run, call, at->context.outer, owner, &p);
    p.key_rows = block_rows(at, owner);
    p.merge = step > 0;
    TRI_KERNEL_CALL(run->queue, attention_forward, &p, slices, qkv, keys, values_of(call, keys, call->type), out,
                    run->slots[call->outputs[1]], m.scratch);
    TRI_TRY(tri_run_pass_wait(run, &transfer));
  }
  if (is_narrow(call)) {
    TRI_KERNEL_CALL(run->queue, convert, call->rows * tri_attention_query_width(at->heads), wide, out, call->type,
                    slot);
  }
  return TRI_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static tri_status backward_block(tri_run *run, const tri_op_call *call, const ring_memory *m, int64_t owner, char *keys,
                                 char *gradients) {
  const attention_ring *at = call->attributes;
  const tri_dtype wide = tri_dtype_wide(call->type);
  tri_attention p = ring_problem(call);
  const tri_attention_slice *slices = tri_attention_set_slices(run, call, at->context.outer, owner, &p);
  p.out_type = call->type;
  p.q_row = tri_attention_query_width(at->heads);
  p.key_rows = block_rows(at, owner);
  TRI_KERNEL_CALL(run->queue, fill_zero, block_bytes(call, wide), gradients);
  TRI_KERNEL_CALL(run->queue, attention_backward, &p, slices, m->q, keys, values_of(call, keys, call->type),
                  run->slots[call->outputs[0]], run->slots[call->outputs[1]], run->gradients[call->outputs[0]],
                  m->gradient_q, gradients, values_of(call, gradients, wide), m->scratch);
  return TRI_OK;
}

/* Adds this rank's gradients `partial` to the gradients of the block of rank `owner`, which are the sums of the ranks
 * that had the block before. */
static tri_status add_to_block(tri_run *run, const tri_op_call *call, int64_t owner, const char *partial,
                               char *gradients) {
  const attention_ring *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, add, tri_dtype_wide(call->type), tri_all_rows(block_rows(at, owner)), key_width(call),
                  gradients, partial, gradients);
  return TRI_OK;
}

/* In each step, computes on the block that this rank has, and sends the block and the sums of its gradients to the next
 * rank. After the last step the owner of each block has its sums. */
static tri_status pass_round(tri_run *run, const tri_op_call *call, const ring_memory *m) {
  const attention_ring *at = call->attributes;
  const tri_dtype wide = tri_dtype_wide(call->type);
  const int64_t ranks = at->context.outer;
  tri_transfer *behind = NULL;
  for (int64_t step = 0; step < ranks; step++) {
    tri_transfer *transfer = NULL;
    const int64_t owner = outer_rank(at, -step);
    char *keys = keys_at(run, call, step), *gradients = gradients_at(run, call, step);
    if (step + 1 < ranks) {
      TRI_TRY(start_pass(run, call, call->type, owner, keys, keys_at(run, call, step + 1), &transfer));
    }
    TRI_TRY(backward_block(run, call, m, owner, keys, step == 0 ? gradients : m->partial));
    TRI_TRY(tri_run_pass_wait(run, &behind));
    if (step > 0) TRI_TRY(add_to_block(run, call, owner, m->partial, gradients));
    TRI_TRY(start_pass(run, call, wide, owner, gradients, gradients_at(run, call, step + 1), &behind));
    TRI_TRY(tri_run_pass_wait(run, &transfer));
  }
  return tri_run_pass_wait(run, &behind);
}

static tri_status op_attention_ring_backward_input(tri_run *run, const tri_op_call *call) {
  const attention_ring *at = call->attributes;
  const tri_dtype wide = tri_dtype_wide(call->type);
  const int64_t all = tri_attention_width(at->heads), queries = tri_attention_query_width(at->heads);
  const ring_memory m = lay_out(call, run->workspace);
  char *gradient_qkv = run->gradients[call->inputs[0]];
  const tri_row_copy own_queries = {tri_all_rows(call->rows), queries, call->type, call->type, all, queries};
  const tri_row_copy query_gradients = {tri_all_rows(call->rows), queries, wide, call->type, queries, all};
  const tri_row_copy key_gradients = {tri_all_rows(call->rows), all - queries, wide, call->type, all - queries, all};
  TRI_TRY(copy_own_keys(run, call));
  TRI_TRY(copy_columns(run, &own_queries, run->slots[call->inputs[0]], m.q));
  TRI_KERNEL_CALL(run->queue, fill_zero, query_bytes(call, wide), m.gradient_q);
  TRI_TRY(pass_round(run, call, &m));
  TRI_TRY(copy_columns(run, &query_gradients, m.gradient_q, gradient_qkv));
  return copy_columns(run, &key_gradients, gradients_at(run, call, at->context.outer),
                      tri_attention_keys(call, at->heads, gradient_qkv));
}

static void op_attention_ring_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const attention_ring *at = call->attributes;
  tri_attention_cost(call, at->heads, at->scores, at->context.tokens, pass, out);
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return;
  double ranks = (double)at->context.outer, elements = (double)(at->most_rows * key_width(call));
  double narrow = (double)tri_dtype_bytes(call->type), wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  double queries = (double)(call->rows * tri_attention_query_width(at->heads));
  const tri_cost_exchange keys = {.collective = TRI_COLLECTIVE_PASS,
                                  .domain = TRI_DOMAIN_CONTEXT_OUTER,
                                  .bytes = elements * narrow,
                                  .times = ranks - 1,
                                  .overlapped = ranks - 1};
  out->exchanges[0] = keys;
  if (pass == TRI_PASS_BACKWARD_INPUT) {
    out->exchanges[1] = keys;
    out->exchanges[1].bytes = elements * wide;
    out->exchanges[1].times = ranks; /* the last transfer receives the gradients of this rank's own keys */
  }
  /* This rank's keys are packed; each further block reads and writes the queries' merged results. The backward also
   * packs the queries, clears the gradients, adds them to the gradients of a block, and copies the sums back. */
  double own = (double)(call->rows * key_width(call));
  double packed = tri_pass_choose(pass, 2 * own * narrow, 2 * (own + queries) * (2 * narrow + wide), 0);
  out->copied = packed + (ranks - 1) * tri_pass_choose(pass, 2 * queries * wide, 2 * queries * wide, 0) +
                ranks * tri_pass_choose(pass, 0, 4 * elements * wide, 0);
}

static const tri_op op_attention_ring = {
    .name = "attention_ring",
    .keeps_inputs = 1u << 0,
    .keeps_outputs = 1u << 0 | 1u << 1,
    .shape = op_attention_ring_shape,
    .memory = op_attention_ring_memory,
    .transfer = op_attention_ring_transfer_bytes,
    .forward = op_attention_ring_forward,
    .backward_input = op_attention_ring_backward_input,
    .cost = op_attention_ring_cost,
};

tri_status tri_op_attention_ring(tri_op_list *list, tri_heads heads, tri_scores scores, int32_t qkv, int32_t *out) {
  attention_ring at = {.heads = heads,
                       .scores = scores,
                       .context = tri_op_list_context(list),
                       .batch = list->batch,
                       .windowed = tri_op_list_is_windowed(list)};
  for (int64_t r = 0; r < at.context.outer; r++) {
    if (block_rows(&at, r) > at.most_rows) at.most_rows = block_rows(&at, r);
  }
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_attention_ring, &at, sizeof at, &call));
  call.inputs[0] = qkv;
  return tri_op_list_append_first(list, &call, 2, out);
}
