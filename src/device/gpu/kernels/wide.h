/* Wide numbers, 16 bytes of them at once: of parameters, gradients of parameters, logits. */
#ifndef TRI_DEVICE_GPU_KERNELS_WIDE_H
#define TRI_DEVICE_GPU_KERNELS_WIDE_H

#include "device/gpu/kernels/primitives.h"

/* How many 16 bytes hold; VECTOR is a multiple of it. */
enum { WIDE_VECTOR = 16 / (int)sizeof(wide) };

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

#endif
