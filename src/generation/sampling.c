/* Samples the next token. The logits pass these stages, in the order of transformers (sequence_bias,
 * repetition_penalty, then the warpers) and, for the penalties, of vLLM:
 * 1. the biases are added;
 * 2. the repetition penalty divides or multiplies the logits of given and sampled tokens;
 * 3. the frequency and the presence penalty lower the logits of sampled tokens;
 * 4. temperature;
 * 5. the candidates are the k most likely tokens, then the smallest set of them with probability p (Holtzman et al.
 *    2020), then those with a minimum share of the highest probability (min-p, Nguyen et al. 2024).
 * The lower id wins a tie, so that a seed gives the same text everywhere. */
#include "generation/sampling.h"

#include "base/fnv1a.h"
#include "base/random.h"

#include "base/status.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* An array of candidates that is sorted by weight only as far as needed. Its first `in_heap` candidates are a heap. The
 * candidates that were taken from the heap follow in ascending order of weight, so the heaviest of all is the last. Few
 * candidates of a vocabulary are needed, and sorting all of them would take about a third of the time of a small
 * model's step. */
typedef struct ranking {
  tri_candidate *candidates;
  int64_t in_heap, count;
} ranking;

static bool is_before(const tri_candidate *a, const tri_candidate *b) {
  return a->weight != b->weight ? a->weight > b->weight : a->id < b->id;
}

static void sink(const ranking *r, int64_t at) {
  const tri_candidate moved = r->candidates[at];
  for (int64_t child; (child = 2 * at + 1) < r->in_heap; at = child) {
    if (child + 1 < r->in_heap && is_before(&r->candidates[child + 1], &r->candidates[child])) child++;
    if (is_before(&moved, &r->candidates[child])) break;
    r->candidates[at] = r->candidates[child];
  }
  r->candidates[at] = moved;
}

static ranking rank(tri_candidate *candidates, int64_t count) {
  const ranking r = {candidates, count, count};
  for (int64_t i = count / 2; i-- > 0;) sink(&r, i);
  return r;
}

/* Returns the candidate at rank `place`; the heaviest has rank 0. */
static const tri_candidate *ranked(ranking *r, int64_t place) {
  while (r->count - r->in_heap <= place) {
    const tri_candidate heaviest = r->candidates[0];
    r->candidates[0] = r->candidates[--r->in_heap];
    sink(r, 0);
    r->candidates[r->in_heap] = heaviest;
  }
  return &r->candidates[r->count - 1 - place];
}

static int32_t most_likely(const double *logits, int64_t vocab_size) {
  int64_t best = 0;
  for (int64_t i = 1; i < vocab_size; i++) {
    if (logits[i] > logits[best]) best = i;
  }
  return (int32_t)best;
}

/* The number of candidates of a ranking that are kept, the heaviest ones, and their total weight. */
typedef struct choice {
  int64_t kept;
  double total;
} choice;

static choice choose_kept_tokens(ranking *r, const tri_sampling *sampling, double all) {
  choice c = {r->count, all};
  if (sampling->top_k > 0 && sampling->top_k < r->count) {
    c = (choice){sampling->top_k, 0};
    for (int64_t i = 0; i < c.kept; i++) c.total += ranked(r, i)->weight;
  }
  if (sampling->top_p < 1.0) {
    choice within = {0, 0};
    while (within.kept < c.kept && (within.kept == 0 || within.total < sampling->top_p * c.total)) {
      within.total += ranked(r, within.kept++)->weight;
    }
    c = within;
  }
  if (sampling->min_p > 0) {
    choice above = {0, 0};
    while (above.kept < c.kept && (above.kept == 0 || ranked(r, above.kept)->weight >= sampling->min_p)) {
      above.total += ranked(r, above.kept++)->weight;
    }
    c = above;
  }
  return c;
}

uint64_t tri_sampling_prompt(const int32_t *ids, int64_t count) {
  return tri_fnv1a_numbers(TRI_FNV1A_BEGIN, ids, (size_t)count);
}

/* Returns a number in [0, 1) that depends on seed, prompt, sample and position. */
static double uniform_of(const tri_sampling *sampling, int64_t position) {
  const tri_random_key prompt = tri_random_stream(sampling->seed, TRI_RANDOM_SAMPLE, sampling->prompt);
  const tri_random_key key = tri_random_substream(prompt, TRI_RANDOM_SAMPLE, sampling->sample);
  return tri_random_uniform(key, (uint64_t)position);
}

static bool cuts_off(const tri_sampling *sampling) {
  return sampling->top_k > 0 || sampling->top_p < 1.0 || sampling->min_p > 0;
}

/* Returns the first candidate, in the order of ids, at which the sum of the weights so far exceeds `draw`. */
static tri_candidate draw_from_all(const tri_candidate *candidates, int64_t count, double draw) {
  int64_t last = 0;
  for (int64_t i = 0; i < count; i++) {
    if (candidates[i].weight > 0) last = i;
    draw -= candidates[i].weight;
    if (draw < 0) return candidates[i];
  }
  return candidates[last];
}

/* Returns a sampled token, and its log-probability in the distribution that it was sampled from. */
static tri_likely draw_token(const double *logits, int64_t vocab_size, const tri_sampling *sampling, int64_t position,
                             tri_candidate *scratch) {
  const int32_t top = most_likely(logits, vocab_size);
  if (sampling->temperature <= 0.0) return (tri_likely){top, 0};
  double all = 0;
  for (int64_t i = 0; i < vocab_size; i++) {
    scratch[i] = (tri_candidate){exp((logits[i] - logits[top]) / sampling->temperature), (int32_t)i};
    all += scratch[i].weight;
  }
  const double uniform = uniform_of(sampling, position);
  if (!cuts_off(sampling)) {
    const tri_candidate drawn = draw_from_all(scratch, vocab_size, uniform * all);
    return (tri_likely){drawn.id, log(drawn.weight / all)};
  }
  ranking r = rank(scratch, vocab_size);
  const choice c = choose_kept_tokens(&r, sampling, all);
  double draw = uniform * c.total;
  for (int64_t i = 0; i < c.kept; i++) {
    draw -= ranked(&r, i)->weight;
    if (draw < 0) return (tri_likely){ranked(&r, i)->id, log(ranked(&r, i)->weight / c.total)};
  }
  const tri_candidate *last = ranked(&r, c.kept - 1);
  return (tri_likely){last->id, log(last->weight / c.total)};
}

int32_t tri_sample_token(const double *logits, int64_t vocab_size, const tri_sampling *sampling, int64_t position,
                         tri_candidate *scratch) {
  return draw_token(logits, vocab_size, sampling, position, scratch).id;
}

static bool adjusts(const tri_sampling *sampling) {
  return sampling->repetition_penalty != 1 || sampling->presence_penalty != 0 || sampling->frequency_penalty != 0 ||
         sampling->num_bias > 0;
}

bool tri_sampling_is_whole(const tri_sampling *sampling) {
  return !adjusts(sampling) && (sampling->temperature <= 0 || !cuts_off(sampling));
}

tri_logit_query tri_sampling_query(const tri_sampling *sampling, int64_t position, int64_t row) {
  const bool draws = sampling->temperature > 0;
  return (tri_logit_query){.temperature = draws ? sampling->temperature : 0,
                           .uniform = draws ? uniform_of(sampling, position) : 0,
                           .row = (int32_t)row,
                           .given = -1};
}

/* ---- probabilities of the model ---------------------------------------------------------------------------------- */

static double logit_at(const void *logits, tri_dtype type, int64_t i) {
  switch (type) {
    case TRI_FP32: return (double)((const float *)logits)[i];
    case TRI_FP64: return ((const double *)logits)[i];
    case TRI_BF16:
    case TRI_INT32: break; /* logits are never of these types */
  }
  return NAN;
}

void tri_sampling_likeliest(const void *logits, tri_dtype type, int64_t vocab_size, int64_t wanted, int32_t id,
                            double log_prob, tri_likely *out) {
  const double own = logit_at(logits, type, id), log_sum = own - log_prob;
  int64_t found = 0;
  if (wanted > vocab_size) wanted = vocab_size;
  for (int64_t i = 0; i < vocab_size && wanted > 0; i++) { /* insertion, since `wanted` is small */
    const double logit = logit_at(logits, type, i);
    if (found == wanted && !(logit > out[found - 1].log_prob)) continue;
    int64_t at = found < wanted ? found++ : found - 1;
    for (; at > 0 && logit > out[at - 1].log_prob; at--) out[at] = out[at - 1];
    out[at] = (tri_likely){(int32_t)i, logit};
  }
  for (int64_t i = 0; i < found; i++) /* own - log_sum may differ from log_prob in the last bit */
    out[i].log_prob = out[i].log_prob == own ? log_prob : out[i].log_prob - log_sum;
}

tri_status tri_sampling_check(const void *logits, tri_dtype type, int64_t vocab_size, int64_t position) {
  for (int64_t i = 0; i < vocab_size; i++) {
    const double logit = logit_at(logits, type, i);
    if (isfinite(logit)) continue;
    return tri_fail(TRI_DIVERGED,
                    "after %ld tokens the model's logits are not finite (that of token %ld is %g): the model has "
                    "diverged, or its numbers exceed the range of the precision",
                    (long)position, (long)i, logit);
  }
  return TRI_OK;
}

/* Computes the log-probability of the sampled token, and the entropy, in the model's own distribution. */
static void compute_log_prob(const double *logits, int64_t vocab_size, tri_sampled *out) {
  double most = -INFINITY, sum = 0, spread = 0;
  for (int64_t i = 0; i < vocab_size; i++) most = fmax(most, logits[i]);
  for (int64_t i = 0; i < vocab_size; i++) {
    const double less = logits[i] - most, weight = exp(less);
    sum += weight;
    if (weight > 0) spread += weight * less;
  }
  out->log_prob = logits[out->id] - most - log(sum);
  out->entropy = log(sum) - spread / sum;
}

tri_status tri_sample_next(const void *logits, tri_dtype type, int64_t vocab_size, const tri_sampling *sampling,
                           const tri_sampling_text *text, const tri_sampling_request *requested,
                           const tri_sampling_scratch *scratch, tri_sampled *out) {
  const double *from = scratch->logits;
  TRI_TRY(tri_sampling_check(logits, type, vocab_size, text->count));
  for (int64_t i = 0; i < vocab_size; i++) scratch->logits[i] = logit_at(logits, type, i);
  if (adjusts(sampling)) {
    memcpy(scratch->adjusted, from, (size_t)vocab_size * sizeof *from);
    tri_sampling_adjust(sampling, text, scratch->candidates, scratch->adjusted);
    from = scratch->adjusted;
  }
  const tri_likely drawn = draw_token(from, vocab_size, sampling, text->count, scratch->candidates);
  out->id = drawn.id;
  out->sampled_log_prob = drawn.log_prob;
  if (!requested->log_prob && requested->likeliest == 0) return TRI_OK;
  compute_log_prob(scratch->logits, vocab_size, out);
  tri_sampling_likeliest(logits, type, vocab_size, requested->likeliest, out->id, out->log_prob, out->likeliest);
  return TRI_OK;
}

/* ---- biases and penalties ---------------------------------------------------------------------------------------- */

/* Penalises each token of ids[count] once, however often it occurs. */
static void penalise_repetition(double penalty, const int32_t *ids, int64_t count, tri_candidate *seen,
                                double *logits) {
  for (int64_t i = 0; i < count; i++) seen[ids[i]].weight = 0;
  for (int64_t i = 0; i < count; i++) {
    double *logit = &logits[ids[i]];
    if (seen[ids[i]].weight++ > 0) continue;
    *logit = *logit > 0 ? *logit / penalty : *logit * penalty;
  }
}

/* Lowers the logit of each token of ids[count], once, by the frequency penalty times its number of occurrences, plus
 * the presence penalty. `counts`: scratch memory, whose weights count the occurrences. */
static void penalise_frequency(const tri_sampling *sampling, const int32_t *ids, int64_t count, tri_candidate *counts,
                               double *logits) {
  for (int64_t i = 0; i < count; i++) counts[ids[i]].weight = 0;
  for (int64_t i = 0; i < count; i++) counts[ids[i]].weight++;
  for (int64_t i = 0; i < count; i++) {
    double *occurrences = &counts[ids[i]].weight;
    if (*occurrences == 0) continue; /* subtracted at an earlier occurrence */
    logits[ids[i]] -= sampling->frequency_penalty * *occurrences + sampling->presence_penalty;
    *occurrences = 0;
  }
}

void tri_sampling_adjust(const tri_sampling *sampling, const tri_sampling_text *text, tri_candidate *scratch,
                         double *logits) {
  for (int i = 0; i < sampling->num_bias; i++) logits[sampling->bias[i].id] += sampling->bias[i].bias;
  if (sampling->repetition_penalty != 1)
    penalise_repetition(sampling->repetition_penalty, text->ids, text->count, scratch, logits);
  if (sampling->frequency_penalty != 0 || sampling->presence_penalty != 0)
    penalise_frequency(sampling, text->ids + text->given, text->count - text->given, scratch, logits);
}
