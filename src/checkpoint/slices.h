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

#endif
