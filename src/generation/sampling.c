/* Drawing the next token: temperature, then the k most likely, then the smallest set of them that holds probability p
 * (Holtzman et al. 2020), then those that have a share of the most likely one's (min-p, Nguyen et al. 2024): in the
 * order in which transformers has them. Ties go to the lower id, so a seed gives the same text everywhere. */
#include "base/fnv1a.h"
#include "base/random.h"
#include "generation/generator.h"

#include <math.h>
#include <string.h>

/* Candidates by falling weight, as far as anybody asks: a heap in front, and behind it those that were taken from it,
 * the heaviest last. Of a vocabulary few are asked for, and sorting all of it takes as long as a third of a small
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

/* Number `place`, the heaviest being 0. */
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

/* The first entries of a ranking, their number and their total weight. */
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

int32_t tri_sample_token(const double *logits, int64_t vocab_size, const tri_sampling *sampling, int64_t position,
                         tri_candidate *scratch) {
  int32_t top = most_likely(logits, vocab_size);
  if (sampling->temperature <= 0.0) return top;
  double all = 0;
  for (int64_t i = 0; i < vocab_size; i++) {
    scratch[i] = (tri_candidate){exp((logits[i] - logits[top]) / sampling->temperature), (int32_t)i};
    all += scratch[i].weight;
  }
  ranking r = rank(scratch, vocab_size);
  const choice c = choose_kept_tokens(&r, sampling, all);
  const tri_random_key prompt = tri_random_stream(sampling->seed, TRI_RANDOM_SAMPLE, sampling->prompt);
  const tri_random_key key = tri_random_substream(prompt, TRI_RANDOM_SAMPLE, sampling->sample);
  double draw = tri_random_uniform(key, (uint64_t)position) * c.total;
  for (int64_t i = 0; i < c.kept; i++) {
    draw -= ranked(&r, i)->weight;
    if (draw < 0) return ranked(&r, i)->id;
  }
  return ranked(&r, c.kept - 1)->id;
}

void tri_penalise_repetition(const double *logits, int64_t vocab_size, const int32_t *ids, int64_t count,
                             double penalty, double *out) {
  memcpy(out, logits, (size_t)vocab_size * sizeof *out);
  for (int64_t i = 0; i < count; i++) { /* from what they were: a token that was said twice counts once */
    const double logit = logits[ids[i]];
    out[ids[i]] = logit > 0 ? logit / penalty : logit * penalty;
  }
}
