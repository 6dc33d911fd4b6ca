/* How many of each tile of pairs (row, j) a group has (kernels/groups.c), for the kernels that count them. */
#ifndef TRI_DEVICE_GPU_GROUPS_H
#define TRI_DEVICE_GPU_GROUPS_H

#include "device/gpu/internal.h"

typedef struct tri_gpu_pairs {
  tri_rows rows;
  int64_t chosen, groups; /* pairs to a row; groups that they may be of */
} tri_gpu_pairs;

/* In scratch memory: counts[groups + 1, tiles], of those tiles that have pairs, and room for totals[groups + 1]. */
typedef struct tri_gpu_group_counts {
  int32_t *counts, *totals;
  int64_t tiles;
} tri_gpu_group_counts;

/* Fills counts, and `keys` with the pairs of each tile in order, where it is not NULL. */
tri_status tri_gpu_count_groups(tri_queue *queue, tri_dtype type, const tri_gpu_pairs *pairs, const int32_t *experts,
                                int32_t *keys, tri_gpu_group_counts *out);

#endif
