/* Numbers of pairs (row, j) per tile and group (kernels/groups.c), for the modules that count them. */
#ifndef TRI_DEVICE_GPU_GROUPS_H
#define TRI_DEVICE_GPU_GROUPS_H

#include "device/gpu/internal.h"

typedef struct tri_gpu_pairs {
  tri_rows rows;
  int64_t chosen, groups; /* pairs per row; number of groups */
} tri_gpu_pairs;

/* Arrays in scratch memory: counts[groups + 1, tiles], set for tiles that have pairs, and totals[groups + 1], which the
 * caller may use. */
typedef struct tri_gpu_group_counts {
  int32_t *counts, *totals;
  int64_t tiles;
} tri_gpu_group_counts;

/* Computes counts, and, if `keys` is not NULL, the pairs of each tile in order. */
tri_status tri_gpu_count_groups(tri_queue *queue, tri_dtype type, const tri_gpu_pairs *pairs, const int32_t *experts,
                                int32_t *keys, tri_gpu_group_counts *out);

#endif
