/* Cuts of sequences over ranks: every token is on one rank, every rank has the rows that memory was planned for, work
 * is balanced, and documents stay together if that costs nothing. */
#include "base/memory.h"
#include "check.h"
#include "draws.h"
#include "mesh/document_cut.h"

#include <math.h>
#include <string.h>

enum { MOST_TOKENS = 1 << 17, MOST_PARTS = 16 };

/* Checks that each token occurs once, that the ranges of each part ascend with gaps between them, and that `before`
 * counts them. */
static void check_cut(const tri_sequence_cut *cut, int64_t tokens, const int64_t *rows) {
  static unsigned char seen[MOST_TOKENS];
  memset(seen, 0, (size_t)tokens);
  for (int64_t p = 0; p < cut->parts; p++) {
    int64_t count = 0, end = -1;
    for (int64_t i = cut->begins[p]; i < cut->begins[p + 1]; i++) {
      const tri_token_range *range = &cut->ranges[i];
      assert_true(range->first > end && range->end > range->first && range->end <= tokens);
      assert_int_equal(tri_sequence_cut_before(cut, p, range->first), count);
      count += range->end - range->first;
      assert_int_equal(tri_sequence_cut_before(cut, p, range->end), count);
      assert_int_equal(tri_sequence_cut_find(cut, p, end), i);
      for (int64_t t = range->first; t < range->end; t++) {
        assert_int_equal(seen[t]++, 0);
        assert_int_equal(tri_sequence_cut_find(cut, p, t), i);
      }
      end = range->end;
      assert_int_equal(tri_sequence_cut_find(cut, p, end), i + 1);
    }
    assert_int_equal(count, rows[p]);
    assert_int_equal(tri_sequence_cut_rows(cut, p), rows[p]);
  }
  for (int64_t t = 0; t < tokens; t++) assert_int_equal(seen[t], 1);
}

static void zigzag_rows(int64_t tokens, int64_t parts, int64_t *rows) {
  for (int64_t p = 0; p < parts; p++) rows[p] = tri_zigzag_rows(tokens, parts, p);
}

static void any_length(void **state) {
  (void)state;
  for (int64_t parts = 1; parts <= 8; parts++) {
    for (int64_t tokens = parts; tokens < 80; tokens++) {
      int64_t rows[MOST_PARTS], most = 0, least = tokens;
      tri_sequence_cut cut, joined;
      zigzag_rows(tokens, parts, rows);
      CHECK_OK(tri_sequence_cut_zigzag(tokens, parts, &cut));
      check_cut(&cut, tokens, rows);
      for (int64_t p = 0; p < parts; p++) {
        if (rows[p] > most) most = rows[p];
        if (rows[p] < least) least = rows[p];
      }
      assert_true(least >= 1 && most - least <= 2);
      for (int64_t together = 1; together <= parts; together++) {
        if (parts % together != 0) continue;
        int64_t sums[MOST_PARTS] = {0};
        for (int64_t p = 0; p < parts; p++) sums[p / together] += rows[p];
        CHECK_OK(tri_sequence_cut_join(&cut, together, &joined));
        check_cut(&joined, tokens, sums);
        tri_sequence_cut_destroy(&joined);
      }
      tri_sequence_cut_destroy(&cut);
    }
  }
}

/* Draws the positions of documents whose lengths fill the sequence. */
static int64_t draw_documents(draws *d, int64_t tokens, int kind, int32_t *positions) {
  int64_t documents = 0;
  for (int64_t t = 0; t < tokens; documents++) {
    int64_t length = 1;
    if (kind == 1) length = pick(d, 1, 40);
    /* long-tailed: two thirds of some hundred tokens, the others up to 64k */
    if (kind == 2) length = pick(d, 1, 100) <= 65 ? pick(d, 16, 511) : (int64_t)ldexp(512, (int)pick(d, 0, 7));
    if (kind == 3) length = tokens;
    if (length > tokens - t) length = tokens - t;
    for (int64_t i = 0; i < length; i++) positions[t++] = (int32_t)i;
  }
  return documents;
}

/* Computes the pairs of each part, and the rows of keys that it receives from others. */
static void measure(const tri_sequence_cut *cut, const int32_t *positions, double *area, double *received) {
  for (int64_t p = 0; p < cut->parts; p++) {
    area[p] = received[p] = 0;
    int64_t have = 0, seen = -1; /* tokens below `seen` of this document are already counted */
    for (int64_t i = cut->begins[p]; i < cut->begins[p + 1]; i++) {
      for (int64_t t = cut->ranges[i].first; t < cut->ranges[i].end; t++) {
        int64_t document = t - positions[t];
        area[p] += positions[t] + 1;
        if (seen < document) seen = document;
        received[p] += (double)(t + 1 - seen);
        seen = t + 1;
        have++;
      }
    }
    received[p] -= (double)have;
  }
}

static double most_over_mean(const double *values, int64_t count) {
  double most = 0, sum = 0;
  for (int64_t i = 0; i < count; i++) {
    sum += values[i];
    if (values[i] > most) most = values[i];
  }
  return most * (double)count / sum;
}

static double sum_of(const double *values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

static void documents_of_any_length(void **state) {
  (void)state;
  draws d = {tri_random_stream(11, TRI_RANDOM_TEST, 0), 0};
  static int32_t positions[MOST_TOKENS];
  for (int trial = 0; trial < 300; trial++) {
    int64_t inner = pick(&d, 1, 2), parts = pick(&d, 1, 8), ranks = inner * parts;
    int64_t tokens = pick(&d, ranks, trial % 10 == 0 ? 4000 : 130), rows[2 * MOST_PARTS], joined[MOST_PARTS] = {0};
    double load[MOST_PARTS] = {0};
    tri_document_cut *documents = NULL;
    tri_sequence_cut cut, own;
    zigzag_rows(tokens, ranks, rows);
    for (int64_t r = 0; r < ranks; r++) joined[r / inner] += rows[r];
    CHECK_OK(tri_document_cut_create(tokens, parts, joined, (double)pick(&d, 0, 50), &documents));
    CHECK_OK(tri_sequence_cut_create(parts, tokens, &cut));
    CHECK_OK(tri_sequence_cut_create(ranks, tokens, &own));
    for (int kind = 0; kind < 4; kind++) {
      draw_documents(&d, tokens, kind, positions);
      tri_document_cut_sequence(documents, positions, load, &cut);
      check_cut(&cut, tokens, joined);
      tri_sequence_cut_divide(&cut, rows, &own);
      check_cut(&own, tokens, rows);
    }
    tri_sequence_cut_destroy(&own);
    tri_sequence_cut_destroy(&cut);
    tri_document_cut_destroy(documents);
  }
}

/* The same documents give the same cut again, whatever was cut in between. */
static void cuts_depend_on_documents_alone(void **state) {
  (void)state;
  enum { TOKENS = 900, PARTS = 4 };
  draws d = {tri_random_stream(12, TRI_RANDOM_TEST, 0), 0};
  int32_t one[TOKENS], other[TOKENS];
  int64_t rows[PARTS];
  tri_document_cut *documents = NULL;
  tri_sequence_cut cut, again;
  zigzag_rows(TOKENS, PARTS, rows);
  CHECK_OK(tri_document_cut_create(TOKENS, PARTS, rows, 5, &documents));
  CHECK_OK(tri_sequence_cut_create(PARTS, TOKENS, &cut));
  CHECK_OK(tri_sequence_cut_create(PARTS, TOKENS, &again));
  draw_documents(&d, TOKENS, 1, one);
  draw_documents(&d, TOKENS, 2, other);
  double load[PARTS] = {0};
  tri_document_cut_sequence(documents, one, load, &cut);
  memset(load, 0, sizeof load);
  tri_document_cut_sequence(documents, other, load, &again);
  memset(load, 0, sizeof load);
  tri_document_cut_sequence(documents, one, load, &again);
  assert_memory_equal(cut.begins, again.begins, (PARTS + 1) * sizeof *cut.begins);
  assert_memory_equal(cut.ranges, again.ranges, (size_t)cut.begins[PARTS] * sizeof *cut.ranges);
  tri_sequence_cut_destroy(&again);
  tri_sequence_cut_destroy(&cut);
  tri_document_cut_destroy(documents);
}

/* A long-tailed mix: the busiest rank's area is within 5 % of the mean, and a high price of rows keeps documents
 * together; the zig-zag cut of the same sequences is not balanced. */
static void long_tails_are_even(void **state) {
  (void)state;
  static int32_t positions[MOST_TOKENS];
  static const int64_t all_parts[] = {2, 3, 4, 8, 16};
  draws d = {tri_random_stream(13, TRI_RANDOM_TEST, 0), 0};
  double rows_of_price[2] = {0};
  for (size_t i = 0; i < sizeof all_parts / sizeof *all_parts; i++) {
    const int64_t parts = all_parts[i], tokens = MOST_TOKENS;
    double zigzag = 0;
    for (int trial = 0; trial < 6; trial++) {
      int64_t rows[MOST_PARTS];
      double area[MOST_PARTS] = {0}, received[MOST_PARTS] = {0};
      tri_sequence_cut cut;
      draw_documents(&d, tokens, 2, positions);
      zigzag_rows(tokens, parts, rows);
      for (int dear = 0; dear < 2; dear++) {
        tri_document_cut *documents = NULL;
        double load[MOST_PARTS] = {0};
        CHECK_OK(tri_document_cut_create(tokens, parts, rows, dear ? 1000 : 1, &documents));
        CHECK_OK(tri_sequence_cut_create(parts, tokens, &cut));
        tri_document_cut_sequence(documents, positions, load, &cut);
        check_cut(&cut, tokens, rows);
        measure(&cut, positions, area, received);
        assert_true(most_over_mean(area, parts) <= 1.05);
        rows_of_price[dear] += sum_of(received, parts);
        tri_sequence_cut_destroy(&cut);
        tri_document_cut_destroy(documents);
      }
      CHECK_OK(tri_sequence_cut_zigzag(tokens, parts, &cut));
      measure(&cut, positions, area, received);
      if (most_over_mean(area, parts) > zigzag) zigzag = most_over_mean(area, parts);
      tri_sequence_cut_destroy(&cut);
    }
    assert_true(zigzag > 1.2);
  }
  assert_true(rows_of_price[1] < 0.95 * rows_of_price[0]);
}

/* One document is cut zig-zag; documents as long as a rank's share go whole to a rank each. */
static void simple_cases(void **state) {
  (void)state;
  enum { PARTS = 4, TOKENS = 61 };
  int32_t positions[64];
  int64_t rows[PARTS];
  double load[PARTS] = {0}, area[PARTS] = {0}, received[PARTS] = {0};
  tri_document_cut *documents = NULL;
  tri_sequence_cut cut;
  zigzag_rows(TOKENS, PARTS, rows);
  for (int32_t t = 0; t < TOKENS; t++) positions[t] = t;
  CHECK_OK(tri_document_cut_create(TOKENS, PARTS, rows, 0, &documents));
  CHECK_OK(tri_sequence_cut_create(PARTS, 64, &cut));
  tri_document_cut_sequence(documents, positions, load, &cut);
  check_cut(&cut, TOKENS, rows);
  measure(&cut, positions, area, received);
  assert_true(most_over_mean(area, PARTS) < 1.1);
  tri_document_cut_destroy(documents);

  zigzag_rows(64, PARTS, rows);
  for (int32_t t = 0; t < 64; t++) positions[t] = t % 16;
  memset(load, 0, sizeof load);
  CHECK_OK(tri_document_cut_create(64, PARTS, rows, 1, &documents));
  tri_document_cut_sequence(documents, positions, load, &cut);
  check_cut(&cut, 64, rows);
  measure(&cut, positions, area, received);
  for (int p = 0; p < PARTS; p++) {
    assert_true(area[p] == 8.0 * 17); /* 1 + 2 + ... + 16 */
    assert_true(received[p] == 0);
    assert_true(load[p] == area[p]);
  }
  tri_sequence_cut_destroy(&cut);
  tri_document_cut_destroy(documents);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_length),
      cmocka_unit_test(documents_of_any_length),
      cmocka_unit_test(cuts_depend_on_documents_alone),
      cmocka_unit_test(long_tails_are_even),
      cmocka_unit_test(simple_cases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
