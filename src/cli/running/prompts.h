/* Prompts from files and from standard input. */
#ifndef TRI_CLI_RUNNING_PROMPTS_H
#define TRI_CLI_RUNNING_PROMPTS_H

#include "engine/texts.h"

/* Starts as {0}. */
typedef struct tri_prompts {
  tri_prompt *list;
  int64_t count, room;
} tri_prompts;

tri_status tri_prompts_add(tri_prompts *prompts, const char *text, size_t bytes);
/* The whole of a file is one prompt, without the newline at its end; NULL is standard input. */
tri_status tri_prompts_add_file(tri_prompts *prompts, const char *path);
/* Each line of a file is one; of FILE.jsonl each line is {"prompt": "..."} or a string, in JSON. Empty lines are passed
 * over. NULL is standard input, of plain lines. */
tri_status tri_prompts_add_lines(tri_prompts *prompts, const char *path);
void tri_prompts_release(tri_prompts *prompts);

#endif
