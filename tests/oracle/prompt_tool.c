/* prompt_tool: reads a file of prompts as a run of objective grpo does, for Python.
 *
 *   prompt_tool TOKENIZER PROMPTS [NAME=VALUE]...
 *
 * TOKENIZER is a tokenizer.json or its folder; NAME=VALUE sets a variable of the chat template, as data.chat_set does.
 * Prints a line for each prompt, in the order of the file: {"line", "ids", "text", "answer" (null: none), "turn_end"
 * (the text that ends a completion, because the chat template prints it after an answer; "": none)}. */
#include "data/prompt_source.h"

#include <jansson.h>
#include <stdio.h>

enum { LONGEST = 1 << 20 };

static json_t *text_or_null(const char *text, size_t bytes) {
  return text == NULL ? json_null() : json_stringn(text, bytes);
}

static void print_prompt(const tri_rollout_prompt *prompt, const char *turn_end) {
  json_t *ids = json_array();
  for (int64_t i = 0; i < prompt->count; i++) json_array_append_new(ids, json_integer(prompt->ids[i]));
  json_t *line = json_pack("{s:I, s:o, s:o, s:o, s:s}", "line", (json_int_t)prompt->line, "ids", ids, "text",
                           json_stringn(prompt->text, prompt->text_bytes), "answer",
                           text_or_null(prompt->answer, prompt->answer_bytes), "turn_end", turn_end);
  json_dumpf(line, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(line);
}

static tri_status print_prompts(const char *given, const char *prompts, const char *const *set, int num_set) {
  char path[TRI_PATH_BYTES];
  tri_tokenizer *tokenizer = NULL;
  tri_prompt_source source = {0};
  TRI_TRY(tri_tokenizer_path(given, path));
  TRI_TRY(tri_tokenizer_create(path, &tokenizer));
  const tri_prompt_source_options options = {
      .tokenizer = tokenizer, .tokenizer_file = path, .chat_set = set, .num_chat_set = num_set, .longest = LONGEST};
  const tri_status status = tri_prompt_source_open(prompts, &options, &source);
  for (int64_t i = 0; status == TRI_OK && i < source.count; i++) print_prompt(&source.list[i], source.turn_end);
  tri_prompt_source_release(&source);
  tri_tokenizer_destroy(tokenizer);
  return status;
}

int main(int count, char **words) {
  if (count < 3) {
    fputs("prompt_tool TOKENIZER PROMPTS [NAME=VALUE]...\n", stderr);
    return 2;
  }
  const tri_status status = print_prompts(words[1], words[2], (const char *const *)words + 3, count - 3);
  if (status != TRI_OK) fprintf(stderr, "%s\n", tri_status_message());
  return tri_status_exit(status);
}
