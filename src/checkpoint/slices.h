/* What one rank holds of a global tensor: some elements of its part of a parameter. Used by the files of this folder
 * only. */
#ifndef TRI_CHECKPOINT_SLICES_H
#define TRI_CHECKPOINT_SLICES_H

#include "checkpoint/checkpoint.h"

/* The next run of a slice's elements that are neighbours in the global tensor, too. */
typedef struct tri_slice_run {
  int64_t at;     /* in the slice; the walk begins at 0 */
  int64_t global; /* the first one's number in the global tensor */
  int64_t count;
} tri_slice_run;

/* run = {0} begins; false when there is nothing more. */
bool tri_slice_next(const tri_checkpoint_slice *slice, tri_slice_run *run);

/* A slice's data piece by piece: where it lies, or in a copy where the host does not see it. Zeroed to begin; release
 * with tri_slice_extent_release. */
typedef struct tri_slice_extent {
  char *copy; /* TRI_SLICE_COPY_BYTES; NULL while none was needed */
} tri_slice_extent;

enum { TRI_SLICE_COPY_BYTES = 1 << 20 };

/* *count, at most as many as were asked for, elements from `at` on, in host memory until the next call. */
tri_status tri_slice_read(tri_slice_extent *window, const tri_checkpoint_slice *slice, size_t element, int64_t at,
                          int64_t *count, const void **out);
/* Where *count elements from `at` on are to be written, in host memory; tri_slice_written when they are. */
tri_status tri_slice_write(tri_slice_extent *window, const tri_checkpoint_slice *slice, size_t element, int64_t at,
                           int64_t *count, void **out);
tri_status tri_slice_written(const tri_slice_extent *window, const tri_checkpoint_slice *slice, size_t element,
                             int64_t at, int64_t count);
void tri_slice_extent_release(tri_slice_extent *window);

#endif
