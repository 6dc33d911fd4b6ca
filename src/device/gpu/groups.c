/* Launches the kernels of kernels/groups.c. */
#include "device/gpu/groups.h"

/* Puts the counts at the start of the scratch memory, and reserves `totals` after them. Fails with TRI_UNSUPPORTED if
 * there are too many rows, experts or groups. */
tri_status tri_gpu_count_groups(tri_queue *queue, tri_dtype type, const tri_gpu_pairs *pairs, const int32_t *experts,
                                int32_t *keys, tri_gpu_group_counts *out) {
  const int64_t all = pairs->rows.capacity * pairs->chosen, tiles = (all + GROUPS_TILE - 1) / GROUPS_TILE;
  const int64_t words = (pairs->groups + 1) * (tiles + 1);
  if (pairs->groups > GROUPS_MOST || all > INT32_MAX || words > TRI_GPU_SCRATCH_BYTES / (int64_t)sizeof(int32_t)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%lld rows of %lld experts each are more than a GPU brings into %lld groups at once; smaller "
                    "micro-batches ask for less",
                    (long long)pairs->rows.capacity, (long long)pairs->chosen, (long long)pairs->groups);
  }
  int32_t *counts = tri_gpu_scratch(queue);
  TRI_GPU_LAUNCH(groups_sort, type, ((tri_gpu_shape){.x = tiles}), .experts = experts, .keys = keys, .counts = counts,
                 .capacity = pairs->rows.capacity, .chosen = pairs->chosen, .groups = pairs->groups, .tiles = tiles,
                 .count = pairs->rows.count);
  *out = (tri_gpu_group_counts){.counts = counts, .totals = counts + (pairs->groups + 1) * tiles, .tiles = tiles};
  return TRI_OK;
}

/* Sorts rows into groups. Kernels on row numbers do not depend on a type, so the kernels of the fp32 module are used.
 * `places` temporarily holds the keys of the tiles. */
static tri_status gpu_group_rows(tri_queue *queue, tri_rows rows, int64_t chosen, int64_t experts_count,
                                 const int32_t *experts, int32_t *begins, int32_t *order, int32_t *sources,
                                 int32_t *places) {
  const tri_gpu_pairs pairs = {rows, chosen, experts_count};
  tri_gpu_group_counts table = {0};
  TRI_TRY(tri_gpu_count_groups(queue, TRI_FP32, &pairs, experts, places, &table));
  TRI_GPU_LAUNCH(groups_scan, TRI_FP32, ((tri_gpu_shape){.x = experts_count + 1}), .counts = table.counts,
                 .totals = table.totals, .capacity = rows.capacity, .chosen = chosen, .tiles = table.tiles,
                 .count = rows.count);
  TRI_GPU_LAUNCH(groups_begins, TRI_FP32, ((tri_gpu_shape){.x = 1}), .totals = table.totals, .begins = begins,
                 .groups = experts_count);
  TRI_GPU_LAUNCH(groups_place, TRI_FP32, ((tri_gpu_shape){.x = table.tiles}), .begins = begins, .counts = table.counts,
                 .order = order, .sources = sources, .places = places, .groups = experts_count,
                 .capacity = rows.capacity, .chosen = chosen, .tiles = table.tiles, .count = rows.count);
  return TRI_OK;
}

static tri_status gpu_sum_rows(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t terms, int64_t width,
                               const int32_t *places, const void *in, void *out, bool accumulate) {
  const int64_t vector = 16 / (int64_t)tri_dtype_bytes(type);
  TRI_GPU_LAUNCH(sum_rows, type, tri_gpu_shape_of(rows.capacity * ((width + vector - 1) / vector), sum_rows_threads),
                 .places = places, .in = in, .out = out, .capacity = rows.capacity, .terms = terms, .width = width,
                 .count = rows.count, .accumulate = accumulate);
  return TRI_OK;
}

void tri_gpu_fill_groups(tri_device_kernels *out) {
  out->group_rows = gpu_group_rows;
  out->sum_rows = gpu_sum_rows;
}
