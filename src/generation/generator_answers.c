/* Evaluates a run's logits: log-probabilities of given tokens, and sampled tokens. The device answers queries about the
 * whole distribution, and finds the single likeliest token at the position of a scored token. Logits are copied to the
 * host only if several likeliest tokens are requested for scored tokens, or any for sampled tokens, or if sampling
 * leaves out tokens or changes their logits (tri_sampling_is_whole). */
#include "base/count.h"
#include "base/memory.h"
#include "generation/generator_internal.h"

#include <math.h>
#include <omp.h>

/* Given tokens that a reading scores: ids [first, first + count). Row i of the reading's logit rows predicts token
 * first + i; the row after these, if any, is the one that is sampled from. */
typedef struct scored_tokens {
  int64_t first, count;
} scored_tokens;

static scored_tokens scored_by(const tri_reading *r) {
  const tri_sequence *s = r->of;
  const int64_t first = s->offset + s->held - r->logits + 1;
  const bool any = s->options.scored > 0 && s->sampled == 0;
  return (scored_tokens){first, any ? tri_larger(0, tri_smaller(r->logits, s->count - first)) : 0};
}

/* Returns the index of token `id` of the sequence among the scored ones. */
static int64_t score_of(const tri_sequence *s, int64_t id) { return id - (s->count - s->options.scored); }

/* Returns whether the device is asked for the likeliest token at the position of each scored token. */
static bool asks_likeliest(const tri_reading *r) { return r->of->options.scored_likeliest == 1; }
/* Returns whether the host looks up several likeliest tokens at the position of each scored token. */
static bool lists_likeliest(const tri_reading *r) { return r->of->options.scored_likeliest > 1; }

static bool samples_whole(const tri_reading *r) {
  return r->samples && tri_sampling_is_whole(&r->of->options.sampling);
}

/* ---- on the device ----------------------------------------------------------------------------------------------- */

/* Adds the queries of a reading: one for each scored token, followed by one for the likeliest token at its position if
 * that is requested; then one for each token that the device samples. */
static void add_queries(tri_generator *g, tri_reading *r, int64_t *count) {
  const tri_sequence *s = r->of;
  const scored_tokens scored = scored_by(r);
  r->first_query = *count;
  for (int64_t i = 0; i < scored.count; i++) {
    const int32_t row = (int32_t)(r->first_logit + i);
    g->queries[(*count)++] = (tri_logit_query){.temperature = 1, .row = row, .given = s->ids[scored.first + i]};
    if (asks_likeliest(r)) g->queries[(*count)++] = (tri_logit_query){.temperature = 0, .row = row, .given = -1};
  }
  for (int64_t i = 0; samples_whole(r) && i <= r->guesses; i++)
    g->queries[(*count)++] = tri_sampling_query(&s->options.sampling, s->count + i, tri_reading_first_sample(r) + i);
}

tri_status tri_generator_not_finite(tri_generator *g, int64_t row, int64_t behind) {
  const void *logits = NULL;
  TRI_TRY(tri_runner_logits(g->runner, row, 1, &logits));
  TRI_TRY(tri_sampling_check(logits, g->logits_type, g->vocab_size, behind));
  return tri_fail_internal("logits that are finite were answered as if they were not");
}

/* Returns the likeliest token with the log-probability from its query, `numbers`. If its logit equals that of the
 * scored token, it gets the scored token's log-probability: with several tensor ranks, the log-probabilities from the
 * two queries may differ in the last bits. */
static tri_likely likeliest_of(int32_t id, const double *numbers, const double *scored) {
  const bool same = numbers[TRI_LOGIT_VALUE] == scored[TRI_LOGIT_VALUE];
  return (tri_likely){id, (same ? scored : numbers)[TRI_LOGIT_LOG_PROB]};
}

static void read_answers(const tri_generator *g, tri_reading *r, const int32_t *ids, const double *numbers) {
  const tri_sequence *s = r->of;
  const scored_tokens scored = scored_by(r);
  int64_t at = r->first_query;
  for (int64_t i = 0; i < scored.count; i++, at += asks_likeliest(r) ? 2 : 1) {
    const double *of = numbers + at * TRI_LOGIT_NUMBERS;
    const int64_t score = score_of(s, scored.first + i);
    s->options.scores[score] = of[TRI_LOGIT_LOG_PROB];
    if (asks_likeliest(r)) s->options.likeliest[score] = likeliest_of(ids[at + 1], of + TRI_LOGIT_NUMBERS, of);
    if (ids[at] >= 0) continue;
    r->failed_row = r->first_logit + i;
    r->failed_behind = scored.first + i;
  }
  for (int64_t i = 0; samples_whole(r) && i <= r->guesses; i++, at++) {
    tri_sampled *out = &g->sampled[tri_reading_first_sample(r) + i];
    const double *of = numbers + at * TRI_LOGIT_NUMBERS;
    out->id = ids[at];
    out->log_prob = of[TRI_LOGIT_LOG_PROB];
    out->entropy = of[TRI_LOGIT_ENTROPY];
    out->sampled_log_prob = of[TRI_LOGIT_SAMPLED_LOG_PROB];
  }
}

static tri_status ask_device(tri_generator *g) {
  const int32_t *ids = NULL;
  const double *numbers = NULL;
  int64_t count = 0;
  for (int64_t i = 0; i < g->num_reads; i++) add_queries(g, &g->reads[i], &count);
  TRI_TRY(tri_runner_query(g->runner, g->queries, count, &ids, &numbers));
  for (int64_t i = 0; i < g->num_reads; i++) read_answers(g, &g->reads[i], ids, numbers);
  return TRI_OK;
}

/* ---- on the host ------------------------------------------------------------------------------------------------- */

size_t tri_generator_sampler_bytes(int64_t vocab_size, int threads) {
  return (size_t)threads * (sizeof(tri_sampling_scratch) +
                            (size_t)vocab_size * (sizeof(tri_candidate) + sizeof(double) + sizeof(double)));
}

/* Allocates scratch memory the first time that the host samples. */
static tri_status create_scratch(tri_generator *g) {
  const size_t vocabulary = (size_t)g->vocab_size;
  if (g->scratch != NULL) return TRI_OK;
  TRI_TRY(tri_alloc("logits", (size_t)g->threads, sizeof *g->scratch, &g->scratch));
  for (int i = 0; i < g->threads; i++) {
    TRI_TRY(tri_alloc("candidates", vocabulary, sizeof *g->scratch[i].candidates, &g->scratch[i].candidates));
    TRI_TRY(tri_alloc("logits", vocabulary, sizeof *g->scratch[i].logits, &g->scratch[i].logits));
    TRI_TRY(tri_alloc("logits", vocabulary, sizeof *g->scratch[i].adjusted, &g->scratch[i].adjusted));
  }
  return TRI_OK;
}

static bool wants_copies(const tri_reading *r) {
  return r->samples && (!samples_whole(r) || r->of->options.requested.likeliest > 0);
}

static tri_status copy_logits(tri_generator *g, int64_t *copies) {
  for (int64_t i = 0; i < g->num_reads; i++) {
    tri_reading *r = &g->reads[i];
    const int64_t first = tri_reading_first_sample(r);
    if (!wants_copies(r)) continue;
    if (!samples_whole(r)) TRI_TRY(create_scratch(g));
    for (int64_t row = first; row <= first + r->guesses; row++, (*copies)++)
      TRI_TRY(tri_runner_logits(g->runner, row, 1, &g->copies[row]));
  }
  return TRI_OK;
}

/* Samples from the host's copy of logit row `row`, after `behind` tokens, the last of them perhaps guesses. If the
 * device has sampled already (`whole`), only adds the likeliest tokens. */
static void sample_from_copy(const tri_generator *g, const tri_sequence *s, bool whole, int64_t row, int64_t behind,
                             int thread) {
  const tri_sampling_request *requested = &s->options.requested;
  const tri_sampling_text text = {.ids = s->ids, .given = s->count - s->sampled, .count = behind};
  tri_sampled *out = &g->sampled[row];
  if (!whole) {
    if (tri_sample_next(g->copies[row], g->logits_type, g->vocab_size, &s->options.sampling, &text, requested,
                        &g->scratch[thread], out) != TRI_OK)
      out->id = -1;
  } else if (out->id >= 0) {
    tri_sampling_likeliest(g->copies[row], g->logits_type, g->vocab_size, requested->likeliest, out->id, out->log_prob,
                           out->likeliest);
  }
}

/* Samples in parallel; each sequence has its own logits. */
static tri_status sample_on_host(tri_generator *g) {
  int64_t copies = 0;
  TRI_TRY(copy_logits(g, &copies));
  if (copies == 0) return TRI_OK;
#pragma omp parallel for schedule(dynamic, 1) num_threads(g->threads) if (copies > 1)
  for (int64_t i = 0; i < g->num_reads; i++) {
    const tri_reading *r = &g->reads[i];
    for (int64_t j = 0; wants_copies(r) && j <= r->guesses; j++)
      sample_from_copy(g, r->of, samples_whole(r), tri_reading_first_sample(r) + j, r->of->count + j,
                       omp_get_thread_num());
  }
  return TRI_OK;
}

/* Finds the likeliest tokens at the positions of the scored tokens of a reading; rows are processed in parallel. */
static tri_status list_likeliest(tri_generator *g, const tri_reading *r) {
  const tri_sequence_options *options = &r->of->options;
  const scored_tokens scored = scored_by(r);
  const size_t row_bytes = (size_t)g->vocab_size * tri_dtype_bytes(g->logits_type);
  const void *logits = NULL;
  if (scored.count == 0) return TRI_OK;
  TRI_TRY(tri_runner_logits(g->runner, r->first_logit, scored.count, &logits));
#pragma omp parallel for schedule(dynamic, 1) num_threads(g->threads) if (scored.count > 1)
  for (int64_t i = 0; i < scored.count; i++) {
    const int64_t score = score_of(r->of, scored.first + i);
    tri_likely *out = options->likeliest + score * options->scored_likeliest;
    for (int64_t j = g->vocab_size; j < options->scored_likeliest; j++) out[j] = (tri_likely){-1, -INFINITY};
    tri_sampling_likeliest((const char *)logits + (size_t)i * row_bytes, g->logits_type, g->vocab_size,
                           options->scored_likeliest, r->of->ids[scored.first + i], options->scores[score], out);
  }
  return TRI_OK;
}

tri_status tri_generator_answer(tri_generator *g) {
  TRI_TRY(ask_device(g));
  for (int64_t i = 0; i < g->num_reads; i++) {
    if (lists_likeliest(&g->reads[i])) TRI_TRY(list_likeliest(g, &g->reads[i]));
  }
  return sample_on_host(g);
}
