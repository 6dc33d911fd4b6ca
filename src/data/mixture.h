/* A mixture assigns each sample to one of several sources, according to their weights. */
#ifndef TRI_DATA_MIXTURE_H
#define TRI_DATA_MIXTURE_H

#include "base/status.h"

#include <stdint.h>

enum { TRI_MOST_SOURCES = 128, TRI_MIXTURE_LONGEST = 1 << 20 };

/* The weights as integers: source k has counts[k] of `period` samples. */
typedef struct tri_mixture_shares {
  int64_t num_sources, period;
  int64_t counts[TRI_MOST_SOURCES];
} tri_mixture_shares;

/* Finds the shares of positive weights; only the ratios of the weights matter. The period is the smallest one with
 * integer shares. If that is above TRI_MIXTURE_LONGEST, it is the most accurate one up to TRI_MIXTURE_LONGEST. Fails
 * with TRI_BAD_CONFIG if a weight is less than 1 / TRI_MIXTURE_LONGEST of the sum, and sets *small (unless NULL) to its
 * index. */
tri_status tri_mixture_find_shares(const double *weights, int64_t num_sources, tri_mixture_shares *out, int64_t *small);

/* An endless order of samples of all sources, which repeats after a period: for every N, the number of samples of
 * source k among the first N differs from N counts[k] / period by less than one. */
typedef struct tri_mixture {
  tri_mixture_shares shares;
  uint8_t *sources;                     /* [period]: source of each sample of a period */
  int32_t *places;                      /* [period]: the samples of source 0 in a period, then those of source 1, ... */
  int64_t begins[TRI_MOST_SOURCES + 1]; /* source k has places[begins[k] .. begins[k + 1]) */
} tri_mixture;

/* Creates a mixture. Release with tri_mixture_destroy. */
tri_status tri_mixture_create(const tri_mixture_shares *shares, tri_mixture *out);
void tri_mixture_destroy(tri_mixture *mixture);

/* Returns the number of samples of a source among the first `samples`. */
int64_t tri_mixture_count(const tri_mixture *mixture, int64_t source, int64_t samples);

/* Returns the source of a sample, and sets *number to the sample's number among the samples of this source, from 0. */
int64_t tri_mixture_at(const tri_mixture *mixture, int64_t sample, int64_t *number);

#endif
