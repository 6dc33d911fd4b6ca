/* Sorts keys in shared memory, by all threads of a block. */
#ifndef TRI_DEVICE_GPU_KERNELS_SORT_H
#define TRI_DEVICE_GPU_KERNELS_SORT_H

#include "device/gpu/kernels/primitives.h"

/* Does one step of a bitonic sort: compares and exchanges keys at a distance of `apart`. After the steps from apart =
 * length / 2 to 1, runs of `length` keys alternately ascend and descend. */
DEVICE void compare_keys(uint64_t *keys, int size, int length, int apart) {
  for (int i = thread(); i < size / 2; i += threads()) {
    const int low = (i & ~(apart - 1)) * 2 + (i & (apart - 1)), high = low + apart;
    const uint64_t x = keys[low], y = keys[high];
    if ((x > y) == ((low & length) == 0)) {
      keys[low] = y;
      keys[high] = x;
    }
  }
}

/* Sorts `size` keys, a power of two, in ascending order. The threads may have written them just before; the sorted keys
 * are visible to all threads afterwards. */
DEVICE void sort_keys(uint64_t *keys, int size) {
  for (int length = 2; length <= size; length *= 2) {
    for (int apart = length / 2; apart > 0; apart /= 2) {
      barrier();
      compare_keys(keys, size, length, apart);
    }
  }
  barrier();
}

#endif
