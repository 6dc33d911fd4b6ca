/* The other ranks' side of the dispatcher: executes verbs between steps of the generator, and sends the events of a
 * step as one message. */
#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/memory.h"
#include "generation/dispatcher_internal.h"

#include <string.h>

static const double LONGEST_WAIT_S = 1;

/* A sequence of this rank's generator. */
struct tri_followed {
  tri_dispatcher *dispatcher;
  tri_sequence *real;
  int64_t slot, serial;
  int64_t likeliest; /* tri_sampling_request.likeliest */
  double *scores;    /* [num_scores] */
  int64_t num_scores;
  int64_t scored_likeliest;
  tri_likely
      *likely_scored; /* [num_scores, scored_likeliest], likeliest tokens at the positions of the scored tokens */
  bool scores_sent;
  int32_t *ends;        /* [num_ends] */
  tri_logit_bias *bias; /* [sampling.num_bias] */
};

/* Frees the arrays of the sequence's options. */
static void free_options(tri_followed *s) {
  tri_free(s->scores);
  tri_free(s->likely_scored);
  tri_free(s->ends);
  tri_free(s->bias);
  s->scores = NULL;
  s->likely_scored = NULL;
  s->ends = NULL;
  s->bias = NULL;
}

static void free_followed(tri_followed *s) {
  free_options(s);
  tri_free(s);
}

void tri_dispatcher_release_followed(tri_dispatcher *d) {
  for (int64_t i = 0; i < d->num_followed; i++) {
    if (d->followed[i] == NULL) continue;
    if (d->followed[i]->real != NULL) tri_generator_release(d->generator, d->followed[i]->real);
    free_followed(d->followed[i]);
  }
  tri_free(d->followed);
  d->followed = NULL;
  d->num_followed = 0;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Sends the scores with the first event after they are complete: the first token, or else the end. */
static tri_status send_scores(tri_followed *s) {
  tri_link *link = &s->dispatcher->links[0];
  const tri_event event = {.kind = TRI_EVENT_SCORES,
                           .slot = s->slot,
                           .serial = s->serial,
                           .count = s->num_scores,
                           .scored_likeliest = s->scored_likeliest};
  const size_t likeliest = (size_t)(s->num_scores * s->scored_likeliest);
  if (s->scores_sent || s->num_scores == 0) return TRI_OK;
  s->scores_sent = true;
  TRI_TRY(tri_link_append(link, &event, sizeof event));
  TRI_TRY(tri_link_append(link, s->scores, (size_t)s->num_scores * sizeof *s->scores));
  return tri_link_append(link, s->likely_scored, likeliest * sizeof *s->likely_scored);
}

static tri_status send_token(void *context, tri_sequence *sequence, const tri_sampled *sampled, bool *stop) {
  tri_followed *s = context;
  tri_link *link = &s->dispatcher->links[0];
  TRI_TRY(send_scores(s));
  const tri_event event = {.kind = TRI_EVENT_TOKEN,
                           .id = sampled->id,
                           .slot = s->slot,
                           .serial = s->serial,
                           .count = s->likeliest,
                           .version = sampled->version,
                           .log_prob = sampled->log_prob,
                           .entropy = sampled->entropy,
                           .sampled_log_prob = sampled->sampled_log_prob};
  (void)sequence;
  (void)stop;
  TRI_TRY(tri_link_append(link, &event, sizeof event));
  return tri_link_append(link, sampled->likeliest, (size_t)s->likeliest * sizeof *sampled->likeliest);
}

static tri_status send_done(void *context, tri_sequence *sequence) {
  tri_followed *s = context;
  const tri_event event = {.kind = TRI_EVENT_DONE,
                           .finish = tri_sequence_finish(sequence),
                           .slid = tri_sequence_has_slid(sequence),
                           .slot = s->slot,
                           .serial = s->serial};
  if (event.finish != TRI_FINISH_CANCELLED) TRI_TRY(send_scores(s));
  return tri_link_append(&s->dispatcher->links[0], &event, sizeof event);
}

/* Sends the reason why the sequence has failed. */
static tri_status send_failed(void *context, tri_sequence *sequence) {
  const tri_followed *s = context;
  const char *reason = tri_status_message();
  const tri_event event = {
      .kind = TRI_EVENT_FAILED, .slot = s->slot, .serial = s->serial, .count = (int64_t)strlen(reason)};
  (void)sequence;
  TRI_TRY(tri_link_append(&s->dispatcher->links[0], &event, sizeof event));
  return tri_link_append(&s->dispatcher->links[0], reason, (size_t)event.count);
}

static tri_status send_left(const tri_dispatcher *d) {
  const tri_event event = {.kind = TRI_EVENT_LEFT};
  const tri_generator_counts counts = tri_generator_count(d->generator);
  TRI_TRY(tri_link_append(&d->links[0], &event, sizeof event));
  TRI_TRY(tri_link_append(&d->links[0], &counts, sizeof counts));
  return tri_link_flush_all(&d->links[0]);
}

/* ---- verbs ------------------------------------------------------------------------------------------------------- */

static tri_status reserve_slot(tri_dispatcher *d, int64_t slot) {
  const int64_t room = 2 * slot + 64;
  if (slot < d->num_followed) return TRI_OK;
  TRI_TRY(tri_realloc("sequences", (size_t)room, sizeof *d->followed, &d->followed));
  d->num_followed = room;
  return TRI_OK;
}

/* Reads the verb's ends and biases, and allocates its scores and likeliest tokens. */
static tri_status set_options(tri_followed *s, const tri_verb *verb, const tri_link_bytes *message, size_t *at,
                              tri_sequence_options *out) {
  free_options(s);
  TRI_TRY(tri_alloc("scores", (size_t)verb->scored, sizeof *s->scores, &s->scores));
  TRI_TRY(tri_alloc("likeliest tokens", (size_t)(verb->scored * verb->scored_likeliest), sizeof *s->likely_scored,
                    &s->likely_scored));
  TRI_TRY(tri_alloc("tokens", (size_t)verb->num_ends, sizeof *s->ends, &s->ends));
  TRI_TRY(tri_alloc("biases", (size_t)verb->sampling.num_bias, sizeof *s->bias, &s->bias));
  TRI_TRY(tri_link_take(message, at, s->ends, (size_t)verb->num_ends * sizeof *s->ends));
  TRI_TRY(tri_link_take(message, at, s->bias, (size_t)verb->sampling.num_bias * sizeof *s->bias));
  s->serial = verb->serial;
  s->num_scores = verb->scored;
  s->scored_likeliest = verb->scored_likeliest;
  s->scores_sent = false;
  s->likeliest = verb->requested.likeliest;
  *out =
      (tri_sequence_options){.sampling = verb->sampling,
                             .ends = s->ends,
                             .num_ends = verb->num_ends,
                             .wanted = verb->wanted,
                             .requested = verb->requested,
                             .scored = verb->scored,
                             .scores = s->scores,
                             .scored_likeliest = verb->scored_likeliest,
                             .likeliest = s->likely_scored,
                             .owner = verb->owner,
                             .observer = {.context = s, .token = send_token, .done = send_done, .failed = send_failed}};
  out->sampling.bias = s->bias;
  return TRI_OK;
}

static tri_status read_sequence(tri_dispatcher *d, const tri_verb *verb, const int32_t *ids,
                                const tri_link_bytes *message, size_t *at) {
  tri_sequence_options options;
  tri_followed *s = d->followed[verb->slot];
  TRI_TRY(set_options(s, verb, message, at, &options));
  switch (verb->kind) {
    case TRI_VERB_BEGIN: return tri_generator_begin(d->generator, ids, verb->count, &options, &s->real);
    case TRI_VERB_FORK:
      return tri_generator_fork(d->generator, d->followed[verb->from]->real, ids, verb->count, &options, &s->real);
    case TRI_VERB_EXTEND: return tri_generator_extend(d->generator, s->real, ids, verb->count, &options);
    case TRI_VERB_REWIND:
    case TRI_VERB_CANCEL:
    case TRI_VERB_RELEASE:
    case TRI_VERB_DISMISS: break;
  }
  return tri_fail_internal("verb %d reads no tokens", (int)verb->kind);
}

/* Begins, forks or extends a sequence. */
static tri_status start_sequence(tri_dispatcher *d, const tri_verb *verb, const tri_link_bytes *message, size_t *at) {
  int32_t *ids = NULL;
  TRI_TRY(reserve_slot(d, verb->slot));
  if (d->followed[verb->slot] == NULL) {
    TRI_TRY(tri_alloc("a sequence", 1, sizeof **d->followed, &d->followed[verb->slot]));
    d->followed[verb->slot]->dispatcher = d;
    d->followed[verb->slot]->slot = verb->slot;
  }
  TRI_TRY(tri_alloc("tokens", (size_t)verb->count, sizeof *ids, &ids));
  tri_status status = tri_link_take(message, at, ids, (size_t)verb->count * sizeof *ids);
  if (status == TRI_OK) status = read_sequence(d, verb, ids, message, at);
  tri_free(ids);
  return status;
}

static tri_status execute(tri_dispatcher *d, const tri_verb *verb, const tri_link_bytes *message, size_t *at,
                          bool *dismissed) {
  tri_followed *s = NULL;
  if (verb->kind == TRI_VERB_BEGIN || verb->kind == TRI_VERB_FORK || verb->kind == TRI_VERB_EXTEND)
    return start_sequence(d, verb, message, at);
  if (verb->kind == TRI_VERB_DISMISS) {
    *dismissed = true;
    return TRI_OK;
  }
  s = d->followed[verb->slot];
  if (verb->kind == TRI_VERB_CANCEL) return tri_generator_cancel(d->generator, s->real);
  if (verb->kind == TRI_VERB_REWIND) {
    tri_generator_rewind(d->generator, s->real, verb->count);
    return TRI_OK;
  }
  tri_generator_release(d->generator, s->real);
  free_followed(s);
  d->followed[verb->slot] = NULL;
  return TRI_OK;
}

static tri_status execute_all(tri_dispatcher *d, bool *dismissed) {
  const tri_link_bytes *message = &d->links[0].received;
  for (size_t at = 0; at < message->count;) {
    tri_verb verb;
    TRI_TRY(tri_link_take(message, &at, &verb, sizeof verb));
    TRI_TRY(execute(d, &verb, message, &at, dismissed));
  }
  return TRI_OK;
}

tri_status tri_dispatcher_follow(tri_dispatcher *d) {
  tri_link *link = &d->links[0];
  if (d->generator == NULL) return tri_runner_follow(d->runner);
  double idle_since_s = tri_clock_s();
  for (bool dismissed = false; !dismissed;) {
    bool got = false, more = false;
    TRI_TRY(tri_link_poll(link, &got));
    if (got) TRI_TRY(execute_all(d, &dismissed));
    if (got) idle_since_s = 0;
    if (got) continue; /* execute all verbs that have arrived before the step */
    TRI_TRY(tri_generator_step(d->generator, &more));
    TRI_TRY(tri_link_flush(link));
    if (more) continue;
    TRI_TRY(tri_link_flush_all(link));
    const tri_request *awaited = tri_link_awaited(link);
    const double begin_s = tri_clock_s();
    if (idle_since_s == 0) idle_since_s = begin_s;
    TRI_TRY(tri_request_wait_any(&awaited, 1, idle_since_s, LONGEST_WAIT_S));
    d->waited_s += tri_clock_s() - begin_s;
    tri_recorder_beat();
  }
  TRI_TRY(send_left(d));
  return tri_runner_dismiss(d->runner);
}
