/* The chat template of a model whose answers `eval` evaluates. */
#ifndef TRI_CLI_RUNNING_EVAL_CHAT_H
#define TRI_CLI_RUNNING_EVAL_CHAT_H

#include "chat/prompts.h"
#include "judge/lines.h"

/* Starts as {0}. */
typedef struct tri_eval_chat {
  tri_chat_prompts prompts;
  const char *system; /* text of the system message; NULL: none */
} tri_eval_chat;

/* Reads the chat template next to a tokenizer.json. Fails with TRI_BAD_FILE if there is none. Release with
 * tri_eval_chat_close, also after a failure. */
tri_status tri_eval_chat_open(const char *tokenizer_file, const char *system, tri_eval_chat *out);
void tri_eval_chat_close(tri_eval_chat *chat);

/* Replaces a question by the text that asks for its answer. Leaves it unchanged on failure to render. This text has a
 * system message (that of the chat, then `description`, which may be empty), the question as a user message, and the
 * generation prompt. */
tri_status tri_eval_chat_apply(tri_eval_chat *chat, const tri_judge_text *description, tri_judge_text *question);

/* Logs a line if the model has a chat template, because `eval` does not apply it without --chat. */
void tri_eval_chat_warn_unused(const char *tokenizer_file, const char *model);

/* Logs the form of the questions, unless it is NULL, and the first prompt as the model reads it; only the end of a long
 * prompt. */
void tri_eval_log_prompt(const char *form, const tri_judge_text *prompt);

#endif
