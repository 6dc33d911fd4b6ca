/* Batches of random completions, for tests of how they are packed and shared. */
#ifndef TRI_TESTS_ROLLOUT_DRAWS_H
#define TRI_TESTS_ROLLOUT_DRAWS_H

#include "base/memory.h"
#include "base/random.h"
#include "rollout/pack.h"

#include <stdlib.h>

enum { ROLLOUT_GROUPS = 6, ROLLOUT_SIZE = 4, ROLLOUT_MOST = ROLLOUT_GROUPS * ROLLOUT_SIZE };

typedef struct rollout_draws {
  tri_random_key key;
  uint64_t at;
  int32_t ids[ROLLOUT_GROUPS][64];
  tri_rollout_prompt prompts[ROLLOUT_GROUPS];
  tri_rollout_batch batch;
  double normalisers[ROLLOUT_MOST];
} rollout_draws;

static inline int64_t rollout_draw(rollout_draws *d, int64_t below) {
  return (int64_t)(tri_random_u32(d->key, d->at++) % (uint32_t)below);
}

/* Returns `count` random log-probabilities. The library's memory functions release them with the completion. */
static inline tri_status rollout_numbers(rollout_draws *d, int64_t count, double **out) {
  TRI_TRY(tri_alloc("random numbers", (size_t)count, sizeof **out, out));
  for (int64_t i = 0; i < count; i++) (*out)[i] = -tri_random_uniform(d->key, d->at++);
  return TRI_OK;
}

static inline tri_status rollout_draw_completion(rollout_draws *d, int64_t sequence, bool has_old,
                                                 tri_rollout_completion *c) {
  const int64_t room = sequence - c->prompt->count + 1;
  c->count = rollout_draw(d, 8) == 0 ? room : 1 + rollout_draw(d, room);
  c->counts = rollout_draw(d, 5) > 0;
  c->advantage = tri_random_uniform(d->key, d->at++) - 0.5;
  TRI_TRY(tri_alloc("a completion", (size_t)c->count, sizeof *c->ids, &c->ids));
  for (int64_t i = 0; i < c->count; i++) c->ids[i] = (int32_t)rollout_draw(d, 1000);
  TRI_TRY(rollout_numbers(d, c->count, &c->behaviour));
  if (has_old) TRI_TRY(rollout_numbers(d, c->count, &c->old));
  return has_old ? rollout_numbers(d, c->count, &c->reference) : TRI_OK;
}

/* Draws a batch whose completions fit into samples of `sequence` tokens, at most 64. The first one counts. Release with
 * tri_rollout_batch_release. */
static inline tri_status rollout_draw_batch(uint64_t seed, int64_t sequence, bool has_old, rollout_draws *d) {
  *d = (rollout_draws){.key = tri_random_stream(seed, TRI_RANDOM_TEST, 0)};
  TRI_TRY(tri_rollout_batch_create(ROLLOUT_GROUPS, ROLLOUT_SIZE, &d->batch));
  for (int64_t g = 0; g < ROLLOUT_GROUPS; g++) {
    d->prompts[g] = (tri_rollout_prompt){.ids = d->ids[g], .count = 1 + rollout_draw(d, sequence)};
    for (int64_t i = 0; i < d->prompts[g].count; i++) d->ids[g][i] = (int32_t)rollout_draw(d, 1000);
  }
  for (int64_t i = 0; i < ROLLOUT_MOST; i++) {
    tri_rollout_completion *c = &d->batch.list[i];
    c->prompt = &d->prompts[i / ROLLOUT_SIZE];
    d->normalisers[i] = tri_random_uniform(d->key, d->at++);
    TRI_TRY(rollout_draw_completion(d, sequence, has_old, c));
  }
  d->batch.list[0].counts = true;
  return TRI_OK;
}

#endif
