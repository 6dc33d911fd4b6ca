/* Finds by experiment the keys of a config.json on which the shape or the existence of a tensor depends: changes one
 * number or boolean at a time, and looks the tensor up in the resulting model. So families need no table of these
 * dependencies. */
#include "checkpoint/config_vs_weights.h"

#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_list.h"
#include "files/file.h"
#include "files/json_reader.h"
#include "model/parameters.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT_BYTES = 1 << 24, KEYS_BYTES = 512 };

#define ADVICE                                                                                                         \
  "; config.json and the weights are not of one model: take both from the same folder, or correct config.json"

/* ---- the keys of a tensor ---------------------------------------------------------------------------------------- */

/* The shape of a tensor in a model; num_dims is 0 if the model does not have the tensor. */
typedef struct sight {
  int num_dims;
  int64_t shape[2];
} sight;

/* A question about a tensor: it asks for the sizes of the dimensions that `of` marks, or, if `of` marks none, whether
 * the tensor exists. */
typedef struct question {
  const char *name;
  bool of[2]; /* whether each dimension is compared */
  sight now;  /* the tensor in the model of the unchanged config.json */
} question;

static bool is_answered_otherwise(const question *q, const sight *other) {
  if (!q->of[0] && !q->of[1]) return (other->num_dims == 0) != (q->now.num_dims == 0);
  if (other->num_dims != q->now.num_dims) return false;
  return (q->of[0] && other->shape[0] != q->now.shape[0]) || (q->of[1] && other->shape[1] != q->now.shape[1]);
}

static tri_status find_in_model(const tri_model *model, const char *name, sight *out) {
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  *out = (sight){0};
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  for (int64_t t = 0; t < list.count && status == TRI_OK; t++) {
    const tri_parameter *tensor = &list.tensors[t];
    if (strcmp(tensor->name, name) != 0) continue;
    *out = (sight){tensor->num_dims, {tensor->shape[0], tensor->shape[1]}};
  }
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}

/* Looks a tensor up in the model of a changed config.json; returns false if the config.json is invalid. */
static bool look(const json_t *config, const char *name, sight *out) {
  tri_model model;
  char *text = json_dumps(config, JSON_COMPACT);
  const bool is_one = text != NULL &&
                      tri_huggingface_parse("a changed config.json", text, strlen(text), &model) == TRI_OK &&
                      find_in_model(&model, name, out) == TRI_OK;
  free(text);
  return is_one;
}

static bool differs_with(json_t *config, const char *key, json_t *value, const question *q) {
  sight other;
  json_object_set_new(config, key, value);
  return look(config, q->name, &other) && is_answered_otherwise(q, &other);
}

/* Returns whether the answer depends on a key. Tries other values until the answer changes: twice and half the number,
 * with which divisions mostly still have no remainder, then the adjacent numbers and 1, which change whether a layer
 * exists. A boolean is inverted. Leaves `config` as it was. */
static bool depends(json_t *config, const char *key, const question *q) {
  json_t *held = json_incref(json_object_get(config, key));
  const json_int_t value = json_integer_value(held);
  const json_int_t others[] = {2 * value, value / 2, value + 1, value - 1, 1};
  bool found = false;
  for (size_t i = 0; value > 0 && value < INT32_MAX && !found && i < sizeof others / sizeof others[0]; i++) {
    if (others[i] == value || others[i] < 1) continue;
    found = differs_with(config, key, json_integer(others[i]), q);
  }
  if (json_is_boolean(held)) found = differs_with(config, key, json_boolean(!json_is_true(held)), q);
  json_object_set_new(config, key, held);
  return found;
}

static void add_key(const json_t *config, const char *key, char keys[KEYS_BYTES]) {
  char *value = json_dumps(json_object_get(config, key), JSON_ENCODE_ANY | JSON_COMPACT);
  const size_t held = strlen(keys);
  if (value == NULL) return;
  const bool is_word = value[0] == '"'; /* print words without their quotes */
  snprintf(keys + held, KEYS_BYTES - held, "%s%s %.*s", held == 0 ? " (" : ", ", key, (int)strlen(value) - 2 * is_word,
           value + is_word);
  free(value);
}

static void try_keys(const json_t *config, question *q, char keys[KEYS_BYTES]) {
  json_t *tried = json_deep_copy(config);
  const char *key = NULL;
  const json_t *value = NULL;
  if (tried != NULL && look(tried, q->name, &q->now)) {
    json_object_foreach((json_t *)(uintptr_t)config, key, value) {
      if (depends(tried, key, q)) add_key(config, key, keys);
    }
  }
  json_decref(tried);
}

/* Writes the keys of FOLDER/config.json that change the answer, with their values, as " (hidden_size 64)"; model_type
 * if no single key does; "" if config.json cannot be read. Sets q->now. */
static void find_keys(const char *folder, question *q, char keys[KEYS_BYTES]) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  keys[0] = '\0';
  if (tri_path_join(path, folder, TRI_FILE_CONFIG) != TRI_OK) return;
  if (tri_file_read_plain(path, CONFIG_LIMIT_BYTES, &text, &bytes) != TRI_OK) return;
  json_t *config = NULL;
  (void)tri_json_parse(path, text, bytes, 0, &config);
  tri_free(text);
  if (config != NULL) try_keys(config, q, keys);
  if (config != NULL && keys[0] == '\0') add_key(config, "model_type", keys);
  json_decref(config);
  if (keys[0] != '\0') snprintf(keys + strlen(keys), KEYS_BYTES - strlen(keys), ")");
}

/* ---- contradictions ---------------------------------------------------------------------------------------------- */

static tri_status fail_shape(const tri_checkpoint *checkpoint, const tri_checkpoint_entry *entry,
                             const tri_parameter *tensor) {
  char keys[KEYS_BYTES], found[TRI_SAFETENSORS_SHAPE_BYTES], wanted[TRI_SAFETENSORS_SHAPE_BYTES];
  question q = {.name = tensor->name};
  for (int d = 0; d < 2 && d < tensor->num_dims && entry->tensor->num_dims == tensor->num_dims; d++) {
    q.of[d] = entry->tensor->shape[d] != tensor->shape[d];
  }
  find_keys(tri_checkpoint_path(checkpoint), &q, keys);
  return tri_fail(TRI_BAD_FILE, "%s: tensor `%s` has shape %s, but the model's has %s%s" ADVICE, entry->file,
                  entry->tensor->name, tri_safetensors_shape_text(entry->tensor->num_dims, entry->tensor->shape, found),
                  tri_safetensors_shape_text(tensor->num_dims, tensor->shape, wanted), keys);
}

static tri_status check_tensor(const tri_checkpoint *checkpoint, const tri_parameter *tensor) {
  const int64_t index = tri_checkpoint_index_of(checkpoint, tensor->name);
  if (index < 0) {
    char keys[KEYS_BYTES];
    find_keys(tri_checkpoint_path(checkpoint), &(question){.name = tensor->name}, keys);
    return tri_fail(TRI_BAD_FILE, "%s has no tensor `%s`, which the model of its config.json needs%s" ADVICE,
                    tri_checkpoint_path(checkpoint), tensor->name, keys);
  }
  const tri_checkpoint_entry entry = tri_checkpoint_get_entry(checkpoint, index);
  if (entry.tensor->four_bits != NULL && tensor->in_out) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: tensor `%s` is in 4 bits and transposed, as transformers has the matrices of this family "
                    "there, which is not read; name the original model",
                    entry.file, tensor->name);
  }
  bool same = entry.tensor->num_dims == tensor->num_dims;
  for (int d = 0; d < tensor->num_dims && same; d++) same = entry.tensor->shape[d] == tensor->shape[d];
  return same ? TRI_OK : fail_shape(checkpoint, &entry, tensor);
}

static tri_status fail_no_place(const tri_checkpoint *checkpoint, const tri_checkpoint_entry *entry) {
  char keys[KEYS_BYTES];
  find_keys(tri_checkpoint_path(checkpoint), &(question){.name = entry->tensor->name}, keys);
  return tri_fail(TRI_BAD_FILE, "%s: the model of config.json has no place for the tensor `%.200s`%s" ADVICE,
                  entry->file, entry->tensor->name, keys);
}

/* Refuses a tensor that the folder has twice, with and without the prefix of its name. */
static tri_status check_once(const tri_checkpoint *checkpoint, const tri_parameter *tensor) {
  const char *dot = strchr(tensor->name, '.');
  const int64_t index = tri_checkpoint_index_of(checkpoint, tensor->name);
  const int64_t other = dot == NULL ? -1 : tri_checkpoint_index_of(checkpoint, dot + 1);
  if (other < 0 || other == index) return TRI_OK;
  const tri_checkpoint_entry one = tri_checkpoint_get_entry(checkpoint, index);
  return tri_fail(TRI_BAD_FILE, "%s has `%s` and `%s`, which are one tensor of the model; remove one of them", one.file,
                  one.tensor->name, tri_checkpoint_get_entry(checkpoint, other).tensor->name);
}

/* Refuses tensors that the model does not have, except tensors without elements (the shared experts of transformers'
 * dots1 if n_shared_experts is 0), and then checks each tensor of the model. */
static tri_status check_listed(const tri_checkpoint *checkpoint, const tri_tensor_list *list) {
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(checkpoint); i++) {
    const tri_checkpoint_entry entry = tri_checkpoint_get_entry(checkpoint, i);
    if (entry.tensor->bytes == 0 || tri_tensor_list_knows(list, entry.tensor->name)) continue;
    return fail_no_place(checkpoint, &entry);
  }
  for (int64_t t = 0; t < list->count; t++) {
    TRI_TRY(check_tensor(checkpoint, &list->tensors[t]));
    TRI_TRY(check_once(checkpoint, &list->tensors[t]));
  }
  return TRI_OK;
}

tri_status tri_checkpoint_check_model(const tri_checkpoint *checkpoint, const tri_model *model) {
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  if (status == TRI_OK) status = check_listed(checkpoint, &list);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}
