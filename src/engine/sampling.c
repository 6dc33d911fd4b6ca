/* Drawing the next token: temperature, then the k most likely, then the smallest set of them that holds probability p
 * (Holtzman et al. 2020), then those that have a share of the most likely one's (min-p, Nguyen et al. 2024): in the
 * order in which transformers has them. Ties go to the lower id, so a seed gives the same text everywhere. */
#include "base/random.h"
#include "engine/generator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_weight(const void *a, const void *b) {
  const tri_candidate *x = a;
  const tri_candidate *y = b;
  if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

static int32_t most_likely(const double *logits, int64_t vocab_size) {
  int64_t best = 0;
  for (int64_t i = 1; i < vocab_size; i++) {
    if (logits[i] > logits[best]) best = i;
  }
  return (int32_t)best;
}

int32_t tri_sample_token(const double *logits, int64_t vocab_size, const tri_sampling *sampling, int64_t position,
                         tri_candidate *scratch) {
  int32_t top = most_likely(logits, vocab_size);
  if (sampling->temperature <= 0.0) return top;
  double total = 0;
  for (int64_t i = 0; i < vocab_size; i++) {
    scratch[i] = (tri_candidate){exp((logits[i] - logits[top]) / sampling->temperature), (int32_t)i};
  }
  qsort(scratch, (size_t)vocab_size, sizeof *scratch, by_weight);
  int64_t kept = sampling->top_k > 0 && sampling->top_k < vocab_size ? sampling->top_k : vocab_size;
  for (int64_t i = 0; i < kept; i++) total += scratch[i].weight;
  if (sampling->top_p < 1.0) {
    double within = 0;
    int64_t needed = 0;
    while (needed < kept && (needed == 0 || within < sampling->top_p * total)) within += scratch[needed++].weight;
    kept = needed;
    total = within;
  }
  while (kept > 1 && scratch[kept - 1].weight < sampling->min_p) total -= scratch[--kept].weight;
  tri_random_key key = tri_random_stream(sampling->seed, TRI_RANDOM_SAMPLE, sampling->sample);
  double draw = tri_random_uniform(key, (uint64_t)position) * total;
  for (int64_t i = 0; i < kept; i++) {
    draw -= scratch[i].weight;
    if (draw < 0) return scratch[i].id;
  }
  return scratch[kept - 1].id;
}

void tri_penalise_repetition(const double *logits, int64_t vocab_size, const int32_t *ids, int64_t count,
                             double penalty, double *out) {
  memcpy(out, logits, (size_t)vocab_size * sizeof *out);
  for (int64_t i = 0; i < count; i++) { /* from what they were: a token that was said twice counts once */
    const double logit = logits[ids[i]];
    out[ids[i]] = logit > 0 ? logit / penalty : logit * penalty;
  }
}
