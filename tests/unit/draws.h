/* Random test cases: numbers drawn in order from a stream. */
#ifndef TRI_TESTS_DRAWS_H
#define TRI_TESTS_DRAWS_H

#include "base/random.h"
#include "model/model.h"
#include "schedule/layout.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

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

/* Draws a set of layers, in any of its forms (model/layer_set.h). */
static inline void draw_layer_set(draws *d, int64_t layers, char set[TRI_LAYER_SET_BYTES]) {
  const long a = (long)pick(d, 0, layers - 1), b = (long)pick(d, a, layers - 1), each = (long)pick(d, 2, 6);
  switch (pick(d, 0, 4)) {
    case 0: snprintf(set, TRI_LAYER_SET_BYTES, "all"); break;
    case 1: snprintf(set, TRI_LAYER_SET_BYTES, "%ld of %ld", (long)pick(d, 1, each), each); break;
    case 2: snprintf(set, TRI_LAYER_SET_BYTES, "%ld-", a); break;
    case 3: snprintf(set, TRI_LAYER_SET_BYTES, "0-%ld", a); break;
    default: snprintf(set, TRI_LAYER_SET_BYTES, "0, %ld-%ld", a, b); break;
  }
}

/* Draws which layers of a model, which is not complete yet, have a window of up to `most` tokens. A model without
 * experts becomes one of the families in which layers may also differ in their rotary embeddings. */
static inline void draw_windows(draws *d, int64_t most, tri_model *model) {
  static const tri_family families[] = {TRI_FAMILY_LLAMA, TRI_FAMILY_GEMMA3, TRI_FAMILY_SMOLLM3};
  model->window = pick(d, 1, most);
  if (model->num_experts == 0) model->family = families[pick(d, 0, 2)];
  if (model->family != TRI_FAMILY_MIXTRAL) draw_layer_set(d, model->num_layers, model->window_layers);
  if (model->family == TRI_FAMILY_GEMMA3) model->local_rope_theta = toss(d) ? 5000 : 0;
  if (model->family == TRI_FAMILY_SMOLLM3) draw_layer_set(d, model->num_layers, model->rope_layers);
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
