/* What kernels that go over rows share. */
#ifndef TRI_DEVICE_GPU_KERNELS_ROWS_H
#define TRI_DEVICE_GPU_KERNELS_ROWS_H

#include "device/gpu/kernels/primitives.h"

/* a / b of numbers that are not negative: most are small, and 32 bits divide several times faster. */
DEVICE int64_t quotient(int64_t a, int64_t b) {
  if (((uint64_t)a | (uint64_t)b) >> 32 == 0) return (int64_t)((uint32_t)a / (uint32_t)b);
  return a / b;
}

#endif
