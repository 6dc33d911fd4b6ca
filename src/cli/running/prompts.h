/* Prompts from options, files and standard input: plain texts, or conversations, which go through a chat template. */
#ifndef TRI_CLI_RUNNING_PROMPTS_H
#define TRI_CLI_RUNNING_PROMPTS_H

#include "cli/running/chat_choice.h"
#include "generation/written.h"

/* Starts as {0}. */
typedef struct tri_prompts {
  tri_prompt *list; /* [count] */
  char **messages;  /* [count], the last message of each conversation, "" if it has no text; NULL for a plain text */
  int64_t count, room;

  /* Set before prompts are added: */
  const tri_generation *generation; /* model that answers conversations */
  const tri_chat_choice *template;  /* chat template for this model */
  const char *system;               /* text of a system message for conversations that have none; NULL: none */
  bool chat; /* whether plain texts are questions, each a conversation with one message of the user */

  tri_chat_prompts rendering; /* not open before the first conversation */
} tri_prompts;

/* Adds a copy of a text; if `chat`, the text is the message of a user. Fails with TRI_BAD_FILE if such a message is not
 * UTF-8. */
tri_status tri_prompts_add(tri_prompts *prompts, const char *text, size_t bytes);
/* Adds a whole file as one prompt, without the newline at its end. If `path` is NULL, reads standard input. */
tri_status tri_prompts_add_file(tri_prompts *prompts, const char *path);
/* Adds each line of a file as a prompt. In a file NAME.jsonl a line is {"prompt": "..."} or a string, in JSON, or a
 * conversation: {"messages": [...]}, or {"prompt": [...]} with a list of messages, perhaps with "tools" and
 * "chat_template_kwargs". Ignores empty lines. If `path` is NULL, reads plain lines from standard input. Warns once of
 * a key that is not read, and of lines in JSON if the name does not end in .jsonl. Fails with TRI_BAD_FILE if a line is
 * not of one of these forms, or if there is no prompt. */
tri_status tri_prompts_add_lines(tri_prompts *prompts, const char *path);
void tri_prompts_release(tri_prompts *prompts);

#endif
