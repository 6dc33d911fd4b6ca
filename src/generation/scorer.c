#include "generation/scorer.h"

#include "base/count.h"
#include "base/memory.h"
#include "generation/dispatcher.h"

#include <string.h>

struct tri_scorer {
  tri_runner *runner;
  tri_generator *generator;
  tri_dispatcher *dispatcher;
  tri_group group; /* all ranks */
};

tri_status tri_scorer_create(const tri_model *model, tri_dtype precision, int64_t sequences, int64_t positions,
                             const tri_replicas *replicas, tri_device *device, tri_scorer **out) {
  const tri_runner_sizes sizes = tri_runner_sizes_for(sequences, positions);
  tri_scorer *scorer = NULL;
  TRI_TRY(tri_alloc("a scorer", 1, sizeof *scorer, &scorer));
  scorer->group = replicas->all;
  tri_status status = tri_runner_create(model, precision, &sizes, NULL, tri_replicas_mesh(replicas),
                                        (tri_lent_memory){0}, device, &scorer->runner);
  if (status == TRI_OK && tri_replicas_leads(replicas))
    status = tri_generator_create(model, precision, scorer->runner, &scorer->generator);
  if (status == TRI_OK)
    status = tri_dispatcher_create(replicas, scorer->runner, scorer->generator, &scorer->dispatcher);
  if (status == TRI_OK) *out = scorer;
  if (status != TRI_OK) tri_scorer_destroy(scorer);
  return status;
}

void tri_scorer_destroy(tri_scorer *scorer) {
  if (scorer == NULL) return;
  tri_dispatcher_destroy(scorer->dispatcher);
  tri_generator_destroy(scorer->generator);
  tri_runner_destroy(scorer->runner);
  tri_free(scorer);
}

tri_executor *tri_scorer_executor(tri_scorer *scorer) { return tri_runner_executor(scorer->runner); }
const tri_parameter_table *tri_scorer_parameters(const tri_scorer *scorer) {
  return tri_runner_parameters(scorer->runner);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

typedef struct scoring scoring;

/* Texts [first, first + count) of the list, and the number of leading tokens that all of them share, before any scored
 * token. */
typedef struct group {
  scoring *of;
  int64_t first, count, shared;
} group;

struct scoring {
  tri_dispatcher *dispatcher;
  const tri_scored_text *texts; /* [count] */
  int64_t count, most;          /* most: a group is started if fewer texts than this are in progress */
  group *groups;                /* [num_groups] */
  int64_t num_groups, started, texts_started, ended;
  void (*progress)(int64_t done, int64_t all);
};

static int64_t shared_tokens(const tri_scored_text *a, const tri_scored_text *b) {
  const int64_t most = tri_smaller(a->first, b->first) - 1;
  int64_t count = 0;
  while (count < most && a->ids[count] == b->ids[count]) count++;
  return count;
}

/* Makes groups of consecutive texts. A text joins a group if its unscored tokens, except the last, equal those of the
 * group's first text; if one of the two texts has fewer, only that many are compared, at least one. Each text reads its
 * last unscored token itself, since the logits after that token give the first score. */
static void make_groups(scoring *s) {
  for (int64_t i = 0; i < s->count;) {
    group *g = &s->groups[s->num_groups++];
    *g = (group){s, i, 1, s->texts[i].first - 1};
    for (i++; i < s->count; i++, g->count++) {
      const int64_t shared = shared_tokens(&s->texts[g->first], &s->texts[i]);
      if (shared == 0 || shared < tri_smaller(s->texts[g->first].first, s->texts[i].first) - 1) break;
      g->shared = tri_smaller(g->shared, shared);
    }
  }
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static tri_status start_groups(scoring *s);

static tri_status end_scored(void *context, tri_sequence *sequence) {
  scoring *s = context;
  TRI_TRY(tri_dispatcher_release(s->dispatcher, sequence));
  if (s->progress != NULL) s->progress(s->ended + 1, s->count);
  s->ended++;
  return start_groups(s);
}

static tri_sequence_options scored_options(scoring *s, const tri_scored_text *text) {
  return (tri_sequence_options){
      .scored = text->count - text->first, .scores = text->out, .observer = {.context = s, .done = end_scored}};
}

static tri_status fork_texts(void *context, tri_sequence *shared) {
  const group *g = context;
  scoring *s = g->of;
  for (int64_t i = g->first; i < g->first + g->count; i++) {
    const tri_scored_text *text = &s->texts[i];
    const tri_sequence_options options = scored_options(s, text);
    tri_sequence *sequence = NULL;
    TRI_TRY(tri_dispatcher_fork(s->dispatcher, shared, text->ids + g->shared, text->count - g->shared, &options,
                                &sequence));
  }
  return tri_dispatcher_release(s->dispatcher, shared);
}

static tri_status start_group(scoring *s, group *g) {
  const tri_scored_text *text = &s->texts[g->first];
  tri_sequence *sequence = NULL;
  if (g->count == 1) {
    const tri_sequence_options options = scored_options(s, text);
    return tri_dispatcher_begin(s->dispatcher, text->ids, text->count, &options, &sequence);
  }
  const tri_sequence_options options = {.observer = {.context = g, .done = fork_texts}};
  return tri_dispatcher_begin(s->dispatcher, text->ids, g->shared, &options, &sequence);
}

static tri_status start_groups(scoring *s) {
  while (s->started < s->num_groups && s->texts_started - s->ended < s->most) {
    group *g = &s->groups[s->started++];
    s->texts_started += g->count;
    TRI_TRY(start_group(s, g));
  }
  return TRI_OK;
}

static int64_t count_scores(const tri_scored_text *texts, int64_t count) {
  int64_t scores = 0;
  for (int64_t i = 0; i < count; i++) scores += texts[i].count - texts[i].first;
  return scores;
}

/* Copies the first rank's scores to all ranks. */
static tri_status share_scores(const tri_scorer *scorer, const tri_scored_text *texts, int64_t count) {
  const int64_t scores = count_scores(texts, count);
  double *all = NULL;
  if (scorer->group.size == 1) return TRI_OK;
  TRI_TRY(tri_alloc("scores", (size_t)scores, sizeof *all, &all));
  for (int64_t i = 0, at = 0; i < count; at += texts[i].count - texts[i].first, i++)
    memcpy(all + at, texts[i].out, (size_t)(texts[i].count - texts[i].first) * sizeof *all);
  const tri_status status = tri_broadcast(&scorer->group, 0, (size_t)scores * sizeof *all, all);
  for (int64_t i = 0, at = 0; i < count; at += texts[i].count - texts[i].first, i++)
    memcpy(texts[i].out, all + at, (size_t)(texts[i].count - texts[i].first) * sizeof *all);
  tri_free(all);
  return status;
}

/* Called on the first rank. Scores all texts on the replicas of all ranks. */
static tri_status score_texts(tri_scorer *scorer, const tri_scored_text *texts, int64_t count,
                              void (*progress)(int64_t done, int64_t all)) {
  const int64_t places = tri_runner_sizes_of(scorer->runner)->sequences;
  scoring s = {.dispatcher = scorer->dispatcher,
               .texts = texts,
               .count = count,
               .most = 2 * places * tri_dispatcher_replicas(scorer->dispatcher),
               .progress = progress};
  TRI_TRY(tri_alloc("texts", (size_t)count, sizeof *s.groups, &s.groups));
  make_groups(&s);
  tri_status status = start_groups(&s);
  if (status == TRI_OK) status = tri_dispatcher_run(s.dispatcher);
  if (status == TRI_OK) status = tri_dispatcher_dismiss(s.dispatcher);
  tri_free(s.groups);
  return status;
}

tri_status tri_scorer_score(tri_scorer *scorer, const tri_scored_text *texts, int64_t count,
                            void (*progress)(int64_t done, int64_t all)) {
  if (count == 0) return TRI_OK;
  TRI_TRY(scorer->group.rank > 0 ? tri_dispatcher_follow(scorer->dispatcher)
                                 : score_texts(scorer, texts, count, progress));
  return share_scores(scorer, texts, count);
}
