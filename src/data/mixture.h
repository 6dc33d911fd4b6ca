/* Which of several sources a sample comes from: an order that is computed from their weights alone. */
#ifndef TRI_DATA_MIXTURE_H
#define TRI_DATA_MIXTURE_H

#include "base/status.h"

#include <stdint.h>

enum { TRI_MOST_SOURCES = 128, TRI_MIXTURE_LONGEST = 1 << 20 };

/* The weights as whole numbers: of `period` samples, source k gives counts[k]. */
typedef struct tri_mixture_shares {
  int64_t num_sources, period;
  int64_t counts[TRI_MOST_SOURCES];
} tri_mixture_shares;

/* Weights are positive and say no more than how they stand to each other. The period is the smallest with which all
 * shares are whole numbers, or of those up to TRI_MIXTURE_LONGEST the one with which they are nearest. A weight of less
 * than a TRI_MIXTURE_LONGEST-th of all is TRI_BAD_CONFIG, and *small, where it is not NULL, says which. */
tri_status tri_mixture_find_shares(const double *weights, int64_t num_sources, tri_mixture_shares *out, int64_t *small);

/* Samples of all sources in an order without end, period after period: among the first N are
 * N counts[k] / period of source k, give or take less than one, for every N. */
typedef struct tri_mixture {
  tri_mixture_shares shares;
  uint8_t *sources;                     /* [period] */
  int32_t *places;                      /* [period]: of source 0 if it comes in the period, then of source 1, ... */
  int64_t begins[TRI_MOST_SOURCES + 1]; /* of each source in `places` */
} tri_mixture;

/* Release with tri_mixture_destroy. */
tri_status tri_mixture_create(const tri_mixture_shares *shares, tri_mixture *out);
void tri_mixture_destroy(tri_mixture *mixture);

/* How many of the first `samples` are of a source. */
int64_t tri_mixture_count(const tri_mixture *mixture, int64_t source, int64_t samples);

/* The source of a sample; *number is which of the source's own it is, from 0. */
int64_t tri_mixture_at(const tri_mixture *mixture, int64_t sample, int64_t *number);

#endif
