/* One step: schedules rows, runs the model, and appends the sampled tokens. generator.c explains the idea. */
#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/memory.h"
#include "generation/generator_internal.h"

#include <string.h>

/* ---- schedule ---------------------------------------------------------------------------------------------------- */

static void forget_released(tri_generator *g) {
  int64_t count = 0;
  for (int64_t i = 0; i < g->count; i++) {
    if (g->list[i] == NULL) continue;
    g->list[i]->place = count;
    g->list[count++] = g->list[i];
  }
  g->count = count;
}

/* Adds cached pages to a waiting sequence, except for tokens that must be read (tri_sequence_must_read). */
static tri_status find_pages(tri_generator *g, tri_sequence *s) {
  const int64_t most = s->target - s->offset - tri_sequence_must_read(s);
  while (s->copied < 0 && s->held == s->kept * TRI_PAGE_ROWS && s->held + TRI_PAGE_ROWS <= most) {
    const int32_t page = tri_pages_find(g->pages, &s->prefix, s->ids + s->offset + s->held);
    if (page < 0) return TRI_OK;
    TRI_TRY(tri_sequence_add_page(s, page));
    s->held += TRI_PAGE_ROWS;
    s->kept++;
    g->counts.found_rows += TRI_PAGE_ROWS;
  }
  return TRI_OK;
}

static tri_status reserve_entries(tri_generator *g) {
  if (g->room >= g->count) return TRI_OK;
  g->room = 0;
  TRI_TRY(tri_realloc("sequences", (size_t)g->capacity, sizeof *g->entries, &g->entries));
  TRI_TRY(tri_realloc("sequences", (size_t)g->capacity, sizeof(tri_sequence *), &g->of));
  g->room = g->capacity;
  return TRI_OK;
}

/* Lists the sequences for the scheduler. Waiting sequences without pages are listed only up to sizes.sequences, because
 * no more can begin in one step. */
static tri_status list_entries(tri_generator *g, int64_t *out) {
  int64_t count = 0, waiting = 0;
  TRI_TRY(reserve_entries(g));
  for (int64_t i = 0; i < g->count; i++) {
    tri_sequence *s = g->list[i];
    const bool ended = s->finish != TRI_FINISH_NONE;
    if (g->draining && !ended && !tri_sequence_has_started(s)) {
      tri_sequence_drop_pages(s, g->pages); /* cached pages remain in the prefix cache until they are allocated again */
      continue;
    }
    if (!ended && !s->has_place && waiting < g->sizes.sequences) TRI_TRY(find_pages(g, s));
    if (s->num_pages == s->gone && s->copied < 0 && (ended || (!s->has_place && waiting >= g->sizes.sequences)))
      continue;
    waiting += !ended && !s->has_place;
    if (s->copied >= 0) { /* stores the page to copy after the last page; num_holds counts it, num_pages does not */
      TRI_TRY(tri_sequence_add_page(s, s->copied));
      s->num_pages--;
    }
    g->of[count] = s;
    g->entries[count++] = (tri_schedule_entry){.unread = ended ? 0 : s->target - s->offset - s->held,
                                               .held = s->held,
                                               .wants_logits = tri_sequence_wants_logits(s),
                                               .guesses = s->num_guesses,
                                               .has_place = s->has_place,
                                               .num_pages = s->num_pages,
                                               .pages = s->pages + s->gone,
                                               .num_holds = s->num_pages - s->gone + (s->copied >= 0 ? 1 : 0),
                                               .copies_page = s->copied >= 0};
  }
  *out = count;
  return TRI_OK;
}

/* Schedules the rows of a step. Sets *again if no sequence got a row because sequences were preempted; their pages are
 * free in the next call. */
static tri_status schedule(tri_generator *g, int64_t *count, bool *again) {
  bool preempted = false, rows = false;
  TRI_TRY(list_entries(g, count));
  memcpy(g->holders, tri_pages_holders(g->pages), (size_t)g->sizes.pages * sizeof *g->holders);
  const tri_schedule_limits limits = {
      .rows = g->sizes.rows,
      .logit_rows = g->sizes.logit_rows,
      .places = g->sizes.sequences,
      .page_rows = TRI_PAGE_ROWS,
      .most_pages = tri_schedule_pages(g->sizes.positions, TRI_PAGE_ROWS, g->window, g->sizes.rows),
      .free_pages = tri_pages_free(g->pages),
      .holders = g->holders};
  tri_schedule_rows(&limits, g->entries, *count);
  for (int64_t i = 0; i < *count; i++) {
    preempted = preempted || g->entries[i].preempted;
    rows = rows || g->entries[i].rows > 0;
    if (g->entries[i].preempted) {
      tri_sequence_drop_pages(g->of[i], g->pages);
      g->counts.preempted++;
    }
    g->of[i]->has_place = g->entries[i].has_place;
  }
  *again = preempted && !rows;
  return TRI_OK;
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

/* Allocates pages for the next `rows` rows. The first new page is filled with a copy of another sequence's page if
 * `copied` is set. */
static tri_status allocate_pages(tri_generator *g, tri_sequence *s, int64_t rows) {
  while (s->num_pages * TRI_PAGE_ROWS < s->held + rows) {
    const int32_t page = tri_pages_allocate(g->pages);
    if (page < 0) return tri_fail_internal("a page that the scheduler counted is not there");
    TRI_TRY(tri_sequence_add_page(s, page));
    if (s->copied < 0) continue;
    TRI_TRY(tri_runner_copy_page(g->runner, s->copied, page));
    tri_pages_release(g->pages, s->copied);
    s->copied = -1;
  }
  return TRI_OK;
}

/* Returns how many of the next `rows` tokens need logits. */
static int64_t logits_of(const tri_sequence *s, int64_t rows) {
  const int64_t silent = s->target - s->offset - s->held - tri_sequence_wants_logits(s);
  return silent < 0 ? rows : rows > silent ? rows - silent : 0;
}

/* Reads the scheduled rows of all `count` entries. */
static tri_status run(tri_generator *g, int64_t count) {
  int64_t rows = 0, made = 0;
  TRI_TRY(tri_runner_begin(g->runner));
  for (int64_t i = 0; i < count; i++) {
    tri_sequence *s = g->of[i];
    const int64_t guesses = g->entries[i].guess_rows, own = g->entries[i].rows;
    if (own == 0) continue;
    TRI_TRY(allocate_pages(g, s, own + guesses));
    TRI_TRY(tri_sequence_lay_guesses(s, guesses));
    const tri_runner_rows of = {.ids = s->ids + s->offset + s->held,
                                .first = s->held,
                                .count = own + guesses,
                                .pages = s->pages,
                                .logits = logits_of(s, own) + guesses};
    TRI_TRY(tri_runner_add(g->runner, &of));
    s->held += own;
    rows += of.count;
    g->counts.guessed += guesses;
    g->reads[g->num_reads++] = (tri_reading){.of = s,
                                             .logits = of.logits,
                                             .first_logit = made,
                                             .guesses = guesses,
                                             .failed_row = -1,
                                             .samples = s->options.wanted > 0 && s->offset + s->held == s->target};
    made += of.logits;
  }
  if (rows == 0) return tri_fail_internal("%ld sequences wait, and none can be read", (long)count);
  g->counts.steps++;
  g->counts.rows += rows;
  return tri_runner_run(g->runner);
}

/* Adds the sequence's full pages to the prefix cache, or replaces them by equal cached pages. */
static void keep_pages(tri_generator *g, tri_sequence *s) {
  for (; (s->kept + 1) * TRI_PAGE_ROWS <= s->held; s->kept++) {
    int32_t *page = &s->pages[s->kept];
    const int32_t kept = tri_pages_keep(g->pages, *page, &s->prefix, s->ids + s->offset + s->kept * TRI_PAGE_ROWS);
    if (kept == *page) continue;
    tri_pages_release(g->pages, *page);
    *page = kept;
  }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

tri_status tri_generator_end(tri_generator *g, tri_sequence *s, tri_finish finish) {
  s->finish = finish;
  s->has_place = false;
  tri_sequence_trim_pages(s, g->pages);
  return s->options.observer.done == NULL ? TRI_OK : s->options.observer.done(s->options.observer.context, s);
}

/* Appends a sampled token. Sets *ended if that ended the sequence; its observer may then have extended or released it.
 */
static tri_status append_sample(tri_generator *g, tri_sequence *s, const tri_sampled *sampled, bool *ended) {
  const tri_sequence_observer *observer = &s->options.observer;
  bool stop = false;
  TRI_TRY(tri_sequence_append(s, &sampled->id, 1));
  s->sampled++;
  if (observer->token != NULL) TRI_TRY(observer->token(observer->context, s, sampled, &stop));
  *ended = true;
  if (tri_sequence_ends_with(s, sampled->id)) return tri_generator_end(g, s, TRI_FINISH_END);
  if (stop) return tri_generator_end(g, s, TRI_FINISH_STOP);
  if (s->sampled == s->options.wanted) return tri_generator_end(g, s, TRI_FINISH_LENGTH);
  *ended = false;
  s->target = s->count;
  tri_sequence_slide(s, g->pages, g->sizes.positions);
  return TRI_OK;
}

/* Ends a sequence whose logits are not finite. Fails with the reason if the sequence's observer has no `failed`. */
static tri_status fail_sequence(tri_generator *g, tri_sequence *s, int64_t row, int64_t behind) {
  const tri_sequence_observer *observer = &s->options.observer;
  s->finish = TRI_FINISH_FAILED;
  s->has_place = false;
  const tri_status status = tri_generator_not_finite(g, row, behind);
  if (status != TRI_DIVERGED || observer->failed == NULL) return status;
  return observer->failed(observer->context, s);
}

/* Appends the token that was sampled after the sequence's last token. As long as the appended token equals the guess
 * for its position, also appends the token that was sampled after that guess. */
static tri_status append_samples(tri_generator *g, const tri_reading *r) {
  tri_sequence *s = r->of;
  bool ended = false;
  for (int64_t i = 0, row = tri_reading_first_sample(r); i <= r->guesses; i++, row++) {
    tri_sampled *sampled = &g->sampled[row];
    sampled->version = tri_runner_version(g->runner);
    if (sampled->id < 0) return fail_sequence(g, s, row, s->count);
    const bool right = i < r->guesses && s->ids[s->count] == sampled->id;
    TRI_TRY(append_sample(g, s, sampled, &ended));
    if (ended || !right) break;
    s->held++; /* the token was read as a guess */
    g->counts.kept++;
  }
  if (r->guesses > 0 && !ended) tri_sequence_trim_pages(s, g->pages);
  return TRI_OK;
}

static tri_status process_results(tri_generator *g) {
  for (int64_t i = 0; i < g->num_reads; i++) {
    tri_reading *r = &g->reads[i];
    if (r->of == NULL) continue;
    if (r->failed_row >= 0) {
      TRI_TRY(fail_sequence(g, r->of, r->failed_row, r->failed_behind));
    } else if (r->samples) {
      TRI_TRY(append_samples(g, r));
    } else if (r->of->offset + r->of->held == r->of->target) {
      TRI_TRY(tri_generator_end(g, r->of, TRI_FINISH_READ));
    }
  }
  return TRI_OK;
}

static bool any_left(const tri_generator *g) {
  for (int64_t i = 0; i < g->count; i++) {
    const tri_sequence *s = g->list[i];
    if (s == NULL || s->finish != TRI_FINISH_NONE) continue;
    if (!g->draining || tri_sequence_has_started(s)) return true;
  }
  return false;
}

/* Runs the step as work in the flight recorder, so that the watchdog of a training run sees progress while the run
 * generates samples. */
static tri_status run_and_answer(tri_generator *g, int64_t count) {
  const tri_record record = tri_record_make(TRI_RECORD_WORK, "write text");
  const uint64_t ticket = tri_recorder_begin(&record);
  tri_status status = run(g, count);
  if (status == TRI_OK) status = tri_generator_answer(g);
  tri_recorder_end(ticket);
  return status;
}

/* Records the tokens per second of the step, unless the step also read prompts. A step without prompts has one row per
 * sequence and one per guess. */
static void note_pace(tri_generator *g, const tri_generator_counts *before, double seconds) {
  const int64_t guessed = g->counts.guessed - before->guessed, kept = g->counts.kept - before->kept;
  if (g->most_guesses == 0 || g->counts.rows - before->rows != g->num_reads + guessed) return;
  tri_guess_policy_note(&g->policy, g->num_reads + kept, seconds);
}

tri_status tri_generator_step(tri_generator *g, bool *more) {
  const tri_generator_counts before = g->counts;
  int64_t count = 0;
  forget_released(g);
  g->num_reads = 0;
  *more = any_left(g);
  if (!*more) return TRI_OK;
  const double begin_s = tri_clock_s();
  TRI_TRY(tri_generator_guess(g));
  for (bool again = true; again;) TRI_TRY(schedule(g, &count, &again));
  TRI_TRY(run_and_answer(g, count));
  for (int64_t i = 0; i < g->num_reads; i++) {
    keep_pages(g, g->reads[i].of);
    tri_sequence_give_back_pages(g->reads[i].of, g->pages, g->window);
  }
  TRI_TRY(process_results(g));
  note_pace(g, &before, tri_clock_s() - begin_s);
  g->num_reads = 0;
  *more = any_left(g);
  return TRI_OK;
}

tri_status tri_generator_run(tri_generator *g) {
  bool more = true;
  while (more) TRI_TRY(tri_generator_step(g, &more));
  return TRI_OK;
}
