/* Launches the two stages of a sum down the columns of many rows (kernels/columns.h). */
#ifndef TRI_DEVICE_GPU_COLUMNS_H
#define TRI_DEVICE_GPU_COLUMNS_H

#include "device/gpu/internal.h"

typedef struct tri_gpu_columns {
  int64_t width, sums;      /* width: number of columns. sums: number of sums that stage 1 computes for each column */
  int64_t rows, groups;     /* rows: maximum number of summed rows. groups: summed rows for each row that the caller's
                               tri_rows counts */
  int64_t across, strips;   /* across: threads of a block along columns. strips: blocks along columns */
  int64_t slab_rows, slabs; /* slab_rows: rows of a slab. slabs: number of slabs of all rows */
  int64_t at_once, first_slab; /* at_once: maximum number of slabs of a launch. first_slab: index of the current
                                  launch's first slab */
} tri_gpu_columns;

/* Plans the sum. Fails with TRI_UNSUPPORTED if the scratch memory cannot hold the sums of one slab. */
tri_status tri_gpu_columns_create(tri_dtype type, tri_rows rows, int64_t groups, int64_t width, int64_t sums,
                                  tri_gpu_columns *out);
/* Return the number of slabs of the current launch, and the arguments of stage 1 for them. */
int64_t tri_gpu_columns_slabs(const tri_gpu_columns *columns);
column_slabs tri_gpu_columns_cut(const tri_gpu_columns *columns);

/* Queues stage 2 of the current launch: sets out[width] to the total of sum number `which` over the slabs in the
 * scratch memory, or adds the total if `accumulate` is true. Launches after the first always add. */
tri_status tri_gpu_columns_total(tri_queue *queue, const tri_gpu_columns *columns, tri_dtype type, tri_rows rows,
                                 int64_t which, void *out, bool accumulate);
/* Advances to the next launch. Returns false if there is no further launch. */
bool tri_gpu_columns_next(tri_gpu_columns *columns);

#endif
