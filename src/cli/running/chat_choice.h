/* The options --chat-template and --chat-set of commands that talk with a model. */
#ifndef TRI_CLI_RUNNING_CHAT_CHOICE_H
#define TRI_CLI_RUNNING_CHAT_CHOICE_H

#include "chat/prompts.h"
#include "generation/generation.h"
#include "options/option_rows.h"

enum { TRI_MOST_CHAT_SETS = 64 };

typedef struct tri_chat_choice {
  const char *file;                     /* --chat-template, a name or a file; NULL: the folder's */
  const char *sets[TRI_MOST_CHAT_SETS]; /* [num_sets]: the values of --chat-set, NAME=VALUE */
  int num_sets;
} tri_chat_choice;

extern const tri_option tri_chat_choice_rows[];

/* Opens the template of a model's conversations. Warns of markers of the template that the tokenizer does not encode as
 * one token. Fails with TRI_BAD_FILE if there is no template. Release with tri_chat_prompts_close, also after a
 * failure. */
tri_status tri_chat_choice_open(const tri_chat_choice *choice, const tri_generation *generation, tri_chat_prompts *out);

#endif
