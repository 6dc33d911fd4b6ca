/* Times of kernels: which calls are added up, work in closed form, and more shapes than there is room for. */
#include "device/kernel_times.h"

#include "check.h"
#include "device/kernels.h"

#include <stdlib.h>

enum { ROWS = 6, WIDTH = 10, BYTES = 1 << 14 };

typedef struct bench {
  tri_device *device;
  tri_kernel_times *times;
  void *a, *b, *c;
} bench;

static bench open_bench(const char *name) {
  bench b = {.times = NULL};
  CHECK_OK(tri_device_create(name, 1, &b.device));
  CHECK_OK(tri_device_memory_create(b.device, BYTES, &b.a));
  CHECK_OK(tri_device_memory_create(b.device, BYTES, &b.b));
  CHECK_OK(tri_device_memory_create(b.device, BYTES, &b.c));
  return b;
}

static void close_bench(bench *b) {
  tri_kernel_times_destroy(b->times);
  tri_device_memory_destroy(b->device, b->a, BYTES);
  tri_device_memory_destroy(b->device, b->b, BYTES);
  tri_device_memory_destroy(b->device, b->c, BYTES);
  tri_device_destroy(b->device);
}

static tri_status add(bench *b) {
  TRI_KERNEL_CALL(b->device->queue, add, TRI_FP32, tri_all_rows(ROWS), WIDTH, b->a, b->b, b->c);
  return TRI_OK;
}

static tri_status multiply(bench *b, int64_t m) {
  const tri_matmul p = {
      .m = m, .n = 3, .k = 2, .lda = 2, .ldb = 3, .ldc = 3, .a_type = TRI_FP32, .b_type = TRI_FP32, .c_type = TRI_FP32};
  TRI_KERNEL_CALL(b->device->queue, matmul, &p, b->a, b->b, NULL, b->c, NULL);
  return TRI_OK;
}

static const tri_kernel_time *find(const bench *b, const char *operation, const char *kernel, int64_t m) {
  int64_t count = 0;
  const tri_kernel_time *list = tri_kernel_times_list(b->times, &count), *found = NULL;
  for (int64_t i = 0; i < count; i++) {
    if (strcmp(list[i].kernel, kernel) != 0 || list[i].product.m != m) continue;
    if ((list[i].operation == NULL) != (operation == NULL)) continue;
    if (operation != NULL && strcmp(list[i].operation, operation) != 0) continue;
    assert_null(found); /* one entry for each */
    found = &list[i];
  }
  return found;
}

static void test_calls(void **state) {
  (void)state;
  bench b = open_bench("reference");
  CHECK_OK(tri_kernel_times_create(b.device, &b.times));
  CHECK_OK(add(&b)); /* before the begin */
  tri_kernel_times_begin(b.times);
  tri_queue_at(b.device->queue, "first", 3, "forward");
  for (int i = 0; i < 4; i++) CHECK_OK(add(&b));
  for (int i = 0; i < 2; i++) CHECK_OK(multiply(&b, 5));
  CHECK_OK(multiply(&b, 7));
  tri_queue_at(b.device->queue, "update", -1, NULL);
  CHECK_OK(add(&b));
  tri_kernel_times_pause(b.times);
  CHECK_OK(add(&b));
  const tri_kernel_time *sum = find(&b, "first", "add", 0), *other = find(&b, "update", "add", 0);
  assert_true(sum->calls == 4 && sum->bytes == 4 * 3 * ROWS * WIDTH * 4 && sum->flops == 0 && sum->seconds > 0);
  assert_true(sum->of_call && strcmp(sum->pass, "forward") == 0);
  assert_true(other->calls == 1 && !other->of_call && other->pass == NULL);
  const tri_kernel_time *small = find(&b, "first", "matmul", 5), *large = find(&b, "first", "matmul", 7);
  assert_true(small->calls == 2 && small->flops == 2 * 2 * 5 * 3 * 2 && large->calls == 1 &&
              large->flops == 2 * 7 * 3 * 2);
  close_bench(&b);
}

/* Returns the pairs that a call's FLOPs count: 4 FLOPs for each pair, head and element. */
static double pairs_of(bench *b, const tri_attention_slice *slices, int64_t count) {
  enum { HEADS = 2, DIM = 4 };
  int64_t all = 0;
  memcpy(b->b, slices, (size_t)count * sizeof *slices);
  const int64_t width = HEADS * DIM;
  const tri_attention call = {.type = TRI_FP32,
                              .out_type = TRI_FP32,
                              .gradient_type = TRI_FP32,
                              .heads = HEADS,
                              .kv_heads = HEADS,
                              .head_dim = DIM,
                              .scale = 1,
                              .query_rows = 8,
                              .key_rows = 8,
                              .q_row = width,
                              .q_head = DIM,
                              .k_row = width,
                              .k_head = DIM,
                              .v_row = width,
                              .v_head = DIM,
                              .out_row = width,
                              .out_head = DIM,
                              .num_slices = count,
                              .most_queries = 8,
                              .most_keys = 8};
  size_t scratch = 0;
  CHECK_OK(b->device->description.attention_workspace(&b->device->description, &call, &scratch));
  void *workspace = malloc(scratch + 64);
  CHECK_OK(tri_kernel_times_create(b->device, &b->times));
  tri_kernel_times_begin(b->times);
  CHECK_OK(
      b->device->kernels->attention_forward(b->device->queue, &call, b->b, b->a, b->a, b->a, b->c, NULL, workspace));
  const tri_kernel_time *list = tri_kernel_times_list(b->times, &all);
  assert_int_equal(all, 1);
  const double pairs = list[0].flops / (4.0 * HEADS * DIM);
  tri_kernel_times_destroy(b->times);
  b->times = NULL;
  free(workspace);
  return pairs;
}

static void test_pairs(void **state) {
  (void)state;
  bench b = open_bench("reference");
  const tri_attention_slice causal = tri_slice_causal(0, 5, 0, 8), window = tri_slice_window(0, 8, 0, 8, 3);
  const tri_attention_slice two[] = {tri_slice_full(0, 2, 0, 3), tri_slice_causal(2, 4, 3, 4)};
  assert_true(pairs_of(&b, &causal, 1) == 4 + 5 + 6 + 7 + 8);
  assert_true(pairs_of(&b, &window, 1) == 1 + 2 + 6 * 3);
  assert_true(pairs_of(&b, two, 2) == 6 + 10);
  close_bench(&b);
}

static void test_many_shapes(void **state) {
  (void)state;
  enum { SHAPES = 3000, ROOM = 2048 };
  bench b = open_bench("reference");
  int64_t count = 0, calls = 0;
  double flops = 0;
  CHECK_OK(tri_kernel_times_create(b.device, &b.times));
  tri_kernel_times_begin(b.times);
  for (int turn = 0; turn < 2; turn++) {
    for (int64_t i = 0; i < SHAPES; i++) {
      const tri_matmul p = {.m = 1,
                            .n = 1,
                            .k = 1 + i,
                            .lda = 1 + i,
                            .ldb = 1,
                            .ldc = 1,
                            .a_type = TRI_FP32,
                            .b_type = TRI_FP32,
                            .c_type = TRI_FP32};
      CHECK_OK(b.device->kernels->matmul(b.device->queue, &p, b.a, b.b, NULL, b.c, NULL));
    }
  }
  CHECK_OK(add(&b));
  const tri_kernel_time *list = tri_kernel_times_list(b.times, &count);
  assert_int_equal(count, ROOM + 2);
  for (int64_t i = 0; i < count; i++) {
    calls += list[i].calls;
    flops += list[i].flops;
  }
  assert_int_equal(calls, 2 * SHAPES + 1);
  assert_true(flops == 2.0 * 2 * (SHAPES * (SHAPES + 1.0) / 2));
  assert_true(list[ROOM].calls == 2 * (SHAPES - ROOM) && strcmp(list[ROOM].kernel, "matmul") == 0);
  close_bench(&b);
}

static void test_devices_that_run_later(void **state) {
  (void)state;
  bench b = open_bench("guarded");
  CHECK_FAILS(tri_kernel_times_create(b.device, &b.times), TRI_UNSUPPORTED,
              "the kernels of the device guarded run after the calls that queue them");
  close_bench(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_pairs),
      cmocka_unit_test(test_many_shapes),
      cmocka_unit_test(test_devices_that_run_later),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
