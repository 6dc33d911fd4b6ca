/* The scheduler and the pool of pages: many small cases, step by step to the end. */
#include "generation/pages.h"
#include "generation/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above first */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4, PAGE = 2, MOST_PAGES = 6 };

/* A sequence that reads a prompt and is then sampled from: `length` positions in all. */
typedef struct text {
  int64_t prompt, length, held, tokens, arrival;
  bool has_place;
  int32_t pages[MOST_PAGES];
  int64_t num_pages;
} text;

typedef struct world {
  text texts[MOST];
  int64_t count, places, rows, logit_rows;
  tri_pages *pages;
} world;

static void release_all(world *w, text *t) {
  while (t->num_pages > 0) tri_pages_release(w->pages, t->pages[--t->num_pages]);
  t->held = 0;
  t->has_place = false;
}

/* Runs one step. Returns whether any sequence has not ended. */
static bool step(world *w, int64_t now) {
  tri_schedule_entry entries[MOST] = {{0}};
  text *of[MOST];
  int32_t holders[MOST_PAGES];
  int64_t count = 0, read = 0, places = 0, logits = 0, oldest = -1;
  bool left = false;
  for (int64_t i = 0; i < w->count; i++) {
    text *t = &w->texts[i];
    left = left || t->held < t->length;
    if (t->arrival > now || t->held == t->length) continue;
    entries[count] = (tri_schedule_entry){.unread = t->tokens - t->held,
                                          .held = t->held,
                                          .wants_logits = 1,
                                          .guesses = (now + i) % 4,
                                          .has_place = t->has_place,
                                          .pages = t->pages,
                                          .num_pages = t->num_pages,
                                          .num_holds = t->num_pages};
    if (oldest < 0 && t->has_place) oldest = count;
    of[count++] = t;
  }
  memcpy(holders, tri_pages_holders(w->pages), (size_t)tri_pages_count(w->pages) * sizeof *holders);
  const tri_schedule_limits limits = {.rows = w->rows,
                                      .logit_rows = w->logit_rows,
                                      .places = w->places,
                                      .page_rows = PAGE,
                                      .most_pages = MOST_PAGES,
                                      .free_pages = tri_pages_free(w->pages),
                                      .holders = holders};
  tri_schedule_rows(&limits, entries, count);
  for (int64_t i = 0; i < count; i++) {
    if (!entries[i].preempted) continue;
    assert_true(i != oldest);
    assert_int_equal(entries[i].rows, 0);
    release_all(w, of[i]);
  }
  for (int64_t i = 0; i < count; i++) {
    text *t = of[i];
    t->has_place = entries[i].has_place;
    places += t->has_place;
    read += entries[i].rows;
    assert_true(entries[i].rows >= 0 && entries[i].rows <= t->tokens - t->held);
    assert_true(entries[i].rows == 0 || t->has_place);
    assert_true(entries[i].guess_rows >= 0 && entries[i].guess_rows <= entries[i].guesses);
    assert_true(entries[i].guess_rows == 0 || (entries[i].rows == 1 && t->tokens - t->held == 1));
    logits += entries[i].guess_rows + (entries[i].rows > 0 && t->held + entries[i].rows == t->tokens);
    read += entries[i].guess_rows;
    while (t->num_pages * PAGE < t->held + entries[i].rows + entries[i].guess_rows) {
      const int32_t page = tri_pages_allocate(w->pages);
      assert_true(page >= 0);
      t->pages[t->num_pages++] = page;
    }
    t->held += entries[i].rows;
    if (entries[i].rows > 0 && t->held == t->tokens && t->tokens < t->length) t->tokens++;
    if (t->held == t->length) {
      release_all(w, t);
      t->held = t->length;
    }
  }
  for (int64_t i = 0; i < count; i++) { /* all guesses were wrong */
    text *t = of[i];
    while (t->num_pages * PAGE >= t->held + PAGE) tri_pages_release(w->pages, t->pages[--t->num_pages]);
  }
  assert_true(read <= w->rows && places <= w->places && logits <= w->logit_rows);
  if (oldest >= 0) assert_true(entries[oldest].rows > 0);
  if (count > 0) assert_true(read > 0);
  return left;
}

static void run_to_the_end(world *w, int64_t num_pages) {
  assert_int_equal(tri_pages_create(num_pages, PAGE, &w->pages), 0);
  int64_t now = 0;
  while (step(w, now)) assert_true(++now < 400);
  assert_int_equal(tri_pages_free(w->pages), num_pages);
  tri_pages_destroy(w->pages);
}

/* Four sequences: all combinations of six kinds and three arrivals for the first three, with a fourth that depends on
 * them; one combination in seven with six pages. */
static void test_all_small_cases(void **state) {
  (void)state;
  static const int64_t kinds[][2] = {{1, 1}, {1, 4}, {3, 6}, {5, 5}, {2, 9}, {7, 12}};
  enum { KINDS = sizeof kinds / sizeof kinds[0], DELAYS = 3 };
  const int64_t each = (int64_t)KINDS * DELAYS;
  for (int64_t num_pages = 1; num_pages <= MOST_PAGES; num_pages++) {
    for (int64_t rows = 1; rows <= 8; rows = 2 * rows + (rows == 1)) {
      for (int64_t places = 1; places <= 3 && places <= rows; places++) {
        for (int64_t which = 0; which < each * each * each; which += num_pages == 6 ? 7 : 1) {
          world w = {.count = MOST, .places = places, .rows = rows, .logit_rows = places + which % 3};
          int64_t digits = which;
          bool fits = true;
          for (int64_t i = 0; i < MOST; i++) {
            const int64_t *kind = kinds[digits % KINDS];
            w.texts[i] =
                (text){.prompt = kind[0], .length = kind[1], .tokens = kind[0], .arrival = digits / KINDS % DELAYS * 2};
            fits = fits && tri_schedule_pages(kind[1], PAGE, 0, rows) <= num_pages;
            digits = i < 2 ? digits / each : (which * 31 + 5) % each;
          }
          if (fits) run_to_the_end(&w, num_pages);
        }
      }
    }
  }
}

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

static void test_kept_pages_are_found(void **state) {
  (void)state;
  static const int32_t ab[] = {1, 2}, cd[] = {3, 4};
  tri_pages *p = NULL;
  assert_int_equal(tri_pages_create(3, 2, &p), 0);
  const tri_prefix root = tri_pages_root(p), other = tri_pages_root(p);
  tri_prefix at = root;
  const int32_t first = tri_pages_allocate(p), second = tri_pages_allocate(p);
  assert_int_equal(tri_pages_keep(p, first, &at, ab), first);
  const tri_prefix after_ab = at;
  assert_int_equal(tri_pages_keep(p, second, &at, cd), second);
  at = root;
  assert_int_equal(tri_pages_find(p, &at, cd), -1); /* not found without the tokens before it */
  assert_int_equal(tri_pages_find(p, &at, ab), first);
  assert_true(at == after_ab);
  assert_int_equal(tri_pages_find(p, &at, cd), second);
  /* A page with the same tokens is already cached, and is returned. */
  const int32_t third = tri_pages_allocate(p);
  at = root;
  assert_int_equal(tri_pages_keep(p, third, &at, ab), first);
  /* A page that is cached already is returned without another reference: two forks that share it may both keep it. */
  at = root;
  assert_int_equal(tri_pages_keep(p, first, &at, ab), first);
  assert_true(at == after_ab);
  tri_pages_release(p, third);
  assert_int_equal(tri_pages_free(p), 1);
  assert_int_equal(tri_pages_allocate(p), third);
  assert_int_equal(tri_pages_allocate(p), -1);
  tri_pages_release(p, third);
  for (int i = 0; i < 3; i++) tri_pages_release(p, first);
  for (int i = 0; i < 2; i++) tri_pages_release(p, second);
  assert_int_equal(tri_pages_free(p), 3);
  /* Pages that are not cached are allocated first, then the cached page that was released first. */
  assert_int_equal(tri_pages_allocate(p), third);
  assert_int_equal(tri_pages_allocate(p), first);
  at = root;
  assert_int_equal(tri_pages_find(p, &at, ab), -1);
  at = after_ab;
  assert_int_equal(tri_pages_find(p, &at, cd), second);
  at = other; /* of other weights */
  assert_int_equal(tri_pages_find(p, &at, ab), -1);
  tri_pages_release(p, second);
  tri_pages_release(p, first);
  tri_pages_release(p, third);
  assert_int_equal(tri_pages_free(p), 3);
  tri_pages_destroy(p);
}

/* A fork has released its first page, which no token attends to, and holds another sequence's page to copy. With all
 * pages in use the fork is preempted itself, and can read in the next step. */
static void forks_release_the_page_to_copy(void **state) {
  (void)state;
  const int32_t pages[] = {0, 1};
  int32_t holders[] = {1, 1};
  const tri_schedule_limits limits = {
      .rows = 1, .logit_rows = 1, .places = 1, .page_rows = 64, .most_pages = 2, .holders = holders};
  tri_schedule_entry fork = {.unread = 1,
                             .held = 191,
                             .wants_logits = 1,
                             .has_place = true,
                             .num_pages = 2,
                             .pages = pages,
                             .num_holds = 2,
                             .copies_page = true};
  tri_schedule_rows(&limits, &fork, 1);
  assert_true(fork.preempted);
  assert_int_equal(fork.rows, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_small_cases),
      cmocka_unit_test(test_kept_pages_are_found),
      cmocka_unit_test(forks_release_the_page_to_copy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
