/* The arguments of `trireme generate`. */
#ifndef TRI_CLI_RUNNING_GENERATE_H
#define TRI_CLI_RUNNING_GENERATE_H

#include "cli/running/chat_choice.h"
#include "generation/texts.h"

/* Maximum number of tokens of an answer, unless an option or the model's folder sets another. */
enum { TRI_USUAL_ANSWER = 512 };

/* Arguments of `trireme generate`. If they are not given, `samples`, `context`, `ranks` and `cache_bytes` are 0,
 * `batch` is 8, and the members of `request` are as described in generation.h. */
typedef struct tri_generate_arguments {
  tri_generation_request request;
  const char *prompt, *prompt_file, *prompts; /* the user gives at most one of these */
  int64_t samples, batch, context;
  int64_t ranks;    /* number of ranks to start (-n); 0: not given */
  int64_t logprobs; /* number of the likeliest tokens to print with each token; -1: not requested */
  size_t cache_bytes;
  bool json, chat, dry_run;
  const char *system;
  tri_chat_choice template;
} tri_generate_arguments;

/* Prints the number and the length of the texts, and the memory that their generation would need on each of `ranks`
 * ranks (0: one rank). The number of bytes of device memory is exact (cli/running/generate_plan.c). */
tri_status tri_generate_plan(tri_texts *texts, int64_t ranks);
/* Prints the memory that a generator of these sizes would need on each of `ranks` ranks, or of the request's tensor
 * ranks if these are more (0: one rank). */
tri_status tri_generate_print_plan(const tri_generation *generation, const tri_runner_sizes *sizes, int64_t ranks);
/* Runs a conversation on standard input and output, until the input ends or has the line "/quit"
 * (cli/running/generate_chat.c). */
tri_status tri_generate_chat(const tri_generate_arguments *given, tri_generation *generation);

#endif
