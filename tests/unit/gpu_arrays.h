/* Arrays on a device for tests of its kernels: with guard bytes around them, at addresses as odd as is wished, reached
 * by copies alone. The same test so runs on the emulator of GPUs and on the reference device. */
#ifndef TRI_TESTS_GPU_ARRAYS_H
#define TRI_TESTS_GPU_ARRAYS_H

#include "base/random.h"
#include "check.h"
#include "device/kernels.h"

#include <math.h>
#include <stdlib.h>

enum { GPU_GUARD = 64, GPU_MOST_ARRAYS = 16, GPU_GUARD_BYTE = 0xa5 };

/* What kernels are tried on: warps of both sizes, and blocks and threads in eight orders. The orders of one size of
 * warps lie side by side. */
static const char *const gpu_devices[] = {"emulated",
                                          "emulated:seed=1",
                                          "emulated:seed=2",
                                          "emulated:seed=3",
                                          "emulated:seed=4",
                                          "emulated:warp=64",
                                          "emulated:warp=64,seed=5",
                                          "emulated:warp=64,seed=6",
                                          "emulated:warp=64,seed=7",
                                          "emulated:warp=64,seed=8"};
enum { GPU_DEVICES = sizeof gpu_devices / sizeof *gpu_devices, GPU_FIRST_OF_64 = 5 };

static const tri_dtype gpu_types[] = {TRI_FP64, TRI_FP32, TRI_BF16};
enum { GPU_TYPES = 3 };

/* Of a result, relative to its norm. */
static inline double gpu_tolerance(tri_dtype type) { return type == TRI_FP64 ? 1e-12 : type == TRI_FP32 ? 1e-5 : 1e-2; }

typedef struct gpu_array {
  unsigned char *memory, *data;
  size_t bytes;
} gpu_array;

typedef struct gpu_bench {
  tri_device *device;
  size_t misaligned; /* elements that arrays begin behind an aligned address */
  gpu_array arrays[GPU_MOST_ARRAYS];
  int count;
} gpu_bench;

static inline void *gpu_host(size_t bytes) {
  void *memory = malloc(bytes + 1);
  assert_non_null(memory);
  return memory;
}

/* Copies an array of elements of element_bytes to the device. */
static inline void *gpu_put(gpu_bench *b, const void *from, size_t bytes, size_t element_bytes) {
  const size_t begin = GPU_GUARD + b->misaligned * element_bytes, all = begin + bytes + GPU_GUARD;
  gpu_array *array = &b->arrays[b->count++];
  unsigned char *host = gpu_host(all);
  assert_true(b->count <= GPU_MOST_ARRAYS);
  memset(host, GPU_GUARD_BYTE, all);
  memcpy(host + begin, from, bytes);
  void *memory = NULL;
  CHECK_OK(tri_device_memory_create(b->device, all, &memory));
  CHECK_OK(tri_queue_upload_now(b->device->queue, memory, host, all));
  *array = (gpu_array){memory, (unsigned char *)memory + begin, bytes};
  free(host);
  return array->data;
}

/* The array at this address; fails where anything around it has been written. */
static inline void gpu_get(gpu_bench *b, const void *data, void *out) {
  const gpu_array *array = b->arrays;
  while (array->data != data) array++;
  const size_t begin = (size_t)(array->data - array->memory), all = begin + array->bytes + GPU_GUARD;
  unsigned char *host = gpu_host(all);
  CHECK_OK(tri_queue_download_now(b->device->queue, host, array->memory, all));
  for (size_t i = 0; i < all; i++) {
    const bool inside = i >= begin && i < begin + array->bytes;
    if (!inside && host[i] != GPU_GUARD_BYTE)
      fail_msg("on %s byte %ld of an array of %zu has been written", b->device->info.name, (long)i - (long)begin,
               array->bytes);
  }
  memcpy(out, host + begin, array->bytes);
  free(host);
}

/* Releases all arrays; inputs have guards too. */
static inline void gpu_clear(gpu_bench *b) {
  for (; b->count > 0; b->count--) {
    const gpu_array *array = &b->arrays[b->count - 1];
    const size_t begin = (size_t)(array->data - array->memory);
    unsigned char *all = gpu_host(array->bytes);
    gpu_get(b, array->data, all);
    free(all);
    tri_device_memory_destroy(b->device, array->memory, begin + array->bytes + GPU_GUARD);
  }
}

/* The devices of a test: for cmocka's group. They stay, and so does what a kernel leaves in its scratch memory. */
typedef struct gpu_benches {
  gpu_bench reference, each[GPU_DEVICES];
} gpu_benches;

static inline int gpu_benches_create(void **state) {
  gpu_benches *all = calloc(1, sizeof *all);
  assert_non_null(all);
  CHECK_OK(tri_device_create("reference", 1, &all->reference.device));
  for (int d = 0; d < GPU_DEVICES; d++) CHECK_OK(tri_device_create(gpu_devices[d], 1, &all->each[d].device));
  *state = all;
  return 0;
}

static inline int gpu_benches_destroy(void **state) {
  gpu_benches *all = *state;
  tri_device_destroy(all->reference.device);
  for (int d = 0; d < GPU_DEVICES; d++) tri_device_destroy(all->each[d].device);
  free(all);
  return 0;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static inline double gpu_load(tri_dtype type, const void *data, int64_t i) {
  if (type == TRI_FP64) return ((const double *)data)[i];
  if (type == TRI_FP32) return (double)((const float *)data)[i];
  uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

/* bf16 is cut off: inputs need no rounding. */
static inline void gpu_store(tri_dtype type, void *data, int64_t i, double value) {
  const float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  if (type == TRI_FP64) ((double *)data)[i] = value;
  if (type == TRI_FP32) ((float *)data)[i] = narrow;
  if (type == TRI_BF16) ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
}

/* Normal values of this scale, other ones for each stream; NaN for a scale that is. */
static inline void *gpu_values(tri_dtype type, int64_t count, double scale, uint64_t stream) {
  void *data = gpu_host((size_t)count * tri_dtype_bytes(type));
  const tri_random_key key = tri_random_stream(14, TRI_RANDOM_TEST, stream);
  for (int64_t i = 0; i < count; i++) gpu_store(type, data, i, scale * tri_random_normal(key, (uint64_t)i));
  return data;
}

/* The norm of the difference over that of what is expected; not-a-numbers and infinities have to be where they are. */
static inline double gpu_difference(tri_dtype type, int64_t count, const void *is, const void *expected) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < count; i++) {
    const double x = gpu_load(type, is, i), y = gpu_load(type, expected, i);
    if (!isfinite(x) || !isfinite(y)) {
      if (isnan(x) && isnan(y)) continue;
      if (x == y) continue;
      return INFINITY;
    }
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return difference == 0 ? 0 : sqrt(difference / (norm > 0 ? norm : 1));
}

#endif
