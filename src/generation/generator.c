/* The verbs of the generator: begin, fork, extend, rewind, cancel and release sequences. generator_step.c runs a step,
 * generator_answers.c samples, generator_guess.c asks for guesses.
 *
 * The problem: sequences of unequal length begin and end at any time, and share one device, one cache of keys and
 * values, and a fixed number of rows per run. Many of them begin alike: samples of one prompt, choices of one question,
 * turns of one conversation.
 *
 * The idea: no sequence owns a part of the cache. Keys and values are in pages of TRI_PAGE_ROWS positions with
 * reference counts (pages.h). A verb only changes host memory: the tokens of a sequence, its references to pages, and
 * `target`, the number of tokens to read before the next token is sampled or the sequence ends. tri_generator_step then
 * lists all sequences that have tokens left to read or refer to pages, lets the scheduler give them rows (scheduler.h),
 * runs the model once on all these rows, and samples.
 *
 * Invariants, between steps:
 * - tokens [offset, offset + held) of a sequence are read, at positions from 0; its pages hold their keys and values;
 * - a full page that is cached or shared is never written with other tokens. A fork shares full pages, and copies a
 *   partly filled last page when it begins to read (`copied`);
 * - the first `gone` pages are released, because no later token attends to them (sliding window);
 * - `list` is in the order of arrival. The scheduler preempts from its end, so the oldest sequence always advances.
 *
 * Example: two samples of a prompt of 150 tokens, with pages of 64 positions. One sequence reads the prompt into 3
 * pages. tri_generator_fork is called twice from its `done` callback: both forks refer to the first 2 pages, and copy
 * the third when they get their first row. The prompt's sequence is then released. Its 2 full pages remain in use until
 * both samples are released, and remain cached after that, so that a later prompt that begins with the same 128 tokens
 * finds them. */
#include "base/count.h"
#include "base/memory.h"
#include "generation/generator_internal.h"

#include <math.h>

static tri_status set_up(tri_generator *g) {
  TRI_TRY(tri_pages_create(g->sizes.pages, TRI_PAGE_ROWS, &g->pages));
  TRI_TRY(tri_alloc("pages", (size_t)g->sizes.pages, sizeof *g->holders, &g->holders));
  TRI_TRY(tri_alloc("samples", (size_t)g->sizes.sequences, sizeof *g->reads, &g->reads));
  TRI_TRY(tri_alloc("samples", (size_t)g->sizes.sequences, sizeof *g->asked, &g->asked));
  TRI_TRY(tri_alloc("queries", TRI_ROW_QUERIES * (size_t)g->sizes.logit_rows, sizeof *g->queries, &g->queries));
  TRI_TRY(tri_alloc("samples", (size_t)g->sizes.logit_rows, sizeof *g->sampled, &g->sampled));
  return tri_alloc("samples", (size_t)g->sizes.logit_rows, sizeof *g->copies, &g->copies);
}

tri_status tri_generator_create(const tri_model *model, tri_dtype precision, tri_runner *runner, tri_generator **out) {
  tri_generator *g = NULL;
  TRI_TRY(tri_alloc("a generator", 1, sizeof *g, &g));
  g->runner = runner;
  g->sizes = *tri_runner_sizes_of(runner);
  g->logits_type = tri_dtype_wide(precision);
  g->vocab_size = model->vocab_size;
  g->window = tri_runner_window(model);
  g->threads = (int)tri_smaller(tri_runner_threads(runner), g->sizes.sequences);
  const tri_status status = set_up(g);
  if (status == TRI_OK) *out = g;
  if (status != TRI_OK) tri_generator_destroy(g);
  return status;
}

void tri_generator_destroy(tri_generator *g) {
  if (g == NULL) return;
  for (int64_t i = 0; i < g->count; i++) {
    if (g->list[i] == NULL) continue;
    tri_generator_forget_guesses(g, g->list[i]);
    tri_sequence_destroy(g->list[i], g->pages);
  }
  for (int i = 0; i < g->threads && g->scratch != NULL; i++) {
    tri_free(g->scratch[i].candidates);
    tri_free(g->scratch[i].logits);
    tri_free(g->scratch[i].adjusted);
  }
  tri_free(g->scratch);
  tri_free(g->roots);
  tri_free(g->asked);
  tri_free(g->queries);
  tri_free(g->sampled);
  tri_free(g->copies);
  tri_free(g->reads);
  tri_free(g->holders);
  tri_free(g->of);
  tri_free(g->entries);
  tri_free(g->list);
  tri_pages_destroy(g->pages);
  tri_free(g);
}

int64_t tri_generator_positions(const tri_generator *g) { return g->sizes.positions; }

/* ---- verbs ------------------------------------------------------------------------------------------------------- */

/* Makes room for one more sequence in the list. */
static tri_status reserve_place(tri_generator *g) {
  if (g->count < g->capacity) return TRI_OK;
  const int64_t room = 2 * g->capacity + 64;
  TRI_TRY(tri_realloc("sequences", (size_t)room, sizeof(tri_sequence *), &g->list));
  g->capacity = room;
  return TRI_OK;
}

/* Appends a sequence to the list. */
static tri_status enlist(tri_generator *g, tri_sequence *s) {
  TRI_TRY(reserve_place(g));
  s->place = g->count;
  g->list[g->count++] = s;
  return TRI_OK;
}

static tri_status check_sampling(const tri_generator *g, const tri_sampling *sampling) {
  if (!isfinite(sampling->presence_penalty) || !isfinite(sampling->frequency_penalty))
    return tri_fail(TRI_BAD_USAGE, "a presence penalty of %g and a frequency penalty of %g: both must be finite",
                    sampling->presence_penalty, sampling->frequency_penalty);
  for (int i = 0; i < sampling->num_bias; i++) {
    const tri_logit_bias *bias = &sampling->bias[i];
    if (bias->id < 0 || bias->id >= g->vocab_size)
      return tri_fail(TRI_BAD_USAGE, "a bias of token %d, and the model's vocabulary has 0 to %ld", (int)bias->id,
                      (long)g->vocab_size - 1);
    if (!isfinite(bias->bias))
      return tri_fail(TRI_BAD_USAGE, "token %d has a bias of %g, which is not finite", (int)bias->id, bias->bias);
  }
  return TRI_OK;
}

static tri_status check_likeliest(const tri_sequence_options *options) {
  if (options->requested.likeliest < 0 || options->requested.likeliest > TRI_MOST_LIKELY)
    return tri_fail(TRI_BAD_USAGE, "%ld likeliest tokens were requested, and 0 to %d are possible",
                    (long)options->requested.likeliest, (int)TRI_MOST_LIKELY);
  if (options->scored_likeliest < 0 || options->scored_likeliest > TRI_MOST_LIKELY)
    return tri_fail(TRI_BAD_USAGE, "%ld likeliest tokens were requested for each scored one, and 0 to %d are possible",
                    (long)options->scored_likeliest, (int)TRI_MOST_LIKELY);
  if (options->scored > 0 && options->scored_likeliest > 0 && options->likeliest == NULL)
    return tri_fail_internal("likeliest tokens were requested without memory for them");
  return TRI_OK;
}

tri_status tri_generator_check(const tri_generator *g, const int32_t *ids, int64_t count,
                               const tri_sequence_options *options) {
  const int64_t longest = tri_smaller(count + options->wanted, g->sizes.positions);
  TRI_TRY(check_sampling(g, &options->sampling));
  for (int64_t i = 0; i < count; i++) {
    if (ids[i] >= 0 && ids[i] < g->vocab_size) continue;
    return tri_fail(TRI_BAD_USAGE, "token %ld is %d, and the model's vocabulary has 0 to %ld", (long)i, (int)ids[i],
                    (long)g->vocab_size - 1);
  }
  if (count < 1) return tri_fail(TRI_BAD_USAGE, "a sequence of no tokens: nothing follows from nothing");
  if (options->scored > 0 && count > g->sizes.positions + (options->wanted > 0 ? 0 : 1))
    return tri_fail(TRI_BAD_USAGE,
                    "log-probabilities of %ld tokens were requested, but only %ld positions are available", (long)count,
                    (long)g->sizes.positions);
  if (options->scored >= count)
    return tri_fail(TRI_BAD_USAGE, "%ld tokens of %ld cannot be scored: the first one has nothing before it",
                    (long)options->scored, (long)count);
  TRI_TRY(check_likeliest(options));
  const int64_t pages = tri_schedule_pages(longest, TRI_PAGE_ROWS, g->window, g->sizes.rows);
  if (pages <= g->sizes.pages) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE,
                  "a sequence of %ld tokens and %ld to be written takes %ld pages of %d positions, and the cache has "
                  "%ld: give it more (--cache), or write less",
                  (long)count, (long)options->wanted, (long)pages, (int)TRI_PAGE_ROWS, (long)g->sizes.pages);
}

/* Sets the number of tokens to read. The last token is not read if only scores are asked for. */
static void set_target(tri_sequence *s, const tri_sequence_options *options) {
  s->options = *options;
  s->sampled = 0;
  s->finish = TRI_FINISH_NONE;
  s->target = s->count - (options->scored > 0 && options->wanted == 0 ? 1 : 0);
}

/* Marks tokens that are read already as unread if a step must read them for their logits. Reading them again overwrites
 * their keys and values with the same ones. */
static void give_back_rows(tri_generator *g, tri_sequence *s) {
  const int64_t most = s->target - s->offset - tri_sequence_must_read(s);
  tri_sequence_keep_positions(s, g->pages, most, g->window);
  /* If a cached page was released above, `prefix` and `kept` still include it. Drop all pages, and let find_pages look
   * up the cached ones in the next step. */
  if (s->kept > s->num_pages) tri_sequence_drop_pages(s, g->pages);
}

static tri_status begin(tri_generator *g, tri_sequence *s, const tri_sequence_options *options) {
  set_target(s, options);
  tri_sequence_slide(s, g->pages, g->sizes.positions);
  give_back_rows(g, s);
  return enlist(g, s);
}

/* Sets *out to the root of an owner's cached pages, which is created if it does not exist. */
static tri_status find_root(tri_generator *g, int64_t owner, tri_prefix *out) {
  while (g->num_roots <= owner) {
    TRI_TRY(tri_grow("roots of cached pages", sizeof *g->roots, g->num_roots, &g->root_room, &g->roots));
    g->roots[g->num_roots++] = tri_pages_root(g->pages);
  }
  *out = g->roots[owner];
  return TRI_OK;
}

static tri_status create_sequence(tri_generator *g, int64_t owner, const int32_t *ids, int64_t count,
                                  tri_sequence **out) {
  TRI_TRY(tri_alloc("a sequence", 1, sizeof **out, out));
  (*out)->copied = -1;
  (*out)->owner = owner;
  TRI_TRY(find_root(g, owner, &(*out)->root));
  (*out)->prefix = (*out)->root;
  return tri_sequence_append(*out, ids, count);
}

tri_status tri_generator_begin(tri_generator *g, const int32_t *ids, int64_t count, const tri_sequence_options *options,
                               tri_sequence **out) {
  tri_sequence *s = NULL;
  tri_status status = create_sequence(g, options->owner, ids, count, &s);
  if (status == TRI_OK) status = tri_generator_check(g, s->ids, s->count, options);
  if (status == TRI_OK) status = begin(g, s, options);
  if (status == TRI_OK) *out = s;
  if (status != TRI_OK && s != NULL) tri_sequence_destroy(s, g->pages);
  return status;
}

/* Shares the full pages of `from`. Its last, partly filled page is copied when `to` begins to read. */
static tri_status share_pages(tri_generator *g, const tri_sequence *from, tri_sequence *to) {
  const int64_t whole = from->held / TRI_PAGE_ROWS;
  to->gone = from->gone;
  for (int64_t i = 0; i < whole; i++) {
    TRI_TRY(tri_sequence_add_page(to, from->pages[i]));
    if (i >= from->gone) tri_pages_hold(g->pages, from->pages[i]);
  }
  to->offset = from->offset;
  to->held = whole * TRI_PAGE_ROWS;
  to->kept = from->kept;
  to->prefix = from->prefix;
  to->slid = from->slid;
  if (from->held == to->held || from->num_pages <= whole) return TRI_OK;
  to->copied = from->pages[whole];
  to->held = from->held;
  tri_pages_hold(g->pages, to->copied);
  return TRI_OK;
}

tri_status tri_generator_fork(tri_generator *g, const tri_sequence *from, const int32_t *ids, int64_t count,
                              const tri_sequence_options *options, tri_sequence **out) {
  tri_sequence *s = NULL;
  if (from->finish == TRI_FINISH_NONE) return tri_fail_internal("a fork of a sequence that has not come to its end");
  tri_status status = create_sequence(g, from->owner, from->ids, from->count, &s);
  if (status == TRI_OK) status = tri_sequence_append(s, ids, count);
  if (status == TRI_OK) status = share_pages(g, from, s);
  if (status == TRI_OK) status = tri_generator_check(g, s->ids, s->count, options);
  if (status == TRI_OK) status = begin(g, s, options);
  if (status == TRI_OK) *out = s;
  if (status != TRI_OK && s != NULL) tri_sequence_destroy(s, g->pages);
  return status;
}

tri_status tri_generator_extend(tri_generator *g, tri_sequence *s, const int32_t *ids, int64_t count,
                                const tri_sequence_options *options) {
  if (s->finish == TRI_FINISH_NONE) return tri_fail_internal("a sequence that has not come to its end is extended");
  TRI_TRY(tri_sequence_append(s, ids, count));
  tri_status status = tri_generator_check(g, s->ids, s->count, options);
  if (status == TRI_OK) status = reserve_place(g);
  if (status != TRI_OK) {
    s->count -= count; /* a failure leaves the sequence unchanged */
    return status;
  }
  g->list[s->place] = NULL; /* begin() adds it to the end of the list */
  return begin(g, s, options);
}

/* Returns whether another sequence refers to the partly filled last page, to copy it. */
static bool shares_last_page(const tri_generator *g, const tri_sequence *s) {
  const int64_t last = s->held / TRI_PAGE_ROWS;
  return last >= s->gone && last < s->num_pages && tri_pages_holders(g->pages)[s->pages[last]] > 1;
}

/* Drops all pages if the first `count` tokens end before the last cached page does (tokens of a cached page must not
 * change), if a fork that has not begun to read needs later tokens of the last page, if the sequence has slid past
 * these tokens, or if the next token attends to a released page. */
void tri_generator_rewind(tri_generator *g, tri_sequence *s, int64_t count) {
  const int64_t held = s->held;
  s->count = count;
  if (s->offset >= count) tri_sequence_drop_pages(s, g->pages);
  if (s->offset >= count) s->offset = 0;
  tri_sequence_keep_positions(s, g->pages, count - s->offset, g->window);
  const bool changes_fork = s->held < held && shares_last_page(g, s);
  if (s->kept * TRI_PAGE_ROWS > s->held || changes_fork) tri_sequence_drop_pages(s, g->pages);
}

/* Removes a sequence from the readings of the step in progress. */
static void leave_step(tri_generator *g, const tri_sequence *s) {
  for (int64_t i = 0; i < g->num_reads; i++) {
    if (g->reads[i].of == s) g->reads[i].of = NULL;
  }
}

tri_status tri_generator_cancel(tri_generator *g, tri_sequence *s) {
  if (s->finish != TRI_FINISH_NONE) return TRI_OK;
  leave_step(g, s);
  return tri_generator_end(g, s, TRI_FINISH_CANCELLED);
}

tri_status tri_generator_cancel_all(tri_generator *g) {
  const int64_t count = g->count;
  for (int64_t i = 0; i < count; i++) {
    if (g->list[i] != NULL) TRI_TRY(tri_generator_cancel(g, g->list[i]));
  }
  return TRI_OK;
}

void tri_generator_release(tri_generator *g, tri_sequence *s) {
  tri_generator_forget_guesses(g, s);
  leave_step(g, s);
  g->list[s->place] = NULL;
  tri_sequence_destroy(s, g->pages);
}

tri_status tri_generator_drain(tri_generator *g) {
  tri_status status = TRI_OK;
  g->draining = true;
  for (bool more = true; status == TRI_OK && more;) status = tri_generator_step(g, &more);
  g->draining = false;
  return status;
}

tri_status tri_generator_publish(tri_generator *g, tri_publish_rule rule) {
  int64_t started = 0;
  for (int64_t i = 0; i < g->count; i++)
    started += g->list[i] != NULL && g->list[i]->finish == TRI_FINISH_NONE && tri_sequence_has_started(g->list[i]);
  switch (rule) {
    case TRI_PUBLISH_READ_AGAIN: break;
    case TRI_PUBLISH_BETWEEN:
      if (started == 0) break;
      return tri_fail_internal("new weights are published while %ld sequences are in progress", (long)started);
  }
  TRI_TRY(tri_runner_publish(g->runner));
  g->num_roots = 0;
  for (int64_t i = 0; i < g->count; i++) {
    tri_prefix root = 0;
    if (g->list[i] == NULL) continue;
    TRI_TRY(find_root(g, g->list[i]->owner, &root));
    tri_sequence_set_root(g->list[i], g->pages, root);
  }
  return TRI_OK;
}

tri_generator_counts tri_generator_count(const tri_generator *g) {
  tri_generator_counts counts = g->counts;
  counts.free_pages = tri_pages_free(g->pages);
  for (int64_t i = 0; i < g->count; i++) counts.sequences += g->list[i] != NULL;
  return counts;
}
