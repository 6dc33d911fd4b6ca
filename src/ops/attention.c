/* Causal self-attention, exact, in tiles that never hold positions x positions (Dao et al. 2022).
 *
 * Each row of the input holds q of H heads, then k and v of G heads. Training reads all three from the input. In
 * generation the new keys and values are appended to the run's cache and the queries read the whole of that. The log of
 * the sum of exponentials of each query's scores is kept, so that the backward can form the probabilities again. */
#include "ops/ops.h"
#include "ops/run.h"

#include <math.h>

typedef struct attention {
  tri_heads heads;
  int64_t positions; /* how long a sequence may grow in generation */
} attention;

static int64_t row_width(tri_heads heads) { return (heads.heads + 2 * heads.kv_heads) * heads.head_dim; }

static tri_status op_attention_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                     tri_shape outputs[TRI_OP_OUTPUTS]) {
  const attention *at = call->attributes;
  if (inputs[0].width != row_width(at->heads)) {
    return tri_fail(TRI_INTERNAL, "attention takes width %ld and was given %ld", (long)row_width(at->heads),
                    (long)inputs[0].width);
  }
  outputs[0] = (tri_shape){inputs[0].rows, at->heads.heads * at->heads.head_dim, call->type};
  outputs[1] = (tri_shape){inputs[0].rows, at->heads.heads, tri_dtype_wide(call->type)};
  return TRI_OK;
}

/* Of so many rows, in slices none of which is longer than a sequence. */
static tri_attention problem(const tri_op_call *call, int64_t rows, int64_t num_slices, int64_t sequence) {
  const attention *at = call->attributes;
  const int64_t row = row_width(at->heads), head = at->heads.head_dim;
  return (tri_attention){
      .type = call->type,
      .out_type = call->type,
      .gradient_type = call->type,
      .heads = at->heads.heads,
      .kv_heads = at->heads.kv_heads,
      .head_dim = head,
      .scale = 1.0 / sqrt((double)head),
      .query_rows = rows,
      .key_rows = rows,
      .q_row = row,
      .q_head = head,
      .k_row = row,
      .k_head = head,
      .v_row = row,
      .v_head = head,
      .out_row = at->heads.heads * head,
      .out_head = head,
      .num_slices = num_slices,
      .most_queries = sequence,
      .most_keys = sequence,
  };
}

static tri_status op_attention_memory(const tri_op_call *call, const tri_device_description *device,
                                      tri_op_memory *out) {
  const attention *at = call->attributes;
  tri_attention p = problem(call, call->rows, call->most_slices, call->sequence);
  if (!call->training) p.most_keys = at->positions;
  TRI_TRY(device->attention_workspace(device, &p, &out->workspace_bytes));
  return TRI_OK;
}

/* Byte offsets of k and v in a row. */
static void offsets(const tri_op_call *call, size_t *k, size_t *v) {
  const attention *at = call->attributes;
  *k = (size_t)(at->heads.heads * at->heads.head_dim) * tri_dtype_bytes(call->type);
  *v = *k + (size_t)(at->heads.kv_heads * at->heads.head_dim) * tri_dtype_bytes(call->type);
}

/* From rows `stride` bytes apart to dense ones. */
static tri_status copy_rows(const tri_run *run, int64_t row_bytes, int64_t stride, const char *from, char *to) {
  tri_copy copy = {.to = to,
                   .from = from,
                   .to_side = TRI_SIDE_DEVICE,
                   .from_side = TRI_SIDE_DEVICE,
                   .rows = (size_t)run->sequence,
                   .row_bytes = (size_t)row_bytes,
                   .to_stride = (size_t)row_bytes,
                   .from_stride = (size_t)stride};
  return tri_queue_copy(run->queue, &copy);
}

/* Copies the new keys and values behind those of earlier positions and points the problem at the cache. */
static tri_status extend_cache(tri_run *run, const tri_op_call *call, tri_attention *p, const char **k,
                               const char **v) {
  tri_kv_cache *cache = run->cache;
  if (cache->past + run->sequence > cache->capacity) {
    return tri_fail(TRI_BAD_CONFIG, "%ld positions do not fit into a cache of %ld", (long)(cache->past + run->sequence),
                    (long)cache->capacity);
  }
  int64_t width = p->kv_heads * p->head_dim;
  size_t element = tri_dtype_bytes(call->type);
  char *keys = cache->layers[call->layer];
  char *values = keys + (size_t)(run->batch * cache->capacity * width) * element;
  for (int64_t b = 0; b < run->batch; b++) {
    size_t from = (size_t)(b * run->sequence * p->k_row) * element;
    size_t to = (size_t)((b * cache->capacity + cache->past) * width) * element;
    TRI_TRY(copy_rows(run, width * (int64_t)element, p->k_row * (int64_t)element, *k + from, keys + to));
    TRI_TRY(copy_rows(run, width * (int64_t)element, p->k_row * (int64_t)element, *v + from, values + to));
  }
  p->most_keys = cache->past + run->sequence;
  p->key_rows = run->batch * cache->capacity;
  p->k_row = p->v_row = width;
  *k = keys;
  *v = values;
  return TRI_OK;
}

static tri_status op_attention_forward(tri_run *run, const tri_op_call *call) {
  tri_attention p = problem(call, run->batch * run->sequence, run->num_slices, run->sequence);
  const char *q = run->slots[call->inputs[0]];
  size_t k_offset = 0, v_offset = 0;
  offsets(call, &k_offset, &v_offset);
  const char *k = q + k_offset;
  const char *v = q + v_offset;
  if (run->cache != NULL) TRI_TRY(extend_cache(run, call, &p, &k, &v));
  void *log_sum_exp = call->training ? run->slots[call->outputs[1]] : NULL;
  TRI_KERNEL_CALL(run->queue, attention_forward, &p, run->slices, q, k, v, run->slots[call->outputs[0]], log_sum_exp,
                  run->workspace);
  return TRI_OK;
}

static tri_status op_attention_backward_input(tri_run *run, const tri_op_call *call) {
  tri_attention p = problem(call, run->batch * run->sequence, run->num_slices, run->sequence);
  const char *q = run->slots[call->inputs[0]];
  char *gradient_q = run->gradients[call->inputs[0]];
  size_t k_offset = 0, v_offset = 0;
  offsets(call, &k_offset, &v_offset);
  TRI_KERNEL_CALL(run->queue, attention_backward, &p, run->slices, q, q + k_offset, q + v_offset,
                  run->slots[call->outputs[0]], run->slots[call->outputs[1]], run->gradients[call->outputs[0]],
                  gradient_q, gradient_q + k_offset, gradient_q + v_offset, run->workspace);
  return TRI_OK;
}

/* Products over the causal half, as far as masks leave it; the backward forms the scores again. */
static void op_attention_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const attention *at = call->attributes;
  *out = (tri_cost){0};
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return;
  double pairs = call->area * (double)call->rows * ((double)call->sequence + 1.0) / 2.0;
  double width = (double)(at->heads.heads * at->heads.head_dim);
  double products = tri_pass_choose(pass, 2.0, 5.0, 0);
  out->flops = products * 2.0 * pairs * width;
  out->scores = pairs * (double)at->heads.heads;
  out->rows = out->columns = (double)call->sequence;
  out->inner = (double)at->heads.head_dim;
  out->products = (double)call->rows / (double)call->sequence * (double)at->heads.heads;
  out->vector_flops = pairs * (double)at->heads.heads * 8.0;
  double row = (double)row_width(at->heads) + width;
  out->bytes = (double)call->rows * row * (double)tri_dtype_bytes(call->type) * tri_pass_choose(pass, 1.0, 2.0, 0);
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

tri_status tri_op_attention(tri_op_list *list, tri_heads heads, int64_t positions, int32_t qkv, int32_t *out) {
  const void *at = NULL;
  TRI_TRY(tri_op_list_keep(list, &(attention){heads, positions}, sizeof(attention), &at));
  tri_op_call call = tri_op_call_of(&op_attention, at);
  call.inputs[0] = qkv;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, list->training ? 2 : 1, outputs));
  *out = outputs[0];
  return TRI_OK;
}
