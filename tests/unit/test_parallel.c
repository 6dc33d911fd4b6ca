/* Tests of tri_parallel_for: each iteration runs once, and the failure of a thread reaches the caller. */
#include "base/parallel.h"
#include "check.h"

enum { ITERATIONS = 1000, THREADS = 4, FAILING = 517 };

typedef struct counts {
  int runs[ITERATIONS];
  int threads[ITERATIONS];
  int64_t failing; /* index of the iteration that fails; -1: none */
} counts;

static tri_status count(void *context, int64_t i, int thread) {
  counts *of = context;
  of->runs[i]++;
  of->threads[i] = thread;
  if (i == of->failing) return tri_fail(TRI_BAD_LAYOUT, "iteration %d cannot run", (int)i);
  return TRI_OK;
}

static void check_runs(const counts *of) {
  for (int i = 0; i < ITERATIONS; i++) {
    assert_int_equal(of->runs[i], 1);
    assert_in_range(of->threads[i], 0, THREADS - 1);
  }
}

static void test_all_run(void **state) {
  counts of = {.failing = -1};
  (void)state;
  CHECK_OK(tri_parallel_for(ITERATIONS, THREADS, count, &of));
  check_runs(&of);
  CHECK_OK(tri_parallel_for(0, THREADS, count, &of));
  check_runs(&of);
}

static void test_failure(void **state) {
  counts of = {.failing = FAILING};
  (void)state;
  assert_int_equal(tri_parallel_for(ITERATIONS, THREADS, count, &of), TRI_BAD_LAYOUT);
  assert_string_equal(tri_status_message(), "iteration 517 cannot run");
  check_runs(&of);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_run), cmocka_unit_test(test_failure)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
