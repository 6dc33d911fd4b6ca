#include "train/sample_prompts.h"

#include "base/memory.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static tri_status keep(tri_sample_prompts *to, const char *text, size_t bytes, const char *message) {
  char *copy = NULL;
  TRI_TRY(tri_alloc("the prompt of a sample", bytes + 1, 1, &copy));
  memcpy(copy, text, bytes);
  to->list[to->count] = (tri_prompt){.text = copy, .bytes = bytes, .rendered = message != NULL};
  to->messages[to->count++] = message;
  return TRI_OK;
}

static tri_status add_message(tri_chat_session *session, const char *message, tri_sample_prompts *to) {
  const char *text = NULL;
  size_t bytes = 0;
  json_t *root = json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content", message);
  if (root == NULL) return tri_fail(TRI_BAD_CONFIG, "`samples.chat`: \"%.60s\" is not UTF-8", message);
  tri_status status = tri_chat_session_prompt(session, root, &text, &bytes);
  if (status == TRI_OK && bytes > strlen(message) + TRI_SAMPLE_TEMPLATE_BYTES) {
    status = tri_fail(TRI_BAD_CONFIG,
                      "`samples.chat`: the template makes %zu bytes of a message of %zu; at most %d more "
                      "are planned",
                      bytes, strlen(message), TRI_SAMPLE_TEMPLATE_BYTES);
  }
  if (status == TRI_OK) status = keep(to, text, bytes, message);
  json_decref(root);
  return status;
}

static tri_status add_chat(const tri_run_config *config, tri_chat_format *format, tri_sample_prompts *to) {
  tri_chat_session *session = NULL;
  TRI_TRY(tri_chat_session_create(format, &session));
  tri_status status = tri_chat_session_turn_end(session, to->turn_end);
  for (int64_t i = 0; i < config->samples.num_chat && status == TRI_OK; i++) {
    status = add_message(session, config->samples.chat[i].text, to);
  }
  tri_chat_session_destroy(session);
  return status;
}

tri_status tri_sample_prompts_make(const tri_run_config *config, const char *tokenizer_file, tri_sample_prompts *out) {
  const tri_chat_format_options options = {.tokenizer = tokenizer_file, .asked = true};
  tri_chat_format format = {0};
  *out = (tri_sample_prompts){.count = 0};
  for (int64_t i = 0; i < config->samples.num_prompts; i++) {
    const char *text = config->samples.prompts[i].text;
    TRI_TRY(keep(out, text, strlen(text), NULL));
  }
  if (config->samples.num_chat == 0) return TRI_OK;
  tri_status status = tri_chat_format_create(&options, &format);
  if (status == TRI_OK) {
    status = add_chat(config, &format, out);
  } else if (status == TRI_BAD_FILE) {
    status = tri_fail(TRI_BAD_CONFIG, "`samples.chat` goes through the chat template, and %s", tri_status_message());
  }
  tri_chat_format_release(&format);
  return status;
}

void tri_sample_prompts_release(tri_sample_prompts *prompts) {
  for (int64_t i = 0; i < prompts->count; i++) tri_free((void *)prompts->list[i].text);
  prompts->count = 0;
}
