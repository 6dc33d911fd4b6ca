/* The part of a server that HTTP's threads and the engine's thread share: the queue of requests, the counters, and the
 * model's properties. HTTP's threads check and encode requests, and append them to the queue as *jobs*; the
 * engine's thread takes them, generates their texts, and replies (engine.h). */
#ifndef TRI_SERVE_FRONT_H
#define TRI_SERVE_FRONT_H

#include "chat/prompts.h"
#include "generation/generation.h"
#include "serve/fields.h"
#include "serve/follow.h"

#include <pthread.h>

typedef struct tri_serve_job tri_serve_job;

enum { TRI_SERVE_DELAYS = 12, TRI_SERVE_NAME_BYTES = 256 };

/* Numbers for /metrics. */
typedef struct tri_serve_counters {
  int64_t accepted, completed, cancelled, failed, refused; /* numbers of requests; refused: those not accepted */
  int64_t running, waiting;                                /* requests at present */
  int64_t prompt_tokens, sampled_tokens;                   /* sampled_tokens: tokens that end a text count, too */
  int64_t pages, free_pages,
      found_tokens; /* pages: all pages of keys and values of the first replica; free_pages: those that no text in
                       progress uses; found_tokens: tokens of prompts whose pages were cached */
  int64_t delays[TRI_SERVE_DELAYS + 1]; /* requests by the time to their first token: more than tri_serve_delays[i - 1]
                                           and at most tri_serve_delays[i] seconds (metrics.h); the last element
                                           counts those above all limits */
  double delays_s;                      /* sum of the times to the first token, seconds */
} tri_serve_counters;

typedef struct tri_serve_front {
  /* Constant while the server runs: */
  tri_generation *generation;
  tri_serve_defaults defaults;
  tri_runner_sizes sizes;
  int64_t batch;            /* places for texts on all replicas */
  tri_serve_follow *follow; /* NULL: the weights stay the same; used by the engine's thread only */
  int64_t created_s;        /* time of the start, seconds since 1970 */
  double ping_s;            /* longest silence of a stream, seconds */
  const char *no_template;  /* reason if there is no chat template */

  /* Encoding, under its own mutex: */
  pthread_mutex_t encoding;
  tri_encoder *encoder;
  tri_chat_prompts chat; /* session NULL: the model has no chat template; turn_end is constant */

  /* Under `mutex`: */
  pthread_mutex_t mutex;
  pthread_cond_t wake;         /* signalled when a job is appended */
  tri_serve_job *first, *last; /* jobs that wait */
  bool closing;                /* whether new requests are refused */
  tri_serve_counters counters;
} tri_serve_front;

#endif
