/* The order is R. Tijdeman's ("The chairman assignment problem", Discrete Mathematics 32, 1980): among the sources that
 * lag behind their share by at least 1 / (2K - 2), where K is the number of sources, the next sample is from the source
 * that would first lag by 1 - 1 / (2K - 2). After any number of samples every source then differs from its share by at
 * most 1 - 1 / (2K - 2), so by less than one sample, which is the best possible bound for all weights. With random
 * sources the difference would be of the order of the square root of the number of samples.
 *
 * The choice needs the counts so far, but every rank must find any sample without computing the samples before it. So
 * shares are integers of a period: after each period every source has its exact share, and the order repeats. Usual
 * weights have short periods (0.7, 0.2, 0.1: 10 samples). For other weights the period is the most accurate common
 * denominator up to a million; the error is negligible (some 1e-12 of the samples for two sources, 1e-9 for three,
 * below 5e-7 for any number). All numbers are then integers: no rounding, and the same order on every machine. */
#include "data/mixture.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>

/* A share times the period counts as an integer if it differs from one by at most this. The tolerance allows for the
 * rounding of weights that are written in decimal. */
static const double exact = 1e-9;

/* Returns the largest error of a share with this period, if it is below `limit`, each source has a sample and the
 * counts sum to the period; else INFINITY. */
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
  for (int64_t k = 0; k < num_sources; k++) sum += weights[k] / largest; /* the sum is at most num_sources */
  for (int64_t k = 0; k < num_sources; k++) {
    shares[k] = weights[k] / largest / sum;
    if (shares[k] * TRI_MIXTURE_LONGEST >= 1) continue;
    if (small != NULL) *small = k;
    return tri_fail(TRI_BAD_CONFIG, "a weight of %g, which is less than 1 / %d of the sum of all weights", weights[k],
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

/* Returns the source of sample `place` of the period, if the samples before it are counts[k] samples of each source k.
 * All values are multiplied by (2 K - 2) period, where K is the number of sources, so they are integers below 2^50. */
static int64_t choose_mixture_source(const tri_mixture_shares *shares, int64_t place, const int64_t *counts) {
  int64_t twice = 2 * shares->num_sources - 2, chosen = -1, slack = 0;
  for (int64_t k = 0; k < shares->num_sources; k++) {
    int64_t behind = twice * ((place + 1) * shares->counts[k] - shares->period * counts[k]);
    if (behind < shares->period) continue;
    int64_t left = (twice - 1) * shares->period - behind; /* number of samples until the limit, times the share */
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

/* Returns the number of samples of a source among the first `samples` of a period, found by bisection. */
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
