/* The guarded device: it computes the bits of the reference device, but as late as possible; and it detects each kind
 * of mistake for which it exists. */
#include "check.h"

#include "base/sanitizer.h"
#include "device/kernels.h"
#include "device/queue.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 24, WIDTH = 6, ROWS = COUNT / WIDTH, BYTES = COUNT * sizeof(double) };

static tri_device *create(const char *name) {
  tri_device *device = NULL;
  CHECK_OK(tri_device_create(name, 1, &device));
  return device;
}

static double *device_memory(tri_device *device, const double *values) {
  void *memory = NULL;
  CHECK_OK(tri_device_memory_create(device, BYTES, &memory));
  if (values != NULL) CHECK_OK(tri_queue_upload_now(device->queue, memory, values, BYTES));
  return memory;
}

static void fill(double *out, double from) {
  for (int i = 0; i < COUNT; i++) out[i] = sin(from + i);
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static tri_status many_kernels(tri_queue *queue, double *a, double *b, double *c) {
  tri_matmul product = {.m = ROWS, .n = ROWS, .k = WIDTH, .lda = WIDTH, .ldb = WIDTH, .ldc = ROWS};
  product.a_type = product.b_type = product.c_type = TRI_FP64;
  product.b_transposed = true;
  tri_norm norm = tri_norm_of_rows(TRI_FP64, tri_all_rows(ROWS), WIDTH, 1e-5);
  TRI_KERNEL_CALL(queue, activation_forward, TRI_FP64, TRI_ACTIVATION_GELU_ERF, tri_all_rows(1), COUNT, a, b);
  TRI_KERNEL_CALL(queue, add, TRI_FP64, tri_all_rows(1), COUNT, a, b, b);
  TRI_KERNEL_CALL(queue, matmul, &product, a, b, NULL, c, NULL);
  product = (tri_matmul){0}; /* the call has copied it */
  TRI_KERNEL_CALL(queue, rms_norm_forward, &norm, b, NULL, NULL, a, b, c + ROWS * ROWS);
  TRI_KERNEL_CALL(queue, column_sum, TRI_FP64, tri_all_rows(ROWS), WIDTH, WIDTH, b, a, true);
  return TRI_OK;
}

/* Returns the contents of three arrays after some kernels. */
static void run_many(const char *name, double out[3 * COUNT]) {
  tri_device *device = create(name);
  double start[COUNT], *arrays[3];
  fill(start, 0.3);
  for (int i = 0; i < 3; i++) arrays[i] = device_memory(device, i == 0 ? start : NULL);
  CHECK_OK(many_kernels(device->queue, arrays[0], arrays[1], arrays[2]));
  for (int i = 0; i < 3; i++) CHECK_OK(tri_queue_download(device->queue, out + i * COUNT, arrays[i], BYTES));
  CHECK_OK(tri_queue_finish(device->queue));
  for (int i = 0; i < 3; i++) tri_device_memory_destroy(device, arrays[i], BYTES);
  tri_device_destroy(device);
}

static void test_bits_of_the_reference(void **state) {
  (void)state;
  static const char *const names[] = {"guarded", "guarded:seed=1", "guarded:seed=2"};
  double want[3 * COUNT], got[3 * COUNT];
  run_many("reference", want);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    run_many(names[i], got);
    assert_memory_equal(got, want, sizeof want);
  }
}

static void test_what_it_says_it_is(void **state) {
  (void)state;
  tri_device *device = create("guarded"), *reference = create("reference");
  size_t bytes = 0, want = 1;
  assert_string_equal(device->info.name, "guarded");
  assert_false(device->info.host_access);
  assert_true(device->info.host_memory);
  assert_int_equal(device->info.types, reference->info.types);
  tri_attention call = {.type = TRI_FP64,
                        .out_type = TRI_FP64,
                        .gradient_type = TRI_FP64,
                        .heads = 2,
                        .kv_heads = 1,
                        .head_dim = 4,
                        .query_rows = 4,
                        .key_rows = 4,
                        .q_row = 16,
                        .q_head = 4,
                        .k_row = 16,
                        .k_head = 4,
                        .v_row = 16,
                        .v_head = 4,
                        .out_row = 8,
                        .out_head = 4,
                        .num_slices = 1,
                        .most_queries = 4,
                        .most_keys = 4,
                        .scale = 0.5};
  CHECK_OK(device->description.attention_workspace(&device->description, &call, &bytes));
  CHECK_OK(reference->description.attention_workspace(&reference->description, &call, &want));
  assert_int_equal(bytes, want);
  assert_true((device->kernels->matmul_pack == NULL) == (reference->kernels->matmul_pack == NULL));
  tri_device_limit_memory(device, 1000);
  void *memory = NULL;
  CHECK_FAILS(tri_device_memory_create(device, 1001, &memory), TRI_OUT_OF_MEMORY, "1001 bytes");
  tri_device_destroy(device);
  tri_device_destroy(reference);
}

/* ---- late -------------------------------------------------------------------------------------------------------- */

static void test_nothing_runs_before_a_wait(void **state) {
  (void)state;
  tri_device *device = create("guarded");
  double start[COUNT], host[COUNT], *a = NULL;
  tri_device_event event;
  fill(start, 1);
  a = device_memory(device, start);
  memcpy(host, start, BYTES);
  CHECK_OK(tri_queue_download(device->queue, host, a, BYTES));
  for (int i = 0; i < COUNT; i++) assert_true(isnan(host[i])); /* not even the old contents */
  CHECK_OK(tri_queue_mark(device->queue, &event));
  CHECK_OK(device->kernels->fill_zero(device->queue, BYTES, a));
  CHECK_OK(tri_device_event_wait(&event));
  assert_memory_equal(host, start, BYTES);
  CHECK_OK(tri_queue_download(device->queue, host, a, BYTES));
  CHECK_OK(tri_queue_mark(device->queue, &event));
  while (!tri_device_event_passed(&event)) continue;
  for (int i = 0; i < COUNT; i++) assert_true(host[i] == 0);
  tri_device_memory_destroy(device, a, BYTES);
  tri_device_destroy(device);
}

/* Contents of new memory: device memory is zero until it is marked as uninitialised; host memory is poisoned. */
static void test_poison(void **state) {
  (void)state;
  tri_device *device = create("guarded");
  double host[COUNT], *a = device_memory(device, NULL);
  void *staging = NULL;
  CHECK_OK(tri_queue_download_now(device->queue, host, a, BYTES));
  for (int i = 0; i < COUNT; i++) assert_true(host[i] == 0);
  CHECK_OK(tri_queue_mark_uninitialised(device->queue, a + 1, BYTES - sizeof(double)));
  CHECK_OK(tri_queue_download_now(device->queue, host, a, BYTES));
  assert_true(host[0] == 0);
  for (int i = 1; i < COUNT; i++) assert_true(isnan(host[i]));
  CHECK_OK(tri_device_host_create(device, 64, &staging));
  assert_true(isnan(((float *)staging)[15]));
  assert_true(((int32_t *)staging)[3] > 1 << 30);
  tri_device_host_destroy(device, staging, 64);
  tri_device_memory_destroy(device, a, BYTES);
  tri_device_destroy(device);
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

/* A second queue reads the results of the first. Returns whether it read them. */
static bool read_in_second_queue(uint64_t seed, bool with_wait) {
  char name[64];
  snprintf(name, sizeof name, "guarded:seed=%llu", (unsigned long long)seed);
  tri_device *device = create(name);
  tri_queue *second = NULL;
  tri_device_event written;
  double start[COUNT], want[COUNT], host[COUNT];
  fill(start, 2);
  for (int i = 0; i < COUNT; i++) want[i] = 16 * start[i];
  double *a = device_memory(device, start);
  CHECK_OK(tri_queue_create(device, &second));
  for (int i = 0; i < 4; i++) CHECK_OK(device->kernels->add(device->queue, TRI_FP64, tri_all_rows(1), COUNT, a, a, a));
  CHECK_OK(tri_queue_mark(device->queue, &written));
  if (with_wait) CHECK_OK(tri_queue_wait(second, &written));
  CHECK_OK(tri_queue_download(second, host, a, BYTES));
  CHECK_OK(tri_queue_finish(second));
  CHECK_OK(tri_queue_finish(device->queue));
  bool right = true;
  for (int i = 0; i < COUNT; i++) right = right && host[i] == want[i];
  tri_queue_destroy(second);
  tri_device_memory_destroy(device, a, BYTES);
  tri_device_destroy(device);
  return right;
}

static void test_events_between_queues(void **state) {
  (void)state;
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; seed++) {
    assert_true(read_in_second_queue(seed, true));
    wrong += !read_in_second_queue(seed, false);
  }
  assert_in_range(wrong, 5, 20); /* a missing wait is found with most seeds */
}

static void test_waits_that_never_end_are_told(void **state) {
  (void)state;
  tri_device *device = create("guarded"), *other = create("guarded");
  tri_queue *second = NULL;
  CHECK_OK(tri_queue_create(device, &second));
  tri_device_event never = {second, 3}, elsewhere = {other->queue, 0};
  CHECK_FAILS(tri_device_event_wait(&never), TRI_INTERNAL, "place 3 of queue 1 of the device, but only 0 were ever");
  CHECK_FAILS(tri_queue_wait(second, &elsewhere), TRI_INTERNAL, "another device");
  CHECK_OK(tri_queue_wait(device->queue, &never));
  CHECK_FAILS(tri_queue_finish(device->queue), TRI_INTERNAL, "for place 3 of queue 1, and that will never be passed");
  CHECK_OK(tri_queue_wait(second, &never)); /* queue 1 waits for its own third item */
  CHECK_OK(tri_queue_wait(second, &never));
  CHECK_OK(tri_queue_wait(second, &never));
  CHECK_FAILS(tri_queue_finish(second), TRI_INTERNAL, "the host waits for queue 1 of the device, which waits (wait)");
  tri_queue_destroy(second);
  tri_device_destroy(device);
  tri_device_destroy(other);
}

/* After a queue is destroyed, which waits for its work, queues that wait for it continue. */
static void test_a_queue_that_is_gone_has_been_passed(void **state) {
  (void)state;
  tri_device *device = create("guarded");
  tri_queue *second = NULL;
  tri_device_event event;
  double host[COUNT], start[COUNT], *a = device_memory(device, NULL);
  fill(start, 3);
  CHECK_OK(tri_queue_create(device, &second));
  CHECK_OK(tri_queue_upload(second, a, start, BYTES));
  CHECK_OK(tri_queue_mark(second, &event));
  CHECK_OK(tri_queue_wait(device->queue, &event));
  tri_queue_destroy(second);
  CHECK_OK(tri_queue_download_now(device->queue, host, a, BYTES));
  assert_memory_equal(host, start, BYTES);
  tri_device_memory_destroy(device, a, BYTES);
  tri_device_destroy(device);
}

/* ---- mistakes of the host ---------------------------------------------------------------------------------------- */

/* A new device with an array and queued work, for one mistake. */
typedef struct scene {
  tri_device *device;
  double *a;
  double host[COUNT];
} scene;

static scene *set_scene(const char *name) {
  static scene s;
  s.device = create(name);
  fill(s.host, 4);
  s.a = device_memory(s.device, s.host);
  tri_queue_at(s.device->queue, "linear", 12, "forward");
  return &s;
}

static void end_scene(const scene *s) {
  tri_device_memory_destroy(s->device, s->a, BYTES);
  tri_device_destroy(s->device);
}

static void test_host_memory_used_too_early(void **state) {
  (void)state;
  scene *s = set_scene("guarded");
  CHECK_OK(tri_queue_upload(s->device->queue, s->a, s->host, BYTES));
  s->host[COUNT - 1]++;
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL,
              "kernel `copy` of call 12 (linear, forward): the host changed the memory that it reads");
  end_scene(s);
  s = set_scene("guarded");
  CHECK_OK(tri_queue_download(s->device->queue, s->host, s->a, BYTES));
  s->host[3] = 0;
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL, "the host changed the memory that it fills");
  end_scene(s);
}

/* Host memory may be the target of a download that follows its upload, and may be uploaded again, by queues that wait
 * for each other. */
static void test_copies_may_follow_each_other(void **state) {
  (void)state;
  scene *s = set_scene("guarded");
  tri_queue *queue = s->device->queue, *second = NULL;
  tri_device_event event;
  double start[COUNT], got[COUNT], *b = device_memory(s->device, NULL), *c = device_memory(s->device, NULL);
  memcpy(start, s->host, BYTES);
  CHECK_OK(tri_queue_create(s->device, &second));
  CHECK_OK(tri_queue_upload(queue, b, s->host, BYTES));
  CHECK_OK(s->device->kernels->add(queue, TRI_FP64, tri_all_rows(1), COUNT, b, b, b));
  CHECK_OK(tri_queue_download(queue, s->host, b, BYTES));
  CHECK_OK(tri_queue_mark(queue, &event));
  CHECK_OK(tri_queue_wait(second, &event));
  CHECK_OK(tri_queue_upload(second, c, s->host, BYTES));
  CHECK_OK(tri_queue_download_now(second, got, c, BYTES));
  for (int i = 0; i < COUNT; i++) assert_true(got[i] == 2 * start[i]);
  tri_queue_destroy(second);
  tri_device_memory_destroy(s->device, b, BYTES);
  tri_device_memory_destroy(s->device, c, BYTES);
  end_scene(s);
}

/* Two queues use one piece of host memory, without an order between them: found with most seeds. */
static void test_copies_that_race(void **state) {
  (void)state;
  int found = 0;
  for (int seed = 0; seed < 20; seed++) {
    char name[32];
    snprintf(name, sizeof name, "guarded:seed=%d", seed);
    scene *s = set_scene(name);
    tri_queue *second = NULL;
    double *b = device_memory(s->device, NULL);
    CHECK_OK(tri_queue_create(s->device, &second));
    CHECK_OK(tri_queue_upload(s->device->queue, s->a, s->host, BYTES));
    CHECK_OK(tri_queue_download(second, s->host, b, BYTES));
    if (tri_queue_finish(second) != TRI_OK) {
      assert_non_null(
          strstr(tri_status_message(), "queued before it, in another queue, and is not done: a missing wait"));
      found++;
    }
    CHECK_OK(tri_queue_finish(s->device->queue));
    tri_queue_destroy(second);
    tri_device_memory_destroy(s->device, b, BYTES);
    end_scene(s);
  }
  assert_in_range(found, 5, 20);
}

/* Rows with gaps: the bytes between the rows are not used. */
static void test_copies_of_rows(void **state) {
  (void)state;
  scene *s = set_scene("guarded");
  double back[COUNT + WIDTH];
  tri_copy copy = {.to = back, .from = s->a + 1, .to_side = TRI_SIDE_HOST, .from_side = TRI_SIDE_DEVICE};
  copy.rows = ROWS;
  copy.row_bytes = 2 * sizeof(double);
  copy.to_stride = copy.from_stride = WIDTH * sizeof(double);
  fill(back, 9);
  CHECK_OK(tri_queue_copy(s->device->queue, &copy));
  back[2] = 7;
  CHECK_OK(tri_queue_finish(s->device->queue));
  for (int i = 0; i < COUNT; i++) {
    double want = i % WIDTH < 2 ? s->host[i + 1] : i == 2 ? 7 : sin(9.0 + i);
    assert_true(back[i] == want);
  }
  copy.rows++;
  CHECK_OK(tri_queue_copy(s->device->queue, &copy)); /* reads beyond the end, and fails before it writes */
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL, "is not inside allocation 1, of 192 bytes");
  end_scene(s);
}

static void test_wrong_sides(void **state) {
  (void)state;
  scene *s = set_scene("guarded");
  CHECK_OK(s->device->kernels->add(s->device->queue, TRI_FP64, tri_all_rows(1), COUNT, s->a, s->host, s->a));
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL,
              "kernel `add` of call 12 (linear, forward): its argument 5, 0x");
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL,
              "is not this device's memory"); /* and in the next call, too */
  end_scene(s);
  s = set_scene("guarded");
  CHECK_OK(tri_queue_move(s->device->queue, s->a, s->host, BYTES));
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL, "the source, 0x");
  end_scene(s);
  s = set_scene("guarded");
  CHECK_OK(tri_queue_download(s->device->queue, s->a, s->a, BYTES));
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL, "is device memory where host memory was said");
  end_scene(s);
  s = set_scene("guarded");
  CHECK_OK(tri_queue_move(s->device->queue, s->a, s->a + 1, BYTES / 2));
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL, "overlap");
  end_scene(s);
}

/* A slice without rows may begin at the end of its allocation. */
static void test_no_elements_at_the_end(void **state) {
  (void)state;
  scene *s = set_scene("guarded");
  double *end = s->a + COUNT;
  CHECK_OK(s->device->kernels->add(s->device->queue, TRI_FP64, tri_all_rows(1), 0, end, end, end));
  CHECK_OK(tri_queue_finish(s->device->queue));
  CHECK_OK(s->device->kernels->add(s->device->queue, TRI_FP64, tri_all_rows(1), 0, end + 1, end, end));
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL, "is not inside allocation 1, of 192 bytes");
  end_scene(s);
}

static void test_memory_released_too_early(void **state) {
  (void)state;
  scene *s = set_scene("guarded");
  double *b = device_memory(s->device, NULL);
  void *staging = NULL;
  CHECK_OK(s->device->kernels->add(s->device->queue, TRI_FP64, tri_all_rows(1), COUNT, s->a, b, s->a));
  tri_device_memory_destroy(s->device, b, BYTES);
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL, "its argument 5 is device memory that was released");
  end_scene(s);
  s = set_scene("guarded");
  CHECK_OK(tri_device_host_create(s->device, BYTES, &staging));
  CHECK_OK(tri_queue_download(s->device->queue, staging, s->a, BYTES));
  tri_device_host_destroy(s->device, staging, BYTES);
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_INTERNAL, "the destination is host memory that was released");
  end_scene(s);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void test_a_fault_ends_its_queue(void **state) {
  (void)state;
  scene *s = set_scene("guarded:fail_kernel=2");
  tri_queue *queue = s->device->queue, *second = NULL;
  tri_device_event before, behind;
  double got[COUNT];
  CHECK_OK(tri_queue_create(s->device, &second));
  CHECK_OK(s->device->kernels->add(queue, TRI_FP64, tri_all_rows(1), COUNT, s->a, s->a, s->a));
  CHECK_OK(tri_queue_mark(queue, &before));
  CHECK_OK(s->device->kernels->add(queue, TRI_FP64, tri_all_rows(1), COUNT, s->a, s->a, s->a));
  CHECK_OK(s->device->kernels->fill_zero(queue, BYTES, s->a));
  CHECK_OK(tri_queue_mark(queue, &behind));
  CHECK_OK(tri_device_event_wait(&before));
  CHECK_FAILS(tri_device_event_wait(&behind), TRI_DEVICE_FAILED,
              "kernel `add` of call 12 (linear, forward) failed: the device fails the 2nd, as requested (fail_kernel)");
  assert_true(tri_device_event_passed(&behind));
  CHECK_OK(tri_device_event_wait(&before));
  CHECK_OK(s->device->kernels->fill_zero(queue, BYTES, s->a));
  CHECK_FAILS(tri_queue_finish(queue), TRI_DEVICE_FAILED, "kernel `add` of call 12");
  CHECK_OK(tri_queue_wait(second, &before));
  CHECK_OK(tri_queue_download_now(second, got, s->a, BYTES)); /* another queue continues */
  for (int i = 0; i < COUNT; i++) assert_true(got[i] == 2 * s->host[i]);
  CHECK_OK(tri_queue_wait(second, &behind)); /* but it fails if it waits for work that is not executed */
  CHECK_FAILS(tri_queue_finish(second), TRI_DEVICE_FAILED, "kernel `add` of call 12");
  tri_queue_destroy(second);
  end_scene(s);
}

/* The failure of a kernel is returned by the next call that waits. Until then, and after a queue is drained, the
 * thread's error message is unchanged. */
static void test_a_fault_leaves_the_message(void **state) {
  (void)state;
  tri_device_event event;
  scene *s = set_scene("guarded:fail_kernel=1");
  CHECK_OK(s->device->kernels->add(s->device->queue, TRI_FP64, tri_all_rows(1), COUNT, s->a, s->a, s->a));
  CHECK_OK(tri_queue_mark(s->device->queue, &event));
  (void)tri_fail(TRI_IO_FAILED, "what came first");
  while (!tri_device_event_passed(&event)) continue;
  assert_string_equal(tri_status_message(), "what came first");
  tri_queue_drain(s->device->queue);
  assert_string_equal(tri_status_message(), "what came first");
  CHECK_FAILS(tri_queue_finish(s->device->queue), TRI_DEVICE_FAILED, "kernel `add`");
  end_scene(s);
}

static void test_told_to_fail(void **state) {
  (void)state;
  void *memory = NULL;
  scene *s = set_scene("guarded:fail_memory=2,seed=3");
  CHECK_FAILS(tri_device_memory_create(s->device, 4096, &memory), TRI_OUT_OF_MEMORY,
              "the device fails its 2nd allocation as requested (fail_memory), of 4096 bytes");
  end_scene(s);
  s = set_scene("guarded:fail_copy=2");
  CHECK_FAILS(tri_queue_download_now(s->device->queue, s->host, s->a, BYTES), TRI_DEVICE_FAILED,
              "kernel `copy` of call 12 (linear, forward) failed: the device fails the 2nd, as requested (fail_copy)");
  end_scene(s);
  setenv("PMI_RANK", "1", 1);
  end_scene(set_scene("guarded:fail_copy=1,rank=2"));
  tri_device *device = create("guarded:fail_memory=1,rank=1");
  CHECK_FAILS(tri_device_memory_create(device, 1, &memory), TRI_OUT_OF_MEMORY, "1st allocation");
  tri_device_destroy(device);
  unsetenv("PMI_RANK");
}

static void test_options(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_FAILS(tri_device_create("guarded:sed=1", 1, &device), TRI_BAD_CONFIG,
              "`sed=1` is not an option of `device: guarded`; there are seed, fail_memory, fail_copy, fail_kernel and");
  CHECK_FAILS(tri_device_create("guarded:seed=1,fail_copy=0", 1, &device), TRI_BAD_CONFIG,
              "`fail_copy=0` of `device: guarded` should be fail_copy=NUMBER, a whole number from 1 on");
  static const char *const bad[] = {"seed", "seed=", "seed=x", "seed=1x", "seed=-1", "rank=99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char name[64];
    snprintf(name, sizeof name, "guarded:%s", bad[i]);
    CHECK_FAILS(tri_device_create(name, 1, &device), TRI_BAD_CONFIG, bad[i]);
  }
}

/* ---- touches from outside ---------------------------------------------------------------------------------------- */

static struct sigaction at_start; /* before cmocka took the signal */
static volatile double sink;

static void read_device_memory(scene *s) { sink = s->a[2]; }
static void read_released_memory(scene *s) {
  tri_device_memory_destroy(s->device, s->a, BYTES);
  sink = s->a[0];
}
static void overrun_in_a_kernel(scene *s) {
  (void)s->device->kernels->fill_zero(s->device->queue, BYTES + 64, s->a);
  (void)tri_queue_finish(s->device->queue);
}

/* Runs a mistake in a child process. Writes the child's stderr to `out`, and returns its status as waitpid does. */
static int watch_die(void (*mistake)(scene *), char *out, size_t out_bytes) {
  int ends[2], result = 0;
  size_t length = 0;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    sigaction(SIGSEGV, &at_start, NULL);
    scene *s = set_scene("guarded");
    (void)s->device->kernels->add(s->device->queue, TRI_FP64, tri_all_rows(1), COUNT, s->a, s->a, s->a);
    (void)tri_queue_finish(s->device->queue);
    tri_queue_at(s->device->queue, "gelu", 13, "backward");
    (void)s->device->kernels->activation_forward(s->device->queue, TRI_FP64, TRI_ACTIVATION_GELU_TANH, tri_all_rows(1),
                                                 COUNT, s->a, s->a);
    mistake(s);
    _exit(0);
  }
  close(ends[1]);
  for (ssize_t got; (got = read(ends[0], out + length, out_bytes - 1 - length)) > 0;) length += (size_t)got;
  out[length] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(child, &result, 0), child);
  return result;
}

/* With a sanitizer, the previous handler is the sanitizer's, which prints its own report and exits. */
static void check_death(void (*mistake)(scene *), const char *const *words) {
  static char said[1 << 16];
  int result = watch_die(mistake, said, sizeof said);
  const char *sanitizer = strstr(said, "Sanitizer"), *at = said;
  for (; *words != NULL; words++) {
    at = strstr(at, *words);
    if (at == NULL) fail_msg("no \"%s\" (in this order) in: %s", *words, said);
    assert_true(sanitizer == NULL || at < sanitizer);
  }
  if (sanitizer != NULL) {
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) != 0);
  } else {
    assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGSEGV);
  }
}

static void test_a_touch_from_outside_is_reported(void **state) {
  (void)state;
  static const char past[] =
      "the last that ran on the device, newest first:\n"
      "  kernel `add` of call 12 (linear, forward), queue 0\n"
      "  kernel `copy`, queue 0\n";
  static const char queued[] =
      "1 queued and not yet run in queue 0, next first:\n"
      "  kernel `activation_forward` of call 13 (gelu, backward), queue 0\n";
  static const char *const host_read[] = {"device memory was touched by the host: address 0x",
                                          "is byte 16 of allocation 1, which has 192", past, queued, NULL};
  static const char *const released[] = {"device memory that had been released was touched by the host", NULL};
  static const char *const overrun[] = {"device memory was left by a kernel: address 0x",
                                        "is byte 192 of allocation 1, which has 192",
                                        "kernel `fill_zero` of call 13 (gelu, backward), queue 0: it is running\n",
                                        "kernel `activation_forward` of call 13", NULL};
  check_death(read_device_memory, host_read);
  check_death(read_released_memory, released);
  check_death(overrun_in_a_kernel, overrun);
}

static void read_elsewhere(scene *s) {
  (void)s;
  void *nowhere = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sink = *(volatile double *)nowhere;
}

/* Crashes for other reasons are passed to the previous handler. */
static void test_other_crashes_are_left_alone(void **state) {
  (void)state;
  static char said[1 << 16];
  int result = watch_die(read_elsewhere, said, sizeof said);
  assert_null(strstr(said, "allocation"));
  assert_true(WIFSIGNALED(result) || WEXITSTATUS(result) != 0);
}

/* Addresses of device memory differ from pairs of adjacent 32-bit numbers, such as counts: their lower halves are
 * between 2^30 and 3 * 2^30, with two devices, too. */
static void test_addresses_are_no_pairs_of_numbers(void **state) {
  enum { BLOCKS = 40 };
  const uintptr_t low = (uintptr_t)1 << 30;
  tri_device *devices[2];
  void *blocks[2][BLOCKS] = {{NULL}};
  (void)state;
  for (int d = 0; d < 2; d++) {
    devices[d] = create("guarded");
    for (int i = 0; i < BLOCKS; i++) {
      const size_t bytes = (size_t)1 << (i % 27);
      CHECK_OK(tri_device_memory_create(devices[d], bytes, &blocks[d][i]));
      const uintptr_t at = (uintptr_t)blocks[d][i] & 0xffffffff;
#if !TRI_THREAD_SANITIZER /* ThreadSanitizer uses address ranges of its own */
      assert_true(at >= low && at + bytes <= 3 * low);
#endif
    }
  }
  for (int d = 0; d < 2; d++) {
    for (int i = 0; i < BLOCKS; i++) tri_device_memory_destroy(devices[d], blocks[d][i], (size_t)1 << (i % 27));
    tri_device_destroy(devices[d]);
  }
}

int main(void) {
  sigaction(SIGSEGV, NULL, &at_start);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits_of_the_reference),
      cmocka_unit_test(test_what_it_says_it_is),
      cmocka_unit_test(test_nothing_runs_before_a_wait),
      cmocka_unit_test(test_poison),
      cmocka_unit_test(test_events_between_queues),
      cmocka_unit_test(test_waits_that_never_end_are_told),
      cmocka_unit_test(test_a_queue_that_is_gone_has_been_passed),
      cmocka_unit_test(test_host_memory_used_too_early),
      cmocka_unit_test(test_copies_may_follow_each_other),
      cmocka_unit_test(test_copies_that_race),
      cmocka_unit_test(test_copies_of_rows),
      cmocka_unit_test(test_wrong_sides),
      cmocka_unit_test(test_no_elements_at_the_end),
      cmocka_unit_test(test_memory_released_too_early),
      cmocka_unit_test(test_a_fault_ends_its_queue),
      cmocka_unit_test(test_a_fault_leaves_the_message),
      cmocka_unit_test(test_told_to_fail),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_addresses_are_no_pairs_of_numbers),
      cmocka_unit_test(test_a_touch_from_outside_is_reported),
      cmocka_unit_test(test_other_crashes_are_left_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
