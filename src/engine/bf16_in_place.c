/* A kernel's input and output must not overlap, but elements [a, b) are at bytes [4 a, 4 b) as fp32 and at bytes [2 a,
 * 2 b) as bf16. So they are converted in ranges [a, 2 a), whose input and output do not overlap, and in an order in
 * which nothing is overwritten before it is read: from the front to bf16, from the back to fp32. */
#include "engine/bf16_in_place.h"
#include "device/kernels.h"

static tri_status convert(tri_device *device, int64_t begin, int64_t end, tri_dtype from, tri_dtype to, void *values) {
  const char *in = (const char *)values + (size_t)begin * tri_dtype_bytes(from);
  char *out = (char *)values + (size_t)begin * tri_dtype_bytes(to);
  return device->kernels->convert(device->queue, end - begin, from, in, to, out);
}

/* Element 0 overlaps itself, but a single element is read before it is written. */
tri_status tri_to_bf16_in_place(tri_device *device, int64_t count, void *values) {
  for (int64_t begin = 0, end = 1; begin < count; begin = end, end = 2 * begin) {
    if (end > count) end = count;
    TRI_TRY(convert(device, begin, end, TRI_FP32, TRI_BF16, values));
  }
  return TRI_OK;
}

tri_status tri_to_fp32_in_place(tri_device *device, int64_t begin, int64_t end, void *values) {
  while (begin < end) {
    int64_t from = end == 1 ? 0 : (end + 1) / 2;
    if (from < begin) from = begin;
    TRI_TRY(convert(device, from, end, TRI_BF16, TRI_FP32, values));
    end = from;
  }
  return TRI_OK;
}
