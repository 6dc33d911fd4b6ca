#include "cli/running/eval_chat.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 1000 };

tri_status tri_eval_chat_open(const char *tokenizer_file, const char *system, tri_eval_chat *out) {
  const tri_chat_format_options options = {.tokenizer = tokenizer_file, .asked = true, .optional = true};
  out->system = system;
  TRI_TRY(tri_chat_prompts_open(&options, &out->prompts));
  if (out->prompts.session == NULL) {
    return tri_fail(TRI_BAD_FILE,
                    "--chat: the folder of %s has no chat template, neither chat_template.jinja nor \"chat_template\" "
                    "in tokenizer_config.json; leave --chat out, or copy the template there",
                    tokenizer_file);
  }
  return TRI_OK;
}

void tri_eval_chat_close(tri_eval_chat *chat) {
  tri_chat_prompts_close(&chat->prompts);
  *chat = (tri_eval_chat){0};
}

static tri_status out_of_memory(void) { return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a chat prompt"); }

/* Adds the system message: the system text of the chat, a blank line, and the description; no message if both texts are
 * empty. Fails with TRI_BAD_USAGE if the system text is not UTF-8. */
static tri_status add_system(const tri_eval_chat *chat, const tri_judge_text *description, json_t *messages) {
  const char *own = chat->system == NULL ? "" : chat->system;
  const char *more = description->bytes > 0 ? description->text : "";
  if (own[0] == '\0' && more[0] == '\0') return TRI_OK;
  json_t *content = json_sprintf("%s%s%s", own, own[0] != '\0' && more[0] != '\0' ? "\n\n" : "", more);
  if (content == NULL) return tri_fail(TRI_BAD_USAGE, "--system is not UTF-8");
  if (json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "system", "content", content)) != 0) {
    return out_of_memory();
  }
  return TRI_OK;
}

tri_status tri_eval_chat_apply(tri_eval_chat *chat, const tri_judge_text *description, tri_judge_text *question) {
  const char *text = NULL;
  size_t bytes = 0;
  json_t *messages = json_array(), *root = json_pack("{s:o}", "messages", messages);
  if (root == NULL) return out_of_memory();
  tri_status status = add_system(chat, description, messages);
  json_t *user = json_pack("{s:s, s:o}", "role", "user", "content", json_stringn(question->text, question->bytes));
  if (status == TRI_OK && json_array_append_new(messages, user) != 0) status = out_of_memory();
  if (status == TRI_OK) status = tri_chat_prompts_render(&chat->prompts, messages, NULL, NULL, &text, &bytes);
  json_decref(root);
  TRI_TRY(status);
  json_t *rendered = json_stringn(text, bytes);
  if (rendered == NULL) return out_of_memory();
  tri_judge_text_release(question);
  status = tri_judge_text_of(rendered, question);
  json_decref(rendered);
  return status;
}

/* Logs that the chat template is not applied. A template that cannot be read counts as missing. */
void tri_eval_chat_warn_unused(const char *tokenizer_file, const char *model) {
  const tri_chat_format_options options = {.tokenizer = tokenizer_file, .optional = true};
  tri_chat_format format = {0};
  if (tri_chat_format_create(&options, &format) == TRI_OK && format.template != NULL) {
    tri_log("%s has a chat template, which is not applied; --chat applies it", model);
  }
  tri_chat_format_release(&format);
}

/* Logs the first prompt as a JSON string, which takes one line. If the prompt is long, logs only its end, which
 * contains the question. */
void tri_eval_log_prompt(const char *form, const tri_judge_text *prompt) {
  size_t begin = prompt->bytes > SHOWN_BYTES ? prompt->bytes - SHOWN_BYTES : 0;
  while (begin < prompt->bytes && ((unsigned char)prompt->text[begin] & 0xC0) == 0x80) begin++;
  json_t *string = json_stringn(prompt->text + begin, prompt->bytes - begin);
  char *shown = string == NULL ? NULL : json_dumps(string, JSON_ENCODE_ANY);
  if (shown != NULL) {
    tri_log("%s%s%sthe first prompt%s: %s", form == NULL ? "" : "form: ", form == NULL ? "" : form,
            form == NULL ? "" : "; ", begin > 0 ? " ends in" : "", shown);
  }
  free(shown);
  json_decref(string);
}
