#include "data/text_input.h"

#include "base/random.h"
#include "corpus_test.h"
#include "data/text_stream.h"

#include <zstd.h>

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

enum { MAX_DOCUMENTS = 500000 };

/* The documents read from an input, each as one text. */
typedef struct documents {
  char *text;
  size_t bytes, capacity;
  size_t ends[MAX_DOCUMENTS];
  int64_t count;
  int64_t pieces, rough_cuts;
  size_t largest_piece;
  bool binary; /* set before collect */
} documents;

static documents *new_documents(void) {
  documents *to = calloc(1, sizeof *to);
  assert_non_null(to);
  return to;
}

static void free_documents(documents *d) {
  free(d->text);
  free(d);
}

static void append(documents *to, const char *text, size_t bytes) {
  if (to->bytes + bytes > to->capacity) {
    to->capacity = 2 * (to->bytes + bytes);
    to->text = realloc(to->text, to->capacity);
    assert_non_null(to->text);
  }
  memcpy(to->text + to->bytes, text, bytes);
  to->bytes += bytes;
}

static void end_document(documents *to) {
  assert_true(to->count < MAX_DOCUMENTS);
  to->ends[to->count++] = to->bytes;
}

static tri_status collect(const char *const *paths, int count, tri_document_rule rule, const char *key, documents *to) {
  tri_status status = TRI_OK;
  tri_text_input *input = NULL;
  tri_text_block block = {0};
  TRI_TRY(tri_text_input_create(paths, count, rule, &input));
  if (to->binary) tri_text_input_allow_binary(input);
  for (;;) {
    TRI_TRY_GOTO(tri_text_input_next(input, &block), destroy);
    if (block.num_pieces == 0) break;
    for (int64_t i = 0; i < block.num_pieces; i++) {
      tri_piece_text text = {0};
      assert_int_equal(block.pieces[i].document, to->count);
      TRI_TRY_GOTO(tri_piece_text_get(&block, &block.pieces[i], key, &text), destroy);
      append(to, text.text, text.bytes);
      if (text.bytes > to->largest_piece) to->largest_piece = text.bytes;
      tri_piece_text_release(&text);
      to->pieces++;
      if (block.pieces[i].ends_document) end_document(to);
    }
    tri_text_block_trim(&block);
  }
  to->rough_cuts = tri_text_input_rough_cuts(input);
destroy:
  tri_text_block_destroy(&block);
  tri_text_input_destroy(input);
  return status;
}

static tri_status collect_one(void **state, const char *name, tri_document_rule rule, documents *to) {
  char path[TRI_PATH_BYTES];
  const char *paths[] = {in_folder(state, name, path)};
  return collect(paths, 1, rule, "text", to);
}

/* "a|b|c": the documents of a small text. */
static void expect(void **state, const char *name, tri_document_rule rule, const char *wanted) {
  documents *got = new_documents();
  assert_ok(collect_one(state, name, rule, got));
  char joined[1024];
  size_t held = 0;
  for (int64_t i = 0, begin = 0; i < got->count; begin = (int64_t)got->ends[i++]) {
    if (i > 0) joined[held++] = '|';
    memcpy(joined + held, got->text + begin, got->ends[i] - (size_t)begin);
    held += got->ends[i] - (size_t)begin;
  }
  joined[held] = '\0';
  assert_string_equal(joined, wanted);
  free_documents(got);
}

static void expect_equal(const documents *a, const documents *b) {
  assert_int_equal(a->count, b->count);
  assert_int_equal(a->bytes, b->bytes);
  assert_memory_equal(a->ends, b->ends, (size_t)a->count * sizeof a->ends[0]);
  if (a->bytes > 0) assert_memory_equal(a->text, b->text, a->bytes);
}

static uint32_t draw(uint64_t *index) { return tri_random_u32(tri_random_stream(11, TRI_RANDOM_TEST, 0), (*index)++); }

/* Makes lines of words; one in `blank_every` is blank. */
static char *make_text(size_t bytes, uint32_t blank_every) {
  static const char *const words[] = {"the", "trireme", "d\xC3\xA9j\xC3\xA0", "42", "\xE6\xBC\xA2\xE5\xAD\x97", "it's",
                                      "--",  ",",       "\xF0\x9F\x98\x80",   "  "};
  static const char *const ends[] = {"\n", "\n", "\n", "\r\n", " \n", ".\n"};
  char *text = malloc(bytes + 64);
  assert_non_null(text);
  size_t held = 0;
  for (uint64_t i = 0; held < bytes;) {
    uint32_t choice = draw(&i) % 10;
    held += (size_t)sprintf(text + held, "%s%s", words[choice], draw(&i) % 4 == 0 ? "" : " ");
    if (draw(&i) % 8 == 0) held += (size_t)sprintf(text + held, "%s", ends[draw(&i) % 6]);
    if (draw(&i) % (8 * blank_every) == 0) held += (size_t)sprintf(text + held, "\n \n");
  }
  text[bytes] = '\0';
  return text;
}

/* Splits a whole text by the same rules, with a different loop. */
static void split_plainly(const char *text, tri_document_rule rule, documents *to) {
  bool open = false;
  size_t end_held = 0; /* newline of the last line, appended only if another line follows */
  const char *held = NULL;
  while (*text != '\0') {
    size_t length = strcspn(text, "\n"), visible = length;
    if (visible > 0 && text[length] == '\n' && text[visible - 1] == '\r') visible--;
    bool blank = strspn(text, " \t\r") >= length;
    size_t whole = length + (text[length] == '\n');
    if (rule == TRI_DOCUMENT_LINE && !blank) {
      append(to, text, visible);
      end_document(to);
    } else if (rule == TRI_DOCUMENT_BLANK && !blank) {
      if (open) append(to, held, end_held);
      append(to, text, visible);
      held = text + visible;
      end_held = whole - visible;
      open = true;
    } else if (rule == TRI_DOCUMENT_BLANK && open) {
      end_document(to);
      open = false;
    }
    text += whole;
  }
  if (open) end_document(to);
}

static void write_zst(void **state, const char *name, const char *text, size_t bytes, size_t frame_bytes) {
  size_t room = ZSTD_compressBound(bytes) + 64 * (bytes / frame_bytes + 2), held = 0;
  char *out = malloc(room);
  assert_non_null(out);
  for (size_t done = 0; done < bytes; done += frame_bytes) {
    size_t some = bytes - done < frame_bytes ? bytes - done : frame_bytes;
    held += ZSTD_compress(out + held, room - held, text + done, some, 1);
  }
  write_file(state, name, out, held);
  free(out);
}

/* ---- documents --------------------------------------------------------------------------------------------------- */

static void divides_plain_text(void **state) {
  write_text(state, "a.txt", "one\ntwo\n\n \t\r\nthree\r\n\r\nfour");
  expect(state, "a.txt", TRI_DOCUMENT_FILE, "one\ntwo\n\n \t\r\nthree\r\n\r\nfour");
  expect(state, "a.txt", TRI_DOCUMENT_LINE, "one|two|three|four");
  expect(state, "a.txt", TRI_DOCUMENT_BLANK, "one\ntwo|three|four");
  write_text(state, "b.txt", "\n\n\n");
  expect(state, "b.txt", TRI_DOCUMENT_FILE, "\n\n\n");
  expect(state, "b.txt", TRI_DOCUMENT_LINE, "");
  expect(state, "b.txt", TRI_DOCUMENT_BLANK, "");
  write_text(state, "c.txt", "");
  expect(state, "c.txt", TRI_DOCUMENT_FILE, "");
  write_text(state, "d.txt", "\xEF\xBB\xBFx");
  expect(state, "d.txt", TRI_DOCUMENT_FILE, "x");
  write_text(state, "e.txt", "\xEF\xBB\xBF");
  expect(state, "e.txt", TRI_DOCUMENT_FILE, "");
}

static void keeps_any_bytes(void **state) {
  char all[256];
  for (int i = 0; i < 256; i++) all[i] = (char)i;
  write_file(state, "a.txt", all, sizeof all);
  documents *got = new_documents();
  got->binary = true;
  assert_ok(collect_one(state, "a.txt", TRI_DOCUMENT_FILE, got));
  assert_int_equal(got->bytes, 256);
  assert_memory_equal(got->text, all, 256);
  free_documents(got);
}

static void numbers_documents_over_files(void **state) {
  char a[TRI_PATH_BYTES], b[TRI_PATH_BYTES], c[TRI_PATH_BYTES];
  write_text(state, "a.txt", "one\ntwo\n");
  write_text(state, "b.jsonl", "{\"text\": \"three\"}\n\n{\"id\": 7, \"text\": \"four\\u0000\\n\"}");
  write_text(state, "c.txt", "five");
  const char *paths[] = {in_folder(state, "a.txt", a), in_folder(state, "b.jsonl", b), in_folder(state, "c.txt", c)};
  documents *got = new_documents();
  assert_ok(collect(paths, 3, TRI_DOCUMENT_LINE, "text", got));
  const char wanted[] = "onetwothreefour\0\nfive";
  assert_int_equal(got->count, 5);
  assert_int_equal(got->bytes, sizeof wanted - 1);
  assert_memory_equal(got->text, wanted, sizeof wanted - 1);
  free_documents(got);
}

/* Texts of many blocks: the ends of blocks have no effect on the documents. */
static void divides_long_texts_alike(void **state) {
  const uint32_t blank_every[] = {4, 4000, 400000};
  for (size_t i = 0; i < 3; i++) {
    char *text = make_text(3500000, blank_every[i]);
    write_text(state, "a.txt", text);
    write_zst(state, "a.txt.zst", text, strlen(text), 1000001);
    for (int rule = TRI_DOCUMENT_FILE; rule <= TRI_DOCUMENT_LINE; rule++) {
      documents *plain = new_documents(), *packed = new_documents(), *wanted = new_documents();
      assert_ok(collect_one(state, "a.txt", (tri_document_rule)rule, plain));
      assert_ok(collect_one(state, "a.txt.zst", (tri_document_rule)rule, packed));
      if (rule == TRI_DOCUMENT_FILE) {
        append(wanted, text, strlen(text));
        end_document(wanted);
      } else {
        split_plainly(text, (tri_document_rule)rule, wanted);
      }
      expect_equal(plain, wanted);
      expect_equal(packed, wanted);
      assert_true(plain->largest_piece <= 1 << 20);
      assert_int_equal(plain->rough_cuts, 0);
      free_documents(plain);
      free_documents(packed);
      free_documents(wanted);
    }
    free(text);
  }
}

/* A long text with one place to cut, or none, near the end of the first block. */
static void cuts_only_at_safe_places(void **state) {
  static const struct {
    const char *middle;
    int cut; /* bytes of `middle` that belong to the first piece, or -1 */
  } cases[] = {
      {"x\ny", 2},
      {"x y", 1},
      {"\xC3\xA9\ny", 3},
      {"x\n\xE6\xBC\xA2", 2},
      {"x\xE3\x80\x82\ny", 5},
      {"x\n\ny", -1},
      {"x \ny", -1},
      {"x\n y", -1},
      {"x\r\ny", -1},
      {"x  y", -1},
      {"x\ty", -1},
      {"x\xC2\xA0\ny", -1},
      {"x\n\xC2\x85y", -1},
      {"x\xE3\x80\x80\ny", -1},
      {"x\n\xE2\x80\xA8y", -1},
      {"x\n\x1Fy", -1},
      {"x\xE1\x9A\x80 y", -1},
  };
  enum { BEFORE = 1000000, BYTES = 1500000 };
  char *text = malloc(BYTES);
  assert_non_null(text);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    memset(text, 'x', BYTES);
    memcpy(text + BEFORE, cases[i].middle, strlen(cases[i].middle));
    write_file(state, "a.txt", text, BYTES);
    documents *got = new_documents();
    assert_ok(collect_one(state, "a.txt", TRI_DOCUMENT_FILE, got));
    assert_int_equal(got->bytes, BYTES);
    assert_memory_equal(got->text, text, BYTES);
    size_t wanted = cases[i].cut < 0 ? BYTES : (size_t)(BEFORE + cases[i].cut);
    if (got->largest_piece != wanted) {
      fail_msg("`%s`: the largest piece has %zu bytes, not %zu", cases[i].middle, got->largest_piece, wanted);
    }
    free_documents(got);
  }
  free(text);
}

/* 20 MiB of Chinese without a space: cut between two characters, once, and counted. */
static void cuts_roughly_if_it_must(void **state) {
  enum { CHARACTERS = 7000000 };
  char *text = malloc(3 * CHARACTERS + 1);
  assert_non_null(text);
  for (size_t i = 0; i < CHARACTERS; i++) memcpy(text + 3 * i, "\xE6\xBC\xA2", 4);
  for (int rule = TRI_DOCUMENT_FILE; rule <= TRI_DOCUMENT_BLANK; rule++) {
    write_file(state, "a.txt", text, 3 * CHARACTERS);
    documents *got = new_documents();
    assert_ok(collect_one(state, "a.txt", (tri_document_rule)rule, got));
    assert_int_equal(got->count, 1);
    assert_int_equal(got->bytes, 3 * CHARACTERS);
    assert_memory_equal(got->text, text, 3 * CHARACTERS);
    assert_int_equal(got->rough_cuts, 1);
    assert_int_equal(got->pieces, 2);
    assert_true(got->largest_piece <= 16 << 20);
    assert_int_equal(got->largest_piece % 3, 0);
    free_documents(got);
  }
  free(text);
}

static void reads_lines_longer_than_a_block(void **state) {
  static const char before[] = "{\"text\": \"a\"}\n{\"text\": \"", after[] = "\"}\n{\"text\": \"c\"}\n";
  enum { BYTES = 5000000, BEFORE = sizeof before - 1 };
  static char line[BEFORE + BYTES + sizeof after];
  memcpy(line, before, BEFORE);
  memset(line + BEFORE, 'b', BYTES);
  memcpy(line + BEFORE + BYTES, after, sizeof after);
  write_text(state, "a.jsonl", line);
  documents *got = new_documents();
  assert_ok(collect_one(state, "a.jsonl", TRI_DOCUMENT_FILE, got));
  assert_int_equal(got->count, 3);
  assert_int_equal(got->bytes, BYTES + 2);
  assert_int_equal(got->ends[1], BYTES + 1);
  free_documents(got);
}

static void knows_json_by_its_name(void **state) {
  (void)state;
  assert_true(tri_text_input_is_json("a.jsonl"));
  assert_true(tri_text_input_is_json("a.JSONL.ZST"));
  assert_true(tri_text_input_is_json("dir/a.json"));
  assert_true(tri_text_input_is_json("a.ndjson.zst"));
  assert_false(tri_text_input_is_json("a.jsonl.txt"));
  assert_false(tri_text_input_is_json("a.txt.zst"));
  assert_false(tri_text_input_is_json("jsonl"));
  assert_false(tri_text_input_is_json(""));
}

/* Strings that contain separators of elements, elements over several lines and blocks, and lines of other lengths. */
static void reads_arrays(void **state) {
  write_text(state, "a.json", " \n[]\n");
  expect(state, "a.json", TRI_DOCUMENT_FILE, "");
  write_text(state, "a.json", "\n[ {\"text\": \"a],[\"} ,\n{\n\"x\": [1, {\"y\": \"]}\\\"\"}],\n\"text\": \"b\"}]\n\n");
  expect(state, "a.json", TRI_DOCUMENT_FILE, "a],[|b");
  expect(state, "a.json", TRI_DOCUMENT_LINE, "a],[|b");
  enum { COUNT = 3000, LONG = 3000000 };
  const size_t room = (size_t)COUNT * 1200 + LONG + 100;
  char *text = test_malloc(room);
  size_t held = (size_t)snprintf(text, room, "[");
  for (int i = 0; i < COUNT; i++) {
    const int bytes = i == 1500 ? LONG : i % 1000 + 1;
    held += (size_t)snprintf(text + held, room - held, "%s{\"text\":%s\"%0*d\"}", i == 0 ? "" : ",\n",
                             i % 3 == 0 ? "\n" : " ", bytes, i % 10);
  }
  snprintf(text + held, room - held, "\n]");
  write_text(state, "b.json", text);
  test_free(text);
  documents *got = new_documents();
  assert_ok(collect_one(state, "b.json", TRI_DOCUMENT_FILE, got));
  assert_int_equal(got->count, COUNT);
  for (int64_t i = 0, begin = 0; i < COUNT; begin = (int64_t)got->ends[i++]) {
    assert_int_equal((int64_t)got->ends[i] - begin, i == 1500 ? LONG : i % 1000 + 1);
    assert_int_equal(got->text[got->ends[i] - 1], '0' + i % 10);
  }
  free_documents(got);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void expect_bad_line(void **state, const char *text, const char *part) {
  write_text(state, "bad.jsonl", text);
  documents *got = new_documents();
  assert_failure(collect_one(state, "bad.jsonl", TRI_DOCUMENT_FILE, got), TRI_BAD_FILE, part);
  free_documents(got);
}

static void names_the_bad_line(void **state) {
  expect_bad_line(state, "{\"text\": \"a\"}\n\n{\"text\": \"b\"\n", "bad.jsonl line 3 is not valid JSON: ");
  expect_bad_line(state, "{\"text\": \"a\"} x\n", "bad.jsonl line 1 is not valid JSON: end of file expected near 'x'");
  expect_bad_line(state, "{\"text\": \"\xFF\"}", "bad.jsonl line 1 is not valid JSON: unable to decode byte 0xff");
  expect_bad_line(state, "{\"text\": \"\xFF\"}", "convert it, if it is in Latin-1: iconv");
  expect_bad_line(state, "[1]\n", "bad.jsonl line 1 is a number; each record must be an object with the key `text`");
  expect_bad_line(state, "{\"text\": \"a\"}\n[1]\n", "bad.jsonl line 2 is an array; each record must be an object");
  expect_bad_line(state, "[\n{\"text\": \"a\"},\n\n{\"text\": 1}\n]", "bad.jsonl line 4: `text` is a number");
  expect_bad_line(state, "[\n{\"text\": \"a\"},\n{\"text\": \"b\n]",
                  "line 3: the file ends in the middle of element 2 of its array, which begins there: it is cut off");
  expect_bad_line(state, "[{\"text\": \"a\"},\n{\"text\": \"b\"}\n",
                  "line 3: the file ends after element 2 of its array, without the closing `]`: it is cut off");
  expect_bad_line(state, "[{\"text\": \"a\"},\n", "line 2: the file ends after element 1 of its array");
  expect_bad_line(state, "[", "line 1: the file ends after element 0 of its array");
  expect_bad_line(state, "[{\"text\": \"a\"}\n{\"text\": \"b\"}]", "line 2: found `{` instead of a comma or `]`");
  expect_bad_line(state, "[{\"text\": \"a\"},]", "line 1: found `]` instead of an element of the array");
  expect_bad_line(state, "[,{\"text\": \"a\"}]", "line 1: found `,` instead of an element of the array");
  expect_bad_line(state, "[{\"text\": \"a\"}]\n[{\"text\": \"a\"}]", "line 2: found `[` instead of nothing after");
  expect_bad_line(state, "[{\"text\": \"a\"}}]", "line 1: found `}` instead of a comma or `]`");
  expect_bad_line(state, "\"x\"\n", "line 1 is a string;");
  expect_bad_line(state, "{\"content\": \"a\", \"id\": 3, \"url\": null}\n",
                  "line 1 has no key `text`; it has `content`, `id` and `url`: choose with --key");
  expect_bad_line(state, "{\"a\": 1}\n", "it has `a`: choose");
  expect_bad_line(state, "{}\n", "it has none");
  expect_bad_line(state, "{\"text\": \"a\"}\n{\"text\": null}\n", "line 2: `text` is null, not a string");
  expect_bad_line(state, "{\"text\": [\"a\"]}\n", "line 1: `text` is an array, not a string");
}

static void cuts_a_long_list_of_keys(void **state) {
  char line[4096];
  size_t held = (size_t)sprintf(line, "{");
  for (int i = 0; i < 200; i++) held += (size_t)sprintf(line + held, "%s\"key-%03d\": 1", i == 0 ? "" : ", ", i);
  sprintf(line + held, "}\n");
  expect_bad_line(state, line, "`key-000`, `key-001`");
  expect_bad_line(state, line, "...: choose with --key");
}

static void refuses_bad_files(void **state) {
  char path[TRI_PATH_BYTES];
  const test_folder *folder = *state;
  documents *got = new_documents();
  assert_failure(collect_one(state, "none.txt", TRI_DOCUMENT_FILE, got), TRI_BAD_FILE, "none.txt: No such file");
  assert_failure(collect_one(state, "", TRI_DOCUMENT_FILE, got), TRI_BAD_FILE, "is a directory; name the files in it");
  write_text(state, "a.txt.gz", "x");
  assert_failure(collect_one(state, "a.txt.gz", TRI_DOCUMENT_FILE, got), TRI_BAD_FILE, "gzip -dc ");
  write_text(state, "a.parquet", "x");
  assert_failure(collect_one(state, "a.parquet", TRI_DOCUMENT_FILE, got), TRI_BAD_FILE, "convert it to .jsonl");
  int64_t bytes = -1;
  assert_failure(tri_text_stream_check(in_folder(state, "none.txt", path), &bytes), TRI_BAD_FILE, "No such file");
  assert_failure(tri_text_stream_check(folder->path, &bytes), TRI_BAD_FILE, "is a directory");
  assert_failure(tri_text_stream_check(in_folder(state, "a.txt.gz", path), &bytes), TRI_BAD_FILE, "only .zst is read");
  write_text(state, "a.txt", "1234567");
  assert_ok(tri_text_stream_check(in_folder(state, "a.txt", path), &bytes));
  assert_int_equal(bytes, 7);
  free_documents(got);
}

static void refuses_damaged_zst(void **state) {
  char *text = make_text(300000, 4), packed[300000];
  size_t bytes = ZSTD_compress(packed, sizeof packed, text, strlen(text), 1);
  assert_false(ZSTD_isError(bytes));
  const size_t lengths[] = {0, 1, 3, 10, bytes / 2, bytes - 1};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    documents *got = new_documents();
    write_file(state, "a.zst", packed, lengths[i]);
    assert_failure(collect_one(state, "a.zst", TRI_DOCUMENT_FILE, got), TRI_BAD_FILE, "a.zst is truncated");
    free_documents(got);
  }
  documents *got = new_documents();
  memset(packed + bytes / 2, 0xFF, 100);
  write_file(state, "a.zst", packed, bytes);
  assert_failure(collect_one(state, "a.zst", TRI_DOCUMENT_FILE, got), TRI_BAD_FILE, "a.zst is damaged");
  write_text(state, "b.zst", "this is plain text");
  assert_failure(collect_one(state, "b.zst", TRI_DOCUMENT_FILE, got), TRI_BAD_FILE, "not compressed with zstd");
  free_documents(got);
  free(text);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(divides_plain_text),
      TEST(keeps_any_bytes),
      TEST(numbers_documents_over_files),
      TEST(divides_long_texts_alike),
      TEST(cuts_only_at_safe_places),
      TEST(cuts_roughly_if_it_must),
      TEST(reads_lines_longer_than_a_block),
      TEST(reads_arrays),
      TEST(knows_json_by_its_name),
      TEST(names_the_bad_line),
      TEST(cuts_a_long_list_of_keys),
      TEST(refuses_bad_files),
      TEST(refuses_damaged_zst),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
