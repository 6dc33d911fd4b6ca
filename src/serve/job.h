/* A request for text: its fields, its prompts and its texts. */
#ifndef TRI_SERVE_JOB_H
#define TRI_SERVE_JOB_H

#include "generation/written.h"
#include "http/server.h"
#include "serve/front.h"

typedef struct tri_serve_prompt {
  const char *text; /* [bytes], owned by the fields or by `owned` */
  size_t bytes;
  char *owned;
  bool rendered; /* whether the chat template made the text */
  tri_token_list tokens;
} tri_serve_prompt;

struct tri_serve_job {
  tri_serve_front *front;
  tri_http_request *request;
  int key; /* index of the client's key */
  tri_serve_fields fields;
  tri_serve_prompt *prompts; /* [num_prompts] */
  int64_t num_prompts;
  tri_written *texts; /* [num_prompts * best_of]; those of a prompt are adjacent */
  int64_t num_texts;
  int64_t left;                                /* texts that have not ended */
  int64_t *sent_tokens;                        /* [num_texts], sampled tokens that a stream has sent */
  const char *stops[TRI_SERVE_MOST_STOPS + 1]; /* [num_stops], those of the fields and the end of a turn */
  int num_stops;
  char id[40];
  int64_t created_s;    /* seconds since 1970 */
  double accepted_s;    /* time of acceptance, on tri_clock_s */
  double first_token_s; /* 0: no token yet */
  double written_s;     /* time of the last piece of a stream, on tri_clock_s */
  bool begun;           /* whether the stream has begun */
  tri_status failed;    /* status of its first text that failed; TRI_OK: none has */
  char *failure;        /* reason of the failure; NULL: none, or memory was exhausted */
  tri_serve_job *next;  /* in the queue, or in the engine's list */
};

/* Creates the job of a request's body, with encoded prompts. `chat`: whether the request is for a chat completion.
 * `key`: index of the client's key (tri_http_key). Returns NULL on failure, and sets *fault to the reply. */
tri_serve_job *tri_serve_job_create(tri_serve_front *front, const char *body, size_t bytes, bool chat, int key,
                                    tri_http_reply *fault);
/* Releases a job and its request. No step may run afterwards while a text of the job is in progress. Ignores NULL. */
void tri_serve_job_destroy(tri_serve_job *job);

/* Renders and encodes the messages of a chat, with the front's mutex `encoding` locked. Fails with TRI_BAD_USAGE if the
 * model has no chat template, if the template does not accept the messages or prints nothing for them, or if there are
 * none. */
tri_status tri_serve_encode_chat(tri_serve_front *front, const tri_serve_fields *fields, tri_serve_prompt *out);

/* Reads a list of token ids, the value of a field, and decodes it. Fails with TRI_BAD_USAGE if an element is not a
 * token id. */
tri_status tri_serve_read_ids(const tri_serve_front *front, const char *field, const json_t *list,
                              tri_serve_prompt *out);

/* ---- answers (answer.c) ------------------------------------------------------------------------------------------ */

/* Returns the whole answer; NULL if memory is exhausted. */
json_t *tri_serve_answer(const tri_serve_job *job);
/* Appends an event to a stream if a text has grown since its last event; `ended`: in any case, with the text's
 * finish_reason. Begins the stream, unless it has begun. */
tri_status tri_serve_stream_text(tri_serve_job *job, tri_written *text, bool ended);
/* Ends a stream: sends the usage if it was asked for, and [DONE]. Begins the stream before, unless it has begun. */
tri_status tri_serve_stream_end(tri_serve_job *job);
/* Begins the stream, unless it has begun: sends the head of the reply and, for a chat, an event with the role of each
 * text. */
tri_status tri_serve_stream_begin(tri_serve_job *job);
/* Ends a stream with an event that has an error. */
void tri_serve_stream_fail(tri_serve_job *job, int code, const char *message);

#endif
