/* Queries of rows of logits: kernels/logit_query.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_LOGIT_QUERY_H
#define TRI_DEVICE_GPU_KERNELS_LOGIT_QUERY_H

#include "device/logit_query.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_logit_query(K) K(query_logits, 256)

/* One range per thread. */
enum { query_logits_threads = (int)TRI_LOGIT_RANGES };

/* One block per query. */
typedef struct query_logits_arguments {
  const void *logits;
  const tri_logit_query *queries;
  int32_t *ids;
  double *numbers;
  int64_t vocabulary, ld;
} query_logits_arguments;

#endif
