/* Attention of a rank's own queries on keys of the whole sequence, which are gathered first (Llama 3, section 3.3.2,
 * arXiv 2407.21783).
 *
 * Each of the outer ranks has some tokens of every sequence. Keys and values arrive in the order of the ranks and are
 * put in the order of the sequence, so that a query's keys are adjacent and processed in the same order as on one rank,
 * with the same result. The gathered keys are not kept: the backward gathers them again. The gradients of the gathered
 * keys that a rank computes come only from its own queries, so they are reduce-scattered: each rank receives the sum
 * for its own rows.
 *
 * With masked documents a rank needs only the keys of its own documents, and receives no others: each rank sends to
 * each other rank the keys that it needs, and receives gradients for the keys that it sent (GroupCast and GroupReduce
 * of MagiAttention). A document that is entirely on one rank is not sent. */
#include "base/count.h"
#include "base/memory.h"
#include "device/kernels.h"
#include "ops/attention.h"
#include "ops/context.h"

typedef struct attention_gather {
  tri_heads heads;
  tri_scores scores;
  bool masked;
  int64_t tokens, all_rows, ranks, rank;
  const int64_t *begins; /* [ranks + 1]: first element of each rank's keys and values */
} attention_gather;

static tri_attention gather_problem(const tri_op_call *call) {
  const attention_gather *at = call->attributes;
  tri_attention p = tri_attention_of(call, at->heads, at->scores, call->rows);
  p.key_rows = at->all_rows;
  p.k_row = p.v_row = tri_attention_key_width(at->heads);
  p.most_keys = at->tokens;
  p.shares_keys = true;
  return p;
}

static size_t all_bytes(const tri_op_call *call) {
  const attention_gather *at = call->attributes;
  size_t elements = (size_t)(at->all_rows * tri_attention_key_width(at->heads));
  return tri_bytes_in_lines(elements * tri_dtype_bytes(call->type));
}

/* Returns the maximum bytes that a rank sends with masked documents: all of its keys and values to every rank. */
static size_t send_bytes(const tri_op_call *call) {
  const attention_gather *at = call->attributes;
  size_t elements = (size_t)(at->ranks * call->rows * tri_attention_key_width(at->heads));
  return at->masked ? tri_bytes_in_lines(elements * tri_dtype_bytes(call->type)) : 0;
}

/* Returns the bytes of the sums of the gradients of this rank's keys and values, which only masked documents need. */
static size_t sum_bytes(const tri_op_call *call) {
  const attention_gather *at = call->attributes;
  size_t elements = (size_t)(call->rows * tri_attention_key_width(at->heads));
  return at->masked && call->training ? tri_bytes_in_lines(elements * tri_dtype_bytes(tri_dtype_wide(call->type))) : 0;
}

static size_t op_attention_gather_transfer_bytes(const tri_op_call *call) { return all_bytes(call) + send_bytes(call); }

static tri_status op_attention_gather_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                            tri_shape outputs[TRI_OP_OUTPUTS]) {
  const attention_gather *at = call->attributes;
  return tri_attention_shape(call, at->heads, &inputs[0], outputs);
}

/* Sets the workspace: keys and values in the order of the sequence, their gradients, the sums (sum_bytes), and
 * attention's own workspace. */
static tri_status op_attention_gather_memory(const tri_op_call *call, const tri_device_description *device,
                                             tri_op_memory *out) {
  tri_attention p = gather_problem(call);
  TRI_TRY(device->attention_workspace(device, &p, &out->workspace_bytes));
  out->workspace_bytes += (call->training ? 2 : 1) * all_bytes(call) + sum_bytes(call);
  return TRI_OK;
}

typedef struct gathered {
  char *k, *v, *gradient_k, *gradient_v, *sum, *scratch;
} gathered;

static gathered lay_out(const tri_run *run, const tri_op_call *call) {
  const attention_gather *at = call->attributes;
  size_t half = (size_t)tri_attention_key_width(at->heads) / 2 * tri_dtype_bytes(call->type);
  char *k = run->workspace, *gradient_k = call->training ? k + all_bytes(call) : k;
  char *sum = gradient_k + all_bytes(call);
  return (gathered){k, k + half, gradient_k, gradient_k + half, sum, sum + sum_bytes(call)};
}

/* Returns the address of this rank's keys and values in the transfer buffer, which has the keys and values of all
 * ranks. */
static char *own_part(const tri_run *run, const tri_op_call *call) {
  const attention_gather *at = call->attributes;
  return (char *)run->transfer + (size_t)at->begins[at->rank] * tri_dtype_bytes(call->type);
}

static tri_row_copy copy_of(const tri_op_call *call, int64_t rows, int64_t from_stride, int64_t to_stride) {
  const attention_gather *at = call->attributes;
  return (tri_row_copy){tri_all_rows(rows), tri_attention_key_width(at->heads), call->type, call->type, from_stride,
                        to_stride};
}

/* ---- all keys ---------------------------------------------------------------------------------------------------- */

static tri_status gather_all(tri_run *run, const tri_op_call *call, void *qkv, const gathered *to) {
  const attention_gather *at = call->attributes;
  int64_t width = tri_attention_key_width(at->heads);
  const tri_row_copy own = copy_of(call, call->rows, tri_attention_width(at->heads), width);
  const tri_row_copy all = copy_of(call, at->all_rows, width, width);
  TRI_KERNEL_CALL(run->queue, copy_rows, &own, NULL, tri_attention_keys(call, at->heads, qkv), NULL,
                  own_part(run, call));
  TRI_TRY(tri_run_all_gather(run, TRI_DOMAIN_CONTEXT_OUTER, call->type, at->begins, run->transfer));
  TRI_KERNEL_CALL(run->queue, copy_rows, &all, NULL, run->transfer, run->outer_order, to->k);
  return TRI_OK;
}

static tri_status scatter_all(tri_run *run, const tri_op_call *call, const gathered *from, void *gradient_qkv) {
  const attention_gather *at = call->attributes;
  int64_t width = tri_attention_key_width(at->heads);
  const tri_row_copy all = copy_of(call, at->all_rows, width, width);
  const tri_row_copy own = copy_of(call, call->rows, width, tri_attention_width(at->heads));
  TRI_KERNEL_CALL(run->queue, copy_rows, &all, run->outer_order, from->gradient_k, NULL, run->transfer);
  TRI_TRY(tri_run_reduce_scatter(run, TRI_DOMAIN_CONTEXT_OUTER, call->type, at->begins, run->transfer));
  TRI_KERNEL_CALL(run->queue, copy_rows, &own, NULL, own_part(run, call), NULL,
                  tri_attention_keys(call, at->heads, gradient_qkv));
  return TRI_OK;
}

/* ---- only the keys that are needed ------------------------------------------------------------------------------- */

/* Sends this rank's keys from the second part of the transfer buffer to the ranks that need them, and receives other
 * ranks' keys into the first part. If `back` is true, gradients go in the reverse direction. */
static tri_status pass_needed(tri_run *run, const tri_op_call *call, bool back) {
  const attention_gather *at = call->attributes;
  int64_t width = tri_attention_key_width(at->heads), *send = run->begins, *receive = send + at->ranks + 1;
  char *received = run->transfer, *sent = received + all_bytes(call);
  for (int64_t r = 0; r <= at->ranks; r++) {
    send[r] = run->send_begins[r] * width;
    receive[r] = run->receive_begins[r] * width;
  }
  if (back) return tri_run_all_to_all(run, TRI_DOMAIN_CONTEXT_OUTER, call->type, receive, received, send, sent);
  return tri_run_all_to_all(run, TRI_DOMAIN_CONTEXT_OUTER, call->type, send, sent, receive, received);
}

static tri_status gather_needed(tri_run *run, const tri_op_call *call, void *qkv, const gathered *to) {
  const attention_gather *at = call->attributes;
  int64_t width = tri_attention_key_width(at->heads);
  char *received = run->transfer, *sent = received + all_bytes(call);
  const tri_row_copy own = copy_of(call, run->send_begins[at->ranks], tri_attention_width(at->heads), width);
  const tri_row_copy all = copy_of(call, run->receive_begins[at->ranks], width, width);
  TRI_KERNEL_CALL(run->queue, copy_rows, &own, run->send_rows, tri_attention_keys(call, at->heads, qkv), NULL, sent);
  TRI_TRY(pass_needed(run, call, false));
  TRI_KERNEL_CALL(run->queue, copy_rows, &all, NULL, received, run->outer_order, to->k);
  return TRI_OK;
}

/* Sums the gradients of each row over the ranks that the row was sent to, in the order of the ranks. */
static tri_status scatter_needed(tri_run *run, const tri_op_call *call, const gathered *from, void *gradient_qkv) {
  const attention_gather *at = call->attributes;
  int64_t width = tri_attention_key_width(at->heads), sends = run->send_begins[at->ranks];
  char *received = run->transfer, *sent = received + all_bytes(call);
  const tri_row_copy all = copy_of(call, run->receive_begins[at->ranks], width, width);
  tri_row_copy own = copy_of(call, call->rows, width, tri_attention_width(at->heads));
  own.from_type = tri_dtype_wide(call->type);
  TRI_KERNEL_CALL(run->queue, copy_rows, &all, run->outer_order, from->gradient_k, NULL, received);
  TRI_TRY(pass_needed(run, call, true));
  TRI_KERNEL_CALL(run->queue, fill_zero, sum_bytes(call), from->sum);
  TRI_KERNEL_CALL(run->queue, embedding_backward, call->type, tri_all_rows(sends), width, run->send_rows, 0, call->rows,
                  sent, from->sum);
  TRI_KERNEL_CALL(run->queue, copy_rows, &own, NULL, from->sum, NULL,
                  tri_attention_keys(call, at->heads, gradient_qkv));
  return TRI_OK;
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

static tri_status gather(tri_run *run, const tri_op_call *call, void *qkv, const gathered *to, tri_attention *p) {
  const attention_gather *at = call->attributes;
  if (!at->masked) return gather_all(run, call, qkv, to);
  p->key_rows = run->receive_begins[at->ranks];
  return gather_needed(run, call, qkv, to);
}

static tri_status op_attention_gather_forward(tri_run *run, const tri_op_call *call) {
  tri_attention p = gather_problem(call);
  const tri_attention_slice *slices = tri_attention_set_slices(run, call, 1, 0, &p);
  const gathered m = lay_out(run, call);
  void *qkv = run->slots[call->inputs[0]];
  TRI_TRY(gather(run, call, qkv, &m, &p));
  TRI_KERNEL_CALL(run->queue, attention_forward, &p, slices, qkv, m.k, m.v, run->slots[call->outputs[0]],
                  call->training ? run->slots[call->outputs[1]] : NULL, m.scratch);
  return TRI_OK;
}

static tri_status op_attention_gather_backward_input(tri_run *run, const tri_op_call *call) {
  const attention_gather *at = call->attributes;
  tri_attention p = gather_problem(call);
  const tri_attention_slice *slices = tri_attention_set_slices(run, call, 1, 0, &p);
  const gathered m = lay_out(run, call);
  void *qkv = run->slots[call->inputs[0]], *gradient_qkv = run->gradients[call->inputs[0]];
  TRI_TRY(gather(run, call, qkv, &m, &p));
  TRI_KERNEL_CALL(run->queue, attention_backward, &p, slices, qkv, m.k, m.v, run->slots[call->outputs[0]],
                  run->slots[call->outputs[1]], run->gradients[call->outputs[0]], gradient_qkv, m.gradient_k,
                  m.gradient_v, m.scratch);
  return at->masked ? scatter_needed(run, call, &m, gradient_qkv) : scatter_all(run, call, &m, gradient_qkv);
}

/* Sets the exchanges with masked documents. The lengths of documents are not known in advance, so this is an estimate:
 * attention_fraction is the length of a token's document as a fraction of the sequence, on average over tokens. A rank
 * receives the keys of a document of that length, except those in its own part of the sequence. */
static void needed_cost(const tri_op_call *call, tri_pass pass, double all, tri_cost *out) {
  const attention_gather *at = call->attributes;
  double ranks = (double)at->ranks, own = 1 / ranks,
         reach = call->attention_fraction > own ? call->attention_fraction - own : 0;
  const tri_cost_exchange needed = {.collective = TRI_COLLECTIVE_ALL_TO_ALL,
                                    .domain = TRI_DOMAIN_CONTEXT_OUTER,
                                    .bytes = reach * all * ranks / (ranks - 1)};
  out->exchanges[0] = needed;
  if (pass == TRI_PASS_BACKWARD_INPUT) out->exchanges[1] = needed;
}

static void op_attention_gather_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const attention_gather *at = call->attributes;
  tri_attention_cost(call, at->heads, at->scores, at->tokens, pass, out);
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return;
  double all = (double)(at->all_rows * tri_attention_key_width(at->heads)) * (double)tri_dtype_bytes(call->type);
  const tri_cost_exchange gather = {
      .collective = TRI_COLLECTIVE_ALL_GATHER, .domain = TRI_DOMAIN_CONTEXT_OUTER, .bytes = all};
  double own = (double)(call->rows * tri_attention_key_width(at->heads)) * (double)tri_dtype_bytes(call->type);
  out->copied =
      2 * (all + own) *
      tri_pass_choose(pass, 1, 2,
                      0); /* keys and values are packed, and put in order; in the backward, so are their gradients */
  if (at->masked) {
    needed_cost(call, pass, all, out);
    return;
  }
  out->exchanges[0] = gather;
  if (pass == TRI_PASS_BACKWARD_INPUT) {
    out->exchanges[1] = gather;
    out->exchanges[1].collective = TRI_COLLECTIVE_REDUCE_SCATTER;
  }
}

static const tri_op op_attention_gather = {
    .name = "attention_gather",
    .keeps_inputs = 1u << 0,
    .keeps_outputs = 1u << 0 | 1u << 1,
    .shape = op_attention_gather_shape,
    .memory = op_attention_gather_memory,
    .transfer = op_attention_gather_transfer_bytes,
    .forward = op_attention_gather_forward,
    .backward_input = op_attention_gather_backward_input,
    .cost = op_attention_gather_cost,
};

static tri_status keep_begins(tri_op_list *list, const tri_op_context *context, int64_t width, const int64_t **out) {
  int64_t *begins = NULL;
  const void *kept = NULL;
  TRI_TRY(tri_alloc("parts of keys", (size_t)context->outer + 1, sizeof *begins, &begins));
  for (int64_t r = 0; r < context->outer; r++) {
    begins[r + 1] = begins[r] + list->batch * tri_op_context_joined_rows(context, r) * width;
  }
  tri_status status = tri_op_list_keep(list, begins, ((size_t)context->outer + 1) * sizeof *begins, &kept);
  tri_free(begins);
  *out = kept;
  return status;
}

tri_status tri_op_attention_gather(tri_op_list *list, tri_heads heads, tri_scores scores, int32_t qkv, int32_t *out) {
  const tri_op_context context = tri_op_list_context(list);
  attention_gather at = {.heads = heads,
                         .scores = scores,
                         .masked = context.masked,
                         .tokens = context.tokens,
                         .all_rows = list->batch * context.tokens,
                         .ranks = context.outer,
                         .rank = context.outer_rank};
  TRI_TRY(keep_begins(list, &context, tri_attention_key_width(heads), &at.begins));
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_attention_gather, &at, sizeof at, &call));
  call.inputs[0] = qkv;
  return tri_op_list_append_first(list, &call, list->training ? 2 : 1, out);
}
