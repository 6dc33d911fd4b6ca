#include "data/source.h"

#include "corpus_test.h"

enum { MAX_SEQUENCE = 64 };

static void open_counting(void **state, int64_t tokens, tri_corpus **out) {
  char prefix[TRI_PATH_BYTES];
  in_folder(state, "c", prefix);
  write_counting_corpus(prefix, tokens);
  assert_ok(tri_corpus_open(prefix, out));
}

static tri_status create_windows(const tri_corpus *corpus, int64_t sequence, int64_t vocab_size, uint64_t seed,
                                 tri_source *out) {
  const tri_source_options options = {.sequence = sequence, .vocab_size = vocab_size, .seed = seed, .end_of_text = -1};
  return tri_source_create(corpus, &options, out);
}

/* Returns the offset of a sample in a corpus whose tokens are their own positions. Checks that its tokens are
 * consecutive. */
static int64_t place(const tri_source *source, int64_t index) {
  int32_t inputs[MAX_SEQUENCE], labels[MAX_SEQUENCE], positions[MAX_SEQUENCE];
  assert_ok(tri_source_read(source, index, &(tri_sample){.ids = inputs, .labels = labels, .positions = positions}));
  for (int64_t i = 0; i < source->sequence; i++) {
    assert_int_equal(inputs[i], inputs[0] + i);
    assert_int_equal(labels[i], inputs[0] + i + 1);
    assert_int_equal(positions[i], i);
  }
  return inputs[0];
}

/* Every epoch has each window once: the offsets, sorted, are `sequence` apart and cover the text. Only the last one may
 * have been moved back to the end of the text. */
static void visits_each_window_once(void **state) {
  const struct {
    int64_t tokens, sequence;
  } cases[] = {{2, 1}, {65, 64}, {66, 64}, {128, 64}, {129, 64}, {1000, 7}, {1001, 10}, {4097, 4}, {3000, 64}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    tri_corpus *corpus = NULL;
    tri_source source;
    open_counting(state, cases[c].tokens, &corpus);
    assert_ok(create_windows(corpus, cases[c].sequence, 1 << 20, 7, &source));
    int64_t windows = source.per_epoch, last_first = cases[c].tokens - cases[c].sequence - 1;
    assert_int_equal(windows, (cases[c].tokens - 1) / cases[c].sequence);
    for (int64_t epoch = 0; epoch < 5; epoch++) {
      int64_t at[1200], shift = INT64_MAX;
      assert_true(windows <= 1200);
      for (int64_t i = 0; i < windows; i++) at[i] = -1;
      for (int64_t i = 0; i < windows; i++) {
        int64_t first = place(&source, epoch * windows + i);
        int64_t window = first == last_first ? windows - 1 : first / cases[c].sequence;
        assert_in_range(first, 0, last_first);
        assert_int_equal(at[window], -1);
        at[window] = first;
        if (first < shift) shift = first;
      }
      for (int64_t i = 0; i < windows; i++) {
        int64_t wanted = shift + i * cases[c].sequence;
        assert_int_equal(at[i], wanted < last_first ? wanted : last_first);
      }
    }
    tri_corpus_close(corpus);
  }
}

/* With a limit, each of the first samples comes once in every epoch, and no others. A limit above their number has no
 * effect. */
static void first_samples(void **state) {
  enum { TOKENS = 1000, SEQUENCE = 10, WINDOWS = 99, FIRST = 7 };
  tri_corpus *corpus = NULL;
  tri_source source, whole;
  open_counting(state, TOKENS, &corpus);
  tri_source_options options = {
      .sequence = SEQUENCE, .vocab_size = 1 << 20, .seed = 3, .end_of_text = -1, .max_samples = FIRST};
  assert_ok(tri_source_create(corpus, &options, &source));
  assert_int_equal(source.per_epoch, FIRST);
  bool same_order = true;
  for (int64_t epoch = 0; epoch < 5; epoch++) {
    int seen = 0;
    for (int64_t i = 0; i < FIRST; i++) {
      const int64_t first = place(&source, epoch * FIRST + i);
      assert_int_equal(first % SEQUENCE, 0);
      assert_in_range(first / SEQUENCE, 0, FIRST - 1);
      seen |= 1 << (first / SEQUENCE);
      same_order = same_order && first == place(&source, i);
    }
    assert_int_equal(seen, (1 << FIRST) - 1);
  }
  assert_false(same_order);
  tri_source_destroy(&source);
  assert_ok(create_windows(corpus, SEQUENCE, 1 << 20, 3, &whole));
  for (options.max_samples = WINDOWS; options.max_samples <= WINDOWS + 1; options.max_samples++) {
    assert_ok(tri_source_create(corpus, &options, &source));
    assert_int_equal(source.per_epoch, WINDOWS);
    for (int64_t i = 0; i < 3 * WINDOWS; i++) assert_int_equal(place(&source, i), place(&whole, i));
    tri_source_destroy(&source);
  }
  tri_source_destroy(&whole);
  tri_corpus_close(corpus);
}

static int64_t count_equal(const tri_source *a, int64_t first_a, const tri_source *b, int64_t first_b) {
  int64_t equal = 0;
  for (int64_t i = 0; i < a->per_epoch; i++) {
    equal += place(a, first_a + i) / a->sequence == place(b, first_b + i) / b->sequence;
  }
  return equal;
}

/* Two random orders of n windows agree in about one place. */
static void epochs_and_seeds_differ(void **state) {
  tri_corpus *corpus = NULL;
  tri_source one, again, other;
  open_counting(state, 4001, &corpus);
  assert_ok(create_windows(corpus, 8, 1 << 20, 1, &one));
  assert_ok(create_windows(corpus, 8, 1 << 20, 1, &again));
  assert_ok(create_windows(corpus, 8, 1 << 20, 2, &other));
  assert_int_equal(count_equal(&one, 0, &again, 0), 500);
  assert_in_range(count_equal(&one, 0, &one, 500), 0, 12);
  assert_in_range(count_equal(&one, 500, &one, 1000), 0, 12);
  assert_in_range(count_equal(&one, 0, &other, 0), 0, 12);
  tri_corpus_close(corpus);
}

/* Over many epochs each of 5 windows is equally often first, second, ...: chi-squared of each position (4 degrees of
 * freedom; 25 is exceeded once in 20 000), and the shifts take every value. */
static void small_orders_are_fair(void **state) {
  enum { WINDOWS = 5, SEQUENCE = 4, EPOCHS = 4000 };
  tri_corpus *corpus = NULL;
  tri_source source;
  open_counting(state, WINDOWS * SEQUENCE + SEQUENCE, &corpus);
  assert_ok(create_windows(corpus, SEQUENCE, 1 << 20, 3, &source));
  assert_int_equal(source.per_epoch, WINDOWS);
  int64_t seen[WINDOWS][WINDOWS] = {{0}}, shifts[SEQUENCE] = {0};
  for (int64_t i = 0; i < (int64_t)EPOCHS * WINDOWS; i++) {
    int64_t first = place(&source, i);
    seen[i % WINDOWS][first / SEQUENCE]++;
    if (i % WINDOWS == 0) shifts[first % SEQUENCE]++;
  }
  for (int i = 0; i < WINDOWS; i++) {
    double chi_squared = 0, wanted = (double)EPOCHS / WINDOWS;
    for (int j = 0; j < WINDOWS; j++) {
      double off = (double)seen[i][j] - wanted;
      chi_squared += off * off / wanted;
    }
    if (chi_squared > 25) fail_msg("position %d: chi-squared %g", i, chi_squared);
  }
  for (int i = 0; i < SEQUENCE; i++) assert_in_range(shifts[i], 850, 1150);
  tri_corpus_close(corpus);
}

static void reads_the_text_in_order(void **state) {
  tri_corpus *corpus = NULL;
  tri_source source;
  int32_t inputs[10], labels[10], positions[10];
  open_counting(state, 1001, &corpus);
  assert_ok(create_windows(corpus, 10, 1 << 20, 9, &source));
  assert_int_equal(source.per_epoch, 100);
  for (int64_t i = 0; i < 100; i++) {
    assert_ok(
        tri_source_read_in_order(&source, i, &(tri_sample){.ids = inputs, .labels = labels, .positions = positions}));
    for (int j = 0; j < 10; j++) {
      assert_int_equal(inputs[j], 10 * i + j);
      assert_int_equal(labels[j], 10 * i + j + 1);
    }
  }
  assert_failure(
      tri_source_read_in_order(&source, 100, &(tri_sample){.ids = inputs, .labels = labels, .positions = positions}),
      TRI_INTERNAL, "window 100 of 100");
  assert_failure(
      tri_source_read_in_order(&source, -1, &(tri_sample){.ids = inputs, .labels = labels, .positions = positions}),
      TRI_INTERNAL, "window -1");
  assert_failure(tri_source_read(&source, -1, &(tri_sample){.ids = inputs, .labels = labels, .positions = positions}),
                 TRI_INTERNAL, "sample -1");
  tri_corpus_close(corpus);
}

static void wants_one_sample_of_text(void **state) {
  tri_corpus *corpus = NULL;
  tri_source source = {.per_epoch = -1};
  open_counting(state, 33, &corpus);
  assert_failure(create_windows(corpus, 33, 1 << 20, 1, &source), TRI_BAD_CONFIG,
                 "c has 33 tokens, fewer than the 34 of one sample");
  assert_failure(create_windows(corpus, INT64_MAX, 1 << 20, 1, &source), TRI_BAD_CONFIG, "has 33 tokens");
  assert_failure(create_windows(corpus, 0, 1 << 20, 1, &source), TRI_BAD_CONFIG, "data.sequence is 0");
  assert_int_equal(source.per_epoch, -1);
  assert_ok(create_windows(corpus, 32, 1 << 20, 1, &source));
  assert_int_equal(source.per_epoch, 1);
  assert_int_equal(place(&source, 0), 0);
  assert_int_equal(place(&source, 12345), 0);
  tri_corpus_close(corpus);
}

static void passes_on_a_foreign_vocabulary(void **state) {
  tri_corpus *corpus = NULL;
  tri_source source;
  int32_t inputs[10], labels[10], positions[10];
  open_counting(state, 11, &corpus);
  assert_ok(create_windows(corpus, 10, 10, 1, &source));
  assert_failure(tri_source_read(&source, 0, &(tri_sample){.ids = inputs, .labels = labels, .positions = positions}),
                 TRI_BAD_FILE, "position 10 is 10, outside the model's");
  tri_corpus_close(corpus);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(visits_each_window_once),        TEST(first_samples),           TEST(epochs_and_seeds_differ),
      TEST(small_orders_are_fair),          TEST(reads_the_text_in_order), TEST(wants_one_sample_of_text),
      TEST(passes_on_a_foreign_vocabulary),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
