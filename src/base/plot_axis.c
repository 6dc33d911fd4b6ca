#include "base/plot_axis.h"

#include <math.h>
#include <stdint.h>

/* If the axis has no extent (as for 1e30 and 1e30 + 1), all values are in the middle. */
double tri_plot_place(const tri_plot_axis *a, double value) {
  if (!(a->high > a->low)) return a->start + a->size / 2;
  double share = a->logarithmic ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
  return a->start + a->size * share;
}

static double tick_distance(double range, int wanted) {
  double rough = range / wanted, power = pow(10, floor(log10(rough)));
  double lead = rough / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static int even_ticks(const tri_plot_axis *a, int wanted, double out[TRI_PLOT_TICKS]) {
  double distance = fmax(tick_distance(a->high - a->low, wanted), a->whole ? 1 : 0);
  int64_t last = llround(floor(a->high / distance));
  int count = 0;
  for (int64_t i = llround(ceil(a->low / distance)); i <= last && count < TRI_PLOT_TICKS; i++) {
    out[count++] = (double)i * distance;
  }
  return count;
}

static int logarithmic_ticks(const tri_plot_axis *a, double out[TRI_PLOT_TICKS]) {
  static const double leads[] = {1, 2, 3, 5};
  int of_power = a->high / a->low > 1000 ? 1 : 4, count = 0;
  int last = (int)floor(log10(a->high));
  for (int power = (int)floor(log10(a->low)); power <= last; power++) {
    for (int i = 0; i < of_power && count < TRI_PLOT_TICKS; i++) {
      double value = leads[i] * pow(10, power);
      if (value >= a->low && value <= a->high) out[count++] = value;
    }
  }
  return count;
}

int tri_plot_ticks(const tri_plot_axis *axis, int wanted, double out[TRI_PLOT_TICKS]) {
  if (!(axis->high > axis->low) || !isfinite(axis->high - axis->low)) return 0;
  int count = axis->logarithmic ? logarithmic_ticks(axis, out) : 0;
  return count < 2 ? even_ticks(axis, wanted, out) : count;
}
