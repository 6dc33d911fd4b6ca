#include "launch/launcher_messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What the launchers wrote when a rank was killed: Open MPI 4.1.4, MPICH 4.0.2, Slurm. */
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
  assert_int_equal(found.rank, 5); /* untouched */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_launchers), cmocka_unit_test(test_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
