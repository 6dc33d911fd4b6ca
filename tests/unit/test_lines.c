/* Lines of files of other programs: they are the same as with a plain split of the bytes, and no more bytes of a line
 * are kept than requested. */
#include "check.h"
#include "files/file.h"
#include "files/lines.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int enter_scratch(void **state) {
  (void)state;
  char folder[] = "/tmp/trireme-test-XXXXXX";
  return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int leave_scratch(void **state) {
  (void)state;
  char folder[TRI_PATH_BYTES];
  if (getcwd(folder, sizeof folder) == NULL) return 1;
  return chdir("/") != 0 || tri_directory_remove(folder) != TRI_OK;
}

static void write_file(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wbe");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

/* Compares all lines of the file with the lines that memchr finds in the same bytes. Lines longer than `longest` are
 * compared by their beginnings. */
static void compare(const char *data, size_t bytes, size_t longest) {
  tri_lines *lines = NULL;
  tri_line line;
  bool there = false;
  int64_t number = 0;
  write_file("text", data, bytes);
  CHECK_OK(tri_lines_open("text", longest, &lines));
  for (size_t at = 0; at < bytes;) {
    const char *newline = memchr(data + at, '\n', bytes - at);
    const size_t end = newline == NULL ? bytes : (size_t)(newline - data), whole = end - at;
    CHECK_OK(tri_lines_next_any(lines, &line, &there));
    assert_true(there);
    assert_int_equal(line.number, ++number);
    assert_int_equal(line.first, at);
    assert_int_equal(line.ended, newline != NULL);
    assert_int_equal(line.end, end + (newline != NULL));
    assert_int_equal(line.too_long, whole > longest);
    assert_int_equal(line.bytes, whole < longest ? whole : longest);
    assert_memory_equal(line.text, data + at, line.bytes);
    assert_int_equal(line.text[line.bytes], 0);
    at = (size_t)line.end;
  }
  for (int i = 0; i < 2; i++) {
    CHECK_OK(tri_lines_next_any(lines, &line, &there));
    assert_false(there);
  }
  tri_lines_close(lines);
}

static void test_small_texts(void **state) {
  (void)state;
  static const char *const texts[] = {
      "", "a", "\n", "a\n", "a\nbc", "\n\n", "\na\n\nbc\n", "long line\nb\n", "b\nlong line"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    compare(texts[i], strlen(texts[i]), 4);
    compare(texts[i], strlen(texts[i]), 100);
  }
  compare("a\0b\n\0\nc", 7, 100);
}

/* Lines of all lengths around that of a piece, made by a formula. */
static void test_long_texts(void **state) {
  (void)state;
  enum { BYTES = 3 << 20 };
  static char data[BYTES];
  static const size_t limits[] = {1, 1000, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 200000, BYTES};
  for (uint64_t seed = 0; seed < 4; seed++) {
    uint64_t random = 12345 + seed;
    size_t next = 0;
    for (size_t i = 0; i < BYTES; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      data[i] = (char)('a' + (random >> 40) % 26);
      if (i != next) continue;
      data[i] = '\n';
      next = i + 1 + (random >> 33) % (seed == 0 ? 3 : seed == 1 ? 300 : 150000);
    }
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) compare(data, BYTES, limits[l]);
  }
}

static void test_a_line_that_is_too_long_is_named(void **state) {
  (void)state;
  tri_lines *lines = NULL;
  tri_line line;
  bool there = false;
  write_file("text", "ab\nabcde\n", 9);
  CHECK_OK(tri_lines_open("text", 4, &lines));
  CHECK_OK(tri_lines_next(lines, &line, &there));
  CHECK_FAILS(tri_lines_next(lines, &line, &there), TRI_BAD_FILE, "line 2 of text is longer than the 4 bytes");
  tri_lines_close(lines);
}

/* An endless file that is not a plain file is refused as soon as a line is longer than allowed. */
static void test_endless(void **state) {
  (void)state;
  tri_lines *lines = NULL;
  tri_line line;
  bool there = false;
  CHECK_OK(tri_lines_of(open("/dev/zero", O_RDONLY | O_CLOEXEC), "standard input", 1 << 20, &lines));
  CHECK_FAILS(tri_lines_next(lines, &line, &there), TRI_BAD_FILE,
              "line 1 of standard input is longer than the 1.00 MiB");
  tri_lines_close(lines);
}

static void test_odd_files(void **state) {
  (void)state;
  tri_lines *lines = NULL;
  assert_int_equal(mkfifo("pipe", 0600), 0);
  CHECK_FAILS(tri_lines_open("pipe", 10, &lines), TRI_BAD_FILE, "pipe is a pipe, not a plain file");
  CHECK_FAILS(tri_lines_open("/dev/zero", 10, &lines), TRI_BAD_FILE, "is a device");
  CHECK_FAILS(tri_lines_open("nothing", 10, &lines), TRI_BAD_FILE, "cannot open nothing");
}

/* A line is returned as soon as its newline has arrived. */
static void test_a_pipe_is_read_as_it_comes(void **state) {
  (void)state;
  tri_lines *lines = NULL;
  tri_line line;
  bool there = false;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  CHECK_OK(tri_lines_of(ends[0], "a pipe", 100, &lines));
  assert_int_equal(write(ends[1], "one\ntwo\nth", 10), 10);
  for (int i = 0; i < 2; i++) {
    CHECK_OK(tri_lines_next(lines, &line, &there));
    assert_string_equal(line.text, i == 0 ? "one" : "two");
  }
  assert_int_equal(write(ends[1], "ree", 3), 3);
  close(ends[1]);
  CHECK_OK(tri_lines_next(lines, &line, &there));
  assert_string_equal(line.text, "three");
  assert_false(line.ended);
  tri_lines_close(lines);
}

static void test_bf16_copies(void **state) {
  (void)state;
  enum { BYTES = 200001 };
  static char data[BYTES], *found = NULL;
  size_t bytes = 0;
  tri_file_writer *writer = NULL;
  for (int i = 0; i < BYTES; i++) data[i] = (char)(i * 31 % 251);
  write_file("from", data, BYTES);
  CHECK_OK(tri_file_writer_open("to", &writer));
  tri_file_writer_put(writer, "head");
  CHECK_OK(tri_file_writer_copy(writer, "from", 3, BYTES - 2));
  CHECK_OK(tri_file_writer_copy(writer, "from", 7, 7));
  CHECK_OK(tri_file_writer_copy(writer, "from", 0, 1));
  CHECK_OK(tri_file_writer_close(writer, TRI_OK));
  CHECK_OK(tri_file_read("to", 1 << 20, &found, &bytes));
  assert_int_equal(bytes, 4 + BYTES - 5 + 1);
  assert_memory_equal(found, "head", 4);
  assert_memory_equal(found + 4, data + 3, BYTES - 5);
  assert_int_equal(found[bytes - 1], data[0]);
  CHECK_OK(tri_file_writer_open("short", &writer));
  CHECK_FAILS(tri_file_writer_copy(writer, "from", 0, BYTES + 1), TRI_BAD_FILE, "it has become shorter");
  CHECK_FAILS(tri_file_writer_close(writer, TRI_OK), TRI_BAD_FILE, "from");
  assert_false(tri_path_exists("short"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_texts),
      cmocka_unit_test(test_long_texts),
      cmocka_unit_test(test_a_line_that_is_too_long_is_named),
      cmocka_unit_test(test_endless),
      cmocka_unit_test(test_odd_files),
      cmocka_unit_test(test_a_pipe_is_read_as_it_comes),
      cmocka_unit_test(test_bf16_copies),
  };
  return cmocka_run_group_tests(tests, enter_scratch, leave_scratch);
}
