/* The first rank's side of the dispatcher. Another rank identifies its sequences by their slots. Verbs are appended to
 * the link of that rank and sent with the next step, so that all verbs of a step are one message. */
#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/memory.h"
#include "generation/dispatcher_internal.h"
#include "generation/sequence.h"

static const double LONGEST_WAIT_S = 0.1; /* between two waits, a caller can check for a stop request (base/stop.h) */

/* The first rank's record of a sequence. Callers get a pointer to `shown`. */
struct tri_dispatched {
  tri_sequence shown; /* first member, so that a tri_sequence * of a caller is a tri_dispatched *; the members
                         of `shown` about read positions and pages are not used */
  tri_dispatcher *dispatcher;
  int replica;
  int64_t slot, serial;
  int64_t owed;       /* this sequence's share of dispatcher->outstanding[replica] */
  tri_sequence *real; /* the sequence of this rank's generator; NULL: the sequence is on another rank */
  int64_t longest;    /* number of tokens of the sequence when all options.wanted tokens are sampled */
  bool cut; /* whether the sequence was stopped or cancelled while on another rank, which may sample more tokens until
               the verb arrives */
};

static tri_dispatched *dispatched(tri_sequence *sequence) { return (tri_dispatched *)(void *)sequence; }
static const tri_dispatched *dispatched_const(const tri_sequence *sequence) {
  return (const tri_dispatched *)(const void *)sequence;
}

tri_status tri_dispatcher_create(const tri_replicas *replicas, tri_runner *runner, tri_generator *generator,
                                 tri_dispatcher **out) {
  const tri_group *group = &replicas->leaders;
  tri_dispatcher *d = NULL;
  TRI_TRY(tri_alloc("a dispatcher", 1, sizeof *d, &d));
  d->group = *group;
  d->runner = runner;
  d->generator = generator;
  const size_t links = group->rank == 0 ? (size_t)group->size : 1;
  tri_status status = tri_alloc("links between ranks", links, sizeof *d->links, &d->links);
  if (status == TRI_OK) status = tri_alloc("replicas", (size_t)group->size, sizeof *d->outstanding, &d->outstanding);
  if (status == TRI_OK) status = tri_alloc("replicas", (size_t)group->size, sizeof *d->dismissed, &d->dismissed);
  for (int i = 0; status == TRI_OK && i < (int)links; i++)
    d->links[i] = (tri_link){.group = &d->group, .peer = group->rank == 0 ? i : 0};
  if (status == TRI_OK) *out = d;
  if (status != TRI_OK) tri_dispatcher_destroy(d);
  return status;
}

static void free_dispatched(tri_dispatched *s) {
  s->dispatcher->list[s->slot] = NULL;
  tri_free(s->shown.ids);
  tri_free(s);
}

void tri_dispatcher_destroy(tri_dispatcher *d) {
  if (d == NULL) return;
  for (int64_t i = 0; i < d->count; i++) {
    if (d->list[i] == NULL) continue;
    if (d->list[i]->real != NULL) tri_generator_release(d->generator, d->list[i]->real);
    free_dispatched(d->list[i]);
  }
  tri_dispatcher_release_followed(d);
  for (int i = 0; d->links != NULL && i < (d->group.rank == 0 ? d->group.size : 1); i++) tri_link_release(&d->links[i]);
  tri_free(d->links);
  tri_free(d->outstanding);
  tri_free(d->dismissed);
  tri_free(d->list);
  tri_free(d);
}

double tri_dispatcher_waited_s(const tri_dispatcher *d) { return d->waited_s; }

int tri_dispatcher_replicas(const tri_dispatcher *d) { return d->group.size; }

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Sets the number of outstanding tokens of the sequence. */
static void owe(tri_dispatched *s, int64_t tokens) {
  s->dispatcher->outstanding[s->replica] += tokens - s->owed;
  s->owed = tokens;
}

static tri_status add_token(tri_dispatched *s, const tri_sampled *sampled, bool *stop) {
  tri_sequence *shown = &s->shown;
  const tri_sequence_observer *observer = &shown->options.observer;
  if (shown->sampled == 0) owe(s, shown->options.wanted); /* its given tokens are read */
  TRI_TRY(tri_sequence_append(shown, &sampled->id, 1));
  shown->sampled++;
  owe(s, s->owed - 1);
  return observer->token == NULL ? TRI_OK : observer->token(observer->context, shown, sampled, stop);
}

static tri_status end(tri_dispatched *s, tri_finish finish, bool slid) {
  const tri_sequence_observer *observer = &s->shown.options.observer;
  s->shown.finish = finish;
  s->shown.slid = slid;
  owe(s, 0);
  if (s->real == NULL) s->dispatcher->elsewhere--;
  return observer->done == NULL ? TRI_OK : observer->done(observer->context, &s->shown);
}

/* Ends a sequence that has failed; tri_status_message() is the reason. */
static tri_status fail(tri_dispatched *s) {
  const tri_sequence_observer *observer = &s->shown.options.observer;
  s->shown.finish = TRI_FINISH_FAILED;
  owe(s, 0);
  if (s->real == NULL) s->dispatcher->elsewhere--;
  return observer->failed == NULL ? TRI_DIVERGED : observer->failed(observer->context, &s->shown);
}

static tri_status token_here(void *context, tri_sequence *real, const tri_sampled *sampled, bool *stop) {
  (void)real;
  return add_token(context, sampled, stop);
}

static tri_status done_here(void *context, tri_sequence *real) {
  return end(context, tri_sequence_finish(real), tri_sequence_has_slid(real));
}

static tri_status failed_here(void *context, tri_sequence *real) {
  (void)real;
  return fail(context);
}

/* ---- verbs ------------------------------------------------------------------------------------------------------- */

static tri_link *link_of(const tri_dispatched *s) { return &s->dispatcher->links[s->replica]; }

/* Appends a verb with the options of the sequence, and with the last `count` of its tokens. */
static tri_status send_reading(tri_dispatched *s, tri_verb_kind kind, int64_t from, int64_t count) {
  const tri_sequence_options *options = &s->shown.options;
  const tri_verb verb = {.kind = kind,
                         .num_ends = options->num_ends,
                         .slot = s->slot,
                         .from = from,
                         .count = count,
                         .serial = s->serial,
                         .wanted = options->wanted,
                         .scored = options->scored,
                         .scored_likeliest = options->scored_likeliest,
                         .owner = options->owner,
                         .sampling = options->sampling,
                         .requested = options->requested};
  s->dispatcher->dismissed[s->replica] = false;
  TRI_TRY(tri_link_append(link_of(s), &verb, sizeof verb));
  TRI_TRY(tri_link_append(link_of(s), s->shown.ids + s->shown.count - count, (size_t)count * sizeof *s->shown.ids));
  TRI_TRY(tri_link_append(link_of(s), options->ends, (size_t)options->num_ends * sizeof *options->ends));
  return tri_link_append(link_of(s), options->sampling.bias,
                         (size_t)options->sampling.num_bias * sizeof *options->sampling.bias);
}

static tri_status send_plain(tri_dispatched *s, tri_verb_kind kind, int64_t count) {
  const tri_verb verb = {.kind = kind, .slot = s->slot, .count = count};
  return tri_link_append(link_of(s), &verb, sizeof verb);
}

static tri_status find_slot(tri_dispatcher *d, int64_t *out) {
  for (*out = 0; *out < d->count; ++*out) {
    if (d->list[*out] == NULL) return TRI_OK;
  }
  TRI_TRY(tri_grow("sequences", sizeof(tri_dispatched *), d->count, &d->room, &d->list));
  d->list[d->count++] = NULL;
  return TRI_OK;
}

static tri_status create(tri_dispatcher *d, int replica, tri_dispatched **out) {
  int64_t slot = 0;
  TRI_TRY(find_slot(d, &slot));
  TRI_TRY(tri_alloc("a sequence", 1, sizeof **out, out));
  **out = (tri_dispatched){.dispatcher = d, .replica = replica, .slot = slot};
  d->list[slot] = *out;
  return TRI_OK;
}

/* Sets the options of a sequence that is begun, forked or extended, after its new tokens have been appended. `unread`:
 * number of these new tokens. */
static void start(tri_dispatched *s, const tri_sequence_options *options, int64_t unread) {
  s->shown.options = *options;
  s->shown.sampled = 0;
  s->shown.finish = TRI_FINISH_NONE;
  s->serial = ++s->dispatcher->serial;
  s->cut = false;
  s->longest = s->shown.count + options->wanted;
  owe(s, unread + options->wanted);
  if (s->real == NULL) s->dispatcher->elsewhere++;
}

/* Returns the options for this rank's generator. */
static tri_sequence_options options_here(tri_dispatched *s, const tri_sequence_options *options) {
  tri_sequence_options out = *options;
  out.observer = (tri_sequence_observer){.context = s, .token = token_here, .done = done_here, .failed = failed_here};
  return out;
}

static int least_loaded(const tri_dispatcher *d) {
  int best = 0;
  for (int i = 1; i < d->group.size; i++) {
    if (d->outstanding[i] < d->outstanding[best]) best = i;
  }
  return best;
}

static tri_status begin_on(tri_dispatched *s, const int32_t *ids, int64_t count, const tri_sequence_options *options) {
  tri_generator *g = s->dispatcher->generator;
  const tri_sequence_options here = options_here(s, options);
  TRI_TRY(tri_sequence_append(&s->shown, ids, count));
  if (s->replica == 0) {
    TRI_TRY(tri_generator_begin(g, ids, count, &here, &s->real));
    start(s, options, count);
    return TRI_OK;
  }
  TRI_TRY(tri_generator_check(g, ids, count, options));
  start(s, options, count);
  return send_reading(s, TRI_VERB_BEGIN, -1, count);
}

tri_status tri_dispatcher_begin(tri_dispatcher *d, const int32_t *ids, int64_t count,
                                const tri_sequence_options *options, tri_sequence **out) {
  tri_dispatched *s = NULL;
  TRI_TRY(create(d, least_loaded(d), &s));
  const tri_status status = begin_on(s, ids, count, options);
  if (status == TRI_OK) *out = &s->shown;
  if (status != TRI_OK) free_dispatched(s);
  return status;
}

/* Checks that a sequence has ended and can be continued. A sequence cannot be continued if it was stopped while on
 * another rank and may have slid there, because the tokens that the replica sampled until the stop arrived may have
 * exceeded its positions. */
static tri_status check_ended(const tri_dispatched *s) {
  const int64_t positions = tri_generator_positions(s->dispatcher->generator);
  if (s->shown.finish == TRI_FINISH_NONE) return tri_fail_internal("a sequence that has not ended is continued");
  if (!s->cut || s->longest <= positions) return TRI_OK;
  return tri_fail(
      TRI_UNSUPPORTED,
      "a text was stopped on another rank, where it may have grown beyond the %ld positions, so it cannot be "
      "continued there; begin it again with all of its tokens, or ask for fewer tokens",
      (long)positions);
}

static tri_status fork_from(tri_dispatched *s, const tri_dispatched *from, const int32_t *ids, int64_t count,
                            const tri_sequence_options *options) {
  tri_generator *g = s->dispatcher->generator;
  const tri_sequence_options here = options_here(s, options);
  TRI_TRY(check_ended(from));
  TRI_TRY(tri_sequence_append(&s->shown, from->shown.ids, from->shown.count));
  TRI_TRY(tri_sequence_append(&s->shown, ids, count));
  if (s->replica == 0) {
    TRI_TRY(tri_generator_fork(g, from->real, ids, count, &here, &s->real));
    start(s, options, count);
    return TRI_OK;
  }
  TRI_TRY(tri_generator_check(g, s->shown.ids, s->shown.count, options));
  start(s, options, count);
  return send_reading(s, TRI_VERB_FORK, from->slot, count);
}

tri_status tri_dispatcher_fork(tri_dispatcher *d, const tri_sequence *from, const int32_t *ids, int64_t count,
                               const tri_sequence_options *options, tri_sequence **out) {
  tri_dispatched *s = NULL;
  TRI_TRY(create(d, dispatched_const(from)->replica, &s));
  const tri_status status = fork_from(s, dispatched_const(from), ids, count, options);
  if (status == TRI_OK) *out = &s->shown;
  if (status != TRI_OK) free_dispatched(s);
  return status;
}

static tri_status extend(tri_dispatched *s, const int32_t *ids, int64_t count, const tri_sequence_options *options) {
  tri_generator *g = s->dispatcher->generator;
  const tri_sequence_options here = options_here(s, options);
  TRI_TRY(tri_sequence_append(&s->shown, ids, count));
  if (s->replica == 0) {
    TRI_TRY(tri_generator_extend(g, s->real, ids, count, &here));
    start(s, options, count);
    return TRI_OK;
  }
  TRI_TRY(tri_generator_check(g, s->shown.ids, s->shown.count, options));
  start(s, options, count);
  return send_reading(s, TRI_VERB_EXTEND, -1, count);
}

tri_status tri_dispatcher_extend(tri_dispatcher *d, tri_sequence *sequence, const int32_t *ids, int64_t count,
                                 const tri_sequence_options *options) {
  tri_dispatched *s = dispatched(sequence);
  const int64_t before = sequence->count;
  (void)d;
  TRI_TRY(check_ended(s));
  const tri_status status = extend(s, ids, count, options);
  if (status != TRI_OK) sequence->count = before; /* drops the tokens that extend() has appended */
  return status;
}

tri_status tri_dispatcher_rewind(tri_dispatcher *d, tri_sequence *sequence, int64_t count) {
  tri_dispatched *s = dispatched(sequence);
  TRI_TRY(check_ended(s));
  sequence->count = count;
  if (s->real == NULL) return send_plain(s, TRI_VERB_REWIND, count);
  tri_generator_rewind(d->generator, s->real, count);
  return TRI_OK;
}

/* Stops a sequence on another rank, and drops the events that are on their way. */
static tri_status stop_elsewhere(tri_dispatched *s, tri_finish finish) {
  s->serial = ++s->dispatcher->serial;
  s->cut = true;
  TRI_TRY(send_plain(s, TRI_VERB_CANCEL, 0));
  TRI_TRY(send_plain(s, TRI_VERB_REWIND, s->shown.count));
  return end(s, finish, s->shown.count - 1 > tri_generator_positions(s->dispatcher->generator));
}

tri_status tri_dispatcher_cancel(tri_dispatcher *d, tri_sequence *sequence) {
  tri_dispatched *s = dispatched(sequence);
  if (sequence->finish != TRI_FINISH_NONE) return TRI_OK;
  return s->real != NULL ? tri_generator_cancel(d->generator, s->real) : stop_elsewhere(s, TRI_FINISH_CANCELLED);
}

/* Cancels the sequences in the order in which they were begun or extended, which is the order of the serial numbers. */
tri_status tri_dispatcher_cancel_all(tri_dispatcher *d) {
  const int64_t last = d->serial;
  for (int64_t at = 0;;) {
    tri_dispatched *next = NULL;
    for (int64_t i = 0; i < d->count; i++) {
      tri_dispatched *s = d->list[i];
      if (s == NULL || s->shown.finish != TRI_FINISH_NONE || s->serial <= at || s->serial > last) continue;
      if (next == NULL || s->serial < next->serial) next = s;
    }
    if (next == NULL) return TRI_OK;
    at = next->serial;
    TRI_TRY(tri_dispatcher_cancel(d, &next->shown));
  }
}

tri_status tri_dispatcher_release(tri_dispatcher *d, tri_sequence *sequence) {
  tri_dispatched *s = dispatched(sequence);
  tri_status status = TRI_OK;
  owe(s, 0);
  if (s->real != NULL) tri_generator_release(d->generator, s->real);
  if (s->real == NULL) {
    d->elsewhere -= sequence->finish == TRI_FINISH_NONE;
    status = send_plain(s, TRI_VERB_RELEASE, 0);
  }
  free_dispatched(s);
  return status;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static tri_status read_token(tri_dispatched *s, const tri_event *event, const tri_link_bytes *message, size_t *at) {
  bool stop = false;
  tri_sampled sampled = {.id = event->id,
                         .version = event->version,
                         .log_prob = event->log_prob,
                         .entropy = event->entropy,
                         .sampled_log_prob = event->sampled_log_prob};
  TRI_TRY(tri_link_take(message, at, sampled.likeliest, (size_t)event->count * sizeof *sampled.likeliest));
  if (s == NULL) return TRI_OK;
  TRI_TRY(add_token(s, &sampled, &stop));
  if (!stop) return TRI_OK;
  return stop_elsewhere(s, tri_sequence_ends_with(&s->shown, sampled.id) ? TRI_FINISH_END : TRI_FINISH_STOP);
}

static tri_status read_scores(const tri_dispatched *s, const tri_event *event, const tri_link_bytes *message,
                              size_t *at) {
  const size_t bytes = (size_t)event->count * sizeof(double);
  const size_t likeliest_bytes = (size_t)(event->count * event->scored_likeliest) * sizeof(tri_likely);
  if (s == NULL) {
    *at += bytes + likeliest_bytes;
    return TRI_OK;
  }
  TRI_TRY(tri_link_take(message, at, s->shown.options.scores, bytes));
  return tri_link_take(message, at, s->shown.options.likeliest, likeliest_bytes);
}

static tri_status read_failure(tri_dispatched *s, const tri_event *event, const tri_link_bytes *message, size_t *at) {
  char reason[TRI_MESSAGE_BYTES] = "";
  if ((size_t)event->count >= sizeof reason) return tri_fail_internal("a reason of %ld bytes", (long)event->count);
  TRI_TRY(tri_link_take(message, at, reason, (size_t)event->count));
  if (s == NULL) return TRI_OK;
  (void)tri_fail(TRI_DIVERGED, "%s", reason);
  return fail(s);
}

static void add_counts(tri_generator_counts *to, const tri_generator_counts *counts) {
  to->steps += counts->steps;
  to->rows += counts->rows;
  to->found_rows += counts->found_rows;
  to->preempted += counts->preempted;
  to->guessed += counts->guessed;
  to->kept += counts->kept;
  to->free_pages += counts->free_pages;
  to->sequences += counts->sequences;
}

static tri_status read_left(tri_dispatcher *d, int rank, const tri_link_bytes *message, size_t *at) {
  tri_generator_counts counts;
  TRI_TRY(tri_link_take(message, at, &counts, sizeof counts));
  add_counts(&d->counts, &counts);
  d->dismissed[rank] = true;
  return TRI_OK;
}

static tri_status read_events(tri_dispatcher *d, int rank) {
  const tri_link_bytes *message = &d->links[rank].received;
  for (size_t at = 0; at < message->count;) {
    tri_event event;
    TRI_TRY(tri_link_take(message, &at, &event, sizeof event));
    tri_dispatched *s = event.kind == TRI_EVENT_LEFT ? NULL : d->list[event.slot];
    /* Drop the events of an earlier sequence in this slot, and those sent before the replica received a stop. */
    if (s != NULL && (s->real != NULL || s->serial != event.serial)) s = NULL;
    switch (event.kind) {
      case TRI_EVENT_SCORES: TRI_TRY(read_scores(s, &event, message, &at)); break;
      case TRI_EVENT_TOKEN: TRI_TRY(read_token(s, &event, message, &at)); break;
      case TRI_EVENT_DONE:
        if (s != NULL) TRI_TRY(end(s, event.finish, event.slid));
        break;
      case TRI_EVENT_FAILED: TRI_TRY(read_failure(s, &event, message, &at)); break;
      case TRI_EVENT_LEFT: TRI_TRY(read_left(d, rank, message, &at)); break;
    }
  }
  return TRI_OK;
}

/* Sends the verbs, and reads the events that have arrived. Sets *read to whether an event had arrived. */
static tri_status exchange(tri_dispatcher *d, bool *read) {
  *read = false;
  for (int i = 1; i < d->group.size; i++) {
    TRI_TRY(tri_link_flush(&d->links[i]));
    for (bool got = true; got && !d->dismissed[i];) {
      TRI_TRY(tri_link_poll(&d->links[i], &got));
      if (got) TRI_TRY(read_events(d, i));
      *read = *read || got;
    }
  }
  return TRI_OK;
}

static tri_status wait_for_events(tri_dispatcher *d) {
  const double begin_s = tri_clock_s();
  const tri_request **awaited = NULL;
  TRI_TRY(tri_alloc("requests", (size_t)d->group.size, sizeof *awaited, &awaited));
  for (int i = 1; i < d->group.size; i++) awaited[i] = d->dismissed[i] ? NULL : tri_link_awaited(&d->links[i]);
  const tri_status status = tri_request_wait_any(awaited, d->group.size, begin_s, LONGEST_WAIT_S);
  d->waited_s += tri_clock_s() - begin_s;
  tri_recorder_beat();
  tri_free(awaited);
  return status;
}

tri_status tri_dispatcher_step(tri_dispatcher *d, bool *more) {
  bool read = false;
  TRI_TRY(exchange(d, &read));
  TRI_TRY(tri_generator_step(d->generator, more));
  if (!*more && !read && d->elsewhere > 0) TRI_TRY(wait_for_events(d));
  *more = *more || d->elsewhere > 0;
  return TRI_OK;
}

tri_status tri_dispatcher_run(tri_dispatcher *d) {
  bool more = true;
  while (more) TRI_TRY(tri_dispatcher_step(d, &more));
  return TRI_OK;
}

static bool all_dismissed(const tri_dispatcher *d) {
  for (int i = 1; i < d->group.size; i++) {
    if (!d->dismissed[i]) return false;
  }
  return true;
}

tri_status tri_dispatcher_dismiss(tri_dispatcher *d) {
  const tri_verb verb = {.kind = TRI_VERB_DISMISS};
  d->counts = (tri_generator_counts){.steps = 0};
  for (int i = 1; i < d->group.size; i++) {
    d->dismissed[i] = false;
    TRI_TRY(tri_link_append(&d->links[i], &verb, sizeof verb));
  }
  while (!all_dismissed(d)) {
    bool read = false;
    TRI_TRY(exchange(d, &read));
    if (!read) TRI_TRY(wait_for_events(d));
  }
  for (int i = 1; i < d->group.size; i++) TRI_TRY(tri_link_flush_all(&d->links[i]));
  return tri_runner_dismiss(d->runner);
}

void tri_dispatcher_give_up(tri_dispatcher *d, tri_status status) {
  tri_saved_error failed = {TRI_OK, ""};
  if (d->group.size > 1 || status == TRI_COMM || status == TRI_DEVICE_FAILED) return;
  tri_error_save(&failed, status);
  (void)tri_runner_dismiss(d->runner);
  (void)tri_saved_error_restore(&failed);
}

tri_generator_counts tri_dispatcher_count(const tri_dispatcher *d) {
  tri_generator_counts counts = tri_generator_count(d->generator);
  add_counts(&counts, &d->counts);
  return counts;
}
