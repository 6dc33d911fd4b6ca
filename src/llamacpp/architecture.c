#include "llamacpp/architecture.h"

#include "base/log.h"
#include "checkpoint/huggingface.h"
#include "model/family.h"
#include "model/window.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define IF_UNTIED TRI_LLAMACPP_OUTPUT_IF_UNTIED
#define ALWAYS TRI_LLAMACPP_OUTPUT_ALWAYS
#define NEVER TRI_LLAMACPP_OUTPUT_NEVER
static const tri_llamacpp_arch archs[] = {
    {"llama", "llama", TRI_FAMILY_LLAMA, IF_UNTIED, .in_pairs = true, .any_head_dim = true, .biases = true,
     .llama3 = true},
    {"mistral", "llama", TRI_FAMILY_LLAMA, IF_UNTIED, .in_pairs = true, .any_head_dim = true, .llama3 = true},
    {"ministral", "llama", TRI_FAMILY_LLAMA, IF_UNTIED, .in_pairs = true, .any_head_dim = true, .llama3 = true},
    {"mixtral", "llama", TRI_FAMILY_MIXTRAL, IF_UNTIED, .in_pairs = true, .any_head_dim = true, .llama3 = true,
     .expert_ffn = true},
    {"qwen2", "qwen2", TRI_FAMILY_LLAMA, IF_UNTIED, .in_pairs = false},
    {"qwen3", "qwen3", TRI_FAMILY_QWEN3, IF_UNTIED, .any_head_dim = true},
    {"qwen3_moe", "qwen3moe", TRI_FAMILY_QWEN3_MOE, IF_UNTIED, .any_head_dim = true},
    {"olmoe", "olmoe", TRI_FAMILY_OLMOE, ALWAYS, .equal_kv = true, .expert_ffn = true},
    {"dots1", "dots1", TRI_FAMILY_DOTS1, ALWAYS, .any_head_dim = true, .equal_kv = true},
    {"gemma", "gemma", TRI_FAMILY_GEMMA, NEVER, .gelu = true, .any_head_dim = true},
    {"gemma2", "gemma2", TRI_FAMILY_GEMMA2, NEVER, .gelu = true, .any_head_dim = true, .windows = true},
    {"gemma3_text", "gemma3", TRI_FAMILY_GEMMA3, IF_UNTIED, .gelu = true, .any_head_dim = true, .windows = true},
    {"phi", "phi2", TRI_FAMILY_PHI, ALWAYS, .gelu = true, .biases = true, .part_rotates = true},
    {"phi3", "phi3", TRI_FAMILY_PHI3, IF_UNTIED, .part_rotates = true},
    {"gpt_neox", "gptneox", TRI_FAMILY_GPT_NEOX, ALWAYS, .gelu = true, .biases = true, .needs_biases = true,
     .part_rotates = true},
    {"olmo2", "olmo2", TRI_FAMILY_OLMO2, ALWAYS, .in_pairs = false},
    {"smollm3", "smollm3", TRI_FAMILY_SMOLLM3, IF_UNTIED, .in_pairs = true, .any_head_dim = true},
    {"falcon", "falcon", TRI_FAMILY_FALCON, IF_UNTIED, .gelu = true},
    {"stablelm", "stablelm", TRI_FAMILY_STABLELM, ALWAYS, .part_rotates = true},
    {"granite", "granite", TRI_FAMILY_GRANITE, IF_UNTIED, .in_pairs = true, .any_head_dim = true, .biases = true,
     .llama3 = true},
    {"starcoder2", "starcoder2", TRI_FAMILY_STARCODER2, IF_UNTIED, .gelu = true, .biases = true, .needs_biases = true},
    {"gpt2", "gpt2", TRI_FAMILY_GPT2, IF_UNTIED, .no_rope = true, .gelu = true, .biases = true},
};

enum { WHAT_BYTES = 160 };

const tri_llamacpp_arch *tri_llamacpp_arch_named(const char *name, bool experts) {
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    const bool mixtral = archs[i].family == TRI_FAMILY_MIXTRAL, llama = strcmp(name, "llama") == 0;
    if (strcmp(archs[i].name, name) == 0 && (!llama || mixtral == experts)) return &archs[i];
  }
  return NULL;
}

static bool is(const tri_llamacpp_arch *arch, const char *name) { return strcmp(arch->name, name) == 0; }

/* ---- differences ------------------------------------------------------------------------------------------------- */

static bool is_silu(tri_activation activation) { return activation == TRI_ACTIVATION_SILU; }
static bool is_gelu(tri_activation activation) {
  return activation == TRI_ACTIVATION_GELU_TANH || activation == TRI_ACTIVATION_GELU_ERF;
}

double tri_llamacpp_gemma_scale(const tri_llamacpp_arch *arch, const tri_model *m) {
  const bool by_width = m->num_layers == (is(arch, "gemma2") ? 46 : 62);
  return 1 / sqrt(by_width ? (double)m->hidden_size / (double)m->num_heads : (double)m->head_dim);
}

/* Finds a factor or a cap that the architecture does not have; writes its name to `what`, or "". */
static void find_factor(const tri_llamacpp_arch *arch, const tri_model *m, char what[WHAT_BYTES]) {
  const bool gemma2 = is(arch, "gemma2"), gemma3 = is(arch, "gemma3"), granite = is(arch, "granite");
  const double scale = m->attention_scale == 0 ? 1 / sqrt((double)m->head_dim) : m->attention_scale;
  const double expected = gemma2 || gemma3 ? tri_llamacpp_gemma_scale(arch, m) : 1 / sqrt((double)m->head_dim);
  const double embedding = tri_family_of(m)->blocks.scales_embedding ? sqrt((double)m->hidden_size) : 1;
  if (!granite && fabs(scale / expected - 1) > 1e-6)
    snprintf(what, WHAT_BYTES, "attention_scale %.9g, which is not %.9g", scale, expected);
  if (!granite && fabs(m->embedding_scale / embedding - 1) > 1e-6) snprintf(what, WHAT_BYTES, "embedding_scale");
  if (!granite && m->residual_scale != 1) snprintf(what, WHAT_BYTES, "residual_scale");
  if (!granite && m->logit_divisor != 1) snprintf(what, WHAT_BYTES, "logit_divisor");
  if (gemma2 != (m->attention_soft_cap > 0))
    snprintf(what, WHAT_BYTES, "%s attention_soft_cap", gemma2 ? "Gemma 2 without" : "an");
  if (!gemma3 && gemma2 != (m->logit_soft_cap > 0))
    snprintf(what, WHAT_BYTES, "%s logit_soft_cap", gemma2 ? "Gemma 2 without" : "a");
}

/* Finds a property of routers that the architecture does not have; writes its name to `what`, or "". */
static void find_router(const tri_llamacpp_arch *arch, const tri_model *m, char what[WHAT_BYTES]) {
  const bool dots = is(arch, "dots1"), normalised = !is(arch, "olmoe");
  if (m->num_experts == 0) {
    if (dots || is(arch, "qwen3moe") || arch->expert_ffn) snprintf(what, WHAT_BYTES, "no experts");
    return;
  }
  if (!dots && m->dense_layers > 0) snprintf(what, WHAT_BYTES, "dense_layers above 0");
  if (!dots && m->router_normalised != normalised)
    snprintf(what, WHAT_BYTES, "router_normalised: %s", m->router_normalised ? "true" : "false");
  if (!dots && (m->router_scale != 1 || m->router_bias || m->router_groups > 1))
    snprintf(what, WHAT_BYTES, "router_scale, router_bias or router_groups");
  if (dots != (m->router_scoring == TRI_ROUTER_SIGMOID)) snprintf(what, WHAT_BYTES, "this router_scoring");
  if (dots != (m->shared_experts > 0)) snprintf(what, WHAT_BYTES, "%s shared experts", dots ? "no" : "any");
  if (m->router_quota) snprintf(what, WHAT_BYTES, "router_quota");
}

static bool is_usual_yarn(const tri_rope_scaling *s) { return s->beta_fast == 32 && s->beta_slow == 1 && s->truncate; }

/* Returns the number by which the file's YaRN multiplies llama.cpp's own factor of queries and keys. */
static double yarn_factor(const tri_rope_scaling *s) {
  return tri_rope_attention_factor(s) / (s->factor > 1 ? 0.1 * log(s->factor) + 1 : 1);
}

/* Finds a property of rotary embeddings that the architecture does not have; writes its name to `what`, or "". */
static void find_rope(const tri_llamacpp_arch *arch, const tri_model *m, char what[WHAT_BYTES]) {
  const tri_rope_scaling *s = &m->rope_scaling;
  if (arch->no_rope) return;
  if (!arch->part_rotates && tri_model_rotary_dim(m) != m->head_dim) snprintf(what, WHAT_BYTES, "rotary_fraction");
  if (is(arch, "smollm3")) {
    for (int64_t layer = 0; layer < m->num_layers; layer++) {
      if (tri_model_layer_turns(m, layer) == ((layer + 1) % 4 != 0)) continue;
      snprintf(what, WHAT_BYTES, "rope_layers other than `3 of 4`");
    }
  } else if (!tri_layer_set_is_all(m->rope_layers)) {
    snprintf(what, WHAT_BYTES, "rope_layers");
  }
  if (!is(arch, "gemma3") && m->local_rope_theta != 0) snprintf(what, WHAT_BYTES, "local_rope_theta");
  if (tri_rope_is_plain(s)) return;
  switch (s->type) {
    case TRI_ROPE_LINEAR: return;
    case TRI_ROPE_LLAMA3:
      if (!arch->llama3) snprintf(what, WHAT_BYTES, "rope_scaling of type llama3");
      return;
    case TRI_ROPE_YARN:
      if (!is_usual_yarn(s)) snprintf(what, WHAT_BYTES, "YaRN with another beta_fast, beta_slow or truncate");
      if (is(arch, "gemma3") && fabs(yarn_factor(s) - 1) > 1e-6)
        snprintf(what, WHAT_BYTES, "YaRN with an attention_factor");
      return;
    case TRI_ROPE_LONG:
      if (!is(arch, "phi3")) snprintf(what, WHAT_BYTES, "rope_scaling of type longrope");
      return;
    case TRI_ROPE_DYNAMIC: snprintf(what, WHAT_BYTES, "rope_scaling of type dynamic"); return;
  }
}

/* Returns whether attention's output projection has a bias. */
static bool has_output_bias(const tri_model *m) {
  switch (tri_family_of(m)->blocks.biases) {
    case TRI_BIASES_NONE: return false;
    case TRI_BIASES_QKV: return m->output_bias;
    case TRI_BIASES_ATTENTION:
    case TRI_BIASES_AND_FFN:
    case TRI_BIASES_ALL_OR_NONE: return m->attention_bias;
    case TRI_BIASES_ALL: break;
  }
  return true;
}

/* Finds a property of layers that the architecture does not have; writes its name to `what`, or "". */
static void find_layers(const tri_llamacpp_arch *arch, const tri_model *m, char what[WHAT_BYTES]) {
  const bool output_bias = has_output_bias(m);
  if (!(arch->gelu ? is_gelu(m->activation) : is_silu(m->activation)))
    snprintf(what, WHAT_BYTES, "this activation (it has %s)", arch->gelu ? "GELU" : "SiLU");
  if (!arch->any_head_dim && m->head_dim * m->num_heads != m->hidden_size)
    snprintf(what, WHAT_BYTES, "head_dim %" PRId64 ", which is not hidden_size / num_heads", m->head_dim);
  if (arch->equal_kv && m->num_kv_heads != m->num_heads)
    snprintf(what, WHAT_BYTES, "grouped queries (num_kv_heads %" PRId64 " of %" PRId64 " heads)", m->num_kv_heads,
             m->num_heads);
  if (!arch->biases && output_bias) snprintf(what, WHAT_BYTES, "a bias of attention's output projection");
  if (!arch->biases && m->mlp_bias) snprintf(what, WHAT_BYTES, "biases of feed-forward parts");
  if (is(arch, "falcon") && m->residual == TRI_RESIDUAL_SEQUENTIAL) snprintf(what, WHAT_BYTES, "sequential branches");
  if (arch->output == TRI_LLAMACPP_OUTPUT_NEVER && !m->tied)
    snprintf(what, WHAT_BYTES, "an output projection that is not tied to the embedding");
}

/* Logs what llama.cpp computes otherwise, although most users accept it. */
static void log_differences(const tri_llamacpp_arch *arch, const tri_model *m) {
  if (m->activation == TRI_ACTIVATION_GELU_ERF) {
    tri_log("llama.cpp has the tanh approximation of GELU for %s, so logits differ by about 0.001", arch->model_type);
  }
  if (m->window > 0 && m->window < m->max_sequence && !arch->windows) {
    tri_warn("llama.cpp has no sliding windows for %s: texts of more than %" PRId64 " tokens get other logits",
             arch->model_type, m->window);
  }
}

tri_status tri_llamacpp_find(const tri_model *model, const tri_llamacpp_arch **out) {
  const char *type = tri_huggingface_model_type(model);
  const tri_llamacpp_arch *arch = NULL;
  char what[WHAT_BYTES] = "";
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    if (strcmp(archs[i].model_type, type) == 0) arch = &archs[i];
  }
  if (arch == NULL) {
    return tri_fail(TRI_UNSUPPORTED,
                    "llama.cpp has no architecture for %s, so there is no GGUF file of it; write a "
                    "Hugging Face folder: name a path that does not end in .gguf",
                    type);
  }
  if (model->num_layers > TRI_LLAMACPP_LAYERS) snprintf(what, sizeof what, "more than %d layers", TRI_LLAMACPP_LAYERS);
  if (model->num_experts > TRI_LLAMACPP_EXPERTS)
    snprintf(what, sizeof what, "more than %d experts", TRI_LLAMACPP_EXPERTS);
  find_factor(arch, model, what);
  find_router(arch, model, what);
  find_rope(arch, model, what);
  find_layers(arch, model, what);
  if (what[0] != '\0') {
    return tri_fail(TRI_UNSUPPORTED,
                    "llama.cpp's architecture `%s` has no place for %s, so a GGUF file would be another "
                    "model; write a Hugging Face folder: name a path that does not end in .gguf",
                    arch->name, what);
  }
  log_differences(arch, model);
  *out = arch;
  return TRI_OK;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* The file to which keys are added, and the first failure. */
typedef struct adding {
  tri_gguf_header *header;
  const tri_llamacpp_arch *arch;
  tri_status status;
} adding;

static const char *key_of(const adding *at, const char *name, char out[128]) {
  snprintf(out, 128, "%s.%s", at->arch->name, name);
  return out;
}

static void add_size(adding *at, const char *name, int64_t value) {
  char key[128];
  if (at->status == TRI_OK) at->status = tri_gguf_add_uint32(at->header, key_of(at, name, key), (uint32_t)value);
}

static void add_number(adding *at, const char *name, double value) {
  char key[128];
  if (at->status == TRI_OK) at->status = tri_gguf_add_float32(at->header, key_of(at, name, key), (float)value);
}

static void add_flag(adding *at, const char *name, bool value) {
  char key[128];
  if (at->status == TRI_OK) at->status = tri_gguf_add_bool(at->header, key_of(at, name, key), value);
}

static void add_word(adding *at, const char *name, const char *value) {
  char key[128];
  if (at->status == TRI_OK) at->status = tri_gguf_add_string(at->header, key_of(at, name, key), value);
}

static void add_sizes(adding *at, const tri_model *m) {
  const bool layer_norm = tri_family_of(m)->blocks.norm_kind == TRI_NORM_LAYER;
  add_size(at, "context_length", m->max_sequence);
  add_size(at, "embedding_length", m->hidden_size);
  add_size(at, "block_count", m->num_layers);
  add_size(at, "feed_forward_length", at->arch->expert_ffn ? m->expert_ffn_size : m->ffn_size);
  add_size(at, "attention.head_count", m->num_heads);
  add_size(at, "attention.head_count_kv", m->num_kv_heads);
  add_number(at, layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", m->norm_eps);
  add_size(at, "vocab_size", m->vocab_size);
  if (at->arch->no_rope) return;
  add_size(at, "attention.key_length", m->head_dim);
  add_size(at, "attention.value_length", m->head_dim);
}

/* Adds the settings of llama3 for imports; llama.cpp reads a tensor. */
static void add_llama3(adding *at, const tri_model *m) {
  const tri_rope_scaling *s = &m->rope_scaling;
  const int64_t original = s->original_max_sequence > 0 ? s->original_max_sequence : m->max_sequence;
  const struct {
    const char *key;
    double value;
  } all[] = {{TRI_LLAMACPP_KEY_FACTOR, s->factor},
             {TRI_LLAMACPP_KEY_LOW, s->low_freq_factor},
             {TRI_LLAMACPP_KEY_HIGH, s->high_freq_factor},
             {TRI_LLAMACPP_KEY_ORIGINAL, (double)original}};
  for (size_t i = 0; i < sizeof all / sizeof all[0] && at->status == TRI_OK; i++) {
    at->status = tri_gguf_add_value(at->header, all[i].key, TRI_GGUF_FLOAT64, &all[i].value);
  }
}

static void add_rope(adding *at, const tri_model *m) {
  const tri_rope_scaling *s = &m->rope_scaling;
  if (at->arch->no_rope) return;
  add_size(at, "rope.dimension_count", tri_model_rotary_dim(m));
  add_number(at, "rope.freq_base", m->rope_theta);
  if (tri_rope_is_plain(s)) return;
  const int64_t original = s->original_max_sequence > 0 ? s->original_max_sequence : m->max_sequence;
  switch (s->type) {
    case TRI_ROPE_LINEAR:
      add_word(at, "rope.scaling.type", "linear");
      add_number(at, "rope.scaling.factor", s->factor);
      return;
    case TRI_ROPE_YARN:
      add_word(at, "rope.scaling.type", "yarn");
      add_number(at, "rope.scaling.factor", s->factor);
      add_size(at, "rope.scaling.original_context_length", original);
      if (fabs(yarn_factor(s) - 1) > 1e-6) add_number(at, "rope.scaling.attn_factor", yarn_factor(s));
      return;
    case TRI_ROPE_LONG:
      add_word(at, "rope.scaling.type", "longrope");
      add_size(at, "rope.scaling.original_context_length", original);
      add_number(at, "rope.scaling.attn_factor", tri_rope_attention_factor(s));
      return;
    case TRI_ROPE_LLAMA3: add_llama3(at, m); return;
    case TRI_ROPE_DYNAMIC: return; /* refused */
  }
}

/* Adds an array with whether each layer has a window. */
static void add_window(adding *at, const tri_model *m) {
  uint8_t has[TRI_LLAMACPP_LAYERS] = {0};
  char key[128];
  if (is(at->arch, "phi3")) add_size(at, "attention.sliding_window", 0);
  if (!at->arch->windows || (m->window == 0 && is(at->arch, "gemma3"))) return;
  for (int64_t layer = 0; layer < m->num_layers; layer++) has[layer] = tri_model_window(m, layer) > 0;
  add_size(at, "attention.sliding_window", m->window > 0 ? m->window : m->max_sequence);
  if (at->status != TRI_OK) return;
  at->status = tri_gguf_add_values(at->header, key_of(at, "attention.sliding_window_pattern", key), TRI_GGUF_BOOL,
                                   m->num_layers, has);
  if (is(at->arch, "gemma3"))
    add_number(at, "rope.freq_base_swa", m->local_rope_theta > 0 ? m->local_rope_theta : m->rope_theta);
}

static void add_experts(adding *at, const tri_model *m) {
  if (m->num_experts == 0) return;
  add_size(at, "expert_count", m->num_experts);
  add_size(at, "expert_used_count", m->experts_per_token);
  if (!at->arch->expert_ffn) add_size(at, "expert_feed_forward_length", m->expert_ffn_size);
  if (!is(at->arch, "dots1")) return;
  add_size(at, "expert_shared_count", m->shared_experts);
  add_size(at, "leading_dense_block_count", m->dense_layers);
  add_number(at, "expert_weights_scale", m->router_scale);
  add_flag(at, "expert_weights_norm", m->router_normalised);
  add_size(at, "expert_gating_func", 2); /* sigmoid */
  if (m->router_kept_groups >= m->router_groups) return;
  add_size(at, "expert_group_count", m->router_groups);
  add_size(at, "expert_group_used_count", m->router_kept_groups);
}

/* Adds the keys of single architectures. */
static void add_own(adding *at, const tri_model *m) {
  const tri_llamacpp_arch *arch = at->arch;
  if (is(arch, "gemma2")) add_number(at, "attn_logit_softcapping", m->attention_soft_cap);
  if (m->logit_soft_cap > 0) add_number(at, "final_logit_softcapping", m->logit_soft_cap);
  if (is(arch, "gptneox") || is(arch, "stablelm"))
    add_flag(at, "use_parallel_residual", m->residual != TRI_RESIDUAL_SEQUENTIAL);
  if (is(arch, "falcon")) add_word(at, "tensor_data_layout", "jploski");
  if (!is(arch, "granite")) return;
  add_number(at, "logit_scale", m->logit_divisor);
  add_number(at, "residual_scale", m->residual_scale);
  add_number(at, "embedding_scale", m->embedding_scale);
  if (m->attention_scale != 0) add_number(at, "attention.scale", m->attention_scale);
}

tri_status tri_llamacpp_add_model(tri_gguf_header *header, const tri_llamacpp_arch *arch, const tri_model *model) {
  adding at = {header, arch, TRI_OK};
  TRI_TRY(tri_gguf_add_string(header, "general.architecture", arch->name));
  TRI_TRY(tri_gguf_add_string(header, "general.type", "model"));
  add_sizes(&at, model);
  add_rope(&at, model);
  add_window(&at, model);
  add_experts(&at, model);
  add_own(&at, model);
  return at.status;
}

double tri_llamacpp_rope_divisor(const tri_model *model, int64_t pair, bool longer) {
  const tri_rope_scaling *s = &model->rope_scaling;
  const int64_t dim = tri_model_rotary_dim(model);
  const double plain = pow(model->rope_theta, -2.0 * (double)pair / (double)dim);
  const int64_t length = longer ? INT64_MAX : 1;
  return plain / tri_rope_frequency(s, model->rope_theta, dim, length, pair);
}
