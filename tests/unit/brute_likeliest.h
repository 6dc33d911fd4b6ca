/* Likeliest tokens beside scored ones (tri_sequence_options.likeliest), compared with all logits of a row. */
#ifndef TRI_TEST_BRUTE_LIKELIEST_H
#define TRI_TEST_BRUTE_LIKELIEST_H

#include "generation/runner.h"
#include "generation/sampling.h"

#include <math.h>
#include <stdbool.h>

enum { MOST_BRUTE = 100 };

/* Reads all tokens in one run, and returns the logits of each row. The runner has room for `count` logit rows, and no
 * sequence is in progress. */
static inline tri_status read_whole(tri_runner *runner, const int32_t *ids, int64_t count, const void **logits) {
  const int32_t pages[] = {0, 1, 2, 3};
  TRI_TRY(tri_runner_begin(runner));
  TRI_TRY(tri_runner_add(runner,
                         &(tri_runner_rows){.ids = ids, .first = 0, .count = count, .pages = pages, .logits = count}));
  TRI_TRY(tri_runner_run(runner));
  return tri_runner_logits(runner, 0, count, logits);
}

/* Returns whether the numbers of the scored token `id` are right: within a tolerance of those of the logits
 * [vocab_size], and of two tokens with the same logit equal to the bit. */
static inline bool likeliest_are_right(const void *logits, tri_dtype type, int64_t vocab_size, int32_t id, double score,
                                       const tri_likely *likeliest, int64_t wanted) {
  static const double TOLERANCE = 1e-5;
  double all[MOST_BRUTE], sum = 0;
  bool taken[MOST_BRUTE] = {false};
  for (int64_t i = 0; i < vocab_size; i++) {
    all[i] = type == TRI_FP64 ? ((const double *)logits)[i] : (double)((const float *)logits)[i];
    sum += exp(all[i]);
  }
  if (!(fabs(all[id] - log(sum) - score) < TOLERANCE)) return false;
  for (int64_t j = 0; j < wanted; j++) {
    int64_t best = -1;
    for (int64_t i = 0; i < vocab_size; i++) {
      if (!taken[i] && (best < 0 || all[i] > all[best])) best = i;
    }
    if (likeliest[j].id != best) return false;
    if (best < 0 && !(isinf(likeliest[j].log_prob) && likeliest[j].log_prob < 0)) return false;
    if (best < 0) continue;
    taken[best] = true;
    if (!(fabs(all[best] - log(sum) - likeliest[j].log_prob) < TOLERANCE)) return false;
    if (all[best] == all[id] && likeliest[j].log_prob != score) return false;
  }
  return true;
}

#endif
