/* A complete GPT-2 of three layers. */
#ifndef TRI_TESTS_SMALL_MODEL_H
#define TRI_TESTS_SMALL_MODEL_H

#include "check.h"
#include "model/family.h"

static inline tri_model small_model(void) {
  tri_model model = {.family = TRI_FAMILY_GPT2,
                     .num_layers = 3,
                     .hidden_size = 64,
                     .num_heads = 4,
                     .num_kv_heads = 4,
                     .vocab_size = 300,
                     .max_sequence = 32,
                     .tied = true,
                     .norm_eps = 1e-5,
                     .init_std = 0.02,
                     .dropout = 0.1};
  CHECK_OK(tri_model_complete(&model));
  return model;
}

#endif
