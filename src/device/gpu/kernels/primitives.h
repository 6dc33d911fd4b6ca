/* The language of kernels: the common subset of C and C++ with the functions of this header. It has three
 * implementations. CUDA and HIP compile it at run time (NVRTC, hipRTC); the host's compiler builds the emulator from
 * it, in which each thread is a fiber (emulator.h). No vendor's header is included.
 *
 * TRI_GPU_TYPE (64, 32 or 16 bits) is the type of activations that a file is compiled for: `element` is the stored
 * type; `wide` is the type of arithmetic, and of parameters, statistics and losses.
 *
 * thread() is the index of a thread in its block, lane() its index in its warp, warp() the index of the warp in the
 * block; block_x() .. block_z() are the indices of the block in the grid.
 *
 * A block has a whole number of warps, along x. A barrier must be reached by all threads of the block, a shuffle and a
 * fragment's product by all threads of the warp: the emulator reports it if only some of them do. */
#ifndef TRI_DEVICE_GPU_KERNELS_PRIMITIVES_H
#define TRI_DEVICE_GPU_KERNELS_PRIMITIVES_H

#if defined(__HIP__) || defined(__HIPCC_RTC__)
#define TRI_GPU_HIP 1
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TRI_GPU_CUDA 1
#else
#define TRI_GPU_HOST 1
#endif

#include <stdint.h>

#if defined(TRI_GPU_CUDA)
#include "device/gpu/kernels/primitives_cuda.h"
#elif defined(TRI_GPU_HIP)
#include "device/gpu/kernels/primitives_hip.h"
#else
#include "device/gpu/kernels/primitives_host.h"
#endif

/* ---- types ------------------------------------------------------------------------------------------------------- */

typedef struct bf16 {
  uint16_t bits;
} bf16;

DEVICE float bf16_value(bf16 x) { return float_of_bits((uint32_t)x.bits << 16); }

/* Returns the nearest bf16 number; ties are rounded to even, and NaN stays NaN. */
DEVICE bf16 bf16_of_float(float x) {
  uint32_t bits = bits_of_float(x);
  bf16 out;
  if (x != x) {
    out.bits = (uint16_t)(bits >> 16 | 0x40u);
  } else {
    out.bits = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
  return out;
}

#if TRI_GPU_TYPE == 64
typedef double element;
typedef double wide;
DEVICE wide load(const element *from) { return *from; }
DEVICE void store(element *to, wide value) { *to = value; }
/* Returns the nearest bf16 number. The double is first replaced by its fp32 neighbour with an odd last bit, which
 * avoids double rounding. */
DEVICE bf16 bf16_of_wide(double x) {
  float nearest = (float)x;
  uint32_t bits = bits_of_float(nearest);
  if (x == x && (double)nearest != x && bits % 2 == 0) bits += fabs(x) > fabs((double)nearest) ? 1u : 0xffffffffu;
  return bf16_of_float(float_of_bits(bits));
}
DEVICE wide wide_exp(wide x) { return exp(x); }
DEVICE wide wide_log(wide x) { return log(x); }
DEVICE wide wide_sqrt(wide x) { return sqrt(x); }
DEVICE wide wide_tanh(wide x) { return tanh(x); }
DEVICE wide wide_erf(wide x) { return erf(x); }
DEVICE wide wide_erfc(wide x) { return erfc(x); }
DEVICE wide wide_multiply_add(wide a, wide b, wide c) { return fma(a, b, c); }
#else
#if TRI_GPU_TYPE == 32
typedef float element;
DEVICE float load(const element *from) { return *from; }
DEVICE void store(element *to, float value) { *to = value; }
#elif TRI_GPU_TYPE == 16
typedef bf16 element;
DEVICE float load(const element *from) { return bf16_value(*from); }
DEVICE void store(element *to, float value) { *to = bf16_of_float(value); }
#else
#error "TRI_GPU_TYPE is 64, 32 or 16"
#endif
typedef float wide;
DEVICE bf16 bf16_of_wide(float x) { return bf16_of_float(x); }
DEVICE wide wide_exp(wide x) { return expf(x); }
DEVICE wide wide_log(wide x) { return logf(x); }
DEVICE wide wide_sqrt(wide x) { return sqrtf(x); }
DEVICE wide wide_tanh(wide x) { return tanhf(x); }
DEVICE wide wide_erf(wide x) { return erff(x); }
DEVICE wide wide_erfc(wide x) { return erfcf(x); }
DEVICE wide wide_multiply_add(wide a, wide b, wide c) { return fmaf(a, b, c); }
#endif

DEVICE wide wide_infinity(void) { return (wide)float_of_bits(0x7f800000u); }

/* Number of elements in 16 bytes, which one thread moves at once if addresses and widths allow. */
enum { VECTOR = 16 / (int)sizeof(element) };

/* Returns whether 16 bytes can be moved to and from this address. */
DEVICE int is_aligned(const void *at) { return ((uintptr_t)at & 15u) == 0; }

/* Load VECTOR elements from an address that is aligned to 16 bytes, as wide numbers, and store VECTOR wide numbers as
 * elements. Elements of 16 bits are extracted from words of 32 bits: compilers keep words in registers, but halves in
 * memory. */
DEVICE void load_vector(const element *from, wide out[VECTOR]) {
#if TRI_GPU_TYPE == 16
  union {
    sixteen_bytes all;
    uint32_t each[4];
  } u;
  u.all = *(const sixteen_bytes *)(const void *)from;
  for (int i = 0; i < 4; i++) {
    out[2 * i] = float_of_bits(u.each[i] << 16);
    out[2 * i + 1] = float_of_bits(u.each[i] & 0xffff0000u);
  }
#else
  union {
    sixteen_bytes all;
    element each[VECTOR];
  } u;
  u.all = *(const sixteen_bytes *)(const void *)from;
  for (int i = 0; i < VECTOR; i++) out[i] = u.each[i];
#endif
}

DEVICE void store_vector(element *to, const wide values[VECTOR]) {
#if TRI_GPU_TYPE == 16
  union {
    sixteen_bytes all;
    uint32_t each[4];
  } u;
  for (int i = 0; i < 4; i++) {
    u.each[i] = bf16_of_wide(values[2 * i]).bits | (uint32_t)bf16_of_wide(values[2 * i + 1]).bits << 16;
  }
#else
  union {
    sixteen_bytes all;
    element each[VECTOR];
  } u;
  for (int i = 0; i < VECTOR; i++) u.each[i] = values[i];
#endif
  *(sixteen_bytes *)(void *)to = u.all;
}

/* Loads VECTOR wide numbers, such as those of a parameter, from an aligned address. */
DEVICE void load_wide_vector(const wide *from, wide out[VECTOR]) {
  enum { EACH = 16 / (int)sizeof(wide) };
  union {
    sixteen_bytes all;
    wide each[EACH];
  } u;
  for (int i = 0; i < VECTOR; i += EACH) {
    u.all = *(const sixteen_bytes *)(const void *)(from + i);
    for (int j = 0; j < EACH; j++) out[i + j] = u.each[j];
  }
}

/* Returns the number of existing rows (tri_rows in device/kernels.h). */
DEVICE int64_t live_rows(int64_t capacity, const int32_t *count) {
  if (count == 0 || *count >= capacity) return capacity;
  return *count < 0 ? 0 : *count;
}

#if TRI_GPU_TYPE == 64
#define shuffle_wide shuffle_double
#else
#define shuffle_wide shuffle_float
#endif

/* ---- sums over a warp and over a block: the same order each time ------------------------------------------------- */

/* Return the sum, or the maximum, over the warp to all lanes, which all call it. */
DEVICE wide warp_sum(wide value) {
  for (int mask = WARP / 2; mask > 0; mask /= 2) value += shuffle_wide(value, mask);
  return value;
}

DEVICE wide warp_maximum(wide value) {
  for (int mask = WARP / 2; mask > 0; mask /= 2) {
    wide other = shuffle_wide(value, mask);
    if (!(other <= value)) value = other; /* this form of the comparison lets NaN win */
  }
  return value;
}

DEVICE double warp_sum_double(double value) {
  for (int mask = WARP / 2; mask > 0; mask /= 2) value += shuffle_double(value, mask);
  return value;
}

/* Return the sum, or the maximum, over the block to all threads, which all call it. `each` is shared memory, a number
 * per warp of the block. Each of these functions has two barriers; at the first one, the block waits for threads that
 * still read earlier numbers in `each`. */
DEVICE wide block_sum(wide value, wide *each) {
  value = warp_sum(value);
  barrier();
  if (lane() == 0) each[warp()] = value;
  barrier();
  wide sum = 0;
  for (int i = 0; i < block_warps(); i++) sum += each[i];
  return sum;
}

DEVICE double block_sum_double(double value, double *each) {
  value = warp_sum_double(value);
  barrier();
  if (lane() == 0) each[warp()] = value;
  barrier();
  double sum = 0;
  for (int i = 0; i < block_warps(); i++) sum += each[i];
  return sum;
}

DEVICE wide block_maximum(wide value, wide *each) {
  value = warp_maximum(value);
  barrier();
  if (lane() == 0) each[warp()] = value;
  barrier();
  wide most = each[0];
  for (int i = 1; i < block_warps(); i++) {
    if (!(each[i] <= most)) most = each[i];
  }
  return most;
}

enum { MOST_WARPS = 1024 / WARP };

#endif
