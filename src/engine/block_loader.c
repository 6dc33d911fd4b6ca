#include "engine/block_loader.h"

#include "base/format.h"
#include "base/log.h"
#include "device/kernels.h"
#include "device/queue.h"

#include <math.h>
#include <string.h>

static bool is_finite(tri_dtype type, const void *values, int64_t i) { return isfinite(tri_wide_get(type, values, i)); }

/* Sets *part to the strip that begins with element `done`. */
static void find_part(const tri_block_loader *l, tri_block_part *part) {
  const int64_t width = l->in_out ? l->matrix.out : l->matrix.in;
  const int64_t first = l->done / width, rows = l->filled / width;
  if (l->in_out) {
    *part = (tri_block_part){.outputs = width, .first_in = first, .inputs = rows, .out_stride = 1, .in_stride = width};
  } else {
    *part = (tri_block_part){.first_out = first, .outputs = rows, .inputs = width, .out_stride = width, .in_stride = 1};
  }
}

static tri_status quantise_strip(tri_block_loader *l) {
  tri_block_part part;
  find_part(l, &part);
  tri_queue_at(l->queue, "weights in blocks", -1, "making them");
  if (l->bad < 0) TRI_KERNEL_CALL(l->queue, pack_blocks, l->type, &l->matrix, &part, l->scratch, l->kept);
  l->done += l->filled;
  l->filled = 0;
  return tri_queue_finish(l->queue);
}

static tri_status loader_write(void *context, void *to, const void *from_host, size_t bytes) {
  tri_block_loader *l = context;
  const size_t element = tri_dtype_bytes(l->type);
  const int64_t all = l->matrix.in * l->matrix.out, count = (int64_t)(bytes / element);
  if ((int64_t)((size_t)((const char *)to - l->scratch) / element) != l->done + l->filled)
    return tri_fail_internal("values of a matrix in blocks are not written in order");
  for (int64_t at = 0; at < count;) {
    const int64_t room = tri_smaller(l->strip, all - l->done) - l->filled, some = tri_smaller(room, count - at);
    const char *from = (const char *)from_host + (size_t)at * element;
    for (int64_t i = 0; i < some && l->bad < 0; i++) {
      if (!is_finite(l->type, from, i)) l->bad = l->done + l->filled + i;
    }
    TRI_TRY(tri_queue_upload_now(l->queue, l->scratch + (size_t)l->filled * element, from, (size_t)some * element));
    l->filled += some;
    at += some;
    if (some == room) TRI_TRY(quantise_strip(l));
  }
  return TRI_OK;
}

static tri_status loader_read(void *context, void *to_host, const void *from, size_t bytes) {
  const tri_block_loader *l = context;
  const size_t element = tri_dtype_bytes(l->type);
  const int64_t first = (int64_t)((size_t)((const char *)from - l->scratch) / element);
  const int64_t bad = l->bad - first;
  memset(to_host, 0, bytes);
  if (bad >= 0 && bad < (int64_t)(bytes / element)) tri_wide_set(l->type, to_host, bad, NAN);
  return TRI_OK;
}

void tri_block_loader_set_up(const tri_executor *executor, int64_t entry, int64_t number, tri_block_loader *out) {
  const tri_weights *weights = executor->weights;
  const tri_parameter *parameter = &weights->table->entries[entry];
  *out = (tri_block_loader){.memory = {out, loader_read, loader_write, NULL},
                            .queue = executor->device->queue,
                            .type = tri_dtype_wide(executor->type),
                            .in_out = parameter->in_out,
                            .scratch = tri_executor_update_workspace(executor),
                            .bad = -1};
  tri_parameter_in_blocks(parameter, &out->matrix);
  out->strip = tri_block_strip(&out->matrix, out->in_out);
  out->kept = (char *)weights->parameters[entry].value + number * tri_parameter_matrix_bytes(parameter);
}

tri_status tri_block_loader_check(const tri_parameter_table *table, tri_dtype precision, const tri_device *device) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    tri_block_matrix matrix;
    if (entry->stored != TRI_STORED_BF16 && !tri_parameter_in_blocks(entry, &matrix)) continue;
    if (precision != tri_dtype_wide(precision))
      return tri_fail(TRI_BAD_USAGE, "weights in q8_0 or q4_0 are multiplied in fp32: leave --precision %s out",
                      tri_dtype_name(precision));
    if (device->kernels->block_matmul == NULL)
      return tri_fail(TRI_UNSUPPORTED,
                      "weights in q8_0 or q4_0 are for the devices cpu and reference, and the device %s cannot "
                      "multiply them; leave --weights out, or add --device cpu",
                      device->info.name);
    if (entry->stored == TRI_STORED_BF16 || entry->count == 0 || matrix.in % TRI_BLOCK_INPUTS == 0) continue;
    return tri_fail(TRI_BAD_USAGE,
                    "this number of tensor ranks gives a rank %ld inputs of %.80s, which cuts a block of %d; take "
                    "fewer ranks with --tensor, or leave --weights out",
                    (long)matrix.in, entry->name, (int)TRI_BLOCK_INPUTS);
  }
  return TRI_OK;
}

void tri_block_loader_log(const tri_parameter_table *table) {
  int64_t matrices = 0, elements = 0;
  char text[32];
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->stored != TRI_STORED_BF16 || entry->tied_to >= 0) continue;
    matrices += tri_parameter_num_tensors(entry);
    elements += tri_parameter_global_count(entry);
  }
  if (matrices == 0) return;
  tri_log("%ld matri%s of %s parameters stay%s in bf16: their rows are not multiples of %d", (long)matrices,
          matrices == 1 ? "x" : "ces", tri_format_count((double)elements, text, sizeof text), matrices == 1 ? "s" : "",
          (int)TRI_BLOCK_INPUTS);
}
