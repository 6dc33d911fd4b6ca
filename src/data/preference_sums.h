/* Sums over answers of preferences, for the metrics of training, of held-out answers and of `eval`, which are means.
 * The names of the metrics are TRL's. */
#ifndef TRI_DATA_PREFERENCE_SUMS_H
#define TRI_DATA_PREFERENCE_SUMS_H

#include "data/preference_source.h"
#include "device/exact_sum.h"

/* Exact sums, so that the order of answers does not matter. Starts as {0}. Index 0: chosen, 1: rejected. */
typedef struct tri_preference_sums {
  tri_exact_sum loss, rewards[2], logps[2], cross_entropy, weights;
  int64_t count[2], pairs,
      right; /* answers; pairs or single answers; pairs with the higher reward for the chosen answer */
} tri_preference_sums;

/* Adds samples 0 .. count - 1 of the feed, whose log-probabilities are rows[count, sequence]. settings->kl is KTO's z.
 * units[source->most_units] is scratch memory. */
tri_status tri_preference_sums_add(tri_preference_sums *sums, const tri_preference_settings *settings,
                                   const tri_preference_at *at, int64_t count, const double *rows,
                                   tri_preference_unit *units);
/* Adds the cross entropy of the labels with a weight of the same samples. */
tri_status tri_preference_sums_add_cross_entropy(tri_preference_sums *sums, const tri_preference_at *at, int64_t count,
                                                 const double *rows);
/* Computes KTO's z: the mean of S - R of mismatched answers (at->mismatched), at least 0. */
tri_status tri_preference_kl(const tri_preference_at *at, int64_t count, const double *rows, tri_preference_unit *units,
                             double *out);

/* Means; NaN if there are no values. */
typedef struct tri_preference_means {
  double loss;                /* with label_scale times the cross entropy */
  double rewards[2], margins; /* chosen, rejected, and their difference */
  double accuracies;          /* share of pairs with the higher reward for the chosen answer; 0 for single answers */
  double logps[2];
} tri_preference_means;

tri_preference_means tri_preference_sums_means(tri_preference_sums *sums, double label_scale);

#endif
