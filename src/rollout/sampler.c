#include "rollout/sampler.h"

#include "base/memory.h"
#include "generation/stop_text.h"

typedef struct group group;

/* A completion in progress. */
typedef struct writing {
  group *of;
  tri_rollout_completion *to;
  tri_decoder *decoder;
  tri_stop_text text;
} writing;

/* A group that has not ended. */
struct group {
  tri_rollout *of;
  writing *all; /* [size] */
  int64_t size;
  int64_t ended; /* number of completions that have ended */
  bool begun;
  group *next; /* the group that was added next; NULL: none */
};

struct tri_rollout {
  const tri_rollout_sampler *sampler;
  group *first, *last; /* groups that have not ended, in the order in which they were added; NULL: none */
  int64_t running;     /* number of completions of groups that have begun which have not ended */
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
  if (is_end(w->of->of->sampler, sampled->id)) return TRI_OK;
  TRI_TRY(tri_decoder_next(w->decoder, sampled->id, &piece, &bytes));
  TRI_TRY(tri_stop_text_add(&w->text, piece, bytes));
  *stop = w->text.stop != NULL;
  return TRI_OK;
}

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
  TRI_TRY(tri_dispatcher_release(w->of->of->sampler->dispatcher, sequence));
  tri_decoder_end(w->decoder, &piece, &bytes);
  TRI_TRY(tri_stop_text_add(&w->text, piece, bytes));
  TRI_TRY(tri_reserve("a completion", 1, w->text.bytes + 1, &w->text.room, &w->text.text));
  w->text.text[w->text.bytes] = '\0';
  w->to->finish = w->text.stop != NULL ? TRI_FINISH_STOP : finish;
  w->to->text = w->text.text;
  w->to->text_bytes = w->text.bytes;
  w->text.text = NULL;
  w->of->ended++;
  w->of->of->running--;
  return TRI_OK;
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
  group *g = context;
  const tri_rollout_sampler *s = g->of->sampler;
  const bool cancelled = is_cancelled(tri_sequence_finish(prompt));
  for (int64_t i = 0; i < g->size && !cancelled; i++) {
    const tri_sequence_options options = options_of(s, &g->all[i]);
    tri_sequence *sequence = NULL;
    TRI_TRY(tri_dispatcher_fork(s->dispatcher, prompt, NULL, 0, &options, &sequence));
  }
  return tri_dispatcher_release(s->dispatcher, prompt);
}

/* Begins groups until twice as many completions are in progress as all replicas have slots. The other groups are begun
 * later, because a waiting completion keeps the pages of its prompt in use. */
static tri_status begin_groups(tri_rollout *r) {
  const tri_rollout_sampler *s = r->sampler;
  const int64_t most = 2 * s->slots * tri_dispatcher_replicas(s->dispatcher);
  for (group *g = r->first; g != NULL && r->running < most; g = g->next) {
    if (g->begun) continue;
    const tri_rollout_prompt *prompt = g->all[0].to->prompt;
    const tri_sequence_options options = {.observer = {.context = g, .done = begin_completions}};
    tri_sequence *sequence = NULL;
    TRI_TRY(tri_dispatcher_begin(s->dispatcher, prompt->ids, prompt->count, &options, &sequence));
    g->begun = true;
    r->running += g->size;
  }
  return TRI_OK;
}

static void release_group(group *g) {
  for (int64_t i = 0; g->all != NULL && i < g->size; i++) {
    tri_decoder_destroy(g->all[i].decoder);
    tri_stop_text_release(&g->all[i].text);
  }
  tri_free(g->all);
  tri_free(g);
}

/* Releases the groups that have ended or, if `all`, all groups. */
static void release_groups(tri_rollout *r, bool all) {
  group **link = &r->first;
  r->last = NULL;
  while (*link != NULL) {
    group *g = *link;
    if (!all && g->ended < g->size) {
      r->last = g;
      link = &g->next;
      continue;
    }
    *link = g->next;
    release_group(g);
  }
}

static tri_status prepare(const tri_rollout_sampler *s, tri_rollout_completion *completions, group *g) {
  TRI_TRY(tri_alloc("completions in progress", (size_t)g->size, sizeof *g->all, &g->all));
  for (int64_t i = 0; i < g->size; i++) {
    writing *w = &g->all[i];
    *w = (writing){.of = g, .to = &completions[i], .text = {.stops = s->stops, .num_stops = s->num_stops}};
    TRI_TRY(tri_decoder_create(s->tokenizer, w->to->prompt->text_bytes == 0, &w->decoder));
  }
  return TRI_OK;
}

/* ---- rollouts ---------------------------------------------------------------------------------------------------- */

tri_status tri_rollout_create(const tri_rollout_sampler *sampler, tri_rollout **out) {
  *out = NULL;
  TRI_TRY(tri_alloc("a rollout", 1, sizeof **out, out));
  (*out)->sampler = sampler;
  return TRI_OK;
}

void tri_rollout_destroy(tri_rollout *r) {
  if (r == NULL) return;
  release_groups(r, true);
  tri_free(r);
}

tri_status tri_rollout_add(tri_rollout *r, tri_rollout_completion *completions, int64_t size) {
  group *g = NULL;
  TRI_TRY(tri_alloc("a group of completions", 1, sizeof *g, &g));
  g->of = r;
  g->size = size;
  const tri_status status = prepare(r->sampler, completions, g);
  if (status != TRI_OK) {
    release_group(g);
    return status;
  }
  if (r->first == NULL) r->first = g;
  if (r->last != NULL) r->last->next = g;
  r->last = g;
  return TRI_OK;
}

tri_status tri_rollout_step(tri_rollout *r, bool *more) {
  TRI_TRY(begin_groups(r));
  TRI_TRY(tri_dispatcher_step(r->sampler->dispatcher, more));
  release_groups(r, false);
  *more = r->first != NULL;
  return TRI_OK;
}

tri_status tri_rollout_cancel(tri_rollout *r) {
  TRI_TRY(tri_dispatcher_cancel_all(r->sampler->dispatcher));
  TRI_TRY(tri_dispatcher_run(r->sampler->dispatcher));
  release_groups(r, true);
  r->running = 0;
  return TRI_OK;
}
