/* Best-fit packing by histogram, compared with best-fit decreasing one piece at a time. */
#include "base/random.h"
#include "data/packing.h"

#include "corpus_test.h"

enum { MOST = 64, MOST_PIECES = 600 };

/* Sets rooms to the tokens left in each sequence after best-fit decreasing, one piece after the other. Returns the
 * number of sequences. */
static int pack_plainly(int64_t sequence, const int64_t *counts, int64_t *rooms) {
  int used = 0;
  for (int64_t length = sequence; length > 0; length--) {
    for (int64_t i = 0; i < counts[length]; i++) {
      int best = -1;
      for (int s = 0; s < used; s++) {
        if (rooms[s] >= length && (best < 0 || rooms[s] < rooms[best])) best = s;
      }
      if (best < 0) {
        best = used++;
        rooms[best] = sequence;
      }
      rooms[best] -= length;
    }
  }
  return used;
}

static int packing_compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Checks that each piece is in one sequence, and that the sequences have the same rooms as those of the plain
 * algorithm. */
static void check(int64_t sequence, const int64_t *counts) {
  static int64_t wanted[MOST_PIECES], found[MOST_PIECES];
  static bool seen[MOST + 1][MOST_PIECES];
  tri_packing *packing = NULL;
  int64_t tokens = 0, length = 0, number = 0;
  memset(seen, 0, sizeof seen);
  assert_ok(tri_packing_create(sequence, counts, &packing));
  int sequences = pack_plainly(sequence, counts, wanted);
  assert_int_equal(tri_packing_sequences(packing), sequences);
  for (int s = 0; s < sequences; s++) {
    tri_packing_cursor cursor = tri_packing_at(packing, s);
    found[s] = sequence;
    while (tri_packing_next(&cursor, &length, &number)) {
      assert_in_range(length, 1, sequence);
      assert_in_range(number, 0, counts[length] - 1);
      assert_false(seen[length][number]);
      seen[length][number] = true;
      found[s] -= length;
      tokens += length;
    }
  }
  int64_t all = 0;
  for (length = 1; length <= sequence; length++) all += length * counts[length];
  assert_int_equal(tokens, all);
  assert_int_equal(tri_packing_tokens(packing), all);
  qsort(wanted, (size_t)sequences, sizeof *wanted, packing_compare);
  qsort(found, (size_t)sequences, sizeof *found, packing_compare);
  assert_memory_equal(wanted, found, (size_t)sequences * sizeof *wanted);
  tri_packing_destroy(packing);
}

static void is_best_fit_decreasing(void **state) {
  (void)state;
  tri_random_key key = tri_random_stream(3, TRI_RANDOM_TEST, 0);
  uint64_t at = 0;
  for (int round = 0; round < 400; round++) {
    int64_t counts[MOST + 1] = {0}, sequence = 1 + tri_random_u32(key, at++) % MOST;
    uint32_t pieces = 1 + tri_random_u32(key, at++) % MOST_PIECES, skew = 1 + tri_random_u32(key, at++) % 8;
    for (uint32_t i = 0; i < pieces; i++) {
      double u = tri_random_uniform(key, at++), share = 1;
      for (uint32_t k = 0; k < skew; k++) share *= u; /* mostly short */
      counts[1 + (int64_t)(share * (double)(sequence - 1) + 0.5)]++;
    }
    check(sequence, counts);
  }
}

static void packs_what_is_alike(void **state) {
  (void)state;
  for (int64_t sequence = 1; sequence <= MOST; sequence++) {
    for (int64_t length = 1; length <= sequence; length++) {
      int64_t counts[MOST + 1] = {0};
      counts[length] = 37;
      check(sequence, counts);
    }
  }
}

/* More pieces than could be packed one by one: 2 x 10^12 of them, and lengths up to 2^20. */
static void packs_any_number(void **state) {
  (void)state;
  const int64_t sequence = 1 << 20;
  int64_t *counts = calloc((size_t)sequence + 1, sizeof *counts);
  assert_non_null(counts);
  double tokens = 0;
  for (int64_t l = 1; l <= sequence; l = l * 9 / 8 + 1) {
    counts[l] = 20000000000 / l + 3;
    tokens += (double)l * (double)counts[l];
  }
  tri_packing *packing = NULL;
  assert_ok(tri_packing_create(sequence, counts, &packing));
  int64_t sequences = tri_packing_sequences(packing), step = sequences / 1000, length = 0, number = 0;
  assert_true((double)sequences >= tokens / (double)sequence);
  assert_true((double)sequences <= 1.01 * tokens / (double)sequence + 1);
  for (int64_t s = 0; s < sequences; s += step) {
    int64_t room = sequence;
    tri_packing_cursor cursor = tri_packing_at(packing, s);
    while (tri_packing_next(&cursor, &length, &number)) {
      assert_in_range(number, 0, counts[length] - 1);
      room -= length;
    }
    assert_in_range(room, 0, sequence - 1);
  }
  tri_packing_destroy(packing);
  free(counts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_best_fit_decreasing),
      cmocka_unit_test(packs_what_is_alike),
      cmocka_unit_test(packs_any_number),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
