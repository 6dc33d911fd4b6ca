/* Definitions that Gemma 2 and Gemma 3 share. */
#ifndef TRI_MODEL_GEMMA_H
#define TRI_MODEL_GEMMA_H

#include "files/json_reader.h"
#include "model/hf_keys.h"

#define TRI_GEMMA_NORMS                                                                                                \
  .norm1 = "input_layernorm", .post1 = "post_attention_layernorm", .norm2 = "pre_feedforward_layernorm",               \
  .post2 = "post_feedforward_layernorm"

/* Defaults of keys that are missing in config.json. */
#define TRI_GEMMA_ABSENT                                                                                               \
  .hidden_size = 2304, .ffn_size = 9216, .num_layers = 26, .num_heads = 8, .num_kv_heads = 4, .head_dim = 256,         \
  .norm_eps = 1e-6, .init_std = 0.02, .window = 4096, .tied = true

/* The keys of Gemma 2 and 3. The functions read and write attention_scale as query_pre_attn_scalar. */
extern const tri_hf_key tri_gemma_keys[];
tri_status tri_gemma_read(const tri_json_reader *from, tri_model *out);
/* Checks that attention_scale is 1 / sqrt(n) for a whole number n, which the config.json of Gemma requires. */
tri_status tri_gemma_check(const tri_model *model);
void tri_gemma_write(const tri_model *model, json_t *to);

#endif
