#include "launch/cause.h"

#include "launch/supervisor.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { EXITED_3 = 3 << 8, EXITED_9 = 9 << 8 };

static tri_rank_news ranks[2] = {{.pid = 100, .place = "pipeline 0", .host = "here"},
                                 {.pid = 101, .place = "pipeline 1", .host = "there"}};
static tri_ending ending; /* large */

static tri_ending *begin(int launcher_result) {
  memset(&ending, 0, sizeof ending);
  ending.num_ranks = 2;
  ending.ranks = ranks;
  ending.resumes = true;
  ending.steps = 4;
  ending.texts = -1;
  ending.launcher_result = launcher_result;
  return &ending;
}

static void say(tri_words *words, tri_status status, const char *text) {
  words->said = true;
  words->status = status;
  snprintf(words->text, sizeof words->text, "%s", text);
}

static void expect(tri_status status, const char *text) {
  assert_int_equal(tri_cause_report(&ending), status);
  if (strstr(tri_status_message(), text) == NULL) fail_msg("`%s` is not in `%s`", text, tri_status_message());
}

/* Adds the kinds of faults in ascending order of priority: the newest one is always reported. */
static void test_order(void **state) {
  (void)state;
  tri_ending *e = begin(EXITED_9);
  expect(TRI_COMM, "ended with status 9, but no rank printed an error message");
  say(&e->secondary, TRI_COMM, "another is gone");
  expect(TRI_COMM, "another is gone");
  e->silent = true;
  e->silent_rank = 1;
  expect(TRI_COMM, "rank 1 (pipeline 1) on there ended without an error message, at step 5; the job of 2 ranks");
  say(&e->interrupted, TRI_INTERRUPTED, "interrupted after step 4");
  expect(TRI_INTERRUPTED, "interrupted after step 4");
  tri_noise_add(&e->noise, "mpiexec noticed that process rank 0 with PID 0 on node n1 exited on signal 9 (Killed).");
  expect(TRI_COMM, "rank 0 (pipeline 0) on n1 was killed by signal 9");
  e->launcher_result = SIGKILL;
  expect(TRI_COMM, "the launcher was killed by signal 9");
  e->asked = 1;
  expect(TRI_INTERRUPTED, "interrupted after step 4");
  e->crash_signal = SIGSEGV;
  e->crashed = 1;
  expect(TRI_COMM, "rank 1 (pipeline 1) on there was killed by signal 11");
  say(&e->own, TRI_BAD_FILE, "own");
  expect(TRI_BAD_FILE, "own");
  snprintf(e->hang, sizeof e->hang, "silent for 9 s");
  expect(TRI_COMM, "silent for 9 s");
}

static void test_asked(void **state) {
  (void)state;
  tri_ending *e = begin(0);
  assert_int_equal(tri_cause_report(e), TRI_OK);
  e->asked = 1;
  expect(TRI_INTERRUPTED, "the run is complete");
  e->launcher_result = EXITED_9;
  expect(TRI_INTERRUPTED, "interrupted after step 4, without a checkpoint of it");
  e->requested = true; /* by a scheduler, which does not change the cause */
  expect(TRI_INTERRUPTED, "interrupted after step 4, without a checkpoint of it");
  e->asked = 0;
  expect(TRI_INTERRUPTED, "interrupted after step 4, without a checkpoint of it");
  e->asked = 2;
  expect(TRI_INTERRUPTED, "interrupted twice, so at once, after step 4");
  e->steps = -1;
  expect(TRI_INTERRUPTED, "before the first step");
  say(&e->launcher_error, TRI_OK, "no space"); /* the launcher's report of a rank on another host */
  e->launcher_result = EXITED_3;
  expect(TRI_BAD_CONFIG, "no space");
}

/* A launcher that reports success although a rank failed or ended without a message; and the reverse. */
static void test_launchers_status(void **state) {
  (void)state;
  tri_ending *e = begin(0);
  e->silent = true;
  e->silent_rank = 0;
  expect(TRI_COMM, "rank 0 (pipeline 0) on here ended without an error message");
  begin(0);
  say(&e->own, TRI_IO_FAILED, "disk full");
  expect(TRI_IO_FAILED, "disk full");
  begin(SIGKILL);
  e->all_left = e->ended = true;
  assert_int_equal(tri_cause_report(e), TRI_OK);
}

/* If the ranks' libraries print very much, the beginning and the launcher's last message are kept. */
static void test_noise(void **state) {
  (void)state;
  char line[3000], text[64];
  tri_ending *e = begin(EXITED_9);
  tri_noise_add(&e->noise, "the first");
  memset(line, 'x', sizeof line - 1);
  line[sizeof line - 1] = '\0';
  for (int i = 0; i < 5000; i++) {
    snprintf(text, sizeof text, "noise %d", i);
    tri_noise_add(&e->noise, i % 7 == 0 ? line : text);
    assert_true(e->noise.length < TRI_NOISE_BYTES && strlen(e->noise.text) == e->noise.length);
  }
  tri_noise_add(&e->noise, "mpiexec noticed that process rank 0 with PID 0 on node n1 exited on signal 9 (Killed).");
  assert_ptr_equal(strstr(e->noise.text, "the first\n"), e->noise.text);
  expect(TRI_COMM, "rank 0 (pipeline 0) on n1 was killed by signal 9");
}

static void test_limit(void **state) {
  (void)state;
  assert_true(tri_supervisor_limit_s(0) == 0);
  assert_true(tri_supervisor_limit_s(1) == 6);
  assert_true(tri_supervisor_limit_s(600) == 750); /* the ranks' own report comes after 650 at most */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_asked),
                                     cmocka_unit_test(test_launchers_status), cmocka_unit_test(test_noise),
                                     cmocka_unit_test(test_limit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
