/* The findings of kernel_check (tests/gpu): the reference device with one wrong kernel in its table, for each kind of
 * mistake; and no findings in the reference device itself. */
#include "check.h"

#include "base/sanitizer.h"
#include "device/reference/reference.h"

#include "checker.h"

#include <stdlib.h>

/* ---- wrong kernels ----------------------------------------------------------------------------------------------- */

static tri_status add_last_bit(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a,
                               const void *b, void *out) {
  TRI_TRY(tri_reference_add(queue, type, rows, width, a, b, out));
  const int64_t count = tri_rows_live(rows) * width;
  if (count > 2) ((unsigned char *)out)[tri_dtype_bytes(type) * 2] ^= 1; /* little-endian: the lowest of a mantissa */
  return TRI_OK;
}

static tri_status gelu_without_tail(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                                    const void *x, void *y) {
  const int64_t count = tri_rows_live(rows) * width;
  return tri_reference_activation_forward(queue, type, kind, tri_all_rows(1), count > 0 ? count - 1 : 0, x, y);
}

#if !TRI_ADDRESS_SANITIZER
static tri_status gelu_beyond_end(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                                  const void *x, void *y) {
  TRI_TRY(tri_reference_activation_forward(queue, type, kind, rows, width, x, y));
  tri_reference_store(type, y, rows.capacity * width, 0.5);
  return TRI_OK;
}
#endif

static tri_status gelu_before_beginning(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                        int64_t width, const void *x, void *y) {
  TRI_TRY(tri_reference_activation_forward(queue, type, kind, rows, width, x, y));
  tri_reference_store(type, (char *)y - 16, 0, 0.5);
  return TRI_OK;
}

static tri_status gelu_writes_input(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                                    const void *x, void *y) {
  TRI_TRY(tri_reference_activation_forward(queue, type, kind, rows, width, x, y));
  if (rows.capacity > 0) tri_reference_store(type, (void *)(uintptr_t)x, 0, 0.5);
  return TRI_OK;
}

static tri_status swiglu_of_all_rows(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                     int64_t width, const void *x, void *y) {
  return tri_reference_gated_forward(queue, type, kind, tri_all_rows(rows.capacity), width, x, y);
}

static tri_status column_sum_forgets(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                     const void *in, void *out, bool accumulate) {
  (void)accumulate;
  return tri_reference_column_sum(queue, type, rows, width, ld, in, out, false);
}

static tri_status column_sum_adds_to_poison(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                            const void *in, void *out, bool accumulate) {
  (void)accumulate;
  return tri_reference_column_sum(queue, type, rows, width, ld, in, out, true);
}

static tri_status matmul_writes_gaps(tri_queue *queue, const tri_matmul *product, const void *a, const void *b,
                                     const void *bias, void *c, void *workspace) {
  TRI_TRY(tri_reference_matmul(queue, product, a, b, bias, c, workspace));
  if (product->ldc > product->n && product->m > 1) tri_reference_store(product->c_type, c, product->n, 0.0);
  return TRI_OK;
}

/* One of many elements is wrong. */
static tri_status matmul_wrong_corner(tri_queue *queue, const tri_matmul *product, const void *a, const void *b,
                                      const void *bias, void *c, void *workspace) {
  TRI_TRY(tri_reference_matmul(queue, product, a, b, bias, c, workspace));
  if (product->m > 60 && product->n > 60) tri_reference_store(product->c_type, c, product->n - 1, 0.0);
  return TRI_OK;
}

/* Sums in fp32, whatever the type. */
static tri_status sum_in_fp32(tri_queue *queue, tri_dtype type, int64_t count, const void *in, double *out,
                              bool accumulate) {
  (void)queue;
  float sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (float)tri_reference_load(tri_dtype_wide(type), in, i);
  *out = accumulate ? *out + (double)sum : (double)sum;
  return TRI_OK;
}

/* Differs in each call, within every tolerance, as sums with atomics do. */
static tri_status rescale_by_chance(tri_queue *queue, tri_dtype type, int64_t rows, const void *from, const void *to,
                                    void *sum) {
  static unsigned calls;
  TRI_TRY(tri_reference_softmax_rescale(queue, type, rows, from, to, sum));
  if (rows > 0 && calls++ % 2 == 0) *(unsigned char *)sum ^= 1;
  return TRI_OK;
}

static tri_status attention_sees_the_future(tri_queue *queue, const tri_attention *call,
                                            const tri_attention_slice *slices, const void *q, const void *k,
                                            const void *v, void *out, void *log_sum_exp, void *workspace) {
  tri_attention_slice other[64];
  if (call->num_slices == 0 || call->num_slices > 64 || call->shares_queries || call->shares_keys) {
    return tri_reference_attention_forward(queue, call, slices, q, k, v, out, log_sum_exp, workspace);
  }
  memcpy(other, slices, (size_t)call->num_slices * sizeof other[0]);
  for (int64_t i = 0; i < call->num_slices; i++) other[i].to = other[i].keys;
  return tri_reference_attention_forward(queue, call, other, q, k, v, out, log_sum_exp, workspace);
}

static tri_status squares_miss_what_is_not_finite(tri_queue *queue, tri_dtype type, int64_t count, int64_t block,
                                                  const void *in, tri_exact_sum *sum) {
  const int64_t before = sum->not_finite;
  TRI_TRY(tri_reference_block_squares(queue, type, count, block, in, sum));
  sum->not_finite = before;
  return TRI_OK;
}

static tri_status exact_add_rounds(tri_queue *queue, const double *value, tri_exact_sum *sum) {
  const double rounded = (double)(float)*value;
  return tri_reference_exact_add(queue, &rounded, sum);
}

static tri_status rope_fails(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t row_elements, int64_t heads,
                             int64_t head_stride, int64_t head_dim, const int32_t *positions, const void *cosine,
                             const void *sine, bool inverse, void *x) {
  if (rows.capacity == 17) return tri_fail(TRI_DEVICE_FAILED, "it fell off the bus");
  return tri_reference_rope(queue, type, rows, row_elements, heads, head_stride, head_dim, positions, cosine, sine,
                            inverse, x);
}

/* ---- a device with one of them ----------------------------------------------------------------------------------- */

static tri_status open_with_table(const void *which, tri_device **out) {
  TRI_TRY(tri_device_create("reference", 1, out));
  (*out)->kernels = which;
  (*out)->info.types |= 1u << TRI_BF16;
  return TRI_OK;
}

static const kernel_cases *cases_of(const char *name) {
  const kernel_cases *k = all_kernels;
  while (strcmp(k->name, name) != 0) k++;
  return k;
}

static kernel_result run(const tri_device_kernels *table, const kernel_cases *kernel, tri_dtype type, uint64_t seed) {
  checker c = {.open = open_with_table, .which = table, .seed = seed, .quick = true};
  kernel_result result;
  CHECK_OK(checker_open(&c));
  CHECK_OK(checker_run(&c, kernel, type, &result));
  checker_close(&c);
  return result;
}

static const tri_dtype types[] = {TRI_FP64, TRI_FP32, TRI_BF16};

/* Checks that the first failure contains `text`, for every type. */
static void check_found(const tri_device_kernels *table, const char *name, const char *text) {
  for (int t = 0; t < 3; t++) {
    const kernel_result r = run(table, cases_of(name), types[t], 100);
    if (r.failures == 0) fail_msg("nothing is found in %s (%s)", name, tri_dtype_name(types[t]));
    if (strstr(r.first, text) == NULL) fail_msg("%s: no \"%s\" in: %s", name, text, r.first);
  }
}

#define PLANTED(slot, function, text)                                                                                  \
  do {                                                                                                                 \
    tri_device_kernels table = tri_reference_kernels;                                                                  \
    table.slot = function;                                                                                             \
    check_found(&table, #slot, text);                                                                                  \
  } while (0)

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_the_reference_is_right(void **state) {
  (void)state;
  for (const kernel_cases *k = all_kernels; k->name != NULL; k++) {
    for (int t = 0; t < 3; t++) {
      const kernel_result r = run(&tri_reference_kernels, k, types[t], 200);
      if (r.failures > 0) fail_msg("%s: %s", k->name, r.first);
      assert_true(r.worst == 0);
      assert_in_range(r.cases, 6, 1000);
    }
  }
}

static void test_wrong_numbers_are_found(void **state) {
  (void)state;
  PLANTED(add, add_last_bit, "element 2 of");
  PLANTED(matmul, matmul_wrong_corner, "c is off by");
  PLANTED(column_sum, column_sum_forgets, "out is off by");
  PLANTED(attention_forward, attention_sees_the_future, "is off by");
  PLANTED(sum, sum_in_fp32, "tolerance 1e-12");
  PLANTED(exact_add, exact_add_rounds, "sum is");
  PLANTED(block_squares, squares_miss_what_is_not_finite, "should be nan");
}

static void test_memory_that_is_not_its_own_is_found(void **state) {
  (void)state;
  PLANTED(activation_forward, gelu_without_tail, "y is off by inf");
  PLANTED(activation_forward, gelu_writes_input, "of x, which is not its to write");
  PLANTED(activation_forward, gelu_before_beginning, "before y");
  PLANTED(gated_forward, swiglu_of_all_rows, "of y, which is not its to write");
  PLANTED(column_sum, column_sum_adds_to_poison, "out is off by inf");
  PLANTED(matmul, matmul_writes_gaps, "of c, which is not its to write");
}

/* After the arguments of the second call, host memory ends: AddressSanitizer would stop the write, as a guarded device
 * would. */
#if !TRI_ADDRESS_SANITIZER
static void test_writing_beyond_the_end_is_found(void **state) {
  (void)state;
  PLANTED(activation_forward, gelu_beyond_end, "behind the end of y");
}
#endif

static void test_other_bits_are_found(void **state) {
  (void)state;
  PLANTED(softmax_rescale, rescale_by_chance, "a second call on the same inputs gave other bits of sum");
}

static void test_faults_and_missing_kernels(void **state) {
  (void)state;
  PLANTED(rope, rope_fails, "it fell off the bus");
  PLANTED(gated_backward, NULL, "no such kernel");
  tri_device_kernels table = tri_reference_kernels;
  table.dropout = NULL;
  assert_true(run(&table, cases_of("dropout"), TRI_FP32, 1).missing);
  assert_false(run(&table, cases_of("matmul_pack"), TRI_FP32, 1).missing); /* the reference packs nothing */
}

/* A seed gives the same problems, whichever kernels are tested before. */
static void test_a_seed_repeats(void **state) {
  (void)state;
  tri_device_kernels table = tri_reference_kernels;
  table.activation_forward = gelu_without_tail;
  const kernel_result first = run(&table, cases_of("activation_forward"), TRI_FP32, 7);
  const kernel_result again = run(&table, cases_of("activation_forward"), TRI_FP32, 7);
  const kernel_result other = run(&table, cases_of("activation_forward"), TRI_FP32, 8);
  assert_string_equal(first.first, again.first);
  assert_string_not_equal(first.first, other.first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_reference_is_right),
    cmocka_unit_test(test_wrong_numbers_are_found),
    cmocka_unit_test(test_memory_that_is_not_its_own_is_found),
#if !TRI_ADDRESS_SANITIZER
    cmocka_unit_test(test_writing_beyond_the_end_is_found),
#endif
    cmocka_unit_test(test_other_bits_are_found),
    cmocka_unit_test(test_faults_and_missing_kernels),
    cmocka_unit_test(test_a_seed_repeats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
