/* Sequences drawn for plans, compared with those that the loader reads from a corpus; and the expected maximum of
 * several areas, compared with maxima of drawn ones. */
#include "base/memory.h"
#include "data/lengths.h"
#include "data/source.h"
#include "plan/attention_fractions.h"

#include "corpus_test.h"
#include "draws.h"

enum { SEQUENCE = 512, DOCUMENTS = 4000, DRAWN = 4000, MOST_DOCUMENT = 3000 };

/* Lognormal: many short ones, and some longer than a sequence. */
static void write_documents(const char *prefix) {
  tri_random_key key = tri_random_stream(5, TRI_RANDOM_TEST, 0);
  tri_corpus_writer *writer = NULL;
  static int32_t ids[MOST_DOCUMENT];
  assert_ok(tri_corpus_writer_create(prefix, 1 << 10, &writer));
  for (uint64_t d = 0; d < DOCUMENTS; d++) {
    double length = exp(4.2 + 1.2 * tri_random_normal(key, d));
    int64_t tokens = length < 1 ? 1 : length > MOST_DOCUMENT ? MOST_DOCUMENT : (int64_t)length;
    assert_ok(tri_corpus_writer_add(writer, ids, tokens));
    assert_ok(tri_corpus_writer_end_document(writer));
  }
  assert_ok(tri_corpus_writer_finish(writer));
  assert_ok(tri_corpus_writer_commit(writer));
  tri_corpus_writer_destroy(writer);
}

static void count_lengths(const tri_corpus *corpus, tri_length_ranges *out) {
  const tri_documents documents = tri_documents_of(corpus, -1);
  tri_lengths lengths;
  int64_t total = 0;
  assert_ok(tri_lengths_count(&documents, &lengths));
  out->count = 0;
  for (int b = 0; b < TRI_LENGTH_BUCKETS; b++) {
    const tri_length_bucket *bucket = &lengths.buckets[b];
    assert_true(tri_length_bucket_from(b) <= tri_length_bucket_from(b + 1));
    if (bucket->documents == 0) continue;
    out->ranges[out->count++] = (tri_length_range){tri_length_bucket_from(b), tri_length_bucket_from(b + 1) - 1,
                                                   bucket->documents, bucket->tokens};
    total += bucket->documents;
  }
  assert_int_equal(total, DOCUMENTS);
  assert_ok(tri_length_ranges_check(out, "a corpus"));
}

typedef struct moments {
  double mean, error; /* standard error of the mean */
} moments;

static moments moments_of(const double *values, int64_t count) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  double mean = sum / (double)count;
  for (int64_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
  return (moments){mean, sqrt(squares / (double)count / (double)count)};
}

/* Returns the moments of the areas of the loader's sequences in 8 epochs; each epoch cuts the text differently. */
static moments sampled_area(const tri_source *source) {
  static double areas[1 << 16];
  int32_t ids[SEQUENCE], labels[SEQUENCE], positions[SEQUENCE];
  int64_t count = 0;
  for (; count < 8 * source->per_epoch; count++) {
    assert_true(count < 1 << 16);
    areas[count] = 0;
    assert_ok(tri_source_read(source, count, &(tri_sample){.ids = ids, .labels = labels, .positions = positions}));
    for (int t = 0; t < SEQUENCE; t++) areas[count] += positions[t] + 1.0;
  }
  return moments_of(areas, count);
}

static moments drawn_area(const tri_drawn_documents *drawn) {
  static double areas[DRAWN];
  int32_t lengths[SEQUENCE];
  for (int64_t i = 0; i < DRAWN; i++) {
    int64_t count = tri_drawn_documents_sequence(drawn, i, lengths), tokens = 0;
    areas[i] = 0;
    for (int64_t d = 0; d < count; d++) {
      assert_in_range(lengths[d], 1, SEQUENCE);
      tokens += lengths[d];
      areas[i] += 0.5 * lengths[d] * (lengths[d] + 1.0);
    }
    assert_int_equal(tokens, SEQUENCE);
  }
  return moments_of(areas, DRAWN);
}

static void draws_what_the_loader_reads(void **state) {
  char prefix[TRI_PATH_BYTES];
  tri_corpus *corpus = NULL;
  tri_length_ranges lengths;
  write_documents(in_folder(state, "c", prefix));
  assert_ok(tri_corpus_open(prefix, &corpus));
  count_lengths(corpus, &lengths);
  for (int packed = 0; packed < 2; packed++) {
    const tri_source_options options = {.sequence = SEQUENCE,
                                        .vocab_size = 1 << 10,
                                        .seed = 3,
                                        .documents = TRI_DOCUMENTS_MASKED,
                                        .packing = packed ? TRI_PACKING_DOCUMENTS : TRI_PACKING_WINDOWS,
                                        .end_of_text = -1};
    tri_source source;
    tri_drawn_documents *drawn = NULL;
    assert_ok(tri_source_create(corpus, &options, &source));
    assert_ok(tri_drawn_documents_create(&lengths, SEQUENCE, packed, &drawn));
    moments wanted = sampled_area(&source), found = drawn_area(drawn);
    /* Allows five standard errors, and a hundredth because lengths are known only as ranges. */
    double allowed = 5 * sqrt(wanted.error * wanted.error + found.error * found.error) + 0.01 * wanted.mean;
    assert_true(found.error < 0.02 * found.mean);
    if (!(fabs(found.mean - wanted.mean) <= allowed)) {
      fail_msg("packed %d: areas of %g in the mean were drawn, and %g are read, within %g", packed, found.mean,
               wanted.mean, allowed);
    }
    tri_drawn_documents_destroy(drawn);
    tri_source_destroy(&source);
  }
  tri_corpus_close(corpus);
}

/* ---- the largest of several -------------------------------------------------------------------------------------- */

/* Values whose distribution is as uneven as that of areas. */
static tri_attention_fractions *make_areas(void) {
  tri_attention_fractions *areas = NULL;
  assert_ok(tri_alloc("areas", 1, sizeof *areas, &areas));
  areas->count = TRI_ATTENTION_FRACTIONS_MOST;
  double squares = 0, cubes = 0, n = TRI_ATTENTION_FRACTIONS_MOST;
  for (int64_t i = 0; i < areas->count; i++) {
    areas->areas[i] = 0.2 + 0.8 * pow(((double)i + 0.5) / n, 3); /* ascending */
    areas->busiest += areas->areas[i] / n;
  }
  for (int64_t i = 0; i < areas->count; i++) {
    double off = areas->areas[i] - areas->busiest;
    squares += off * off / n;
    cubes += off * off * off / n;
  }
  areas->deviation = sqrt(squares);
  areas->skew = cubes / pow(squares, 1.5);
  return areas;
}

static void expects_the_largest(void **state) {
  (void)state;
  tri_attention_fractions *areas = make_areas();
  /* The expected maximum of n values is 0.2 + 0.8 n / (n + 3). */
  static const int64_t numbers[] = {1, 2, 5, 40};
  for (int i = 0; i < 4; i++) {
    double n = (double)numbers[i], wanted = 0.2 + 0.8 * n / (n + 3) - areas->busiest;
    assert_true(fabs(tri_attention_fraction_most(areas, numbers[i]) - wanted) < 2e-3);
  }
  /* Maxima of sums, compared with the mean over TRIALS drawn ones. */
  enum { TRIALS = 1500 };
  static const int64_t sums[][2] = {{1, 4}, {2, 8}, {4, 2}, {8, 64}, {64, 16}};
  draws d = {tri_random_stream(9, TRI_RANDOM_TEST, 0), 0};
  for (int i = 0; i < 5; i++) {
    int64_t micro_batches = sums[i][0], ranks = sums[i][1];
    double mean = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
      double most = 0;
      for (int64_t r = 0; r < ranks; r++) {
        double sum = 0;
        for (int64_t m = 0; m < micro_batches; m++) sum += areas->areas[pick(&d, 0, TRI_ATTENTION_FRACTIONS_MOST - 1)];
        if (sum > most) most = sum;
      }
      mean += most / TRIALS - (double)micro_batches * areas->busiest / TRIALS;
    }
    double found = tri_attention_fraction_most_sum(areas, micro_batches, ranks);
    if (!(fabs(found - mean) <= 0.06 * mean)) {
      fail_msg("the largest of %ld sums of %ld is %g above the mean, and %g is expected", (long)ranks,
               (long)micro_batches, mean, found);
    }
  }
  assert_true(tri_attention_fraction_most_sum(areas, 8, 1) == 0);
  tri_free(areas);
}

static void orders_have_the_mean(void **state) {
  (void)state;
  tri_attention_fractions *areas = make_areas();
  double one[33], other[33];
  tri_attention_fraction_order(areas, 33, 0, one);
  tri_attention_fraction_order(areas, 33, 1, other);
  double sum = 0, squares = 0, both = 0;
  for (int i = 0; i < 33; i++) {
    sum += one[i];
    squares += one[i] * one[i];
    both += one[i] * other[i];
  }
  assert_true(fabs(sum) < 1e-12);
  assert_true(both < 0.9 * squares); /* a different order */
  assert_true(fabs(sqrt(squares / 33) - areas->deviation / areas->busiest) < 0.02);
  tri_free(areas);
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

static void cuts_as_the_engine(void **state) {
  (void)state;
  const tri_length_ranges lengths = {.count = 2, .ranges = {{40, 40, 100, 4000}, {1200, 1200, 2, 2400}}};
  tri_drawn_documents *drawn = NULL;
  tri_attention_fraction_table *table = NULL;
  const tri_attention_fractions *whole = NULL, *cut = NULL, *again = NULL;
  tri_layout layout = {.tensor = 1, .pipeline = 1, .context = 1, .context_inner = 1, .data = 1, .micro_batch = 2};
  assert_ok(tri_drawn_documents_create(&lengths, SEQUENCE, false, &drawn));
  assert_ok(tri_attention_fraction_table_create(drawn, &table));
  assert_ok(tri_attention_fraction_table_find(table, &layout, &whole));
  assert_true(fabs(whole->mean - whole->busiest) < 1e-12);
  layout.context = 4;
  layout.context_row_pairs = 100;
  assert_ok(tri_attention_fraction_table_find(table, &layout, &cut));
  /* The mean area is within 15 % of that of whole sequences, and the busiest rank's is within 5 % of the mean, as the
   * cut guarantees. */
  assert_true(fabs(cut->mean - whole->mean) < 0.15 * whole->mean);
  assert_true(cut->busiest >= cut->mean && cut->busiest <= 1.05 * cut->mean);
  for (int64_t i = 1; i < cut->count; i++) assert_true(cut->areas[i - 1] <= cut->areas[i]);
  layout.tensor = 2; /* has no effect on areas */
  assert_ok(tri_attention_fraction_table_find(table, &layout, &again));
  assert_ptr_equal(cut, again);
  layout.context_inner = 4; /* only heads are exchanged: whole sequences */
  assert_ok(tri_attention_fraction_table_find(table, &layout, &again));
  assert_ptr_equal(whole, again);
  tri_attention_fraction_table_destroy(table);
  tri_drawn_documents_destroy(drawn);
}

static void impossible_lengths(void **state) {
  (void)state;
  static const tri_length_range bad[] = {{0, 4, 2, 4},  {8, 4, 1, 6}, {4, 8, 0, 0},
                                         {4, 8, 2, 17}, {4, 8, 2, 7}, {1, INT64_MAX, 1, INT64_MAX}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const tri_length_ranges lengths = {.count = 1, .ranges = {bad[i]}};
    assert_failure(tri_length_ranges_check(&lengths, "l.json"), TRI_BAD_FILE, "l.json is inconsistent");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(draws_what_the_loader_reads, make_folder, remove_folder),
      cmocka_unit_test(expects_the_largest),
      cmocka_unit_test(orders_have_the_mean),
      cmocka_unit_test(cuts_as_the_engine),
      cmocka_unit_test(impossible_lengths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
