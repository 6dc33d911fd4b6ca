/* Preferences named in a run file become a corpus, and the corpus describes itself correctly. */
#include "data/corpus.h"
#include "data/fingerprint.h"
#include "prepare_test.h"

static const char pairs[] =
    "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"cd\"}\n"
    "{\"chosen\": \"ef\", \"rejected\": \"eg\"}\n";
static const char labels[] =
    "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": false}\n"
    "{\"prompt\": \"c\", \"completion\": \"d\", \"label\": true}\n";

/* Prepares and opens the corpus as training does, without options. */
static void open_prepared(void **state, const char *text, tri_corpus **out) {
  char folder[TRI_PATH_BYTES], input[TRI_PATH_BYTES], prefix[TRI_PATH_BYTES];
  tri_prepare_report report;
  write_text(state, "a.jsonl", text);
  const char *const inputs[] = {in_folder(state, "a.jsonl", input)};
  const tri_prepare_options options = {.tokenizer = "bytes",
                                       .out = in_folder(state, "out", folder),
                                       .inputs = inputs,
                                       .num_inputs = 1,
                                       .preferences = true,
                                       .force = true};
  assert_ok(tri_prepare(&options, &report));
  assert_ok(tri_path_join(prefix, folder, "train"));
  assert_ok(tri_corpus_open(prefix, out));
}

static void expect_mask(const tri_corpus *corpus, const char *wanted) {
  const int64_t count = tri_corpus_num_tokens(corpus);
  const uint8_t *mask = tri_corpus_mask(corpus, 0, count);
  assert_int_equal(count, strlen(wanted));
  for (int64_t i = 0; i < count; i++) assert_int_equal(mask[i], wanted[i] - '0');
}

static void makes_pairs(void **state) {
  tri_corpus *corpus = NULL;
  open_prepared(state, pairs, &corpus);
  assert_int_equal(tri_corpus_preferences(corpus), TRI_PREFERENCES_PAIRS);
  assert_null(tri_corpus_labels(corpus));
  assert_int_equal(tri_corpus_num_documents(corpus), 4);
  expect_mask(corpus,
              "011"
              "0111"
              "011"
              "011");
  assert_ok(tri_corpus_want_preferences(corpus));
  assert_failure(tri_corpus_want_text(corpus), TRI_BAD_FILE,
                 "out/train is a corpus of preferences; name it in data.preferences");
  tri_corpus_close(corpus);
}

static void makes_labels(void **state) {
  tri_corpus *corpus = NULL;
  open_prepared(state, labels, &corpus);
  assert_int_equal(tri_corpus_preferences(corpus), TRI_PREFERENCES_LABELS);
  assert_memory_equal(tri_corpus_labels(corpus), "\0\1", 2);
  expect_mask(corpus,
              "011"
              "011");
  assert_ok(tri_corpus_want_preferences(corpus));
  assert_failure(tri_corpus_want_text(corpus), TRI_BAD_FILE, "is a corpus of preferences");
  tri_corpus_close(corpus);
}

/* Masks and labels are part of the corpus's fingerprint, which a run stores. */
static void has_another_fingerprint_for_other_labels(void **state) {
  char first[TRI_FINGERPRINT_BYTES];
  tri_corpus *corpus = NULL;
  open_prepared(state, labels, &corpus);
  memcpy(first, tri_corpus_fingerprint(corpus), sizeof first);
  tri_corpus_close(corpus);
  open_prepared(state,
                "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": true}\n"
                "{\"prompt\": \"c\", \"completion\": \"d\", \"label\": false}\n",
                &corpus);
  assert_string_not_equal(first, tri_corpus_fingerprint(corpus));
  tri_corpus_close(corpus);
}

static void is_not_made_of_texts(void **state) {
  char prefix[TRI_PATH_BYTES];
  tri_corpus *corpus = NULL;
  write_text(state, "a.txt", "a\nb\n");
  job *j = new_job(state, "a.txt");
  j->options.validation = 0;
  assert_ok(prepare_it(j));
  assert_ok(tri_path_join(prefix, j->out, "train"));
  assert_ok(tri_corpus_open(prefix, &corpus));
  assert_int_equal(tri_corpus_preferences(corpus), TRI_PREFERENCES_NONE);
  assert_ok(tri_corpus_want_text(corpus));
  assert_failure(tri_corpus_want_preferences(corpus), TRI_BAD_FILE,
                 "is not a corpus of preferences, which `trireme prepare --preferences` makes");
  tri_corpus_close(corpus);
  free(j);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(makes_pairs),
      TEST(makes_labels),
      TEST(has_another_fingerprint_for_other_labels),
      TEST(is_not_made_of_texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
