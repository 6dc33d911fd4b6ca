/* DoRA's magnitudes: kernels/magnitude.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_MAGNITUDE_H
#define TRI_DEVICE_GPU_KERNELS_MAGNITUDE_H

#include "device/gpu/kernels/sums.h"
#include "device/gpu/kernels/threads.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_magnitude(K) K(magnitude_forward, 256) K(magnitude_sums, 256)
enum { TRI_GPU_KERNELS_magnitude(TRI_GPU_THREADS) };

/* magnitudes, squares and offsets [width]; x and y [rows, width], rows ld elements apart. */
typedef struct magnitude_forward_arguments {
  const void *magnitudes, *squares, *offsets; /* wide; offsets may be NULL */
  const void *x;
  void *y;
  int64_t capacity, width, ld;
  const int32_t *count;
} magnitude_forward_arguments;

/* Stage 1 of sums down columns (columns.h). */
typedef struct magnitude_sums_arguments {
  const void *gradient_y, *x;
  const void *squares, *offsets; /* wide; offsets may be NULL */
  void *slabs;                   /* [slabs of the launch, width] */
  int64_t capacity, width, ld;
  const int32_t *count;
  column_slabs cut;
} magnitude_sums_arguments;

#endif
