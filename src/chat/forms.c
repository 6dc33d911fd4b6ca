#include "chat/forms.h"

#include "chat/messages.h"
#include "files/json_kind.h"

#include <stdio.h>
#include <string.h>

static bool is_null(const json_t *value) { return value == NULL || json_is_null(value); }

/* ---- readers ----------------------------------------------------------------------------------------------------- */

static tri_status read_messages(tri_chat_arena *arena, json_t *root, const char *key, tri_chat_conversation *out) {
  json_t *list = json_object_get(root, key);
  TRI_TRY(tri_chat_messages_make_room(arena, out, json_array_size(list) + 1));
  TRI_TRY(tri_chat_messages_add_system(arena, root, json_array_get(list, 0), out));
  return tri_chat_messages_add(arena, key, list, out);
}

static tri_status read_prompt(tri_chat_arena *arena, json_t *root, const char *key, tri_chat_conversation *out) {
  json_t *prompt = json_object_get(root, "prompt"), *completion = json_object_get(root, "completion");
  (void)key;
  if (json_is_string(prompt) && json_is_string(completion)) {
    const tri_chat_pair pair = {prompt, completion, "prompt", "completion"};
    return tri_chat_messages_add_pair(arena, root, &pair, out);
  }
  if (!json_is_array(prompt) || !json_is_array(completion)) {
    return tri_fail(TRI_BAD_FILE,
                    "`prompt` is %s and `completion` is %s; they must be two strings or two lists of messages",
                    tri_json_kind(prompt), tri_json_kind(completion));
  }
  TRI_TRY(tri_chat_messages_make_room(arena, out, json_array_size(prompt) + json_array_size(completion) + 1));
  TRI_TRY(tri_chat_messages_add_system(arena, root, json_array_get(prompt, 0), out));
  TRI_TRY(tri_chat_messages_add(arena, "prompt", prompt, out));
  for (int64_t i = 0; i < out->num_messages; i++) out->trained[i] = false; /* only the completion is learnt */
  out->num_answers = out->num_trained = 0;
  return tri_chat_messages_add(arena, "completion", completion, out);
}

/* Reads a member. Fails with TRI_BAD_FILE if it is not a string; if `optional`, it may be missing or null. */
static tri_status get_string(const json_t *root, const char *key, bool optional, json_t **out) {
  json_t *value = json_object_get(root, key);
  *out = is_null(value) ? NULL : value;
  if (json_is_string(value) || (optional && is_null(value))) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "`%s` is %s; it must be a string", key, tri_json_kind(value));
}

/* Reads an answer. Fails with TRI_BAD_FILE if it is empty or only white space, which would teach the model to say
 * nothing. */
static tri_status get_answer(const json_t *root, const char *key, json_t **out) {
  TRI_TRY(get_string(root, key, false, out));
  if (strspn(json_string_value(*out), " \t\r\n") < json_string_length(*out)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "`%s` is %s, so the record has no answer to learn; remove the record, or give --skip-bad", key,
                  json_string_length(*out) == 0 ? "empty" : "blank");
}

static bool is_empty(const json_t *text) { return text == NULL || json_string_length(text) == 0; }

/* Joins the instruction, a blank line and the input to one string, which the tree owns. */
static tri_status join_input(tri_chat_arena *arena, json_t *root, const json_t *instruction, const json_t *input,
                             json_t **out) {
  const size_t first = json_string_length(instruction), second = json_string_length(input);
  char *text = NULL;
  TRI_TRY(tri_chat_arena_alloc(arena, first + second + 2, 1, &text));
  memcpy(text, json_string_value(instruction), first);
  memcpy(text + first, "\n\n", 2);
  memcpy(text + first + 2, json_string_value(input), second);
  json_t *joined = json_stringn(text, first + second + 2);
  if (joined == NULL || json_object_set_new(root, " joined", joined) != 0) {
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading a conversation");
  }
  *out = joined;
  return TRI_OK;
}

static tri_status ask_alpaca(tri_chat_arena *arena, json_t *root, json_t **out) {
  json_t *instruction = NULL, *input = NULL;
  TRI_TRY(get_string(root, "instruction", false, &instruction));
  TRI_TRY(get_string(root, "input", true, &input));
  if (json_array_size(json_object_get(root, "history")) > 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "`history` holds earlier turns, which the form alpaca does not read; write such conversations as "
                    "`messages`");
  }
  if (is_empty(instruction) && is_empty(input)) {
    return tri_fail(TRI_BAD_FILE, "`instruction` is empty; remove the record, or give --skip-bad");
  }
  *out = is_empty(instruction) ? input : instruction;
  return is_empty(instruction) || is_empty(input) ? TRI_OK : join_input(arena, root, instruction, input, out);
}

static tri_status ask_question(tri_chat_arena *arena, json_t *root, json_t **out) {
  (void)arena;
  return get_string(root, "question", false, out);
}

static tri_status get_list(const json_t *root, const char *key, json_t **out) {
  *out = json_object_get(root, key);
  if (json_is_array(*out)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "`%s` is %s; it must be a list of messages", key, tri_json_kind(*out));
}

static tri_status ask_messages(tri_chat_arena *arena, json_t *root, json_t **out) {
  (void)arena;
  return get_list(root, "messages", out);
}

static tri_status ask_sharegpt(tri_chat_arena *arena, json_t *root, json_t **out) {
  (void)arena;
  return get_list(root, "conversations", out);
}

static tri_status read_alpaca(tri_chat_arena *arena, json_t *root, const char *key, tri_chat_conversation *out) {
  tri_chat_pair pair = {.user_key = "instruction", .assistant_key = "output"};
  (void)key;
  TRI_TRY(get_answer(root, "output", &pair.assistant));
  TRI_TRY(ask_alpaca(arena, root, &pair.user));
  return tri_chat_messages_add_pair(arena, root, &pair, out);
}

static tri_status read_question(tri_chat_arena *arena, json_t *root, const char *key, tri_chat_conversation *out) {
  tri_chat_pair pair = {.user_key = "question", .assistant_key = "answer"};
  (void)key;
  TRI_TRY(ask_question(arena, root, &pair.user));
  TRI_TRY(get_answer(root, "answer", &pair.assistant));
  return tri_chat_messages_add_pair(arena, root, &pair, out);
}

static tri_status read_text(tri_chat_arena *arena, json_t *root, const char *key, tri_chat_conversation *out) {
  json_t *text = NULL;
  (void)arena;
  TRI_TRY(get_answer(root, key, &text));
  out->text = tri_chat_string(json_string_value(text), json_string_length(text));
  return TRI_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const tri_chat_form forms[] = {
    {"messages", {"messages"}, {NULL}, read_messages, true, ask_messages},
    {"prompt-completion", {"prompt", "completion"}, {NULL}, read_prompt, false, NULL},
    {"sharegpt", {"conversations"}, {NULL}, read_messages, true, ask_sharegpt},
    {"alpaca", {"instruction", "output"}, {"input"}, read_alpaca, false, ask_alpaca},
    {"question-answer", {"question", "answer"}, {NULL}, read_question, false, ask_question},
    {"text", {"text"}, {NULL}, read_text, true, NULL},
};
enum { NUM_FORMS = sizeof forms / sizeof forms[0] };

/* Keys that every form of conversations may have in addition. */
static const char *const beside[] = {"system", "tools", "chat_template_kwargs"};

const tri_chat_form *tri_chat_form_named(const char *name) {
  for (int i = 0; i < NUM_FORMS; i++) {
    if (strcmp(forms[i].name, name) == 0) return &forms[i];
  }
  return NULL;
}

const char *tri_chat_form_names(void) {
  return "messages, prompt-completion, sharegpt, alpaca, question-answer or text";
}

/* ---- the form of a record ---------------------------------------------------------------------------------------- */

const char *tri_chat_list_keys(const json_t *object, char *out, size_t out_bytes) {
  size_t held = 0;
  out[0] = '\0';
  for (void *at = json_object_iter((json_t *)(uintptr_t)object); at != NULL && held + 80 < out_bytes;
       at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
    int length = snprintf(out + held, out_bytes - held, "%s`%.60s`", held == 0 ? "" : ", ", json_object_iter_key(at));
    held += (size_t)length;
  }
  return held == 0 ? "no keys" : out;
}

/* Returns the number of a form's keys that a record has. Sets *missing to the first key that it lacks, or NULL. */
static int count_keys(const json_t *root, const tri_chat_form *form, const char **missing) {
  int found = 0;
  *missing = NULL;
  for (int i = 0; form->keys[i] != NULL; i++) {
    if (!is_null(json_object_get(root, form->keys[i]))) {
      found++;
    } else if (*missing == NULL) {
      *missing = form->keys[i];
    }
  }
  return found;
}

static tri_status no_form(const json_t *root) {
  char keys[512];
  const char *missing = NULL;
  if (!is_null(json_object_get(root, "chosen")) && !is_null(json_object_get(root, "rejected"))) {
    return tri_fail(TRI_UNSUPPORTED,
                    "`chosen` and `rejected` are preferences; give --preferences instead of --chat, or, to train on "
                    "the chosen answers alone, write them as `prompt` and `completion`, or as `messages`");
  }
  for (int i = 0; i < NUM_FORMS; i++) {
    if (count_keys(root, &forms[i], &missing) == 0) continue;
    if (json_object_get(root, missing) != NULL) {
      return tri_fail(TRI_BAD_FILE,
                      "`%s` is null, but a record of the form %s needs it; remove the record, or give --skip-bad",
                      missing, forms[i].name);
    }
    return tri_fail(TRI_BAD_FILE, "the record has `%s` but not `%s`, but the form %s needs both; it has %s",
                    forms[i].keys[strcmp(missing, forms[i].keys[0]) == 0], missing, forms[i].name,
                    tri_chat_list_keys(root, keys, sizeof keys));
  }
  return tri_fail(
      TRI_BAD_FILE,
      "the record has %s, which is not a known form: `messages`, `prompt` and `completion`, "
      "`conversations`, `instruction` and `output`, `question` and `answer`, `text`; give the key that holds "
      "the messages with --key",
      tri_chat_list_keys(root, keys, sizeof keys));
}

/* Fails with TRI_BAD_FILE if a record does not have the requested form or key. */
static tri_status check_asked(const json_t *root, const tri_chat_reading *how, const tri_chat_form *form) {
  char keys[512];
  for (int i = 0; form->keys[i] != NULL; i++) {
    const char *key = i == 0 && how->key != NULL ? how->key : form->keys[i];
    if (json_object_get(root, key) != NULL) continue;
    return tri_fail(TRI_BAD_FILE, "the record has no key `%s`; it has %s: choose one with %s", key,
                    tri_chat_list_keys(root, keys, sizeof keys), how->key != NULL ? "--key" : "--form");
  }
  return TRI_OK;
}

tri_status tri_chat_form_of(const json_t *root, const tri_chat_reading *how, const tri_chat_form **out) {
  const char *missing = NULL;
  const tri_chat_form *found = how->form == NULL ? NULL : tri_chat_form_named(how->form);
  if (found == NULL && how->key != NULL) found = &forms[strcmp(how->key, "prompt") == 0];
  if (found != NULL) {
    *out = found;
    return check_asked(root, how, found);
  }
  for (int i = 0; i < NUM_FORMS; i++) {
    (void)count_keys(root, &forms[i], &missing);
    if (missing != NULL) continue;
    if (found != NULL) {
      return tri_fail(TRI_BAD_FILE, "the record fits two forms, %s and %s; choose with --form %s or --form %s",
                      found->name, forms[i].name, found->name, forms[i].name);
    }
    found = &forms[i];
  }
  if (found == NULL) return no_form(root);
  *out = found;
  return TRI_OK;
}

tri_status tri_chat_form_asking(const json_t *root, const tri_chat_form **out) {
  const tri_chat_form *found = NULL;
  for (int i = 0; i < NUM_FORMS; i++) {
    if (forms[i].ask == NULL || is_null(json_object_get(root, forms[i].keys[0]))) continue;
    if (found != NULL) {
      return tri_fail(TRI_BAD_FILE, "`%s` and `%s` both hold a question; remove one of them, or give `prompt`",
                      found->keys[0], forms[i].keys[0]);
    }
    found = &forms[i];
  }
  *out = found;
  return TRI_OK;
}

bool tri_chat_form_asks(const tri_chat_form *form, const char *key) {
  bool asks = strcmp(form->keys[0], key) == 0;
  for (int i = 0; form->optional[i] != NULL; i++) asks = asks || strcmp(form->optional[i], key) == 0;
  return asks;
}

bool tri_chat_form_reads(const tri_chat_form *form, const tri_chat_reading *how, const char *key) {
  for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
    if (strcmp(beside[i], key) == 0) return true;
  }
  for (int i = 0; form->keys[i] != NULL; i++) {
    if (strcmp(i == 0 && how->key != NULL ? how->key : form->keys[i], key) == 0) return true;
  }
  for (int i = 0; form->optional[i] != NULL; i++) {
    if (strcmp(form->optional[i], key) == 0) return true;
  }
  return false;
}
