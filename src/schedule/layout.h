/* How one model is laid over many ranks. */
#ifndef TRI_SCHEDULE_LAYOUT_H
#define TRI_SCHEDULE_LAYOUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_schedule_kind {
  TRI_SCHEDULE_GPIPE,
  TRI_SCHEDULE_1F1B,
  TRI_SCHEDULE_INTERLEAVED,
  TRI_SCHEDULE_ZERO_BUBBLE,
} tri_schedule_kind;

typedef enum tri_recompute { TRI_RECOMPUTE_NONE, TRI_RECOMPUTE_SELECTIVE, TRI_RECOMPUTE_FULL } tri_recompute;

typedef struct tri_layout {
  int64_t tensor, pipeline, context, data, expert; /* data 0 is "auto" until resolved */
  int64_t virtual_stages;
  tri_schedule_kind schedule;
  bool sequence_parallel;
  int64_t zero;
  tri_recompute recompute;
  int64_t micro_batch; /* sequences */
} tri_layout;

#endif
