#include "engine/quantised.h"

#include "device/kernels.h"
#include "device/nf4.h"
#include "device/queue.h"

#include <math.h>
#include <string.h>

static bool keeps_some(const tri_quantised *m) { return m->array != NULL; }

/* Reads zeros, or non-finite values if the matrix is not finite, for a rank that cannot decode its codes. */
static void read_some(const tri_quantised *m, void *to_host, size_t bytes) {
  memset(to_host, 0, bytes);
  for (size_t i = 0; i < bytes / tri_dtype_bytes(m->type) && !isfinite(m->offset); i++) {
    tri_wide_set(m->type, to_host, (int64_t)i, m->offset);
  }
}

/* Reads the dequantised values of the shard. */
static tri_status quantised_read(void *context, void *to_host, const void *from, size_t bytes) {
  const tri_quantised *m = context;
  const int64_t element = (int64_t)tri_dtype_bytes(m->type), first = ((const char *)from - m->wide) / element;
  const int64_t wanted = (int64_t)bytes / element, left = m->cut.rows * m->cut.width - first;
  const int64_t count = wanted < left ? wanted : left;
  if (keeps_some(m)) {
    read_some(m, to_host, bytes);
    return TRI_OK;
  }
  memset(to_host, 0, bytes);
  if (count <= 0) return TRI_OK;
  tri_queue_at(m->queue, "weights in 4 bits", -1, "reading them");
  TRI_KERNEL_CALL(m->queue, dequantise_nf4, m->type, &m->cut, first, count, m->kept, m->wide);
  return tri_queue_download_now(m->queue, to_host, m->wide, (size_t)(count * element));
}

/* Copies the bytes of the codes that this rank keeps. */
static tri_status keep_some(tri_quantised *m) {
  const char *offset = m->kept + tri_nf4_layout_of_cut(&m->cut).offset;
  TRI_TRY(tri_queue_download_now(m->queue, &m->offset, offset, sizeof m->offset));
  return tri_queue_move(m->queue, m->array + m->some.at, m->kept + m->some.first, (size_t)m->some.count);
}

/* Cuts this rank's codes from those of the whole matrix. */
static tri_status keep(tri_quantised *m) {
  if (m->whole != m->kept) TRI_KERNEL_CALL(m->queue, cut_nf4, &m->cut, m->whole, m->kept);
  if (keeps_some(m)) TRI_TRY(keep_some(m));
  return tri_queue_finish(m->queue);
}

static tri_status quantised_write(void *context, void *to, const void *from_host, size_t bytes) {
  tri_quantised *m = context;
  const char *end = m->wide + (size_t)m->cut.total * tri_dtype_bytes(m->type);
  tri_queue_at(m->queue, "weights in 4 bits", -1, "making them");
  TRI_TRY(tri_queue_upload_now(m->queue, to, from_host, bytes));
  if ((const char *)to + bytes < end) return TRI_OK;
  TRI_KERNEL_CALL(m->queue, quantise_nf4, m->type, m->cut.total, m->wide, m->whole);
  return keep(m);
}

/* Receives the codes of the whole matrix from a base that is in 4 bits already, and keeps those of this rank. */
static tri_status quantised_take(void *context, const void *from_host, size_t bytes) {
  tri_quantised *m = context;
  tri_queue_at(m->queue, "weights in 4 bits", -1, "taking them");
  TRI_TRY(tri_queue_upload_now(m->queue, m->whole, from_host, bytes));
  return keep(m);
}

void tri_quantised_set_up(const tri_executor *executor, int64_t entry, int64_t matrix, tri_quantised *out) {
  const tri_parameter *parameter = &executor->weights->table->entries[entry];
  const int64_t bytes = tri_parameter_matrix_bytes(parameter);
  const tri_element_range range =
      tri_element_range_of_frozen(executor->weights->buckets, executor->weights->table, entry, matrix * bytes, bytes);
  char *array = tri_weights_frozen(executor->weights, parameter->stored);
  *out = (tri_quantised){.memory = {out, quantised_read, quantised_write, quantised_take},
                         .queue = executor->device->queue,
                         .type = tri_dtype_wide(executor->type),
                         .cut = tri_parameter_cut(parameter),
                         .wide = tri_executor_update_workspace(executor)};
  const bool all = range.count == bytes;
  const tri_nf4_scratch scratch = tri_nf4_scratch_of(&out->cut, tri_dtype_bytes(out->type), all);
  out->whole = scratch.whole_bytes > 0 ? out->wide + scratch.whole : array + range.at;
  out->kept = all ? array + range.at : out->wide + (scratch.cut_bytes > 0 ? scratch.cut : scratch.whole);
  if (all) return;
  out->some = range;
  out->array = array;
}
