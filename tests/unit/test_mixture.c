/* The order of sources, compared with the bound of Tijdeman 1980; and samples of several corpora. */
#include "data/sampler.h"

#include "corpus_test.h"
#include "draws.h"
#include "sanitized.h"

static void make(const double *weights, int64_t count, tri_mixture *out) {
  tri_mixture_shares shares;
  assert_ok(tri_mixture_find_shares(weights, count, &shares, NULL));
  assert_ok(tri_mixture_create(&shares, out));
}

static void finds_the_shortest_period(void **state) {
  (void)state;
  const struct {
    double weights[4];
    int64_t count, period, counts[4];
  } cases[] = {
      {{1}, 1, 1, {1}},
      {{123.25}, 1, 1, {1}},
      {{0.7, 0.2, 0.1}, 3, 10, {7, 2, 1}},
      {{7, 2, 1}, 3, 10, {7, 2, 1}},
      {{7e300, 2e300, 1e300}, 3, 10, {7, 2, 1}},
      {{7e-300, 2e-300, 1e-300}, 3, 10, {7, 2, 1}},
      {{3, 3, 3, 3}, 4, 4, {1, 1, 1, 1}},
      {{0.333, 0.333, 0.334}, 3, 1000, {333, 333, 334}},
      {{1, 1048575}, 2, 1048576, {1, 1048575}},
      {{0.123457, 0.876543}, 2, 1000000, {123457, 876543}},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    tri_mixture_shares shares;
    assert_ok(tri_mixture_find_shares(cases[c].weights, cases[c].count, &shares, NULL));
    assert_int_equal(shares.num_sources, cases[c].count);
    assert_int_equal(shares.period, cases[c].period);
    for (int64_t k = 0; k < cases[c].count; k++) assert_int_equal(shares.counts[k], cases[c].counts[k]);
  }
}

static void refuses_what_would_never_come(void **state) {
  (void)state;
  tri_mixture_shares shares = {.period = -1};
  int64_t small = -1;
  assert_failure(tri_mixture_find_shares((double[]){1, 1e-7, 1}, 3, &shares, &small), TRI_BAD_CONFIG,
                 "a weight of 1e-07, which is less than 1 / 1048576 of the sum of all weights");
  assert_int_equal(small, 1);
  assert_int_equal(shares.period, -1);
}

/* For every prefix the number of a source's samples is within 1 - 1 / (2K - 2) of its share, computed in whole numbers.
 * `at` and `count` agree with stepping through the samples. */
static void check_order(const tri_mixture *mixture, int64_t samples) {
  const tri_mixture_shares *shares = &mixture->shares;
  int64_t counts[TRI_MOST_SOURCES] = {0}, sources = shares->num_sources, period = shares->period;
  int64_t twice = sources == 1 ? 2 : 2 * sources - 2;
  for (int64_t i = 0; i < samples; i++) {
    int64_t number = -1, source = tri_mixture_at(mixture, i, &number);
    assert_in_range(source, 0, sources - 1);
    assert_int_equal(number, counts[source]);
    counts[source]++;
    for (int64_t k = 0; k < sources; k++) {
      int64_t away = twice * (counts[k] * period - (i + 1) * shares->counts[k]);
      if (away > (twice - 1) * period || away < -(twice - 1) * period) {
        fail_msg("source %ld of %ld after %ld samples: %ld", (long)k, (long)sources, (long)i + 1, (long)counts[k]);
      }
    }
    if (i % 97 == 0) {
      for (int64_t k = 0; k < sources; k++) assert_int_equal(tri_mixture_count(mixture, k, i + 1), counts[k]);
    }
  }
}

static void keeps_to_shares_at_every_prefix(void **state) {
  (void)state;
  for (int round = 0; round < (SANITIZED ? 60 : 300); round++) {
    draws d = {.key = tri_random_stream(11, TRI_RANDOM_TEST, (uint64_t)round)};
    double weights[40];
    int64_t count = pick(&d, 1, 40);
    for (int64_t k = 0; k < count; k++) {
      weights[k] = round % 2 == 0 ? (double)pick(&d, 1, 10) : pick_scale(&d, -2, 1);
    }
    tri_mixture mixture;
    make(weights, count, &mixture);
    check_order(&mixture, 3000);
    tri_mixture_destroy(&mixture);
  }
}

/* Whole periods, including one of the longest. */
static void repeats_itself(void **state) {
  (void)state;
  const double cases[][3] = {{5, 3, 1}, {0.123457, 0.876543, 1e-4}, {1, 1.4142135623730951, 3.141592653589793}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    tri_mixture mixture;
    make(cases[c], 3, &mixture);
    int64_t period = mixture.shares.period;
    check_order(&mixture, 2 * period + 5);
    double sum = cases[c][0] + cases[c][1] + cases[c][2];
    for (int k = 0; k < 3; k++) {
      assert_true(fabs((double)mixture.shares.counts[k] / (double)period - cases[c][k] / sum) < 1e-8);
      int64_t first = 0, again = 0;
      assert_int_equal(tri_mixture_at(&mixture, k, &first), tri_mixture_at(&mixture, k + 1000000007 * period, &again));
      int64_t source = tri_mixture_at(&mixture, k, &first);
      assert_int_equal(again, first + 1000000007 * mixture.shares.counts[source]);
    }
    tri_mixture_destroy(&mixture);
  }
}

/* ---- corpora ----------------------------------------------------------------------------------------------------- */

enum { SEQUENCE = 8, SOURCES = 3 };
static const int64_t tokens_of[SOURCES] = {801, 161, 801}; /* 100, 20 and 100 windows */

static void open_corpora(void **state, tri_corpus *corpora[SOURCES]) {
  for (int k = 0; k < SOURCES; k++) {
    char prefix[TRI_PATH_BYTES], name[] = "corpus-0";
    name[7] = (char)('0' + k);
    in_folder(state, name, prefix);
    write_counting_corpus(prefix, tokens_of[k]);
    assert_ok(tri_corpus_open(prefix, &corpora[k]));
  }
}

static int64_t window_of(const tri_sampler *sampler, int64_t index) {
  int32_t ids[SEQUENCE], labels[SEQUENCE], positions[SEQUENCE];
  assert_ok(tri_sampler_read(sampler, index, &(tri_sample){.ids = ids, .labels = labels, .positions = positions}));
  return ids[0] / SEQUENCE;
}

/* Each source reads all its windows before any of them again, and two sources of one size read theirs in different
 * orders. */
static void every_source_has_its_own_epochs(void **state) {
  tri_corpus *corpora[SOURCES];
  tri_sampler sampler;
  tri_mixture_shares shares;
  const tri_source_options options = {.sequence = SEQUENCE, .vocab_size = 1000, .seed = 5, .end_of_text = -1};
  open_corpora(state, corpora);
  assert_ok(tri_mixture_find_shares((double[]){2, 1, 2}, SOURCES, &shares, NULL));
  assert_ok(tri_sampler_create((const tri_corpus *const *)corpora, &shares, &options, &sampler));
  assert_int_equal(sampler.per_epoch, 220);
  int64_t seen[SOURCES] = {0}, times[SOURCES][101] = {{0}}, orders[SOURCES][100] = {{0}};
  for (int64_t i = 0; i < 250; i++) {
    int64_t number = 0, source = tri_mixture_at(&sampler.mixture, i, &number), window = window_of(&sampler, i);
    if (seen[source] < 100) orders[source][seen[source]] = window;
    seen[source]++;
    times[source][window]++;
  }
  assert_int_equal(seen[0], 100);
  assert_int_equal(seen[1], 50);
  assert_int_equal(seen[2], 100);
  int64_t alike = 0;
  for (int w = 0; w < 100; w++) alike += orders[0][w] == orders[2][w];
  assert_in_range(alike, 0, 8);
  for (int w = 0; w < 100; w++) assert_int_equal(times[0][w], 1);
  for (int w = 0; w < 100; w++) assert_int_equal(times[2][w], 1);
  for (int w = 0; w < 20; w++) assert_in_range(times[1][w], 2, 3);
  for (int k = 0; k < SOURCES; k++) {
    for (int64_t samples = 0; samples <= 250; samples += 50) {
      assert_int_equal(tri_sampler_count(&sampler, k, samples), samples * (k == 1 ? 1 : 2) / 5);
    }
  }
  assert_true(tri_sampler_epochs(&sampler, 1, 250) == 2.5);
  tri_sampler_destroy(&sampler);
  for (int k = 0; k < SOURCES; k++) tri_corpus_close(corpora[k]);
}

/* Without shares each source has as many samples as windows: a pass over all of them reads each window once. */
static void mixes_by_size(void **state) {
  tri_corpus *corpora[SOURCES];
  tri_sampler sampler;
  const tri_source_options options = {.sequence = SEQUENCE, .vocab_size = 1000, .seed = 5, .end_of_text = -1};
  open_corpora(state, corpora);
  assert_ok(tri_sampler_create((const tri_corpus *const *)corpora, &(tri_mixture_shares){.num_sources = SOURCES},
                               &options, &sampler));
  assert_int_equal(sampler.per_epoch, 220);
  assert_int_equal(sampler.mixture.shares.period, 11);
  for (int pass = 0; pass < 2; pass++) {
    int64_t times[SOURCES][100] = {{0}};
    for (int64_t i = 0; i < 220; i++) {
      int64_t number = 0, source = tri_mixture_at(&sampler.mixture, i, &number);
      times[source][window_of(&sampler, 220 * pass + i)]++;
    }
    for (int k = 0; k < SOURCES; k++) {
      for (int64_t w = 0; w < tokens_of[k] / SEQUENCE; w++) assert_int_equal(times[k][w], 1);
    }
  }
  tri_sampler_destroy(&sampler);
  for (int k = 0; k < SOURCES; k++) tri_corpus_close(corpora[k]);
}

/* A mixture of one source is that source; the samples of a source do not depend on the shares. */
static void one_source_is_the_plain_one(void **state) {
  tri_corpus *corpora[SOURCES];
  tri_sampler sampler;
  tri_source plain;
  tri_mixture_shares shares;
  const tri_source_options options = {.sequence = SEQUENCE, .vocab_size = 1000, .seed = 5, .end_of_text = -1};
  open_corpora(state, corpora);
  assert_ok(tri_mixture_find_shares((double[]){0.25}, 1, &shares, NULL));
  assert_ok(tri_sampler_create((const tri_corpus *const *)corpora, &shares, &options, &sampler));
  assert_ok(tri_source_create(corpora[0], &options, &plain));
  for (int64_t i = 0; i < 250; i++) {
    int32_t ids[SEQUENCE], labels[SEQUENCE], positions[SEQUENCE];
    assert_ok(tri_source_read(&plain, i, &(tri_sample){.ids = ids, .labels = labels, .positions = positions}));
    assert_int_equal(window_of(&sampler, i), ids[0] / SEQUENCE);
  }
  tri_source_destroy(&plain);
  tri_sampler_destroy(&sampler);
  for (int k = 0; k < SOURCES; k++) tri_corpus_close(corpora[k]);
}

static void evaluations_read_one_after_the_other(void **state) {
  tri_corpus *corpora[SOURCES];
  tri_sampler sampler;
  tri_mixture_shares shares;
  int32_t ids[SEQUENCE], labels[SEQUENCE], positions[SEQUENCE];
  const tri_source_options options = {.sequence = SEQUENCE, .vocab_size = 1000, .seed = 5, .end_of_text = -1};
  open_corpora(state, corpora);
  assert_ok(tri_mixture_find_shares((double[]){2, 1, 2}, SOURCES, &shares, NULL));
  assert_ok(tri_sampler_create((const tri_corpus *const *)corpora, &shares, &options, &sampler));
  for (int64_t i = 0; i < 220; i++) {
    assert_ok(
        tri_sampler_read_in_order(&sampler, i, &(tri_sample){.ids = ids, .labels = labels, .positions = positions}));
    assert_int_equal(ids[0], SEQUENCE * (i < 100 ? i : i < 120 ? i - 100 : i - 120));
  }
  assert_failure(
      tri_sampler_read_in_order(&sampler, 220, &(tri_sample){.ids = ids, .labels = labels, .positions = positions}),
      TRI_INTERNAL, "sample 220 of 220");
  assert_failure(tri_sampler_read(&sampler, -1, &(tri_sample){.ids = ids, .labels = labels, .positions = positions}),
                 TRI_INTERNAL, "sample -1");
  tri_sampler_destroy(&sampler);
  for (int k = 0; k < SOURCES; k++) tri_corpus_close(corpora[k]);
}

static void names_the_one_that_is_too_short(void **state) {
  tri_corpus *corpora[SOURCES];
  tri_sampler sampler = {.per_epoch = -1};
  tri_mixture_shares shares;
  const tri_source_options options = {.sequence = 200, .vocab_size = 1000, .seed = 5, .end_of_text = -1};
  open_corpora(state, corpora);
  assert_ok(tri_mixture_find_shares((double[]){2, 1, 2}, SOURCES, &shares, NULL));
  assert_failure(tri_sampler_create((const tri_corpus *const *)corpora, &shares, &options, &sampler), TRI_BAD_CONFIG,
                 "corpus-1 has 161 tokens, fewer than the 201 of one sample");
  assert_int_equal(sampler.per_epoch, -1);
  for (int k = 0; k < SOURCES; k++) tri_corpus_close(corpora[k]);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_the_shortest_period),
      cmocka_unit_test(refuses_what_would_never_come),
      cmocka_unit_test(keeps_to_shares_at_every_prefix),
      cmocka_unit_test(repeats_itself),
      TEST(every_source_has_its_own_epochs),
      TEST(mixes_by_size),
      TEST(one_source_is_the_plain_one),
      TEST(evaluations_read_one_after_the_other),
      TEST(names_the_one_that_is_too_short),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
