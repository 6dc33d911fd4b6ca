#include "checkpoint/run_notes.h"

#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface_parts.h"
#include "checkpoint/safetensors.h"
#include "config/yaml.h"
#include "files/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT "trireme"

enum { CONFIG_LIMIT_BYTES = 1 << 24 };

static const tri_run_notes nothing = {.ignore_token = -1};

static void set_run_note(int key, const char *value, tri_run_notes *out) {
  char *words[TRI_NUM_NOTES] = {
      [TRI_NOTE_DOCUMENTS] = out->documents, [TRI_NOTE_PACKING] = out->packing, [TRI_NOTE_TOO_LONG] = out->too_long};
  if (key == TRI_NOTE_SEQUENCE) out->sequence = strtoll(value, NULL, 10);
  if (key == TRI_NOTE_IGNORE_TOKEN) out->ignore_token = strtoll(value, NULL, 10);
  if (words[key] != NULL) snprintf(words[key], TRI_NOTE_BYTES, "%s", value);
  out->known = out->known || key == TRI_NOTE_SEQUENCE;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads the notes of a resolved run file; older run files do not have all keys. */
static tri_status read_run_file(const char *text, tri_run_notes *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_parse(tree, "the checkpoint's run file", false, text, strlen(text), &root);
  const tri_yaml *data = status == TRI_OK && root->kind == TRI_YAML_MAPPING ? tri_yaml_find(root, "data") : NULL;
  for (int k = 0; k < TRI_NUM_NOTES && data != NULL && data->kind == TRI_YAML_MAPPING; k++) {
    const tri_yaml *value = tri_yaml_find(data, tri_run_notes_keys[k] + strlen("data."));
    if (value != NULL && value->kind == TRI_YAML_SCALAR) set_run_note(k, value->text, out);
  }
  tri_yaml_destroy(tree);
  return status;
}

static tri_status read_object(const char *folder, const char *name, tri_run_notes *out) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  json_t *root = NULL;
  TRI_TRY(tri_path_join(path, folder, name));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read_plain(path, CONFIG_LIMIT_BYTES, &text, &bytes));
  const tri_status status = tri_json_parse(path, text, bytes, 0, &root);
  tri_free(text);
  TRI_TRY(status);
  const json_t *object = json_object_get(root, OBJECT);
  for (int k = 0; k < TRI_NUM_NOTES; k++) {
    const char *value = json_string_value(json_object_get(object, tri_run_notes_keys[k]));
    if (value != NULL) set_run_note(k, value, out);
  }
  json_decref(root);
  return TRI_OK;
}

tri_status tri_run_notes_read(const tri_checkpoint *checkpoint, tri_run_notes *out) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  const char *folder = tri_checkpoint_path(checkpoint);
  *out = nothing;
  if (state != NULL) {
    const char *base = json_string_value(json_object_get(json_object_get(state->progress, "identity"), "base_type"));
    if (base != NULL) snprintf(out->base_type, sizeof out->base_type, "%s", base);
  }
  if (state != NULL && state->run_config != NULL) TRI_TRY(read_run_file(state->run_config, out));
  if (out->known) return TRI_OK;
  if (tri_checkpoint_is_adapter(checkpoint)) return read_object(folder, TRI_FILE_ADAPTER_CONFIG, out);
  return read_object(folder, TRI_FILE_CONFIG, out);
}

tri_status tri_run_notes_of(const tri_merged *weights, tri_run_notes *out) {
  TRI_TRY(tri_run_notes_read(weights->named, out));
  if (weights->base == NULL) return TRI_OK;
  if (!out->known) TRI_TRY(tri_run_notes_read(weights->base, out)); /* PEFT's adapters have no notes */
  const char *base = tri_run_notes_type(weights->base);
  snprintf(out->base_type, sizeof out->base_type, "%s", base);
  return TRI_OK;
}

void tri_run_notes_join(tri_run_notes *notes, const tri_run_notes *other) {
  const bool same = notes->known && other->known && notes->sequence == other->sequence &&
                    notes->ignore_token == other->ignore_token && strcmp(notes->documents, other->documents) == 0 &&
                    strcmp(notes->packing, other->packing) == 0 && strcmp(notes->too_long, other->too_long) == 0;
  const bool same_base = strcmp(notes->base_type, other->base_type) == 0;
  char base[TRI_NOTE_BYTES];
  memcpy(base, notes->base_type, sizeof base);
  if (!same) *notes = nothing;
  memcpy(notes->base_type, base, sizeof base);
  if (!same_base) notes->base_type[0] = '\0';
}

const char *tri_run_notes_type(const tri_checkpoint *checkpoint) {
  bool fp32 = false, bf16 = false, fp16 = false;
  for (int64_t t = 0; t < tri_checkpoint_num_tensors(checkpoint); t++) {
    const tri_safetensors_type type = tri_checkpoint_get_entry(checkpoint, t).tensor->type;
    fp32 = fp32 || type == TRI_SAFETENSORS_F32 || type == TRI_SAFETENSORS_F64;
    bf16 = bf16 || type == TRI_SAFETENSORS_BF16;
    fp16 = fp16 || type == TRI_SAFETENSORS_F16;
  }
  if (fp32 || (bf16 && fp16)) return "fp32";
  return bf16 ? "bf16" : fp16 ? "fp16" : "fp32";
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static tri_status print(json_t *root, char **text) {
  char *printed = tri_huggingface_text(root), *copy = NULL;
  if (printed == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a model's description");
  const tri_status status = tri_strdup(printed, &copy);
  free(printed);
  TRI_TRY(status);
  tri_free(*text);
  *text = copy;
  return TRI_OK;
}

tri_status tri_run_notes_add(const tri_run_notes *notes, char **text) {
  json_t *root = NULL;
  if (!notes->known) return TRI_OK;
  TRI_TRY(tri_json_parse("a model's description", *text, strlen(*text), 0, &root));
  json_t *object = json_object_get(root, OBJECT);
  char sequence[24], ignore_token[24];
  snprintf(sequence, sizeof sequence, "%" PRId64, notes->sequence);
  snprintf(ignore_token, sizeof ignore_token, "%" PRId64, notes->ignore_token);
  const char *const values[TRI_NUM_NOTES] = {[TRI_NOTE_SEQUENCE] = sequence,
                                             [TRI_NOTE_IGNORE_TOKEN] = ignore_token,
                                             [TRI_NOTE_DOCUMENTS] = notes->documents,
                                             [TRI_NOTE_PACKING] = notes->packing,
                                             [TRI_NOTE_TOO_LONG] = notes->too_long};
  if (!json_is_object(object)) {
    object = json_object();
    json_object_set_new(root, OBJECT, object);
  }
  for (int k = 0; k < TRI_NUM_NOTES; k++) {
    if (values[k][0] != '\0') json_object_set_new(object, tri_run_notes_keys[k], json_string(values[k]));
  }
  const tri_status status = print(root, text);
  json_decref(root);
  return status;
}
