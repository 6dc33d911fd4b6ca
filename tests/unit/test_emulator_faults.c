/* Mistakes of kernels that the emulator detects: threads that do not meet at a barrier, launches that no GPU supports,
 * and accesses outside of memory, with the emulator alone and with a device. */
#include "emulator_test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sigaction at_start; /* before a guarded device took SIGSEGV */

/* ---- processes that die ------------------------------------------------------------------------------------------ */

/* Runs a mistake in a child process. Writes its output to `said`, and returns how the process has ended. */
static int watch(void (*mistake)(const void *), const void *with, char *said, size_t said_bytes) {
  int ends[2], result = 0;
  size_t length = 0;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    sigaction(SIGSEGV, &at_start, NULL);
    mistake(with);
    _exit(0);
  }
  close(ends[1]);
  for (ssize_t got; (got = read(ends[0], said + length, said_bytes - 1 - length)) > 0;) length += (size_t)got;
  said[length] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(child, &result, 0), child);
  return result;
}

/* Returns whether the child was killed by the signal, or by a sanitizer's report. */
static bool has_died(int result, const char *said) {
  if (WIFSIGNALED(result)) return WTERMSIG(result) == SIGSEGV;
  return WEXITSTATUS(result) != 0 && strstr(said, "Sanitizer") != NULL;
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

typedef struct overrun_arguments {
  int asked, at;
} overrun_arguments;

KERNEL(overrun) {
  SHARED(numbers, declared);
  SHARED_ASKED(asked, more);
  volatile float *to = a.asked ? more->each : declared->each;
  if (thread() == 1) to[a.at] = 1;
}

static void do_overrun(const void *with) {
  const shape s = {.x = 1, .threads = 64, .shared_bytes = sizeof(asked)};
  (void)run(&s, SYMBOL(overrun), with);
}

/* Memory after a piece of shared memory, rounded up to 16 bytes, is protected: a loop beyond the end soon faults. */
static void test_shared_memory_is_guarded(void **state) {
  (void)state;
  static char said[1 << 16];
  assert_int_equal(watch(do_overrun, &(overrun_arguments){0, MOST - 1}, said, sizeof said), 0);
  assert_int_equal(watch(do_overrun, &(overrun_arguments){1, 99}, said, sizeof said), 0);
  assert_true(has_died(watch(do_overrun, &(overrun_arguments){0, MOST}, said, sizeof said), said));
  assert_true(has_died(watch(do_overrun, &(overrun_arguments){1, 100}, said, sizeof said), said));
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

typedef struct faults_arguments {
  int kind;
} faults_arguments;

enum { DIFFERENT_BARRIERS, SOME_END, WARP_ENDS, BARRIER_AND_WARP, TOO_MUCH_ASKED, TOO_MUCH, TOO_MANY, NO_FAULT };

typedef struct large {
  char bytes[(256 << 10) + 16];
} large;

DEVICE void take_too_many(void) {
  static const char places[9];
  for (int i = 0; i < 9; i++) (void)tri_emulator_shared(&places[i], 64);
}

DEVICE void take_too_much(void) {
  SHARED(large, l);
  (void)l;
}

KERNEL(faults) {
  if (a.kind == TOO_MUCH_ASKED) {
    SHARED_ASKED(asked, more);
    more->each[0] = 1;
  }
  if (a.kind == TOO_MUCH) take_too_much();
  if (a.kind == TOO_MANY) take_too_many();
  if (a.kind == DIFFERENT_BARRIERS) {
    if (thread() < 32) {
      barrier();
    } else {
      barrier();
    }
  }
  if (a.kind == SOME_END && thread() % 2 == 0) barrier();
  if (a.kind == WARP_ENDS && thread() % 64 != 5) warp_barrier();
  if (a.kind == BARRIER_AND_WARP) {
    if (thread() == 3 || thread() >= 32) {
      barrier();
    } else {
      warp_barrier();
    }
  }
}

/* The emulator can be used afterwards. */
static void test_faults_are_told(void **state) {
  (void)state;
  static const struct {
    int kind;
    const char *text;
  } all[] = {{DIFFERENT_BARRIERS, "threads that should meet came to different places: thread "},
             {SOME_END, "ended without coming there"},
             {WARP_ENDS, "ended without coming there"},
             {BARRIER_AND_WARP, "for threads that wait elsewhere"},
             {TOO_MUCH_ASKED, "a kernel takes 400 bytes of shared memory, but its launch asked for 384"},
             {TOO_MUCH, "declares 1 pieces of shared memory, the last of 262160 bytes; there may be 8 of 262144"},
             {TOO_MANY, "declares 9 pieces of shared memory, the last of 64 bytes; there may be 8"}};
  static float out[256];
  for (uint64_t seed = 0; seed < NUM_SEEDS; seed++) {
    tri_emulator *emulator = NULL;
    CHECK_OK(tri_emulator_create(32, seed, &emulator));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
      const shape s = {.x = 3, .threads = 128, .shared_bytes = 384};
      CHECK_FAILS(run_on(emulator, &s, SYMBOL(faults), &(faults_arguments){all[i].kind}), TRI_DEVICE_FAILED,
                  all[i].text);
      if (i < 4) assert_non_null(strstr(tri_status_message(), "test_emulator_faults.c:"));
      CHECK_OK(run_on(emulator, &(shape){.x = 1, .threads = 256}, SYMBOL(neighbour), &(neighbour_arguments){out, 1}));
      assert_int_equal(count_wrong(out, 1, 256), 0);
    }
    tri_emulator_destroy(emulator);
  }
}

static void test_launches_that_no_gpu_takes(void **state) {
  (void)state;
  static const shape all[] = {{.x = 0, .threads = 64},
                              {.x = 1, .threads = 0},
                              {.x = 1, .threads = 1088},
                              {.x = 1, .threads = 48},
                              {.warp = 64, .x = 1, .threads = 96},
                              {.x = 1, .y = 65536, .threads = 64},
                              {.x = 1, .z = 65536, .threads = 64},
                              {.x = 2147483648u, .threads = 64},
                              {.x = 1, .threads = 64, .shared_bytes = (256 << 10) + 1}};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    CHECK_FAILS(run(&all[i], SYMBOL(faults), &(faults_arguments){NO_FAULT}), TRI_DEVICE_FAILED,
                "is not one that a GPU takes");
  }
  CHECK_FAILS(run(&all[0], SYMBOL(faults), &(faults_arguments){NO_FAULT}), TRI_DEVICE_FAILED,
              "a launch of 0 x 1 x 1 blocks of 64 threads and 0 bytes of shared memory");
}

/* ---- on the device ----------------------------------------------------------------------------------------------- */

enum { COUNT = 64, BYTES = COUNT * sizeof(float) };

/* Replaces the kernel `add` of elements.c (the linker's --wrap). The first element of `a` selects a mistake. */
enum { ADD_RIGHT, ADD_HANGS, ADD_RUNS_OVER };

/* As in kernels/elements.h, which has its own `add`. */
typedef struct planted_add {
  const float *a, *b;
  float *out;
} planted_add;

void __wrap_tri_emulated_add_32_w32(const void *arguments);
void __wrap_tri_emulated_add_32_w32(const void *arguments) {
  planted_add a;
  memcpy(&a, arguments, sizeof a);
  const int mistake = (int)a.a[0];
  if (mistake == ADD_HANGS && thread() == 7) return;
  barrier();
  if (thread() < COUNT) a.out[thread()] = a.a[thread()] + a.b[thread()];
  if (mistake == ADD_RUNS_OVER && thread() == 3) a.out[COUNT] = 1;
}

/* A device and its arrays, for two calls; the first call makes a mistake. */
typedef struct scene {
  tri_device *device;
  float *a, *b, *out;
} scene;

static scene set_scene(const char *name, int mistake) {
  scene s = {0};
  float start[COUNT];
  for (int i = 0; i < COUNT; i++) start[i] = (float)i;
  start[0] = (float)mistake;
  CHECK_OK(tri_device_create(name, 1, &s.device));
  for (int i = 0; i < 3; i++) {
    void *memory = NULL;
    CHECK_OK(tri_device_memory_create(s.device, BYTES, &memory));
    CHECK_OK(tri_queue_upload_now(s.device->queue, memory, start, BYTES));
    *(i == 0 ? &s.a : i == 1 ? &s.b : &s.out) = memory;
  }
  return s;
}

static tri_status add_twice(const scene *s) {
  tri_queue_at(s->device->queue, "add", 12, "forward");
  TRI_KERNEL_CALL(s->device->queue, add, TRI_FP32, tri_all_rows(1), COUNT, s->a, s->b, s->out);
  tri_queue_at(s->device->queue, "gelu", 13, "forward");
  TRI_KERNEL_CALL(s->device->queue, activation_forward, TRI_FP32, TRI_ACTIVATION_GELU_ERF, tri_all_rows(1), COUNT,
                  s->out, s->out);
  return TRI_OK;
}

static void end_scene(const scene *s) {
  tri_device_memory_destroy(s->device, s->a, BYTES);
  tri_device_memory_destroy(s->device, s->b, BYTES);
  tri_device_memory_destroy(s->device, s->out, BYTES);
  tri_device_destroy(s->device);
}

static void test_a_fault_comes_at_the_next_wait(void **state) {
  (void)state;
  float got[COUNT];
  scene s = set_scene("emulated:seed=3", ADD_RIGHT);
  CHECK_OK(s.device->kernels->add(s.device->queue, TRI_FP32, tri_all_rows(1), COUNT, s.a, s.b, s.out));
  CHECK_OK(tri_queue_download_now(s.device->queue, got, s.out, BYTES));
  for (int i = 0; i < COUNT; i++) assert_true(got[i] == 2.0f * (float)i);
  end_scene(&s);
  s = set_scene("emulated:seed=3", ADD_HANGS);
  CHECK_OK(add_twice(&s)); /* the fault is not reported yet: the call only queues */
  CHECK_FAILS(tri_queue_finish(s.device->queue), TRI_DEVICE_FAILED, "kernel `add` of call 12 (add, forward)");
  assert_non_null(strstr(tri_status_message(), "but thread 7 ended without coming there"));
  end_scene(&s);
  s = set_scene("emulated:fail_kernel=2", ADD_RIGHT);
  CHECK_OK(add_twice(&s));
  CHECK_FAILS(tri_queue_finish(s.device->queue), TRI_DEVICE_FAILED,
              "kernel `activation_forward` of call 13 (gelu, forward) failed: the device fails the 2nd, as requested");
  end_scene(&s);
}

static void do_run_over(const void *with) {
  const scene s = set_scene("emulated:seed=5", ADD_RUNS_OVER);
  (void)with;
  (void)add_twice(&s);
  (void)tri_queue_finish(s.device->queue);
}

static void test_leaving_device_memory_is_reported(void **state) {
  (void)state;
  static char said[1 << 16];
  const int result = watch(do_run_over, NULL, said, sizeof said);
  static const char *const words[] = {"device memory was left by a kernel: address 0x", "is byte 256 of allocation ",
                                      "which has 256", "kernel `add` of call 12 (add, forward), queue 0: it is running",
                                      "kernel `activation_forward` of call 13 (gelu, forward), queue 0"};
  const char *at = said;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    at = strstr(at, words[i]);
    if (at == NULL) fail_msg("no \"%s\" (in this order) in: %s", words[i], said);
  }
  assert_true(has_died(result, said));
}

int main(void) {
  sigaction(SIGSEGV, NULL, &at_start);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shared_memory_is_guarded),          cmocka_unit_test(test_faults_are_told),
      cmocka_unit_test(test_launches_that_no_gpu_takes),        cmocka_unit_test(test_a_fault_comes_at_the_next_wait),
      cmocka_unit_test(test_leaving_device_memory_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
