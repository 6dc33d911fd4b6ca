/* Causal self-attention, computed exactly, in tiles, so that no [positions, positions] matrix is ever in memory (Dao et
 * al. 2022).
 *
 * In training and evaluation q, k and v are read from the input. In generation the new keys and values are appended to
 * pages of the run's cache, and attention reads keys and values from these pages. */
#include "ops/attention.h"
#include "device/kernels.h"
#include "ops/context.h"

#include <math.h>

typedef struct attention {
  tri_heads heads;
  tri_scores scores;
  int64_t positions; /* maximum length of a sequence in generation */
} attention;

/* ---- over a whole sequence --------------------------------------------------------------------------------------- */

static tri_status op_attention_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                     tri_shape outputs[TRI_OP_OUTPUTS]) {
  const attention *at = call->attributes;
  return tri_attention_shape(call, at->heads, &inputs[0], outputs);
}

static tri_status op_attention_memory(const tri_op_call *call, const tri_device_description *device,
                                      tri_op_memory *out) {
  const attention *at = call->attributes;
  tri_attention p = tri_attention_of(call, at->heads, at->scores, call->rows);
  if (!call->training) p.most_keys = at->positions;
  p.paged = call->generating;
  TRI_TRY(device->attention_workspace(device, &p, &out->workspace_bytes));
  return TRI_OK;
}

/* Sets the byte offsets of k and v in a row. */
static void offsets(const tri_op_call *call, size_t *k, size_t *v) {
  const attention *at = call->attributes;
  *k = (size_t)(at->heads.heads * at->heads.head_dim) * tri_dtype_bytes(call->type);
  *v = *k + (size_t)(at->heads.kv_heads * at->heads.head_dim) * tri_dtype_bytes(call->type);
}

/* Appends the rows' keys and values to the pages of the cache, and computes attention of their queries on these
 * pages. */
static tri_status attend_pages(tri_run *run, const tri_op_call *call, tri_attention *p,
                               const tri_attention_slice *slices, const char *q) {
  const tri_kv_cache *cache = run->cache;
  const int64_t elements = cache->pages * TRI_PAGE_ROWS * p->kv_heads * p->head_dim;
  size_t k_offset = 0, v_offset = 0;
  offsets(call, &k_offset, &v_offset);
  char *keys = cache->layers[call->layer], *values = keys + (size_t)elements * tri_dtype_bytes(call->type);
  p->paged = true;
  p->key_rows = cache->table_pages * TRI_PAGE_ROWS;
  p->most_queries = cache->most_rows;
  p->most_keys = cache->positions;
  TRI_KERNEL_CALL(run->queue, append_keys, p, run->cache_rows, q + k_offset, q + v_offset, keys, values);
  TRI_KERNEL_CALL(run->queue, attention_pages, p, slices, run->pages, q, keys, values, run->slots[call->outputs[0]],
                  run->workspace);
  return TRI_OK;
}

static tri_status op_attention_forward(tri_run *run, const tri_op_call *call) {
  const attention *at = call->attributes;
  tri_attention p = tri_attention_of(call, at->heads, at->scores, tri_run_rows(run, call));
  const tri_attention_slice *slices = tri_attention_set_slices(run, call, 1, 0, &p);
  const char *q = run->slots[call->inputs[0]];
  if (run->cache != NULL) return attend_pages(run, call, &p, slices, q);
  size_t k_offset = 0, v_offset = 0;
  offsets(call, &k_offset, &v_offset);
  void *log_sum_exp = call->training ? run->slots[call->outputs[1]] : NULL;
  TRI_KERNEL_CALL(run->queue, attention_forward, &p, slices, q, q + k_offset, q + v_offset,
                  run->slots[call->outputs[0]], log_sum_exp, run->workspace);
  return TRI_OK;
}

static tri_status op_attention_backward_input(tri_run *run, const tri_op_call *call) {
  const attention *at = call->attributes;
  tri_attention p = tri_attention_of(call, at->heads, at->scores, tri_run_rows(run, call));
  const tri_attention_slice *slices = tri_attention_set_slices(run, call, 1, 0, &p);
  const char *q = run->slots[call->inputs[0]];
  char *gradient_q = run->gradients[call->inputs[0]];
  size_t k_offset = 0, v_offset = 0;
  offsets(call, &k_offset, &v_offset);
  TRI_KERNEL_CALL(run->queue, attention_backward, &p, slices, q, q + k_offset, q + v_offset,
                  run->slots[call->outputs[0]], run->slots[call->outputs[1]], run->gradients[call->outputs[0]],
                  gradient_q, gradient_q + k_offset, gradient_q + v_offset, run->workspace);
  return TRI_OK;
}

static void op_attention_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const attention *at = call->attributes;
  tri_attention_cost(call, at->heads, at->scores, call->sequence, pass, out);
}

static const tri_op op_attention = {
    .name = "attention",
    .keeps_inputs = 1u << 0,
    .keeps_outputs = 1u << 0 | 1u << 1,
    .shape = op_attention_shape,
    .memory = op_attention_memory,
    .forward = op_attention_forward,
    .backward_input = op_attention_backward_input,
    .cost = op_attention_cost,
};

static tri_status append_whole(tri_op_list *list, tri_heads heads, tri_scores scores, int64_t positions, int32_t qkv,
                               int32_t *out) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_attention, &(attention){heads, scores, positions}, sizeof(attention), &call));
  call.inputs[0] = qkv;
  return tri_op_list_append_first(list, &call, list->training ? 2 : 1, out);
}

tri_status tri_op_attention(tri_op_list *list, tri_heads all, tri_scores scores, int64_t positions, int32_t qkv,
                            int32_t *out) {
  const tri_op_context context = tri_op_list_context(list);
  tri_heads heads = all;
  if (!(scores.scale >= 0 && isfinite(scores.scale) && scores.soft_cap >= 0 && isfinite(scores.soft_cap))) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "attention with a scale of %g and a cap of %g: use numbers above 0, or 0 for 1 / sqrt(head_dim) and "
        "for no cap",
        scores.scale, scores.soft_cap);
  }
  if (context.inner > 1) TRI_TRY(tri_op_split_heads(list, &heads, qkv, &qkv));
  if (tri_op_context_rings(&context)) {
    TRI_TRY(tri_op_attention_ring(list, heads, scores, qkv, out));
  } else if (tri_op_context_gathers(&context)) {
    TRI_TRY(tri_op_attention_gather(list, heads, scores, qkv, out));
  } else {
    TRI_TRY(append_whole(list, heads, scores, positions, qkv, out));
  }
  if (context.inner > 1) TRI_TRY(tri_op_join_heads(list, all, *out, out));
  return TRI_OK;
}
