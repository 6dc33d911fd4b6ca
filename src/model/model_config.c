#include "model/model_config.h"

#include "base/format.h"
#include "base/memory.h"
#include "base/preset.h"
#include "model/family.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FAMILIES(X) X("gpt2", TRI_FAMILY_GPT2) X("llama", TRI_FAMILY_LLAMA)
TRI_CONFIG_WORDS(families, tri_family, FAMILIES)
#define ACTIVATIONS(X) X("gelu_tanh", TRI_ACTIVATION_GELU_TANH) X("gelu_erf", TRI_ACTIVATION_GELU_ERF)
TRI_CONFIG_WORDS(activations, tri_activation, ACTIVATIONS)

#define COUNT(NAME, MOST)                                                                                              \
  .name = #NAME, .type = TRI_CONFIG_INT, .offset = offsetof(tri_model, NAME), .range = {.low = 1, .high = MOST}
#define NUMBER(NAME) .name = #NAME, .type = TRI_CONFIG_DOUBLE, .offset = offsetof(tri_model, NAME)
#define SCALING(NAME) .name = #NAME, .offset = offsetof(tri_rope_scaling, NAME)
#define POSITIVE .range = {.low = 0, .high = TRI_CONFIG_MOST, .open_low = true}

static const tri_config_key rope_scaling_keys[] = {
    {SCALING(factor), .type = TRI_CONFIG_DOUBLE, .fallback = "1.0", .range = {.low = 1, .high = 1e6},
     .help = "how much longer a text than the first training saw; 1 is no scaling"},
    {SCALING(low_freq_factor), .type = TRI_CONFIG_DOUBLE, .fallback = "1.0", POSITIVE,
     .help = "wavelengths above original_max_sequence / this are stretched in full"},
    {SCALING(high_freq_factor), .type = TRI_CONFIG_DOUBLE, .fallback = "4.0", POSITIVE,
     .help = "wavelengths below original_max_sequence / this are left alone"},
    {SCALING(original_max_sequence), .type = TRI_CONFIG_INT, .fallback = "8192", .range = {.low = 1, .high = 1 << 30},
     .help = "positions that the first training saw"},
};
static const tri_config_table rope_scaling_table = {.noun = "rope_scaling",
                                                    .keys = rope_scaling_keys,
                                                    .num_keys = sizeof rope_scaling_keys / sizeof *rope_scaling_keys};

static const tri_config_key model_keys[] = {
    {.name = "name",
     .type = TRI_CONFIG_STRING,
     .offset = offsetof(tri_model, name),
     .bytes = 64,
     .fallback = "inline",
     .help = "what reports call the model; a preset's or file's own name"},
    {.name = "family",
     .type = TRI_CONFIG_CHOICE,
     .offset = offsetof(tri_model, family),
     .words = families,
     .example = "gpt2",
     .help = "the architecture"},
    {COUNT(num_layers, 1 << 14), .example = "12", .help = "transformer blocks"},
    {COUNT(hidden_size, 1 << 20), .example = "768", .help = "width of the residual stream"},
    {COUNT(num_heads, 1 << 16), .example = "12", .help = "attention heads"},
    {COUNT(num_kv_heads, 1 << 16), .derived = "num_heads",
     .help = "heads of keys and values; fewer is grouped-query attention (llama)"},
    {COUNT(head_dim, 1 << 16), .derived = "hidden_size / num_heads", .help = "width of one head"},
    {COUNT(ffn_size, 1 << 22), .derived = "4 * hidden_size (gpt2)",
     .help = "width inside the feed-forward block; llama asks for it"},
    {COUNT(vocab_size, INT32_MAX), .example = "50257", .help = "token ids are 0 .. vocab_size - 1"},
    {COUNT(max_sequence, 1 << 30), .example = "1024", .help = "longest sequence, in tokens"},
    {.name = "tied",
     .type = TRI_CONFIG_BOOL,
     .offset = offsetof(tri_model, tied),
     .derived = "gpt2 true, llama false",
     .help = "whether the output projection is the token embedding"},
    {NUMBER(dropout), .fallback = "0.0", .range = {.low = 0, .high = 1, .open_high = true},
     .help = "share of activations dropped: embedding and both residual branches (gpt2)"},
    {NUMBER(rope_theta), .fallback = "10000.0", POSITIVE, .help = "base of the rotary wavelengths (llama)"},
    {.name = "rope_scaling",
     .type = TRI_CONFIG_SECTION,
     .offset = offsetof(tri_model, rope_scaling),
     .table = &rope_scaling_table,
     .help = "Llama 3.1's stretching of the rotary wavelengths (llama)"},
    {.name = "attention_bias",
     .type = TRI_CONFIG_BOOL,
     .offset = offsetof(tri_model, attention_bias),
     .derived = "gpt2 true, llama false",
     .help = "biases on queries, keys and values; gpt2 always has them"},
    {.name = "activation",
     .type = TRI_CONFIG_CHOICE,
     .offset = offsetof(tri_model, activation),
     .words = activations,
     .fallback = "gelu_tanh",
     .help = "of the feed-forward block (gpt2); llama has SwiGLU"},
    {NUMBER(norm_eps), .fallback = "1.0e-5", POSITIVE, .help = "added to the variance in norms"},
    {NUMBER(init_std), .fallback = "0.02", POSITIVE, .help = "standard deviation of initial weights"},
};
const tri_config_table tri_model_table = {
    .noun = "model file", .keys = model_keys, .num_keys = sizeof model_keys / sizeof *model_keys};

/* ---- presets and files ----------------------------------------------------------------------------------------- */

static tri_status unknown_preset(const tri_yaml *reference) {
  char subject[TRI_YAML_EXCERPT_BYTES + 2], excerpt[TRI_YAML_EXCERPT_BYTES];
  char all[TRI_PRESET_ALL_BYTES], nearest[TRI_PRESET_NAME_BYTES];
  snprintf(subject, sizeof subject, "`%s`", tri_yaml_excerpt(reference->text, excerpt));
  tri_preset_suggest("models", reference->text, all, nearest);
  if (all[0] == '\0') {
    return tri_yaml_fail(reference, subject,
                         " is not a model preset: none were found; set TRIREME_CONFIGS to Trireme's folder `configs`");
  }
  if (nearest[0] == '\0') {
    return tri_yaml_fail(reference, subject, " is not a model preset; they are %s (a file's name ends in .yaml)", all);
  }
  return tri_yaml_fail(reference, subject,
                       " is not a model preset; did you mean `%s`? They are %s (a file's name ends in .yaml)", nearest,
                       all);
}

/* "configs/my-model.yaml" to "my-model", shortened to what fits. */
static void name_of_file(const char *path, char out[TRI_PRESET_NAME_BYTES]) {
  const char *slash = strrchr(path, '/');
  snprintf(out, TRI_PRESET_NAME_BYTES, "%.*s", TRI_PRESET_NAME_BYTES - 1, slash == NULL ? path : slash + 1);
  char *dot = strrchr(out, '.');
  if (dot != NULL && dot != out) *dot = '\0';
  if (out[0] == '\0' || !tri_yaml_is_printable(out)) snprintf(out, TRI_PRESET_NAME_BYTES, "model");
}

tri_status tri_model_expand(tri_yaml_tree *tree, const tri_yaml *reference, tri_yaml **out_mapping) {
  char path[TRI_PATH_BYTES];
  char name[TRI_PRESET_NAME_BYTES];
  tri_yaml *mapping = NULL;
  tri_yaml *name_node = NULL;
  if (!tri_preset_is_path(reference->text)) {
    if (!tri_preset_find("models", reference->text, path)) return unknown_preset(reference);
  } else {
    char excerpt[TRI_YAML_EXCERPT_BYTES];
    snprintf(path, sizeof path, "%s", reference->text);
    if (!tri_path_exists(path)) {
      return tri_yaml_fail(reference, "the model",
                           " is a file that is not there: %s (relative to the current directory)",
                           tri_yaml_excerpt(path, excerpt));
    }
  }
  TRI_TRY(tri_yaml_read(tree, path, &mapping));
  if (mapping->kind != TRI_YAML_MAPPING) {
    return tri_yaml_fail(mapping, "a model file", " must be a mapping of keys such as `num_layers: 12`");
  }
  if (tri_yaml_find(mapping, "name") == NULL) {
    name_of_file(path, name);
    TRI_TRY(tri_yaml_make(tree, mapping, name, &name_node));
    TRI_TRY(tri_yaml_put(tree, mapping, "name", name_node));
  }
  *out_mapping = mapping;
  return TRI_OK;
}

/* ---- whole models ---------------------------------------------------------------------------------------------- */

tri_status tri_model_finish(const tri_yaml *mapping, tri_model *model) {
  const tri_family_table *family = tri_family_of(model);
  const tri_yaml *bias = tri_yaml_find(mapping, "attention_bias");
  if (family->always_biased && bias != NULL && !model->attention_bias) {
    char rest[96];
    snprintf(rest, sizeof rest, " cannot be false in the family %s, which always has these biases", family->name);
    return tri_yaml_fail(bias, "`attention_bias`", "%s", rest);
  }
  if (bias == NULL) model->attention_bias = family->always_biased;
  if (tri_yaml_find(mapping, "tied") == NULL) model->tied = family->usually_tied;
  return tri_config_blame(mapping, tri_model_complete(model));
}

tri_status tri_model_load(const char *name_or_file, tri_model *out) {
  return tri_model_load_by(tri_model_expand, name_or_file, out);
}

tri_status tri_model_load_by(tri_model_expander expand, const char *name, tri_model *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *reference = NULL;
  tri_yaml *mapping = NULL;
  tri_model model = {0};
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_make(tree, &(tri_yaml){.source = ""}, name, &reference);
  if (status == TRI_OK) status = expand(tree, reference, &mapping);
  if (status == TRI_OK) status = tri_config_read(&tri_model_table, tree, mapping, &model);
  if (status == TRI_OK) status = tri_model_finish(mapping, &model);
  tri_yaml_destroy(tree);
  TRI_TRY(status);
  *out = model;
  return TRI_OK;
}

tri_status tri_model_print(const tri_model *model, char **out) {
  return tri_config_print(&tri_model_table, model, "", out);
}
