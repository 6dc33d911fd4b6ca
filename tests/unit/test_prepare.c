#include "data/prepare.h"

#include "base/memory.h"
#include "base/random.h"
#include "data/corpus.h"
#include "prepare_test.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum { END = 256 }; /* id of the bytes tokenizer */

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

/* Returns whether a document goes to validation, by the documented rule. */
static bool validates(const job *j, uint64_t document) {
  tri_random_key key = tri_random_stream(j->options.seed, TRI_RANDOM_SPLIT, 0);
  return tri_random_uniform(key, document) < j->options.validation;
}

/* Returns all tokens of OUT/NAME. Sets *count to 0 if there is no such corpus. */
static int32_t *read_corpus(const job *j, const char *name, int64_t *count) {
  char prefix[TRI_PATH_BYTES], index[TRI_PATH_BYTES];
  assert_ok(tri_path_join(prefix, j->out, name));
  snprintf(index, sizeof index, "%.4000s.idx", prefix);
  *count = 0;
  if (!tri_path_exists(index)) return NULL;
  tri_corpus *corpus = NULL;
  assert_ok(tri_corpus_open(prefix, &corpus));
  *count = tri_corpus_num_tokens(corpus);
  int32_t *ids = malloc((size_t)*count * sizeof *ids);
  assert_non_null(ids);
  assert_ok(tri_corpus_read(corpus, 0, *count, END + 1, ids));
  tri_corpus_close(corpus);
  return ids;
}

static void expect_text(const job *j, const char *name, const char *wanted) {
  int64_t count = 0;
  int32_t *ids = read_corpus(j, name, &count);
  char *text = calloc((size_t)count + 1, 1);
  for (int64_t i = 0; i < count; i++) text[i] = ids[i] == END ? '|' : (char)ids[i];
  assert_string_equal(text, wanted);
  free(text);
  free(ids);
}

static void expect_only(const job *j, const char *const *names, int count) {
  char path[TRI_PATH_BYTES];
  for (int i = 0; i < count; i++) {
    assert_ok(tri_path_join(path, j->out, names[i]));
    if (unlink(path) != 0) fail_msg("%s is missing", names[i]);
  }
  if (rmdir(j->out) != 0) fail_msg("more than %d files in %s", count, j->out);
}

/* Writes lines "0", "1", ... */
static void write_numbers(void **state, const char *name, int count, const char *format) {
  char *text = malloc((size_t)count * 64 + 1);
  assert_non_null(text);
  size_t held = 0;
  for (int i = 0; i < count; i++) held += (size_t)sprintf(text + held, format, i);
  write_file(state, name, text, held);
  free(text);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void ends_each_document(void **state) {
  write_text(state, "a.txt", "one\n\ntwo\nthree\n");
  job *j = new_job(state, "a.txt");
  j->options.validation = 0;
  assert_ok(prepare_it(j));
  expect_text(j, "train", "one|two|three|");
  expect_only(
      j,
      (const char *const[]){"train.bin", "train.idx", "train.corpus.json", "tokenizer.json", "tokenizer_config.json"},
      5);
  j->options.documents = TRI_DOCUMENT_FILE;
  assert_ok(prepare_it(j));
  expect_text(j, "train", "one\n\ntwo\nthree\n|");
  free(j);
}

/* Each document is in one of the two corpora, in order; the share is near the requested one; other seeds choose other
 * documents. */
static void splits_by_document(void **state) {
  enum { DOCUMENTS = 3000 };
  write_numbers(state, "a.jsonl", DOCUMENTS, "{\"text\": \"%d\"}\n");
  char first_choice[DOCUMENTS];
  for (uint64_t seed = 0; seed < 3; seed++) {
    job *j = new_job(state, "a.jsonl");
    tri_prepare_report report;
    char choice[DOCUMENTS] = {0};
    int64_t found[2] = {0, 0};
    j->options.seed = seed;
    j->options.force = true;
    assert_ok(tri_prepare(&j->options, &report));
    const char *names[] = {"train", "validation"};
    for (int which = 0; which < 2; which++) {
      int64_t count = 0, number = 0, before = -1;
      int32_t *ids = read_corpus(j, names[which], &count);
      for (int64_t i = 0; i < count; i++) {
        if (ids[i] != END) {
          number = 10 * number + (ids[i] - '0');
          continue;
        }
        assert_true(number > before && number < DOCUMENTS);
        assert_int_equal(choice[number], 0);
        choice[number] = (char)(1 + which);
        before = number;
        number = 0;
        found[which]++;
      }
      free(ids);
    }
    assert_int_equal(found[0] + found[1], DOCUMENTS);
    assert_int_equal(choice[0], 1);
    assert_in_range(found[1], 230, 370);
    assert_int_equal(report.counts.documents, DOCUMENTS);
    assert_int_equal(report.counts.train_documents, found[0]);
    assert_int_equal(report.counts.validation_documents, found[1]);
    assert_int_equal(report.counts.tokens, report.counts.text_bytes + DOCUMENTS);
    assert_false(report.counts.from_tail);
    if (seed == 0) {
      memcpy(first_choice, choice, sizeof choice);
    } else {
      assert_memory_not_equal(first_choice, choice, sizeof choice);
    }
    free(j);
  }
}

static void leaves_out_empty_documents(void **state) {
  write_text(state, "a.jsonl", "{\"text\": \"\"}\n{\"text\": \"a\"}\n{\"text\": \"\"}\n{\"text\": \"b\"}\n");
  job *j = new_job(state, "a.jsonl");
  tri_prepare_report report;
  j->options.validation = 0;
  assert_ok(tri_prepare(&j->options, &report));
  expect_text(j, "train", "a|b|");
  assert_int_equal(report.counts.documents, 2);
  assert_int_equal(report.counts.empty_documents, 2);
  free(j);
}

static void divides_one_document_at_its_end(void **state) {
  write_text(state, "a.txt", "0123456789abcdefghi");
  job *j = new_job(state, "a.txt");
  tri_prepare_report report;
  j->options.validation = 0.2;
  assert_ok(tri_prepare(&j->options, &report));
  expect_text(j, "train", "0123456789abcdef");
  expect_text(j, "validation", "ghi|");
  assert_true(report.counts.from_tail);
  assert_int_equal(report.counts.documents, 1);
  assert_int_equal(report.counts.tokens, 20);
  assert_int_equal(report.counts.validation_tokens, 4);
  free(j);
}

/* The first document, which always trains, is empty, and the only other goes to validation. */
static void divides_what_all_fell_to_validation(void **state) {
  write_text(state, "a.jsonl", "{\"text\": \"\"}\n{\"text\": \"abcdefghi\"}\n");
  job *j = new_job(state, "a.jsonl");
  j->options.validation = 0.2;
  while (!validates(j, 1)) j->options.seed++;
  assert_ok(prepare_it(j));
  int64_t train = 0, validation = 0;
  free(read_corpus(j, "train", &train));
  free(read_corpus(j, "validation", &validation));
  assert_int_equal(train + validation, 10);
  assert_true(train > 0 && validation > 0);
  free(j);
}

static char *read_out(const job *j, const char *name, size_t *size) {
  char path[TRI_PATH_BYTES], *data = NULL;
  assert_ok(tri_path_join(path, j->out, name));
  assert_ok(tri_file_read(path, (size_t)1 << 30, &data, size));
  return data;
}

/* The files are the same to the byte with any number of threads, and compressed or not. */
static void does_not_depend_on_threads(void **state) {
  enum { DOCUMENTS = 250000 };
  static const char *const files[] = {"train.bin",      "train.idx",      "train.corpus.json",
                                      "validation.bin", "validation.idx", "validation.corpus.json",
                                      "tokenizer.json"};
  write_numbers(state, "a.jsonl", DOCUMENTS, "{\"id\": 7, \"text\": \"number \\u00e9 %d\"}\n");
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  assert_ok(tri_file_read(in_folder(state, "a.jsonl", path), (size_t)1 << 30, &text, &bytes));
  char *packed = malloc(ZSTD_compressBound(bytes));
  write_file(state, "a.jsonl.zst", packed, ZSTD_compress(packed, ZSTD_compressBound(bytes), text, bytes, 1));
  free(packed);
  tri_free(text);
  job *one = new_job(state, "a.jsonl");
  one->options.threads = 1;
  assert_ok(prepare_it(one));
  const int threads[] = {2, 3, 8};
  for (int t = 0; t < 3; t++) {
    job *many = new_job(state, t == 0 ? "a.jsonl.zst" : "a.jsonl");
    in_folder(state, "many", many->out);
    many->options.threads = threads[t];
    many->options.force = true;
    assert_ok(prepare_it(many));
    for (int f = 0; f < 7; f++) {
      size_t bytes_one = 0, bytes_many = 0;
      char *a = read_out(one, files[f], &bytes_one), *b = read_out(many, files[f], &bytes_many);
      assert_int_equal(bytes_one, bytes_many);
      assert_memory_equal(a, b, bytes_one);
      tri_free(a);
      tri_free(b);
    }
    free(many);
  }
  free(one);
}

/* ---- an older corpus --------------------------------------------------------------------------------------------- */

static void keeps_an_older_corpus(void **state) {
  write_text(state, "old.txt", "o\nl\nd\n");
  write_text(state, "new.txt", "n\ne\nw\n");
  write_text(state, "bad.jsonl", "{\"text\": \"x\"}\n{");
  job *old = new_job(state, "old.txt"), *new = new_job(state, "new.txt"), *bad = new_job(state, "bad.jsonl");
  old->options.validation = 0.4;
  while (!validates(old, 2) || validates(old, 1)) old->options.seed++;
  assert_ok(prepare_it(old));
  assert_failure(prepare_it(new), TRI_BAD_USAGE, "out holds a corpus already (train.bin); choose another --out, or");
  bad->options.force = true;
  assert_failure(prepare_it(bad), TRI_BAD_FILE, "bad.jsonl line 2 is not valid JSON");
  expect_text(old, "train", "o|l|");
  expect_text(old, "validation", "d|");
  new->options.force = true;
  new->options.validation = 0;
  assert_ok(prepare_it(new));
  expect_text(new, "train", "n|e|w|");
  expect_only(
      new,
      (const char *const[]){"train.bin", "train.idx", "train.corpus.json", "tokenizer.json", "tokenizer_config.json"},
      5);
  free(old);
  free(new);
  free(bad);
}

static bool yes(void *context) {
  (void)context;
  return true;
}

static void can_be_interrupted(void **state) {
  write_numbers(state, "a.txt", 100000, "%d\n");
  job *j = new_job(state, "a.txt");
  j->options.interrupted = yes;
  assert_failure(prepare_it(j), TRI_INTERRUPTED, "was left as it was");
  assert_false(tri_path_exists(j->out));
  j->options.tokenizer = "train:300";
  assert_failure(prepare_it(j), TRI_INTERRUPTED, "was left as it was");
  assert_false(tri_path_exists(j->out));
  free(j);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

#define EXPECT_BAD(j, code, part)                                                                                      \
  do {                                                                                                                 \
    assert_failure(prepare_it(j), (code), (part));                                                                     \
    assert_false(tri_path_exists((j)->out));                                                                           \
  } while (0)

static void refuses_bad_options(void **state) {
  write_text(state, "a.txt", "text\n");
  job *j = new_job(state, "a.txt"), good = *j;
  const double fractions[] = {-0.1, 1.0, 2.0, NAN};
  for (int i = 0; i < 4; i++) {
    j->options.validation = fractions[i];
    EXPECT_BAD(j, TRI_BAD_USAGE, "--validation is ");
  }
  j->options = good.options;
  j->options.threads = 5000;
  EXPECT_BAD(j, TRI_BAD_USAGE, "--threads is 5000; it goes from 1 to 1024");
  j->options = good.options;
  j->options.num_inputs = 0;
  EXPECT_BAD(j, TRI_BAD_USAGE, "no input");
  j->options = good.options;
  j->options.tokenizer = "char";
  j->options.train_bytes = 0;
  EXPECT_BAD(j, TRI_BAD_USAGE, "--train-bytes is 0");
  const char *const vocabularies[] = {"train:", "train:x", "train:256", "train:-5", "train:99999999999", "train:5 "};
  j->options = good.options;
  for (int i = 0; i < 6; i++) {
    j->options.tokenizer = vocabularies[i];
    EXPECT_BAD(j, TRI_BAD_USAGE, "the size of the vocabulary goes from 257");
  }
  j->options.tokenizer = "/proc/none/tokenizer.json";
  EXPECT_BAD(j, TRI_BAD_FILE, "/proc/none/tokenizer.json");
  j->options = good.options;
  j->options.out = j->input;
  assert_failure(prepare_it(j), TRI_BAD_USAGE, "a.txt is a file; it must be a folder");
  free(j);
}

static void refuses_bad_inputs(void **state) {
  job *missing = new_job(state, "none.txt"), *folder = new_job(state, ""), *packed = new_job(state, "a.zst");
  EXPECT_BAD(missing, TRI_BAD_FILE, "none.txt: No such file or directory");
  EXPECT_BAD(folder, TRI_BAD_FILE, "is a directory; name the files in it");
  write_text(state, "a.zst", "no zstd");
  EXPECT_BAD(packed, TRI_BAD_FILE, "a.zst is damaged or not compressed with zstd");
  if (geteuid() != 0) { /* root may read any file */
    char path[TRI_PATH_BYTES];
    write_text(state, "secret.txt", "x");
    assert_int_equal(chmod(in_folder(state, "secret.txt", path), 0), 0);
    job *secret = new_job(state, "secret.txt");
    EXPECT_BAD(secret, TRI_BAD_FILE, "secret.txt: Permission denied");
    free(secret);
  }
  free(missing);
  free(folder);
  free(packed);
}

static void refuses_an_empty_corpus(void **state) {
  const struct {
    const char *name, *text;
  } cases[] = {{"a.txt", ""}, {"b.txt", "\n\n \n"}, {"c.jsonl", ""}, {"d.jsonl", "{\"text\": \"\"}\n"}};
  for (int i = 0; i < 4; i++) {
    write_text(state, cases[i].name, cases[i].text);
    job *j = new_job(state, cases[i].name);
    EXPECT_BAD(j, TRI_BAD_FILE, "the inputs hold no text");
    j->options.tokenizer = "train:300";
    EXPECT_BAD(j, TRI_BAD_FILE, "the inputs hold no text");
    free(j);
  }
}

/* The error names the first fault in the order of the text, with any number of threads. */
static void names_the_first_of_many_faults(void **state) {
  enum { LINES = 200000, FIRST = 60000 };
  char *text = malloc((size_t)LINES * 32);
  assert_non_null(text);
  size_t held = 0;
  for (int i = 1; i <= LINES; i++) {
    held += (size_t)sprintf(text + held, i < FIRST ? "{\"text\": \"fine line\"}\n" : "{\"text\": 5}\n");
  }
  write_file(state, "a.jsonl", text, held);
  free(text);
  for (int threads = 1; threads <= 8; threads += 7) {
    job *j = new_job(state, "a.jsonl");
    j->options.threads = threads;
    EXPECT_BAD(j, TRI_BAD_FILE, "a.jsonl line 60000: `text` is a number, not a string");
    free(j);
  }
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(ends_each_document),
      TEST(splits_by_document),
      TEST(leaves_out_empty_documents),
      TEST(divides_one_document_at_its_end),
      TEST(divides_what_all_fell_to_validation),
      TEST(does_not_depend_on_threads),
      TEST(keeps_an_older_corpus),
      TEST(can_be_interrupted),
      TEST(refuses_bad_options),
      TEST(refuses_bad_inputs),
      TEST(refuses_an_empty_corpus),
      TEST(names_the_first_of_many_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
