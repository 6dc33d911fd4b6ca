/* Drawing a token from the logits behind a text. */
#ifndef TRI_GENERATION_SAMPLING_H
#define TRI_GENERATION_SAMPLING_H

#include "base/status.h"
#include "device/dtype.h"
#include "device/logit_query.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_sampling {
  double temperature; /* 0 takes the most likely token */
  int64_t top_k;      /* 0 is all */
  double top_p;       /* 1 is all */
  double min_p; /* what has less than this share of the most likely one's probability is left out; 0: nothing is */
  double repetition_penalty; /* 1: none */
  /* What a text's draws are a function of. */
  uint64_t seed;
  uint64_t prompt; /* a number of the text's prompt: tri_sampling_prompt, or another that a caller has for it */
  uint64_t sample; /* of those of one prompt: 0, 1 ... */
} tri_sampling;

/* The hash of a prompt's tokens: which seed gives which text depends on it, so it does not change. */
uint64_t tri_sampling_prompt(const int32_t *ids, int64_t count);

typedef struct tri_candidate {
  double weight;
  int32_t id;
} tri_candidate;

/* A token with the logarithm of its probability: in the model's own distribution (temperature 1, nothing cut off). */
typedef struct tri_likely {
  int32_t id;
  double log_prob;
} tri_likely;

enum { TRI_MOST_LIKELY = 20 };

typedef struct tri_sampled {
  int32_t id;
  double log_prob;         /* in the model's own distribution */
  double entropy;          /* of that distribution */
  double sampled_log_prob; /* in the one that it was drawn from: 0 at temperature 0 */
  tri_likely likeliest[TRI_MOST_LIKELY];
} tri_sampled;

/* What to look up beside the token: its log_prob and the entropy, and how many of the likeliest. */
typedef struct tri_sampling_wish {
  bool log_prob;
  int64_t likeliest;
} tri_sampling_wish;

/* Memory of one thread: [vocab_size] each. */
typedef struct tri_sampling_scratch {
  tri_candidate *candidates;
  double *logits, *penalised;
} tri_sampling_scratch;

/* Whether tokens are drawn from the whole of the model's distribution: then the device does it (tri_sampling_query),
 * and else the host, from a copy of the logits (tri_sample_next). */
bool tri_sampling_is_whole(const tri_sampling *sampling);
/* The query for the token behind `position` tokens, from row `row` of the logits. */
tri_logit_query tri_sampling_query(const tri_sampling *sampling, int64_t position, int64_t row);

/* Draws a token: a function of the logits [vocab_size], the options and the number of tokens before it alone. Behind
 * the tokens `ids`, [count], which a penalty makes less likely. TRI_DIVERGED if a logit is not finite. */
tri_status tri_sample_next(const void *logits, tri_dtype type, int64_t vocab_size, const tri_sampling *sampling,
                           const int32_t *ids, int64_t count, const tri_sampling_wish *wish,
                           const tri_sampling_scratch *scratch, tri_sampled *out);
/* Checks logits behind `position` tokens: TRI_DIVERGED, with the first that is not finite. */
tri_status tri_sampling_check(const void *logits, tri_dtype type, int64_t vocab_size, int64_t position);
/* The `wanted` likeliest tokens, given the log-probability of token `id`: by falling logits, then by id. */
void tri_sampling_likeliest(const void *logits, tri_dtype type, int64_t vocab_size, int64_t wanted, int32_t id,
                            double log_prob, tri_likely *out);

int32_t tri_sample_token(const double *logits, int64_t vocab_size, const tri_sampling *sampling, int64_t position,
                         tri_candidate *scratch);

/* What has been said is less likely to be said again (Keskar et al. 2019, as transformers has it): the logits of the
 * tokens `ids` are divided by the penalty where they are above 0 and multiplied with it below. All of them are written
 * to `out`, [vocab_size]. */
void tri_penalise_repetition(const double *logits, int64_t vocab_size, const int32_t *ids, int64_t count,
                             double penalty, double *out);

#endif
