/* Launches the two stages of a sum down the columns of many rows (kernels/columns.h). */
#ifndef TRI_DEVICE_GPU_COLUMNS_H
#define TRI_DEVICE_GPU_COLUMNS_H

#include "device/gpu/internal.h"

typedef struct tri_gpu_columns {
  int64_t width, sums;         /* number of columns; number of sums that stage 1 computes for each column */
  int64_t rows, groups;        /* maximum number of rows to sum; number of rows to sum for each row of the tri_rows */
  int64_t across, strips;      /* threads of a block along columns; blocks along columns */
  int64_t slab_rows, slabs;    /* number of rows of a slab; number of slabs of all rows */
  int64_t at_once, first_slab; /* maximum number of slabs of a launch; index of the first slab of the current launch */
} tri_gpu_columns;

/* Plans the sum. TRI_UNSUPPORTED if the scratch memory cannot hold the sums of one slab. */
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
