/* Adds the bias, if a library does not (takes_bias in gemm.c): above all in fp64, whose speed does not matter. */
#include "device/gpu/kernels/products.h"

#include "device/gpu/kernels/primitives.h"

KERNEL(add_bias) {
  const wide *bias = (const wide *)a.bias;
  for (int64_t row = block_y(); row < a.rows; row += a.row_step) {
    element *out = (element *)a.out + row * a.ld;
    for (int64_t i = block_x() * threads() + thread(); i < a.width; i += blocks_x() * threads())
      store(out + i, load(out + i) + bias[i]);
  }
}
