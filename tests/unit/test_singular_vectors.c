/* Singular vectors of matrices made from known ones: cosines of multiples of a half wave, which are orthonormal. */
#include "check.h"
#include "checkpoint/singular_vectors.h"

#include <math.h>

enum { MOST = 40 * 70 };

/* Returns element i of the k-th of `length` orthonormal vectors. */
static double wave(int64_t length, int64_t k, int64_t i) {
  const double pi = 3.14159265358979323846;
  return sqrt((k == 0 ? 1.0 : 2.0) / (double)length) * cos(pi * ((double)i + 0.5) * (double)k / (double)length);
}

/* Sets the matrix to the sum over k of values[k] times the outer product of the k-th vectors. */
static void fill(int64_t side, int64_t length, int64_t count, const double *values, double *matrix) {
  for (int64_t i = 0; i < side; i++) {
    for (int64_t j = 0; j < length; j++) {
      double sum = 0;
      for (int64_t k = 0; k < count; k++) sum += values[k] * wave(side, k, i) * wave(length, k, j);
      matrix[i * length + j] = sum;
    }
  }
}

/* Compares a vector up to its sign, which makes its largest element positive. */
static void check_vector(int64_t side, int64_t k, const double *vector, double tolerance) {
  double largest = 0, product = 0;
  for (int64_t i = 0; i < side; i++) {
    product += vector[i] * wave(side, k, i);
    if (!(fabs(vector[i]) <= fabs(largest))) largest = vector[i];
  }
  assert_true(largest > 0);
  for (int64_t i = 0; i < side; i++)
    assert_true(fabs(vector[i] - (product > 0 ? 1 : -1) * wave(side, k, i)) <= tolerance);
}

/* The singular values descend in an order that is not that of the waves. */
static void finds_the_first(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 1}, {1, 9}, {2, 3}, {7, 7}, {12, 70}, {33, 35}, {40, 68}};
  static double matrix[MOST], vectors[MOST], values[MOST];
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int64_t side = shapes[s][0], length = shapes[s][1];
    for (int64_t k = 0; k < side; k++) values[k] = pow(0.8, (double)((k * 5 + 3) % side));
    if (side % 5 == 0) continue; /* powers would be repeated */
    fill(side, length, side, values, matrix);
    for (int64_t count = 1; count <= side; count += 3) {
      assert_int_equal(tri_singular_vectors(side, length, matrix, count, vectors), TRI_OK);
      for (int64_t k = 0; k < side; k++) {
        const int64_t place = (k * 5 + 3) % side;
        if (place < count) check_vector(side, k, vectors + place * side, 1e-9);
      }
    }
  }
}

/* If the matrix has fewer directions than requested, the other vectors are any orthonormal ones. */
static void takes_what_has_no_values(void **state) {
  (void)state;
  static double matrix[MOST], vectors[MOST];
  const double values[] = {3, 2};
  for (int64_t known = 0; known <= 2; known++) {
    fill(9, 20, known, values, matrix);
    assert_int_equal(tri_singular_vectors(9, 20, matrix, 6, vectors), TRI_OK);
    for (int64_t k = 0; k < known; k++) check_vector(9, k, vectors + k * 9, 1e-12);
    for (int64_t a = 0; a < 6; a++) {
      for (int64_t b = 0; b < 6; b++) {
        double product = 0;
        for (int64_t i = 0; i < 9; i++) product += vectors[a * 9 + i] * vectors[b * 9 + i];
        assert_true(fabs(product - (a == b ? 1 : 0)) <= 1e-12);
      }
    }
  }
}

static void says_what_is_not_finite(void **state) {
  (void)state;
  double matrix[6] = {1, 2, 3, INFINITY, 5, 6}, vectors[4];
  assert_int_equal(tri_singular_vectors(2, 3, matrix, 1, vectors), TRI_DIVERGED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_the_first),
      cmocka_unit_test(takes_what_has_no_values),
      cmocka_unit_test(says_what_is_not_finite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
