#include "chat/messages.h"

#include "chat/json_value.h"
#include "files/json_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Tags all strings of a value with a message. */
static void tag(tri_chat_value *value, int32_t origin) {
  if (value->kind == TRI_CHAT_STRING) value->origin = origin;
  for (int64_t i = 0; value->kind == TRI_CHAT_LIST && i < value->list->count; i++) tag(&value->list->items[i], origin);
  for (int64_t i = 0; value->kind == TRI_CHAT_DICT && i < value->dict->count; i++) {
    tag(&value->dict->entries[i].key, origin);
    tag(&value->dict->entries[i].value, origin);
  }
}

static bool is_text(tri_chat_value value, const char *text) {
  return value.kind == TRI_CHAT_STRING && value.bytes == strlen(text) && memcmp(value.text, text, value.bytes) == 0;
}

/* Names of a message's reasoning; transformers passes the first two to templates. */
static const char *const reasoning_names[] = {"reasoning_content", "thinking", "reasoning"};
enum { NUM_REASONING_NAMES = sizeof reasoning_names / sizeof reasoning_names[0] };

static tri_status name_reasoning(tri_chat_arena *arena, tri_chat_dict **message) {
  const tri_chat_value *found = NULL;
  for (int i = 0; i < NUM_REASONING_NAMES && found == NULL; i++)
    found = tri_chat_dict_get(*message, reasoning_names[i]);
  if (found == NULL) return TRI_OK;
  tri_chat_value reasoning = *found;
  tri_chat_dict *named = NULL;
  TRI_TRY(tri_chat_dict_create(arena, (*message)->count + 2, &named));
  TRI_TRY(tri_chat_dict_set(arena, named, tri_chat_text("thinking"), reasoning));
  for (int64_t i = 0; i < (*message)->count; i++) {
    TRI_TRY(tri_chat_dict_set(arena, named, (*message)->entries[i].key, (*message)->entries[i].value));
  }
  TRI_TRY(tri_chat_dict_set(arena, named, tri_chat_text("reasoning_content"), reasoning));
  *message = named;
  return TRI_OK;
}

/* Flags of a message; false or 0 excludes it from learning. ms-swift and xtuner use "loss", axolotl "training", and
 * verl "loss_mask". */
static const char *const learnt_flags[] = {"train", "weight", "loss", "training", "trainable", "loss_mask"};
enum { NUM_LEARNT_FLAGS = sizeof learnt_flags / sizeof learnt_flags[0] };

static tri_status read_flag(const json_t *value, const char *key, const char *where, bool *out) {
  const double number = json_number_value(value);
  if (json_is_boolean(value) || (json_is_number(value) && (number == 0 || number == 1))) {
    *out = json_is_true(value) || number == 1;
    return TRI_OK;
  }
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  const tri_status status = tri_fail(TRI_BAD_FILE, "%s: `%s` is %.60s; it takes true, false, 0 or 1", where, key,
                                     text == NULL ? tri_json_kind(value) : text);
  free(text);
  return status;
}

/* Sets *out to whether a message is learnt: it is an answer, and no flag excludes it. Fails with TRI_BAD_FILE if flags
 * contradict each other, or if one is true for a message that is not an answer; with TRI_UNSUPPORTED for
 * `train_detail`. */
static tri_status read_flags(const json_t *message, const char *where, bool is_answer, bool *out) {
  const char *first = NULL;
  bool trained = true;
  if (json_object_get(message, "train_detail") != NULL) { /* a key of axolotl */
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `train_detail` names parts of an answer; an answer is learnt whole or not at all, by `train`",
                    where);
  }
  for (int i = 0; i < NUM_LEARNT_FLAGS; i++) {
    const json_t *value = json_object_get(message, learnt_flags[i]);
    bool flag = true;
    if (value == NULL) continue;
    TRI_TRY(read_flag(value, learnt_flags[i], where, &flag));
    if (first != NULL && flag != trained) {
      return tri_fail(TRI_BAD_FILE,
                      "%s: `%s` and `%s` contradict each other: with one the message is learnt, with the other it is "
                      "not; remove one of them",
                      where, first, learnt_flags[i]);
    }
    first = learnt_flags[i];
    trained = flag;
  }
  if (first != NULL && trained && !is_answer) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: only answers of the assistant can be learnt, but `%s` of this message is true; remove it, or "
                    "set it to false",
                    where, first);
  }
  *out = is_answer && trained;
  return TRI_OK;
}

static tri_status check_content(const json_t *message, const char *where) {
  const json_t *content = json_object_get(message, "content");
  bool called = json_array_size(json_object_get(message, "tool_calls")) > 0;
  if (json_is_string(content) || json_is_array(content)) return TRI_OK;
  if (content == NULL && called) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s: `content` is %s; it must be a string or a list of parts such as {\"type\": \"text\", "
                  "\"text\": \"...\"}",
                  where, tri_json_kind(content));
}

/* Appends one message with role and content, and tags its strings except the role. Fails with TRI_BAD_FILE if the role,
 * the content or a flag is invalid. */
static tri_status add_message(tri_chat_arena *arena, tri_chat_conversation *to, const json_t *message,
                              const char *where) {
  tri_chat_value value;
  int64_t number = to->num_messages;
  TRI_TRY(check_content(message, where));
  TRI_TRY(tri_chat_of_json(arena, message, &value));
  const tri_chat_value *role = tri_chat_dict_get(value.dict, "role");
  if (role == NULL || role->kind != TRI_CHAT_STRING) {
    return tri_fail(TRI_BAD_FILE, "%s: `role` is %s; it must be a string such as \"user\"", where,
                    tri_json_kind(json_object_get(message, "role")));
  }
  to->is_answer[number] = is_text(*role, "assistant");
  TRI_TRY(read_flags(message, where, to->is_answer[number], &to->trained[number]));
  for (int64_t i = 0; i < value.dict->count; i++) {
    tri_chat_entry *entry = &value.dict->entries[i];
    if (!is_text(entry->key, "role")) tag(&entry->value, (int32_t)number + 1);
  }
  TRI_TRY(name_reasoning(arena, &value.dict));
  to->num_answers += to->is_answer[number];
  to->num_trained += to->trained[number];
  to->num_messages++;
  return tri_chat_list_add(arena, to->messages.list, value);
}

tri_status tri_chat_messages_make_room(tri_chat_arena *arena, tri_chat_conversation *to, size_t count) {
  tri_chat_list *list = NULL;
  if (count > INT32_MAX - 8) return tri_fail(TRI_BAD_FILE, "it has more than 2^31 messages");
  TRI_TRY(tri_chat_list_create(arena, (int64_t)count, TRI_CHAT_IS_LIST, &list));
  to->messages = tri_chat_of_list(list);
  TRI_TRY(tri_chat_arena_alloc(arena, count, 1, &to->is_answer));
  return tri_chat_arena_alloc(arena, count, 1, &to->trained);
}

/* ---- keys of messages -------------------------------------------------------------------------------------------- */

static bool is_among(const char *key, const char *const *names, int count) {
  for (int i = 0; i < count; i++) {
    if (strcmp(names[i], key) == 0) return true;
  }
  return false;
}

static bool names_key(const tri_chat_template *template, const char *key) {
  size_t bytes = 0;
  const char *source = template == NULL ? NULL : tri_chat_template_source(template, &bytes);
  return source != NULL && memmem(source, bytes, key, strlen(key)) != NULL;
}

bool tri_chat_message_reads(const tri_chat_format *format, const char *key) {
  static const char *const own[] = {"role", "content", "from", "value"};
  const char *const *names = &key;
  int count = 1;
  if (is_among(key, own, sizeof own / sizeof own[0]) || is_among(key, learnt_flags, NUM_LEARNT_FLAGS)) return true;
  if (is_among(key, reasoning_names, NUM_REASONING_NAMES)) names = reasoning_names, count = NUM_REASONING_NAMES - 1;
  for (int i = 0; i < count; i++) {
    if (names_key(format->template, names[i]) || names_key(format->tools_template, names[i])) return true;
  }
  return false;
}

/* ---- ShareGPT's form --------------------------------------------------------------------------------------------- */

static const struct {
  const char *from, *role;
} senders[] = {{"human", "user"},
               {"user", "user"},
               {"gpt", "assistant"},
               {"assistant", "assistant"},
               {"chatgpt", "assistant"},
               {"bing", "assistant"},
               {"bard", "assistant"},
               {"bot", "assistant"},
               {"model", "assistant"},
               {"system", "system"},
               {"tool", "tool"},
               {"observation", "tool"},
               {"function_response", "tool"},
               {"function_call", "assistant"}};

const char *tri_chat_role_of(const char *from) {
  for (size_t i = 0; i < sizeof senders / sizeof senders[0]; i++) {
    if (strcmp(senders[i].from, from) == 0) return senders[i].role;
  }
  return NULL;
}

/* Makes a new list of tool_calls from the `value` of a message whose `from` is function_call, as LLaMA-Factory has
 * them: a text that is JSON of {"name", "arguments"}, or of a list of these. Fails with TRI_BAD_FILE for another
 * value. */
static tri_status read_calls(const json_t *value, const char *where, json_t **out) {
  json_t *parsed = json_loadb(json_string_value(value), json_string_length(value), JSON_ALLOW_NUL, NULL);
  json_t *calls = json_array(), *one = NULL;
  const size_t count = json_is_array(parsed) ? json_array_size(parsed) : 1;
  bool good = count > 0;
  for (size_t i = 0; i < count && good; i++) {
    one = json_is_array(parsed) ? json_array_get(parsed, i) : parsed;
    good = json_is_string(json_object_get(one, "name")) && json_object_get(one, "arguments") != NULL;
    if (good) json_array_append_new(calls, json_pack("{s:s, s:O}", "type", "function", "function", one));
  }
  json_decref(parsed);
  *out = calls;
  if (good && json_array_size(calls) == count) return TRI_OK;
  json_decref(calls);
  if (good) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading a conversation");
  return tri_fail(TRI_BAD_FILE,
                  "%s: `from` is function_call, so `value` must be JSON such as {\"name\": \"f\", \"arguments\": "
                  "{\"x\": 1}}, or a list of such; write text under `from`: gpt",
                  where);
}

/* Translates a message in ShareGPT's form to one with role and content. The caller releases it. Fails with TRI_BAD_FILE
 * for an unknown `from` or a `value` that is not a string. */
static tri_status translate(const json_t *message, const char *where, json_t **out) {
  const char *from = json_string_value(json_object_get(message, "from"));
  json_t *value = json_object_get(message, "value");
  if (from == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s: `from` is %s; it must be a string such as \"human\" or \"gpt\"", where,
                    tri_json_kind(json_object_get(message, "from")));
  }
  if (!json_is_string(value))
    return tri_fail(TRI_BAD_FILE, "%s: `value` is %s; it must be a string", where, tri_json_kind(value));
  const char *role = tri_chat_role_of(from);
  const bool calls = strcmp(from, "function_call") == 0;
  const char *key = calls ? "tool_calls" : "content";
  if (role == NULL) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: `from` is \"%.60s\"; known are human, user, gpt, assistant, chatgpt, bing, bard, bot, model, "
                    "system, tool, observation, function_response and function_call",
                    where, from);
  }
  json_t *given = NULL;
  if (calls) TRI_TRY(read_calls(value, where, &given));
  if (!calls) given = json_incref(value);
  json_t *translated = json_copy((json_t *)(uintptr_t)message);
  if (translated == NULL || json_object_set_new(translated, "role", json_string(role)) != 0 ||
      json_object_set(translated, key, given) != 0) {
    json_decref(given);
    json_decref(translated);
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading a conversation");
  }
  json_decref(given);
  (void)json_object_del(translated, "from");
  (void)json_object_del(translated, "value");
  *out = translated;
  return TRI_OK;
}

/* Appends message `index` of a list. Translates it first if it is in ShareGPT's form; the list then owns the
 * translation. */
static tri_status add_translated(tri_chat_arena *arena, tri_chat_conversation *to, json_t *list, size_t index,
                                 const char *where) {
  json_t *message = json_array_get(list, index), *translated = NULL;
  if (json_object_get(message, "from") == NULL && json_object_get(message, "value") == NULL) {
    return add_message(arena, to, message, where);
  }
  TRI_TRY(translate(message, where, &translated));
  (void)json_array_set_new(list, index, translated);
  return add_message(arena, to, translated, where);
}

/* ---- lists of messages ------------------------------------------------------------------------------------------- */

void tri_chat_messages_drop_nulls(json_t *list) {
  for (size_t i = 0; i < json_array_size(list); i++) tri_json_drop_nulls(json_array_get(list, i));
}

tri_status tri_chat_messages_add(tri_chat_arena *arena, const char *key, json_t *list, tri_chat_conversation *to) {
  char where[160];
  if (!json_is_array(list)) {
    return tri_fail(TRI_BAD_FILE, "`%s` is %s; it must be a list of messages", key, tri_json_kind(list));
  }
  tri_chat_messages_drop_nulls(list);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *message = json_array_get(list, i);
    snprintf(where, sizeof where, "`%.60s`, message %zu", key, i + 1);
    if (!json_is_object(message))
      return tri_fail(TRI_BAD_FILE, "%s is %s, not an object", where, tri_json_kind(message));
    TRI_TRY(add_translated(arena, to, list, i, where));
  }
  return TRI_OK;
}

static bool is_system(const json_t *message) {
  const char *role = json_string_value(json_object_get(message, "role"));
  if (role == NULL) role = json_string_value(json_object_get(message, "from"));
  return role != NULL && strcmp(role, "system") == 0;
}

tri_status tri_chat_messages_add_system(tri_chat_arena *arena, json_t *root, const json_t *first,
                                        tri_chat_conversation *to) {
  json_t *system = json_object_get(root, "system");
  const bool empty = (json_is_string(system) && json_string_length(system) == 0) ||
                     (json_is_array(system) && json_array_size(system) == 0);
  if (system == NULL || empty) return TRI_OK;
  if (is_system(first)) {
    if (json_equal(system, json_object_get(first, "content")) || json_equal(system, json_object_get(first, "value")))
      return TRI_OK; /* the same text is given twice */
    return tri_fail(TRI_BAD_FILE,
                    "`system` and the first message, which is a system message, differ; remove one of them");
  }
  json_t *message = json_pack("{s:s, s:O}", "role", "system", "content", system);
  if (message == NULL || json_object_set_new(root, "system", message) != 0) { /* owned by the line's tree */
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading a conversation");
  }
  return add_message(arena, to, message, "`system`");
}

/* Adds the message {"role": role, "content": text}, which the line's tree owns under a key that no form reads. */
static tri_status add_turn(tri_chat_arena *arena, json_t *root, const char *role, const char *keep, json_t *text,
                           const char *key, tri_chat_conversation *to) {
  char where[80];
  snprintf(where, sizeof where, "`%s`", key);
  json_t *message = json_pack("{s:s, s:O}", "role", role, "content", text);
  if (message == NULL || json_object_set_new(root, keep, message) != 0) {
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading a conversation");
  }
  return add_message(arena, to, message, where);
}

tri_status tri_chat_messages_add_pair(tri_chat_arena *arena, json_t *root, const tri_chat_pair *pair,
                                      tri_chat_conversation *to) {
  TRI_TRY(tri_chat_messages_make_room(arena, to, 3));
  TRI_TRY(tri_chat_messages_add_system(arena, root, NULL, to));
  TRI_TRY(add_turn(arena, root, "user", " user", pair->user, pair->user_key, to));
  TRI_TRY(add_turn(arena, root, "assistant", " assistant", pair->assistant, pair->assistant_key, to));
  to->prompt = tri_chat_string(json_string_value(pair->user), json_string_length(pair->user));
  to->completion = tri_chat_string(json_string_value(pair->assistant), json_string_length(pair->assistant));
  return TRI_OK;
}
