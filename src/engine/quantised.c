#include "engine/quantised.h"

#include "device/kernels.h"
#include "device/nf4.h"
#include "device/queue.h"

#include <string.h>

/* What the codes stand for. */
static tri_status quantised_read(void *context, void *to_host, const void *from, size_t bytes) {
  const tri_quantised *m = context;
  const int64_t element = (int64_t)tri_dtype_bytes(m->type), first = ((const char *)from - m->wide) / element;
  const int64_t wanted = (int64_t)bytes / element, left = m->cut.rows * m->cut.width - first;
  const int64_t count = wanted < left ? wanted : left;
  memset(to_host, 0, bytes);
  if (count <= 0) return TRI_OK;
  tri_queue_at(m->queue, "weights in 4 bits", -1, "reading them");
  TRI_KERNEL_CALL(m->queue, dequantise_nf4, m->type, &m->cut, first, count, m->kept, m->wide);
  return tri_queue_download_now(m->queue, to_host, m->wide, (size_t)(count * element));
}

static tri_status quantised_write(void *context, void *to, const void *from_host, size_t bytes) {
  const tri_quantised *m = context;
  const char *end = m->wide + (size_t)m->cut.total * tri_dtype_bytes(m->type);
  tri_queue_at(m->queue, "weights in 4 bits", -1, "making them");
  TRI_TRY(tri_queue_upload_now(m->queue, to, from_host, bytes));
  if ((const char *)to + bytes < end) return TRI_OK;
  TRI_KERNEL_CALL(m->queue, quantise_nf4, m->type, m->cut.total, m->wide, m->whole);
  if (m->whole != m->kept) TRI_KERNEL_CALL(m->queue, cut_nf4, &m->cut, m->whole, m->kept);
  return tri_queue_finish(m->queue);
}

/* Codes of the whole that the base has. */
static tri_status quantised_take(void *context, const void *from_host, size_t bytes) {
  const tri_quantised *m = context;
  tri_queue_at(m->queue, "weights in 4 bits", -1, "taking them");
  TRI_TRY(tri_queue_upload_now(m->queue, m->whole, from_host, bytes));
  if (m->whole != m->kept) TRI_KERNEL_CALL(m->queue, cut_nf4, &m->cut, m->whole, m->kept);
  return tri_queue_finish(m->queue);
}

void tri_quantised_set_up(const tri_executor *executor, const tri_parameter *entry, int64_t matrix,
                          tri_quantised *out) {
  const int64_t into = entry->offset + matrix * tri_parameter_matrix_bytes(entry);
  *out = (tri_quantised){.memory = {out, quantised_read, quantised_write, quantised_take},
                         .queue = executor->device->queue,
                         .type = tri_dtype_wide(executor->type),
                         .cut = tri_parameter_cut(entry),
                         .wide = tri_executor_update_workspace(executor),
                         .kept = tri_executor_frozen(executor, entry->stored) + into};
  out->whole = tri_nf4_is_whole(&out->cut) ? out->kept
                                           : out->wide + tri_nf4_wide_bytes(out->cut.total, tri_dtype_bytes(out->type));
}
