#include "engine/quantised.h"

#include "device/kernels.h"
#include "device/nf4.h"
#include "device/queue.h"

/* What the codes stand for, of a stretch that begins at a block: pieces of TRI_SLICE_COPY_BYTES do. */
static tri_status quantised_read(void *context, void *to_host, const void *from, size_t bytes) {
  const tri_quantised *m = context;
  const int64_t element = (int64_t)tri_dtype_bytes(m->type), first = ((const char *)from - m->wide) / element;
  if (first % TRI_NF4_BLOCK != 0) return tri_fail_internal("a stretch of 4 bits begins inside of a block");
  tri_queue_at(m->queue, "weights in 4 bits", -1, "reading them");
  TRI_KERNEL_CALL(m->queue, dequantise_nf4, m->type, first, (int64_t)bytes / element, m->count, m->kept, m->wide);
  return tri_queue_download_now(m->queue, to_host, m->wide, bytes);
}

static tri_status quantised_write(void *context, void *to, const void *from_host, size_t bytes) {
  const tri_quantised *m = context;
  const char *end = m->wide + (size_t)m->count * tri_dtype_bytes(m->type);
  tri_queue_at(m->queue, "weights in 4 bits", -1, "making them");
  TRI_TRY(tri_queue_upload_now(m->queue, to, from_host, bytes));
  if ((const char *)to + bytes < end) return TRI_OK;
  TRI_KERNEL_CALL(m->queue, quantise_nf4, m->type, m->count, m->wide, m->kept);
  return tri_queue_finish(m->queue);
}

void tri_quantised_set_up(const tri_executor *executor, const tri_parameter *entry, int64_t matrix,
                          tri_quantised *out) {
  const int64_t into = entry->offset + matrix * tri_parameter_matrix_bytes(entry);
  *out = (tri_quantised){.memory = {out, quantised_read, quantised_write},
                         .queue = executor->device->queue,
                         .type = tri_dtype_wide(executor->type),
                         .count = entry->count / tri_parameter_num_matrices(entry),
                         .wide = tri_executor_update_workspace(executor),
                         .kept = tri_executor_frozen(executor, entry->stored) + into};
}
