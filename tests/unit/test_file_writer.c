/* Files that are written piece by piece: afterwards the new file is complete, or the old one is unchanged. */
#include "base/memory.h"
#include "check.h"
#include "files/file.h"
#include "files/temporary_name.h"
#include "files/write_fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
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

/* Pieces of all lengths, many times as many bytes as the buffer has. */
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
  CHECK_FAILS(after, TRI_IO_FAILED, "cannot write kept.trireme-");
  assert_non_null(strstr(tri_status_message(), "File too large: beyond this process's file size limit (ulimit -f)"));
  expect_content("kept", "old");
  assert_int_equal(count_files(), files);
}

static void reasons_of_refused_writes(void **state) {
  (void)state;
  struct rlimit before, none;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  none = before;
  none.rlim_cur = before.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
  const char *of_file_system = tri_write_fault(EFBIG);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  if (before.rlim_max == RLIM_INFINITY) assert_non_null(strstr(of_file_system, "for this file system"));
  assert_non_null(strstr(tri_write_fault(ENOSPC), "No space left on device; make room"));
  assert_non_null(strstr(tri_write_fault(EDQUOT), "Disk quota exceeded; make room"));
  assert_string_equal(tri_write_fault(EACCES), "Permission denied");
}

static void refusals(void **state) {
  (void)state;
  tri_file_writer *writer = NULL;
  char *text = NULL;
  CHECK_FAILS(tri_file_writer_open("no/such/folder", &writer), TRI_IO_FAILED, "cannot create no/such/folder.trireme-");
  CHECK_OK(tri_alloc("a test", 70001, 1, &text));
  memset(text, 'x', 70000);
  CHECK_FAILS(tri_file_writer_open(text, &writer), TRI_BAD_USAGE, "the path xxxx");
  CHECK_OK(tri_file_writer_open("long", &writer));
  tri_file_writer_put(writer, "%s", text);
  CHECK_FAILS(tri_file_writer_close(writer, TRI_OK), TRI_INTERNAL, "a piece of long is longer than 65536 bytes");
  assert_false(tri_path_exists("long"));
  tri_free(text);
}

/* Only plain files and links to plain files are read: opening a pipe would wait for a writer. */
static void plain_files_only(void **state) {
  (void)state;
  char *text = NULL;
  size_t bytes = 0;
  const int socket_file = socket(AF_UNIX, SOCK_STREAM, 0);
  const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "a-socket"};
  CHECK_OK(tri_directory_create("a-folder"));
  assert_int_equal(mkfifo("a-pipe", 0600), 0);
  assert_int_equal(bind(socket_file, (const struct sockaddr *)&address, sizeof address), 0);
  close(socket_file);
  CHECK_OK(tri_file_replace("plain", "text", 4));
  assert_int_equal(symlink("plain", "link"), 0);
  assert_int_equal(symlink("a-pipe", "link-to-pipe"), 0);
  CHECK_OK(tri_file_read_plain("link", 100, &text, &bytes));
  assert_string_equal(text, "text");
  tri_free(text);
  CHECK_FAILS(tri_file_read_plain("plain", 3, &text, &bytes), TRI_BAD_FILE, "plain is larger than");
  CHECK_FAILS(tri_file_read_plain("none", 100, &text, &bytes), TRI_BAD_FILE, "cannot open none: No such file");
  CHECK_FAILS(tri_file_read_plain("a-folder", 100, &text, &bytes), TRI_BAD_FILE, "a-folder is a folder, not a plain");
  CHECK_FAILS(tri_file_read_plain("a-pipe", 100, &text, &bytes), TRI_BAD_FILE, "a-pipe is a pipe, not a plain file");
  CHECK_FAILS(tri_file_read_plain("link-to-pipe", 100, &text, &bytes), TRI_BAD_FILE, "link-to-pipe is a pipe");
  CHECK_FAILS(tri_file_read_plain("a-socket", 100, &text, &bytes), TRI_BAD_FILE, "a-socket is a socket");
  CHECK_FAILS(tri_file_read_plain("/dev/zero", 100, &text, &bytes), TRI_BAD_FILE, "/dev/zero is a device");
  CHECK_FAILS(tri_file_replace("a-folder", "text", 4), TRI_BAD_FILE,
              "a-folder is a folder, and a file has to be written there; choose another name, or move it away");
  CHECK_FAILS(tri_file_replace("a-pipe", "text", 4), TRI_BAD_FILE, "a-pipe is a pipe, and a file has to be written");
  CHECK_FAILS(tri_file_replace("a-socket", "text", 4), TRI_BAD_FILE, "a-socket is a socket");
}

/* A file above the size limit is refused before it is read, since it would need more memory than the machine has. */
static void large_files(void **state) {
  (void)state;
  char *text = NULL;
  size_t bytes = 0;
  const size_t tib = (size_t)1 << 40;
  CHECK_OK(tri_file_replace("sparse", "", 0));
  assert_int_equal(truncate("sparse", (off_t)tib), 0);
  CHECK_FAILS(tri_file_read("sparse", tib - 1, &text, &bytes), TRI_BAD_FILE, "sparse is larger than the 1024.00 GiB");
  assert_int_equal(truncate("sparse", 100), 0);
  CHECK_OK(tri_file_read("sparse", 100, &text, &bytes));
  assert_int_equal(bytes, 100);
  tri_free(text);
  CHECK_FAILS(tri_file_read("/proc/self/maps", 10, &text, &bytes), TRI_BAD_FILE, "/proc/self/maps is larger than");
}

/* In a folder in which other users may write, a link with the name of the temporary file is not followed. */
static void names_that_can_be_guessed(void **state) {
  (void)state;
  char temporary[TRI_PATH_BYTES];
  CHECK_OK(tri_file_replace("secret", "mine", 4));
  CHECK_OK(tri_temporary_name("result", temporary));
  assert_int_equal(symlink("secret", temporary), 0);
  CHECK_OK(tri_file_replace("result", "text", 4));
  expect_content("secret", "mine");
  expect_content("result", "text");
  assert_false(tri_path_exists(temporary));
}

static unsigned mode_of(const char *path) {
  struct stat facts;
  assert_int_equal(lstat(path, &facts), 0);
  return facts.st_mode & 07777;
}

static void private_folders(void **state) {
  (void)state;
  mode_t mask = umask(0);
  CHECK_OK(tri_directory_create_private("own"));
  assert_int_equal(mode_of("own"), 0700);
  assert_int_equal(chmod("own", 0755), 0); /* the mode that an older version set */
  CHECK_OK(tri_directory_create_private("own"));
  assert_int_equal(mode_of("own"), 0700);
  assert_int_equal(chmod("own", 0777), 0);
  CHECK_FAILS(tri_directory_create_private("own"), TRI_IO_FAILED, "is a folder of user");
  CHECK_FAILS(tri_directory_create_private("own"), TRI_IO_FAILED, "with the mode 0777; another user may have made it");
  assert_int_equal(chmod("own", 0700), 0);
  assert_int_equal(symlink("own", "a-link"), 0);
  CHECK_FAILS(tri_directory_create_private("a-link"), TRI_IO_FAILED, "a-link is not a private folder of this user");
  CHECK_OK(tri_file_replace("a-file", "text", 4));
  CHECK_FAILS(tri_directory_create_private("a-file"), TRI_IO_FAILED, "it is a file of user");
  CHECK_FAILS(tri_directory_create_private("none/own"), TRI_IO_FAILED, "cannot create the directory none/own");
  umask(mask);
}

/* Starts a child that creates PATH's temporary file, and then ends or waits. */
static pid_t write_half(const char *path, bool ends, char temporary[TRI_PATH_BYTES]) {
  int ends_of_pipe[2];
  assert_int_equal(pipe(ends_of_pipe), 0);
  pid_t child = fork();
  if (child == 0) {
    int file = -1;
    bool good = tri_temporary_name(path, temporary) == TRI_OK && tri_file_create(temporary, &file) == TRI_OK;
    good = good && write(ends_of_pipe[1], temporary, TRI_PATH_BYTES) == TRI_PATH_BYTES;
    if (good && !ends) {
      for (;;) pause();
    }
    _exit(good ? 0 : 1);
  }
  assert_true(child > 0);
  assert_int_equal(read(ends_of_pipe[0], temporary, TRI_PATH_BYTES), TRI_PATH_BYTES);
  close(ends_of_pipe[0]);
  close(ends_of_pipe[1]);
  if (ends) assert_int_equal(waitpid(child, NULL, 0), child);
  return child;
}

/* Makes an empty file that was written this number of days ago. */
static void make_old(const char *path, int days) {
  CHECK_OK(tri_file_replace(path, "", 0));
  const struct timespec then = {.tv_sec = time(NULL) - (time_t)days * 24 * 3600};
  assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[2]){then, then}, 0), 0);
}

/* Writing a file removes the temporary files of ended processes for it, and no others. */
static void left_by_others(void **state) {
  (void)state;
  static const char *const users[] = {"table.tmp.2024", "v.md.tmp", "v.md.trireme-a-1.tmp", "v.md.trireme-a-1-2-3.tmp",
                                      "v.md.trireme-notes.tmp"};
  char dead[TRI_PATH_BYTES], alive[TRI_PATH_BYTES], other[TRI_PATH_BYTES], reused[TRI_PATH_BYTES];
  char rebooted[TRI_PATH_BYTES], new[TRI_PATH_BYTES], host[TRI_PATH_BYTES];
  for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) make_old(users[i], 9);
  pid_t child = write_half("v.md", false, alive);
  (void)write_half("v.md", true, dead);
  (void)write_half("w.md", true, other);
  CHECK_OK(tri_path_with(reused, alive, "")); /* an earlier process with the same id: its start time differs */
  char *place = strrchr(reused, '-'), *start = place - 1;
  *start = *start == '0' ? '1' : '0';
  CHECK_OK(tri_path_with(rebooted, alive, "")); /* from before the last boot of this host */
  memcpy(rebooted + strlen(rebooted) - strlen("01234567.tmp"), "00000000", 8);
  CHECK_OK(tri_path_with(new, rebooted, ""));
  new[strlen(new) - strlen("7.tmp")] = '2';
  CHECK_OK(tri_path_with(host, dead, "")); /* from another host */
  host[strlen("v.md.trireme-")] = host[strlen("v.md.trireme-")] == 'x' ? 'y' : 'x';
  make_old(reused, 0);
  make_old(rebooted, 2);
  make_old(new, 0);
  make_old(host, 0);
  assert_true(tri_path_exists(dead));
  CHECK_OK(tri_file_replace("v.md", "text", 4));
  for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) assert_true(tri_path_exists(users[i]));
  assert_true(tri_path_exists(alive) && tri_path_exists(other) && tri_path_exists(new) && tri_path_exists(host));
  assert_false(tri_path_exists(dead) || tri_path_exists(reused) || tri_path_exists(rebooted));
  expect_content("v.md", "text");
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
  tri_temporary_clear("v.md");
  assert_false(tri_path_exists(alive));
}

/* A name that is too long for the suffix of a temporary file. */
static void long_names(void **state) {
  (void)state;
  char name[256], left[TRI_PATH_BYTES];
  memset(name, 'n', sizeof name - 1);
  name[255] = '\0';
  (void)write_half(name, true, left);
  CHECK_OK(tri_file_replace(name, "text", 4));
  expect_content(name, "text");
  assert_false(tri_path_exists(left));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces),
      cmocka_unit_test(a_failed_caller_leaves_the_old),
      cmocka_unit_test(a_full_disk_leaves_the_old),
      cmocka_unit_test(reasons_of_refused_writes),
      cmocka_unit_test(refusals),
      cmocka_unit_test(plain_files_only),
      cmocka_unit_test(large_files),
      cmocka_unit_test(names_that_can_be_guessed),
      cmocka_unit_test(private_folders),
      cmocka_unit_test(left_by_others),
      cmocka_unit_test(long_names),
  };
  return cmocka_run_group_tests(tests, enter_scratch, leave_scratch);
}
