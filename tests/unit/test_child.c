/* Child processes: their files, environment, signals and pipes; and their ends, after which none of their processes is
 * left. */
#include "base/child.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/process_identity.h"
#include "check.h"
#include "files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
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

static tri_child start(const char *command, char **environment) {
  char shell[] = "/bin/sh", option[] = "-c", text[2000];
  char *line[] = {shell, option, text, NULL};
  tri_child child;
  snprintf(text, sizeof text, "%s", command);
  CHECK_OK(tri_child_start(&(tri_child_options){.line = line, .environment = environment, .log = "log", .pipes = true},
                           &child));
  return child;
}

/* Waits until a call of `ended` is true; 10 s are for machines that are busy. */
static void await_end(tri_child *child) {
  const double until_s = tri_clock_s() + 10;
  while (!tri_child_ended(child)) {
    if (tri_clock_s() > until_s) fail_msg("the child does not end");
    tri_pause_s(0.002);
  }
}

/* Reads up to the end of the child's output. */
static const char *read_all(tri_child *child, char *out, size_t room) {
  size_t held = 0;
  for (;;) {
    const ssize_t got = tri_child_read(child, out + held, room - 1 - held);
    if (got < 0) break;
    if (got == 0) (void)poll(&(struct pollfd){.fd = child->from, .events = POLLIN}, 1, 1000);
    held += (size_t)got;
    assert_true(held < room - 1);
  }
  out[held] = '\0';
  await_end(child);
  tri_child_close(child);
  return out;
}

static void read_log(char *out, size_t room) {
  FILE *file = fopen("log", "re");
  assert_non_null(file);
  out[fread(out, 1, room - 1, file)] = '\0';
  fclose(file);
}

static void check_no_children(void) {
  errno = 0;
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
}

/* Waits for a number that the child writes to a file. */
static pid_t awaited_number(const char *path) {
  const double until_s = tri_clock_s() + 10;
  for (int number = 0; tri_clock_s() < until_s; tri_pause_s(0.002)) {
    FILE *file = fopen(path, "re");
    if (file == NULL) continue;
    const int got = fscanf(file, "%d\n", &number);
    fclose(file);
    if (got == 1) return (pid_t)number;
  }
  fail_msg("no number in %s", path);
  return 0;
}

static void test_streams(void **state) {
  (void)state;
  char text[1000];
  for (int i = 0; i < 2; i++) { /* the log is appended to */
    tri_child child = start("read line; echo \"<$line>\"; echo warning >&2; exit 3", NULL);
    assert_int_equal(tri_child_write(&child, "hello\n", 6), 6);
    assert_string_equal(read_all(&child, text, sizeof text), "<hello>\n");
    assert_true(WIFEXITED(child.result) && WEXITSTATUS(child.result) == 3);
  }
  read_log(text, sizeof text);
  assert_string_equal(text, "warning\nwarning\n");
  check_no_children();
}

static void test_without_standard_streams(void **state) {
  (void)state;
  char text[100];
  const int in = fcntl(0, F_DUPFD_CLOEXEC, 10), out = fcntl(1, F_DUPFD_CLOEXEC, 10);
  close(0);
  close(1);
  tri_child child = start("read line; echo \"<$line>\"", NULL);
  const bool wrote = tri_child_write(&child, "hello\n", 6) == 6;
  read_all(&child, text, sizeof text);
  if (in >= 0) dup2(in, 0);
  if (out >= 0) dup2(out, 1);
  close(in);
  close(out);
  assert_true(wrote);
  assert_string_equal(text, "<hello>\n");
}

static void test_inherits_no_files(void **state) {
  (void)state;
  char text[1000];
  const int other = open("/dev/null", O_RDONLY); /* without O_CLOEXEC, as some libraries open theirs */
  tri_child child = start("exec ls /proc/self/fd", NULL);
  assert_string_equal(read_all(&child, text, sizeof text), "0\n1\n2\n3\n"); /* 3: the folder that ls lists */
  close(other);
}

static void test_environment(void **state) {
  (void)state;
  static const char *const gone[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",      "PMI_FD",     "SLURM_PROCID",
                                     "SLURM_STEP_ID",        "TRIREME_PARENT", "PALS_RANKID"};
  static const char *const kept[] = {"SLURM_JOB_ID", "MPI_HOME", "OMP_NUM_THREADS", "PATH"};
  char text[65536], name[64], **environment = NULL;
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) setenv(gone[i], "7", 1);
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) setenv(kept[i], "7", 0);
  CHECK_OK(tri_child_environment("TEST_MORE=1", &environment));
  tri_child child = start("/usr/bin/env", environment);
  read_all(&child, text, sizeof text);
  tri_free(environment);
  assert_non_null(strstr(text, "TEST_MORE=1\n"));
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
    snprintf(name, sizeof name, "%s=", gone[i]);
    if (strstr(text, name) != NULL) fail_msg("the child has %s", gone[i]);
    unsetenv(gone[i]);
  }
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    snprintf(name, sizeof name, "%s=", kept[i]);
    if (strstr(text, name) == NULL) fail_msg("the child lacks %s", kept[i]);
  }
}

static void test_signals(void **state) {
  (void)state;
  char text[4096];
  sigset_t some, before;
  sigemptyset(&some);
  sigaddset(&some, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &some, &before);
  void (*was)(int) = signal(SIGPIPE, SIG_IGN);
  tri_child child = start("exec grep -E 'Sig(Blk|Ign)' /proc/self/status", NULL);
  signal(SIGPIPE, was);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  read_all(&child, text, sizeof text);
  unsigned long blocked = 1, ignored = 1;
  assert_int_equal(sscanf(text, "SigBlk: %lx SigIgn: %lx", &blocked, &ignored), 2);
  assert_int_equal(blocked, 0);
  assert_int_equal(ignored & 1UL << (SIGPIPE - 1), 0);
}

/* Writing to a child that does not read neither waits nor ends this process. */
static void test_write_to_deaf(void **state) {
  (void)state;
  static char block[1 << 16];
  tri_child child = start("sleep 1000", NULL);
  ssize_t wrote = 1;
  for (int i = 0; i < 100 && wrote > 0; i++) wrote = tri_child_write(&child, block, sizeof block);
  assert_int_equal(wrote, 0);
  tri_child_kill(&child);
  assert_true(WIFSIGNALED(child.result) && WTERMSIG(child.result) == SIGKILL);
  assert_int_equal(tri_child_write(&child, block, sizeof block), -1);
  assert_int_equal(tri_child_read(&child, block, sizeof block), -1);
  tri_child_close(&child);
  check_no_children();
}

static void test_log_that_cannot_be_opened(void **state) {
  (void)state;
  char shell[] = "/bin/sh";
  char *line[] = {shell, NULL};
  tri_child child = {.id = 5};
  const tri_child_options options = {.line = line, .log = "nowhere/log", .pipes = true};
  CHECK_FAILS(tri_child_start(&options, &child), TRI_IO_FAILED, "nowhere/log");
  assert_int_equal(child.id, 5);
}

static void test_no_program(void **state) {
  (void)state;
  char text[100], name[] = "/nowhere/program";
  char *line[] = {name, NULL};
  tri_child child;
  CHECK_OK(tri_child_start(&(tri_child_options){.line = line, .log = "log", .pipes = true}, &child));
  read_all(&child, text, sizeof text);
  assert_true(WIFEXITED(child.result) && WEXITSTATUS(child.result) == 127);
}

static void check_gone(const char *path) {
  const pid_t id = awaited_number(path);
  if (kill(id, 0) == 0 || errno != ESRCH) fail_msg("the process of %s is left", path);
  remove(path);
}

/* Processes of the session, one in a session of its own, and one that also has no environment, which only its parent
 * shows to belong to the child. */
#define FAMILY                                                                                                         \
  "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ >one; exec sleep 1000' & "                                             \
  "setsid sh -c 'trap \"\" TERM; echo $$ >two; exec sleep 1000' & "                                                    \
  "env -i /usr/bin/setsid /bin/sh -c 'trap \"\" TERM; echo $$ >three; exec /bin/sleep 1000' & "

static void test_kill(void **state) {
  (void)state;
  tri_child child = start(FAMILY "wait", NULL);
  awaited_number("one");
  awaited_number("two");
  awaited_number("three");
  const double begin_s = tri_clock_s();
  tri_child_kill(&child);
  if (tri_clock_s() - begin_s > 4) fail_msg("a process was waited for in vain");
  tri_child_close(&child);
  check_gone("one");
  check_gone("two");
  check_gone("three");
  check_no_children();
}

/* A child that is killed beside another one. */
static void test_another_child(void **state) {
  (void)state;
  char text[100];
  tri_child child = start("echo $$ >one; exec sleep 1000", NULL), other = start("read line; echo \"<$line>\"", NULL);
  awaited_number("one");
  tri_child_kill(&child);
  tri_child_close(&child);
  assert_int_equal(tri_child_write(&other, "hello\n", 6), 6);
  assert_string_equal(read_all(&other, text, sizeof text), "<hello>\n");
  check_no_children();
}

/* The child ends and leaves processes. */
static void test_end(void **state) {
  (void)state;
  tri_child child = start("sleep 1000 & echo $! >one; setsid sh -c 'echo $$ >two; exec sleep 1000' & read line", NULL);
  awaited_number("one");
  awaited_number("two");
  tri_child_close_input(&child);
  await_end(&child);
  tri_child_close(&child);
  check_gone("one");
  check_gone("two");
  check_no_children();
}

static void test_stop(void **state) {
  (void)state;
  tri_child child = start("trap 'exit 5' TERM; echo $$ >one; while :; do sleep 0.01; done", NULL);
  awaited_number("one");
  kill(child.id, SIGSTOP);
  tri_child_stop(&child);
  tri_child_close(&child);
  assert_true(WIFEXITED(child.result) && WEXITSTATUS(child.result) == 5);
  check_no_children();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_streams),
      cmocka_unit_test(test_without_standard_streams),
      cmocka_unit_test(test_inherits_no_files),
      cmocka_unit_test(test_environment),
      cmocka_unit_test(test_signals),
      cmocka_unit_test(test_write_to_deaf),
      cmocka_unit_test(test_log_that_cannot_be_opened),
      cmocka_unit_test(test_no_program),
      cmocka_unit_test(test_kill),
      cmocka_unit_test(test_another_child),
      cmocka_unit_test(test_end),
      cmocka_unit_test(test_stop),
  };
  return cmocka_run_group_tests(tests, enter_scratch, leave_scratch);
}
