/* Prefix sums over threads. */
#ifndef TRI_DEVICE_GPU_KERNELS_SCAN_H
#define TRI_DEVICE_GPU_KERNELS_SCAN_H

#include "device/gpu/kernels/primitives.h"

/* Returns the sum of `own` over the lanes before this one. *all: the sum over the warp. All lanes call it. */
DEVICE int warp_sum_before(int own, int *all) {
  int before = 0;
  for (int mask = 1; mask < WARP; mask *= 2) {
    const int other = shuffle_int(own, mask);
    if ((lane() & mask) != 0) before += other;
    own += other;
  }
  *all = own;
  return before;
}

/* Returns the sum of `own` over the threads of the block before this one. *all: the sum over the block. `each` is
 * shared memory, a number per warp. All threads of the block call it; has two barriers. */
DEVICE int block_sum_before(int own, int *each, int *all) {
  int of_warp, sum = 0, before = warp_sum_before(own, &of_warp);
  barrier();
  if (lane() == 0) each[warp()] = of_warp;
  barrier();
  for (int w = 0; w < block_warps(); w++) {
    if (w < warp()) before += each[w];
    sum += each[w];
  }
  *all = sum;
  return before;
}

#endif
