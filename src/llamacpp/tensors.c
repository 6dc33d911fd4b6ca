#include "llamacpp/tensors.h"

#include "base/memory.h"
#include "base/text.h"
#include "model/family.h"
#include "model/window.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Two names of a module of a layer: the family's, and llama.cpp's. */
typedef struct module_name {
  const char *ours, *theirs;
} module_name;

enum { MOST_MODULES = 24 };

/* Writes the modules of layers of a model to `out`, and returns their number. llama.cpp calls the two norms of Falcon
 * in another order than those of other architectures with parallel branches. */
static int modules_of(const tri_model *model, module_name out[MOST_MODULES]) {
  const tri_block_names *n = &tri_family_of(model)->blocks.names;
  const bool both = model->residual == TRI_RESIDUAL_PARALLEL && n->both1 != NULL;
  const module_name all[] = {
      {both ? n->both1 : n->norm1, both ? "attn_norm_2" : "attn_norm"},
      {both ? n->both2 : n->norm2, both ? "attn_norm" : "ffn_norm"},
      {n->post1, "post_attention_norm"},
      {n->post2, "post_ffw_norm"},
      {n->q, "attn_q"},
      {n->k, "attn_k"},
      {n->v, "attn_v"},
      {n->qkv, "attn_qkv"},
      {n->out, "attn_output"},
      {n->q_norm, "attn_q_norm"},
      {n->k_norm, "attn_k_norm"},
      {n->gate, "ffn_gate"},
      {n->up, "ffn_up"},
      {n->gate_up, "ffn_up"},
      {n->down, "ffn_down"},
      {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
      {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
  };
  int count = 0;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (all[i].ours != NULL) out[count++] = all[i];
  }
  return count;
}

/* Returns the part of `text` after `beginning`; NULL if it does not begin so. */
static const char *after(const char *text, const char *beginning) {
  return tri_begins_with(text, beginning) ? text + strlen(beginning) : NULL;
}

/* Writes llama.cpp's name of a tensor outside of layers; returns false if the tensor is in a layer. */
static bool name_outside(const tri_blocks *blocks, const char *name, char out[64]) {
  const module_name all[] = {{blocks->embedding, "token_embd"},
                             {blocks->positions, "position_embd"},
                             {blocks->norm, "output_norm"},
                             {blocks->head, "output"}};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    const char *rest = all[i].ours == NULL ? NULL : after(name, all[i].ours);
    if (rest == NULL || *rest != '.') continue;
    snprintf(out, 64, "%s%s", all[i].theirs, rest);
    return true;
  }
  return false;
}

/* Writes llama.cpp's name of a stack of experts' matrices, to which `tensor` belongs. */
static void name_stack(const tri_parameter *tensor, char out[64]) {
  static const char *const both[] = {"gate", "up"};
  const bool down = tensor->stacked.kinds == 1;
  snprintf(out, 64, "blk.%" PRId64 ".ffn_%s_exps.weight", tensor->layer,
           down ? "down" : both[tensor->stacked.number % tensor->stacked.kinds]);
}

/* Writes llama.cpp's name of a tensor. Fails for a tensor of a module that is not in the tables above. */
static tri_status name_tensor(const tri_llamacpp_arch *arch, const tri_model *model, const tri_parameter *tensor,
                              char out[64]) {
  const tri_blocks *blocks = &tri_family_of(model)->blocks;
  module_name modules[MOST_MODULES];
  char prefix[TRI_PARAMETER_NAME_BYTES];
  if (tensor->stacked.members > 0) {
    name_stack(tensor, out);
    return TRI_OK;
  }
  if (name_outside(blocks, tensor->name, out)) return TRI_OK;
  snprintf(prefix, sizeof prefix, blocks->layer, (long)tensor->layer);
  const char *rest = after(tensor->name, prefix);
  const int count = modules_of(model, modules);
  if (rest != NULL && blocks->names.router != NULL && strcmp(rest, blocks->names.router) == 0) {
    snprintf(out, 64, "blk.%" PRId64 ".ffn_gate_inp.weight", tensor->layer);
    return TRI_OK;
  }
  if (rest != NULL && blocks->names.router_bias != NULL && strcmp(rest, blocks->names.router_bias) == 0) {
    snprintf(out, 64, "blk.%" PRId64 ".exp_probs_b.bias", tensor->layer);
    return TRI_OK;
  }
  for (int i = 0; i < count && rest != NULL; i++) {
    const char *kind = after(rest, modules[i].ours);
    if (kind == NULL || *kind != '.') continue;
    snprintf(out, 64, "blk.%" PRId64 ".%s%s", tensor->layer, modules[i].theirs, kind);
    return TRI_OK;
  }
  return tri_fail(TRI_UNSUPPORTED, "the tensor `%s` has no name in llama.cpp's architecture `%s`", tensor->name,
                  arch->name);
}

/* ---- orders and types -------------------------------------------------------------------------------------------- */

static bool has_module(const tri_llamacpp_tensor *tensor, const char *module) {
  return strstr(tensor->name, module) != NULL;
}

static void set_order(const tri_llamacpp_arch *arch, const tri_model *model, tri_llamacpp_tensor *out) {
  const bool q = has_module(out, ".attn_q."), k = has_module(out, ".attn_k."), qkv = has_module(out, ".attn_qkv.");
  if (arch->in_pairs && (q || k)) {
    out->order = TRI_LLAMACPP_IN_PAIRS;
    out->heads = q ? model->num_heads : model->num_kv_heads;
  }
  if (qkv && tri_family_of(model)->blocks.qkv_order == TRI_QKV_BY_HEADS) {
    out->order = TRI_LLAMACPP_BY_KIND;
    out->heads = model->num_heads;
    out->kv_heads = model->num_kv_heads;
  }
  if (out->source != NULL && out->source->in_out && out->source->num_dims == 2) out->order = TRI_LLAMACPP_TRANSPOSED;
}

static bool is_norm(const char *name) { return strstr(name, "norm.weight") != NULL; }

/* Returns whether a tensor is in f32 whatever the type of matrices is, as in files of llama.cpp's converter. */
static bool is_plain(const tri_llamacpp_tensor *tensor) {
  return tensor->num_dims == 1 || is_norm(tensor->name) || has_module(tensor, "ffn_gate_inp.") ||
         has_module(tensor, "position_embd.");
}

/* Chooses the type of a tensor, whose name and dimensions are set. `output`: whether the tensor is used as the output
 * projection. */
static void set_type(const tri_gguf_type *type, bool output, tri_llamacpp_tensors *all, tri_llamacpp_tensor *out) {
  out->type = tri_gguf_type_of(TRI_GGUF_F32);
  if (is_plain(out)) return;
  out->type = type->number == TRI_GGUF_Q4_0 && output ? tri_gguf_type_of(TRI_GGUF_Q8_0) : type;
  if (out->dims[0] % out->type->elements == 0) return;
  out->type = tri_gguf_type_of(TRI_GGUF_BF16);
  all->kept++;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static tri_llamacpp_tensor *append(tri_llamacpp_tensors *to) { return &to->all[to->count++]; }

/* Sets the dimensions of a tensor to those of its sources. */
static void set_dims(tri_llamacpp_tensor *out) {
  const tri_parameter *of = out->source;
  const bool turned = of->in_out && of->num_dims == 2;
  out->num_dims = of->num_dims;
  out->dims[0] = of->num_dims == 1 ? of->shape[0] : of->shape[turned ? 0 : 1];
  out->dims[1] = of->num_dims == 1 ? 1 : of->shape[turned ? 1 : 0];
  out->dims[2] = out->dims[3] = 1;
  if (of->stacked.members > 0) out->dims[out->num_dims++] = out->num_sources;
}

/* Adds the tensor of a source. The first matrix of each kind in a stack adds the tensor of all matrices of its kind. */
static tri_status add_source(const tri_llamacpp_arch *arch, const tri_model *model, const tri_parameter *source,
                             const tri_gguf_type *type, tri_llamacpp_tensors *to) {
  const tri_stacked *stacked = &source->stacked;
  const bool is_stack = stacked->members > 0;
  if (is_stack && stacked->number >= stacked->kinds) return TRI_OK;
  tri_llamacpp_tensor *out = append(to);
  *out = (tri_llamacpp_tensor){
      .source = source, .num_sources = is_stack ? stacked->members : 1, .stride = is_stack ? stacked->kinds : 1};
  TRI_TRY(name_tensor(arch, model, source, out->name));
  set_dims(out);
  set_order(arch, model, out);
  const bool around_1 = tri_family_of(model)->blocks.norm_kind == TRI_NORM_RMS_AROUND_1;
  if (around_1 && is_norm(out->name)) out->added = 1;
  const bool embeds = strcmp(out->name, "token_embd.weight") == 0;
  set_type(type, strcmp(out->name, "output.weight") == 0 || (embeds && model->tied), to, out);
  return TRI_OK;
}

/* Returns whether a file of a tied model has output.weight. */
static bool copies_embedding(const tri_llamacpp_arch *arch) {
  switch (arch->output) {
    case TRI_LLAMACPP_OUTPUT_ALWAYS: return true;
    case TRI_LLAMACPP_OUTPUT_IF_UNTIED:
    case TRI_LLAMACPP_OUTPUT_NEVER: break;
  }
  return false;
}

/* Adds output.weight with the values of the embedding. */
static void add_tied_output(tri_llamacpp_tensors *to) {
  const tri_llamacpp_tensor *embedding = &to->all[0];
  assert(strcmp(embedding->name, "token_embd.weight") == 0);
  tri_llamacpp_tensor *out = append(to);
  *out = *embedding;
  snprintf(out->name, sizeof out->name, "output.weight");
}

/* Adds a vector of zeros, unless the file has a tensor of that name. */
static void add_zeros(tri_llamacpp_tensors *to, int64_t layer, const char *module, int64_t width) {
  char name[64];
  snprintf(name, sizeof name, "blk.%" PRId64 ".%s.bias", layer, module);
  for (int64_t i = 0; i < to->count; i++) {
    if (strcmp(to->all[i].name, name) == 0) return;
  }
  tri_llamacpp_tensor *out = append(to);
  *out = (tri_llamacpp_tensor){.type = tri_gguf_type_of(TRI_GGUF_F32), .num_dims = 1, .dims = {width, 1, 1, 1}};
  snprintf(out->name, sizeof out->name, "%s", name);
}

enum { ZEROS_OF_LAYER = 4 };

/* Adds the biases that llama.cpp requires. */
static void add_biases(const tri_model *model, tri_llamacpp_tensors *to) {
  const int64_t width = model->hidden_size, all = (model->num_heads + 2 * model->num_kv_heads) * model->head_dim;
  const bool joint = tri_family_of(model)->blocks.names.qkv != NULL;
  if (model->attention_bias) return;
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    if (joint) add_zeros(to, layer, "attn_qkv", all);
    add_zeros(to, layer, "attn_output", width);
    add_zeros(to, layer, "ffn_up", model->ffn_size);
    add_zeros(to, layer, "ffn_down", width);
  }
}

/* Adds a tensor with the numbers that divide the frequencies of rotary embeddings. */
static tri_status add_divisors(const tri_model *model, const char *name, bool longer, tri_llamacpp_tensors *to) {
  const int64_t pairs = tri_model_rotary_dim(model) / 2;
  tri_llamacpp_tensor *out = append(to);
  *out = (tri_llamacpp_tensor){.type = tri_gguf_type_of(TRI_GGUF_F32), .num_dims = 1, .dims = {pairs, 1, 1, 1}};
  snprintf(out->name, sizeof out->name, "%s", name);
  TRI_TRY(tri_alloc("rotary frequencies", (size_t)pairs, sizeof *out->values, &out->values));
  for (int64_t i = 0; i < pairs; i++) out->values[i] = (float)tri_llamacpp_rope_divisor(model, i, longer);
  return TRI_OK;
}

static tri_status add_rope(const tri_llamacpp_arch *arch, const tri_model *model, tri_llamacpp_tensors *to) {
  if (arch->no_rope || tri_rope_is_plain(&model->rope_scaling)) return TRI_OK;
  switch (model->rope_scaling.type) {
    case TRI_ROPE_LLAMA3: return add_divisors(model, "rope_freqs.weight", false, to);
    case TRI_ROPE_LONG:
      TRI_TRY(add_divisors(model, "rope_factors_long.weight", true, to));
      return add_divisors(model, "rope_factors_short.weight", false, to);
    case TRI_ROPE_LINEAR:
    case TRI_ROPE_DYNAMIC:
    case TRI_ROPE_YARN: break;
  }
  return TRI_OK;
}

static tri_status fill(const tri_llamacpp_arch *arch, const tri_model *model, const tri_tensor_list *list,
                       const tri_gguf_type *type, tri_llamacpp_tensors *out) {
  enum { OTHERS = 3 }; /* the output projection, and the divisors of frequencies */
  const int64_t zeros = arch->needs_biases ? ZEROS_OF_LAYER * model->num_layers : 0;
  TRI_TRY(tri_alloc("the tensors of a file", (size_t)(list->count + zeros + OTHERS), sizeof *out->all, &out->all));
  for (int64_t i = 0; i < list->count; i++) TRI_TRY(add_source(arch, model, &list->tensors[i], type, out));
  if (model->tied && copies_embedding(arch)) add_tied_output(out);
  if (arch->needs_biases) add_biases(model, out);
  return add_rope(arch, model, out);
}

tri_status tri_llamacpp_tensors_create(const tri_llamacpp_arch *arch, const tri_model *model,
                                       const tri_tensor_list *list, const tri_gguf_type *type,
                                       tri_llamacpp_tensors *out) {
  *out = (tri_llamacpp_tensors){0};
  const tri_status status = fill(arch, model, list, type, out);
  if (status != TRI_OK) tri_llamacpp_tensors_release(out);
  return status;
}

void tri_llamacpp_tensors_release(tri_llamacpp_tensors *tensors) {
  for (int64_t i = 0; i < tensors->count; i++) tri_free(tensors->all[i].values);
  tri_free(tensors->all);
  *tensors = (tri_llamacpp_tensors){0};
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* Returns the row of the source that is row `row` of the file. `rows`: number of rows. */
static int64_t row_of_source(const tri_llamacpp_tensor *tensor, int64_t rows, int64_t row) {
  switch (tensor->order) {
    case TRI_LLAMACPP_AS_SOURCE:
    case TRI_LLAMACPP_TRANSPOSED: return row;
    case TRI_LLAMACPP_IN_PAIRS: {
      const int64_t dim = rows / tensor->heads, head = row / dim, at = row % dim;
      return head * dim + at % 2 * (dim / 2) + at / 2;
    }
    case TRI_LLAMACPP_BY_KIND: {
      const int64_t groups = tensor->kv_heads, shared = tensor->heads / groups;
      const int64_t dim = rows / (tensor->heads + 2 * groups), head = row / dim, at = row % dim;
      int64_t group = head / shared, place = head % shared;
      if (head >= tensor->heads) {
        group = (head - tensor->heads) % groups;
        place = shared + (head - tensor->heads) / groups;
      }
      return (group * (shared + 2) + place) * dim + at;
    }
  }
  return row;
}

bool tri_llamacpp_keeps_order(const tri_llamacpp_tensor *tensor) {
  switch (tensor->order) {
    case TRI_LLAMACPP_AS_SOURCE: return true;
    case TRI_LLAMACPP_IN_PAIRS:
    case TRI_LLAMACPP_BY_KIND:
    case TRI_LLAMACPP_TRANSPOSED: break;
  }
  return false;
}

void tri_llamacpp_reorder(const tri_llamacpp_tensor *tensor, bool back, const float *in, float *out) {
  const bool vector = tensor->num_dims == 1;
  const int64_t width = vector ? 1 : tensor->dims[0], rows = vector ? tensor->dims[0] : tensor->dims[1];
  if (tensor->order == TRI_LLAMACPP_TRANSPOSED) {
    const int64_t lines = back ? width : rows, each = back ? rows : width;
    for (int64_t line = 0; line < lines; line++) {
      for (int64_t i = 0; i < each; i++) out[line * each + i] = in[i * lines + line];
    }
    return;
  }
  for (int64_t row = 0; row < rows; row++) {
    const int64_t source = row_of_source(tensor, rows, row), from = back ? row : source, to = back ? source : row;
    memcpy(out + to * width, in + from * width, (size_t)width * sizeof *out);
  }
}
