/* Arrays on a device whose memory the host does not reach, for tests: each has an image on the host. In front of an
 * array lie guard bytes, behind it too where it is an output; an input ends where the device's own guard begins. What
 * nobody sets is not a number. */
#ifndef TRI_TEST_GPU_ARRAY_H
#define TRI_TEST_GPU_ARRAY_H

#include "base/random.h"
#include "check.h"
#include "device/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARRAY_GUARD = 64, ARRAY_POISON = 0xff }; /* 0xff again and again is not a number in any type */

typedef struct gpu_array {
  tri_device *device;
  size_t lead, tail, bytes, whole; /* lead: of guards, and what moves it off 64 bytes */
  unsigned char *image;            /* of the whole */
  char *memory;
} gpu_array;

static inline void *array_host(const gpu_array *x) { return x->image + x->lead; }
static inline void *array_device(const gpu_array *x) { return x->memory + x->lead; }

/* `shift` bytes off an address of 64. */
static inline gpu_array array_make(tri_device *device, size_t bytes, size_t shift, bool output) {
  gpu_array x = {.device = device, .lead = ARRAY_GUARD + shift, .tail = output ? ARRAY_GUARD : 0, .bytes = bytes};
  x.whole = x.lead + x.bytes + x.tail;
  x.image = malloc(x.whole);
  assert_non_null(x.image);
  memset(x.image, ARRAY_POISON, x.whole);
  void *memory = NULL;
  CHECK_OK(tri_device_memory_create(device, x.whole, &memory));
  x.memory = memory;
  return x;
}

static inline void array_free(gpu_array *x) {
  free(x->image);
  tri_device_memory_destroy(x->device, x->memory, x->whole);
}

/* The image's guards stay poison on the host; what comes back is compared. */
static inline void array_upload(const gpu_array *x) {
  CHECK_OK(tri_queue_upload_now(x->device->queue, x->memory, x->image, x->whole));
}

static inline void array_download(const char *what, const gpu_array *x) {
  CHECK_OK(tri_queue_download_now(x->device->queue, x->image, x->memory, x->whole));
  for (size_t i = 0; i < x->whole; i++) {
    if (i >= x->lead && i < x->lead + x->bytes) continue;
    if (x->image[i] != ARRAY_POISON) fail_msg("%s: wrote byte %zd of %zu", what, (ssize_t)(i - x->lead), x->bytes);
  }
}

static inline double array_get(tri_dtype type, const void *data, int64_t i) {
  if (type == TRI_FP64) return ((const double *)data)[i];
  uint32_t bits = 0;
  float value;
  if (type == TRI_BF16) {
    uint16_t half;
    memcpy(&half, (const char *)data + 2 * i, sizeof half);
    bits = (uint32_t)half << 16;
  } else {
    memcpy(&bits, (const char *)data + 4 * i, sizeof bits);
  }
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

/* A standard normal number that bf16 holds exactly, so that every type computes with the same ones. */
static inline void array_set_random(tri_dtype type, void *data, int64_t i, uint64_t stream) {
  float value = (float)tri_random_normal(tri_random_stream(9, TRI_RANDOM_TEST, stream), (uint64_t)i);
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits &= 0xffff0000u;
  memcpy(&value, &bits, sizeof value);
  const double wide = (double)value;
  const uint16_t half = (uint16_t)(bits >> 16);
  if (type == TRI_FP64) memcpy((char *)data + 8 * i, &wide, sizeof wide);
  if (type == TRI_FP32) memcpy((char *)data + 4 * i, &value, sizeof value);
  if (type == TRI_BF16) memcpy((char *)data + 2 * i, &half, sizeof half);
}

/* The devices that a test goes over: warps of 32 and of 64, and orders of threads. */
static const char *const gpu_test_devices[] = {
    "emulated",        "emulated:warp=64",        "emulated:seed=3",
    "emulated:seed=8", "emulated:warp=64,seed=5", "emulated:warp=64,seed=12"};
enum { GPU_TEST_DEVICES = sizeof gpu_test_devices / sizeof gpu_test_devices[0] };

/* The first of these devices whose bits this one's must be. */
static inline int gpu_test_like(int device) { return device < 2 ? device : device < 4 ? 0 : 1; }

#endif
