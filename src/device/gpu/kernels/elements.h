/* Element by element: kernels/elements.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_ELEMENTS_H
#define TRI_DEVICE_GPU_KERNELS_ELEMENTS_H

#include <stdint.h>

/* Each kernel and the threads of its blocks. */
#define TRI_GPU_KERNELS_elements(K)                                                                                    \
  K(add, 256)                                                                                                          \
  K(convert, 256)

enum { add_threads = 256, convert_threads = 256 };

/* out = a + b: `width` elements a row. */
typedef struct add_arguments {
  const void *a, *b;
  void *out;
  int64_t capacity, width;
  const int32_t *count; /* of rows; or NULL */
} add_arguments;

/* From elements to numbers of `to_bits` bits (64, 32, 16). */
typedef struct convert_arguments {
  const void *in;
  void *out;
  int64_t count;
  int32_t to_bits;
} convert_arguments;

#endif
