#include "checkpoint/huggingface.h"
#include "checkpoint/four_bits.h"

#include "base/memory.h"
#include "checkpoint/extra_files.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface_keys.h"
#include "checkpoint/huggingface_own.h"
#include "checkpoint/huggingface_parts.h"
#include "checkpoint/huggingface_unknown.h"
#include "checkpoint/peft.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "files/file.h"
#include "files/json_reader.h"
#include "model/family.h"
#include "model/model_config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT_BYTES = 1 << 24, MOST_TYPES = 64 };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads the model's name: the last part of `_name_or_path`, or "inline". */
static void read_name(const tri_json_reader *from, tri_model *out) {
  const char *name = json_string_value(tri_reader_get(from, "_name_or_path"));
  const char *slash = name == NULL ? NULL : strrchr(name, '/');
  if (slash != NULL) name = slash + 1;
  snprintf(out->name, sizeof out->name, "%s", name == NULL || *name == '\0' ? "inline" : name);
}

/* transformers' names of each activation, separated by spaces; the first is written. */
#define HF_NAMES(VALUE, name, hf_names, ...) {TRI_ACTIVATION_##VALUE, hf_names},
static const struct {
  tri_activation value;
  const char *names;
} activations[] = {TRI_ACTIVATIONS(HF_NAMES)};
enum { NUM_ACTIVATIONS = sizeof activations / sizeof activations[0] };

static bool is_among(const char *name, const char *names) {
  for (size_t bytes; *names != '\0'; names += bytes + (names[bytes] == ' ')) {
    bytes = strcspn(names, " ");
    if (strlen(name) == bytes && memcmp(names, name, bytes) == 0) return true;
  }
  return false;
}

static tri_status unknown_activation(const tri_json_reader *from, const char *key, const char *name) {
  char known[256] = "";
  for (size_t i = 0, used = 0; i < NUM_ACTIVATIONS && used < sizeof known; i++) {
    const int bytes = (int)strcspn(activations[i].names, " ");
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%.*s",
                             i == 0                    ? ""
                             : i + 1 < NUM_ACTIVATIONS ? ", "
                                                       : " and ",
                             bytes, activations[i].names);
  }
  return tri_fail(TRI_UNSUPPORTED, "%s: `%s` is `%.40s`; %s are supported", from->path, key, name, known);
}

/* Reads the activation; *out is not changed if the key is missing. Fails for an unknown name. */
static tri_status read_activation(const tri_json_reader *from, const char *key, tri_activation *out) {
  const char *name = NULL;
  TRI_TRY(tri_reader_word(from, key, NULL, &name));
  if (name == NULL) return TRI_OK;
  for (size_t i = 0; i < NUM_ACTIVATIONS; i++) {
    if (!is_among(name, activations[i].names)) continue;
    *out = activations[i].value;
    return TRI_OK;
  }
  return unknown_activation(from, key, name);
}

/* Returns whether a value equals the value of a JSON text; 1 equals 1.0. */
static bool is_value(const json_t *value, const char *text) {
  json_t *wanted = text == NULL ? NULL : json_loads(text, JSON_DECODE_ANY, NULL);
  bool same = wanted != NULL && json_equal(value, wanted) != 0;
  if (json_is_number(value) && json_is_number(wanted)) same = json_number_value(value) == json_number_value(wanted);
  json_decref(wanted);
  return same;
}

/* Refuses a value of a switch of transformers unless it is one of the row's values, because we compute only these. */
static tri_status require(const tri_json_reader *from, const tri_hf_key *row) {
  const json_t *value = tri_reader_get(from, row->key);
  if (value == NULL || is_value(value, row->value) || is_value(value, row->other_value)) return TRI_OK;
  char *given = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT), *text = given;
  if (json_is_string(value)) { /* the message has the string in backquotes, not in quotes */
    for (char *c = text; *c != '\0'; c++) *c = (char)(*c == '"' ? '`' : *c);
  }
  int length = row->value[0] == '"' ? (int)strlen(row->value) - 2 : (int)strlen(row->value);
  tri_status status =
      row->what != NULL
          ? tri_fail(TRI_UNSUPPORTED, "%s: `%s` is %.40s: %s is not supported", from->path, row->key, text, row->what)
          : tri_fail(TRI_UNSUPPORTED, "%s: `%s` is %.40s; only %.*s is supported", from->path, row->key, text, length,
                     row->value + (row->value[0] == '"' ? 1 : 0));
  free(given);
  return status;
}

static tri_status read_first_layers(const tri_json_reader *from, const char *key, int64_t *out) {
  const json_t *layers = tri_reader_get(from, key);
  *out = 0;
  if (layers == NULL) return TRI_OK;
  if (!json_is_array(layers)) return tri_reader_wrong(from, key, "a list of layers");
  for (size_t i = 0; i < json_array_size(layers); i++) {
    const json_t *layer = json_array_get(layers, i);
    if (json_is_integer(layer) && json_integer_value(layer) == (json_int_t)i) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `%s` lists layers other than the first ones (0, 1, ...), which is not supported", from->path,
                    key);
  }
  *out = (int64_t)json_array_size(layers);
  return TRI_OK;
}

/* Reads a number. A missing key does not change *out, null sets it to 0. */
static tri_status read_number_or_null(const tri_json_reader *from, const char *key, double *out) {
  if (json_is_null(json_object_get(from->object, key))) *out = 0;
  return tri_reader_number(from, key, *out, out);
}

static tri_status read_key(const tri_json_reader *from, const tri_hf_keys *hf_keys, const tri_hf_key *row,
                           tri_model *out) {
  void *field = (char *)out + row->offset;
  switch (row->kind) {
    case TRI_HF_KEYS_SIZE: return tri_reader_size(from, row->key, *(int64_t *)field, field);
    case TRI_HF_KEYS_SIZE_OR_NULL: return tri_reader_size_or_null(from, row->key, *(int64_t *)field, field);
    case TRI_HF_KEYS_COUNT: return tri_reader_count(from, row->key, *(int64_t *)field, field);
    case TRI_HF_KEYS_FIRST_LAYERS: return read_first_layers(from, row->key, field);
    case TRI_HF_KEYS_NUMBER_OR_NULL: return read_number_or_null(from, row->key, field);
    case TRI_HF_KEYS_NUMBER: return tri_reader_number(from, row->key, *(double *)field, field);
    case TRI_HF_KEYS_POSITIVE: return tri_reader_positive(from, row->key, *(double *)field, field);
    case TRI_HF_KEYS_BOOL: return tri_reader_bool(from, row->key, *(bool *)field, field);
    case TRI_HF_KEYS_ACTIVATION: return read_activation(from, row->key, field);
    case TRI_HF_KEYS_ROPE: return tri_huggingface_read_rope(from, hf_keys, out);
    case TRI_HF_KEYS_WINDOW: return tri_huggingface_read_window(from, hf_keys, out);
    case TRI_HF_KEYS_FIXED: return require(from, row);
    case TRI_HF_KEYS_BY_FUNCTION: return TRI_OK;
  }
  return TRI_OK;
}

static const tri_family_table *family_number(int number, tri_family *family) {
  static const tri_family all[] = {TRI_FAMILIES(TRI_FAMILY_VALUE)};
  if ((size_t)number >= sizeof all / sizeof all[0]) return NULL;
  *family = all[number];
  return tri_family_of(&(tri_model){.family = *family});
}

/* Collects the key tables of all families; returns their number. */
static int64_t collect_hf_keys(const tri_hf_keys *out[MOST_TYPES]) {
  const tri_family_table *table = NULL;
  tri_family family;
  int64_t count = 0;
  for (int i = 0; (table = family_number(i, &family)) != NULL; i++) {
    for (const tri_hf_keys *at = table->hf_keys; at->model_type != NULL && count < MOST_TYPES; at++) {
      out[count++] = at;
    }
  }
  return count;
}

static const tri_hf_keys *find_hf_keys(const char *type, tri_family *family) {
  const tri_family_table *table = NULL;
  for (int i = 0; (table = family_number(i, family)) != NULL; i++) {
    for (const tri_hf_keys *at = table->hf_keys; at->model_type != NULL; at++) {
      if (strcmp(at->model_type, type) == 0) return at;
    }
  }
  return NULL;
}

static const tri_hf_keys *hf_keys_by_numbers(const tri_model *model) {
  const tri_hf_keys *at = tri_family_of(model)->hf_keys;
  while (at->is != NULL && !at->is(model)) at++;
  return at;
}

static tri_status read_keys(const tri_json_reader *from, const tri_hf_keys *hf_keys, tri_model *out) {
  for (int t = 0; t < TRI_HF_KEYS_TABLES && hf_keys->tables[t] != NULL; t++) {
    for (const tri_hf_key *row = hf_keys->tables[t]; row->key != NULL; row++) {
      if (!row->only_written) TRI_TRY(read_key(from, hf_keys, row, out));
    }
  }
  return TRI_OK;
}

/* Returns the file's name of our key ours[bytes]; NULL if we have no such key, or if its value is not an integer. */
static const char *name_in_file(const tri_hf_keys *hf_keys, const char *ours, size_t bytes) {
  const tri_config_key *key = NULL;
  for (size_t i = 0; i < tri_model_table.num_keys && key == NULL; i++) {
    const tri_config_key *at = &tri_model_table.keys[i];
    if (strlen(at->name) == bytes && memcmp(at->name, ours, bytes) == 0) key = at;
  }
  for (int t = 0; key != NULL && t < TRI_HF_KEYS_TABLES && hf_keys->tables[t] != NULL; t++) {
    for (const tri_hf_key *row = hf_keys->tables[t]; row->key != NULL; row++) {
      const bool is_number =
          row->kind == TRI_HF_KEYS_SIZE || row->kind == TRI_HF_KEYS_SIZE_OR_NULL || row->kind == TRI_HF_KEYS_COUNT;
      if (is_number && !row->only_read && row->offset == key->offset) return row->key;
    }
  }
  return NULL;
}

/* Fails with TRI_BAD_FILE and the current error message, in which the file's keys replace ours. */
static tri_status fail_numbers(const tri_json_reader *from, const tri_hf_keys *hf_keys) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
  char said[1024], translated[2048] = "";
  snprintf(said, sizeof said, "%s", tri_status_message());
  for (const char *at = said; *at != '\0';) {
    const size_t word = strspn(at, letters), bytes = word > 0 ? word : 1, held = strlen(translated);
    const char *name = name_in_file(hf_keys, at, word);
    snprintf(translated + held, sizeof translated - held, "%.*s", name == NULL ? (int)bytes : (int)strlen(name),
             name == NULL ? at : name);
    at += bytes;
  }
  return tri_fail(TRI_BAD_FILE, "%s: %s", from->path, translated);
}

/* Reads `model_type`: *said as written, *type without the prefix of types that transformers does not have
 * (TRI_OWN_MODEL_TYPE). Fails with TRI_BAD_FILE if the file is not an object or does not have the key. */
static tri_status read_type(const tri_json_reader *from, const char **said, const char **type) {
  if (!json_is_object(from->object)) return tri_fail(TRI_BAD_FILE, "%s is not a JSON object", from->path);
  TRI_TRY(tri_reader_word(from, "model_type", NULL, said));
  if (*said == NULL) return tri_fail(TRI_BAD_FILE, "%s has no `model_type`", from->path);
  const bool own = strncmp(*said, TRI_OWN_MODEL_TYPE, strlen(TRI_OWN_MODEL_TYPE)) == 0;
  *type = own ? *said + strlen(TRI_OWN_MODEL_TYPE) : *said;
  return TRI_OK;
}

/* Keys that transformers reads whatever the `model_type` is. */
static const tri_hf_key of_all_types[] = {
    TRI_HF_KEYS_ONLY("is_causal", "true", "attention to later tokens"),
    TRI_HF_KEYS_ONLY("per_layer_config", "{}", "a layer with settings of its own"),
    {.key = "transformers_weights",
     .kind = TRI_HF_KEYS_FIXED,
     .value = "\"model.safetensors\"",
     .other_value = "\"model.safetensors.index.json\"",
     .what = "a file of weights by another name"},
    {.key = NULL},
};

/* Reads the model from Hugging Face's keys, without our own object `trireme`. */
static tri_status read_said(const tri_json_reader *from, tri_model *out) {
  const char *said = NULL, *type = NULL;
  tri_family family;
  TRI_TRY(read_type(from, &said, &type));
  TRI_TRY(tri_four_bits_check_config(from));
  for (const tri_hf_key *row = of_all_types; row->key != NULL; row++) TRI_TRY(require(from, row));
  const tri_hf_keys *hf_keys = find_hf_keys(type, &family);
  if (hf_keys == NULL) {
    const tri_hf_keys *all[MOST_TYPES];
    return tri_huggingface_unknown(from, said, all, collect_hf_keys(all));
  }
  *out = hf_keys->absent;
  out->family = family;
  out->activation = tri_family_of(out)->usual.activation;
  out->residual = tri_family_of(out)->usual.residual;
  out->rope_scaling = tri_rope_scaling_none();
  read_name(from, out);
  TRI_TRY(read_keys(from, hf_keys, out));
  if (hf_keys->read != NULL) TRI_TRY(hf_keys->read(from, out));
  if (tri_model_complete(out) != TRI_OK) return fail_numbers(from, hf_keys);
  if (hf_keys_by_numbers(out) != hf_keys) snprintf(out->model_type, sizeof out->model_type, "%s", hf_keys->model_type);
  return TRI_OK;
}

static tri_status read_model(const tri_json_reader *from, tri_model *out) {
  TRI_TRY(read_said(from, out));
  return tri_huggingface_read_own(from, out);
}

tri_status tri_huggingface_parse(const char *path, const char *text, size_t bytes, tri_model *out) {
  json_t *document = NULL;
  TRI_TRY(tri_json_parse_last(path, text, bytes, &document));
  tri_model model;
  tri_status status = read_model(&(tri_json_reader){.path = path, .object = document}, &model);
  json_decref(document);
  TRI_TRY(status);
  *out = model;
  return TRI_OK;
}

/* Refuses a PEFT folder, which has no config.json; the message refers to its base. */
static tri_status check_there(const char *folder, const char *path) {
  if (tri_path_exists(path) || !tri_peft_is_folder(folder)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s is an adapter alone and has no " TRI_FILE_CONFIG "; name the folder of its base",
                  folder);
}

void tri_huggingface_note(const char *folder, bool training) {
  char path[TRI_PATH_BYTES], *text = NULL;
  const char *said = NULL, *type = NULL;
  size_t bytes = 0;
  tri_family family;
  json_t *document = NULL;
  const tri_hf_keys *all[MOST_TYPES], *hf_keys = NULL;
  if (tri_path_join(path, folder, TRI_FILE_CONFIG) != TRI_OK) return;
  if (tri_file_read_plain(path, CONFIG_LIMIT_BYTES, &text, &bytes) != TRI_OK) return;
  if (tri_json_parse(path, text, bytes, 0, &document) == TRI_OK) {
    const tri_json_reader from = {.path = path, .object = document};
    if (read_type(&from, &said, &type) == TRI_OK) hf_keys = find_hf_keys(type, &family);
    if (hf_keys != NULL) tri_huggingface_note_keys(&from, hf_keys, all, collect_hf_keys(all), training);
    json_decref(document);
  }
  tri_free(text);
}

static tri_status load(const char *folder, bool verify, tri_model *out) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_CONFIG));
  TRI_TRY(check_there(folder, path));
  TRI_TRY(tri_file_read_plain(path, CONFIG_LIMIT_BYTES, &text, &bytes));
  tri_status status = verify ? tri_state_verify_read(folder, TRI_FILE_CONFIG, text, bytes) : TRI_OK;
  if (status == TRI_OK) status = tri_huggingface_parse(path, text, bytes, out);
  tri_free(text);
  return status;
}

tri_status tri_huggingface_load(const char *folder, tri_model *out) { return load(folder, true, out); }

tri_status tri_huggingface_load_unverified(const char *folder, tri_model *out) { return load(folder, false, out); }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *first_layers_json(int64_t count) {
  json_t *out = json_array();
  for (int64_t i = 0; i < count; i++) json_array_append_new(out, json_integer((json_int_t)i));
  return out;
}

/* Returns the name of an activation. GELU with tanh has several names, for which transformers' results differ in the
 * last bits, so the family's own name is written. */
static json_t *activation_name(tri_activation activation, const tri_hf_key *row) {
  if (activation == TRI_ACTIVATION_GELU_TANH && row->value != NULL) return json_string(row->value);
  return json_stringn(activations[activation].names, strcspn(activations[activation].names, " "));
}

static json_t *number_or_null(double value) { return value == 0 ? json_null() : json_real(value); }

static void write_key(const tri_model *model, const tri_hf_keys *hf_keys, const tri_hf_key *row, json_t *to) {
  const void *field = (const char *)model + row->offset;
  json_t *value = NULL;
  switch (row->kind) {
    case TRI_HF_KEYS_SIZE:
    case TRI_HF_KEYS_SIZE_OR_NULL:
    case TRI_HF_KEYS_COUNT: value = json_integer((json_int_t) * (const int64_t *)field); break;
    case TRI_HF_KEYS_FIRST_LAYERS: value = first_layers_json(*(const int64_t *)field); break;
    case TRI_HF_KEYS_NUMBER_OR_NULL: value = number_or_null(*(const double *)field); break;
    case TRI_HF_KEYS_NUMBER:
    case TRI_HF_KEYS_POSITIVE: value = json_real(*(const double *)field); break;
    case TRI_HF_KEYS_BOOL: value = json_boolean(*(const bool *)field); break;
    case TRI_HF_KEYS_ACTIVATION: value = activation_name(*(const tri_activation *)field, row); break;
    case TRI_HF_KEYS_ROPE: tri_huggingface_write_rope(model, hf_keys, to); return;
    case TRI_HF_KEYS_WINDOW: tri_huggingface_write_window(model, hf_keys, to); return;
    case TRI_HF_KEYS_FIXED: value = json_loads(row->value, JSON_DECODE_ANY, NULL); break;
    case TRI_HF_KEYS_BY_FUNCTION: return;
  }
  json_object_set_new(to, row->key, value);
}

static json_t *write_model(const tri_model *model, const tri_hf_keys *hf_keys);

static void note_difference(void *context, const tri_config_difference *difference) {
  if ((difference->change & TRI_CHANGE_FUNCTION) != 0) *(bool *)context = true;
}

/* Returns whether a table of keys describes all of a model: the written keys are read back as the same function. */
static bool says_all(const tri_hf_keys *hf_keys, const tri_model *model) {
  tri_model said;
  bool differs = false;
  if (hf_keys->is != NULL && !hf_keys->is(model)) return false;
  json_t *document = write_model(model, hf_keys);
  const bool read = read_said(&(tri_json_reader){.path = "the description", .object = document}, &said) == TRI_OK;
  json_decref(document);
  if (read) tri_config_differences(&tri_model_table, model, &said, note_difference, &differs);
  return read && !differs;
}

/* Returns the table of keys to write: if possible the one with which the model was read, so that a Mistral without a
 * window is written as a Mistral. */
static const tri_hf_keys *hf_keys_of(const tri_model *model) {
  const tri_hf_keys *all = tri_family_of(model)->hf_keys;
  for (const tri_hf_keys *at = all; at->model_type != NULL && model->model_type[0] != '\0'; at++) {
    if (strcmp(at->model_type, model->model_type) == 0 && model->num_experts == 0 && says_all(at, model)) return at;
  }
  return hf_keys_by_numbers(model);
}

const char *tri_huggingface_model_type(const tri_model *model) { return hf_keys_of(model)->model_type; }

static json_t *write_model(const tri_model *model, const tri_hf_keys *hf_keys) {
  json_t *out = json_pack("{s:[s], s:s}", "architectures", hf_keys->architecture, "model_type", hf_keys->model_type);
  for (int t = 0; t < TRI_HF_KEYS_TABLES && hf_keys->tables[t] != NULL; t++) {
    for (const tri_hf_key *row = hf_keys->tables[t]; row->key != NULL; row++) {
      if (!row->only_read) write_key(model, hf_keys, row, out);
    }
  }
  if (hf_keys->write != NULL) hf_keys->write(model, out);
  return out;
}

/* Adds settings of routers for which Hugging Face has no keys (huggingface_own.h). */
static tri_status add_own(const tri_model *model, const tri_hf_keys *hf_keys, json_t *document) {
  tri_model said;
  if (model->num_experts == 0) return TRI_OK;
  TRI_TRY(read_said(&(tri_json_reader){.path = "the description", .object = document}, &said));
  tri_huggingface_write_own(model, &said, hf_keys->model_type, document);
  return TRI_OK;
}

char *tri_huggingface_text(const json_t *document) {
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

const char *tri_huggingface_type_name(tri_dtype type) {
  switch (type) {
    case TRI_FP32: return "float32";
    case TRI_BF16: return "bfloat16";
    case TRI_FP64: return "float64";
    case TRI_INT32: return "int32";
  }
  return "?";
}

tri_status tri_huggingface_print(const tri_model *model, tri_dtype weights, int32_t end_of_text, const char *like,
                                 char **out) {
  const tri_hf_keys *hf_keys = hf_keys_of(model);
  if (hf_keys->check != NULL) TRI_TRY(hf_keys->check(model));
  json_t *document = write_model(model, hf_keys);
  tri_status status = add_own(model, hf_keys, document);
  if (status != TRI_OK) {
    json_decref(document);
    return status;
  }
  json_t *end = end_of_text < 0 ? json_null() : json_integer(end_of_text);
  const char *type = tri_huggingface_type_name(weights);
  int failed =
      json_object_set(document, "bos_token_id", end) | json_object_set(document, "eos_token_id", end) |
      json_object_set_new(document, "pad_token_id", json_null()) | /* a missing key would mean transformers' default */
      json_object_set_new(document, "torch_dtype", json_string(type)) |
      json_object_set_new(document, "_name_or_path", json_string(model->name));
  json_decref(end);
  if (like != NULL) status = tri_extra_files_copy_ids(like, document);
  if (status != TRI_OK) {
    json_decref(document);
    return status;
  }
  char *text = failed != 0 ? NULL : tri_huggingface_text(document);
  json_decref(document);
  if (text == NULL) {
    return tri_fail_internal("the description of model `%s` cannot be written as JSON: not UTF-8, or no memory",
                             model->name);
  }
  status = tri_strdup(text, out);
  free(text);
  return status;
}
