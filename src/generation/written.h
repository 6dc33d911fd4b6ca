/* A text that a model writes: its prompt, its tokens, and its characters up to the end. Used by `trireme generate` for
 * one prompt, many prompts and conversations, by `eval --answers`, and for the samples of a run. */
#ifndef TRI_GENERATION_WRITTEN_H
#define TRI_GENERATION_WRITTEN_H

#include "generation/generation.h"
#include "generation/stop_text.h"

#include <jansson.h>

typedef struct tri_prompt {
  const char *text; /* NUL-terminated, and may contain further NULs */
  size_t bytes;
  bool rendered; /* made by a chat template */
} tri_prompt;

typedef struct tri_written tri_written;
struct tri_written {
  tri_generation *generation;
  const char *prompt;
  size_t prompt_bytes;
  int64_t number;        /* index of the prompt */
  tri_token_list tokens; /* the prompt's tokens [prompt_tokens], then all sampled ones */
  int64_t prompt_tokens;
  int64_t wanted, made; /* wanted: tokens to sample; made: sampled tokens, except a last one in tri_generation.ends */
  int64_t nameless;     /* sampled tokens that the tokenizer does not know */
  size_t decoded;       /* bytes of all sampled tokens */
  tri_sampling sampling;
  tri_sampling_request requested; /* numbers to compute for each token */
  tri_sampled *sampled;           /* [tokens.count - prompt_tokens], if `requested` asks for any */
  int64_t sampled_room;
  double *prompt_scores; /* [prompt_tokens - 1], log-probabilities of the prompt's tokens from the second on; NULL: not
                            computed */
  const double *prompt_log_probs; /* prompt_scores of the first text with the same prompt, which owns the array; NULL:
                                     not computed */
  tri_decoder *decoder;
  tri_stop_text text;
  size_t shown; /* bytes of the text that have been written to standard output */
  tri_finish finish;
  bool streams; /* each piece is written to standard output as soon as it is certain */
  tri_status (*done)(void *context, tri_written *written); /* called when the text has ended; may be NULL */
  void *context;
};

/* Encodes a prompt. The tokenizer's post_processor adds its tokens, except to a prompt made by a chat template, since
 * the template prints them itself. */
tri_status tri_prompt_encode(tri_encoder *encoder, const tri_prompt *prompt, tri_token_list *out);
/* Encodes the prompt; nothing is generated yet. Release with tri_written_release. */
tri_status tri_written_begin(tri_generation *generation, const tri_prompt *prompt, int64_t wanted, tri_written *out);
void tri_written_release(tri_written *written);
/* Keeps only the last `count` tokens of the prompt. Must be called before the text is started. */
void tri_written_keep_last(tri_written *written, int64_t count);

/* Gives the text to the dispatcher: as a fork of the sequence `prompt`, which has read the text's prompt, or as a new
 * sequence if `prompt` is NULL. The text must stay at its address until it ends. */
tri_status tri_written_start(tri_written *written, const tri_sequence *prompt);
/* Starts the text and runs steps until it ends. */
tri_status tri_written_write(tri_written *written);

/* Returns a line of samples.jsonl: {"step", "number", "sample", "prompt"} and the members of tri_written_json, and
 * "unmerged": true if an adapter's factors are kept apart from the base. "step" is the checkpoint's step, null if the
 * folder is not a checkpoint. Returns NULL if memory is exhausted. */
json_t *tri_generation_json(const tri_generation *generation, const tri_written *written);
/* Returns {"text", "tokens", "finish", "stop"}; bytes that are not UTF-8 become U+FFFD. If log-probabilities were asked
 * for, also "prompt_ids", "ids" (the last may be the token that ended the text) and "logprobs", an object of lists:
 * "prompt" has an element for each prompt id; "model", "sampled", "entropy" and "top" have one for each of the ids.
 * "prompt" is left out if the prompt has several tokens and they were not scored; "top" is null unless likeliest tokens
 * were asked for. */
json_t *tri_written_json(const tri_written *written);

#endif
