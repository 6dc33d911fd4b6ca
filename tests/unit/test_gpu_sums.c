/* Sums on GPUs, beside the reference device; exact ones beside the host's functions, limb by limb. */
#include "device/exact_sum.h"
#include "gpu_problem.h"

static tri_status call_sum(tri_queue *queue, const problem *p, void *const *at) {
  TRI_TRY(KERNEL(sum, p->type, p->rows, at[1], at[2], false));
  return KERNEL(sum, p->type, p->rows, at[1], at[3], true);
}

static void test_sum(void **state) {
  (void)state;
  static const int64_t counts[] = {0, 1, 3, 1000, 4096, 4097, 100001};
  for (int t = 0; t < 3; t++) {
    for (int c = 0; c < 7; c++) {
      problem p = begin("sum", call_sum, gpu_types[t], counts[c], -1, 1);
      of_wides(&p, INPUT, p.rows);
      add_array(&p, OUTPUT, TRI_FP64, 1, 0, 0);
      add_array(&p, BOTH, TRI_FP64, 1, 1, 3);
      check(&p, false);
    }
  }
}

/* ---- exact sums -------------------------------------------------------------------------------------------------- */

typedef struct exact_case {
  tri_dtype type;
  int64_t count, block;
  tri_exact_sum before;
} exact_case;

/* Whole numbers and powers of two, whose squares double adds without rounding in any order. */
static double plain_number(int64_t i) {
  return i % 5 == 0 ? 0 : (double)(i * 7 % 41 - 20) * (i / 3000 % 2 == 0 ? 1 : 0x1p-60);
}

static tri_exact_sum expected_squares(const exact_case *c, const void *values) {
  tri_exact_sum sum = c->before;
  for (int64_t first = 0; first < c->count; first += c->block) {
    double squares = 0;
    for (int64_t i = first; i < c->count && i < first + c->block; i++) {
      squares += pow(gpu_load(tri_dtype_wide(c->type), values, i), 2);
    }
    tri_exact_sum_add(&sum, squares);
  }
  return sum;
}

static void same_sum(tri_exact_sum got, tri_exact_sum want) {
  assert_int_equal(got.pending, want.pending);
  assert_int_equal(got.not_finite, want.not_finite);
  tri_exact_sum_normalise(&got);
  tri_exact_sum_normalise(&want);
  assert_memory_equal(&got, &want, sizeof got);
}

static void check_squares(bench *b, const exact_case *c, const void *values) {
  const tri_dtype wide = tri_dtype_wide(c->type);
  const size_t bytes = (size_t)c->count * tri_dtype_bytes(wide);
  tri_queue *queue = b->device->queue;
  tri_exact_sum got;
  for (size_t offset = 0; offset <= 8; offset += 8) {
    char *in = (char *)b->memory[0] + offset;
    CHECK_OK(tri_queue_upload_now(queue, in, values, bytes));
    CHECK_OK(tri_queue_upload_now(queue, b->memory[1], &c->before, sizeof c->before));
    CHECK_OK(KERNEL(block_squares, c->type, c->count, c->block, in, b->memory[1]));
    CHECK_OK(tri_queue_download_now(queue, &got, b->memory[1], sizeof got));
    same_sum(got, expected_squares(c, values));
  }
}

static void test_block_squares(void **state) {
  (void)state;
  enum { MOST = 80000 };
  static double values[MOST];
  static const int64_t counts[] = {1, 255, 256, 257, 1000, 20000}, blocks[] = {256, 1, 7, 1000, 100000};
  for (int t = 0; t < 3; t++) {
    const tri_dtype wide = tri_dtype_wide(gpu_types[t]);
    for (int k = 0; k < 6 * 5; k++) {
      exact_case c = {gpu_types[t], counts[k % 6], blocks[k / 6], {{0}, 0, 0}};
      for (int64_t i = 0; i < c.count; i++) gpu_store(wide, values, i, plain_number(i));
      if (k % 3 == 1) gpu_store(wide, values, c.count / 2, k % 2 == 0 ? INFINITY : -(double)NAN);
      tri_exact_sum_add(&c.before, -1e30);
      tri_exact_sum_add(&c.before, (double)INFINITY);
      for (int i = 0; i < GPU_DEVICES; i += t == 1 ? 1 : 5) check_squares(&all->emulated[i], &c, values);
    }
  }
}

/* Squares that double does round are the reference's but for the order of adding. */
static tri_status call_squares(tri_queue *queue, const problem *p, void *const *at) {
  tri_exact_sum sum = {{0}, 0, 0};
  TRI_TRY(tri_queue_upload_now(queue, at[2], &sum, sizeof sum));
  TRI_TRY(KERNEL(block_squares, p->type, p->rows, 256, at[1], at[2]));
  TRI_TRY(tri_queue_download_now(queue, &sum, at[2], sizeof sum));
  double value = tri_exact_sum_value(&sum);
  TRI_TRY(tri_queue_upload_now(queue, at[3], &value, sizeof value));
  memset(&sum, POISON, sizeof sum);
  return tri_queue_upload_now(queue, at[2], &sum, sizeof sum);
}

static void test_rounded_squares(void **state) {
  (void)state;
  for (int t = 0; t < 3; t++) {
    problem p = begin("block_squares", call_squares, gpu_types[t], 70001, -1, 1);
    of_wides(&p, INPUT, p.rows);
    add_array(&p, OUTPUT, TRI_FP64, sizeof(tri_exact_sum) / sizeof(double), 0, 0);
    add_array(&p, OUTPUT, TRI_FP64, 1, 0, 0);
    check(&p, false);
  }
}

static void add_exactly(bench *b, double value, tri_exact_sum *sum) {
  tri_queue *queue = b->device->queue;
  CHECK_OK(tri_queue_upload_now(queue, b->memory[0], &value, sizeof value));
  CHECK_OK(tri_queue_upload_now(queue, b->memory[1], sum, sizeof *sum));
  CHECK_OK(KERNEL(exact_add, b->memory[0], b->memory[1]));
  CHECK_OK(tri_queue_download_now(queue, sum, b->memory[1], sizeof *sum));
}

/* One after the other on the device and on the host, across what makes carries pass on; squares of many terms there. */
static void test_exact_add(void **state) {
  (void)state;
  static const double values[] = {0,      -0.0,     1,     -3.5,     0x1p-1074, -0x1.8p-1040, 1.7e308,
                                  1e-300, INFINITY, 1e300, -1.7e308, 12345.678, -1e-10};
  const int64_t most = (int64_t)1 << 29;
  for (int i = 0; i < GPU_DEVICES; i += 3) {
    tri_exact_sum got = {{5, -7}, 0, most - 6}, want = got;
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
      add_exactly(&all->emulated[i], values[v], &got);
      tri_exact_sum_add(&want, values[v]);
      assert_in_range(got.pending, 0, most - 1);
      assert_int_equal(got.not_finite, want.not_finite);
      tri_exact_sum a = got, b = want;
      tri_exact_sum_normalise(&a);
      tri_exact_sum_normalise(&b);
      assert_memory_equal(&a, &b, sizeof a);
    }
    const exact_case full = {TRI_FP32, 6, 1, {{1, 2, 3}, 0, most - 3}};
    const float threes[6] = {3, 3, 3, 3, 3, 3};
    CHECK_OK(tri_queue_upload_now(all->emulated[i].device->queue, all->emulated[i].memory[0], threes, sizeof threes));
    CHECK_OK(
        tri_queue_upload_now(all->emulated[i].device->queue, all->emulated[i].memory[1], &full.before, sizeof got));
    tri_queue *queue = all->emulated[i].device->queue;
    CHECK_OK(KERNEL(block_squares, TRI_FP32, 6, 1, all->emulated[i].memory[0], all->emulated[i].memory[1]));
    CHECK_OK(tri_queue_download_now(queue, &got, all->emulated[i].memory[1], sizeof got));
    assert_int_equal(got.pending, 6);
    want = expected_squares(&full, threes);
    want.pending = got.pending;
    same_sum(got, want);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sum),
      cmocka_unit_test(test_block_squares),
      cmocka_unit_test(test_rounded_squares),
      cmocka_unit_test(test_exact_add),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
