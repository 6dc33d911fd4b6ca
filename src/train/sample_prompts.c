#include "train/sample_prompts.h"

#include "base/memory.h"
#include "chat/prompts.h"

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

static tri_status add_message(tri_chat_prompts *chat, const char *message, tri_sample_prompts *to) {
  const char *text = NULL;
  size_t bytes = 0;
  json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", message);
  if (messages == NULL) return tri_fail(TRI_BAD_CONFIG, "`samples.chat`: \"%.60s\" is not UTF-8", message);
  tri_status status = tri_chat_prompts_render(chat, messages, NULL, NULL, &text, &bytes);
  if (status == TRI_OK && bytes > strlen(message) + TRI_SAMPLE_TEMPLATE_BYTES) {
    status = tri_fail(TRI_BAD_CONFIG,
                      "`samples.chat`: the template makes %zu bytes of a message of %zu; at most %d more "
                      "are planned",
                      bytes, strlen(message), TRI_SAMPLE_TEMPLATE_BYTES);
  }
  if (status == TRI_OK) status = keep(to, text, bytes, message);
  json_decref(messages);
  return status;
}

static tri_status add_chat(const tri_run_config *config, tri_chat_prompts *chat, tri_sample_prompts *to) {
  memcpy(to->turn_end, chat->turn_end, sizeof to->turn_end);
  for (int64_t i = 0; i < config->samples.num_chat; i++) TRI_TRY(add_message(chat, config->samples.chat[i].text, to));
  return TRI_OK;
}

tri_status tri_sample_prompts_make(const tri_run_config *config, const char *tokenizer_file, tri_sample_prompts *out) {
  const tri_chat_format_options options = {.tokenizer = tokenizer_file, .asked = true};
  tri_chat_prompts chat = {.session = NULL};
  *out = (tri_sample_prompts){.count = 0};
  for (int64_t i = 0; i < config->samples.num_prompts; i++) {
    const char *text = config->samples.prompts[i].text;
    TRI_TRY(keep(out, text, strlen(text), NULL));
  }
  if (config->samples.num_chat == 0) return TRI_OK;
  tri_status status = tri_chat_prompts_open(&options, &chat);
  if (status == TRI_OK) {
    status = add_chat(config, &chat, out);
  } else if (status == TRI_BAD_FILE) {
    status = tri_fail(TRI_BAD_CONFIG, "`samples.chat` goes through the chat template, and %s", tri_status_message());
  }
  tri_chat_prompts_close(&chat);
  return status;
}

void tri_sample_prompts_release(tri_sample_prompts *prompts) {
  for (int64_t i = 0; i < prompts->count; i++) tri_free((void *)prompts->list[i].text);
  prompts->count = 0;
}
