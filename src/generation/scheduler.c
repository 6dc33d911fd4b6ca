#include "generation/scheduler.h"

#include "base/count.h"

#include <stddef.h>

/* A step that is being scheduled. */
typedef struct scheduling {
  const tri_schedule_limits *limits;
  tri_schedule_entry *entries;
  int64_t count, oldest;                        /* oldest: index of the first entry that has a place; -1: none */
  int64_t rows, logit_rows, free_pages, places; /* numbers that are still available */
} scheduling;

static int64_t pages_for(const scheduling *s, int64_t positions) {
  return (positions + s->limits->page_rows - 1) / s->limits->page_rows;
}

/* Returns how many of the entry's first `rows` unread tokens need logits. */
static int64_t logits_of(const tri_schedule_entry *e, int64_t rows) {
  return tri_larger(0, rows - tri_larger(0, e->unread - e->wants_logits));
}

static int64_t pages_of(const scheduling *s, const tri_schedule_entry *e) {
  return e->rows == 0 ? e->num_pages : tri_larger(e->num_pages, pages_for(s, e->held + e->rows));
}

/* Returns how many more rows the entry can get, with at most `most` in all. */
static int64_t room_for(const scheduling *s, const tri_schedule_entry *e, int64_t most) {
  const int64_t of_pages = (pages_of(s, e) + s->free_pages) * s->limits->page_rows - e->held - e->rows;
  const int64_t rows = tri_smaller(tri_smaller(most, e->unread) - e->rows, tri_smaller(s->rows, of_pages));
  return tri_larger(0, rows - tri_larger(0, logits_of(e, e->rows + rows) - logits_of(e, e->rows) - s->logit_rows));
}

static void give(scheduling *s, tri_schedule_entry *e, int64_t rows) {
  if (rows > 0) s->free_pages -= tri_larger(0, pages_for(s, e->held + e->rows + rows) - pages_of(s, e));
  s->rows -= rows;
  s->logit_rows -= logits_of(e, e->rows + rows) - logits_of(e, e->rows);
  e->rows += rows;
}

static void preempt(scheduling *s, tri_schedule_entry *e) {
  for (int64_t i = 0; i < e->num_holds; i++) {
    if (--s->limits->holders[e->pages[i]] == 0) s->free_pages++;
  }
  if (e->has_place) s->places++;
  e->num_pages = e->num_holds = 0;
  e->copies_page = false;
  e->has_place = false;
  e->preempted = true;
}

/* Returns the entry to preempt for entry `number`, or NULL. Candidates hold pages, have no rows, and arrived later than
 * `number` or have nothing to read; for the oldest entry with a place, earlier entries are candidates, too. The newest
 * candidate is returned. */
static tri_schedule_entry *find_victim(const scheduling *s, int64_t number) {
  for (int64_t i = s->count - 1; i >= 0; i--) {
    tri_schedule_entry *e = &s->entries[i];
    if (i == number || e->num_holds == 0 || e->rows > 0) continue;
    if (i > number || number == s->oldest || e->unread == 0) return e;
  }
  return NULL;
}

/* Gives the entry one row, unless it has rows or is preempted. Preempts other entries if pages are missing. If no other
 * entry can be preempted and `number` holds another sequence's page to copy, `number` itself is preempted, which
 * releases that page. */
static void read_on(scheduling *s, int64_t number) {
  tri_schedule_entry *e = &s->entries[number];
  if (e->rows > 0 || e->preempted) return;
  int64_t rows = room_for(s, e, 1);
  while (rows == 0 && s->rows > 0 && s->logit_rows > 0) {
    tri_schedule_entry *victim = find_victim(s, number);
    if (victim == NULL && e->copies_page) preempt(s, e);
    if (victim == NULL) return;
    preempt(s, victim);
    rows = room_for(s, e, 1);
  }
  give(s, e, rows);
}

/* Returns whether a waiting entry may begin: there must be a place, and pages for all its unread tokens and one more
 * (at most `most_pages`), so that it is not preempted soon after. If no entry has a place (`alone`), pages do not
 * matter, since all others can be preempted. */
static bool may_begin(const scheduling *s, const tri_schedule_entry *e, bool alone) {
  const int64_t pages = tri_smaller(pages_for(s, e->held + e->unread + 1) - e->num_pages, s->limits->most_pages);
  return s->places > 0 && (alone || pages <= s->free_pages);
}

/* Gives rows to the guesses of an entry that has the row of its only unread token. */
static void give_guesses(scheduling *s, tri_schedule_entry *e) {
  if (e->rows != 1 || e->unread != 1) return;
  const int64_t of_pages = (pages_of(s, e) + s->free_pages) * s->limits->page_rows - e->held - e->rows;
  const int64_t rows =
      tri_larger(0, tri_smaller(tri_smaller(e->guesses, of_pages), tri_smaller(s->rows, s->logit_rows)));
  s->free_pages -= tri_larger(0, pages_for(s, e->held + e->rows + rows) - pages_of(s, e));
  s->rows -= rows;
  s->logit_rows -= rows;
  e->guess_rows = rows;
}

void tri_schedule_rows(const tri_schedule_limits *limits, tri_schedule_entry *entries, int64_t count) {
  scheduling s = {limits, entries, count, -1, limits->rows, limits->logit_rows, limits->free_pages, limits->places};
  for (int64_t i = 0; i < count; i++) {
    entries[i].rows = entries[i].guess_rows = 0;
    entries[i].preempted = false;
    s.places -= entries[i].has_place;
    if (s.oldest < 0 && entries[i].has_place) s.oldest = i;
  }
  if (s.oldest >= 0) read_on(&s, s.oldest);
  for (int64_t i = 0; i < count; i++) {
    if (entries[i].has_place && entries[i].unread == 1) read_on(&s, i);
  }
  for (int64_t i = 0; i < count; i++) {
    if (!entries[i].has_place || entries[i].unread <= 1) continue;
    const int64_t rows = room_for(&s, &entries[i], entries[i].unread);
    if (rows > 0) give(&s, &entries[i], rows);
  }
  for (int64_t i = 0; i < count; i++) {
    tri_schedule_entry *e = &entries[i];
    if (e->has_place || e->unread == 0) continue;
    if (e->preempted || !may_begin(&s, e, s.oldest < 0)) break;
    e->has_place = true;
    s.places--;
    if (s.oldest < 0) { /* no other entry has a place: entries that only hold pages are preempted if needed */
      s.oldest = i;
      read_on(&s, i);
    }
    const int64_t rows = room_for(&s, e, e->unread);
    if (rows > 0) give(&s, e, rows);
  }
  for (int64_t i = 0; i < count; i++) give_guesses(&s, &entries[i]);
}

int64_t tri_schedule_pages(int64_t positions, int64_t page_rows, int64_t window, int64_t rows) {
  const int64_t all = (positions + page_rows - 1) / page_rows;
  /* Pages of the rows of a step and of the tokens that they attend to; the range may begin and end within a page. */
  return window == 0 ? all : tri_smaller(all, (window + rows + page_rows - 2) / page_rows + 1);
}
