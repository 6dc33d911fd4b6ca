#include "checkpoint/huggingface_keys.h"

#include "base/log.h"
#include "checkpoint/huggingface_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 400 };
#define TEXT_FLAGS (JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15))

static bool is_among(const char *key, const char *const *keys, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (keys[i] != NULL && strcmp(keys[i], key) == 0) return true;
  }
  return false;
}
#define IS_AMONG(KEY, KEYS) is_among(KEY, KEYS, sizeof(KEYS) / sizeof *(KEYS))

bool tri_huggingface_is_bookkeeping(const char *key) {
  static const char *const known[] = {"_name_or_path",     "architectures",
                                      "attention_dropout", "auto_map",
                                      "bos_token_id",      "dtype",
                                      "eos_token_id",      "id2label",
                                      "initializer_range", "label2id",
                                      "model_type",        "name",
                                      "output_attentions", "output_hidden_states",
                                      "pad_token_id",      "pretraining_tp",
                                      "return_dict",       "rope_parameters",
                                      "rope_scaling",      "rope_theta",
                                      "sliding_window",    "tie_word_embeddings",
                                      "torch_dtype",       "transformers_version",
                                      "unsloth_version",   "use_cache"};
  return IS_AMONG(key, known);
}

bool tri_huggingface_is_off(const json_t *value) { return json_is_null(value) || json_is_false(value); }

/* Returns row `number` of all tables together; NULL after the last one. */
static const tri_hf_key *row_number(const tri_hf_keys *hf_keys, int number) {
  for (int t = 0; t < TRI_HF_KEYS_TABLES && hf_keys->tables[t] != NULL; t++) {
    for (const tri_hf_key *row = hf_keys->tables[t]; row->key != NULL; row++) {
      if (number-- == 0) return row;
    }
  }
  return NULL;
}

bool tri_huggingface_reads(const tri_hf_keys *hf_keys, const char *key) {
  const tri_hf_key *row = NULL;
  for (int i = 0; (row = row_number(hf_keys, i)) != NULL; i++) {
    if (strcmp(row->key, key) == 0 && (row->kind != TRI_HF_KEYS_WINDOW || hf_keys->window.known)) return true;
  }
  const tri_hf_keys_window *window = &hf_keys->window;
  const char *const others[] = {hf_keys->rope.theta,
                                hf_keys->rope.fraction,
                                hf_keys->rope.local,
                                hf_keys->rope.original_length > 0 ? "original_max_position_embeddings" : NULL,
                                window->by_layer || window->reads_layers ? "layer_types" : NULL,
                                window->switched ? "use_sliding_window" : NULL,
                                window->full_layers > 0 ? "max_window_layers" : NULL};
  return IS_AMONG(key, others);
}

/* ---- keys without effect ----------------------------------------------------------------------------------------- */

/* Returns whether a value of a key has no effect in any model type. */
static bool asks_for_nothing(const char *key, const json_t *value) {
  static const char *const factors[] = {
      "decoder_sparse_step", "embedding_multiplier", "logits_scaling",        "n_group",   "partial_rotary_factor",
      "residual_multiplier", "rotary_pct",           "routed_scaling_factor", "topk_group"};
  if (tri_huggingface_is_off(value) || (json_is_array(value) && json_array_size(value) == 0)) return true;
  if (json_is_true(value)) return strcmp(key, "scale_attn_weights") == 0;
  if (!json_is_number(value)) return false;
  return json_number_value(value) == (IS_AMONG(key, factors) ? 1 : 0);
}

static bool is_known(const tri_hf_keys *const *all, int64_t count, const char *key) {
  for (int64_t i = 0; i < count; i++) {
    if (tri_huggingface_reads(all[i], key)) return true;
  }
  return false;
}

static void note_ignored(const tri_json_reader *from, const tri_hf_keys *hf_keys, const tri_hf_keys *const *all,
                         int64_t count) {
  const char *key = NULL;
  json_t *value = NULL;
  char keys[TEXT_BYTES] = "";
  size_t used = 0;
  int found = 0;
  json_object_foreach((json_t *)(uintptr_t)from->object, key, value) {
    if (tri_huggingface_reads(hf_keys, key) || asks_for_nothing(key, value) || !is_known(all, count, key)) continue;
    if (hf_keys->rope.fraction != NULL && strcmp(key, TRI_HUGGINGFACE_FRACTION) == 0)
      continue; /* reported by note_rope */
    if (strcmp(key, "max_window_layers") == 0 && !json_is_true(json_object_get(from->object, "use_sliding_window")))
      continue;
    char *text = json_dumps(value, TEXT_FLAGS), one[120];
    snprintf(one, sizeof one, "%s`%.40s` (%.40s)", found++ == 0 ? "" : ", ", key, text == NULL ? "?" : text);
    free(text);
    if (used + strlen(one) < sizeof keys) used += (size_t)snprintf(keys + used, sizeof keys - used, "%s", one);
  }
  if (found == 0) return;
  tri_log("%s: ignored: %s; transformers does not read %s for model_type %s either", from->path, keys,
          found == 1 ? "it" : "them", hf_keys->model_type);
}

/* ---- keys with the same meaning ---------------------------------------------------------------------------------- */

static bool says_a_number(const tri_hf_key *row) {
  switch (row->kind) {
    case TRI_HF_KEYS_FIXED:
    case TRI_HF_KEYS_BY_FUNCTION:
    case TRI_HF_KEYS_ROPE:
    case TRI_HF_KEYS_WINDOW: return false;
    case TRI_HF_KEYS_SIZE:
    case TRI_HF_KEYS_SIZE_OR_NULL:
    case TRI_HF_KEYS_COUNT:
    case TRI_HF_KEYS_FIRST_LAYERS:
    case TRI_HF_KEYS_NUMBER:
    case TRI_HF_KEYS_NUMBER_OR_NULL:
    case TRI_HF_KEYS_POSITIVE:
    case TRI_HF_KEYS_BOOL:
    case TRI_HF_KEYS_ACTIVATION: break;
  }
  return !row->only_written;
}

static bool are_equal(const json_t *a, const json_t *b) {
  if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
  return json_equal(a, b) != 0;
}

/* Logs two different values with the names of their keys; the second one is used. */
static void note_pair(const tri_json_reader *from, const char *first, const json_t *a, const char *counts,
                      const json_t *b) {
  if (a == NULL || b == NULL || are_equal(a, b)) return;
  char *left = json_dumps(a, TEXT_FLAGS), *right = json_dumps(b, TEXT_FLAGS);
  tri_log("%s: `%s` (%.60s) and `%s` (%.60s) have the same meaning here, but differ; `%s` is used", from->path, first,
          left == NULL ? "?" : left, counts, right == NULL ? "?" : right, counts);
  free(left);
  free(right);
}

/* Logs pairs of keys that set the same member. The later row of the table is used, since it is read last. */
static void note_pairs(const tri_json_reader *from, const tri_hf_keys *hf_keys) {
  const tri_hf_key *row = NULL, *other = NULL;
  for (int i = 0; (row = row_number(hf_keys, i)) != NULL; i++) {
    for (int j = 0; j < i && says_a_number(row); j++) {
      other = row_number(hf_keys, j);
      if (!says_a_number(other) || other->offset != row->offset) continue;
      note_pair(from, other->key, tri_reader_get(from, other->key), row->key, tri_reader_get(from, row->key));
    }
  }
}

/* Logs a difference between `key` of the file and the key `inner` of `object`, an object for rotary positions that the
 * message calls `name`; the value in the object is used. Does nothing if `key` is NULL. */
static void note_inner(const tri_json_reader *from, const char *key, const char *name, const json_t *object,
                       const char *inner) {
  char place[96];
  if (key == NULL) return;
  snprintf(place, sizeof place, "%s.%s", name, inner);
  note_pair(from, key, tri_reader_get(from, key), place, json_object_get(object, inner));
}

/* Logs a key in the objects for rotary positions, and one at the top of the file, that transformers does not read for
 * model types whose kinds of layers have their own objects. */
static void note_passed_over(const tri_json_reader *from, const tri_hf_keys *hf_keys, const char *key,
                             const json_t *all, const json_t *object) {
  static const char original[] = "original_max_position_embeddings";
  const char *passed = NULL;
  if (object != all && json_object_get(all, "rope_type") != NULL) passed = "rope_type";
  if (object != all && json_object_get(all, "rope_theta") != NULL) passed = "rope_theta";
  if (json_is_false(json_object_get(object, "truncate"))) passed = "truncate";
  if (tri_huggingface_rope_passes_type(from, hf_keys) && json_object_get(object, "type") != NULL &&
      json_object_get(object, "rope_type") == NULL)
    passed = "type";
  if (passed != NULL) {
    tri_log("%s: ignored: `%s` in `%s`; transformers does not read it there for model_type %s either", from->path,
            passed, key, hf_keys->model_type);
  }
  const json_t *length = object == NULL ? NULL : tri_reader_get(from, original);
  if (length == NULL || are_equal(length, json_object_get(object, original))) return;
  tri_log("%s: ignored: `%s`; transformers reads it in `%s` alone for model_type %s", from->path, original, key,
          hf_keys->model_type);
}

/* Logs a usual key of the file if the model type reads another key instead, unless their values are equal. */
static void note_own_name(const tri_json_reader *from, const tri_hf_keys *hf_keys, const char *usual, const char *own,
                          const json_t *object) {
  const json_t *value = tri_reader_get(from, usual), *counts = json_object_get(object, usual);
  if (value == NULL || own == NULL || strcmp(own, usual) == 0) return;
  if (counts == NULL) counts = tri_reader_get(from, own);
  if (counts != NULL && are_equal(value, counts)) return;
  char *text = json_dumps(value, TEXT_FLAGS);
  tri_log("%s: ignored: `%s` (%.40s); transformers reads `%s` in its place for model_type %s", from->path, usual,
          text == NULL ? "?" : text, own, hf_keys->model_type);
  free(text);
}

/* Logs the keys of rotary positions (bases, rotated fraction of each head, scaling) that contradict each other or are
 * ignored. */
static void note_rope(const tri_json_reader *from, const tri_hf_keys *hf_keys) {
  static const char scaling[] = "rope_scaling", parameters[] = "rope_parameters";
  const tri_hf_keys_rope *rope = &hf_keys->rope;
  const char *key = tri_huggingface_rope_key(from);
  const json_t *all = tri_reader_get(from, key), *object = tri_huggingface_rope_object(from, hf_keys);
  if (strcmp(key, scaling) == 0) note_pair(from, parameters, tri_reader_get(from, parameters), scaling, all);
  if (strcmp(key, parameters) == 0) {
    note_inner(from, rope->local, "rope_parameters.sliding_attention", json_object_get(all, "sliding_attention"),
               "rope_theta");
  }
  if (rope->local == NULL && json_object_get(all, "full_attention") != NULL) {
    tri_log(
        "%s: ignored: the entries of `%s` for each kind of layer; transformers does not read them for model_type %s "
        "either",
        from->path, key, hf_keys->model_type);
  }
  if (rope->local != NULL) note_passed_over(from, hf_keys, key, all, object);
  note_inner(from, rope->theta == NULL ? TRI_HUGGINGFACE_THETA : rope->theta, key, object, TRI_HUGGINGFACE_THETA);
  note_inner(from, rope->fraction, key, object, TRI_HUGGINGFACE_FRACTION);
  note_own_name(from, hf_keys, TRI_HUGGINGFACE_THETA, rope->theta, object);
  note_own_name(from, hf_keys, TRI_HUGGINGFACE_FRACTION, rope->fraction, object);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* Logs unsupported dropout (of attention weights), which is written as 0. */
static void note_undone(const tri_json_reader *from, const tri_hf_keys *hf_keys) {
  const tri_hf_key *row = NULL;
  for (int i = 0; (row = row_number(hf_keys, i)) != NULL; i++) {
    if (row->kind != TRI_HF_KEYS_FIXED || !row->only_written) continue;
    const double dropout = json_number_value(json_object_get(from->object, row->key));
    if (dropout == 0) continue;
    tri_log("%s: `%s` is %g, but this dropout is not supported, so training does not apply it", from->path, row->key,
            dropout);
  }
}

/* Logs keys of dropout with another rate than the key that is read: our models have one rate. */
static void note_dropouts(const tri_json_reader *from, const tri_hf_keys *hf_keys) {
  const tri_hf_key *row = NULL, *other = NULL;
  for (int i = 0; (row = row_number(hf_keys, i)) != NULL; i++) {
    if (row->kind != TRI_HF_KEYS_NUMBER || !row->only_written) continue;
    for (int j = 0; (other = row_number(hf_keys, j)) != NULL; j++) {
      if (other->offset != row->offset || !says_a_number(other)) continue;
      note_pair(from, row->key, tri_reader_get(from, row->key), other->key, tri_reader_get(from, other->key));
    }
  }
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

void tri_huggingface_note_keys(const tri_json_reader *from, const tri_hf_keys *hf_keys, const tri_hf_keys *const *all,
                               int64_t count, bool training) {
  note_ignored(from, hf_keys, all, count);
  note_pairs(from, hf_keys);
  note_rope(from, hf_keys);
  if (!training) return;
  note_undone(from, hf_keys);
  note_dropouts(from, hf_keys);
}
