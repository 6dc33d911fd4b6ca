/* A text that a model writes: its prompt, its tokens, and what they spell up to where it ends. What `trireme generate`
 * does with one prompt, with many, and with a conversation, `eval --answers`, and a run with its samples. */
#ifndef TRI_GENERATION_WRITTEN_H
#define TRI_GENERATION_WRITTEN_H

#include "generation/generation.h"
#include "generation/stop_text.h"

#include <jansson.h>

typedef struct tri_prompt {
  const char *text; /* with a NUL behind it, and perhaps others inside */
  size_t bytes;
  bool rendered; /* by a chat template */
} tri_prompt;

typedef struct tri_written tri_written;
struct tri_written {
  tri_generation *generation;
  const char *prompt;
  size_t prompt_bytes;
  int64_t number;        /* of the prompt */
  tri_token_list tokens; /* the prompt's, [prompt_tokens], and those made, the one that ended it too */
  int64_t prompt_tokens;
  int64_t wanted, made; /* tokens; made: that are of the text */
  int64_t nameless;     /* those that the tokenizer does not know */
  size_t decoded;       /* bytes of all tokens made */
  tri_sampling sampling;
  tri_sampling_wish wish; /* of each token */
  tri_sampled *sampled;   /* [tokens.count - prompt_tokens], where there is a wish */
  int64_t sampled_room;
  double *prompt_scores; /* [prompt_tokens - 1]: log-probabilities of the prompt's tokens but the first, which it reads
                            itself; NULL: it does not */
  const double *prompt_log_probs; /* the same, its own or those of the prompt's first sample */
  tri_decoder *decoder;
  tri_stop_text text;
  size_t shown; /* bytes of it */
  tri_finish finish;
  bool streams; /* each piece is written to standard output as soon as it is certain */
  tri_status (*done)(void *context, tri_written *written); /* told at its end; or NULL */
  void *context;
};

/* A text behind a prompt, which begins as the tokenizer's post_processor has it; one that is rendered by a chat
 * template is read as it stands, since the template prints those tokens where the model is to see them. */
tri_status tri_prompt_encode(tri_encoder *encoder, const tri_prompt *prompt, tri_token_list *out);
/* The prompt's tokens; nothing is written yet. Release with tri_written_release. */
tri_status tri_written_begin(tri_generation *generation, const tri_prompt *prompt, int64_t wanted, tri_written *out);
void tri_written_release(tri_written *written);
/* Of the prompt only the last `count` tokens are read; before it is started. */
void tri_written_keep_last(tri_written *written, int64_t count);

/* Gives it to the generator, alone or behind a sequence that has read its prompt. It stays where it is until its end.
 */
tri_status tri_written_start(tri_written *written, const tri_sequence *prompt);
/* The same, and steps until its end. */
tri_status tri_written_write(tri_written *written);

/* A line of samples.jsonl: {"step", "number", "sample", "prompt"} and what tri_written_json has; the step is the
 * checkpoint's, and null if the folder is not one. NULL if there is no memory. */
json_t *tri_generation_json(const tri_generation *generation, const tri_written *written);
/* {"text", "tokens", "finish", "stop"}: bytes that are not UTF-8 are U+FFFD in it. Where log-probabilities were asked
 * for, "prompt_ids" and "ids" too, of which the last may be the token that ended the text, and "logprobs", aligned with
 * them: {"model", "sampled", "entropy", "prompt", "top"}. */
json_t *tri_written_json(const tri_written *written);
json_t *tri_json_text(const char *text, size_t bytes);

#endif
