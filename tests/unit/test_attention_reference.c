/* The reference's attention against two oracles: formulas with whole T x T matrices, and finite differences. */
#include "attention_problem.h"

#include "base/status.h"
#include "device/reference/reference.h"

static double scale_of(const shape *s) { return s->scale > 0 ? s->scale : 1 / sqrt((double)s->head_dim); }

/* Returns the derivative of a score with respect to its product q k. */
static double slope_of(const shape *s, double product) {
  return s->soft_cap > 0 ? scale_of(s) / pow(cosh(scale_of(s) * product / s->soft_cap), 2) : scale_of(s);
}

/* One head with whole matrices: p = softmax(mask(score(q k^T))), out = p v, and backwards by the Jacobian of softmax.
 */
static void naive_head(const shape *s, const double *q, const double *k, const double *v, const double *g, int64_t b,
                       int64_t h, results *r) {
  const int64_t n = s->queries, m = s->keys, D = s->head_dim, H = s->heads, G = s->kv_heads, kv = h / (H / G);
  double *p = calloc((size_t)(n * m), sizeof *p), *dp = calloc((size_t)(n * m), sizeof *dp);
  double *slope = calloc((size_t)(n * m), sizeof *slope);
  if (p == NULL || dp == NULL || slope == NULL) abort();
#define Q(t, d) ((b * n + (t)) * H + h) * D + (d)
#define K(t, d) ((b * m + (t)) * G + kv) * D + (d)
  for (int64_t i = 0; i < n; i++) {
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < m; j++) {
      p[i * m + j] = -INFINITY;
      if (j > i + m - n) continue;
      p[i * m + j] = 0;
      for (int64_t d = 0; d < D; d++) p[i * m + j] += q[Q(i, d)] * k[K(j, d)];
      slope[i * m + j] = slope_of(s, p[i * m + j]);
      p[i * m + j] *= scale_of(s);
      if (s->soft_cap > 0) p[i * m + j] = s->soft_cap * tanh(p[i * m + j] / s->soft_cap);
      most = fmax(most, p[i * m + j]);
    }
    for (int64_t j = 0; j < m; j++) sum += exp(p[i * m + j] - most);
    r->values[LOG_SUM_EXP][(h * s->batch + b) * n + i] = most + log(sum);
    for (int64_t j = 0; j < m; j++) p[i * m + j] = exp(p[i * m + j] - most) / sum;
    for (int64_t j = 0; j < m; j++)
      for (int64_t d = 0; d < D; d++) {
        r->values[OUT][Q(i, d)] += p[i * m + j] * v[K(j, d)];
        r->values[GRADIENT_V][K(j, d)] += p[i * m + j] * g[Q(i, d)];
        dp[i * m + j] += g[Q(i, d)] * v[K(j, d)];
      }
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      double ds = 0; /* sum over l of dp_l * dp_l / ds_j */
      for (int64_t l = 0; l < m; l++) ds += dp[i * m + l] * p[i * m + l] * ((l == j) - p[i * m + j]);
      for (int64_t d = 0; d < D; d++) {
        r->values[GRADIENT_Q][Q(i, d)] += ds * slope[i * m + j] * k[K(j, d)];
        r->values[GRADIENT_K][K(j, d)] += ds * slope[i * m + j] * q[Q(i, d)];
      }
    }
#undef Q
#undef K
  free(p);
  free(dp);
  free(slope);
}

static results naive(const shape *s, const tensors *x) {
  const tri_attention *c = &x->problem.call;
  results inputs = results_make(s), r = results_make(s);
  gather(inputs.values[GRADIENT_Q], c->type, x->q, c->query_rows, c->q_row, s->heads * s->head_dim);
  gather(inputs.values[GRADIENT_K], c->type, x->k, c->key_rows, c->k_row, s->kv_heads * s->head_dim);
  gather(inputs.values[GRADIENT_V], c->type, x->v, c->key_rows, c->v_row, s->kv_heads * s->head_dim);
  gather(inputs.values[OUT], c->type, x->gradient_out.data, 1, 0, inputs.count[OUT]);
  for (int64_t b = 0; b < s->batch; b++)
    for (int64_t h = 0; h < s->heads; h++)
      naive_head(s, inputs.values[GRADIENT_Q], inputs.values[GRADIENT_K], inputs.values[GRADIENT_V], inputs.values[OUT],
                 b, h, &r);
  results_free(&inputs);
  return r;
}

static void test_whole_matrices(void **state) {
  (void)state;
  static const shape shapes[] = {
      {1, 1, 1, 1, 1, 1, 1, 0, 0},         {2, 2, 2, 4, 4, 8, 1, 0, 0},     {2, 3, 3, 4, 1, 17, 1, 0, 0},
      {1, 17, 17, 6, 2, 5, 1, 0, 0},       {1, 65, 65, 6, 2, 8, 1, 0, 0},   {1, 1, 9, 4, 2, 16, 1, 0, 0},
      {2, 5, 21, 2, 1, 7, 1, 0, 0},        {1, 33, 33, 1, 1, 16, 20, 0, 0}, {1, 20, 20, 2, 2, 4, 200, 0, 0},
      {2, 9, 9, 4, 2, 8, 1, 0.7, 0},       {1, 33, 33, 6, 2, 8, 1, 0, 2},   {1, 5, 21, 2, 1, 7, 1, 1.5, 50},
      {1, 20, 20, 2, 2, 4, 1, 0.01, 0.03}, {1, 20, 20, 2, 2, 4, 200, 0, 30}};
  static const struct {
    tri_dtype type;
    double tolerance;
  } types[] = {{TRI_FP64, 1e-12}, {TRI_FP32, 2e-6}, {TRI_BF16, 8e-3}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (size_t t = 0; t < 3; t++) {
      const shape *s = &shapes[i];
      if (types[t].type != TRI_FP64 && s->size > 1) continue; /* fp32 statistics are too inexact for large scores */
      tensors x = tensors_make(s, types[t].type);
      reference_forward(&x);
      reference_backward(&x);
      results got = results_of(s, &x), want = naive(s, &x);
      for (part what = OUT; what < PARTS; what++)
        assert_near(tri_dtype_name(types[t].type), s, what, &got, &want, types[t].tolerance);
      assert_gaps_untouched(&x);
      results_free(&got);
      results_free(&want);
      tensors_free(&x);
    }
  }
}

/* sum over the elements of out * gradient_out */
static double objective(const tensors *x) {
  reference_forward(x);
  double sum = 0;
  const int64_t count = (int64_t)(x->out.bytes / sizeof(double));
  for (int64_t i = 0; i < count; i++) sum += ((double *)x->out.data)[i] * ((double *)x->gradient_out.data)[i];
  return sum;
}

static void test_finite_differences(void **state) {
  (void)state;
  static const shape shapes[] = {{1, 1, 1, 1, 1, 1, 1, 0, 0},   {1, 2, 2, 1, 1, 3, 1, 0, 0},
                                 {2, 5, 5, 4, 2, 3, 1, 0, 0},   {1, 3, 7, 2, 1, 4, 1, 0, 0},
                                 {1, 9, 9, 3, 3, 2, 2, 0, 0},   {2, 5, 5, 4, 2, 3, 1, 0.8, 0},
                                 {2, 5, 5, 4, 2, 3, 1, 0, 1.5}, {1, 3, 7, 2, 1, 4, 2, 1, 4}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const shape *s = &shapes[i];
    tensors x = tensors_make(s, TRI_FP64);
    reference_forward(&x);
    reference_backward(&x);
    double *inputs[] = {x.q_buffer.data, x.kv_buffer.data};
    const double *gradients[] = {x.gradient_q_buffer.data, x.gradient_kv_buffer.data};
    const size_t bytes[] = {x.q_buffer.bytes, x.kv_buffer.bytes};
    for (int which = 0; which < 2; which++) {
      for (size_t e = 0; e < bytes[which] / sizeof(double); e++) {
        const double value = inputs[which][e], step = 1e-5;
        if (isnan(value)) continue; /* a gap */
        inputs[which][e] = value + step;
        const double above = objective(&x);
        inputs[which][e] = value - step;
        const double below = objective(&x), expected = (above - below) / (2 * step);
        inputs[which][e] = value;
        if (!(fabs(gradients[which][e] - expected) <= 1e-8 * (1 + fabs(expected))))
          fail_msg("shape %zu, buffer %d, element %zu: %.12g, by differences %.12g", i, which, e, gradients[which][e],
                   expected);
      }
    }
    tensors_free(&x);
  }
}

static void test_bad_call(void **state) {
  (void)state;
  size_t bytes;
  const problem good = problem_make(&(shape){2, 4, 4, 4, 2, 8, 1, 0, 0}, TRI_BF16);
  tri_attention c = good.call;
  c.kv_heads = 3;
  assert_int_equal(tri_reference_attention_workspace(NULL, &c, &bytes), TRI_INTERNAL);
  assert_non_null(strstr(tri_status_message(), "4 heads over 3"));
  c = good.call;
  c.gradient_type = TRI_FP64;
  assert_int_equal(tri_reference_attention_workspace(NULL, &c, &bytes), TRI_INTERNAL);
  assert_non_null(strstr(tri_status_message(), "in bf16 into bf16 and fp64"));
  for (int i = 0; i < 3; i++) {
    c = good.call;
    c.soft_cap = (double[]){-1, NAN, 0}[i];
    if (i == 2) c.scale = NAN;
    assert_int_equal(tri_reference_attention_workspace(NULL, &c, &bytes), TRI_INTERNAL);
    assert_non_null(strstr(tri_status_message(), i == 0 ? "cap -1" : "nan"));
  }
}

static void test_bad_slices(void **state) {
  (void)state;
  const problem good = problem_make(&(shape){2, 4, 4, 4, 2, 8, 1, 0, 0}, TRI_FP64);
  static const struct {
    tri_attention_slice second;
    const char *message;
  } cases[] = {
      {{4, 5, 4, 4, -4, 0}, "slice 1 of attention, 5 queries from 4 on 4 keys from 4 (i-4 to i+0), is outside"},
      {{5, 4, 4, 4, -4, 0}, "is outside the rows"},
      {{4, 4, 5, 4, -4, 0}, "is outside the rows"},
      {{4, 4, -1, 4, -4, 0}, "is outside the rows"},
      {{4, -4, 4, 4, -4, 0}, "is outside the rows"},
      {{4, 4, 4, 4, 2, 1}, "(i+2 to i+1), sees nothing: its band ends before it begins"},
      {{3, 4, 4, 4, -4, 0}, "overlaps the slices before it"},
      {{4, 4, 3, 4, -4, 4}, "overlaps the slices before it"},
  };
  int64_t live = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    problem p = good;
    p.slices[1] = cases[i].second;
    assert_int_equal(tri_attention_slices_check(&p.call, p.slices, &live), TRI_INTERNAL);
    if (strstr(tri_status_message(), cases[i].message) == NULL) fail_msg("case %zu: %s", i, tri_status_message());
    assert_int_equal(tri_reference_attention_forward(NULL, &p.call, p.slices, NULL, NULL, NULL, NULL, NULL, NULL),
                     TRI_INTERNAL);
  }
  problem p = good;
  p.slices[1].keys = 0;
  assert_int_equal(tri_attention_slices_check(&p.call, p.slices, &live), TRI_OK);
  assert_int_equal(live, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole_matrices),
      cmocka_unit_test(test_finite_differences),
      cmocka_unit_test(test_bad_call),
      cmocka_unit_test(test_bad_slices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
