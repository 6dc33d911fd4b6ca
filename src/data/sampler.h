/* Where the micro-batches of a run come from: one corpus, or several in given shares. */
#ifndef TRI_DATA_SAMPLER_H
#define TRI_DATA_SAMPLER_H

#include "data/feed.h"
#include "data/mixture.h"
#include "data/source.h"

/* Sample `index` of an endless sequence: what it is depends on the corpora with their weights and (seed, index) alone.
 * Weights are shares of samples, thus of sequences: mixture.h says which sample is of which source. Each source goes
 * through epochs of its own (source.h), in an order of its own. */
typedef struct tri_sampler {
  int64_t sequence;
  bool masked;
  int64_t per_epoch; /* samples in one pass over all sources; 0: there are none */
  tri_source *sources;
  tri_mixture mixture;
  float *label_weights; /* [sources]: of the labels of each; NULL: 1 */
} tri_sampler;

/* corpora[shares->num_sources]. A sampler of one source has its order; one of several gives each a seed of its own.
 * Release with tri_sampler_destroy; the corpora must outlive it. */
tri_status tri_sampler_create(const tri_corpus *const *corpora, const tri_mixture_shares *shares,
                              const tri_source_options *options, tri_sampler *out);
void tri_sampler_destroy(tri_sampler *sampler);

/* From now on the labels of each source weigh so much: weights[sources]. */
tri_status tri_sampler_weigh(tri_sampler *sampler, const double *weights);

/* Sample `index`, shuffled. */
tri_status tri_sampler_read(const tri_sampler *sampler, int64_t index, const tri_sample *out);

/* The shuffled samples, and some of them in their order: `count`, spread evenly over all. */
tri_feed tri_sampler_feed(const tri_sampler *sampler);
/* The shuffled samples, from number `by` on in the place of the first. */
typedef struct tri_sampler_shift {
  const tri_sampler *sampler;
  int64_t by;
} tri_sampler_shift;
tri_feed tri_sampler_shifted_feed(const tri_sampler_shift *shift);
typedef struct tri_sampler_spread {
  const tri_sampler *sampler;
  int64_t count; /* <= per_epoch */
} tri_sampler_spread;
tri_feed tri_sampler_spread_feed(const tri_sampler_spread *spread);

/* The samples of one source after the other, as tri_source_read_in_order has them. index < per_epoch. */
tri_status tri_sampler_read_in_order(const tri_sampler *sampler, int64_t index, const tri_sample *out);

/* Of the first `samples`: how many are of a source, and how often that has gone through it. */
int64_t tri_sampler_count(const tri_sampler *sampler, int64_t source, int64_t samples);
double tri_sampler_epochs(const tri_sampler *sampler, int64_t source, int64_t samples);

#endif
