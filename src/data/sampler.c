#include "data/sampler.h"

#include "base/memory.h"
#include "base/random.h"

#include <inttypes.h>

/* Returns the seed of a source. Sources have different seeds, because with equal seeds sources with the same number of
 * samples would have the same order. */
static uint64_t seed_of(uint64_t seed, int64_t source, int64_t num_sources) {
  uint32_t words[4];
  if (num_sources == 1) return seed;
  tri_random_block(tri_random_stream(seed, TRI_RANDOM_MIX, 0), (uint64_t)source, words);
  return (uint64_t)words[1] << 32 | words[0];
}

static tri_status create_sources(const tri_corpus *const *corpora, const tri_source_options *options,
                                 tri_sampler *sampler) {
  const int64_t count = sampler->num_sources;
  TRI_TRY(tri_alloc("the sources of samples", (size_t)count, sizeof *sampler->sources, &sampler->sources));
  for (int64_t k = 0; k < count; k++) {
    tri_source_options own = *options;
    own.seed = seed_of(options->seed, k, count);
    TRI_TRY(tri_source_create(corpora[k], &own, &sampler->sources[k]));
    sampler->per_epoch += sampler->sources[k].per_epoch;
  }
  return TRI_OK;
}

/* Finds the shares of sources by their numbers of sequences. Fails with TRI_BAD_CONFIG if a source has too few
 * sequences beside the others. */
static tri_status shares_by_size(const tri_sampler *sampler, tri_mixture_shares *out) {
  double weights[TRI_MOST_SOURCES];
  int64_t small = 0;
  for (int64_t k = 0; k < sampler->num_sources; k++) weights[k] = (double)sampler->sources[k].per_epoch;
  const tri_status status = tri_mixture_find_shares(weights, sampler->num_sources, out, &small);
  if (status != TRI_BAD_CONFIG) return status;
  return tri_fail(TRI_BAD_CONFIG,
                  "`data.train`: %.200s has %.0f sequences, too few beside the others for a mixture by size; give each "
                  "source a weight",
                  tri_corpus_name(sampler->sources[small].corpus), weights[small]);
}

tri_status tri_sampler_create(const tri_corpus *const *corpora, const tri_mixture_shares *shares,
                              const tri_source_options *options, tri_sampler *out) {
  tri_sampler sampler = {.sequence = options->sequence,
                         .masked = options->documents == TRI_DOCUMENTS_MASKED,
                         .num_sources = shares->num_sources};
  tri_mixture_shares chosen = *shares;
  tri_status status = create_sources(corpora, options, &sampler);
  if (status == TRI_OK && shares->period == 0) status = shares_by_size(&sampler, &chosen);
  if (status == TRI_OK) status = tri_mixture_create(&chosen, &sampler.mixture);
  if (status == TRI_OK) *out = sampler;
  if (status != TRI_OK) tri_sampler_destroy(&sampler);
  return status;
}

void tri_sampler_destroy(tri_sampler *sampler) {
  const int64_t count = sampler->sources == NULL ? 0 : sampler->num_sources;
  for (int64_t k = 0; k < count; k++) tri_source_destroy(&sampler->sources[k]);
  tri_free(sampler->sources);
  tri_free(sampler->label_weights);
  tri_mixture_destroy(&sampler->mixture);
}

tri_status tri_sampler_weigh(tri_sampler *sampler, const double *weights) {
  int64_t count = sampler->mixture.shares.num_sources;
  if (sampler->label_weights == NULL) {
    TRI_TRY(tri_alloc("weights of labels", (size_t)count, sizeof *sampler->label_weights, &sampler->label_weights));
  }
  for (int64_t k = 0; k < count; k++) sampler->label_weights[k] = (float)weights[k];
  return TRI_OK;
}

static tri_status read_of(const tri_sampler *sampler, int64_t source, int64_t number, const tri_sample *out) {
  TRI_TRY(tri_source_read(&sampler->sources[source], number, out));
  if (sampler->label_weights == NULL || out->weights == NULL) return TRI_OK;
  for (int64_t t = 0; t < sampler->sequence; t++) out->weights[t] *= sampler->label_weights[source];
  return TRI_OK;
}

tri_status tri_sampler_read(const tri_sampler *sampler, int64_t index, const tri_sample *out) {
  int64_t number = 0;
  if (index < 0) return tri_fail_internal("sample %" PRId64 " was asked for", index);
  int64_t source = tri_mixture_at(&sampler->mixture, index, &number);
  return read_of(sampler, source, number, out);
}

tri_status tri_sampler_read_in_order(const tri_sampler *sampler, int64_t index, const tri_sample *out) {
  if (index < 0 || index >= sampler->per_epoch) {
    return tri_fail_internal("sample %" PRId64 " of %" PRId64 " was asked for", index, sampler->per_epoch);
  }
  const tri_source *source = sampler->sources;
  for (; index >= source->per_epoch; source++) index -= source->per_epoch;
  return tri_source_read_in_order(source, index, out);
}

static tri_status read_shuffled(const void *from, int64_t index, const tri_sample *out) {
  return tri_sampler_read(from, index, out);
}

tri_feed tri_sampler_feed(const tri_sampler *sampler) { return (tri_feed){read_shuffled, sampler}; }

static tri_status read_spread(const void *from, int64_t index, const tri_sample *out) {
  const tri_sampler_spread *spread = from;
  return tri_sampler_read_in_order(spread->sampler, index * spread->sampler->per_epoch / spread->count, out);
}

tri_feed tri_sampler_spread_feed(const tri_sampler_spread *spread) { return (tri_feed){read_spread, spread}; }

int64_t tri_sampler_count(const tri_sampler *sampler, int64_t source, int64_t samples) {
  return tri_mixture_count(&sampler->mixture, source, samples);
}

double tri_sampler_epochs(const tri_sampler *sampler, int64_t source, int64_t samples) {
  return (double)tri_sampler_count(sampler, source, samples) / (double)sampler->sources[source].per_epoch;
}
