/* Arithmetic of counts and sizes. Products of numbers from files and options are checked for overflow: a signed product
 * that overflows is undefined, and an unsigned one wraps, so that a giant size passes as a small one. */
#ifndef TRI_BASE_COUNT_H
#define TRI_BASE_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline int64_t tri_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tri_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline double tri_larger_double(double a, double b) { return a > b ? a : b; }

/* Returns a / b rounded up, for a >= 0 and b > 0. */
static inline int64_t tri_divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Returns a count >= 0 rounded up to a multiple of `multiple`, which is above 0. */
static inline int64_t tri_round_up(int64_t count, int64_t multiple) {
  return tri_divide_up(count, multiple) * multiple;
}

/* Compares two doubles, for qsort. */
static inline int tri_compare_doubles(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* Sets *out to a * b. Returns false, with *out unchanged, if that overflows an int64_t. */
static inline bool tri_count_times(int64_t a, int64_t b, int64_t *out) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return false;
  *out = product;
  return true;
}

/* Sets *out to the product of factors[count], which is 1 if count is 0. Returns false, with *out unchanged, if it
 * overflows an int64_t. */
static inline bool tri_count_product(const int64_t *factors, int count, int64_t *out) {
  int64_t product = 1;
  for (int i = 0; i < count; i++) {
    if (!tri_count_times(product, factors[i], &product)) return false;
  }
  *out = product;
  return true;
}

/* Largest size that tri_bytes_plus and tri_bytes_times return. A larger result becomes this size instead of wrapping,
 * so the caller checks only the final sum. */
#define TRI_BYTES_MOST ((size_t)1 << 62)

static inline size_t tri_bytes_plus(size_t a, size_t b) {
  size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) || sum > TRI_BYTES_MOST ? TRI_BYTES_MOST : sum;
}

static inline size_t tri_bytes_times(size_t a, size_t b) {
  size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > TRI_BYTES_MOST ? TRI_BYTES_MOST : product;
}

/* Returns bytes rounded up to a multiple of a cache line, 64 bytes. */
static inline size_t tri_bytes_in_lines(size_t bytes) { return tri_bytes_plus(bytes, 63) / 64 * 64; }

#endif
