/* The CPU device's attention, every variant that this CPU can run, against the reference in double on equal inputs. */
#include "attention_problem.h"

#include "base/status.h"
#include "device/cpu/attention.h"

typedef struct variant {
  const char *name;
  const tri_attention_kernels *kernels;
  tri_dtype type;
  bool here;
  double tolerance;
} variant;

static variant variants[16];
static int variant_count;

static void offer(const char *name, const tri_attention_kernels *kernels, bool here) {
  if (!here) {
    print_message("SKIPPED: this CPU has no %s\n", name);
    return;
  }
  variants[variant_count++] = (variant){name, kernels, TRI_FP32, true, 3e-6};
  variants[variant_count++] = (variant){name, kernels, TRI_BF16, true, 1e-2};
}

static int set_up(void **state) {
  (void)state;
  offer("baseline", &tri_attention_floats_baseline, true);
#ifdef __x86_64__
  __builtin_cpu_init();
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  offer("avx2", &tri_attention_floats_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  offer("avx512", &tri_attention_floats_avx512, avx512);
  offer("avx512bf16", &tri_attention_floats_avx512bf16, bf16);
  if (bf16) variants[variant_count++] = (variant){"bf16 pairs", &tri_attention_pairs_avx512bf16, TRI_BF16, true, 1e-2};
#endif
  return 0;
}

static void cpu_forward(const variant *v, int threads, const tensors *x, bool statistics) {
  size_t bytes = 0;
  assert_int_equal(tri_attention_workspace_with(v->kernels, threads, &x->problem.call, &bytes), TRI_OK);
  buffer workspace = buffer_make(bytes);
  const tri_attention_forward job = {.call = &x->problem.call,
                                     .q = x->q,
                                     .k = x->k,
                                     .v = x->v,
                                     .out = x->out.data,
                                     .log_sum_exp = statistics ? x->log_sum_exp.data : NULL};
  assert_int_equal(tri_attention_forward_with(v->kernels, threads, &job, workspace.data), TRI_OK);
  buffer_free(&workspace);
}

static void cpu_backward(const variant *v, int threads, const tensors *x) {
  size_t bytes = 0;
  assert_int_equal(tri_attention_workspace_with(v->kernels, threads, &x->problem.call, &bytes), TRI_OK);
  buffer workspace = buffer_make(bytes);
  const tri_attention_backward job = {.call = &x->problem.call,
                                      .q = x->q,
                                      .k = x->k,
                                      .v = x->v,
                                      .out = x->out.data,
                                      .gradient_out = x->gradient_out.data,
                                      .log_sum_exp = x->log_sum_exp.data,
                                      .gradient_q = x->gradient_q,
                                      .gradient_k = x->gradient_k,
                                      .gradient_v = x->gradient_v};
  assert_int_equal(tri_attention_backward_with(v->kernels, threads, &job, workspace.data), TRI_OK);
  buffer_free(&workspace);
}

static results reference_results(const shape *s) {
  tensors x = tensors_make(s, TRI_FP64);
  reference_forward(&x);
  reference_backward(&x);
  results r = results_of(s, &x);
  tensors_free(&x);
  return r;
}

/* Runs one shape on every variant. `loosen` multiplies the tolerances. */
static void check_shape(const shape *s, double loosen) {
  results want = reference_results(s);
  for (const variant *v = variants; v < variants + variant_count; v++) {
    tensors x = tensors_make(s, v->type);
    cpu_forward(v, 1 + (int)(s->queries % 3), &x, true);
    cpu_backward(v, 1 + (int)(s->head_dim % 3), &x);
    results got = results_of(s, &x);
    for (part what = OUT; what < PARTS; what++) {
      char who[64];
      snprintf(who, sizeof who, "%s in %s", v->name, tri_dtype_name(v->type));
      assert_near(who, s, what, &got, &want, v->tolerance * loosen);
    }
    assert_gaps_untouched(&x);
    results_free(&got);
    tensors_free(&x);
  }
  results_free(&want);
}

static void test_against_reference(void **state) {
  (void)state;
  static const int64_t positions[] = {1, 2, 3, 17, 63, 64, 65, 129, 257}, widths[] = {1, 8, 17, 64, 80, 128};
  static const int64_t heads[][2] = {{1, 1}, {4, 4}, {4, 1}, {6, 2}};
  for (int t = 0; t < 9; t++) {
    for (int d = 0; d < 6; d++) {
      /* All combinations where they are cheap; each size of each kind where they are not. */
      for (int h = 0; h < 4; h++) {
        if (positions[t] > 17 && h != (t + d) % 4) continue;
        const int64_t batch = positions[t] < 64 ? 2 : 1;
        check_shape(&(shape){batch, positions[t], positions[t], heads[h][0], heads[h][1], widths[d], 1}, 1);
      }
    }
  }
}

static void test_cached_keys(void **state) {
  (void)state;
  static const shape shapes[] = {{1, 1, 2, 4, 2, 64, 1},   {2, 1, 100, 4, 1, 64, 1},  {1, 5, 300, 2, 2, 80, 1},
                                 {1, 70, 129, 2, 1, 8, 1}, {1, 64, 128, 1, 1, 17, 1}, {2, 3, 64, 6, 2, 33, 1},
                                 {1, 65, 66, 2, 2, 256, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_shape(&shapes[i], 1);
}

/* Scores of hundreds, whose exponentials overflow. fp32 scores of that size have errors that large, too. */
static void test_large_scores(void **state) {
  (void)state;
  for (double size = 10; size < 50; size *= 4) {
    check_shape(&(shape){1, 65, 65, 2, 1, 64, size}, size * size);
    check_shape(&(shape){2, 17, 17, 1, 1, 8, size}, size * size);
  }
}

static void assert_same_bits(const buffer *a, const buffer *b, const char *what, const variant *v, int threads) {
  if (memcmp(a->data, b->data, a->bytes) != 0)
    fail_msg("%s in %s: %s with %d threads differs", v->name, tri_dtype_name(v->type), what, threads);
}

static void test_threads(void **state) {
  (void)state;
  static const shape shapes[] = {{1, 200, 200, 1, 1, 16, 1},
                                 {1, 130, 130, 4, 1, 8, 1},
                                 {1, 257, 257, 6, 2, 17, 1},
                                 {2, 65, 65, 3, 3, 8, 1},
                                 {1, 100, 230, 2, 1, 24, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (const variant *v = variants; v < variants + variant_count; v++) {
      tensors first = tensors_make(&shapes[i], v->type);
      cpu_forward(v, 1, &first, true);
      cpu_backward(v, 1, &first);
      for (int threads = 1; threads <= 7; threads++) {
        tensors again = tensors_make(&shapes[i], v->type);
        cpu_forward(v, threads, &again, true);
        cpu_backward(v, threads, &again);
        assert_same_bits(&first.out, &again.out, "out", v, threads);
        assert_same_bits(&first.log_sum_exp, &again.log_sum_exp, "log_sum_exp", v, threads);
        assert_same_bits(&first.gradient_q_buffer, &again.gradient_q_buffer, "a gradient", v, threads);
        assert_same_bits(&first.gradient_kv_buffer, &again.gradient_kv_buffer, "a gradient", v, threads);
        tensors_free(&again);
      }
      tensors_free(&first);
    }
  }
}

/* What a later position holds, be it huge, never reaches an earlier one; and not-a-numbers are not lost. */
static void test_later_positions_are_hidden(void **state) {
  (void)state;
  const shape s = {1, 100, 100, 2, 1, 24, 1};
  const int64_t row = s.heads * s.head_dim;
  for (const variant *v = variants; v < variants + variant_count; v++) {
    tensors clean = tensors_make(&s, v->type);
    cpu_forward(v, 1, &clean, true);
    for (int64_t position = 0; position < 100; position += 33) {
      tensors huge = tensors_make(&s, v->type), bad_key = tensors_make(&s, v->type),
              bad_value = tensors_make(&s, v->type);
      const int64_t index = position * huge.problem.call.k_position;
      number_set(v->type, huge.k, index, 0x1p100);
      number_set(v->type, huge.v, index, 0x1p100);
      number_set(v->type, bad_key.k, index, NAN);
      number_set(v->type, bad_value.v, index, NAN);
      cpu_forward(v, 2, &huge, false);
      cpu_forward(v, 2, &bad_key, false);
      cpu_forward(v, 2, &bad_value, false);
      assert_memory_equal(huge.out.data, clean.out.data, (size_t)(position * row) * tri_dtype_bytes(v->type));
      for (int64_t e = position * row; e < s.queries * row; e++) {
        assert_true(isnan(number_get(v->type, bad_key.out.data, e)));
        if (e % s.head_dim == 0) assert_true(isnan(number_get(v->type, bad_value.out.data, e)));
      }
      tensors_free(&huge);
      tensors_free(&bad_key);
      tensors_free(&bad_value);
    }
    tensors_free(&clean);
  }
}

static void test_no_statistics(void **state) {
  (void)state;
  const shape s = {1, 70, 70, 2, 1, 24, 1};
  for (const variant *v = variants; v < variants + variant_count; v++) {
    tensors with = tensors_make(&s, v->type), without = tensors_make(&s, v->type);
    cpu_forward(v, 2, &with, true);
    cpu_forward(v, 2, &without, false);
    assert_same_bits(&with.out, &without.out, "out", v, 2);
    for (size_t i = 0; i < without.log_sum_exp.bytes; i++)
      assert_int_equal(((unsigned char *)without.log_sum_exp.data)[i], POISON);
    tensors_free(&with);
    tensors_free(&without);
  }
}

/* Doubling the positions at most doubles the workspace, of each variant and any number of threads. */
static void test_workspace_is_linear(void **state) {
  (void)state;
  for (const variant *v = variants; v < variants + variant_count; v++) {
    for (int threads = 1; threads < 70; threads += 17) {
      for (int64_t positions = 256; positions <= 1 << 20; positions *= 2) {
        size_t bytes = 0, doubled = 0;
        tri_attention c = problem_make(&(shape){1, positions, positions, 8, 2, 64, 1}, v->type).call;
        tri_attention c2 = problem_make(&(shape){1, 2 * positions, 2 * positions, 8, 2, 64, 1}, v->type).call;
        assert_int_equal(tri_attention_workspace_with(v->kernels, threads, &c, &bytes), TRI_OK);
        assert_int_equal(tri_attention_workspace_with(v->kernels, threads, &c2, &doubled), TRI_OK);
        assert_true(doubled <= 2 * bytes);
      }
    }
  }
}

static void test_bad_call(void **state) {
  (void)state;
  const variant *v = &variants[0];
  size_t bytes;
  tri_attention c = problem_make(&(shape){1, 4, 4, 4, 2, 8, 1}, TRI_FP64).call;
  assert_int_equal(tri_attention_workspace_with(v->kernels, 1, &c, &bytes), TRI_UNSUPPORTED);
  assert_non_null(strstr(tri_status_message(), "fp32 or bf16, not fp64; use device: reference"));
  c.type = TRI_FP32;
  c.queries = 5;
  assert_int_equal(tri_attention_workspace_with(v->kernels, 1, &c, &bytes), TRI_INTERNAL);
  assert_non_null(strstr(tri_status_message(), "5 queries, 4 keys"));
  c.queries = 4;
  c.kv_heads = 3;
  assert_int_equal(tri_attention_workspace_with(v->kernels, 1, &c, &bytes), TRI_INTERNAL);
  assert_non_null(strstr(tri_status_message(), "4 heads over 3"));
}

static void test_nothing_to_do(void **state) {
  (void)state;
  for (const variant *v = variants; v < variants + variant_count; v++) {
    tensors x = tensors_make(&(shape){0, 8, 8, 2, 1, 8, 1}, v->type);
    cpu_forward(v, 2, &x, true);
    cpu_backward(v, 2, &x);
    tensors_free(&x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_reference),
      cmocka_unit_test(test_cached_keys),
      cmocka_unit_test(test_large_scores),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_later_positions_are_hidden),
      cmocka_unit_test(test_no_statistics),
      cmocka_unit_test(test_workspace_is_linear),
      cmocka_unit_test(test_bad_call),
      cmocka_unit_test(test_nothing_to_do),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
