/* Kernels that go over elements. Each thread takes VECTOR of them at a time where all addresses allow 16 bytes at once,
 * and blocks go on in strides of the whole grid, so that any number of blocks is right. */
#include "device/gpu/kernels/elements.h"

#include "device/gpu/kernels/primitives.h"

/* The first vector of this thread, and the step to its next. */
DEVICE int64_t first_item(void) { return block_x() * threads() + thread(); }
DEVICE int64_t item_step(void) { return blocks_x() * threads(); }

KERNEL(add) {
  const element *x = (const element *)a.a, *y = (const element *)a.b;
  element *out = (element *)a.out;
  const int64_t count = live_rows(a.capacity, a.count) * a.width;
  const int64_t vectors = is_aligned(x) && is_aligned(y) && is_aligned(out) ? count / VECTOR : 0;
  wide left[VECTOR], right[VECTOR];
  for (int64_t i = first_item(); i < vectors; i += item_step()) {
    load_vector(x + i * VECTOR, left);
    load_vector(y + i * VECTOR, right);
    for (int j = 0; j < VECTOR; j++) left[j] += right[j];
    store_vector(out + i * VECTOR, left);
  }
  for (int64_t i = vectors * VECTOR + first_item(); i < count; i += item_step())
    store(out + i, load(x + i) + load(y + i));
}

/* A narrower result is rounded once. */
DEVICE void store_as(int bits, void *out, int64_t i, wide value) {
  if (bits == 64) {
    ((double *)out)[i] = (double)value;
  } else if (bits == 32) {
    ((float *)out)[i] = (float)value;
  } else {
    ((bf16 *)out)[i] = bf16_of_wide(value);
  }
}

KERNEL(convert) {
  const element *in = (const element *)a.in;
  for (int64_t i = first_item(); i < a.count; i += item_step()) store_as(a.to_bits, a.out, i, load(in + i));
}
