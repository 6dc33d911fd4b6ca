/* Iteration over the elements of a global tensor that one rank holds. Used by the files of this folder and by
 * weights/move.c. */
#ifndef TRI_CHECKPOINT_SLICES_H
#define TRI_CHECKPOINT_SLICES_H

#include "checkpoint/checkpoint.h"

/* A run of elements that are contiguous both in a slice and in the global tensor. */
typedef struct tri_slice_run {
  int64_t at;     /* index of its first element in the slice */
  int64_t global; /* index of its first element in the global tensor */
  int64_t count;
} tri_slice_run;

/* Moves to the next run; {0} starts the iteration. Returns false after the last run. */
bool tri_slice_next(const tri_checkpoint_slice *slice, tri_slice_run *run);

/* Access to a slice's data piece by piece: in place, or through a copy if the data are in device memory. Begins as {0};
 * release with tri_slice_extent_release. */
typedef struct tri_slice_extent {
  char *copy; /* buffer of TRI_SLICE_COPY_BYTES bytes, allocated when first needed; NULL before */
} tri_slice_extent;

enum { TRI_SLICE_COPY_BYTES = 1 << 20 };

/* Sets *out to the elements from `at` on, in host memory, valid until the next call, and lowers *count to their number.
 * `element`: bytes of one element. */
tri_status tri_slice_read(tri_slice_extent *window, const tri_checkpoint_slice *slice, size_t element, int64_t at,
                          int64_t *count, const void **out);
/* Sets *out to memory for the elements from `at` on, and lowers *count to their number. The caller writes the elements
 * to *out, and then calls tri_slice_written with the same `at` and *count. */
tri_status tri_slice_write(tri_slice_extent *window, const tri_checkpoint_slice *slice, size_t element, int64_t at,
                           int64_t *count, void **out);
tri_status tri_slice_written(const tri_slice_extent *window, const tri_checkpoint_slice *slice, size_t element,
                             int64_t at, int64_t count);
void tri_slice_extent_release(tri_slice_extent *window);

#endif
