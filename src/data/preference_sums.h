/* Sums over answers of preferences: what the metrics of training, of held-out answers and of `eval` are means of. The
 * names of the metrics are TRL's. */
#ifndef TRI_DATA_PREFERENCE_SUMS_H
#define TRI_DATA_PREFERENCE_SUMS_H

#include "base/exact_terms.h"
#include "data/preference_source.h"

/* Exact, so that the order of the answers does not matter. Starts as {0}. Index 0 is the chosen side, 1 the rejected.
 */
typedef struct tri_preference_sums {
  tri_exact_sum loss, rewards[2], logps[2], cross_entropy, weights;
  int64_t count[2], pairs, right; /* answers; pairs or single answers; pairs whose chosen reward is the higher one */
} tri_preference_sums;

/* Adds samples 0 .. count - 1 of the feed, whose log-probabilities are rows[count, sequence]. settings->kl is KTO's z.
 * units[source->most_units] is scratch memory. */
tri_status tri_preference_sums_add(tri_preference_sums *sums, const tri_preference_settings *settings,
                                   const tri_preference_at *at, int64_t count, const double *rows,
                                   tri_preference_unit *units);
/* Adds the cross entropy of those labels of the same samples that have a weight. */
tri_status tri_preference_sums_add_cross_entropy(tri_preference_sums *sums, const tri_preference_at *at, int64_t count,
                                                 const double *rows);
/* Returns in *out KTO's z: the mean of S - R of mismatched answers (at->mismatched), at least 0. */
tri_status tri_preference_kl(const tri_preference_at *at, int64_t count, const double *rows, tri_preference_unit *units,
                             double *out);

/* Means; NaN where there is nothing to take the mean of. */
typedef struct tri_preference_means {
  double loss;                /* with label_scale times the cross entropy */
  double rewards[2], margins; /* chosen, rejected, and their difference */
  double accuracies;          /* share of pairs whose chosen reward is the higher one; 0 of single answers */
  double logps[2];
} tri_preference_means;

tri_preference_means tri_preference_sums_means(tri_preference_sums *sums, double label_scale);

#endif
