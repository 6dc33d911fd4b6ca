/* Products of numbers that somebody else chose: sizes in files, options, whatever is multiplied before it is compared.
 * Signed products that overflow are undefined and unsigned ones wrap, so that a giant becomes a small number that fits;
 * neither happens here. */
#ifndef TRI_BASE_COUNT_H
#define TRI_BASE_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out is a * b; false, and *out unchanged, where that is more than an int64_t holds. */
static inline bool tri_count_times(int64_t a, int64_t b, int64_t *out) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return false;
  *out = product;
  return true;
}

/* The product of `count` factors, in the same way. */
static inline bool tri_count_product(const int64_t *factors, int count, int64_t *out) {
  int64_t product = 1;
  for (int i = 0; i < count; i++) {
    if (!tri_count_times(product, factors[i], &product)) return false;
  }
  *out = product;
  return true;
}

/* Sizes that only grow stop at this many bytes instead of wrapping: the caller checks the sum once, at the end. */
#define TRI_BYTES_MOST ((size_t)1 << 62)

static inline size_t tri_bytes_plus(size_t a, size_t b) {
  size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) || sum > TRI_BYTES_MOST ? TRI_BYTES_MOST : sum;
}

static inline size_t tri_bytes_times(size_t a, size_t b) {
  size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > TRI_BYTES_MOST ? TRI_BYTES_MOST : product;
}

/* Up to the end of a cache line of 64 bytes: what lies side by side begins at one. */
static inline size_t tri_bytes_in_lines(size_t bytes) { return tri_bytes_plus(bytes, 63) / 64 * 64; }

#endif
