/* Shared by the tests of corpora: a folder for each test, files in it, and checks of failures by status and message. */
#ifndef TRI_TESTS_CORPUS_TEST_H
#define TRI_TESTS_CORPUS_TEST_H

#include "base/status.h"
#include "data/corpus_writer.h"
#include "files/file.h"

/* cmocka.h needs these four before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct test_folder {
  char path[256];
} test_folder;

static inline int make_folder(void **state) {
  test_folder *folder = calloc(1, sizeof *folder);
  assert_non_null(folder);
  snprintf(folder->path, sizeof folder->path, "/tmp/trireme-test-XXXXXX");
  assert_non_null(mkdtemp(folder->path));
  *state = folder;
  return 0;
}

static inline int remove_folder(void **state) {
  test_folder *folder = *state;
  assert_int_equal(tri_directory_remove(folder->path), TRI_OK);
  free(folder);
  return 0;
}

/* Returns FOLDER/NAME in the test's buffer. */
static inline const char *in_folder(void **state, const char *name, char out[TRI_PATH_BYTES]) {
  const test_folder *folder = *state;
  assert_int_equal(tri_path_join(out, folder->path, name), TRI_OK);
  return out;
}

static inline void write_file(void **state, const char *name, const void *data, size_t bytes) {
  char path[TRI_PATH_BYTES];
  FILE *file = fopen(in_folder(state, name, path), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static inline void write_text(void **state, const char *name, const char *text) {
  write_file(state, name, text, strlen(text));
}

/* Fails unless the call has failed with this code and a message that contains `part`. */
static inline void check_failure(tri_status status, tri_status code, const char *part, const char *file, int line) {
  if (status != code) {
    print_error("status %d, wanted %d (message: %s)\n", (int)status, (int)code,
                status == TRI_OK ? "none" : tri_status_message());
    _fail(file, line);
  }
  if (strstr(tri_status_message(), part) != NULL) return;
  print_error("the message `%s` has no `%s`\n", tri_status_message(), part);
  _fail(file, line);
}
#define assert_failure(status, code, part) check_failure((status), (code), (part), __FILE__, __LINE__)

static inline void check_ok(tri_status status, const char *file, int line) {
  if (status == TRI_OK) return;
  print_error("status %d: %s\n", (int)status, tri_status_message());
  _fail(file, line);
}
#define assert_ok(status) check_ok((status), __FILE__, __LINE__)

/* Writes a corpus of the ids 0 .. tokens - 1 in one document. */
static inline void write_counting_corpus(const char *prefix, int64_t tokens) {
  tri_corpus_writer *writer = NULL;
  assert_ok(tri_corpus_writer_create(prefix, 1 << 20, &writer));
  for (int32_t i = 0; i < tokens; i++) assert_ok(tri_corpus_writer_add(writer, &i, 1));
  assert_ok(tri_corpus_writer_end_document(writer));
  assert_ok(tri_corpus_writer_finish(writer));
  assert_ok(tri_corpus_writer_commit(writer));
  tri_corpus_writer_destroy(writer);
}

#endif
