#include "checkpoint/huggingface_own.h"

#include "base/memory.h"
#include "checkpoint/run_notes.h"
#include "config/yaml.h"
#include "model/model_config.h"

#include <stdio.h>
#include <string.h>

#define OBJECT "trireme"

static const char *const own_keys[] = {
    "router_scoring", "router_groups", "router_kept_groups", "router_quota", "router_normalised", "router_scale",
    "router_bias",    "balance",       "balance_rate",       "z_loss",
};

static bool is_own(const char *key) {
  for (size_t k = 0; k < sizeof own_keys / sizeof own_keys[0]; k++) {
    if (strcmp(own_keys[k], key) == 0) return true;
  }
  return false;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct own_values {
  json_t *object;   /* the object `trireme`: values by keys of a run file */
  bool of_function; /* whether one of the values changes the model's function */
} own_values;

static void add_value(void *context, const tri_config_difference *difference) {
  own_values *values = context;
  if (!is_own(difference->key)) return;
  json_object_set_new(values->object, difference->key, json_string(difference->left));
  values->of_function = values->of_function || (difference->change & TRI_CHANGE_FUNCTION) != 0;
}

void tri_huggingface_write_own(const tri_model *model, const tri_model *said, const char *model_type, json_t *to) {
  own_values values = {.object = json_object()};
  tri_config_differences(&tri_model_table, model, said, add_value, &values);
  if (values.of_function) {
    char type[64];
    snprintf(type, sizeof type, TRI_OWN_MODEL_TYPE "%s", model_type);
    json_object_set_new(to, "model_type", json_string(type));
    json_object_set_new(to, "architectures", json_pack("[s]", "TriremeForCausalLM"));
  }
  if (json_object_size(values.object) > 0) json_object_set(to, OBJECT, values.object);
  json_decref(values.object);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static tri_status lay_over(const tri_json_reader *from, tri_yaml_tree *tree, tri_yaml *root) {
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach((json_t *)from->object, key, value) {
    char option[256];
    const char *text = json_string_value(value);
    if (tri_run_notes_is_key(key)) continue;
    if (!is_own(key) || text == NULL) {
      return tri_fail(TRI_BAD_FILE, "%s: `" OBJECT ".%.40s` is not a key of a router with its value as a string",
                      from->path, key);
    }
    snprintf(option, sizeof option, "%s=%s", key, text);
    TRI_TRY(tri_config_set(&tri_model_table, tree, root, option));
  }
  return TRI_OK;
}

static tri_status read_over(const tri_json_reader *from, const char *yaml, tri_model *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  tri_model model = {0};
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_parse(tree, from->path, true, yaml, strlen(yaml), &root);
  if (status == TRI_OK) status = lay_over(from, tree, root);
  if (status == TRI_OK) status = tri_config_read(&tri_model_table, tree, root, &model);
  if (status == TRI_OK) status = tri_model_complete(&model);
  tri_yaml_destroy(tree);
  TRI_TRY(status);
  *out = model;
  return TRI_OK;
}

tri_status tri_huggingface_read_own(const tri_json_reader *from, tri_model *model) {
  const tri_json_reader own = {.path = from->path, .object = tri_reader_get(from, OBJECT)};
  char *yaml = NULL, name[sizeof model->name];
  if (own.object == NULL) return TRI_OK;
  if (!json_is_object(own.object)) return tri_reader_wrong(from, OBJECT, "an object");
  memcpy(name, model->name, sizeof name);
  snprintf(model->name, sizeof model->name, "model"); /* a name may contain characters that YAML does not allow */
  TRI_TRY(tri_model_print(model, &yaml));
  tri_status status = read_over(&own, yaml, model);
  tri_free(yaml);
  memcpy(model->name, name, sizeof name);
  if (status == TRI_BAD_CONFIG || status == TRI_BAD_USAGE) {
    return tri_fail(TRI_BAD_FILE, "%s: %s", from->path, tri_status_message());
  }
  return status;
}
