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
  bool rendered; /* whether a chat template made the text */
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
  const int32_t *ends;  /* [num_ends], tokens that end the text */
  int num_ends;
  tri_sampling sampling;
  int64_t owner;                  /* tri_sequence_options.owner */
  tri_sampling_request requested; /* numbers to compute for each token */
  tri_sampled *sampled;           /* [tokens.count - prompt_tokens], if `requested` asks for any */
  int64_t sampled_room;
  double *prompt_scores; /* [prompt_tokens - 1], log-probabilities of the prompt's tokens from the second on; NULL: not
                            computed */
  tri_likely *prompt_likeliest; /* [prompt_tokens - 1][num_prompt_likeliest], the likeliest tokens at the positions of
                                   prompt_scores; NULL: not computed */
  int64_t num_prompt_likeliest;
  const double *prompt_log_probs; /* prompt_scores of the first text with the same prompt, which owns the array; NULL:
                                     not computed */
  tri_decoder *decoder;
  tri_stop_text text;
  size_t shown;           /* for `grew`: leading bytes of the text that were shown */
  tri_sequence *sequence; /* the text's sequence, or that of its prompt while the prompt is read; NULL: none */
  int64_t samples;        /* number of texts of the prompt, in its first text (tri_written_start_samples) */
  tri_finish finish;
  /* Each may be NULL. `grew` is called when bytes of the text may have become certain: after each token, and before
   * `done`. `done` is called when the text has ended. `failed` is called instead of `done` when logits of the text or
   * of its prompt were not finite; tri_status_message() is the reason. `failed` NULL: the dispatcher's step fails with
   * the reason. */
  tri_status (*grew)(void *context, tri_written *written);
  tri_status (*done)(void *context, tri_written *written);
  tri_status (*failed)(void *context, tri_written *written);
  void *context;
};

/* Encodes a prompt. The tokenizer's post_processor adds its tokens, except to a prompt made by a chat template, since
 * the template prints them itself. */
tri_status tri_prompt_encode(tri_encoder *encoder, const tri_prompt *prompt, tri_token_list *out);
/* Encodes the prompt; nothing is generated yet. The prompt's text is not copied. *out must be zeroed; release it with
 * tri_written_release, also after a failure. */
tri_status tri_written_begin(tri_generation *generation, const tri_prompt *prompt, int64_t wanted, tri_written *out);
/* Works like tri_written_begin with a prompt that is already encoded, to at least one token. Takes the list's memory.
 * Any thread may call this. */
tri_status tri_written_begin_tokens(tri_generation *generation, const tri_prompt *prompt, tri_token_list *tokens,
                                    int64_t wanted, tri_written *out);
void tri_written_release(tri_written *written);
/* Keeps only the last `count` tokens of the prompt. Must be called before the text is started. */
void tri_written_keep_last(tri_written *written, int64_t count);

/* Gives the text to the dispatcher. The text must stay at its address until it ends. */
tri_status tri_written_start(tri_written *written);
/* Gives `samples` texts of one prompt, first[0], first[1] ..., to the dispatcher. If there are several, the prompt is
 * read first, once, and scored for first[0]; until then first[0].sequence is the prompt's. If the prompt's sequence is
 * cancelled, no text is started, and `done` is not called. If the prompt's sequence fails, `failed` is called for
 * first[0] only. */
tri_status tri_written_start_samples(tri_written *first, int64_t samples);
/* Ends a text that is in progress; its `done` is called. Does nothing otherwise. */
tri_status tri_written_cancel(tri_written *written);
/* A function for `grew`: writes the text to standard output as it becomes certain. */
tri_status tri_written_print(void *context, tri_written *written);
/* Starts the text and runs steps until all texts of the generation have ended (tri_generation_run). */
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
