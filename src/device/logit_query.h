/* A query of a row of logits and its result: a token that is sampled from the whole distribution, or a given one, with
 * its log-probability. Shared by kernels of all devices, so it is written in the common subset of C and C++
 * (device/gpu/kernels/primitives.h).
 *
 * With u uniform in [0, 1), the sampled token is the first whose cumulative probability, in the order of the ids, is
 * above u. Devices sum the weights exp((x - maximum) / temperature) of ranges of the row, find the range, and then the
 * token in it. */
#ifndef TRI_DEVICE_LOGIT_QUERY_H
#define TRI_DEVICE_LOGIT_QUERY_H

#include "base/host_and_gpu.h"

#include <stdint.h>

typedef struct tri_logit_query {
  double
      temperature; /* temperature of the sampling; 0: the most likely token is taken, among equal ones the lowest id */
  double uniform;  /* u, in [0, 1) */
  int32_t row;     /* row of the logits */
  int32_t given;   /* a token id; -1: sample a token */
} tri_logit_query;

/* The results in addition to the token's id; logarithms are natural. An id of -1 means that a logit is not finite; all
 * results are then 0. */
enum {
  TRI_LOGIT_LOG_PROB,         /* log-probability of the token in the model's own distribution (temperature 1) */
  TRI_LOGIT_ENTROPY,          /* entropy of the model's own distribution */
  TRI_LOGIT_SAMPLED_LOG_PROB, /* log-probability of the token at the query's temperature; 0 at temperature 0 */
  TRI_LOGIT_VALUE,            /* the token's logit */
  TRI_LOGIT_NUMBERS
};

enum { TRI_LOGIT_RANGES = 256 };

/* Returns the number of elements of a range: a multiple of 64. */
TRI_HOST_AND_GPU int64_t tri_logit_range(int64_t vocabulary) {
  return (vocabulary + 64 * TRI_LOGIT_RANGES - 1) / (64 * TRI_LOGIT_RANGES) * 64;
}

#endif
