#include "checkpoint/huggingface.h"

#include "base/config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/state.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT_BYTES = 1 << 24 };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* An object of a config.json. A key that is missing or null has its fallback, which is what transformers takes. */
typedef struct reader {
  const char *path;
  const json_t *object;
} reader;

static const json_t *get(const reader *from, const char *key) {
  const json_t *value = json_object_get(from->object, key);
  return json_is_null(value) ? NULL : value;
}

static tri_status wrong(const reader *from, const char *key, const char *wanted) {
  char *text = json_dumps(json_object_get(from->object, key), JSON_ENCODE_ANY | JSON_COMPACT);
  tri_status status = tri_fail(TRI_BAD_FILE, "%s: `%s` is %.100s, but should be %s", from->path, key,
                               text == NULL ? "?" : text, wanted);
  free(text);
  return status;
}

/* A size: at least 1. */
static tri_status get_size(const reader *from, const char *key, int64_t fallback, int64_t *out) {
  const json_t *value = get(from, key);
  if (value != NULL && (!json_is_integer(value) || json_integer_value(value) < 1)) {
    return wrong(from, key, "an integer of at least 1");
  }
  *out = value == NULL ? fallback : (int64_t)json_integer_value(value);
  return TRI_OK;
}

static tri_status get_number(const reader *from, const char *key, double fallback, double *out) {
  const json_t *value = get(from, key);
  if (value != NULL && !json_is_number(value)) return wrong(from, key, "a number");
  *out = value == NULL ? fallback : json_number_value(value);
  return TRI_OK;
}

static tri_status get_bool(const reader *from, const char *key, bool fallback, bool *out) {
  const json_t *value = get(from, key);
  if (value != NULL && !json_is_boolean(value)) return wrong(from, key, "true or false");
  *out = value == NULL ? fallback : json_is_true(value);
  return TRI_OK;
}

static tri_status get_word(const reader *from, const char *key, const char *fallback, const char **out) {
  const json_t *value = get(from, key);
  if (value != NULL && !json_is_string(value)) return wrong(from, key, "a string");
  *out = value == NULL ? fallback : json_string_value(value);
  return TRI_OK;
}

/* A switch of transformers' that must stand as we compute. */
static tri_status require_bool(const reader *from, const char *key, bool required, const char *what) {
  bool value = required;
  TRI_TRY(get_bool(from, key, required, &value));
  if (value == required) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s: `%s` is %s: %s is not supported", from->path, key, value ? "true" : "false",
                  what);
}

/* The keys of the description itself, from the name that the config gives the model. */
static void read_name(const reader *from, tri_model *out) {
  const char *name = json_string_value(get(from, "_name_or_path"));
  const char *slash = name == NULL ? NULL : strrchr(name, '/');
  if (slash != NULL) name = slash + 1;
  snprintf(out->name, sizeof out->name, "%s", name == NULL || *name == '\0' ? "inline" : name);
}

/* What transformers calls them, both ways, and its other names of the same function, which are only read. */
#define ACTIVATIONS(X) X("gelu_new", TRI_ACTIVATION_GELU_TANH) X("gelu", TRI_ACTIVATION_GELU_ERF)
TRI_CONFIG_WORDS(activations, tri_activation, ACTIVATIONS)
static const char *const other_tanh_names[] = {"gelu_pytorch_tanh", "gelu_fast", "gelu_python_tanh"};

static tri_status read_gpt2(const reader *from, tri_model *out) {
  const char *activation = NULL;
  out->family = TRI_FAMILY_GPT2;
  out->attention_bias = true;
  TRI_TRY(get_size(from, "vocab_size", 50257, &out->vocab_size));
  TRI_TRY(get_size(from, "n_positions", 1024, &out->max_sequence));
  TRI_TRY(get_size(from, "n_embd", 768, &out->hidden_size));
  TRI_TRY(get_size(from, "n_layer", 12, &out->num_layers));
  TRI_TRY(get_size(from, "n_head", 12, &out->num_heads));
  TRI_TRY(get_size(from, "n_inner", 0, &out->ffn_size));
  TRI_TRY(get_number(from, "resid_pdrop", 0.1, &out->dropout));
  TRI_TRY(get_number(from, "layer_norm_epsilon", 1e-5, &out->norm_eps));
  TRI_TRY(get_number(from, "initializer_range", 0.02, &out->init_std));
  TRI_TRY(get_bool(from, "tie_word_embeddings", true, &out->tied));
  TRI_TRY(require_bool(from, "scale_attn_weights", true, "attention without 1 / sqrt(head size)"));
  TRI_TRY(require_bool(from, "scale_attn_by_inverse_layer_idx", false, "attention scaled by the layer"));
  TRI_TRY(require_bool(from, "add_cross_attention", false, "cross-attention"));
  TRI_TRY(get_word(from, "activation_function", "gelu_new", &activation));
  for (const tri_config_word *word = activations; word->name != NULL; word++) {
    if (strcmp(activation, word->name) != 0) continue;
    out->activation = (tri_activation)word->value;
    return TRI_OK;
  }
  for (size_t i = 0; i < sizeof other_tanh_names / sizeof other_tanh_names[0]; i++) {
    if (strcmp(activation, other_tanh_names[i]) != 0) continue;
    out->activation = TRI_ACTIVATION_GELU_TANH;
    return TRI_OK;
  }
  return tri_fail(TRI_UNSUPPORTED, "%s: `activation_function` is `%.40s`; gelu_new and gelu are supported", from->path,
                  activation);
}

/* Up to version 4 transformers writes `rope_theta` and `rope_scaling`; from 5 on `rope_parameters` holds both. */
static tri_status read_rope(const reader *from, tri_model *out) {
  const char *key = get(from, "rope_parameters") != NULL ? "rope_parameters" : "rope_scaling";
  const reader rope = {.path = from->path, .object = get(from, key)};
  out->rope_scaling.factor = 1;
  TRI_TRY(get_number(from, "rope_theta", 10000, &out->rope_theta));
  if (rope.object == NULL) return TRI_OK;
  if (!json_is_object(rope.object)) return wrong(from, key, "an object");
  TRI_TRY(get_number(&rope, "rope_theta", out->rope_theta, &out->rope_theta));
  const char *type = NULL;
  TRI_TRY(get_word(&rope, "type", "default", &type));
  TRI_TRY(get_word(&rope, "rope_type", type, &type));
  if (strcmp(type, "default") == 0) return TRI_OK;
  if (strcmp(type, "llama3") != 0) {
    return tri_fail(TRI_UNSUPPORTED, "%s: `%s` is of type `%.40s`; llama3 and default are supported", from->path, key,
                    type);
  }
  static const char *const asked[] = {"factor", "low_freq_factor", "high_freq_factor",
                                      "original_max_position_embeddings"};
  for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
    if (get(&rope, asked[i]) == NULL) {
      return tri_fail(TRI_BAD_FILE, "%s: `%s` of type llama3 has no `%s`", from->path, key, asked[i]);
    }
  }
  TRI_TRY(get_number(&rope, "factor", 1, &out->rope_scaling.factor));
  TRI_TRY(get_number(&rope, "low_freq_factor", 1, &out->rope_scaling.low_freq_factor));
  TRI_TRY(get_number(&rope, "high_freq_factor", 4, &out->rope_scaling.high_freq_factor));
  return get_size(&rope, "original_max_position_embeddings", 8192, &out->rope_scaling.original_max_sequence);
}

/* What transformers takes for a key that is not there. */
typedef struct llama_defaults {
  const char *model_type;
  int64_t vocab_size, ffn_size, max_sequence, num_kv_heads; /* 0: as many as heads */
  int64_t window;                                           /* 0: none             */
  bool bias;
} llama_defaults;

static const llama_defaults llama_kinds[] = {
    {.model_type = "llama", .vocab_size = 32000, .ffn_size = 11008, .max_sequence = 2048},
    {.model_type = "mistral",
     .vocab_size = 32000,
     .ffn_size = 14336,
     .max_sequence = 131072,
     .num_kv_heads = 8,
     .window = 4096},
    {.model_type = "qwen2",
     .vocab_size = 151936,
     .ffn_size = 22016,
     .max_sequence = 32768,
     .num_kv_heads = 32,
     .bias = true},
};

/* A size whose null is not the same as its absence: it stands for 0. */
static tri_status get_optional_size(const reader *from, const char *key, int64_t fallback, int64_t *out) {
  return get_size(from, key, json_is_null(json_object_get(from->object, key)) ? 0 : fallback, out);
}

/* Attention that looks back no further than a window is the same as ours up to that length. */
static tri_status read_window(const reader *from, const llama_defaults *kind, tri_model *out) {
  int64_t window = 0;
  bool used = false;
  TRI_TRY(get_bool(from, "use_sliding_window", kind->window != 0, &used));
  if (!used) return TRI_OK;
  TRI_TRY(get_optional_size(from, "sliding_window", kind->window, &window));
  if (window == 0 || window >= out->max_sequence) return TRI_OK;
  tri_warn("%s: the model attends through a window of %" PRId64
           " positions; its longest sequence here is that, not %" PRId64,
           from->path, window, out->max_sequence);
  out->max_sequence = window;
  return TRI_OK;
}

static tri_status read_llama(const reader *from, const llama_defaults *kind, tri_model *out) {
  const char *activation = NULL;
  out->family = TRI_FAMILY_LLAMA;
  TRI_TRY(get_size(from, "vocab_size", kind->vocab_size, &out->vocab_size));
  TRI_TRY(get_size(from, "max_position_embeddings", kind->max_sequence, &out->max_sequence));
  TRI_TRY(get_size(from, "hidden_size", 4096, &out->hidden_size));
  TRI_TRY(get_size(from, "intermediate_size", kind->ffn_size, &out->ffn_size));
  TRI_TRY(get_size(from, "num_hidden_layers", 32, &out->num_layers));
  TRI_TRY(get_size(from, "num_attention_heads", 32, &out->num_heads));
  TRI_TRY(get_optional_size(from, "num_key_value_heads", kind->num_kv_heads, &out->num_kv_heads));
  TRI_TRY(get_size(from, "head_dim", 0, &out->head_dim));
  TRI_TRY(get_number(from, "rms_norm_eps", 1e-6, &out->norm_eps));
  TRI_TRY(get_number(from, "initializer_range", 0.02, &out->init_std));
  TRI_TRY(get_bool(from, "tie_word_embeddings", false, &out->tied));
  TRI_TRY(read_rope(from, out));
  out->attention_bias = kind->bias;
  if (!kind->bias) {
    TRI_TRY(require_bool(from, "attention_bias", false, "a bias on the output projection of attention"));
  }
  TRI_TRY(require_bool(from, "mlp_bias", false, "a bias in the feed-forward part"));
  TRI_TRY(read_window(from, kind, out));
  double rotated = 1;
  TRI_TRY(get_number(from, "partial_rotary_factor", 1, &rotated));
  if (rotated != 1) {
    return tri_fail(TRI_UNSUPPORTED, "%s: `partial_rotary_factor` is %g; only 1 is supported", from->path, rotated);
  }
  TRI_TRY(get_word(from, "hidden_act", "silu", &activation));
  if (strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s: `hidden_act` is `%.40s`; only silu is supported", from->path, activation);
}

static tri_status read_model(const reader *from, tri_model *out) {
  const char *type = NULL;
  if (!json_is_object(from->object)) return tri_fail(TRI_BAD_FILE, "%s is not a JSON object", from->path);
  TRI_TRY(get_word(from, "model_type", NULL, &type));
  if (type == NULL) return tri_fail(TRI_BAD_FILE, "%s has no `model_type`", from->path);
  if (get(from, "quantization_config") != NULL) {
    return tri_fail(TRI_UNSUPPORTED, "%s: quantized weights (`quantization_config`) are not supported", from->path);
  }
  read_name(from, out);
  if (strcmp(type, "gpt2") == 0) return read_gpt2(from, out);
  for (size_t i = 0; i < sizeof llama_kinds / sizeof llama_kinds[0]; i++) {
    if (strcmp(type, llama_kinds[i].model_type) == 0) return read_llama(from, &llama_kinds[i], out);
  }
  return tri_fail(TRI_UNSUPPORTED, "%s: `model_type` is `%.40s`; gpt2, llama, mistral and qwen2 are supported",
                  from->path, type);
}

tri_status tri_huggingface_parse(const char *path, const char *text, size_t bytes, tri_model *out) {
  json_error_t fault;
  json_t *document = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &fault);
  if (document == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s is not legal JSON at line %d: %s", path, fault.line, fault.text);
  }
  tri_model model = {0};
  tri_status status = read_model(&(reader){.path = path, .object = document}, &model);
  json_decref(document);
  TRI_TRY(status);
  if (tri_model_complete(&model) != TRI_OK) return tri_fail(TRI_BAD_FILE, "%s: %s", path, tri_status_message());
  *out = model;
  return TRI_OK;
}

/* The content of a config.json against the checkpoint's own checksum; a plain Hugging Face folder has none. */
static tri_status verify_config(const char *folder, const char *text, size_t bytes) {
  json_t *document = NULL;
  tri_checkpoint_state state;
  TRI_TRY(tri_state_load_any(folder, &document, &state));
  if (document == NULL) return TRI_OK;
  tri_status status = tri_state_verify_content(folder, document, TRI_FILE_CONFIG, text, bytes);
  json_decref(document);
  return status;
}

static tri_status load(const char *folder, bool verify, tri_model *out) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_CONFIG));
  TRI_TRY(tri_file_read_plain(path, CONFIG_LIMIT_BYTES, &text, &bytes));
  tri_status status = verify ? verify_config(folder, text, bytes) : TRI_OK;
  if (status == TRI_OK) status = tri_huggingface_parse(path, text, bytes, out);
  tri_free(text);
  return status;
}

tri_status tri_huggingface_load(const char *folder, tri_model *out) { return load(folder, true, out); }

tri_status tri_huggingface_load_unverified(const char *folder, tri_model *out) { return load(folder, false, out); }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *gpt2_json(const tri_model *m) {
  return json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:b}", "architectures",
                   "GPT2LMHeadModel", "model_type", "gpt2", "vocab_size", (json_int_t)m->vocab_size, "n_positions",
                   (json_int_t)m->max_sequence, "n_embd", (json_int_t)m->hidden_size, "n_layer",
                   (json_int_t)m->num_layers, "n_head", (json_int_t)m->num_heads, "n_inner", (json_int_t)m->ffn_size,
                   "activation_function", activations_word(m->activation), "embd_pdrop", m->dropout, "resid_pdrop",
                   m->dropout, "attn_pdrop", 0.0, "layer_norm_epsilon", m->norm_eps, "initializer_range", m->init_std,
                   "tie_word_embeddings", m->tied);
}

/* In the form of version 4, which later versions read too. */
static json_t *rope_json(const tri_rope_scaling *scaling) {
  if (scaling->factor == 1) return json_null();
  return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", scaling->factor, "low_freq_factor",
                   scaling->low_freq_factor, "high_freq_factor", scaling->high_freq_factor,
                   "original_max_position_embeddings", (json_int_t)scaling->original_max_sequence);
}

static json_t *llama_json(const tri_model *m) {
  bool qwen = m->attention_bias;
  json_t *out =
      json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:o, s:f, s:b}",
                "architectures", qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM", "model_type", qwen ? "qwen2" : "llama",
                "vocab_size", (json_int_t)m->vocab_size, "max_position_embeddings", (json_int_t)m->max_sequence,
                "hidden_size", (json_int_t)m->hidden_size, "intermediate_size", (json_int_t)m->ffn_size,
                "num_hidden_layers", (json_int_t)m->num_layers, "num_attention_heads", (json_int_t)m->num_heads,
                "num_key_value_heads", (json_int_t)m->num_kv_heads, "head_dim", (json_int_t)m->head_dim, "hidden_act",
                "silu", "rms_norm_eps", m->norm_eps, "initializer_range", m->init_std, "rope_theta", m->rope_theta,
                "rope_scaling", rope_json(&m->rope_scaling), "attention_dropout", 0.0, "tie_word_embeddings", m->tied);
  if (qwen) {
    json_object_set_new(out, "use_sliding_window", json_false());
  } else {
    json_object_set_new(out, "attention_bias", json_false());
    json_object_set_new(out, "mlp_bias", json_false());
  }
  return out;
}

/* With as few digits as read back to the same numbers: 1e-5, not 1.0000000000000001e-5. */
static char *print_shortest(const json_t *document) {
  char *text = NULL;
  for (int digits = 15; digits <= 17; digits++) {
    free(text);
    text = json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
    json_t *back = text == NULL ? NULL : json_loads(text, 0, NULL);
    bool same = back != NULL && json_equal(back, document);
    json_decref(back);
    if (same) break;
  }
  return text;
}

static tri_status check_gpt2(const tri_model *model) {
  if (model->num_heads * model->head_dim == model->hidden_size && model->num_kv_heads == model->num_heads)
    return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "Hugging Face's GPT-2 has no words for head_dim %" PRId64 " x num_heads %" PRId64
                  " beside hidden_size %" PRId64 ", nor for num_kv_heads %" PRId64,
                  model->head_dim, model->num_heads, model->hidden_size, model->num_kv_heads);
}

static const char *torch_name(tri_dtype type) {
  switch (type) {
    case TRI_FP32: return "float32";
    case TRI_BF16: return "bfloat16";
    case TRI_FP64: return "float64";
    case TRI_INT32: return "int32";
  }
  return "?";
}

tri_status tri_huggingface_print(const tri_model *model, tri_dtype weights, int32_t end_of_text, char **out) {
  json_t *document = NULL;
  switch (model->family) {
    case TRI_FAMILY_GPT2:
      TRI_TRY(check_gpt2(model));
      document = gpt2_json(model);
      break;
    case TRI_FAMILY_LLAMA: document = llama_json(model); break;
  }
  json_t *end = end_of_text < 0 ? json_null() : json_integer(end_of_text);
  const char *type = torch_name(weights);
  int failed = json_object_set(document, "bos_token_id", end) | json_object_set(document, "eos_token_id", end) |
               json_object_set_new(document, "torch_dtype", json_string(type)) |
               json_object_set_new(document, "_name_or_path", json_string(model->name));
  json_decref(end);
  char *text = failed != 0 ? NULL : print_shortest(document);
  json_decref(document);
  if (text == NULL) {
    return tri_fail(TRI_INTERNAL, "the description of model `%s` cannot be written as JSON: not UTF-8, or no memory",
                    model->name);
  }
  tri_status status = tri_strdup(text, out);
  free(text);
  return status;
}
