/* gaussian_tool EVALUATIONS: a Gaussian process by itself. Standard input: dims, count, places; is_category[dims];
 * log lengths[dims], log strength, log noise; x[count * dims]; y[count]; the places to predict [places * dims]. Prints
 * the numbers after that many evaluations of the likelihood (0: as given), then mean and deviation of each place, then
 * the Shapley values of the first place over the data as background. */
#include "tune/gaussian.h"
#include "tune/shapley.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 4096 };

static void read_numbers(double *out, long count) {
  for (long i = 0; i < count; i++) {
    if (scanf("%lf", &out[i]) != 1) exit(2);
  }
}

int main(int count, char **arguments) {
  static double x[MOST], y[MOST], at[MOST], means[MOST], deviations[MOST];
  double sizes[3], flags[TRI_GAUSSIAN_DIMS], values[TRI_GAUSSIAN_DIMS];
  bool categories[TRI_GAUSSIAN_DIMS];
  tri_gaussian_state state = {.begun = true};
  tri_gaussian *g = NULL;
  if (count != 2) return 2;
  read_numbers(sizes, 3);
  long dims = (long)sizes[0], n = (long)sizes[1], places = (long)sizes[2];
  if (dims > TRI_SHAPLEY_DIMS || n * dims > MOST || places * dims > MOST) return 2;
  read_numbers(flags, dims);
  for (long d = 0; d < dims; d++) categories[d] = flags[d] != 0;
  read_numbers(state.log, dims + 2);
  read_numbers(x, n * dims);
  read_numbers(y, n);
  read_numbers(at, places * dims);
  tri_status status = tri_gaussian_create(dims, categories, n, x, y, atoi(arguments[1]), &state, &g);
  if (status == TRI_OK) status = tri_gaussian_predict(g, places, at, means, deviations);
  if (status == TRI_OK) status = tri_shapley(g, dims, n, x, at, values);
  for (long i = 0; status == TRI_OK && i < dims + 2; i++) printf("%.17g\n", state.log[i]);
  for (long i = 0; status == TRI_OK && i < places; i++) printf("%.17g %.17g\n", means[i], deviations[i]);
  for (long i = 0; status == TRI_OK && i < dims; i++) printf("%.17g\n", values[i]);
  tri_gaussian_destroy(g);
  if (status != TRI_OK) fprintf(stderr, "%s\n", tri_status_message());
  return tri_status_exit(status);
}
