/* LoRA factors that begin as the first singular vectors of their matrix. */
#include "check.h"
#include "checkpoint/principal.h"

#include <math.h>

enum { OUT = 5, IN = 3, RANK = 2 };

/* Computes U S V^T with known, orthogonal columns; `turned`: transposed. */
static void fill(bool turned, const double values[IN], double *matrix) {
  static const double u[OUT][IN] = {{1, 0, 0}, {0, -0.6, 0.8}, {0, -0.8, -0.6}, {0, 0, 0}, {0, 0, 0}};
  static const double v[IN][IN] = {{0, 1, 0}, {-1, 0, 0}, {0, 0, 1}};
  for (int i = 0; i < OUT; i++) {
    for (int j = 0; j < IN; j++) {
      double sum = 0;
      for (int k = 0; k < IN; k++) sum += u[i][k] * values[k] * v[j][k];
      matrix[turned ? j * OUT + i : i * IN + j] = sum;
    }
  }
}

static void check_product(bool turned, const double values[IN], double scale) {
  const double kept[IN] = {values[0], values[1], 0};
  const int out = turned ? IN : OUT, in = turned ? OUT : IN;
  double matrix[OUT * IN], best[OUT * IN];
  float a[RANK * OUT], b[OUT * RANK];
  fill(turned, values, matrix);
  fill(turned, kept, best);
  assert_int_equal(tri_principal_factors(matrix, out, in, RANK, scale, a, b), TRI_OK);
  for (int i = 0; i < out; i++) {
    for (int j = 0; j < in; j++) {
      double sum = 0;
      for (int k = 0; k < RANK; k++) sum += scale * (double)b[i * RANK + k] * (double)a[k * in + j];
      assert_true(fabs(sum - best[i * in + j]) < 1e-6);
    }
  }
  for (int k = 0; k < RANK; k++) { /* signs: the largest element of each vector of the shorter side is positive */
    double largest = 0;
    for (int i = 0; i < IN; i++) {
      const double element = turned ? (double)b[i * RANK + k] : (double)a[k * in + i];
      if (fabs(element) > fabs(largest)) largest = element;
    }
    assert_true(largest >= 0);
  }
}

static void are_the_best_of_their_rank(void **state) {
  (void)state;
  for (int turned = 0; turned < 2; turned++) {
    check_product(turned == 1, (const double[]){7, 3, 1}, 2);
    check_product(turned == 1, (const double[]){7, 3, 1}, 0.25);
    check_product(turned == 1, (const double[]){5, 0, 0}, 1); /* a rank below the requested one: no division by 0 */
    check_product(turned == 1, (const double[]){0, 0, 0}, 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(are_the_best_of_their_rank)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
