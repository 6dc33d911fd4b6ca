/* Failures of libtrireme's functions, and that no memory is leaked, under the sanitizers too.
 * tests/oracle/test_install.py tests their use, with the examples and an installed library. */
#include "api/api.h"
#include "base/memory.h"
#include "corpus_test.h"

#include "trireme/trireme.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <unistd.h>

#define API_OK(call)                                                                                                   \
  do {                                                                                                                 \
    if ((call) != TRIREME_OK) fail_msg("%s", trireme_message());                                                       \
  } while (0)

#define API_FAILS(call, status, text)                                                                                  \
  do {                                                                                                                 \
    trireme_status got_ = (call);                                                                                      \
    if (got_ != (status)) fail_msg("status %d, not %d: %s", (int)got_, (int)(status), trireme_message());              \
    if (strstr(trireme_message(), text) == NULL) fail_msg("no \"%s\" in: %s", text, trireme_message());                \
  } while (0)

static int begin(void **state) { return make_folder(state); }

static int end(void **state) {
  assert_int_equal(tri_memory_bytes(), 0);
  return remove_folder(state);
}

/* ---- statuses ---------------------------------------------------------------------------------------------------- */

/* Each status in the headers is the result of a status of the library. A status without a counterpart becomes
 * TRIREME_INTERNAL. */
static void test_statuses(void **state) {
  (void)state;
  int seen = 0;
  for (int code = TRI_OK; code <= TRI_INTERNAL; code++) seen |= 1 << tri_api_status((tri_status)code);
  assert_int_equal(seen, (1 << (TRIREME_INTERNAL + 1)) - 1);
  assert_int_equal(tri_api_status(TRI_OK), TRIREME_OK);
  assert_int_equal(tri_api_status(TRI_COMM), TRIREME_INTERNAL);
  assert_string_equal(trireme_version(), TRIREME_VERSION);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static trireme_question *ask(void) {
  static const char *const words[][2] = {
      {"model", "gpt2-124m"}, {"cluster", "a100-node"}, {"devices", "2"}, {"global-batch", "8"}, {"sequence", "256"}};
  trireme_question *question = NULL;
  API_OK(trireme_question_create(&question));
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    API_OK(trireme_question_set(question, words[i][0], words[i][1]));
  }
  return question;
}

static void test_questions(void **state) {
  (void)state;
  trireme_answers *answers = NULL;
  trireme_question *question = ask();
  API_FAILS(trireme_question_set(question, "clusters", "x"), TRIREME_BAD_USAGE, "did you mean cluster");
  API_FAILS(trireme_question_set(question, "xyzzy", "x"), TRIREME_BAD_USAGE, "options of `trireme plan`");
  API_FAILS(trireme_question_set(NULL, "model", "x"), TRIREME_BAD_USAGE, "`question` is NULL");
  API_OK(trireme_question_set(question, "set", "adapter.rank=4"));
  API_OK(trireme_question_set(question, "set", "adapter.targets=[q_proj]"));
  API_FAILS(trireme_plan(question, 1, &answers), TRIREME_BAD_CONFIG, "q_proj"); /* gpt2 has another name for it */
  trireme_question_destroy(question);
  assert_null(answers);
}

/* Searches layouts with some keys fixed. */
static void test_fixed_keys(void **state) {
  (void)state;
  trireme_answers *best = NULL;
  trireme_question *question = ask();
  API_OK(trireme_question_set(question, "layout", "tensor=2"));
  API_OK(trireme_plan(question, 3, &best));
  for (int64_t i = 0; i < trireme_answers_count(best); i++)
    assert_non_null(strstr(trireme_answers_layout(best, i), "tensor=2,pipeline=1,data=1"));
  trireme_answers_destroy(best);
  best = NULL;
  API_FAILS(trireme_simulate(question, "tensor=2", &best), TRIREME_BAD_USAGE, "has a `layout`, which is for searches");
  API_OK(trireme_question_set(question, "layout", "tensor=5"));
  API_FAILS(trireme_plan(question, 3, &best), TRIREME_BAD_LAYOUT, "no layout of 2 devices with tensor=5 is valid");
  assert_null(best);
  trireme_question_destroy(question);
}

static void test_answers(void **state) {
  (void)state;
  trireme_answers *best = NULL, *one = NULL;
  trireme_question *question = ask();
  API_OK(trireme_question_set(question, "sequence", "512")); /* replaces the first one */
  API_OK(trireme_plan(question, 3, &best));
  assert_int_equal(trireme_answers_count(best), 3);
  API_OK(trireme_simulate(question, trireme_answers_layout(best, 1), &one));
  for (int figure = TRIREME_STEP_SECONDS; figure <= TRIREME_HFU; figure++) {
    double value = trireme_answers_figure(one, 0, (trireme_figure)figure);
    assert_true(value == trireme_answers_figure(best, 1, (trireme_figure)figure));
    assert_true(figure == TRIREME_BUBBLE || value > 0);
  }
  assert_non_null(strstr(trireme_answers_json(one, 0), "\"sequence\": 512"));
  assert_null(trireme_answers_json(best, 3));
  assert_null(trireme_answers_layout(best, -1));
  assert_true(isnan(trireme_answers_figure(NULL, 0, TRIREME_MFU)));
  API_FAILS(trireme_simulate(question, "tensor=7", &one), TRIREME_BAD_LAYOUT, "");
  API_FAILS(trireme_simulate(question, "tensors=2", &one), TRIREME_BAD_CONFIG, "tensor");
  API_FAILS(trireme_plan(question, 1001, &best), TRIREME_BAD_USAGE, "1 to 1000");
  trireme_answers_destroy(best);
  trireme_answers_destroy(one);
  trireme_question_destroy(question);
}

/* Sets a locale that writes 0,5: an installed one, or one made here with localedef. Returns false if neither is
 * possible. */
static bool set_locale_with_comma(void **state) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8",
                                      "it_IT.UTF-8", "pt_BR.UTF-8", "made"};
  char path[TRI_PATH_BYTES], command[2 * TRI_PATH_BYTES];
  for (int i = 0; i < 6; i++) {
    if (strcmp(names[i], "made") == 0) {
      snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s' >/dev/null 2>&1",
               in_folder(state, "made", path));
      if (system(command) != 0) return false;
      setenv("LOCPATH", in_folder(state, "", path), 1);
    }
    if (setlocale(LC_ALL, names[i]) != NULL && strcmp(localeconv()->decimal_point, ",") == 0) return true;
  }
  return false;
}

/* The answers are the same if the caller has called setlocale, and the locale is unchanged afterwards. */
static void test_callers_locale(void **state) {
  trireme_answers *plain = NULL, *other = NULL;
  trireme_question *question = ask();
  API_OK(trireme_plan(question, 3, &plain));
  const bool has_comma = set_locale_with_comma(state);
  trireme_status status = TRIREME_OK;
  if (has_comma) status = trireme_plan(question, 3, &other);
  const bool kept = strcmp(localeconv()->decimal_point, ",") == 0;
  setlocale(LC_ALL, "C");
  unsetenv("LOCPATH");
  API_OK(status);
  for (int64_t i = 0; has_comma && i < 3; i++)
    assert_string_equal(trireme_answers_json(plain, i), trireme_answers_json(other, i));
  trireme_answers_destroy(plain);
  trireme_answers_destroy(other);
  trireme_question_destroy(question);
  if (!has_comma) {
    fprintf(stderr, "SKIPPED: there is no locale whose numbers have a comma\n");
    skip();
  }
  assert_true(kept);
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

static void test_checkpoint(void **state) {
  char path[TRI_PATH_BYTES], below[TRI_PATH_BYTES];
  const float rows[2][3] = {{1, 2, 3}, {4, 5, -6.5f}};
  const int32_t numbers[2] = {7, -8};
  const int64_t shape[2] = {2, 3};
  trireme_checkpoint_writer *writer = NULL;
  trireme_checkpoint *read = NULL;
  double back[6];
  API_OK(trireme_checkpoint_writer_create(in_folder(state, "new", path), "{\"model_type\": \"gpt2\"}", &writer));
  API_OK(trireme_checkpoint_writer_add(writer, "rows", TRIREME_FP32, 2, shape, rows));
  API_OK(trireme_checkpoint_writer_add(writer, "numbers", TRIREME_INT32, 1, shape, numbers));
  API_FAILS(trireme_checkpoint_writer_add(writer, "deep", TRIREME_FP32, 9, shape, rows), TRIREME_BAD_USAGE, "up to 8");
  API_OK(trireme_checkpoint_writer_commit(writer));
  trireme_checkpoint_writer_destroy(writer);

  API_OK(trireme_checkpoint_open(path, &read));
  assert_int_equal(trireme_checkpoint_num_tensors(read), 2);
  assert_int_equal(trireme_checkpoint_step(read), -1);
  int64_t index = trireme_checkpoint_find(read, "rows");
  assert_string_equal(trireme_checkpoint_type(read, index), "F32");
  assert_int_equal(trireme_checkpoint_num_dims(read, index), 2);
  assert_int_equal(trireme_checkpoint_length(read, index, 1), 3);
  assert_int_equal(trireme_checkpoint_length(read, index, 2), -1);
  API_OK(trireme_checkpoint_read(read, index, TRIREME_FP64, back, sizeof back));
  for (int i = 0; i < 6; i++) assert_true(back[i] == (double)rows[i / 3][i % 3]);
  API_FAILS(trireme_checkpoint_read(read, index, TRIREME_FP32, back, sizeof back), TRIREME_BAD_USAGE, "24 bytes");
  API_FAILS(trireme_checkpoint_read(read, index, TRIREME_INT32, back, 24), TRIREME_UNSUPPORTED, "");
  API_FAILS(trireme_checkpoint_read(read, 2, TRIREME_FP32, back, 24), TRIREME_BAD_USAGE, "no tensor 2");
  assert_int_equal(trireme_checkpoint_find(read, "none"), -1);
  assert_null(trireme_checkpoint_name(read, 2));
  trireme_checkpoint_close(read);

  /* A folder with the final name is created before the commit: the written files are removed, and the folder is
   * kept. */
  API_FAILS(trireme_checkpoint_writer_create(path, "{}", &writer), TRIREME_BAD_USAGE, "already exists");
  API_OK(trireme_checkpoint_writer_create(in_folder(state, "late", path), "{}", &writer));
  API_OK(trireme_checkpoint_writer_add(writer, "numbers", TRIREME_INT32, 1, shape, numbers));
  assert_int_equal(tri_path_join(below, path, "mine"), TRI_OK);
  assert_int_equal(tri_directory_create(below), TRI_OK);
  API_FAILS(trireme_checkpoint_writer_commit(writer), TRIREME_IO_FAILED, "cannot rename");
  trireme_checkpoint_writer_destroy(writer);
  assert_true(tri_path_is_directory(below));
  DIR *directory = opendir(in_folder(state, ".", path));
  assert_non_null(directory);
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) assert_null(strstr(entry->d_name, ".tmp-"));
  closedir(directory);
}

/* ---- corpora and tokenizers -------------------------------------------------------------------------------------- */

static void test_corpus(void **state) {
  char path[TRI_PATH_BYTES];
  const int32_t ids[] = {5, 6, 7};
  int32_t back[3];
  trireme_corpus_writer *writer = NULL;
  trireme_corpus *corpus = NULL;
  API_OK(trireme_corpus_writer_create(in_folder(state, "c", path), 8, &writer));
  API_OK(trireme_corpus_writer_add(writer, ids, 2));
  API_OK(trireme_corpus_writer_end_document(writer));
  API_OK(trireme_corpus_writer_add(writer, ids + 2, 1));
  API_OK(trireme_corpus_writer_end_document(writer));
  API_FAILS(trireme_corpus_writer_add(writer, ids, -1), TRIREME_BAD_USAGE, "-1");
  API_OK(trireme_corpus_writer_commit(writer));
  trireme_corpus_writer_destroy(writer);
  API_OK(trireme_corpus_open(path, &corpus));
  assert_int_equal(trireme_corpus_num_tokens(corpus), 3);
  for (int64_t d = -1; d < 4; d++)
    assert_int_equal(trireme_corpus_document(corpus, d), d < 0 || d > 2 ? -1 : d == 1 ? 2 : d == 2 ? 3 : 0);
  API_OK(trireme_corpus_read(corpus, 0, 3, back));
  assert_memory_equal(back, ids, sizeof ids);
  API_OK(trireme_corpus_read(corpus, 3, 0, back));
  API_FAILS(trireme_corpus_read(corpus, 1, INT64_MAX, back), TRIREME_BAD_USAGE, "3 tokens");
  API_FAILS(trireme_corpus_read(corpus, -1, 1, back), TRIREME_BAD_USAGE, "3 tokens");
  trireme_corpus_close(corpus);
  /* A corpus that is not committed is removed. */
  API_OK(trireme_corpus_writer_create(in_folder(state, "d", path), 8, &writer));
  API_OK(trireme_corpus_writer_add(writer, ids, 3));
  trireme_corpus_writer_destroy(writer);
  API_FAILS(trireme_corpus_open(path, &corpus), TRIREME_BAD_FILE, "d");
}

static void test_tokenizer(void **state) {
  static const char text[] =
      "a\0\xff"
      "b\xe2\x82"; /* any bytes, ending with an incomplete character */
  char path[TRI_PATH_BYTES];
  trireme_tokenizer *tokenizer = NULL, *again = NULL;
  int32_t *ids = NULL;
  int64_t count = 0;
  char *back = NULL;
  size_t bytes = 0;
  API_OK(trireme_tokenizer_create("bytes", &tokenizer));
  assert_int_equal(trireme_tokenizer_vocab_size(tokenizer), 257);
  assert_int_equal(trireme_tokenizer_end_of_text(tokenizer), 256);
  API_OK(trireme_tokenizer_save(tokenizer, in_folder(state, "tokenizer.json", path)));
  API_OK(trireme_tokenizer_create(path, &again));
  for (int i = 0; i < 2; i++) {
    trireme_tokenizer *one = i == 0 ? tokenizer : again;
    API_OK(trireme_tokenizer_encode(one, text, sizeof text - 1, 0, &ids, &count));
    assert_int_equal(count, sizeof text - 1);
    API_OK(trireme_tokenizer_decode(one, ids, count, &back, &bytes));
    assert_int_equal(bytes, sizeof text - 1);
    assert_memory_equal(back, text, sizeof text);
    trireme_free(ids);
    trireme_free(back);
  }
  API_OK(trireme_tokenizer_encode(tokenizer, "", 0, 0, &ids, &count));
  assert_int_equal(count, 0);
  API_OK(trireme_tokenizer_decode(tokenizer, ids, 0, &back, &bytes));
  assert_string_equal(back, "");
  trireme_free(ids);
  trireme_free(back);
  API_FAILS(trireme_tokenizer_create("gpt2:/proc/none", &tokenizer), TRIREME_BAD_FILE, "/proc/none");
  trireme_tokenizer_destroy(tokenizer);
  trireme_tokenizer_destroy(again);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_statuses),
      cmocka_unit_test_setup_teardown(test_questions, begin, end),
      cmocka_unit_test_setup_teardown(test_fixed_keys, begin, end),
      cmocka_unit_test_setup_teardown(test_answers, begin, end),
      cmocka_unit_test_setup_teardown(test_callers_locale, begin, end),
      cmocka_unit_test_setup_teardown(test_checkpoint, begin, end),
      cmocka_unit_test_setup_teardown(test_corpus, begin, end),
      cmocka_unit_test_setup_teardown(test_tokenizer, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
