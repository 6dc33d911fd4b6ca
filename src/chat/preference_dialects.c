#include "chat/preference_dialects.h"

#include <stdbool.h>
#include <string.h>

static bool has(const json_t *record, const char *key) {
  const json_t *value = json_object_get(record, key);
  return value != NULL && !json_is_null(value);
}

static tri_status out_of_memory(void) { return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading a preference"); }

/* Moves the value under `from` to the key `to`, unless the record has that key. */
static tri_status rename_key(json_t *record, const char *from, const char *to) {
  if (!has(record, from) || has(record, to)) return TRI_OK;
  if (json_object_set(record, to, json_object_get(record, from)) != 0) return out_of_memory();
  json_object_del(record, from);
  return TRI_OK;
}

/* Translates a record of OpenAI: moves the messages and the tools from `input` to the record, removes `input`, and
 * renames the keys of the answers. */
static tri_status translate_openai(json_t *record) {
  json_t *input = json_object_get(record, "input");
  if (!json_is_object(input) || !has(record, "preferred_output") || !has(record, "non_preferred_output")) return TRI_OK;
  if (has(input, "messages") && json_object_set(record, "messages", json_object_get(input, "messages")) != 0)
    return out_of_memory();
  if (json_array_size(json_object_get(input, "tools")) > 0 &&
      json_object_set(record, "tools", json_object_get(input, "tools")) != 0)
    return out_of_memory();
  json_object_del(input, "messages");
  json_object_del(input, "tools");
  json_object_del(record, "input");
  TRI_TRY(rename_key(record, "preferred_output", "chosen"));
  return rename_key(record, "non_preferred_output", "rejected");
}

/* Divides a ranking of two answers, the better one first, into `chosen` and `rejected`. Fails with TRI_BAD_FILE for
 * another number of answers. */
static tri_status translate_ranking(json_t *record) {
  const json_t *answers = json_object_get(record, "output");
  if (!json_is_array(answers) || !has(record, "instruction") || has(record, "chosen")) return TRI_OK;
  if (json_array_size(answers) != 2) {
    return tri_fail(TRI_BAD_FILE,
                    "`output` is a ranking of %zu answers; a pair has two, so write a record for each pair that is "
                    "meant",
                    json_array_size(answers));
  }
  const bool set = json_object_set(record, "chosen", json_array_get(answers, 0)) == 0 &&
                   json_object_set(record, "rejected", json_array_get(answers, 1)) == 0;
  json_object_del(record, "output");
  return set ? TRI_OK : out_of_memory();
}

static bool is_asked(const json_t *message) {
  const char *role = json_string_value(json_object_get(message, "role"));
  if (role == NULL) role = json_string_value(json_object_get(message, "from"));
  return role == NULL || strcmp(role, "user") == 0 || strcmp(role, "human") == 0 || strcmp(role, "system") == 0;
}

/* Moves the answer, which is the last message of the conversation `key`, to `completion`. */
static tri_status divide_conversation(json_t *record, const char *key) {
  json_t *list = json_object_get(record, key);
  const size_t count = json_array_size(list);
  if (count < 2 || is_asked(json_array_get(list, count - 1))) return TRI_OK; /* later refused by the record's form */
  if (json_object_set(record, "completion", json_array_get(list, count - 1)) != 0) return out_of_memory();
  json_array_remove(list, count - 1);
  return TRI_OK;
}

/* Translates a record of one answer with a label: renames `kto_tag` to `label`, and moves the
 * conversation's last message, or `output`, to `completion`. */
static tri_status translate_label(json_t *record) {
  TRI_TRY(rename_key(record, "kto_tag", "label"));
  if (!json_is_boolean(json_object_get(record, "label")) || has(record, "completion")) return TRI_OK;
  TRI_TRY(divide_conversation(record, "messages"));
  if (!has(record, "completion")) TRI_TRY(divide_conversation(record, "conversations"));
  return has(record, "instruction") ? rename_key(record, "output", "completion") : TRI_OK;
}

tri_status tri_preference_translate(json_t *record) {
  if (!json_is_object(record)) return TRI_OK;
  TRI_TRY(translate_openai(record));
  TRI_TRY(rename_key(record, "chosen_response", "chosen"));
  TRI_TRY(rename_key(record, "rejected_response", "rejected"));
  TRI_TRY(translate_ranking(record));
  return translate_label(record);
}
