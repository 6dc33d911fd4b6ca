/* A crash in a kernel while a handler of SIGSEGV, such as that of a test framework, jumps out of it: the process prints
 * why it cannot continue, and ends. */
#include "check.h"
#include "device/device.h"
#include "device/kernels.h"
#include "device/queue.h"
#include "sanitized.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf outside;

static void jump(int number) {
  (void)number;
  siglongjmp(outside, 1);
}

/* The kernel writes beyond its memory, on an emulated or a guarded device. */
static void crash_and_go_on(const char *name) {
  enum { ELEMENTS = 64, TOO_MANY = 4096 };
  tri_device *device = NULL;
  void *memory = NULL;
  struct sigaction own = {.sa_handler = jump};
  CHECK_OK(tri_device_create(name, 1, &device));
  CHECK_OK(tri_device_memory_create(device, ELEMENTS * sizeof(float), &memory));
  sigaction(SIGSEGV, &own, NULL);
  if (sigsetjmp(outside, 1) == 0) {
    (void)device->kernels->add(device->queue, TRI_FP32, tri_all_rows(1), TOO_MANY, memory, memory, memory);
    (void)tri_queue_finish(device->queue);
    _exit(1); /* it should have crashed */
  }
  tri_device_destroy(device);
  _exit(2); /* it should have said that it cannot */
}

static void expect_an_end(const char *name) {
  int ends[2], result = 0;
  char said[4096];
  size_t length = 0;
  if (SANITIZED) skip(); /* sanitizers do not support jumps between stacks */
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    crash_and_go_on(name);
  }
  close(ends[1]);
  for (ssize_t got; (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0;) length += (size_t)got;
  said[length] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGABRT);
  assert_non_null(strstr(said,
                         "a signal handler has jumped out of a crash inside a kernel of the device; the device can "
                         "no longer be used or released, so the process ends\n"));
}

static void test_emulated(void **state) {
  (void)state;
  expect_an_end("emulated");
}

static void test_guarded(void **state) {
  (void)state;
  expect_an_end("guarded");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_emulated), cmocka_unit_test(test_guarded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
