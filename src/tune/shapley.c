#include "tune/shapley.h"

#include "base/memory.h"

#include <string.h>

/* The model's mean with the parameters of the set at x, the others as in the background, over all of it. */
static double with_set(const tri_gaussian *model, int64_t dims, int64_t count, const double *background,
                       const double *x, unsigned set, double *scratch) {
  double sum = 0, mixed[TRI_GAUSSIAN_DIMS], mean = 0;
  for (int64_t b = 0; b < count; b++) {
    for (int64_t d = 0; d < dims; d++) mixed[d] = (set >> d & 1u) != 0 ? x[d] : background[b * dims + d];
    tri_gaussian_predict(model, mixed, scratch, &mean, NULL);
    sum += mean;
  }
  return sum / (double)count;
}

static int size_of(unsigned set) {
  int size = 0;
  for (; set != 0; set &= set - 1) size++;
  return size;
}

/* |S|! (n - |S| - 1)! / n! */
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
  tri_status status = tri_alloc("Shapley values", 1 << 16, sizeof *scratch, &scratch);
  for (unsigned set = 0; status == TRI_OK && set < sets; set++) {
    means[set] = with_set(model, dims, count, background, x, set, scratch);
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
