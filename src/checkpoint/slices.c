#include "checkpoint/slices.h"

bool tri_slice_next(const tri_checkpoint_slice *slice, tri_slice_run *run) {
  run->at += run->count;
  if (run->at >= slice->count) return false;
  int64_t left = slice->count - run->at;
  if (slice->part == NULL) { /* a whole tensor */
    run->global = slice->first + run->at;
    run->count = left;
    return true;
  }
  int64_t length = tri_parameter_run_length(slice->part), local = slice->first + run->at;
  int64_t number = local / length, within = local % length;
  run->global = tri_parameter_run(slice->part, number) + within;
  run->count = length - within < left ? length - within : left;
  return true;
}
