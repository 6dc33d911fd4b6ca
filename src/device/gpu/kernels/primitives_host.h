/* The functions of primitives.h for the emulator: each thread is a fiber of one thread of the CPU (emulator.h). */
#ifndef TRI_DEVICE_GPU_KERNELS_PRIMITIVES_HOST_H
#define TRI_DEVICE_GPU_KERNELS_PRIMITIVES_HOST_H

#include "device/emulated/emulator.h"

#include <math.h>
#include <string.h>

#define DEVICE static inline

/* Defines a kernel, and a function that takes the kernel's arguments as bytes. The emulator has a table of these
 * functions instead of a module. */
#define KERNEL(name)                                                                                                   \
  static void body_of_##name(name##_arguments a);                                                                      \
  void EMULATED_SYMBOL(name)(const void *arguments);                                                                   \
  void EMULATED_SYMBOL(name)(const void *arguments) {                                                                  \
    name##_arguments a;                                                                                                \
    memcpy(&a, arguments, sizeof a);                                                                                   \
    body_of_##name(a);                                                                                                 \
  }                                                                                                                    \
  static void body_of_##name(const name##_arguments a)

/* tri_emulated_NAME_32_w64: for 32-bit elements, with warps of 64. */
#define EMULATED_SYMBOL(name) EMULATED_SYMBOL_(name, TRI_GPU_TYPE, TRI_GPU_WARP)
#define EMULATED_SYMBOL_(name, type, warp) EMULATED_SYMBOL__(name, type, warp)
#define EMULATED_SYMBOL__(name, type, warp) tri_emulated_##name##_##type##_w##warp

#define SHARED(type, name)                                                                                             \
  static const char name##_place_ = 0;                                                                                 \
  type *const name = (type *)tri_emulator_shared(&name##_place_, sizeof(type))
#define SHARED_ASKED(type, name) type *const name = (type *)tri_emulator_shared_asked(sizeof(type))
#define UNROLL

enum { WARP = TRI_GPU_WARP };

typedef struct __attribute__((may_alias)) sixteen_bytes {
  _Alignas(16) uint64_t words[2];
} sixteen_bytes;

DEVICE int thread(void) { return tri_emulator_now->thread; }
DEVICE int threads(void) { return tri_emulator_now->threads; }
DEVICE int lane(void) { return tri_emulator_now->thread % WARP; }
DEVICE int warp(void) { return tri_emulator_now->thread / WARP; }
DEVICE int block_warps(void) { return tri_emulator_now->threads / WARP; }
DEVICE int64_t block_x(void) { return tri_emulator_now->block[0]; }
DEVICE int64_t block_y(void) { return tri_emulator_now->block[1]; }
DEVICE int64_t block_z(void) { return tri_emulator_now->block[2]; }
DEVICE int64_t blocks_x(void) { return tri_emulator_now->blocks_x; }

#define barrier() tri_emulator_barrier(__FILE__, __LINE__)
#define warp_barrier() tri_emulator_warp_barrier(__FILE__, __LINE__)

DEVICE float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
DEVICE uint32_t bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
DEVICE uint64_t bits_of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

#define shuffle_float(x, mask) tri_emulator_shuffle_float(x, mask, __FILE__, __LINE__)
#define shuffle_double(x, mask) tri_emulator_shuffle_double(x, mask, __FILE__, __LINE__)
#define shuffle_int(x, mask) tri_emulator_shuffle_int(x, mask, __FILE__, __LINE__)

#define copy_async(to_shared, from) tri_emulator_copy(to_shared, from)
#define copy_async_commit() tri_emulator_copy_commit()
#define copy_async_wait(pending) tri_emulator_copy_wait(pending)

#endif
