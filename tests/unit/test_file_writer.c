/* Files that are written piece by piece: whole in their place, or the old ones as they were. */
#include "base/file.h"
#include "base/memory.h"
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
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

static void expect_content(const char *path, const char *expected) {
  char *text = NULL;
  CHECK_OK(tri_file_read(path, 1 << 24, &text, NULL));
  assert_string_equal(text, expected);
  tri_free(text);
}

static int count_files(void) {
  int count = 0;
  DIR *folder = opendir(".");
  assert_non_null(folder);
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) count += *entry->d_name != '.';
  closedir(folder);
  return count;
}

/* Pieces of all lengths, over many times what is held at once. */
static void pieces(void **state) {
  (void)state;
  enum { BYTES = 1 << 21, LONGEST = 60000 };
  char *expected = NULL;
  size_t held = 0;
  tri_file_writer *writer = NULL;
  CHECK_OK(tri_alloc("a test", BYTES, 1, &expected));
  CHECK_OK(tri_file_writer_open("pieces", &writer));
  for (int i = 0; held + LONGEST + 1 < BYTES; i++) {
    int length = i * i * 7 % LONGEST;
    memset(expected + held, 'a' + i % 26, (size_t)length);
    tri_file_writer_put(writer, "%s", expected + held);
    held += (size_t)length;
  }
  assert_false(tri_path_exists("pieces"));
  CHECK_OK(tri_file_writer_status(writer));
  CHECK_OK(tri_file_writer_close(writer, TRI_OK));
  expect_content("pieces", expected);
  tri_free(expected);
}

static void a_failed_caller_leaves_the_old(void **state) {
  (void)state;
  tri_file_writer *writer = NULL;
  CHECK_OK(tri_file_replace("kept", "old", 3));
  int files = count_files();
  CHECK_OK(tri_file_writer_open("kept", &writer));
  tri_file_writer_put(writer, "new");
  assert_int_equal(tri_file_writer_close(writer, TRI_DIVERGED), TRI_DIVERGED);
  expect_content("kept", "old");
  assert_int_equal(count_files(), files);
}

static void a_full_disk_leaves_the_old(void **state) {
  (void)state;
  struct rlimit before, low;
  tri_file_writer *writer = NULL;
  CHECK_OK(tri_file_replace("kept", "old", 3));
  int files = count_files();
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  low = before;
  low.rlim_cur = 100000;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
  CHECK_OK(tri_file_writer_open("kept", &writer));
  for (int i = 0; i < 100000; i++) tri_file_writer_put(writer, "%d\n", i);
  tri_status during = tri_file_writer_status(writer);
  tri_status after = tri_file_writer_close(writer, TRI_OK);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(during, TRI_IO_FAILED);
  CHECK_FAILS(after, TRI_IO_FAILED, "cannot write kept.tmp.");
  assert_non_null(strstr(tri_status_message(), "File too large"));
  expect_content("kept", "old");
  assert_int_equal(count_files(), files);
}

static void refusals(void **state) {
  (void)state;
  tri_file_writer *writer = NULL;
  char *text = NULL;
  CHECK_FAILS(tri_file_writer_open("no/such/folder", &writer), TRI_IO_FAILED, "cannot create no/such/folder.tmp.");
  CHECK_OK(tri_alloc("a test", 70001, 1, &text));
  memset(text, 'x', 70000);
  CHECK_FAILS(tri_file_writer_open(text, &writer), TRI_BAD_USAGE, "the path xxxx");
  CHECK_OK(tri_file_writer_open("long", &writer));
  tri_file_writer_put(writer, "%s", text);
  CHECK_FAILS(tri_file_writer_close(writer, TRI_OK), TRI_INTERNAL, "a piece of long is longer than 65536 bytes");
  assert_false(tri_path_exists("long"));
  tri_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces),
      cmocka_unit_test(a_failed_caller_leaves_the_old),
      cmocka_unit_test(a_full_disk_leaves_the_old),
      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, enter_scratch, leave_scratch);
}
