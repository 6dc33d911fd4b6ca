/* How a sum down the columns of many rows is cut into two stages (kernels/columns.h), for the kernels that make one. */
#ifndef TRI_DEVICE_GPU_COLUMNS_H
#define TRI_DEVICE_GPU_COLUMNS_H

#include "device/gpu/internal.h"

typedef struct tri_gpu_columns {
  int64_t width, sums;         /* that stage 1 writes beside each other for a column */
  int64_t rows, groups;        /* room, in rows; `groups` of them to one of a tri_rows */
  int64_t across, strips;      /* threads side by side, and blocks */
  int64_t slab_rows, slabs;    /* of all rows */
  int64_t at_once, first_slab; /* slabs of a launch, and where it begins */
} tri_gpu_columns;

/* TRI_UNSUPPORTED if the scratch memory does not hold a row. */
tri_status tri_gpu_columns_create(tri_dtype type, tri_rows rows, int64_t groups, int64_t width, int64_t sums,
                                  tri_gpu_columns *out);
/* Of the launch at hand: slabs, and what stage 1 is told of them. */
int64_t tri_gpu_columns_slabs(const tri_gpu_columns *columns);
column_slabs tri_gpu_columns_cut(const tri_gpu_columns *columns);

/* Stage 2 of the launch at hand: out (+)= sum number `which` of the slabs that lie in the scratch memory. */
tri_status tri_gpu_columns_total(tri_queue *queue, const tri_gpu_columns *columns, tri_dtype type, tri_rows rows,
                                 int64_t which, void *out, bool accumulate);
/* Goes on to the next launch, and says whether there is one. */
bool tri_gpu_columns_next(tri_gpu_columns *columns);

#endif
