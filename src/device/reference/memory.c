/* Elements of arrays as doubles, host memory and copies of the reference device. */
#include "base/memory.h"

#include "device/reference/reference.h"

#include <math.h>
#include <string.h>

double tri_reference_load(tri_dtype type, const void *array, int64_t i) {
  switch (type) {
    case TRI_FP64: return ((const double *)array)[i];
    case TRI_FP32: return (double)((const float *)array)[i];
    case TRI_BF16: {
      uint32_t bits = (uint32_t)((const uint16_t *)array)[i] << 16;
      float value;
      memcpy(&value, &bits, sizeof value);
      return (double)value;
    }
    case TRI_INT32: return (double)((const int32_t *)array)[i];
  }
  return 0;
}

/* Returns the fp32 neighbour of a double with an odd last bit, unless the double is an fp32 number itself. Rounding the
 * result to a shorter format equals rounding the double; rounding the nearest fp32 number may not. */
static uint32_t round_to_odd(double value) {
  float nearest = (float)value;
  uint32_t bits;
  memcpy(&bits, &nearest, sizeof bits);
  if ((double)nearest == value || bits % 2 == 1) return bits;
  return fabs(value) > fabs((double)nearest) ? bits + 1 : bits - 1;
}

static uint16_t round_to_bf16(double value) {
  if (isnan(value)) return 0x7fc0;
  uint32_t bits = round_to_odd(value);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

void tri_reference_store(tri_dtype type, void *array, int64_t i, double value) {
  switch (type) {
    case TRI_FP64: ((double *)array)[i] = value; break;
    case TRI_FP32: ((float *)array)[i] = (float)value; break;
    case TRI_BF16: ((uint16_t *)array)[i] = round_to_bf16(value); break;
    case TRI_INT32: ((int32_t *)array)[i] = (int32_t)value; break;
  }
}

tri_status tri_reference_memory_create(tri_device *device, size_t bytes, void **out) {
  (void)device;
  return tri_alloc("device memory", bytes, 1, out);
}

void tri_reference_memory_destroy(tri_device *device, void *memory, size_t bytes) {
  (void)device;
  (void)bytes;
  tri_free(memory);
}

tri_status tri_reference_copy(tri_queue *queue, const tri_copy *copy) {
  (void)queue;
  for (size_t r = 0; r < copy->rows; r++) {
    memcpy((char *)copy->to + r * copy->to_stride, (const char *)copy->from + r * copy->from_stride, copy->row_bytes);
  }
  return TRI_OK;
}

tri_status tri_reference_fill_zero(tri_queue *queue, size_t bytes, void *out) {
  (void)queue;
  memset(out, 0, bytes);
  return TRI_OK;
}

tri_status tri_reference_convert(tri_queue *queue, int64_t count, tri_dtype from, const void *in, tri_dtype to,
                                 void *out) {
  (void)queue;
  for (int64_t i = 0; i < count; i++) tri_reference_store(to, out, i, tri_reference_load(from, in, i));
  return TRI_OK;
}
