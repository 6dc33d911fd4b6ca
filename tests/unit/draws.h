/* Random test cases: numbers drawn in order from a stream. */
#ifndef TRI_TESTS_DRAWS_H
#define TRI_TESTS_DRAWS_H

#include "base/random.h"
#include "schedule/layout.h"

#include <math.h>
#include <stdbool.h>

typedef struct draws {
  tri_random_key key;
  uint64_t next;
} draws;

static inline int64_t pick(draws *d, int64_t low, int64_t high) {
  return low + (int64_t)(tri_random_u32(d->key, d->next++) % (uint32_t)(high - low + 1));
}

static inline bool toss(draws *d) { return pick(d, 0, 1) == 0; }

/* Returns 10^x for a random x in [low, high]. */
static inline double pick_scale(draws *d, double low, double high) {
  return pow(10, low + (high - low) * tri_random_uniform(d->key, d->next++));
}

/* Draws layers of experts for a model: some of its first layers may be dense, and shared experts may process all
 * tokens. */
static inline void draw_experts(draws *d, tri_model *model) {
  model->family = toss(d) ? TRI_FAMILY_DOTS1 : TRI_FAMILY_MIXTRAL;
  model->num_experts = pick(d, 3, 8);
  model->experts_per_token = pick(d, 1, 3);
  model->expert_ffn_size = 128 * pick(d, 1, 6);
  model->router_scale = 1;
  model->tied = false;
  if (toss(d)) {
    model->balance = TRI_BALANCE_EXPERTS_SEQUENCE;
    model->balance_rate = 1e-4;
  }
  if (model->family == TRI_FAMILY_DOTS1) {
    model->shared_experts = pick(d, 0, 2);
    model->dense_layers = pick(d, 0, model->num_layers);
    model->router_bias = toss(d);
  }
  if (model->dense_layers == 0) model->ffn_size = 0;
}

/* Draws the layout of experts, which is without effect if the model has none. */
static inline void draw_expert_layout(draws *d, tri_layout *layout) {
  static const double rooms[] = {0.5, 1, 1.5, 8};
  layout->expert = pick(d, 1, 4);
  layout->expert_tensor = pick(d, 1, 2);
  layout->expert_capacity = rooms[pick(d, 0, 3)];
  layout->capacity_drop = pick(d, 0, 3) == 0;
}

#endif
