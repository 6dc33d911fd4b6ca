/* The order is R. Tijdeman's ("The chairman assignment problem", Discrete Mathematics 32, 1980): of those that are
 * behind their share by at least 1 / (2K - 2), where K is the number of sources, the next sample is of the one that
 * would be behind by 1 - 1 / (2K - 2) first. After any number of samples no source is then away from its share by more
 * than that, so by less than one sample, which is the best that holds for all weights. Drawing sources at random would
 * be away by the square root of the number.
 *
 * The choice needs the counts so far, and any rank has to find any sample alone. So shares are made whole numbers of a
 * period: after one, everybody has their exact share and the order begins again. Weights as people write them have
 * short periods (0.7, 0.2, 0.1: 10 samples). For others the period is the common denominator, of all up to a million,
 * that comes nearest; what is left is far below what any run can see (some 1e-12 of the samples for two sources, 1e-9
 * for three, below 5e-7 for any number). All is in whole numbers then: no rounding, the same order on every machine. */
#include "data/mixture.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>

/* What doubles that were written in decimal may be off by, and shares that are whole numbers with it. */
static const double exact = 1e-9;

/* The largest error of a share with this period, where it is below `limit` and the counts go together; else INFINITY.
 */
static double share_error(const double *shares, int64_t num_sources, int64_t period, double limit) {
  double worst = 0;
  int64_t sum = 0;
  for (int64_t k = 0; k < num_sources; k++) {
    double wanted = shares[k] * (double)period, count = rint(wanted);
    double error = fabs(wanted - count) <= exact ? 0 : fabs(wanted - count) / (double)period;
    if (error >= limit || count < 1) return INFINITY;
    if (error > worst) worst = error;
    sum += (int64_t)count;
  }
  return sum == period ? worst : INFINITY;
}

tri_status tri_mixture_find_shares(const double *weights, int64_t num_sources, tri_mixture_shares *out,
                                   int64_t *small) {
  double shares[TRI_MOST_SOURCES], largest = 0, sum = 0, best = INFINITY;
  if (num_sources < 1 || num_sources > TRI_MOST_SOURCES) {
    return tri_fail_internal("a mixture of %" PRId64 " sources was asked for", num_sources);
  }
  for (int64_t k = 0; k < num_sources; k++) largest = fmax(largest, weights[k]);
  for (int64_t k = 0; k < num_sources; k++) sum += weights[k] / largest; /* which is no larger than their number */
  for (int64_t k = 0; k < num_sources; k++) {
    shares[k] = weights[k] / largest / sum;
    if (shares[k] * TRI_MIXTURE_LONGEST >= 1) continue;
    if (small != NULL) *small = k;
    return tri_fail(TRI_BAD_CONFIG, "a weight of %g, which is less than 1 / %d of all weights together", weights[k],
                    TRI_MIXTURE_LONGEST);
  }
  int64_t period = 0;
  for (int64_t p = num_sources; p <= TRI_MIXTURE_LONGEST && best > 0; p++) {
    double error = share_error(shares, num_sources, p, best);
    if (error >= best) continue;
    best = error;
    period = p;
  }
  if (period == 0) return tri_fail_internal("no period was found for %" PRId64 " weights", num_sources);
  *out = (tri_mixture_shares){.num_sources = num_sources, .period = period};
  for (int64_t k = 0; k < num_sources; k++) out->counts[k] = (int64_t)rint(shares[k] * (double)period);
  return TRI_OK;
}

/* The source of the sample in this place of the period, where counts[k] of source k lie before it. All is multiplied
 * by (2K - 2) period: products of whole numbers below 2^50. */
static int64_t choose_mixture_source(const tri_mixture_shares *shares, int64_t place, const int64_t *counts) {
  int64_t twice = 2 * shares->num_sources - 2, chosen = -1, slack = 0;
  for (int64_t k = 0; k < shares->num_sources; k++) {
    int64_t behind = twice * ((place + 1) * shares->counts[k] - shares->period * counts[k]);
    if (behind < shares->period) continue;
    int64_t left = (twice - 1) * shares->period - behind; /* over the share: the samples until it is too late */
    if (chosen >= 0 && left * shares->counts[chosen] >= slack * shares->counts[k]) continue;
    chosen = k;
    slack = left;
  }
  return chosen;
}

static void make_order(tri_mixture *mixture) {
  const tri_mixture_shares *shares = &mixture->shares;
  int64_t counts[TRI_MOST_SOURCES] = {0};
  for (int64_t place = 0; place < shares->period; place++) {
    int64_t k = shares->num_sources == 1 ? 0 : choose_mixture_source(shares, place, counts);
    mixture->sources[place] = (uint8_t)k;
    mixture->places[mixture->begins[k] + counts[k]++] = (int32_t)place;
  }
}

tri_status tri_mixture_create(const tri_mixture_shares *shares, tri_mixture *out) {
  tri_mixture mixture = {.shares = *shares};
  size_t period = (size_t)shares->period;
  TRI_TRY(tri_alloc("the order of a mixture", period, sizeof *mixture.sources, &mixture.sources));
  tri_status status = tri_alloc("the order of a mixture", period, sizeof *mixture.places, &mixture.places);
  if (status != TRI_OK) {
    tri_free(mixture.sources);
    return status;
  }
  for (int64_t k = 0; k < shares->num_sources; k++) mixture.begins[k + 1] = mixture.begins[k] + shares->counts[k];
  make_order(&mixture);
  *out = mixture;
  return TRI_OK;
}

void tri_mixture_destroy(tri_mixture *mixture) {
  tri_free(mixture->sources);
  tri_free(mixture->places);
}

/* Those of a source among the first samples of a period, by bisection. */
static int64_t count_in_period(const tri_mixture *mixture, int64_t source, int64_t samples) {
  int64_t low = mixture->begins[source], high = mixture->begins[source + 1];
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (mixture->places[middle] < samples) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - mixture->begins[source];
}

int64_t tri_mixture_count(const tri_mixture *mixture, int64_t source, int64_t samples) {
  int64_t period = mixture->shares.period;
  return samples / period * mixture->shares.counts[source] + count_in_period(mixture, source, samples % period);
}

int64_t tri_mixture_at(const tri_mixture *mixture, int64_t sample, int64_t *number) {
  int64_t source = mixture->sources[sample % mixture->shares.period];
  *number = tri_mixture_count(mixture, source, sample);
  return source;
}
