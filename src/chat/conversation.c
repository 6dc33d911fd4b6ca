#include "chat/conversation.h"

#include "chat/forms.h"
#include "chat/json_value.h"
#include "chat/messages.h"
#include "files/json_kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Writes a hint for an error message about the first role that is a sender's name in ShareGPT's form, such as `human`;
 * "" if there is none. */
static void find_sender(const tri_chat_conversation *c, char *out, size_t bytes) {
  out[0] = '\0';
  for (int64_t i = 0; i < c->num_messages && out[0] == '\0'; i++) {
    const tri_chat_value *role = tri_chat_dict_get(c->messages.list->items[i].dict, "role");
    char name[32] = "";
    if (role->bytes >= sizeof name) continue;
    memcpy(name, role->text, role->bytes);
    const char *usual = tri_chat_role_of(name);
    if (usual != NULL && strcmp(usual, name) != 0) {
      snprintf(out, bytes,
               "; `%s` is ShareGPT's name for `%s`: write the roles as user and assistant, or the messages as "
               "`conversations` of `from` and `value`",
               name, usual);
    }
  }
}

static tri_status no_answer(const tri_chat_conversation *c) {
  if (c->num_messages == 0) return tri_fail(TRI_BAD_FILE, "the conversation has no messages");
  if (c->num_answers == 0) {
    char sender[200];
    find_sender(c, sender, sizeof sender);
    return tri_fail(TRI_BAD_FILE,
                    "the conversation has no answer: none of its %" PRId64
                    " messages is of the role assistant, and "
                    "only answers are learnt%s",
                    c->num_messages, sender);
  }
  return tri_fail(
      TRI_BAD_FILE,
      "no answer of the conversation is to be learnt: all are context only, by `train`: false or such a flag");
}

/* Reads the tools: a list, or a string with the JSON of a list, as in some datasets. Fails with TRI_BAD_FILE for other
 * values, and for `functions` without `tools`. */
static tri_status read_tools(tri_chat_arena *arena, json_t *root, tri_chat_conversation *out) {
  json_t *tools = json_object_get(root, "tools");
  out->tools = tri_chat_none();
  if (json_array_size(json_object_get(root, "functions")) > 0 && tools == NULL) {
    return tri_fail(TRI_BAD_FILE,
                    "`functions` is the older form of `tools`, which templates do not know; write each as "
                    "{\"type\": \"function\", \"function\": ...} into `tools`");
  }
  if (tools == NULL || (json_is_string(tools) && json_string_length(tools) == 0)) return TRI_OK;
  if (json_is_string(tools)) {
    json_error_t error;
    json_t *parsed = json_loadb(json_string_value(tools), json_string_length(tools), JSON_ALLOW_NUL, &error);
    if (parsed == NULL) return tri_fail(TRI_BAD_FILE, "`tools` is a string that is not JSON: %s", error.text);
    if (json_object_set_new(root, "tools", parsed) != 0)
      return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: reading tools");
    tools = parsed;
  }
  if (!json_is_array(tools)) return tri_fail(TRI_BAD_FILE, "`tools` is %s; it must be a list", tri_json_kind(tools));
  return tri_chat_of_json(arena, tools, &out->tools);
}

static tri_status read_variables(tri_chat_arena *arena, const json_t *root, tri_chat_conversation *out) {
  const json_t *given = json_object_get(root, "chat_template_kwargs");
  tri_chat_value value;
  if (given == NULL) return TRI_OK;
  if (!json_is_object(given)) {
    return tri_fail(TRI_BAD_FILE, "`chat_template_kwargs` is %s; it must be an object", tri_json_kind(given));
  }
  TRI_TRY(tri_chat_of_json(arena, given, &value));
  out->variables = value.dict;
  return TRI_OK;
}

tri_status tri_chat_conversation_read_beside(tri_chat_arena *arena, json_t *root, tri_chat_conversation *to) {
  TRI_TRY(read_tools(arena, root, to));
  return read_variables(arena, root, to);
}

tri_status tri_chat_conversation_read_any(tri_chat_arena *arena, json_t *root, const tri_chat_reading *how,
                                          tri_chat_conversation *out) {
  *out = (tri_chat_conversation){.messages = tri_chat_none(), .tools = tri_chat_none()};
  if (!json_is_object(root)) return tri_fail(TRI_BAD_FILE, "the record is %s, not an object", tri_json_kind(root));
  const tri_chat_form *form = NULL;
  TRI_TRY(tri_chat_form_of(root, how, &form));
  tri_json_drop_nulls(root);
  return form->read(arena, root, how->key != NULL ? how->key : form->keys[0], out);
}

tri_status tri_chat_conversation_read(tri_chat_arena *arena, json_t *root, const tri_chat_reading *how,
                                      tri_chat_conversation *out) {
  tri_chat_conversation read;
  TRI_TRY(tri_chat_conversation_read_any(arena, root, how, &read));
  if (read.text.kind == TRI_CHAT_STRING) {
    *out = read;
    return TRI_OK;
  }
  if (read.num_trained == 0) return no_answer(&read);
  TRI_TRY(tri_chat_conversation_read_beside(arena, root, &read));
  *out = read;
  return TRI_OK;
}
