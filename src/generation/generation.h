/* A model that writes texts, several side by side: what `trireme generate` does with one prompt, with many, and with a
 * conversation, and a run with its samples.
 *
 * A text that is longer than the positions there are goes on with its end: what the model sees of a prompt are the last
 * tokens that there are positions for, and once none is left, the last half of what it saw is read again, at positions
 * from 0 on. Sliding by one token at a time would mean another position for every key in the cache, so all would have
 * to be read again for each token; half a context is the price of one reading for many tokens. */
#ifndef TRI_GENERATION_GENERATION_H
#define TRI_GENERATION_GENERATION_H

#include "checkpoint/merged.h"
#include "engine/model_options.h"
#include "generation/generator.h"
#include "generation/stop_text.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>

enum { TRI_MOST_STOPS = 64 };

/* Of which model, and how its texts are drawn and end. Numbers that are negative were not given. */
typedef struct tri_generation_request {
  const char *checkpoint;
  const char *stops[TRI_MOST_STOPS];
  int num_stops;
  int64_t top_k;
  double temperature, top_p, min_p, repetition_penalty;
  uint64_t seed;
  bool ignore_end;
  bool quiet; /* what the texts are like is not told */
  tri_model_options model;
  tri_device *lent; /* in the place of the one that `model` names; NULL: none is */
} tri_generation_request;

typedef struct tri_generation {
  const tri_generation_request *request;
  tri_model model;
  tri_merged weights;
  char tokenizer_file[TRI_PATH_BYTES];
  tri_tokenizer *tokenizer;
  tri_encoder *encoder;
  tri_sampling sampling;
  double penalty;              /* on repetition; 1: none */
  int32_t ends[TRI_MOST_ENDS]; /* tokens that end a text */
  int num_ends;
  tri_device *device;
  tri_generator *generator;
  int64_t positions; /* of each text */
  tri_candidate *scratch;
  double *penalised;
  bool slid; /* somebody has been told */
} tri_generation;

/* What the model's folder and the options say; no weights yet. Release with tri_generation_close, also after a failure.
 */
tri_status tri_generation_open(const tri_generation_request *request, tri_generation *out);
/* The weights, and room for `sequences` texts of that many positions; prompts[sequences] as in
 * tri_generator_create_many.
 */
tri_status tri_generation_load(tri_generation *generation, int64_t sequences, int64_t positions,
                               const int64_t *prompts);
void tri_generation_close(tri_generation *generation);

typedef struct tri_prompt {
  const char *text; /* with a NUL behind it, and perhaps others inside */
  size_t bytes;
  bool rendered; /* by a chat template */
} tri_prompt;

typedef enum tri_text_end { TRI_TEXT_GOES_ON, TRI_TEXT_LENGTH, TRI_TEXT_STOP, TRI_TEXT_END } tri_text_end;
/* "length", "stop" or "end". */
const char *tri_text_end_name(tri_text_end end);

/* A text that is being written. */
typedef struct tri_written {
  const char *prompt;
  size_t prompt_bytes;
  int64_t number;        /* of the prompt */
  uint64_t sample;       /* of those of one prompt */
  uint64_t prompt_key;   /* tri_sampling.prompt: the hash of the prompt's tokens, unless a caller sets another */
  tri_token_list tokens; /* the prompt's, and those made */
  int64_t wanted, made;  /* tokens */
  int64_t nameless;      /* those that the tokenizer does not know */
  size_t decoded;        /* bytes of all tokens made */
  tri_decoder *decoder;
  tri_stop_text text;
  size_t shown; /* bytes of it */
  tri_text_end end;
  bool streams; /* each piece is written to standard output as soon as it is certain */
} tri_written;

/* A text behind a prompt, which begins as the tokenizer's post_processor has it; one that is rendered by a chat
 * template is read as it stands, since the template prints those tokens where the model is to see them. */
tri_status tri_prompt_encode(tri_encoder *encoder, const tri_prompt *prompt, tri_token_list *out);
tri_status tri_written_begin(tri_generation *generation, const tri_prompt *prompt, int64_t wanted, tri_written *out);
void tri_written_release(tri_written *written);

/* Writes `count` texts side by side to their ends; as many as there was room asked for, at most. The first `held`
 * tokens of each are in the generator already (0: none, which is what a new text has). */
tri_status tri_generation_write(tri_generation *generation, tri_written *texts, int64_t count, int64_t held);

/* A line of samples.jsonl: {"step", "number", "sample", "prompt"} and what tri_written_json has; the step is the
 * checkpoint's, and null if the folder is not one. NULL if there is no memory. */
json_t *tri_generation_json(const tri_generation *generation, const tri_written *written);
/* {"text", "tokens", "finish"} and, where one ended it, "stop": bytes that are not UTF-8 are U+FFFD in it. */
json_t *tri_written_json(const tri_written *written);
json_t *tri_json_text(const char *text, size_t bytes);

#endif
