/* nf4_tool DEVICE fp32|bf16|fp64: numbers of that type on standard input, in the machine's order of bytes. Writes, as
 * bytes again, what quantise_nf4 keeps of them, and then what dequantise_nf4 makes of that. */
#include "base/memory.h"
#include "device/kernels.h"
#include "device/nf4.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 1 << 24 };

static tri_status type_of(const char *name, tri_dtype *out) {
  static const tri_dtype types[] = {TRI_FP32, TRI_BF16, TRI_FP64};
  for (int t = 0; t < 3; t++) {
    if (strcmp(tri_dtype_name(types[t]), name) != 0) continue;
    *out = types[t];
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_CONFIG, "`%s` is not a type; take fp32, bf16 or fp64", name);
}

/* `values` become what they are again; `kept` what is kept of them. */
static tri_status round_trip(tri_queue *queue, tri_dtype type, int64_t count, void *values, void *kept) {
  const size_t bytes = (size_t)count * tri_dtype_bytes(type), kept_bytes = tri_nf4_bytes(count);
  void *there = NULL, *kept_there = NULL;
  tri_status status = tri_device_memory_create(queue->device, bytes, &there);
  if (status != TRI_OK) return status;
  status = tri_device_memory_create(queue->device, kept_bytes, &kept_there);
  if (status != TRI_OK) goto release;
  if ((status = tri_queue_upload_now(queue, there, values, bytes)) != TRI_OK) goto release_kept;
  if ((status = tri_queue_upload_now(queue, kept_there, kept, kept_bytes)) != TRI_OK) goto release_kept;
  status = queue->device->kernels->quantise_nf4(queue, type, count, there, kept_there);
  if (status != TRI_OK) goto release_kept;
  const tri_nf4_cut whole = tri_nf4_whole(count);
  status = queue->device->kernels->dequantise_nf4(queue, type, &whole, 0, count, kept_there, there);
  if (status != TRI_OK) goto release_kept;
  if ((status = tri_queue_download_now(queue, values, there, bytes)) != TRI_OK) goto release_kept;
  status = tri_queue_download_now(queue, kept, kept_there, kept_bytes);
release_kept:
  tri_device_memory_destroy(queue->device, kept_there, kept_bytes);
release:
  tri_device_memory_destroy(queue->device, there, bytes);
  return status;
}

static tri_status run(const char *name, tri_dtype type, int64_t count, void *values, void *kept) {
  tri_device *device = NULL;
  TRI_TRY(tri_device_create(name, 1, &device));
  tri_status status = round_trip(device->queue, type, count, values, kept);
  tri_device_destroy(device);
  return status;
}

int main(int argc, char **argv) {
  static char values[MOST_BYTES], kept[MOST_BYTES];
  tri_dtype type = TRI_FP32;
  if (argc != 3) return 2;
  tri_status status = type_of(argv[2], &type);
  const int64_t count = (int64_t)fread(values, tri_dtype_bytes(type), MOST_BYTES / tri_dtype_bytes(type), stdin);
  if (status == TRI_OK) status = run(argv[1], type, count, values, kept);
  if (status == TRI_OK) {
    fwrite(kept, 1, tri_nf4_bytes(count), stdout);
    fwrite(values, tri_dtype_bytes(type), (size_t)count, stdout);
  } else {
    fprintf(stderr, "nf4_tool: %s\n", tri_status_message());
  }
  return tri_status_exit(status);
}
