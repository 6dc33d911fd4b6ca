/* Queries of rows of logits: kernels/logit_query.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_LOGIT_QUERY_H
#define TRI_DEVICE_GPU_KERNELS_LOGIT_QUERY_H

#include "device/gpu/kernels/threads.h"
#include "device/logit_query.h"

#include <stdint.h>

/* One range per thread. */
#define TRI_GPU_KERNELS_logit_query(K) K(query_logits, (int)TRI_LOGIT_RANGES)
enum { TRI_GPU_KERNELS_logit_query(TRI_GPU_THREADS) };

/* One block per query. */
typedef struct query_logits_arguments {
  const void *logits;
  const tri_logit_query *queries;
  int32_t *ids;
  double *numbers;
  int64_t vocabulary, ld;
} query_logits_arguments;

#endif
