/* Launches the kernels of kernels/logit_query.c. */
#include "device/gpu/internal.h"

static tri_status gpu_query_logits(tri_queue *queue, tri_dtype type, int64_t count, int64_t vocabulary, int64_t ld,
                                   const void *logits, const tri_logit_query *queries, int32_t *ids, double *numbers) {
  const tri_gpu_shape a_block_each = {.x = count};
  TRI_GPU_LAUNCH(query_logits, type, a_block_each, .logits = logits, .queries = queries, .ids = ids, .numbers = numbers,
                 .vocabulary = vocabulary, .ld = ld);
  return TRI_OK;
}

void tri_gpu_fill_logit_query(tri_device_kernels *out) { out->query_logits = gpu_query_logits; }
