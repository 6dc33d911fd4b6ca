#include "rollout/sampler.h"

#include "base/memory.h"
#include "base/stop.h"
#include "generation/stop_text.h"

typedef struct rollout rollout;

/* A completion in progress. */
typedef struct writing {
  rollout *of;
  tri_rollout_completion *to;
  tri_decoder *decoder;
  tri_stop_text text;
} writing;

/* A batch in progress. */
struct rollout {
  const tri_rollout_sampler *sampler;
  const tri_rollout_batch *batch;
  writing *all;    /* [groups * size] */
  int64_t started; /* number of groups that have begun */
  int64_t ended;   /* number of completions that have ended */
};

static bool is_end(const tri_rollout_sampler *s, int32_t id) {
  for (int i = 0; i < s->num_ends; i++) {
    if (s->ends[i] == id) return true;
  }
  return false;
}

static tri_status note_token(tri_rollout_completion *c, const tri_sampled *sampled) {
  TRI_TRY(tri_grow("a completion", sizeof *c->ids, c->count, &c->ids_room, &c->ids));
  TRI_TRY(tri_grow("a completion", sizeof *c->behaviour, c->count, &c->behaviour_room, &c->behaviour));
  TRI_TRY(tri_grow("a completion", sizeof *c->entropies, c->count, &c->entropies_room, &c->entropies));
  c->ids[c->count] = sampled->id;
  c->behaviour[c->count] = sampled->sampled_log_prob;
  c->entropies[c->count] = sampled->entropy;
  c->count++;
  return TRI_OK;
}

static tri_status note_sampled(void *context, tri_sequence *sequence, const tri_sampled *sampled, bool *stop) {
  writing *w = context;
  const char *piece = NULL;
  size_t bytes = 0;
  (void)sequence;
  TRI_TRY(note_token(w->to, sampled));
  if (is_end(w->of->sampler, sampled->id)) return TRI_OK;
  TRI_TRY(tri_decoder_next(w->decoder, sampled->id, &piece, &bytes));
  TRI_TRY(tri_stop_text_add(&w->text, piece, bytes));
  *stop = w->text.stop != NULL;
  return TRI_OK;
}

static tri_status begin_groups(rollout *r);

static bool is_cancelled(tri_finish finish) {
  switch (finish) {
    case TRI_FINISH_CANCELLED: return true;
    case TRI_FINISH_NONE:
    case TRI_FINISH_READ:
    case TRI_FINISH_LENGTH:
    case TRI_FINISH_END:
    case TRI_FINISH_STOP:
    case TRI_FINISH_FAILED: break;
  }
  return false;
}

static tri_status end_completion(void *context, tri_sequence *sequence) {
  writing *w = context;
  const char *piece = NULL;
  size_t bytes = 0;
  const tri_finish finish = tri_sequence_finish(sequence);
  TRI_TRY(tri_dispatcher_release(w->of->sampler->dispatcher, sequence));
  tri_decoder_end(w->decoder, &piece, &bytes);
  TRI_TRY(tri_stop_text_add(&w->text, piece, bytes));
  TRI_TRY(tri_reserve("a completion", 1, w->text.bytes + 1, &w->text.room, &w->text.text));
  w->text.text[w->text.bytes] = '\0';
  w->to->finish = w->text.stop != NULL ? TRI_FINISH_STOP : finish;
  w->to->text = w->text.text;
  w->to->text_bytes = w->text.bytes;
  w->text.text = NULL;
  w->of->ended++;
  return is_cancelled(finish) ? TRI_OK : begin_groups(w->of);
}

static tri_sequence_options options_of(const tri_rollout_sampler *s, writing *w) {
  tri_sampling sampling = s->sampling;
  sampling.seed = s->seed;
  sampling.prompt = (uint64_t)w->to->group;
  sampling.sample = (uint64_t)w->to->sample;
  return (tri_sequence_options){.sampling = sampling,
                                .ends = s->ends,
                                .num_ends = s->num_ends,
                                .wanted = s->most,
                                .requested = {.log_prob = true},
                                .observer = {.context = w, .token = note_sampled, .done = end_completion}};
}

/* Begins the completions of a group, whose prompt has been read. */
static tri_status begin_completions(void *context, tri_sequence *prompt) {
  writing *first = context;
  const tri_rollout_sampler *s = first->of->sampler;
  const bool cancelled = is_cancelled(tri_sequence_finish(prompt));
  for (int64_t i = 0; i < first->of->batch->size && !cancelled; i++) {
    const tri_sequence_options options = options_of(s, &first[i]);
    tri_sequence *sequence = NULL;
    TRI_TRY(tri_dispatcher_fork(s->dispatcher, prompt, NULL, 0, &options, &sequence));
  }
  return tri_dispatcher_release(s->dispatcher, prompt);
}

/* Begins groups until twice as many completions are in progress as all replicas have slots. The other groups are begun
 * later, because a waiting completion keeps the pages of its prompt in use. */
static tri_status begin_groups(rollout *r) {
  const tri_rollout_sampler *s = r->sampler;
  const int64_t most = 2 * s->slots * tri_dispatcher_replicas(s->dispatcher), size = r->batch->size;
  while (r->started < r->batch->groups && r->started * size - r->ended < most) {
    writing *first = &r->all[r->started++ * size];
    const tri_rollout_prompt *prompt = first->to->prompt;
    const tri_sequence_options options = {.observer = {.context = first, .done = begin_completions}};
    tri_sequence *sequence = NULL;
    TRI_TRY(tri_dispatcher_begin(s->dispatcher, prompt->ids, prompt->count, &options, &sequence));
  }
  return TRI_OK;
}

static tri_status prepare(rollout *r) {
  const int64_t count = tri_rollout_batch_count(r->batch);
  TRI_TRY(tri_alloc("completions in progress", (size_t)count, sizeof *r->all, &r->all));
  for (int64_t i = 0; i < count; i++) {
    writing *w = &r->all[i];
    *w = (writing){
        .of = r, .to = &r->batch->list[i], .text = {.stops = r->sampler->stops, .num_stops = r->sampler->num_stops}};
    TRI_TRY(tri_decoder_create(r->sampler->tokenizer, w->to->prompt->text_bytes == 0, &w->decoder));
  }
  return TRI_OK;
}

static tri_status run_all(const rollout *r, bool *stopped) {
  for (bool more = true; more;) {
    TRI_TRY(tri_dispatcher_step(r->sampler->dispatcher, &more));
    if (!more || !r->sampler->stops_when_asked || !tri_stop_asked()) continue;
    *stopped = true;
    TRI_TRY(tri_dispatcher_cancel_all(r->sampler->dispatcher));
  }
  return TRI_OK;
}

tri_status tri_rollout_sample(const tri_rollout_sampler *sampler, tri_rollout_batch *batch, bool *stopped) {
  rollout r = {.sampler = sampler, .batch = batch};
  *stopped = false;
  tri_status status = prepare(&r);
  if (status == TRI_OK) status = begin_groups(&r);
  if (status == TRI_OK) status = run_all(&r, stopped);
  for (int64_t i = 0; r.all != NULL && i < tri_rollout_batch_count(batch); i++) {
    tri_decoder_destroy(r.all[i].decoder);
    tri_stop_text_release(&r.all[i].text);
  }
  tri_free(r.all);
  return status;
}
