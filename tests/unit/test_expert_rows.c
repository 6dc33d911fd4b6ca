/* Windows of the rows of experts, which each rank computes for itself, compared with their definition: every pair
 * arrives at its expert's rank once, in the order (expert, source rank, place), in windows of `capacity` rows. */
#include "check.h"
#include "mesh/parts.h"
#include "ops/experts_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 6, MOST_EXPERTS = 9, MOST_PAIRS = 64, MOST_POOL = MOST_RANKS * MOST_PAIRS, NOTES_BYTES = 1 << 16 };

typedef struct case_of {
  int64_t ranks, tensor_ranks, experts, capacity;
  int32_t begins[MOST_RANKS][MOST_EXPERTS + 1];
  int64_t holders[MOST_RANKS + 1];
} case_of;

static uint32_t draw(uint32_t *state, uint32_t below) {
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) % below;
}

static case_of draw_case(uint32_t *state) {
  case_of c = {0};
  c.tensor_ranks = 1 + draw(state, 2);
  const int64_t holders = 1 + draw(state, 3);
  c.ranks = c.tensor_ranks * holders;
  c.experts = holders + draw(state, MOST_EXPERTS - 3);
  c.capacity = 1 + draw(state, 40);
  for (int64_t h = 0; h <= holders; h++) c.holders[h] = tri_part_begin(c.experts, holders, h);
  const bool one = draw(state, 4) == 0; /* all rows go to one expert */
  const uint32_t only = draw(state, (uint32_t)c.experts);
  for (int64_t r = 0; r < c.ranks; r++) {
    for (int64_t e = 0; e < c.experts; e++) {
      int32_t rows = (int32_t)draw(state, 7);
      if (one) rows = e == only ? (int32_t)draw(state, 50) : 0;
      c.begins[r][e + 1] = c.begins[r][e] + rows;
    }
  }
  return c;
}

static tri_expert_rows rows_of(const case_of *c, int64_t rank) {
  const int64_t holder = rank / c->tensor_ranks;
  return (tri_expert_rows){.ranks = c->ranks,
                           .rank = rank,
                           .tensor_ranks = c->tensor_ranks,
                           .experts = c->experts,
                           .chosen = 1,
                           .holder_begins = c->holders,
                           .first_expert = c->holders[holder],
                           .num_experts = c->holders[holder + 1] - c->holders[holder],
                           .pairs = MOST_PAIRS,
                           .capacity = c->capacity,
                           .most = MOST_POOL};
}

static tri_expert_host_state notes_of(const case_of *c, const tri_expert_rows *at, char *memory) {
  assert_true(tri_expert_notes_bytes(at) <= NOTES_BYTES);
  tri_expert_host_state notes = tri_expert_host_state_of(at, memory);
  for (int64_t r = 0; r < c->ranks; r++) {
    memcpy(notes.begins + r * (c->experts + 1), c->begins[r], (size_t)(c->experts + 1) * sizeof(int32_t));
  }
  return notes;
}

/* The origin of a row of the pool. */
typedef struct pool_row {
  int64_t rank, place;
} pool_row;

static int64_t pool_of(const case_of *c, int64_t holder, pool_row *pool) {
  int64_t count = 0;
  for (int64_t e = c->holders[holder]; e < c->holders[holder + 1]; e++) {
    for (int64_t r = 0; r < c->ranks; r++) {
      for (int64_t p = c->begins[r][e]; p < c->begins[r][e + 1]; p++) pool[count++] = (pool_row){r, p};
    }
  }
  return count;
}

/* Compares the rows that a rank receives in a window, computed from the counts of the other ranks, with its part of the
 * pool. */
static void check_window(const case_of *c, int64_t rank, int64_t window, char *const *memory) {
  static pool_row pool[MOST_POOL];
  static int32_t here[MOST_EXPERTS + 1], arrivals[MOST_POOL];
  const tri_expert_rows at = rows_of(c, rank);
  const tri_expert_host_state own = notes_of(c, &at, memory[rank]);
  const int64_t holder = rank / c->tensor_ranks, all = pool_of(c, holder, pool), first = window * c->capacity;
  int64_t rows = all - first, arrived = 0;
  if (rows > c->capacity) rows = c->capacity;
  if (rows < 0) rows = 0;
  tri_expert_window(&at, &own, window);
  tri_expert_arrivals(&at, &own, window, here, arrivals);
  assert_int_equal(own.received[c->ranks], rows);
  assert_int_equal(here[0], 0);
  assert_int_equal(here[at.num_experts], rows);
  for (int64_t r = 0; r < c->ranks; r++) {
    const tri_expert_rows source = rows_of(c, r);
    const tri_expert_host_state sent = notes_of(c, &source, memory[c->ranks]);
    tri_expert_window(&source, &sent, window);
    assert_int_equal(sent.sent[rank + 1] - sent.sent[rank], own.received[r + 1] - own.received[r]);
    for (int64_t i = 0; i < sent.sent[rank + 1] - sent.sent[rank]; i++, arrived++) {
      const int64_t row = arrivals[arrived];
      assert_in_range(row, 0, rows - 1);
      assert_int_equal(pool[first + row].rank, r);
      assert_int_equal(pool[first + row].place, sent.first_place[rank] + i);
    }
  }
  assert_int_equal(arrived, rows);
  for (int64_t e = 0; e < at.num_experts; e++) {
    for (int64_t row = here[e]; row < here[e + 1]; row++) {
      const pool_row *whose = &pool[first + row];
      assert_in_range(whose->place, c->begins[whose->rank][at.first_expert + e],
                      c->begins[whose->rank][at.first_expert + e + 1] - 1);
    }
  }
}

static void test_windows(void **state) {
  (void)state;
  uint32_t random = 7;
  char *memory[MOST_RANKS + 1];
  for (int i = 0; i <= MOST_RANKS; i++) assert_non_null(memory[i] = aligned_alloc(64, NOTES_BYTES));
  for (int trial = 0; trial < 400; trial++) {
    const case_of c = draw_case(&random);
    static pool_row pool[MOST_POOL];
    int64_t most = 0, windows = -1;
    if (c.ranks == 1) continue;
    for (int64_t h = 0; h < c.ranks / c.tensor_ranks; h++) {
      const int64_t rows = pool_of(&c, h, pool);
      if (rows > most) most = rows;
    }
    for (int64_t rank = 0; rank < c.ranks; rank++) {
      const tri_expert_rows at = rows_of(&c, rank);
      const tri_expert_host_state notes = notes_of(&c, &at, memory[rank]);
      if (windows < 0) windows = tri_expert_windows(&at, &notes);
      assert_int_equal(tri_expert_windows(&at, &notes), windows);
      for (int64_t w = 0; w < windows; w++) check_window(&c, rank, w, memory);
    }
    assert_int_equal(windows, most == 0 ? 1 : (most + c.capacity - 1) / c.capacity);
  }
  for (int i = 0; i <= MOST_RANKS; i++) free(memory[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
