/* Files below a folder in which other users may write: a link in any part of a path is refused, also a link that
 * replaces a folder again and again while files are opened. */
#include "base/memory.h"
#include "check.h"
#include "files/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Makes the scratch folder: `root` with in/deep/file; secret/file next to `root`; `way`, a link to `root`. */
static int enter_scratch(void **state) {
  (void)state;
  char folder[] = "/tmp/trireme-test-XXXXXX";
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) return 1;
  if (tri_directory_create("root/in/deep") != TRI_OK || tri_directory_create("secret") != TRI_OK) return 1;
  if (tri_file_replace("root/in/deep/file", "inside", 6) != TRI_OK) return 1;
  if (tri_file_replace("secret/file", "secret", 6) != TRI_OK) return 1;
  return symlink("root", "way");
}

static int leave_scratch(void **state) {
  (void)state;
  char folder[TRI_PATH_BYTES];
  if (getcwd(folder, sizeof folder) == NULL) return 1;
  return chdir("/") != 0 || tri_directory_remove(folder) != TRI_OK;
}

static void expect_content(const char *root, const char *relative, const char *expected) {
  char *text = NULL;
  size_t bytes = 0;
  struct stat about;
  CHECK_OK(tri_file_read_below(root, relative, 100, &text, &bytes));
  assert_string_equal(text, expected);
  assert_int_equal(bytes, strlen(expected));
  assert_true(tri_file_find_below(root, relative, &about));
  assert_int_equal(about.st_size, bytes);
  tri_free(text);
}

static void expect_none(const char *root, const char *relative, tri_status code, const char *said) {
  char *text = NULL;
  size_t bytes = 0;
  int file = -1;
  struct stat about;
  CHECK_FAILS(tri_file_open_below(root, relative, &file), code, said);
  CHECK_FAILS(tri_file_read_below(root, relative, 100, &text, &bytes), code, said);
  assert_false(tri_file_find_below(root, relative, &about));
}

static void what_lies_below_is_read(void **state) {
  (void)state;
  char *text = NULL;
  size_t bytes = 0;
  expect_content("root", "in/deep/file", "inside");
  expect_content("root/in/deep", "file", "inside");
  expect_content("way", "in/deep/file", "inside"); /* the root may be named by a link */
  expect_content("way/", "in/deep/file", "inside");
  CHECK_FAILS(tri_file_read_below("root", "in/deep/file", 5, &text, &bytes), TRI_BAD_FILE, "larger than");
  expect_none("root", "in/deep/none", TRI_BAD_FILE, "root/in/deep/none");
  expect_none("root", "in/none/file", TRI_BAD_FILE, "root/in/none/file");
  expect_none("none", "file", TRI_BAD_FILE, "cannot open none");
}

static void no_link_is_followed(void **state) {
  (void)state;
  char whole[TRI_PATH_BYTES];
  assert_non_null(realpath("secret/file", whole));
  assert_int_equal(symlink(whole, "root/in/whole"), 0);
  assert_int_equal(symlink("../../secret/file", "root/in/relative"), 0);
  assert_int_equal(symlink("deep/file", "root/in/inner"), 0); /* a link is refused even if it does not lead outside */
  assert_int_equal(symlink("../secret", "root/folder"), 0);
  assert_int_equal(symlink("loop", "root/loop"), 0);
  assert_int_equal(symlink("/dev/zero", "root/zero"), 0);
  expect_none("root", "in/whole", TRI_BAD_FILE, "root/in/whole: a link");
  expect_none("root", "in/relative", TRI_BAD_FILE, "a link");
  expect_none("root", "in/inner", TRI_BAD_FILE, "a link");
  expect_none("root", "folder/file", TRI_BAD_FILE, "root/folder/file");
  expect_none("root", "loop", TRI_BAD_FILE, "a link");
  expect_none("root", "loop/file", TRI_BAD_FILE, "root/loop/file");
  expect_none("root", "zero", TRI_BAD_FILE, "a link");
}

static void only_plain_files_are_opened(void **state) {
  (void)state;
  struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "root/socket"};
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(mkfifo("root/pipe", 0600), 0);
  expect_none("root", "pipe", TRI_BAD_FILE, "root/pipe is a pipe, not a plain file");
  expect_none("root", "socket", TRI_BAD_FILE, "is a socket");
  expect_none("root", "in/deep", TRI_BAD_FILE, "is a folder");
  expect_none("root", "in/deep/file/more", TRI_BAD_FILE, "Not a directory");
  expect_none("/", "dev/null", TRI_BAD_FILE, "is a device");
  close(listener);
}

static void paths_stay_below(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    "/",
                                    "..",
                                    "../secret/file",
                                    "in/../../secret/file",
                                    "/etc/passwd",
                                    "./in",
                                    "in/",
                                    "in//deep",
                                    "in/./deep/file",
                                    "."};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    expect_none("root", bad[i], TRI_BAD_USAGE, "is not a path below a folder");
  }
  char longest[600];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  expect_none("root", longest, TRI_BAD_USAGE, "is not a path below a folder");
}

static void folders_are_opened_likewise(void **state) {
  (void)state;
  int folder = -1;
  CHECK_OK(tri_folder_open_below("way", "in/deep", &folder));
  assert_int_equal(faccessat(folder, "file", R_OK, 0), 0);
  close(folder);
  CHECK_OK(tri_folder_open_below("way", "", &folder));
  assert_int_equal(faccessat(folder, "in/deep/file", R_OK, 0), 0);
  close(folder);
  assert_int_equal(symlink("../secret", "root/folder"), 0);
  CHECK_FAILS(tri_folder_open_below("root", "folder", &folder), TRI_BAD_FILE, "root/folder");
  CHECK_FAILS(tri_folder_open_below("root", "in/deep/file", &folder), TRI_BAD_FILE, "Not a directory");
  CHECK_FAILS(tri_folder_open_below("root", "..", &folder), TRI_BAD_USAGE, "");
}

static int count_open(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

static void nothing_stays_open(void **state) {
  no_link_is_followed(state);
  int before = count_open();
  for (int i = 0; i < 20; i++) {
    expect_content("root", "in/deep/file", "inside");
    expect_none("root", "in/whole", TRI_BAD_FILE, "");
    expect_none("root", "folder/file", TRI_BAD_FILE, "");
    expect_none("root", "in/../file", TRI_BAD_USAGE, "");
    expect_none("root", "in/deep", TRI_BAD_FILE, "");
  }
  assert_int_equal(count_open(), before);
}

/* Replaces a folder by a link to another one and back, repeatedly. */
static void *exchange(void *context) {
  atomic_bool *ends = context;
  while (!atomic_load(ends)) {
    (void)rename("root/in", "root/kept");
    (void)symlink("../secret", "root/in");
    (void)unlink("root/in");
    (void)rename("root/kept", "root/in");
  }
  return NULL;
}

static void an_exchanged_folder_leads_nowhere(void **state) {
  (void)state;
  atomic_bool ends = false;
  pthread_t other;
  int64_t found = 0;
  CHECK_OK(tri_file_replace("root/in/file", "inside", 6));
  assert_int_equal(pthread_create(&other, NULL, exchange, &ends), 0);
  for (int i = 0; i < 20000; i++) {
    char *text = NULL;
    size_t bytes = 0;
    if (tri_file_read_below("root", "in/file", 100, &text, &bytes) != TRI_OK) continue;
    found++;
    if (strcmp(text, "inside") != 0) {
      atomic_store(&ends, true);
      fail_msg("a link was followed: %s", text);
    }
    tri_free(text);
  }
  atomic_store(&ends, true);
  pthread_join(other, NULL);
  assert_true(found > 0);
}

static void paths_are_cut_at_parts(void **state) {
  (void)state;
  assert_string_equal(tri_path_below("/a/b", "/a/b/c/d"), "c/d");
  assert_string_equal(tri_path_below("/a/b", "/a/b"), "");
  assert_string_equal(tri_path_below("/", "/a"), "a");
  assert_string_equal(tri_path_below("/", "/"), "");
  assert_null(tri_path_below("/a/b", "/a/bc"));
  assert_null(tri_path_below("/a/b", "/a"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_lies_below_is_read, enter_scratch, leave_scratch),
      cmocka_unit_test_setup_teardown(no_link_is_followed, enter_scratch, leave_scratch),
      cmocka_unit_test_setup_teardown(only_plain_files_are_opened, enter_scratch, leave_scratch),
      cmocka_unit_test_setup_teardown(paths_stay_below, enter_scratch, leave_scratch),
      cmocka_unit_test_setup_teardown(folders_are_opened_likewise, enter_scratch, leave_scratch),
      cmocka_unit_test_setup_teardown(nothing_stays_open, enter_scratch, leave_scratch),
      cmocka_unit_test_setup_teardown(an_exchanged_folder_leads_nowhere, enter_scratch, leave_scratch),
      cmocka_unit_test(paths_are_cut_at_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
