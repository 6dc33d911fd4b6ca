#include "checkpoint/principal.h"

#include "base/loop_threads.h"
#include "base/memory.h"
#include "checkpoint/singular_vectors.h"

#include <math.h>

static tri_status transpose(int64_t rows, int64_t columns, const double *from, double **out) {
  TRI_TRY(tri_alloc("a matrix", (size_t)rows * (size_t)columns, sizeof **out, out));
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) (*out)[j * rows + i] = from[i * columns + j];
  }
  return TRI_OK;
}

/* Computes row[length] = vector[side] matrix[side, length]; if `vector` is a singular vector, the row is the matching
 * vector along the other side times the singular value. Returns the row's norm, which is the singular value. */
static double project(int64_t side, int64_t length, const double *matrix, const double *vector, double *row) {
  double squares = 0;
  for (int64_t j = 0; j < length; j++) row[j] = 0;
  for (int64_t i = 0; i < side; i++) {
    for (int64_t j = 0; j < length; j++) row[j] += vector[i] * matrix[i * length + j];
  }
  for (int64_t j = 0; j < length; j++) squares += row[j] * row[j];
  return sqrt(squares);
}

/* The destination of the vectors along one side. */
typedef struct side_of {
  float *to;             /* first element of the first vector */
  int64_t step, spacing; /* distances in elements: of two elements of a vector (step), and of two vectors (spacing) */
} side_of;

static void copy_vectors(int64_t side, int64_t length, const double *matrix, int64_t rank, double scale,
                         const double *vectors, double *rows, side_of shorter, side_of longer) {
#pragma omp parallel for schedule(dynamic) num_threads(tri_loop_threads())
  for (int64_t k = 0; k < rank; k++) {
    const double *vector = vectors + k * side;
    double *row = rows + k * length;
    const double value = project(side, length, matrix, vector, row);
    const double here = sqrt(value / scale), there = value > 0 ? 1 / sqrt(value * scale) : 0;
    for (int64_t i = 0; i < side; i++) shorter.to[k * shorter.spacing + i * shorter.step] = (float)(vector[i] * here);
    for (int64_t j = 0; j < length; j++) longer.to[k * longer.spacing + j * longer.step] = (float)(row[j] * there);
  }
}

tri_status tri_principal_factors(const double *matrix, int64_t out, int64_t in, int64_t rank, double scale, float *a,
                                 float *b) {
  const bool turned = out > in;
  const int64_t side = turned ? in : out, length = turned ? out : in;
  const side_of of_a = {a, 1, in}, of_b = {b, rank, 1};
  double *vectors = NULL, *rows = NULL, *other = NULL;
  tri_status status = tri_alloc("singular vectors", (size_t)rank * (size_t)side, sizeof *vectors, &vectors);
  if (status == TRI_OK) status = tri_alloc("singular vectors", (size_t)rank * (size_t)length, sizeof *rows, &rows);
  if (status == TRI_OK && turned) status = transpose(out, in, matrix, &other);
  const double *used = turned ? other : matrix;
  if (status == TRI_OK) status = tri_singular_vectors(side, length, used, rank, vectors);
  if (status == TRI_OK) {
    copy_vectors(side, length, used, rank, scale, vectors, rows, turned ? of_a : of_b, turned ? of_b : of_a);
  }
  tri_free(other);
  tri_free(rows);
  tri_free(vectors);
  return status;
}

tri_status tri_principal_create(const tri_checkpoint *base, const tri_parameter *matrix, const tri_adapter_pair *pair,
                                tri_principal *out) {
  const int way = matrix->in_out ? 0 : 1;
  const size_t count = (size_t)tri_parameter_global_count(matrix);
  const int64_t most = matrix->shape[0] < matrix->shape[1] ? matrix->shape[0] : matrix->shape[1];
  if (pair->rank > most) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "rank %ld is too large for %.80s of %s, a matrix of %ld x %ld, which has at most %ld singular vectors",
        (long)pair->rank, matrix->name, tri_checkpoint_path(base), (long)matrix->shape[0], (long)matrix->shape[1],
        (long)most);
  }
  tri_principal made = {.rank = pair->rank, .in = matrix->shape[way], .out = matrix->shape[1 - way]};
  double *read = NULL, *other = NULL;
  TRI_TRY(tri_alloc("a matrix of the base", count, sizeof *read, &read));
  tri_status status = tri_checkpoint_read(base, matrix->name, TRI_FP64, matrix->num_dims, matrix->shape, NULL, read);
  const tri_checkpoint_slice all = {.count = tri_parameter_global_count(matrix), .data = read};
  if (status == TRI_OK) status = tri_checkpoint_check_finite(base, matrix, TRI_FP64, &all);
  if (status == TRI_OK && matrix->in_out) status = transpose(made.in, made.out, read, &other);
  if (status == TRI_OK) status = tri_alloc("a factor", (size_t)(made.rank * made.in), sizeof *made.a, &made.a);
  if (status == TRI_OK) status = tri_alloc("a factor", (size_t)(made.out * made.rank), sizeof *made.b, &made.b);
  if (status == TRI_OK) {
    const double *whole = matrix->in_out ? other : read;
    status = tri_principal_factors(whole, made.out, made.in, made.rank, pair->scale, made.a, made.b);
  }
  tri_free(other);
  tri_free(read);
  if (status == TRI_OK) *out = made;
  if (status != TRI_OK) tri_principal_release(&made);
  return status;
}

void tri_principal_release(tri_principal *principal) {
  tri_free(principal->a);
  tri_free(principal->b);
  *principal = (tri_principal){0};
}
