#include "llamacpp/read_model.h"

#include "base/memory.h"
#include "model/family.h"
#include "model/window.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A file whose keys are read, and the first failure. */
typedef struct reading {
  const tri_gguf_file *file;
  const tri_llamacpp_arch *arch;
  tri_status status;
} reading;

enum { KEY_BYTES = 128 };

static const char *key_of(const reading *at, const char *name, char out[KEY_BYTES]) {
  snprintf(out, KEY_BYTES, "%s.%s", at->arch->name, name);
  return out;
}

static bool has(const reading *at, const char *name) {
  char key[KEY_BYTES];
  return tri_gguf_find_key(at->file, key_of(at, name, key)) != NULL;
}

/* Read a key; they return `otherwise` if the file does not have it, and a valid value after a failure. */
static int64_t read_count(reading *at, const char *name, int64_t otherwise) {
  char key[KEY_BYTES];
  int64_t value = otherwise;
  if (at->status == TRI_OK && has(at, name)) at->status = tri_gguf_get_integer(at->file, key_of(at, name, key), &value);
  if (at->status != TRI_OK) return otherwise;
  if (value >= 0 && value <= INT32_MAX) return value;
  at->status = tri_fail(TRI_BAD_FILE, "%s: `%s.%s` is %" PRId64 ", which is not a size", at->file->path, at->arch->name,
                        name, value);
  return otherwise;
}

/* Reads a size that the file must have; returns at least 1. */
static int64_t read_size(reading *at, const char *name) {
  const int64_t value = read_count(at, name, 0);
  if (value > 0) return value;
  if (at->status != TRI_OK) return 1;
  at->status = tri_fail(TRI_BAD_FILE, "%s: `%s.%s` is %s", at->file->path, at->arch->name, name,
                        has(at, name) ? "0" : "missing");
  return 1;
}

static double read_number(reading *at, const char *name, double otherwise) {
  char key[KEY_BYTES];
  double value = otherwise;
  if (at->status == TRI_OK && has(at, name)) at->status = tri_gguf_get_number(at->file, key_of(at, name, key), &value);
  if (at->status != TRI_OK || isfinite(value)) return value;
  at->status = tri_fail(TRI_BAD_FILE, "%s: `%s.%s` is not a number", at->file->path, at->arch->name, name);
  return otherwise;
}

static bool read_flag(reading *at, const char *name, bool otherwise) {
  char key[KEY_BYTES];
  bool value = otherwise;
  if (at->status == TRI_OK && has(at, name)) at->status = tri_gguf_get_bool(at->file, key_of(at, name, key), &value);
  return value;
}

/* Returns the shortest decimal number that is `value` in fp32, as config.json has it: 1e-05 for 9.99999975e-06. */
static double shortest(double value) {
  char text[32];
  for (int digits = 1; digits < 10; digits++) {
    double again = 0;
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (sscanf(text, "%lf", &again) == 1 && (float)again == (float)value) return again;
  }
  return value;
}

static double read_short(reading *at, const char *name, double otherwise) {
  return shortest(read_number(at, name, otherwise));
}

/* Returns a tensor of layer 0; NULL if the file does not have it. */
static const tri_gguf_tensor *of_layer_0(const reading *at, const char *name) {
  char full[64];
  snprintf(full, sizeof full, "blk.0.%s", name);
  return tri_gguf_find_tensor(at->file, full);
}

static bool is(const reading *at, const char *name) { return strcmp(at->arch->name, name) == 0; }

/* ---- rotary embeddings ------------------------------------------------------------------------------------------- */

/* Reads a tensor of fp32 numbers, [pairs]. Release *out with tri_free. */
static tri_status read_divisors(const reading *at, const char *name, int64_t pairs, float **out) {
  const tri_gguf_tensor *tensor = tri_gguf_find_tensor(at->file, name);
  float *numbers = NULL;
  if (tensor == NULL || tensor->type->number != TRI_GGUF_F32 || tensor->num_dims != 1 || tensor->dims[0] != pairs) {
    return tri_fail(TRI_BAD_FILE, "%s: the tensor `%s` is %s", at->file->path, name,
                    tensor == NULL ? "missing" : "not a vector of fp32 with a number for each pair of components");
  }
  TRI_TRY(tri_alloc("rotary frequencies", (size_t)pairs, sizeof *numbers, &numbers));
  tri_status status = tri_gguf_read(at->file, tensor, 0, tensor->bytes, numbers);
  for (int64_t i = 0; i < pairs && status == TRI_OK; i++) {
    if (isfinite(numbers[i]) && numbers[i] > 0) continue;
    status =
        tri_fail(TRI_BAD_FILE, "%s: element %" PRId64 " of `%s` is %g", at->file->path, i, name, (double)numbers[i]);
  }
  if (status == TRI_OK) *out = numbers;
  if (status != TRI_OK) tri_free(numbers);
  return status;
}

static bool gives(const tri_model *model, const float *divisors, int64_t pairs) {
  for (int64_t i = 0; i < pairs; i++) {
    if (fabs(tri_llamacpp_rope_divisor(model, i, false) / (double)divisors[i] - 1) > 1e-5) return false;
  }
  return true;
}

/* Sets the scaling to the settings of llama3 in our own keys. Returns false if the file does not have them, or has
 * other divisors. */
static bool has_llama3(const reading *at, const float *divisors, int64_t pairs, tri_model *out) {
  static const char *const keys[] = {TRI_LLAMACPP_KEY_FACTOR, TRI_LLAMACPP_KEY_LOW, TRI_LLAMACPP_KEY_HIGH,
                                     TRI_LLAMACPP_KEY_ORIGINAL};
  double values[4];
  for (int i = 0; i < 4; i++) {
    if (tri_gguf_find_key(at->file, keys[i]) == NULL) return false;
    if (tri_gguf_get_number(at->file, keys[i], &values[i]) != TRI_OK || !(values[i] > 0)) return false;
  }
  if (values[2] <= values[1] || values[3] >= 1e12) return false;
  out->rope_scaling = tri_rope_scaling_none();
  out->rope_scaling.type = TRI_ROPE_LLAMA3;
  out->rope_scaling.factor = values[0];
  out->rope_scaling.low_freq_factor = values[1];
  out->rope_scaling.high_freq_factor = values[2];
  out->rope_scaling.original_max_sequence = (int64_t)values[3];
  return gives(out, divisors, pairs);
}

/* Finds the settings of llama3 from its divisors. Between both bounds 1 / divisor is a linear function of the
 * frequency, and only the ratios of the settings matter, so low_freq_factor is 1. */
static tri_status find_llama3(const reading *at, const float *divisors, int64_t pairs, tri_model *out) {
  tri_rope_scaling *s = &out->rope_scaling;
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  *s = tri_rope_scaling_none();
  s->type = TRI_ROPE_LLAMA3;
  s->factor = shortest((double)divisors[pairs - 1]);
  for (int64_t i = 0; i < pairs; i++) {
    const double of = (double)divisors[i];
    if (of <= 1 || of >= s->factor) continue;
    const double inverse = pow(out->rope_theta, -2.0 * (double)i / (2.0 * (double)pairs)) / (2 * M_PI);
    const double share = (1 / of - 1 / s->factor) / (1 - 1 / s->factor);
    n++, x += inverse, y += share, xx += inverse * inverse, xy += inverse * share;
  }
  s->low_freq_factor = 1;
  s->high_freq_factor = 4;
  s->original_max_sequence = 8192;
  if (n >= 2) {
    const double slope = (n * xy - x * y) / (n * xx - x * x), begin = (y - slope * x) / n;
    s->high_freq_factor = round(1000 * (1 - 1 / begin)) / 1000;
    s->original_max_sequence = (int64_t)round(slope * (s->high_freq_factor - 1));
  }
  if (s->original_max_sequence > 0 && s->high_freq_factor > 1 && gives(out, divisors, pairs)) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: the divisors in `rope_freqs.weight` are not those of rope_scaling of type llama3",
                  at->file->path);
}

/* Reads one list of longrope. */
static tri_status read_list(const reading *at, const char *name, int64_t pairs, double out[TRI_ROPE_MOST_PAIRS]) {
  float *numbers = NULL;
  TRI_TRY(read_divisors(at, name, pairs, &numbers));
  for (int64_t i = 0; i < pairs; i++) out[i] = shortest((double)numbers[i]);
  tri_free(numbers);
  return TRI_OK;
}

static tri_status read_long(const reading *at, int64_t pairs, tri_rope_scaling *out) {
  if (pairs > TRI_ROPE_MOST_PAIRS) {
    return tri_fail(TRI_UNSUPPORTED, "%s: longrope for more than %d pairs of components", at->file->path,
                    TRI_ROPE_MOST_PAIRS);
  }
  TRI_TRY(read_list(at, "rope_factors_long.weight", pairs, out->long_factor));
  return read_list(at, "rope_factors_short.weight", pairs, out->short_factor);
}

/* Sets out->rope_scaling, after the other members that it depends on. */
static tri_status read_scaling(reading *at, tri_model *out) {
  tri_rope_scaling *s = &out->rope_scaling;
  const int64_t pairs = tri_model_rotary_dim(out) / 2;
  char key[KEY_BYTES];
  const char *type = "none";
  if (has(at, "rope.scaling.type")) TRI_TRY(tri_gguf_get_string(at->file, key_of(at, "rope.scaling.type", key), &type));
  if (tri_gguf_find_tensor(at->file, "rope_freqs.weight") != NULL && at->arch->llama3) {
    float *divisors = NULL;
    TRI_TRY(read_divisors(at, "rope_freqs.weight", pairs, &divisors));
    const bool known = has_llama3(at, divisors, pairs, out);
    const tri_status status = known ? TRI_OK : find_llama3(at, divisors, pairs, out);
    tri_free(divisors);
    return status;
  }
  const double factor = read_short(at, "rope.scaling.factor", read_short(at, "rope.scale_linear", 1));
  const double attention = read_number(at, "rope.scaling.attn_factor", 1);
  if (strcmp(type, "longrope") != 0 && (strcmp(type, "none") == 0 ? factor == 1 : factor <= 1)) return at->status;
  s->factor = factor;
  s->original_max_sequence = read_count(at, "rope.scaling.original_context_length", out->max_sequence);
  if (strcmp(type, "linear") == 0 || strcmp(type, "none") == 0) {
    *s = tri_rope_scaling_none();
    s->type = TRI_ROPE_LINEAR;
    s->factor = factor;
  } else if (strcmp(type, "yarn") == 0) {
    s->type = TRI_ROPE_YARN;
    s->beta_fast = 32;
    s->beta_slow = 1;
    s->truncate = true;
    if (fabs(attention - 1) > 1e-6) s->attention_factor = shortest(attention * (0.1 * log(factor) + 1));
  } else if (strcmp(type, "longrope") == 0) {
    s->type = TRI_ROPE_LONG;
    s->attention_factor = shortest(attention);
    s->factor = (double)out->max_sequence / (double)s->original_max_sequence;
    TRI_TRY(read_long(at, pairs, s));
  } else {
    return tri_fail(TRI_UNSUPPORTED, "%s: rope scaling of type `%.32s` is not supported", at->file->path, type);
  }
  return at->status;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* Reads the layers with a window: a list, or a period n. Each n-th layer then has no window. */
static tri_status read_windows(reading *at, tri_model *out) {
  const int64_t usual = is(at, "gemma2") ? 2 : 6;
  const char *name = "attention.sliding_window_pattern";
  char key[KEY_BYTES];
  bool windowed[TRI_LLAMACPP_LAYERS] = {false};
  if (!at->arch->windows) return at->status;
  out->window = read_count(at, "attention.sliding_window", is(at, "gemma2") ? 4096 : 0);
  if (at->status != TRI_OK || out->window == 0) return at->status;
  const tri_gguf_key *pattern = tri_gguf_find_key(at->file, key_of(at, name, key));
  if (pattern != NULL && pattern->is_array &&
      (pattern->type != TRI_GGUF_BOOL || pattern->count != (uint64_t)out->num_layers)) {
    return tri_fail(TRI_BAD_FILE, "%s: `%s` is not a bool for each of %" PRId64 " layers", at->file->path, key,
                    out->num_layers);
  }
  const int64_t period = pattern != NULL && !pattern->is_array ? read_size(at, name) : usual;
  bool some = false;
  for (int64_t layer = 0; layer < out->num_layers; layer++) {
    windowed[layer] = pattern != NULL && pattern->is_array ? pattern->data[layer] != 0 : layer % period < period - 1;
    some = some || windowed[layer];
  }
  if (!some) out->window = 0;
  if (is(at, "gemma3") && some) {
    const double local = read_short(at, "rope.freq_base_swa", 10000);
    if (local != out->rope_theta) out->local_rope_theta = local;
  }
  return some ? tri_layer_set_print(windowed, "window_layers", out->num_layers, out->window_layers) : at->status;
}

static void read_experts(reading *at, tri_model *out) {
  const bool dots = is(at, "dots1");
  out->num_experts = read_count(at, "expert_count", 0);
  if (out->num_experts == 0) return;
  out->experts_per_token = read_size(at, "expert_used_count");
  if (out->num_experts > TRI_LLAMACPP_EXPERTS && at->status == TRI_OK) {
    at->status = tri_fail(TRI_BAD_FILE, "%s: `%s.expert_count` is %" PRId64 ", but llama.cpp has at most %d experts",
                          at->file->path, at->arch->name, out->num_experts, TRI_LLAMACPP_EXPERTS);
  }
  out->router_normalised = !is(at, "olmoe");
  out->expert_ffn_size = at->arch->expert_ffn ? out->ffn_size : read_size(at, "expert_feed_forward_length");
  if (!dots) return;
  out->shared_experts = read_size(at, "expert_shared_count");
  out->dense_layers = read_count(at, "leading_dense_block_count", 0);
  const double scale = read_short(at, "expert_weights_scale", 1);
  out->router_scale = scale == 0 ? 1 : scale;
  out->router_normalised = read_flag(at, "expert_weights_norm", false);
  out->router_scoring = TRI_ROUTER_SIGMOID;
  char bias[64];
  snprintf(bias, sizeof bias, "blk.%" PRId64 ".exp_probs_b.bias", out->dense_layers);
  out->router_bias = tri_gguf_find_tensor(at->file, bias) != NULL;
  out->router_groups = tri_larger(1, read_count(at, "expert_group_count", 1));
  out->router_kept_groups = tri_larger(1, read_count(at, "expert_group_used_count", out->router_groups));
  if (at->status != TRI_OK || read_count(at, "expert_gating_func", 2) == 2) return;
  at->status = tri_fail(TRI_UNSUPPORTED, "%s: `dots1.expert_gating_func` is not 2, a sigmoid", at->file->path);
}

static tri_activation activation_of(const reading *at) {
  if (!at->arch->gelu) return TRI_ACTIVATION_SILU;
  return is(at, "gptneox") || is(at, "falcon") ? TRI_ACTIVATION_GELU_ERF : TRI_ACTIVATION_GELU_TANH;
}

/* Sets the biases and the residual connection from the tensors of layer 0. */
static void find_parts(reading *at, tri_model *out) {
  const bool q = of_layer_0(at, "attn_q.bias") != NULL || of_layer_0(at, "attn_qkv.bias") != NULL;
  const bool output = of_layer_0(at, "attn_output.bias") != NULL;
  switch (tri_family_of(out)->blocks.biases) {
    case TRI_BIASES_QKV:
      out->attention_bias = q;
      out->output_bias = output;
      break;
    case TRI_BIASES_NONE:
    case TRI_BIASES_ATTENTION:
    case TRI_BIASES_AND_FFN: out->attention_bias = q || output; break;
    case TRI_BIASES_ALL_OR_NONE: out->attention_bias = q; break; /* the others may be 0, as llama.cpp needs them */
    case TRI_BIASES_ALL: out->attention_bias = true; break;
  }
  if (is(at, "llama") || is(at, "granite")) out->mlp_bias = of_layer_0(at, "ffn_up.bias") != NULL;
  if (is(at, "falcon"))
    out->residual = of_layer_0(at, "attn_norm_2.weight") ? TRI_RESIDUAL_PARALLEL : TRI_RESIDUAL_PARALLEL_ONE_NORM;
  if (is(at, "stablelm"))
    out->residual = of_layer_0(at, "ffn_norm.weight") ? TRI_RESIDUAL_SEQUENTIAL : TRI_RESIDUAL_PARALLEL_ONE_NORM;
  if (is(at, "gptneox") && !read_flag(at, "use_parallel_residual", true)) out->residual = TRI_RESIDUAL_SEQUENTIAL;
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

static void read_factors(reading *at, tri_model *out) {
  if (is(at, "gemma2")) {
    out->attention_soft_cap = read_short(at, "attn_logit_softcapping", 50);
    out->logit_soft_cap = read_short(at, "final_logit_softcapping", 30);
  }
  if (is(at, "gemma3")) out->logit_soft_cap = read_short(at, "final_logit_softcapping", 0);
  if (is(at, "gemma2") || is(at, "gemma3")) out->attention_scale = tri_llamacpp_gemma_scale(at->arch, out);
  if (!is(at, "granite")) return;
  out->logit_divisor = read_short(at, "logit_scale", 1);
  out->residual_scale = read_short(at, "residual_scale", 1);
  out->embedding_scale = read_short(at, "embedding_scale", 1);
  out->attention_scale = read_short(at, "attention.scale", 0);
}

/* Returns whether the output projection has the bytes of the embedding. */
static tri_status find_tied(const reading *at, bool *tied) {
  enum { PIECE = 1 << 20 };
  const tri_gguf_tensor *a = tri_gguf_find_tensor(at->file, "token_embd.weight");
  const tri_gguf_tensor *b = tri_gguf_find_tensor(at->file, "output.weight");
  char *pieces = NULL;
  *tied = b == NULL;
  if (a == NULL || b == NULL || a->type != b->type || a->bytes != b->bytes) return TRI_OK;
  if (tri_gguf_find_tensor(at->file, "output.bias") != NULL && at->arch->output != TRI_LLAMACPP_OUTPUT_ALWAYS)
    return TRI_OK;
  TRI_TRY(tri_alloc("a piece of a tensor", 2, PIECE, &pieces));
  tri_status status = TRI_OK;
  bool equal = true;
  for (uint64_t done = 0; done < a->bytes && equal && status == TRI_OK; done += PIECE) {
    const uint64_t bytes = a->bytes - done < PIECE ? a->bytes - done : PIECE;
    status = tri_gguf_read(at->file, a, done, bytes, pieces);
    if (status == TRI_OK) status = tri_gguf_read(at->file, b, done, bytes, pieces + PIECE);
    equal = memcmp(pieces, pieces + PIECE, (size_t)bytes) == 0;
  }
  tri_free(pieces);
  *tied = equal;
  return status;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* Sets the model's name to general.name. Characters other than letters, digits and marks of ASCII become "-". */
static void read_name(const reading *at, tri_model *out) {
  const char *name = NULL;
  if (tri_gguf_find_key(at->file, "general.name") == NULL) return;
  if (tri_gguf_get_string(at->file, "general.name", &name) != TRI_OK || name[0] == '\0') return;
  snprintf(out->name, sizeof out->name, "%s", name);
  for (char *c = out->name; *c != '\0'; c++) {
    if (*c <= ' ' || *c > '~') *c = '-';
  }
}

static tri_status read_sizes(reading *at, tri_model *out) {
  tri_model given = {.family = at->arch->family};
  const tri_gguf_tensor *embedding = tri_gguf_find_tensor(at->file, "token_embd.weight");
  given.hidden_size = read_size(at, "embedding_length");
  given.num_heads = read_size(at, "attention.head_count");
  given.ffn_size = read_size(at, "feed_forward_length");
  given.head_dim = read_count(at, "attention.key_length", given.hidden_size / tri_larger(1, given.num_heads));
  TRI_TRY(at->status);
  if (embedding == NULL || embedding->num_dims != 2) {
    return tri_fail(TRI_BAD_FILE, "%s has no matrix `token_embd.weight`", at->file->path);
  }
  if (read_count(at, "attention.value_length", given.head_dim) != given.head_dim) {
    return tri_fail(TRI_UNSUPPORTED, "%s: heads of values have another length than heads of keys", at->file->path);
  }
  tri_model_plain(&given, out);
  snprintf(out->model_type, sizeof out->model_type, "%s", at->arch->model_type);
  read_name(at, out);
  out->num_layers = read_size(at, "block_count");
  if (out->num_layers > TRI_LLAMACPP_LAYERS) {
    return tri_fail(TRI_BAD_FILE, "%s: `%s.block_count` is %" PRId64 ", but llama.cpp has at most %d layers",
                    at->file->path, at->arch->name, out->num_layers, TRI_LLAMACPP_LAYERS);
  }
  out->num_kv_heads = read_count(at, "attention.head_count_kv", given.num_heads);
  out->vocab_size = embedding->dims[1];
  out->max_sequence = read_size(at, "context_length");
  const bool layer_norm = tri_family_of(out)->blocks.norm_kind == TRI_NORM_LAYER;
  out->norm_eps = read_short(at, layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0);
  return at->status;
}

/* Finds the architecture of a file. Of several model types with one architecture, the first that fits. */
static tri_status find_arch(const tri_gguf_file *file, const tri_llamacpp_arch **out) {
  const char *name = NULL;
  char key[KEY_BYTES];
  TRI_TRY(tri_gguf_get_string(file, "general.architecture", &name));
  snprintf(key, sizeof key, "%.64s.expert_count", name);
  int64_t experts = 0;
  if (tri_gguf_find_key(file, key) != NULL) TRI_TRY(tri_gguf_get_integer(file, key, &experts));
  *out = tri_llamacpp_arch_named(name, experts > 0);
  if (*out != NULL) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s has a model of llama.cpp's architecture `%.64s`, which no family has "
                  "(docs/families.md)",
                  file->path, name);
}

tri_status tri_llamacpp_read_model(const tri_gguf_file *file, tri_model *model, const tri_llamacpp_arch **arch) {
  reading at = {.file = file, .status = TRI_OK};
  tri_model out;
  TRI_TRY(find_arch(file, &at.arch));
  TRI_TRY(read_sizes(&at, &out));
  out.activation = activation_of(&at);
  if (!at.arch->no_rope) {
    out.rope_theta = read_short(&at, "rope.freq_base", 10000);
    const int64_t rotated = read_count(&at, "rope.dimension_count", out.head_dim);
    out.rotary_fraction = (double)rotated / (double)out.head_dim;
  }
  if (is(&at, "smollm3")) snprintf(out.rope_layers, sizeof out.rope_layers, "3 of 4");
  read_experts(&at, &out);
  read_factors(&at, &out);
  find_parts(&at, &out);
  TRI_TRY(read_windows(&at, &out));
  TRI_TRY(find_tied(&at, &out.tied));
  TRI_TRY(read_scaling(&at, &out));
  if (tri_model_complete(&out) != TRI_OK) {
    char why[512];
    snprintf(why, sizeof why, "%s", tri_status_message());
    return tri_fail(TRI_UNSUPPORTED, "%s: %s", file->path, why);
  }
  *model = out;
  *arch = at.arch;
  return TRI_OK;
}
