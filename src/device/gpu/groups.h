/* Counts pairs per tile and group (kernels/groups.c). A pair (row, j) is choice j of a row; its group is an expert. */
#ifndef TRI_DEVICE_GPU_GROUPS_H
#define TRI_DEVICE_GPU_GROUPS_H

#include "device/gpu/internal.h"

typedef struct tri_gpu_pairs {
  tri_rows rows;
  int64_t chosen, groups; /* chosen: pairs per row. groups: number of groups */
} tri_gpu_pairs;

/* Arrays in scratch memory. counts[groups + 1, tiles] are set only for tiles that have pairs. totals[groups + 1] are
 * uninitialised; the caller sets them. Index `groups` of both is for pairs without a group. */
typedef struct tri_gpu_group_counts {
  int32_t *counts, *totals;
  int64_t tiles;
} tri_gpu_group_counts;

/* Queues the computation of counts, and, if `keys` is not NULL, of the sorted keys of each tile
 * (groups_sort_arguments). Fails with TRI_UNSUPPORTED for 2^31 pairs or more, for more than GROUPS_MOST groups, or if
 * the scratch memory is too small for the counts. */
tri_status tri_gpu_count_groups(tri_queue *queue, tri_dtype type, const tri_gpu_pairs *pairs, const int32_t *experts,
                                int32_t *keys, tri_gpu_group_counts *out);

#endif
