#include "tune/shapley.h"

#include "base/memory.h"

#include <string.h>

/* Computes the mean of the model over background[count * dims], after the parameters of the set are replaced by those
 * of x. `mixed` is scratch [count * dims + count]. */
static tri_status with_set(const tri_gaussian *model, int64_t dims, int64_t count, const double *background,
                           const double *x, unsigned set, double *mixed, double *out) {
  double sum = 0, *means = mixed + count * dims;
  for (int64_t i = 0; i < count * dims; i++) mixed[i] = (set >> (i % dims) & 1u) != 0 ? x[i % dims] : background[i];
  TRI_TRY(tri_gaussian_predict(model, count, mixed, means, NULL));
  for (int64_t b = 0; b < count; b++) sum += means[b];
  *out = sum / (double)count;
  return TRI_OK;
}

static int size_of(unsigned set) {
  int size = 0;
  for (; set != 0; set &= set - 1) size++;
  return size;
}

/* Returns the weight of a set S in a Shapley value: |S|! (n - |S| - 1)! / n!. */
static double weight_of(int64_t dims, int size) {
  double weight = 1.0 / (double)dims;
  for (int i = 1; i <= size; i++) weight *= (double)i / (double)(dims - i);
  return weight;
}

tri_status tri_shapley(const tri_gaussian *model, int64_t dims, int64_t count, const double *background,
                       const double *x, double *values) {
  double *means = NULL, *scratch = NULL;
  if (dims > TRI_SHAPLEY_DIMS) {
    return tri_fail(TRI_UNSUPPORTED, "Shapley values of %lld parameters: at most %d are enumerated", (long long)dims,
                    TRI_SHAPLEY_DIMS);
  }
  unsigned sets = 1u << dims;
  TRI_TRY(tri_alloc("Shapley values", sets, sizeof *means, &means));
  tri_status status = tri_alloc("Shapley values", (size_t)count * (size_t)(dims + 1), sizeof *scratch, &scratch);
  for (unsigned set = 0; status == TRI_OK && set < sets; set++) {
    status = with_set(model, dims, count, background, x, set, scratch, &means[set]);
  }
  for (int64_t d = 0; status == TRI_OK && d < dims; d++) {
    values[d] = 0;
    for (unsigned set = 0; set < sets; set++) {
      if ((set >> d & 1u) != 0) continue;
      values[d] += weight_of(dims, size_of(set)) * (means[set | 1u << d] - means[set]);
    }
  }
  tri_free(scratch);
  tri_free(means);
  return status;
}
