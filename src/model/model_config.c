#include "model/model_config.h"

#include "config/preset.h"
#include "model/family.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- presets and files ------------------------------------------------------------------------------------------- */

static tri_status unknown_preset(const tri_yaml *reference) {
  char subject[TRI_YAML_EXCERPT_BYTES + 2], excerpt[TRI_YAML_EXCERPT_BYTES];
  char all[TRI_PRESET_ALL_BYTES], nearest[TRI_PRESET_NAME_BYTES];
  snprintf(subject, sizeof subject, "`%s`", tri_yaml_excerpt(reference->text, excerpt));
  tri_preset_suggest("models", reference->text, all, nearest);
  if (all[0] == '\0') {
    return tri_yaml_fail(reference, subject,
                         " is not a model preset, because the presets are not installed; set TRIREME_CONFIGS to "
                         "Trireme's folder `configs`");
  }
  if (nearest[0] == '\0') {
    return tri_yaml_fail(reference, subject, " is not a model preset; they are %s (a file's name ends in .yaml)", all);
  }
  return tri_yaml_fail(reference, subject,
                       " is not a model preset; did you mean `%s`? They are %s (a file's name ends in .yaml)", nearest,
                       all);
}

/* Converts "configs/my-model.yaml" to "my-model", truncated if too long; to "model" if the name is empty or not
 * printable. */
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
  if (!tri_preset_is_path("models", reference->text)) {
    if (!tri_preset_find("models", reference->text, path)) return unknown_preset(reference);
  } else {
    char excerpt[TRI_YAML_EXCERPT_BYTES], nearest[TRI_NEAREST_FILE_BYTES];
    snprintf(path, sizeof path, "%s", reference->text);
    if (!tri_path_exists(path)) {
      return tri_yaml_fail(reference, "the model",
                           " is a file that does not exist: %s (relative to the current directory)%s",
                           tri_yaml_excerpt(path, excerpt), tri_yaml_nearest_file(path, "", nearest));
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

/* ---- whole models ------------------------------------------------------------------------------------------------ */

/* Keys for which 0 is a valid value; their default is the family's. */
typedef struct usual_field {
  const char *key;
  size_t offset, bytes;
} usual_field;
#define USUAL(FIELD)                                                                                                   \
  { #FIELD, offsetof(tri_model, FIELD), sizeof(((const tri_model *)NULL)->FIELD) }
static const usual_field usual_fields[] = {USUAL(tied),       USUAL(attention_bias), USUAL(activation),
                                           USUAL(residual),   USUAL(router_scoring), USUAL(router_normalised),
                                           USUAL(router_bias)};

static void set_usual(const tri_family_table *family, const usual_field *field, tri_model *model) {
  memcpy((char *)model + field->offset, (const char *)&family->usual + field->offset, field->bytes);
}

/* Resets the member of a key to the value that means "not given". */
static void clear_field(const tri_config_key *key, tri_model *model) {
  for (size_t i = 0; i < sizeof usual_fields / sizeof usual_fields[0]; i++) {
    if (strcmp(usual_fields[i].key, key->name) != 0) continue;
    set_usual(tri_family_of(model), &usual_fields[i], model);
    return;
  }
  memset((char *)model + key->offset, 0, sizeof(int64_t)); /* a count or a double */
}

static void note_difference(void *context, const tri_config_difference *difference) {
  (void)difference;
  *(bool *)context = true;
}

bool tri_model_is_derived(const tri_model *model, const tri_config_key *key) {
  tri_model without = *model;
  bool differs = false;
  if (key->derived == NULL) return false;
  clear_field(key, &without);
  if (tri_model_complete(&without) != TRI_OK) return false;
  tri_config_differences(&tri_model_table, model, &without, note_difference, &differs);
  return !differs;
}

tri_status tri_model_finish(const tri_yaml *mapping, tri_model *model) {
  const tri_family_table *family = tri_family_of(model);
  const tri_yaml *bias = tri_yaml_find(mapping, "attention_bias");
  if (family->blocks.biases == TRI_BIASES_ALL && bias != NULL && !model->attention_bias) {
    char rest[96];
    snprintf(rest, sizeof rest, " cannot be false in the family %s, which always has these biases",
             tri_family_name(model->family));
    return tri_yaml_fail(bias, "`attention_bias`", "%s", rest);
  }
  for (size_t i = 0; i < sizeof usual_fields / sizeof usual_fields[0]; i++) {
    if (tri_yaml_find(mapping, usual_fields[i].key) == NULL) set_usual(family, &usual_fields[i], model);
  }
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
