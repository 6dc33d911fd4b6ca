#include "plan/failures.h"

#include <math.h>

/* Without failures, t = interval_s + stop_s seconds pass from one usable checkpoint to the next. A checkpoint is
 * usable behind_s seconds after the end of its stop. So after a failure the run needs restart_s + behind_s + t seconds
 * without a failure to reach the next usable checkpoint; another failure within this time starts it again. The mean of
 * the total is M exp((restart_s + behind_s) / M) (exp(t / M) - 1): Daly's equation 20, with behind_s added to the
 * restart. M is between_s. */
double tri_goodput(const tri_interruptions *of, double interval_s) {
  const double m = of->between_s;
  double whole_s = m * exp((of->restart_s + of->behind_s) / m) * expm1((interval_s + of->stop_s) / m);
  return interval_s / whole_s;
}

double tri_availability(double between_s, double repair_s, int64_t spare) {
  const double mean = repair_s / between_s;
  double sum = 0;
  for (int64_t down = 0; down <= spare; down++) {
    const double term = exp((double)down * log(mean) - mean - lgamma((double)down + 1));
    sum += mean > 0 ? term : down == 0;
    if ((double)down > mean && term < 1e-18) break;
  }
  return fmin(sum, 1);
}

/* Returns the interval with the highest goodput for behind_s = 0, as a share x of M = between_s. There the
 * derivative of interval / (exp((interval + stop_s) / M) - 1) is 0, so log(1 - x) + x + stop_s / M = 0. The left
 * side falls from stop_s / M at x = 0 to minus infinity at x = 1, so bisection finds x. */
static double without_writing(double stop_over_m) {
  enum { HALVINGS = 200 };
  double low = 0, high = 1;
  for (int i = 0; i < HALVINGS; i++) {
    double middle = (low + high) / 2;
    if (log1p(-middle) + middle + stop_over_m > 0) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

double tri_best_interval(const tri_interruptions *of) {
  double best = of->between_s * without_writing(of->stop_s / of->between_s);
  return fmax(best, of->behind_s - of->stop_s);
}

double tri_young_interval(const tri_interruptions *of) { return sqrt(2 * of->stop_s * of->between_s); }

double tri_daly_interval(const tri_interruptions *of) {
  double part = of->stop_s / (2 * of->between_s);
  if (part >= 1) return of->between_s;
  return tri_young_interval(of) * (1 + sqrt(part) / 3 + part / 9) - of->stop_s;
}
