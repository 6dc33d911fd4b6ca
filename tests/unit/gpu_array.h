/* Arrays for tests, on a device whose memory the host cannot access: each has an image on the host, with guard bytes
 * around it. Elements that are never set are NaN. So a test runs on the emulator of GPUs and on the reference device.
 * Also the devices and types of the tests of kernels, and the tolerances of results. */
#ifndef TRI_TEST_GPU_ARRAY_H
#define TRI_TEST_GPU_ARRAY_H

#include "base/random.h"
#include "check.h"
#include "device/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- values ------------------------------------------------------------------------------------------------------ */

static const tri_dtype gpu_types[] = {TRI_FP64, TRI_FP32, TRI_BF16};
enum { GPU_TYPES = 3 };

/* Returns the tolerance of a result, relative to its norm. */
static inline double gpu_tolerance(tri_dtype type) {
  switch (type) {
    case TRI_FP64: return 1e-12;
    case TRI_FP32: return 1e-5;
    case TRI_BF16: return 1e-2;
    case TRI_INT32: break;
  }
  return 0;
}

static inline double gpu_load(tri_dtype type, const void *data, int64_t i) {
  if (type == TRI_FP64) return ((const double *)data)[i];
  if (type == TRI_FP32) return (double)((const float *)data)[i];
  if (type == TRI_INT32) return ((const int32_t *)data)[i];
  uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

/* bf16 is truncated, so inputs must be representable. */
static inline void gpu_store(tri_dtype type, void *data, int64_t i, double value) {
  const float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  if (type == TRI_FP64) ((double *)data)[i] = value;
  if (type == TRI_FP32) ((float *)data)[i] = narrow;
  if (type == TRI_BF16) ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
  if (type == TRI_INT32) ((int32_t *)data)[i] = (int32_t)value;
}

static inline void *gpu_bytes(size_t bytes) {
  void *memory = malloc(bytes + 1);
  assert_non_null(memory);
  return memory;
}

/* Returns random normal values of this scale, different for each stream. NaN if the scale is NaN. */
static inline void *gpu_values(tri_dtype type, int64_t count, double scale, uint64_t stream) {
  void *data = gpu_bytes((size_t)count * tri_dtype_bytes(type));
  const tri_random_key key = tri_random_stream(14, TRI_RANDOM_TEST, stream);
  for (int64_t i = 0; i < count; i++) gpu_store(type, data, i, scale * tri_random_normal(key, (uint64_t)i));
  return data;
}

/* A standard normal number that bf16 holds exactly, so that every type computes with the same ones. */
static inline void gpu_store_random(tri_dtype type, void *data, int64_t i, uint64_t stream) {
  uint16_t half;
  gpu_store(TRI_BF16, &half, 0, tri_random_normal(tri_random_stream(9, TRI_RANDOM_TEST, stream), (uint64_t)i));
  gpu_store(type, data, i, gpu_load(TRI_BF16, &half, 0));
}

/* Returns the norm of the difference relative to the norm of the expected values. NaN and infinity must be at the same
 * elements. */
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

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* Repeated bytes 0xff are NaN in every type. */
enum { ARRAY_GUARD = 64, ARRAY_POISON = 0xff, ARRAY_GUARD_BYTE = 0xa5 };

typedef struct gpu_array {
  tri_device *device;
  size_t lead, tail, bytes, whole; /* lead: bytes of guards and of the offset from 64 bytes */
  unsigned char *image;            /* [whole] */
  char *memory;
} gpu_array;

static inline void *array_host(const gpu_array *x) { return x->image + x->lead; }
static inline void *array_device(const gpu_array *x) { return x->memory + x->lead; }

/* Creates an array `shift` bytes after an address that is a multiple of 64. An output also has guards at its end; an
 * input ends at the device's own guard. */
static inline gpu_array array_make(tri_device *device, size_t bytes, size_t shift, bool output) {
  gpu_array x = {.device = device, .lead = ARRAY_GUARD + shift, .tail = output ? ARRAY_GUARD : 0, .bytes = bytes};
  x.whole = x.lead + x.bytes + x.tail;
  x.image = malloc(x.whole);
  assert_non_null(x.image);
  memset(x.image, ARRAY_GUARD_BYTE, x.whole);
  memset(x.image + x.lead, ARRAY_POISON, x.bytes);
  void *memory = NULL;
  CHECK_OK(tri_device_memory_create(device, x.whole, &memory));
  x.memory = memory;
  return x;
}

static inline void array_free(gpu_array *x) {
  free(x->image);
  tri_device_memory_destroy(x->device, x->memory, x->whole);
}

/* Uploads the image with its guards. array_download compares the guards with ARRAY_GUARD_BYTE. */
static inline void array_upload(const gpu_array *x) {
  CHECK_OK(tri_queue_upload_now(x->device->queue, x->memory, x->image, x->whole));
}

static inline void array_download(const char *what, const gpu_array *x) {
  CHECK_OK(tri_queue_download_now(x->device->queue, x->image, x->memory, x->whole));
  for (size_t i = 0; i < x->whole; i++) {
    if (i >= x->lead && i < x->lead + x->bytes) continue;
    if (x->image[i] != ARRAY_GUARD_BYTE) fail_msg("%s: wrote byte %zd of %zu", what, (ssize_t)(i - x->lead), x->bytes);
  }
}

/* ---- arrays of one device ---------------------------------------------------------------------------------------- */

enum { GPU_MOST_ARRAYS = 16 };

typedef struct gpu_bench {
  tri_device *device;
  size_t misaligned; /* offset of arrays from an aligned address, in elements */
  gpu_array arrays[GPU_MOST_ARRAYS];
  int count;
} gpu_bench;

/* Copies an array of elements of element_bytes to the device. */
static inline void *gpu_put(gpu_bench *b, const void *from, size_t bytes, size_t element_bytes) {
  assert_true(b->count < GPU_MOST_ARRAYS);
  gpu_array *array = &b->arrays[b->count++];
  *array = array_make(b->device, bytes, b->misaligned * element_bytes, true);
  memcpy(array_host(array), from, bytes);
  array_upload(array);
  return array_device(array);
}

/* Downloads the array at this address. Fails if a byte around it has changed. */
static inline void gpu_get(gpu_bench *b, const void *data, void *out) {
  const gpu_array *array = b->arrays;
  while (array_device(array) != data) array++;
  array_download(b->device->info.name, array);
  memcpy(out, array_host(array), array->bytes);
}

/* Releases all arrays; inputs have guards too. */
static inline void gpu_clear(gpu_bench *b) {
  for (; b->count > 0; b->count--) {
    array_download(b->device->info.name, &b->arrays[b->count - 1]);
    array_free(&b->arrays[b->count - 1]);
  }
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* The devices on which kernels run: warps of 32 and of 64, each with blocks and threads in order and in four random
 * orders. All devices of one warp size are adjacent. */
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

/* Fewer devices, for slow kernels. */
static const char *const gpu_test_devices[] = {
    "emulated",        "emulated:warp=64",        "emulated:seed=3",
    "emulated:seed=8", "emulated:warp=64,seed=5", "emulated:warp=64,seed=12"};
enum { GPU_TEST_DEVICES = sizeof gpu_test_devices / sizeof gpu_test_devices[0] };

/* Returns the index of the device whose bits this device's results must have: the first of its warp size. */
static inline int gpu_test_like(int device) { return device < 2 ? device : device < 4 ? 0 : 1; }

/* The devices of a cmocka group. They are kept between tests, and so are the contents of their scratch memory. */
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

#endif
