/* Samples a token from logits. */
#ifndef TRI_GENERATION_SAMPLING_H
#define TRI_GENERATION_SAMPLING_H

#include "base/status.h"
#include "device/dtype.h"
#include "device/logit_query.h"

#include <stdbool.h>
#include <stdint.h>

/* A token and the number that is added to its logit. */
typedef struct tri_logit_bias {
  int32_t id;
  double bias; /* finite; -100 in practice bans the token */
} tri_logit_bias;

/* How the tokens of a text are sampled. */
typedef struct tri_sampling {
  double temperature; /* 0: the most likely token is taken */
  int64_t top_k;      /* number of likeliest tokens that are candidates; 0: all tokens */
  double top_p; /* the candidates are the smallest set of likeliest tokens whose probabilities add up to at least top_p;
                   1: all tokens */
  double min_p; /* tokens with less than this share of the highest probability are left out; 0: none */
  double repetition_penalty; /* 1: no penalty */
  /* Penalties of the tokens that the text has sampled so far; those of its prompt do not count. A token that was
   * sampled n > 0 times has its logit lowered by presence_penalty + n * frequency_penalty. 0: no penalty. */
  double presence_penalty, frequency_penalty;
  const tri_logit_bias *bias; /* [num_bias], biases of logits; entries of the same token add up. This array must outlive
                                 the sequence */
  int num_bias;
  /* The random numbers of a text are a function of the position and of the following three members. */
  uint64_t seed;
  uint64_t prompt; /* number of the text's prompt: tri_sampling_prompt, or another number chosen by the caller */
  uint64_t sample; /* index among the samples of one prompt: 0, 1 ... */
} tri_sampling;

/* Returns the hash of a prompt's tokens. It must never change, because the text of a seed depends on it. */
uint64_t tri_sampling_prompt(const int32_t *ids, int64_t count);

/* A token and its weight: exp((its logit - the highest logit) / temperature). */
typedef struct tri_candidate {
  double weight;
  int32_t id;
} tri_candidate;

/* A token and its log-probability, in the model's own distribution (temperature 1, all tokens) unless a function says
 * otherwise. */
typedef struct tri_likely {
  int32_t id;
  double log_prob;
} tri_likely;

enum { TRI_MOST_LIKELY = 20 };

typedef struct tri_sampled {
  int32_t id;
  int64_t version;         /* version of the weights that computed the logits */
  double log_prob;         /* log-probability of the token in the model's own distribution */
  double entropy;          /* entropy of that distribution, in nats */
  double sampled_log_prob; /* log-probability of the token in the distribution that it was sampled from; 0 at
                              temperature 0 */
  tri_likely likeliest[TRI_MOST_LIKELY]; /* the first tri_sampling_request.likeliest are set */
} tri_sampled;

/* Members of tri_sampled to compute. */
typedef struct tri_sampling_request {
  bool log_prob;     /* whether to compute log_prob and entropy */
  int64_t likeliest; /* number of likeliest tokens, up to TRI_MOST_LIKELY; if not 0, log_prob and entropy are set too */
} tri_sampling_request;

/* Scratch memory of one thread, [vocab_size] each. */
typedef struct tri_sampling_scratch {
  tri_candidate *candidates;
  double *logits, *adjusted;
} tri_sampling_scratch;

/* Returns whether the device can sample (tri_sampling_query): there is no penalty and no bias, and either all tokens
 * are candidates or the temperature is 0. Otherwise the host samples from a copy of the logits (tri_sample_next). */
bool tri_sampling_is_whole(const tri_sampling *sampling);
/* Returns the query that samples the token after `position` tokens from logit row `row`. */
tri_logit_query tri_sampling_query(const tri_sampling *sampling, int64_t position, int64_t row);

/* The tokens of a text. */
typedef struct tri_sampling_text {
  const int32_t *ids; /* [count] */
  int64_t given;      /* number of leading tokens that were given; the others were sampled */
  int64_t count;
} tri_sampling_text;

/* Samples the token that follows the text. The result depends only on the logits [vocab_size], `sampling`, the number
 * of tokens, and, with a penalty, on the tokens. Fails with TRI_DIVERGED if a logit is not finite. */
tri_status tri_sample_next(const void *logits, tri_dtype type, int64_t vocab_size, const tri_sampling *sampling,
                           const tri_sampling_text *text, const tri_sampling_request *requested,
                           const tri_sampling_scratch *scratch, tri_sampled *out);
/* Checks the logits after `position` tokens. Fails with TRI_DIVERGED if a logit is not finite; the message names the
 * first such token. */
tri_status tri_sampling_check(const void *logits, tri_dtype type, int64_t vocab_size, int64_t position);
/* Finds the `wanted` likeliest tokens, by descending logit, then by id. `log_prob` is the log-probability of token
 * `id`, from which the others are computed; tokens with the same logit get the same log-probability, to the bit. With
 * fewer tokens in the vocabulary, the rest of out [wanted] is not set. */
void tri_sampling_likeliest(const void *logits, tri_dtype type, int64_t vocab_size, int64_t wanted, int32_t id,
                            double log_prob, tri_likely *out);

/* Samples and returns the token after `position` tokens, without penalties and biases. logits and scratch are
 * [vocab_size]. */
int32_t tri_sample_token(const double *logits, int64_t vocab_size, const tri_sampling *sampling, int64_t position,
                         tri_candidate *scratch);

/* Adds the biases to the logits [vocab_size], and then applies the penalties of the text's tokens. The repetition
 * penalty (Keskar et al. 2019, as in transformers) divides positive logits and multiplies others, once for each token
 * that occurs. scratch: [vocab_size]. */
void tri_sampling_adjust(const tri_sampling *sampling, const tri_sampling_text *text, tri_candidate *scratch,
                         double *logits);

#endif
