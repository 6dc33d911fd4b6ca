/* Prompts of reinforcement learning: a file of JSON lines, whose prompts are encoded once, as `trireme generate`
 * encodes them.
 *
 *   {"prompt": "2 + 3 =", "answer": "5", ...}
 *   {"prompt": [{"role": "user", "content": "What is 2 + 3?"}], "answer": "5", ...}
 *
 * A list of messages goes through the chat template; its key may also be `messages`. `answer` is a string or a number;
 * it may be missing. Rewards by a command receive the whole line. */
#ifndef TRI_DATA_PROMPT_SOURCE_H
#define TRI_DATA_PROMPT_SOURCE_H

#include "chat/session.h"
#include "data/fingerprint.h"
#include "tokenizer/tokenizer.h"

#include <stddef.h>

/* A prompt. The source owns all memory. */
typedef struct tri_rollout_prompt {
  int64_t line;       /* number of its line in the file, from 1 */
  const int32_t *ids; /* [count] */
  int64_t count;
  const char *text; /* the text that was encoded; ends with a NUL */
  size_t text_bytes;
  const char *answer; /* NULL: the line has none */
  size_t answer_bytes;
  const char *json; /* the whole line */
  size_t json_bytes;
} tri_rollout_prompt;

typedef struct tri_prompt_source {
  tri_rollout_prompt *list; /* [count] prompts, in the order of the file */
  int64_t count, capacity;
  int64_t longest;                   /* number of tokens of the longest prompt */
  char turn_end[TRI_TURN_END_BYTES]; /* text that the chat template prints after an answer; "": none, or no template is
                                        used */
  int64_t skipped;                   /* number of prompts that were left out because they were too long */
  char fingerprint[TRI_FINGERPRINT_BYTES]; /* fingerprint of the file */
  char *file;                              /* content of the file */
} tri_prompt_source;

typedef struct tri_prompt_source_options {
  const tri_tokenizer *tokenizer;
  const char *tokenizer_file;  /* path of the tokenizer; the chat template is in the same folder */
  const char *const *chat_set; /* [num_chat_set]: variables of the chat template, "NAME=VALUE" */
  int num_chat_set;
  int64_t longest; /* maximum number of tokens of a prompt */
  bool skip_long;  /* whether longer prompts are left out; if not, they are errors */
} tri_prompt_source_options;

/* LOCAL. Reads a file. Fails with TRI_BAD_FILE, with file and line in the message, for a line that is not valid, for a
 * prompt that is too long (unless skip_long), for a prompt without tokens if the tokenizer has no end-of-text token,
 * and for a file without prompts. Release with tri_prompt_source_release, also after a failure. */
tri_status tri_prompt_source_open(const char *path, const tri_prompt_source_options *options, tri_prompt_source *out);
void tri_prompt_source_release(tri_prompt_source *source);

/* Returns the index in source->list of the prompt of group `group` (of completions, from 0) of a run with this seed.
 * Each epoch has all prompts once, in its own order. */
int64_t tri_prompt_source_at(const tri_prompt_source *source, uint64_t seed, int64_t group);

#endif
