/* Plans the two stages of sums down columns (kernels/columns.h), and launches the second one. The sums of stage 1 are
 * in the queue's scratch memory; if there is no room for those of all slabs, the slabs are divided into several
 * launches of both stages. */
#include "device/gpu/columns.h"

/* MOST_ACROSS: largest number of threads along columns. ROWS_EACH: rows of a slab for each thread along rows. */
enum { THREADS = column_sum_threads, MOST_ACROSS = 32, ROWS_EACH = 16 };

/* Divides columns into strips and rows into slabs. The division depends only on the type and the width, so the sums of
 * existing rows do not depend on the capacity for further rows. Fails with TRI_UNSUPPORTED if there are too many
 * columns. */
tri_status tri_gpu_columns_create(tri_dtype type, tri_rows rows, int64_t groups, int64_t width, int64_t sums,
                                  tri_gpu_columns *out) {
  const int64_t vector = 16 / (int64_t)tri_dtype_bytes(type);
  const int64_t slab_bytes = width * sums * (int64_t)tri_dtype_bytes(tri_dtype_wide(type));
  tri_gpu_columns all = {.width = width, .sums = sums, .rows = rows.capacity * groups, .groups = groups, .across = 1};
  while (all.across < MOST_ACROSS && all.across * vector < width) all.across *= 2;
  all.strips = (width + all.across * vector - 1) / (all.across * vector);
  all.slab_rows = THREADS / all.across * ROWS_EACH;
  all.slabs = (all.rows + all.slab_rows - 1) / all.slab_rows;
  if (slab_bytes > TRI_GPU_SCRATCH_BYTES) {
    return tri_fail(TRI_UNSUPPORTED, "%lld columns are more than a GPU adds up: there may be %lld", (long long)width,
                    (long long)(width * TRI_GPU_SCRATCH_BYTES / slab_bytes));
  }
  all.at_once = width == 0 ? 1 : TRI_GPU_SCRATCH_BYTES / slab_bytes;
  *out = all;
  return TRI_OK;
}

int64_t tri_gpu_columns_slabs(const tri_gpu_columns *all) {
  const int64_t left = all->slabs - all->first_slab;
  return left < all->at_once ? left : all->at_once;
}

column_slabs tri_gpu_columns_cut(const tri_gpu_columns *all) {
  return (column_slabs){all->slab_rows, all->first_slab, all->across};
}

tri_status tri_gpu_columns_total(tri_queue *queue, const tri_gpu_columns *all, tri_dtype type, tri_rows rows,
                                 int64_t which, void *out, bool accumulate) {
  const size_t bytes = tri_dtype_bytes(tri_dtype_wide(type));
  const char *slabs = tri_gpu_scratch(queue);
  TRI_GPU_LAUNCH(column_totals, type, ((tri_gpu_shape){.x = (all->width + COLUMN_TOTALS - 1) / COLUMN_TOTALS}),
                 .slabs = slabs + (size_t)(which * all->width) * bytes, .out = out, .capacity = rows.capacity,
                 .groups = all->groups, .count = rows.count, .slab_rows = all->slab_rows, .first_slab = all->first_slab,
                 .num_slabs = tri_gpu_columns_slabs(all), .width = all->width, .stride = all->width * all->sums,
                 .accumulate = accumulate || all->first_slab > 0);
  return TRI_OK;
}

bool tri_gpu_columns_next(tri_gpu_columns *all) {
  all->first_slab += all->at_once;
  return all->first_slab < all->slabs;
}
