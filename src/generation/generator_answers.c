/* What comes of a run's logits: log-probabilities of given tokens, and tokens that are sampled. The device answers what
 * is asked of the whole distribution; logits are copied to the host only for likeliest tokens, and where tokens are cut
 * off or penalised. */
#include "base/memory.h"
#include "generation/generator_internal.h"

#include <omp.h>

static bool is_scored(const tri_reading *r) { return r->of->options.scored > 0 && r->of->sampled == 0; }
static bool samples_whole(const tri_reading *r) {
  return r->samples && tri_sampling_is_whole(&r->of->options.sampling);
}
static int64_t last_logit(const tri_reading *r) { return r->first_logit + r->logits - 1; }

/* Of the tokens behind the rows, those that were given, and one that is sampled. */
static void add_queries(tri_generator *g, tri_reading *r, int64_t *count) {
  const tri_sequence *s = r->of;
  const int64_t first = s->offset + s->held - r->logits + 1;
  r->first_query = *count;
  for (int64_t i = 0; is_scored(r) && i < r->logits && first + i < s->count; i++)
    g->queries[(*count)++] =
        (tri_logit_query){.temperature = 1, .row = (int32_t)(r->first_logit + i), .given = s->ids[first + i]};
  if (samples_whole(r)) g->queries[(*count)++] = tri_sampling_query(&s->options.sampling, s->count, last_logit(r));
}

tri_status tri_generator_say_not_finite(tri_generator *g, const tri_reading *r) {
  const void *logits = NULL;
  TRI_TRY(tri_runner_logits(g->runner, r->failed_row, 1, &logits));
  TRI_TRY(tri_sampling_check(logits, g->logits_type, g->vocab_size, r->failed_behind));
  return tri_fail_internal("logits that are finite were answered as if they were not");
}

static void fail_row(tri_reading *r, int64_t row, int64_t behind) {
  r->failed_row = row;
  r->failed_behind = behind;
}

static void take_answers(tri_reading *r, const int32_t *ids, const double *numbers) {
  const tri_sequence *s = r->of;
  const int64_t first = s->offset + s->held - r->logits + 1, begin = s->count - s->options.scored;
  int64_t at = r->first_query;
  for (int64_t i = 0; is_scored(r) && i < r->logits && first + i < s->count; i++, at++) {
    if (ids[at] < 0) fail_row(r, r->first_logit + i, first + i);
    s->options.scores[first + i - begin] = numbers[at * TRI_LOGIT_NUMBERS + TRI_LOGIT_LOG_PROB];
  }
  if (!samples_whole(r)) return;
  if (ids[at] < 0) fail_row(r, last_logit(r), s->count);
  r->sampled.id = ids[at];
  r->sampled.log_prob = numbers[at * TRI_LOGIT_NUMBERS + TRI_LOGIT_LOG_PROB];
  r->sampled.entropy = numbers[at * TRI_LOGIT_NUMBERS + TRI_LOGIT_ENTROPY];
  r->sampled.sampled_log_prob = numbers[at * TRI_LOGIT_NUMBERS + TRI_LOGIT_SAMPLED_LOG_PROB];
}

/* On the device; what of it can be told without logits is known then. */
static tri_status ask_device(tri_generator *g) {
  const int32_t *ids = NULL;
  const double *numbers = NULL;
  int64_t count = 0;
  for (int64_t i = 0; i < g->num_reads; i++) add_queries(g, &g->reads[i], &count);
  TRI_TRY(tri_runner_query(g->runner, g->queries, count, &ids, &numbers));
  for (int64_t i = 0; i < g->num_reads; i++) take_answers(&g->reads[i], ids, numbers);
  return TRI_OK;
}

static bool wants_copy(const tri_reading *r) {
  return r->samples && r->failed_row < 0 && (!samples_whole(r) || r->of->options.wish.likeliest > 0);
}

/* From a copy of its logits. */
static void sample_from_copy(const tri_generator *g, tri_reading *r, int thread) {
  const tri_sequence *s = r->of;
  const int64_t likeliest = s->options.wish.likeliest;
  if (samples_whole(r)) {
    tri_sampling_likeliest(r->copy, g->logits_type, g->vocab_size, likeliest, r->sampled.id, r->sampled.log_prob,
                           r->sampled.likeliest);
  } else if (tri_sample_next(r->copy, g->logits_type, g->vocab_size, &s->options.sampling, s->ids, s->count,
                             &s->options.wish, &g->scratch[thread], &r->sampled) != TRI_OK) {
    fail_row(r, last_logit(r), s->count);
  }
}

/* The first time that logits are copied. */
static tri_status create_scratch(tri_generator *g) {
  const size_t vocabulary = (size_t)g->vocab_size;
  if (g->scratch != NULL) return TRI_OK;
  TRI_TRY(tri_alloc("logits", (size_t)g->threads, sizeof *g->scratch, &g->scratch));
  for (int i = 0; i < g->threads; i++) {
    TRI_TRY(tri_alloc("candidates", vocabulary, sizeof *g->scratch[i].candidates, &g->scratch[i].candidates));
    TRI_TRY(tri_alloc("logits", vocabulary, sizeof *g->scratch[i].logits, &g->scratch[i].logits));
    TRI_TRY(tri_alloc("logits", vocabulary, sizeof *g->scratch[i].penalised, &g->scratch[i].penalised));
  }
  return TRI_OK;
}

/* Each sequence has its own logits: threads share them out. */
static tri_status sample_on_host(tri_generator *g) {
  int64_t copies = 0;
  for (int64_t i = 0; i < g->num_reads; i++) {
    tri_reading *r = &g->reads[i];
    if (!wants_copy(r)) continue;
    if (!samples_whole(r)) TRI_TRY(create_scratch(g));
    TRI_TRY(tri_runner_logits(g->runner, last_logit(r), 1, &r->copy));
    copies++;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(g->threads) if (copies > 1)
  for (int64_t i = 0; i < g->num_reads; i++) {
    tri_reading *r = &g->reads[i];
    if (wants_copy(r)) sample_from_copy(g, r, omp_get_thread_num());
  }
  return TRI_OK;
}

tri_status tri_generator_answer(tri_generator *g) {
  TRI_TRY(ask_device(g));
  return sample_on_host(g);
}
