#include "checkpoint/slices.h"

#include "base/memory.h"

bool tri_slice_next(const tri_checkpoint_slice *slice, tri_slice_run *run) {
  run->at += run->count;
  if (run->at >= slice->count) return false;
  int64_t left = slice->count - run->at;
  if (slice->part == NULL) { /* the slice is of a whole tensor */
    run->global = slice->first + run->at;
    run->count = left;
    return true;
  }
  tri_parameter part = *slice->part;
  if (slice->own_tensor) part.within = (tri_rows_within){.rows = 0};
  if (slice->own_tensor) part.stacked = (tri_stacked){.as = TRI_STACKING_NONE};
  int64_t length = tri_parameter_run_length(&part), local = slice->first + run->at;
  int64_t number = local / length, within = local % length;
  run->global = tri_parameter_run(&part, number) + within;
  run->count = length - within < left ? length - within : left;
  return true;
}

static tri_status open_window(tri_slice_extent *window, size_t element, int64_t *count) {
  int64_t most = TRI_SLICE_COPY_BYTES / (int64_t)element;
  if (*count > most) *count = most;
  if (window->copy != NULL) return TRI_OK;
  return tri_alloc("a copy of a slice", TRI_SLICE_COPY_BYTES, 1, &window->copy);
}

static char *data_at(const tri_checkpoint_slice *slice, size_t element, int64_t at) {
  return (char *)slice->data + (size_t)at * element;
}

tri_status tri_slice_read(tri_slice_extent *window, const tri_checkpoint_slice *slice, size_t element, int64_t at,
                          int64_t *count, const void **out) {
  *out = data_at(slice, element, at);
  if (slice->memory == NULL) return TRI_OK;
  TRI_TRY(open_window(window, element, count));
  const void *from = *out;
  *out = window->copy;
  return slice->memory->read(slice->memory->context, window->copy, from, (size_t)*count * element);
}

tri_status tri_slice_write(tri_slice_extent *window, const tri_checkpoint_slice *slice, size_t element, int64_t at,
                           int64_t *count, void **out) {
  *out = data_at(slice, element, at);
  if (slice->memory == NULL) return TRI_OK;
  TRI_TRY(open_window(window, element, count));
  *out = window->copy;
  return TRI_OK;
}

tri_status tri_slice_written(const tri_slice_extent *window, const tri_checkpoint_slice *slice, size_t element,
                             int64_t at, int64_t count) {
  if (slice->memory == NULL) return TRI_OK;
  return slice->memory->write(slice->memory->context, data_at(slice, element, at), window->copy,
                              (size_t)count * element);
}

void tri_slice_extent_release(tri_slice_extent *window) {
  tri_free(window->copy);
  *window = (tri_slice_extent){0};
}
