/* Falcon (2023, arXiv 2311.16867): attention and feed-forward part with the same input, after one norm (7B) or a norm
 * each (40B), usually without biases; heads of k and v follow the heads of q that share them. */
#include "model/family.h"

#include <inttypes.h>

#define FIELD TRI_HF_KEYS_FIELD
#define ONLY TRI_HF_KEYS_ONLY
#define READS TRI_HF_KEYS_READS
static const tri_hf_key keys[] = {
    FIELD("vocab_size", SIZE, vocab_size),
    FIELD("max_position_embeddings", SIZE, max_sequence),
    FIELD("hidden_size", SIZE, hidden_size),
    TRI_HF_KEYS_ALSO("n_embed", SIZE, hidden_size), /* an old name, with precedence */
    FIELD("ffn_hidden_size", SIZE, ffn_size),
    FIELD("num_hidden_layers", SIZE, num_layers),
    FIELD("num_attention_heads", SIZE, num_heads),
    FIELD("activation", ACTIVATION, activation),
    FIELD("layer_norm_epsilon", POSITIVE, norm_eps),
    ONLY("alibi", "false", "ALiBi in place of rotary positions"),
    FIELD("bias", BOOL, attention_bias),
    TRI_HF_KEYS_ALSO("head_dim", SIZE, head_dim), /* must equal the value that follows from the other keys */
    READS("new_decoder_architecture"),
    READS("multi_query"),
    READS("parallel_attn"),
    READS("num_ln_in_parallel_attn"),
    READS("num_kv_heads"),
    {.key = NULL},
};

/* Keys of Falcon's config.json that select the form of its layers. */
typedef struct words {
  bool new_architecture, multi_query, parallel;
  int64_t norms, kv_heads;
} words;

static tri_status read_words(const tri_json_reader *from, const tri_model *model, words *out) {
  TRI_TRY(tri_reader_bool(from, "new_decoder_architecture", false, &out->new_architecture));
  TRI_TRY(tri_reader_bool(from, "multi_query", true, &out->multi_query));
  TRI_TRY(tri_reader_bool(from, "parallel_attn", true, &out->parallel));
  TRI_TRY(tri_reader_size(from, "num_ln_in_parallel_attn", out->new_architecture ? 2 : 1, &out->norms));
  return tri_reader_size(from, "num_kv_heads", model->num_heads, &out->kv_heads);
}

/* Refuses keys of the new architecture in the old one, as transformers does. */
static tri_status check_old(const tri_json_reader *from, const tri_model *model, const words *said) {
  const char *key = NULL;
  if (said->parallel && said->norms == 2) key = "num_ln_in_parallel_attn";
  if (!said->multi_query && said->kv_heads != model->num_heads) key = "num_kv_heads";
  if (key == NULL || said->new_architecture) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s: `%s` goes with `new_decoder_architecture`; correct one of them", from->path,
                  key);
}

static tri_status falcon_read(const tri_json_reader *from, tri_model *out) {
  words said;
  TRI_TRY(read_words(from, out, &said));
  if (said.new_architecture && !said.parallel) {
    return tri_fail(TRI_UNSUPPORTED, "%s: `new_decoder_architecture` without `parallel_attn` is not supported",
                    from->path);
  }
  TRI_TRY(check_old(from, out, &said));
  out->num_kv_heads = said.multi_query ? 1 : out->num_heads;
  if (said.new_architecture) out->num_kv_heads = said.kv_heads;
  out->residual = TRI_RESIDUAL_PARALLEL_ONE_NORM;
  if (said.new_architecture && said.norms == 2) out->residual = TRI_RESIDUAL_PARALLEL;
  if (!said.parallel) out->residual = TRI_RESIDUAL_SEQUENTIAL;
  return TRI_OK;
}

/* Returns the number of norms of a layer with parallel branches; 0 for sequential branches. */
static int num_norms(const tri_model *m) {
  switch (m->residual) {
    case TRI_RESIDUAL_SEQUENTIAL: break;
    case TRI_RESIDUAL_PARALLEL_ONE_NORM: return 1;
    case TRI_RESIDUAL_PARALLEL: return 2;
  }
  return 0;
}

/* Returns whether a model needs the new architecture: grouped queries, or two norms. */
static bool is_new(const tri_model *m) {
  return num_norms(m) == 2 || (m->num_kv_heads != 1 && m->num_kv_heads != m->num_heads);
}

static void falcon_write(const tri_model *m, json_t *to) {
  const bool new_architecture = is_new(m);
  json_object_set_new(to, "new_decoder_architecture", json_boolean(new_architecture));
  json_object_set_new(to, "multi_query", json_boolean(m->num_kv_heads == 1));
  json_object_set_new(to, "parallel_attn", json_boolean(num_norms(m) > 0));
  json_object_set_new(to, "num_kv_heads", json_integer((json_int_t)m->num_kv_heads));
  if (!new_architecture) return;
  json_object_set_new(to, "num_ln_in_parallel_attn", json_integer(num_norms(m)));
}

static tri_status falcon_check(const tri_model *m) {
  TRI_TRY(tri_family_check_head_dim(m));
  if (num_norms(m) > 0 || !is_new(m)) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`num_kv_heads` %" PRId64 " must be 1 or num_heads %" PRId64
                  " in falcon with `residual: sequential`; change one of them",
                  m->num_kv_heads, m->num_heads);
}

static const tri_hf_keys hf_keys[] = {
    {.model_type = "falcon",
     .architecture = "FalconForCausalLM",
     .absent = {.vocab_size = 65024,
                .max_sequence = 2048,
                .hidden_size = 4544,
                .num_layers = 32,
                .num_heads = 71,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .rope_theta = 10000,
                .tied = true},
     .tables = {keys, tri_hf_keys_others},
     .read = falcon_read,
     .write = falcon_write},
    {.model_type = NULL},
};

const tri_family_table tri_family_falcon = {
    .blocks = {.embedding = "transformer.word_embeddings",
               .norm = "transformer.ln_f",
               .head = "lm_head",
               .layer = "transformer.h.%ld.",
               .names = {TRI_BLOCKS_LLAMA_NORMS, .both1 = "ln_attn", .both2 = "ln_mlp",
                         .qkv = "self_attention.query_key_value", .out = "self_attention.dense",
                         .up = "mlp.dense_h_to_4h", .down = "mlp.dense_4h_to_h"},
               .norm_kind = TRI_NORM_LAYER,
               .qkv_order = TRI_QKV_BY_HEADS,
               .biases = TRI_BIASES_ALL_OR_NONE},
    .usual = {.tied = true, .activation = TRI_ACTIVATION_GELU_ERF, .residual = TRI_RESIDUAL_PARALLEL_ONE_NORM},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "residual", "activation", "attention_bias"),
    .hf_keys = hf_keys,
    .check = falcon_check};
