/* The sampler: the samples of a run, from one corpus or from several in given shares. */
#ifndef TRI_DATA_SAMPLER_H
#define TRI_DATA_SAMPLER_H

#include "data/feed.h"
#include "data/mixture.h"
#include "data/source.h"

/* An endless sequence of samples: sample `index` depends only on the corpora with their weights and on (seed, index).
 * Weights are shares of samples (sequences); mixture.h assigns samples to sources. Each source has its own epochs
 * (source.h) and its own order. */
typedef struct tri_sampler {
  int64_t sequence;  /* tokens of a sample */
  bool masked;       /* whether documents of a sample do not attend to each other */
  int64_t per_epoch; /* number of samples in one pass over all sources */
  int64_t num_sources;
  tri_source *sources; /* [num_sources] */
  tri_mixture mixture;
  float *label_weights; /* [num_sources]: weight of the labels of each source; NULL: 1 */
} tri_sampler;

/* Creates a sampler of corpora[shares->num_sources]. If shares->period is 0, the shares are the numbers of sequences of
 * the sources, so that a pass over all of them reads each sequence once (up to the rounding of shares in mixture.h). A
 * single source uses options->seed; several sources use seeds that are derived from it. Fails with TRI_BAD_CONFIG as
 * tri_source_create does, or if a source has too few sequences for shares by size. Release with tri_sampler_destroy;
 * the corpora must outlive *out. */
tri_status tri_sampler_create(const tri_corpus *const *corpora, const tri_mixture_shares *shares,
                              const tri_source_options *options, tri_sampler *out);
void tri_sampler_destroy(tri_sampler *sampler);

/* Sets the weight of the labels of each source, weights[num_sources], for samples that tri_sampler_read reads later. */
tri_status tri_sampler_weigh(tri_sampler *sampler, const double *weights);

/* Reads sample `index` of the shuffled order. Fails as tri_source_read does. */
tri_status tri_sampler_read(const tri_sampler *sampler, int64_t index, const tri_sample *out);

/* Returns a feed of the shuffled samples. */
tri_feed tri_sampler_feed(const tri_sampler *sampler);
/* A feed of `count` samples in order (tri_sampler_read_in_order), spread evenly over all sources. */
typedef struct tri_sampler_spread {
  const tri_sampler *sampler;
  int64_t count; /* number of samples, at most sampler->per_epoch */
} tri_sampler_spread;
tri_feed tri_sampler_spread_feed(const tri_sampler_spread *spread);

/* Reads sample `index` < per_epoch in order: source after source, each as in tri_source_read_in_order. */
tri_status tri_sampler_read_in_order(const tri_sampler *sampler, int64_t index, const tri_sample *out);

/* Returns the number of samples of a source among the first `samples`. */
int64_t tri_sampler_count(const tri_sampler *sampler, int64_t source, int64_t samples);
/* Returns the number of epochs of a source in the first `samples` samples. */
double tri_sampler_epochs(const tri_sampler *sampler, int64_t source, int64_t samples);

#endif
