/* The singular vectors of A along its shorter side are the eigenvectors of A A^T. LAPACK computes the last few of them
 * at the cost of reducing the product to tridiagonal form, a tenth of a full decomposition of A. Squaring loses the
 * digits below the square root of the precision, relative to the first value; training does not need more for such
 * small directions. */
#include "checkpoint/singular_vectors.h"

#include "base/loop_threads.h"
#include "base/memory.h"

#include <inttypes.h>
#include <lapacke.h>
#include <math.h>

/* ---- A A^T ------------------------------------------------------------------------------------------------------- */

/* COLUMNS: columns of a block of the matrix, which stays in a cache. PAIR: rows, and columns, of a tile of the product.
 * LANES: partial sums of each element of the product, for SIMD. */
enum { COLUMNS = 256, PAIR = 2, LANES = 4 };

typedef struct product {
  int64_t side, length;
  const double *a;
  double *square; /* [side, side]: lower triangle with the diagonal */
} product;

static const double *row_of(const product *p, int64_t row) {
  return p->a + (row < p->side ? row : p->side - 1) * p->length;
}

static void add_tile(const product *p, int64_t i, int64_t j, int64_t first, int64_t end) {
  double sums[PAIR][PAIR][LANES] = {0};
  const double *left[PAIR], *right[PAIR];
  int64_t k = first;
  for (int x = 0; x < PAIR; x++) {
    left[x] = row_of(p, i + x);
    right[x] = row_of(p, j + x);
  }
  for (; k + LANES <= end; k += LANES) {
    for (int x = 0; x < PAIR; x++) {
      for (int y = 0; y < PAIR; y++) {
        for (int l = 0; l < LANES; l++) sums[x][y][l] += left[x][k + l] * right[y][k + l];
      }
    }
  }
  for (int x = 0; x < PAIR && i + x < p->side; x++) {
    for (int y = 0; y < PAIR && j + y <= i + x; y++) {
      double sum = 0;
      for (int l = 0; l < LANES; l++) sum += sums[x][y][l];
      for (int64_t rest = k; rest < end; rest++) sum += left[x][rest] * right[y][rest];
      p->square[(i + x) * p->side + j + y] += sum;
    }
  }
}

/* Computes the product. Each element is summed by one thread in a fixed order. */
static void multiply(const product *p) {
  for (int64_t first = 0; first < p->length; first += COLUMNS) {
    const int64_t end = first + COLUMNS < p->length ? first + COLUMNS : p->length;
#pragma omp parallel for schedule(dynamic) num_threads(tri_loop_threads())
    for (int64_t i = 0; i < p->side; i += PAIR) {
      for (int64_t j = 0; j <= i; j += PAIR) add_tile(p, i, j, first, end);
    }
  }
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

/* Makes the element of largest magnitude positive. The sign of a vector is arbitrary, but optimizer moments depend on
 * it. */
static void make_positive(int64_t side, double *vector) {
  int64_t largest = 0;
  for (int64_t i = 1; i < side; i++) {
    if (fabs(vector[i]) > fabs(vector[largest])) largest = i;
  }
  if (vector[largest] >= 0) return;
  for (int64_t i = 0; i < side; i++) vector[i] = -vector[i];
}

/* Copies the vectors in reverse order, because LAPACK's values ascend, and chooses their signs (make_positive). */
static void copy_last(const product *p, int64_t count, const double *found, double *vectors) {
  for (int64_t v = 0; v < count; v++) {
    const double *from = found + (count - 1 - v) * p->side;
    for (int64_t i = 0; i < p->side; i++) vectors[v * p->side + i] = from[i];
    make_positive(p->side, vectors + v * p->side);
  }
}

/* Computes the last `count` eigenvectors with LAPACK, for which the rows of our lower triangle are columns of an upper
 * one. Fails with TRI_DIVERGED if LAPACK does. */
static tri_status find(const product *p, int64_t count, double *values, double *found, lapack_int *support) {
  const lapack_int n = (lapack_int)p->side, first = (lapack_int)(p->side - count + 1);
  lapack_int number = 0;
  const lapack_int wrong = LAPACKE_dsyevr(LAPACK_COL_MAJOR, 'V', 'I', 'U', n, p->square, n, 0, 0, first, n, 0, &number,
                                          values, found, n, support);
  if (wrong == 0 && number == (lapack_int)count) return TRI_OK;
  return tri_fail(
      TRI_DIVERGED,
      "cannot compute the singular vectors of a matrix [%" PRId64 ", %" PRId64
      "] (LAPACK returned %d), because its numbers are too large; if it is a gradient, a lower learning rate may help",
      p->side, p->length, (int)wrong);
}

tri_status tri_singular_vectors(int64_t side, int64_t length, const double *matrix, int64_t count, double *vectors) {
  product p = {side, length, matrix, NULL};
  double *values = NULL, *found = NULL;
  lapack_int *support = NULL;
  tri_status status = tri_alloc("singular vectors", (size_t)side * (size_t)side, sizeof *p.square, &p.square);
  if (status == TRI_OK) status = tri_alloc("singular vectors", (size_t)side, sizeof *values, &values);
  if (status == TRI_OK) status = tri_alloc("singular vectors", (size_t)side * (size_t)count, sizeof *found, &found);
  if (status == TRI_OK) status = tri_alloc("singular vectors", 2 * (size_t)side, sizeof *support, &support);
  if (status == TRI_OK) {
    multiply(&p);
    status = find(&p, count, values, found, support);
  }
  if (status == TRI_OK) copy_last(&p, count, found, vectors);
  tri_free(support);
  tri_free(found);
  tri_free(values);
  tri_free(p.square);
  return status;
}
