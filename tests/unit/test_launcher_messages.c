#include "launch/launcher_messages.h"

#include "check.h"
#include "launch/listener.h"

#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Output of launchers after a rank was killed: Open MPI 4.1.4, MPICH 4.0.2, Slurm. */
static const char open_mpi[] =
    "--------------------------------------------------------------------------\n"
    "Primary job  terminated normally, but 1 process returned\n"
    "a non-zero exit code. Per user-direction, the job has been aborted.\n"
    "--------------------------------------------------------------------------\n"
    "mpiexec noticed that process rank 3 with PID 0 on node vm exited on signal 9 (Killed).\n";
static const char mpich[] =
    "===================================================================================\n"
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
    "=   PID 14342 RUNNING AT node-7\n"
    "=   EXIT CODE: 139\n"
    "=   CLEANING UP REMAINING PROCESSES\n"
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n";
static const char slurm[] = "srun: error: node0042: task 17: Killed\nsrun: Terminating StepId=1.0\n";

static void test_launchers(void **state) {
  (void)state;
  tri_rank_death found;
  assert_true(tri_rank_death_find(open_mpi, &found));
  assert_int_equal(found.rank, 3);
  assert_int_equal(found.signal, 9);
  assert_string_equal(found.node, "vm");
  assert_true(tri_rank_death_find(mpich, &found));
  assert_int_equal(found.rank, -1);
  assert_int_equal(found.pid, 14342);
  assert_int_equal(found.signal, 11);
  assert_int_equal(found.exit_status, 139);
  assert_string_equal(found.node, "node-7");
  assert_true(tri_rank_death_find(slurm, &found));
  assert_int_equal(found.rank, 17);
  assert_int_equal(found.signal, 9);
  assert_string_equal(found.node, "node0042");
}

static void test_others(void **state) {
  (void)state;
  tri_rank_death found = {.rank = 5};
  static const char *const texts[] = {"",
                                      "noticed that process rank",
                                      "noticed that process rank x with PID 1 on node a exited on signal 9",
                                      "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
                                      "srun: error: node: task",
                                      "srun: error: "};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) assert_false(tri_rank_death_find(texts[i], &found));
  assert_int_equal(found.rank, 5); /* unchanged */
}

static int connect_to(const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(name);
  int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  memcpy(address.sun_path + 1, name, length);
  assert_int_equal(
      connect(to, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)), 0);
  return to;
}

/* Runs the supervisor's loop once, without waiting. Returns the number of sockets that were ready. */
static int hear_once(tri_listener *listener) {
  struct pollfd polled[8];
  size_t count = tri_listener_num_polled(listener);
  tri_listener_fill(listener, polled);
  int ready = poll(polled, count, 0);
  tri_listener_hear(listener, polled, count, NULL, NULL);
  return ready;
}

/* Connections that send nothing need no work, are closed after a while, and leave no entry. */
static void test_silent_connections(void **state) {
  (void)state;
  tri_listener listener;
  CHECK_OK(tri_listener_open(&listener));
  char byte;
  for (int i = 0; i < 3; i++) {
    int silent = connect_to(listener.name);
    assert_int_equal(hear_once(&listener), 1);
    assert_int_equal(hear_once(&listener), 0);
    assert_int_equal(listener.count, 1);
    assert_int_equal(recv(silent, &byte, 1, MSG_DONTWAIT), -1);
    listener.speakers[0].silent_s = 61;
    assert_int_equal(hear_once(&listener), 0);
    assert_int_equal(recv(silent, &byte, 1, MSG_DONTWAIT), 0);
    close(silent);
  }
  /* A connection that cannot be accepted does not wake the supervisor again and again. */
  struct rlimit before, none;
  int waits = connect_to(listener.name);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = (struct rlimit){.rlim_cur = (rlim_t)waits, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  int first = hear_once(&listener), second = hear_once(&listener);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(first, 1);
  assert_int_equal(second, 0);
  assert_int_equal(hear_once(&listener), 1);
  assert_true(listener.speakers[0].socket >= 0);
  close(waits);
  tri_listener_close(&listener);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_launchers), cmocka_unit_test(test_others),
                                     cmocka_unit_test(test_silent_connections)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
