/* A small model, and samples for it that an engine trains on and a generator scores. */
#ifndef TRI_TESTS_GENERATED_SAMPLES_H
#define TRI_TESTS_GENERATED_SAMPLES_H

#include "check.h"
#include "data/feed.h"
#include "model/family.h"

enum { VOCABULARY = 29, SEQUENCE = 20 };

/* Returns a model of two layers; the caller completes it. */
static inline tri_model small_model_of(tri_family family) {
  return (tri_model){.family = family,
                     .num_layers = 2,
                     .hidden_size = 32,
                     .num_heads = 2,
                     .num_kv_heads = 2,
                     .ffn_size = 48,
                     .vocab_size = VOCABULARY,
                     .max_sequence = SEQUENCE,
                     .norm_eps = 1e-5,
                     .init_std = 0.2,
                     .rope_theta = 10000,
                     .rope_scaling.factor = 1,
                     .attention_bias = family == TRI_FAMILY_GPT2,
                     .tied = family == TRI_FAMILY_GPT2};
}

static inline int32_t token(int64_t sample, int64_t t) { return (int32_t)((sample * 11 + t * t * 7 + 3) % VOCABULARY); }

static inline tri_status read_sample(const void *from, int64_t index, const tri_sample *out) {
  (void)from;
  for (int64_t t = 0; t < SEQUENCE; t++) {
    out->ids[t] = token(index, t);
    out->labels[t] = t + 1 < SEQUENCE ? token(index, t + 1) : -1;
    out->positions[t] = (int32_t)t;
    out->weights[t] = 1;
  }
  return TRI_OK;
}

static const tri_feed feed = {read_sample, NULL};

#endif
