#include "chat/prompts.h"

#include <string.h>

tri_status tri_chat_prompts_open(const tri_chat_format_options *options, tri_chat_prompts *out) {
  TRI_TRY(tri_chat_format_create(options, &out->format));
  if (out->format.template == NULL) return TRI_OK; /* options->optional, or the file "none" */
  TRI_TRY(tri_chat_session_create(&out->format, &out->session));
  return tri_chat_session_turn_end(out->session, out->turn_end);
}

void tri_chat_prompts_close(tri_chat_prompts *p) {
  tri_chat_session_destroy(p->session);
  tri_chat_format_release(&p->format);
  *p = (tri_chat_prompts){.session = NULL};
}

static bool has_role(const json_t *message, const char *role) {
  const char *is = json_string_value(json_object_get(message, "role"));
  return is != NULL && strcmp(is, role) == 0;
}

static tri_status check_messages(const json_t *messages) {
  const size_t count = json_array_size(messages);
  if (count == 0) {
    return tri_fail(TRI_BAD_FILE,
                    "the list of messages is empty; write at least one, {\"role\": \"user\", \"content\": TEXT}");
  }
  if (!has_role(json_array_get(messages, count - 1), "assistant")) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "the last message is the assistant's, so there is nothing to answer; remove it");
}

/* Makes the conversation that the session renders. Returns NULL if memory is exhausted or `system` is not UTF-8. */
static json_t *conversation_of(const json_t *messages, const json_t *root, const char *system) {
  static const char *const beside[] = {"tools", "chat_template_kwargs"};
  json_t *out = json_object(), *list = json_deep_copy(messages);
  int failed = json_object_set_new(out, "messages", list);
  if (system != NULL && !has_role(json_array_get(messages, 0), "system"))
    failed |= json_array_insert_new(list, 0, json_pack("{s:s, s:s}", "role", "system", "content", system));
  for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
    const json_t *value = json_object_get(root, beside[i]);
    if (value != NULL) failed |= json_object_set_new(out, beside[i], json_deep_copy(value));
  }
  if (failed == 0) return out;
  json_decref(out);
  return NULL;
}

tri_status tri_chat_prompts_render(tri_chat_prompts *p, const json_t *messages, const json_t *root, const char *system,
                                   const char **text, size_t *bytes) {
  if (p->session == NULL)
    return tri_fail(
        TRI_BAD_USAGE,
        "a conversation needs a chat template; give one with --chat-template NAME (trireme help templates)");
  TRI_TRY(check_messages(messages));
  json_t *conversation = conversation_of(messages, root, system);
  if (conversation == NULL) return tri_fail(TRI_BAD_USAGE, "the system message is not UTF-8, or memory is exhausted");
  const tri_chat_prompting how = {.generation_prompt = true};
  tri_chat_prompt rendered = {.text = NULL};
  const tri_status status = tri_chat_session_prompt_as(p->session, conversation, &how, &rendered);
  json_decref(conversation);
  TRI_TRY(status);
  *text = rendered.text;
  *bytes = rendered.bytes;
  if (rendered.bytes > 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "the chat template makes an empty text of its messages; correct the template");
}
