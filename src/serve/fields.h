/* The fields of a request for text, in the forms of OpenAI's API. */
#ifndef TRI_SERVE_FIELDS_H
#define TRI_SERVE_FIELDS_H

#include "generation/sampling.h"

#include <jansson.h>

/* Limits of a request, and of all requests together. */
typedef struct tri_serve_limits {
  int64_t body_bytes;     /* largest size of a request's body */
  int64_t texts;          /* texts of a request: prompts times n, or times best_of */
  int64_t stops, bias;    /* stop strings; entries of logit_bias */
  int64_t depth;          /* nesting of a body's JSON */
  int64_t queue;          /* requests that wait */
  int64_t connections;    /* connections at once */
  int64_t of_one_machine; /* connections of one machine, if other machines can reach the port */
  int64_t max_tokens;     /* default number of tokens of a chat's answer; 0: as many as there are positions left */
} tri_serve_limits;

enum {
  TRI_SERVE_MOST_STOPS = 64,
  TRI_SERVE_STOP_BYTES = 256,
  TRI_SERVE_MOST_TEXTS = 128,
  TRI_SERVE_IGNORED_BYTES = 256
};

/* Defaults of a server, for fields that a request does not have. */
typedef struct tri_serve_defaults {
  tri_sampling sampling;
  tri_serve_limits limits;
  const char *model;  /* name of the model that is served */
  const char *ignore; /* names of fields, separated by commas, that are ignored although they are not supported; NULL:
                         none */
  int64_t vocab_size;
} tri_serve_defaults;

typedef struct tri_serve_fields {
  json_t *root; /* the body; the other members refer to it */
  /* Whether this is a request for a chat completion. */
  bool chat;
  const json_t *prompt, *messages; /* one of the two is set; `messages` is a list, whose elements are not checked, nor
                                      is the type of `prompt` */
  const json_t *template_variables;
  int64_t n, best_of;
  int64_t max_tokens;                /* -1: not given */
  int64_t logprobs, prompt_logprobs; /* number of likeliest tokens; -1: no log-probabilities */
  bool echo, stream, include_usage, ignore_eos, return_token_ids, parse_special;
  bool generation_prompt, continues;       /* add_generation_prompt and continue_final_message of a chat */
  tri_sampling sampling;                   /* seed, and settings of sampling; without prompt and sample */
  const char *stops[TRI_SERVE_MOST_STOPS]; /* [num_stops] */
  int num_stops;
  tri_logit_bias *bias;                  /* [sampling.num_bias], owned */
  char ignored[TRI_SERVE_IGNORED_BYTES]; /* names of ignored fields, separated by commas */
  const char *param;                     /* name of the field that is wrong; NULL: none */
} tri_serve_fields;

/* Parses the body of a request for completions, or with `chat` for chat completions. Fails with TRI_BAD_USAGE if the
 * body is not a JSON object or a field is wrong, with TRI_UNSUPPORTED if a field is not supported, with TRI_IO_FAILED
 * if no seed can be drawn, and with TRI_BAD_FILE if the request is for another model; out->param is then the field's
 * name, NULL if the body is not an object. Release with tri_serve_fields_release, also after a failure. */
tri_status tri_serve_fields_read(const char *body, size_t bytes, bool chat, const tri_serve_defaults *defaults,
                                 tri_serve_fields *out);
void tri_serve_fields_release(tri_serve_fields *fields);

/* Parses a body that is a JSON object. Fails with TRI_BAD_USAGE if it is not, or if it is nested more than `depth`
 * levels deep. Release *out with json_decref. */
tri_status tri_serve_parse_object(const char *body, size_t bytes, int64_t depth, json_t **out);

#endif
