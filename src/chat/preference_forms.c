#include "chat/preference_forms.h"

#include "chat/forms.h"
#include "chat/messages.h"
#include "chat/preference_dialects.h"
#include "files/json_kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OR_SKIP "; remove the record, or give --skip-bad"

static bool is_null(const json_t *value) { return value == NULL || json_is_null(value); }

static tri_chat_value text_of(const json_t *string) {
  return tri_chat_string(json_string_value(string), json_string_length(string));
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static tri_status empty_answer(const char *key) {
  return tri_fail(TRI_BAD_FILE, "`%s` is empty, so it has no answer to learn from" OR_SKIP, key);
}

static const char *role_of(const json_t *message) {
  const char *role = json_string_value(json_object_get(message, "role"));
  if (role == NULL) role = json_string_value(json_object_get(message, "from"));
  return role == NULL ? "" : role;
}

static bool is_asked(const json_t *message) {
  const char *role = role_of(message);
  return strcmp(role, "user") == 0 || strcmp(role, "human") == 0 || strcmp(role, "system") == 0;
}

static const json_t *content_of(const json_t *message) {
  const json_t *content = json_object_get(message, "content");
  return content == NULL ? json_object_get(message, "value") : content;
}

/* Checks an answer, which consists of the messages of a list from index `from` on. Fails with TRI_BAD_FILE unless the
 * answer begins with a message of the assistant or a tool, and ends with an answer that is not empty. */
static tri_status check_answer(const json_t *list, size_t from, const char *key) {
  const size_t count = json_array_size(list);
  if (count <= from) return empty_answer(key);
  const json_t *first = json_array_get(list, from), *last = json_array_get(list, count - 1);
  if (is_asked(first) && from == 0) {
    return tri_fail(TRI_BAD_FILE,
                    "`%s` begins with a message of the role %.40s, but it must be the answer to `prompt`; remove the "
                    "messages of `prompt` from it, or leave `prompt` out",
                    key, role_of(first));
  }
  if (is_asked(first)) {
    return tri_fail(
        TRI_BAD_FILE,
        "the prompts of `chosen` and `rejected` differ: message %zu of `%s` is of the role %.40s; a pair has "
        "two answers to one prompt" OR_SKIP,
        from + 1, key, role_of(first));
  }
  const json_t *content = content_of(last);
  const bool calls = json_array_size(json_object_get(last, "tool_calls")) > 0;
  return json_is_string(content) && json_string_length(content) == 0 && !calls ? empty_answer(key) : TRI_OK;
}

/* Fails with TRI_BAD_FILE if a flag excludes a message of the answer from learning, because an answer is compared as a
 * whole. */
static tri_status check_flags(const tri_chat_conversation *c, int64_t from, const char *key) {
  for (int64_t i = from; i < c->num_messages; i++) {
    if (!c->is_answer[i] || c->trained[i]) continue;
    return tri_fail(TRI_BAD_FILE,
                    "message %" PRId64
                    " of `%s` is marked as not learnt (`train`: false or a similar flag), but answers of preferences "
                    "are compared as a whole; remove the flag, or give --skip-bad",
                    i - from + 1, key);
  }
  return TRI_OK;
}

static tri_status check_last(const tri_chat_conversation *c, const char *key) {
  if (c->is_answer[c->num_messages - 1]) return TRI_OK;
  const tri_chat_value *role = tri_chat_dict_get(c->messages.list->items[c->num_messages - 1].dict, "role");
  return tri_fail(TRI_BAD_FILE,
                  "the last message of `%s` is of the role %.*s; an answer must end with a message of the assistant",
                  key, role->bytes > 40 ? 40 : (int)role->bytes, role->text);
}

/* ---- conversations ----------------------------------------------------------------------------------------------- */

/* Adds the record's `system` to the conversation of the answer `key`. tri_chat_messages_add_system replaces the member
 * by a message, so this function moves the message to another key of the tree and restores the member for the other
 * answer. */
static tri_status add_system(tri_chat_arena *arena, json_t *root, const json_t *first, const char *key,
                             tri_chat_conversation *to) {
  char keep[80];
  json_t *system = json_incref(json_object_get(root, "system"));
  tri_status status = tri_chat_messages_add_system(arena, root, first, to);
  if (system == NULL) return status;
  snprintf(keep, sizeof keep, " system of %.40s", key);
  const bool kept = json_object_set(root, keep, json_object_get(root, "system")) == 0;
  if (json_object_set_new(root, "system", system) != 0 || !kept) {
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading a preference");
  }
  return status;
}

/* The messages of the question, and the key of the record that has them. */
typedef struct asked {
  json_t *messages; /* NULL: the lists of the answers begin with them */
  const char *key;
} asked;

/* Reads answer number k from the list under `key`. The answer follows the question's messages; without these, the first
 * `shared` messages of the list are the question. */
static tri_status read_conversation(tri_chat_arena *arena, json_t *root, asked prompt, size_t shared, const char *key,
                                    int k, tri_preference *out) {
  tri_chat_conversation *c = &out->conversations[k];
  json_t *list = json_object_get(root, key);
  *c = (tri_chat_conversation){.messages = tri_chat_none(), .tools = tri_chat_none()};
  TRI_TRY(check_answer(list, shared, key));
  TRI_TRY(tri_chat_messages_make_room(arena, c, json_array_size(prompt.messages) + json_array_size(list) + 1));
  TRI_TRY(add_system(arena, root, json_array_get(prompt.messages == NULL ? list : prompt.messages, 0), key, c));
  if (prompt.messages != NULL) TRI_TRY(tri_chat_messages_add(arena, prompt.key, prompt.messages, c));
  out->prompt_messages = c->num_messages + (int64_t)shared;
  TRI_TRY(tri_chat_messages_add(arena, key, list, c));
  TRI_TRY(check_flags(c, out->prompt_messages, key));
  TRI_TRY(check_last(c, key));
  return tri_chat_conversation_read_beside(arena, root, c);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static tri_status check_texts(const json_t *root, const tri_preference_form *form, tri_preference *out) {
  out->is_text = true;
  if (json_object_get(root, "system") != NULL) {
    return tri_fail(TRI_BAD_FILE,
                    "`system` cannot be used if prompt and answers are plain text; write it into the prompt, or write "
                    "prompt and answers as lists of messages");
  }
  for (int k = 0; k < out->num_answers; k++) {
    if (out->answers[k].bytes == 0) return empty_answer(form->answers[k]);
  }
  return TRI_OK;
}

/* Returns the length of the common beginning of two texts by TRL's rule. The common beginning has whole characters, and
 * no space at its end. If one text is the beginning of the other, the common beginning is the shorter text without its
 * last character. */
static size_t common_text(tri_chat_value a, tri_chat_value b) {
  const size_t least = a.bytes < b.bytes ? a.bytes : b.bytes;
  size_t same = 0;
  while (same < least && a.text[same] == b.text[same]) same++;
  const bool differs = same < least;
  if (!differs && same > 0) same--;
  while (same > 0 && ((unsigned char)a.text[same] & 0xC0) == 0x80) same--;
  return differs && same > 0 && a.text[same - 1] == ' ' ? same - 1 : same;
}

static size_t common_messages(const json_t *a, const json_t *b) {
  const size_t first = json_array_size(a), second = json_array_size(b), least = first < second ? first : second;
  size_t same = 0;
  while (same < least && json_equal(json_array_get(a, same), json_array_get(b, same))) same++;
  return same == least && same > 0 ? same - 1 : same;
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

static tri_status no_beginning(const json_t *chosen, const json_t *rejected) {
  const char *shorter = json_array_size(chosen) < json_array_size(rejected) ? "chosen" : "rejected";
  if (json_is_array(chosen) && json_equal(json_array_get(chosen, 0), json_array_get(rejected, 0))) {
    return tri_fail(TRI_BAD_FILE,
                    "`%s` is only the beginning of the other conversation, so it has no answer of its own" OR_SKIP,
                    shorter);
  }
  return tri_fail(TRI_BAD_FILE,
                  "`prompt` is missing, and `chosen` and `rejected` have no common beginning to use as the prompt; add "
                  "`prompt`" OR_SKIP);
}

static tri_status same_answers(void) {
  return tri_fail(TRI_BAD_FILE, "`chosen` and `rejected` are the same answer, which is not a preference" OR_SKIP);
}

/* Reads two texts or two conversations with a common beginning. Fails with TRI_BAD_FILE if they are of different kinds,
 * are equal, or have no common beginning. */
static tri_status read_common(tri_chat_arena *arena, json_t *root, const tri_preference_form *form,
                              tri_preference *out) {
  json_t *chosen = json_object_get(root, "chosen"), *rejected = json_object_get(root, "rejected");
  if (json_equal(chosen, rejected)) return same_answers();
  if (json_is_array(chosen) && json_is_array(rejected)) {
    const size_t shared = common_messages(chosen, rejected);
    if (shared == 0) return no_beginning(chosen, rejected);
    TRI_TRY(read_conversation(arena, root, (asked){NULL, NULL}, shared, "chosen", 0, out));
    return read_conversation(arena, root, (asked){NULL, NULL}, shared, "rejected", 1, out);
  }
  if (!json_is_string(chosen) || !json_is_string(rejected)) {
    return tri_fail(TRI_BAD_FILE,
                    "`chosen` is %s and `rejected` is %s; they must be two strings or two lists of messages",
                    tri_json_kind(chosen), tri_json_kind(rejected));
  }
  tri_chat_value texts[] = {text_of(chosen), text_of(rejected)};
  for (int k = 0; k < TRI_PREFERENCE_ANSWERS; k++) {
    if (texts[k].bytes == 0) return empty_answer(form->answers[k]);
  }
  const size_t shared = common_text(texts[0], texts[1]);
  if (shared == 0) return no_beginning(chosen, rejected);
  out->prompt = tri_chat_string(texts[0].text, shared);
  for (int k = 0; k < TRI_PREFERENCE_ANSWERS; k++) {
    out->answers[k] = tri_chat_string(texts[k].text + shared, texts[k].bytes - shared);
  }
  return check_texts(root, form, out);
}

/* Returns whether a conversation begins with a user's message that is equal to `prompt`, after an optional system
 * message. */
static bool begins_with(const json_t *list, json_t *prompt) {
  const bool system = strcmp(role_of(json_array_get(list, 0)), "system") == 0;
  const json_t *first = json_array_get(list, system ? 1 : 0);
  return is_asked(first) && json_equal(content_of(first), prompt);
}

/* Reads a string `prompt` with whole conversations. Fails with TRI_BAD_FILE if a conversation does not begin with the
 * prompt. */
static tri_status read_whole(tri_chat_arena *arena, json_t *root, const tri_preference_form *form,
                             tri_preference *out) {
  static const char *const keys[] = {"chosen", "rejected"};
  for (int k = 0; k < TRI_PREFERENCE_ANSWERS; k++) {
    if (begins_with(json_object_get(root, keys[k]), json_object_get(root, "prompt"))) continue;
    return tri_fail(TRI_BAD_FILE,
                    "`prompt` is a string, but the conversation `%s` does not begin with it as the user's message; "
                    "write `prompt` as a list of messages, or give --skip-bad",
                    keys[k]);
  }
  return read_common(arena, root, form, out);
}

/* Reads a prompt that is a string or a list of messages, and answers. Fails with TRI_BAD_FILE if these are of another
 * kind. */
static tri_status read_prompt(tri_chat_arena *arena, json_t *root, const tri_preference_form *form,
                              tri_preference *out) {
  json_t *prompt = json_object_get(root, "prompt");
  bool texts = json_is_string(prompt), lists = json_is_array(prompt);
  for (int k = 0; k < out->num_answers; k++) {
    json_t *answer = json_object_get(root, form->answers[k]);
    texts = texts && json_is_string(answer);
    lists = lists && json_is_array(answer);
    if (!texts && !lists) {
      return tri_fail(
          TRI_BAD_FILE,
          "`prompt` is %s and `%s` is %s; prompt and answers must all be strings or all be lists of messages",
          tri_json_kind(prompt), form->answers[k], tri_json_kind(answer));
    }
    if (texts) out->answers[k] = text_of(answer);
  }
  if (lists && json_array_size(prompt) == 0) return tri_fail(TRI_BAD_FILE, "`prompt` has no messages" OR_SKIP);
  for (int k = 0; lists && k < out->num_answers; k++) {
    TRI_TRY(read_conversation(arena, root, (asked){prompt, "prompt"}, 0, form->answers[k], k, out));
  }
  if (lists) return TRI_OK;
  out->prompt = text_of(prompt);
  return check_texts(root, form, out);
}

static tri_status read_pair(tri_chat_arena *arena, json_t *root, const tri_preference_form *form, tri_preference *out) {
  json_t *prompt = json_object_get(root, "prompt"), *chosen = json_object_get(root, "chosen"),
         *rejected = json_object_get(root, "rejected");
  if (json_equal(chosen, rejected)) return same_answers();
  if (json_is_string(prompt) && json_is_array(chosen) && json_is_array(rejected))
    return read_whole(arena, root, form, out);
  return read_prompt(arena, root, form, out);
}

static tri_status out_of_memory(void) { return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading a preference"); }

/* Makes a list with one message of a text. The record's tree owns it under `key`. */
static tri_status make_list(json_t *root, const char *role, json_t *text, const char *key) {
  json_t *list = json_pack("[{s:s, s:O}]", "role", role, "content", text);
  return list == NULL || json_object_set_new(root, key, list) != 0 ? out_of_memory() : TRI_OK;
}

/* Reads a question as in a form of conversations (tri_chat_form_asking), and answers that are texts or messages. The
 * result is conversations. Fails with TRI_BAD_FILE for answers of other types, two equal answers, or a question that
 * ends with an answer. */
static tri_status read_asked(tri_chat_arena *arena, json_t *root, const tri_preference_form *form,
                             tri_preference *out) {
  static const char kept[] = " question";
  const tri_chat_form *question = NULL;
  json_t *text = NULL;
  TRI_TRY(tri_chat_form_asking(root, &question));
  if (out->num_answers > 1 && json_equal(json_object_get(root, "chosen"), json_object_get(root, "rejected")))
    return same_answers();
  TRI_TRY(question->ask(arena, root, &text));
  asked prompt = {text, question->keys[0]};
  if (json_is_string(text)) {
    TRI_TRY(make_list(root, "user", text, kept));
    prompt.messages = json_object_get(root, kept);
  }
  for (int k = 0; k < out->num_answers; k++) {
    const char *key = form->answers[k];
    json_t *answer = json_object_get(root, key);
    if (json_is_string(answer)) TRI_TRY(make_list(root, "assistant", answer, key));
    if (!json_is_string(answer) && !json_is_array(answer)) {
      return tri_fail(TRI_BAD_FILE, "`%s` is %s; it must be a string, a message or a list of messages", key,
                      tri_json_kind(answer));
    }
    TRI_TRY(read_conversation(arena, root, prompt, 0, key, k, out));
  }
  const tri_chat_conversation *c = &out->conversations[0];
  if (out->prompt_messages > 0 && !c->is_answer[out->prompt_messages - 1]) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "`%s` ends with an answer, and %s the last question; remove the messages after that question, or "
                  "give --skip-bad",
                  prompt.key, out->num_answers > 1 ? "`chosen` and `rejected` answer" : "`completion` answers");
}

static tri_status read_label(const json_t *root, tri_preference *out) {
  const json_t *label = json_object_get(root, "label");
  if (!json_is_boolean(label)) {
    return tri_fail(TRI_BAD_FILE,
                    "`label` is %s; it must be true (a desirable answer) or false (an undesirable one), without quotes",
                    tri_json_kind(label));
  }
  out->desirable = json_is_true(label);
  return TRI_OK;
}

static tri_status read_labelled(tri_chat_arena *arena, json_t *root, const tri_preference_form *form,
                                tri_preference *out) {
  TRI_TRY(read_label(root, out));
  return read_prompt(arena, root, form, out);
}

static tri_status read_labelled_asked(tri_chat_arena *arena, json_t *root, const tri_preference_form *form,
                                      tri_preference *out) {
  TRI_TRY(read_label(root, out));
  return read_asked(arena, root, form, out);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const tri_preference_form forms[] = {
    {"prompt-chosen-rejected", {"prompt", "chosen", "rejected"}, NULL, {"chosen", "rejected"}, read_pair},
    {"chosen-rejected", {"chosen", "rejected"}, "prompt", {"chosen", "rejected"}, read_common},
    {"question-chosen-rejected", {"chosen", "rejected"}, "prompt", {"chosen", "rejected"}, read_asked},
    {"prompt-completion-label", {"prompt", "completion", "label"}, NULL, {"completion"}, read_labelled},
    {"question-completion-label", {"completion", "label"}, "prompt", {"completion"}, read_labelled_asked},
};
enum { NUM_FORMS = sizeof forms / sizeof forms[0] };

static const char *const beside[] = {"system", "tools", "chat_template_kwargs"};

/* Finds the form of a question under another key than `prompt`. Sets *out to NULL if there is no such question, or if
 * `chosen` is a whole conversation, which contains the question. */
static tri_status find_question(const json_t *root, const tri_chat_form **out) {
  *out = NULL;
  if (!is_null(json_object_get(root, "prompt"))) return TRI_OK;
  if (is_asked(json_array_get(json_object_get(root, "chosen"), 0))) return TRI_OK;
  return tri_chat_form_asking(root, out);
}

static bool asks(const tri_preference_form *form) {
  return form->read == read_asked || form->read == read_labelled_asked;
}

static bool has_keys(const json_t *root, const tri_preference_form *form, const tri_chat_form *question) {
  bool all = form->absent == NULL || is_null(json_object_get(root, form->absent));
  if (form->read == read_common) all = all && question == NULL;
  if (asks(form)) all = all && question != NULL;
  for (int i = 0; form->keys[i] != NULL; i++) all = all && !is_null(json_object_get(root, form->keys[i]));
  return all;
}

static tri_status no_form(const json_t *root) {
  char keys[512];
  return tri_fail(
      TRI_BAD_FILE,
      "the record has %s; preferences have `prompt` (or `instruction`, `question`, `conversations`, `messages`), "
      "and `chosen` and `rejected` or `completion` and `label`; or `chosen` and `rejected` that begin alike",
      tri_chat_list_keys(root, keys, sizeof keys));
}

tri_status tri_preference_form_of(json_t *root, const tri_preference_form **out) {
  const tri_preference_form *found = NULL;
  const tri_chat_form *question = NULL;
  TRI_TRY(tri_preference_translate(root));
  if (!is_null(json_object_get(root, "chosen")) || !is_null(json_object_get(root, "completion")))
    TRI_TRY(find_question(root, &question));
  for (int i = 0; i < NUM_FORMS; i++) {
    if (!has_keys(root, &forms[i], question)) continue;
    if (found != NULL) {
      return tri_fail(
          TRI_BAD_FILE,
          "the record fits two forms, %s and %s; remove the keys of one of them, `chosen` and `rejected` or "
          "`completion` and `label`",
          found->name, forms[i].name);
    }
    found = &forms[i];
  }
  if (found == NULL) return no_form(root);
  *out = found;
  return TRI_OK;
}

bool tri_preference_form_reads(const tri_preference_form *form, const json_t *root, const char *key) {
  const tri_chat_form *question = NULL;
  if (asks(form) && tri_chat_form_asking(root, &question) == TRI_OK && tri_chat_form_asks(question, key)) return true;
  for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
    if (strcmp(beside[i], key) == 0) return true;
  }
  for (int i = 0; form->keys[i] != NULL; i++) {
    if (strcmp(form->keys[i], key) == 0) return true;
  }
  return false;
}

/* Normalizes the messages under `key`: a single message becomes a list, and null members are removed. */
static tri_status make_messages(json_t *root, const char *key) {
  json_t *value = json_object_get(root, key);
  if (json_is_object(value)) {
    json_t *list = json_pack("[O]", value);
    if (list == NULL || json_object_set_new(root, key, list) != 0) return out_of_memory();
    value = list;
  }
  tri_chat_messages_drop_nulls(value);
  return TRI_OK;
}

tri_status tri_preference_read(tri_chat_arena *arena, json_t *root, tri_preference *out) {
  const tri_preference_form *form = NULL;
  tri_preference read = {.num_answers = 0};
  if (!json_is_object(root)) return tri_fail(TRI_BAD_FILE, "the record is %s, not an object", tri_json_kind(root));
  TRI_TRY(tri_preference_form_of(root, &form));
  tri_json_drop_nulls(root);
  for (int i = 0; form->keys[i] != NULL; i++) TRI_TRY(make_messages(root, form->keys[i]));
  read.num_answers = form->answers[1] == NULL ? 1 : 2;
  TRI_TRY(form->read(arena, root, form, &read));
  *out = read;
  return TRI_OK;
}
