/* Loads and stores 16 bytes of wide numbers at once: parameters, their gradients, logits. */
#ifndef TRI_DEVICE_GPU_KERNELS_WIDE_H
#define TRI_DEVICE_GPU_KERNELS_WIDE_H

#include "device/gpu/kernels/primitives.h"

/* Number of wide numbers in 16 bytes; VECTOR is a multiple of it. */
enum { WIDE_VECTOR = 16 / (int)sizeof(wide) };

/* Load and store WIDE_VECTOR numbers at an aligned address. */
DEVICE void load_16_bytes(const wide *from, wide out[WIDE_VECTOR]) {
  union {
    sixteen_bytes all;
    wide each[WIDE_VECTOR];
  } u;
  u.all = *(const sixteen_bytes *)(const void *)from;
  for (int i = 0; i < WIDE_VECTOR; i++) out[i] = u.each[i];
}

DEVICE void store_16_bytes(wide *to, const wide values[WIDE_VECTOR]) {
  union {
    sixteen_bytes all;
    wide each[WIDE_VECTOR];
  } u;
  for (int i = 0; i < WIDE_VECTOR; i++) u.each[i] = values[i];
  *(sixteen_bytes *)(void *)to = u.all;
}

/* Store a parameter's copy in bf16: WIDE_VECTOR elements, at an address aligned to 8 bytes, or one element. With fp32
 * and fp64 there is no copy, and these functions do nothing. */
#if TRI_GPU_TYPE == 16
DEVICE void store_narrow_vector(element *to, const wide values[WIDE_VECTOR]) {
  const uint32_t low = bf16_of_wide(values[0]).bits | (uint32_t)bf16_of_wide(values[1]).bits << 16;
  const uint32_t high = bf16_of_wide(values[2]).bits | (uint32_t)bf16_of_wide(values[3]).bits << 16;
  *(uint64_t *)(void *)to = low | (uint64_t)high << 32;
}
DEVICE void store_narrow(element *to, wide value) { store(to, value); }
#else
DEVICE void store_narrow_vector(element *to, const wide values[WIDE_VECTOR]) { (void)to, (void)values; }
DEVICE void store_narrow(element *to, wide value) { (void)to, (void)value; }
#endif

/* Returns x^n, n >= 0, by squaring: no two libraries' pow agree to the last bit. */
DEVICE double whole_power(double x, int64_t n) {
  double out = 1;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) out *= x;
    x *= x;
  }
  return out;
}

#endif
