/* Sums over answers of preferences, from which the metrics of training, of held-out answers and of `eval` are computed
 * as means. The names of the metrics are TRL's. */
#ifndef TRI_DATA_PREFERENCE_SUMS_H
#define TRI_DATA_PREFERENCE_SUMS_H

#include "data/preference_source.h"
#include "device/exact_sum.h"

/* Exact sums, so that the order of answers does not matter. Starts as {0}. Index 0: chosen, 1: rejected. */
typedef struct tri_preference_sums {
  tri_exact_sum loss, rewards[2], logps[2], cross_entropy, weights;
  int64_t count[2], pairs, right; /* count: number of answers of each side; pairs: number of pairs or single answers;
                                     right: number of pairs whose chosen answer has the higher reward */
} tri_preference_sums;

/* Adds samples 0 .. count - 1 of the feed, with their log-probabilities rows[count, sequence]. settings->kl is KTO's z.
 * units[source->most_units] is scratch memory. */
tri_status tri_preference_sums_add(tri_preference_sums *sums, const tri_preference_settings *settings,
                                   const tri_preference_at *at, int64_t count, const double *rows,
                                   tri_preference_unit *units);
/* Adds the cross entropy of the same samples, over the labels that have a weight. */
tri_status tri_preference_sums_add_cross_entropy(tri_preference_sums *sums, const tri_preference_at *at, int64_t count,
                                                 const double *rows);
/* Computes KTO's z: the mean over mismatched answers (at->mismatched) of the difference of the summed log-probabilities
 * under the model and the reference; at least 0. */
tri_status tri_preference_kl(const tri_preference_at *at, int64_t count, const double *rows, tri_preference_unit *units,
                             double *out);

/* Means; NaN if there are no values. */
typedef struct tri_preference_means {
  double loss;                /* loss, with label_scale times the cross entropy added */
  double rewards[2], margins; /* chosen, rejected, and their difference */
  double
      accuracies; /* fraction of pairs whose chosen answer has the higher reward; not meaningful for single answers */
  double logps[2];
} tri_preference_means;

tri_preference_means tri_preference_sums_means(tri_preference_sums *sums, double label_scale);

#endif
