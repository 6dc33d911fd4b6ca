/* Routers, compared with their formulas in double, which are computed in another way: an expert's rank is the number of
 * experts that are better. Gradients are compared with finite differences. Logits are on a grid, so that they are
 * either equal or far apart: every device then chooses the same experts. Some rows are not tokens: their logits are
 * NaN, which must change nothing. */
#include "base/random.h"
#include "check.h"
#include "device/kernels.h"
#include "draws.h"
#include "mesh/label.h"
#include "sanitized.h"
#include "typed_array.h"
#include "vector_units.h"

enum { ROWS = 61, CAPACITY = 64, FIRST_ROW = 11, SEQUENCE_ROWS = 20, SEQUENCES = 5 };

static const struct {
  tri_router router;
  bool bias;
} cases[] = {
    {{8, 2, 1, 1, 1, 1.0, TRI_ROUTER_SOFTMAX, false, true}, false},       /* Mixtral */
    {{64, 8, 1, 1, 1, 1.0, TRI_ROUTER_SOFTMAX, false, false}, false},     /* OLMoE */
    {{128, 8, 1, 1, 1, 1.0, TRI_ROUTER_SOFTMAX, false, true}, false},     /* Qwen3 */
    {{256, 8, 8, 4, 2, 2.5, TRI_ROUTER_SIGMOID, false, true}, true},      /* DeepSeek-V3 */
    {{36, 4, 4, 2, 1, 1.5, TRI_ROUTER_SIGMOID, false, false}, false},     /* weights that are not normalised */
    {{64, 8, 8, 8, 1, 1.0, TRI_ROUTER_SOFTMAX, true, false}, false},      /* Pangu: one of each group */
    {{48, 6, 6, 3, 2, 1.0, TRI_ROUTER_SIGMOID, true, true}, true},        /* two of each of the best groups */
    {{67, 6, 1, 1, 1, 0.5, TRI_ROUTER_SOFTMAX, false, true}, true},       /* not a multiple of a vector */
    {{1, 1, 1, 1, 1, 1.0, TRI_ROUTER_SOFTMAX, false, true}, false},       /* one expert */
    {{9, 9, 3, 3, 3, 1.0, TRI_ROUTER_SIGMOID, false, true}, true},        /* all experts */
    {{1024, 64, 32, 16, 3, 1.0, TRI_ROUTER_SOFTMAX, false, true}, false}, /* the maximum */
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

/* ---- the formulas ------------------------------------------------------------------------------------------------ */

static double log_sum_exp(const double *logits, int64_t experts) {
  double sum = 0;
  for (int64_t i = 0; i < experts; i++) sum += exp(logits[i]);
  return log(sum);
}

static void score(const tri_router *r, const double *logits, double *p) {
  const double all = log_sum_exp(logits, r->experts);
  for (int64_t i = 0; i < r->experts; i++) {
    switch (r->scoring) {
      case TRI_ROUTER_SOFTMAX: p[i] = exp(logits[i] - all); break;
      case TRI_ROUTER_SIGMOID: p[i] = 0.5 + 0.5 * tanh(0.5 * logits[i]); break;
    }
  }
}

/* Returns the number of marked values in [first, end) that are better than value i. */
static int64_t place_of(const double *values, const bool *marked, int64_t first, int64_t end, int64_t i) {
  int64_t better = 0;
  for (int64_t j = first; j < end; j++) {
    better += marked[j] && (values[j] > values[i] || (values[j] == values[i] && j < i));
  }
  return better;
}

static void choose(const tri_router *r, const double *choice, int32_t *experts) {
  bool all[TRI_ROUTER_EXPERTS] = {0}, marked[TRI_ROUTER_EXPERTS] = {0};
  double best[TRI_ROUTER_EXPERTS] = {0};
  const int64_t width = r->experts / r->groups;
  memset(all, true, sizeof all);
  for (int64_t g = 0; g < r->groups; g++) {
    const int64_t first = g * width, end = first + width;
    best[g] = 0;
    for (int64_t i = first; i < end; i++) {
      if (place_of(choice, all, first, end, i) < r->best_of_group) best[g] += choice[i];
    }
  }
  for (int64_t g = 0; g < r->groups; g++) {
    const int64_t first = g * width, end = first + width;
    for (int64_t i = first; i < end; i++) {
      marked[i] = place_of(best, all, 0, r->groups, g) < r->kept_groups;
      if (r->quota && place_of(choice, all, first, end, i) >= r->chosen / r->kept_groups) marked[i] = false;
    }
  }
  for (int64_t i = 0; i < r->experts; i++) {
    const int64_t place = place_of(choice, marked, 0, r->experts, i);
    if (marked[i] && place < r->chosen) experts[place] = (int32_t)i;
  }
}

static void weigh(const tri_router *r, const double *logits, const int32_t *experts, double *weights) {
  double p[TRI_ROUTER_EXPERTS] = {0}, sum = 0;
  score(r, logits, p);
  for (int64_t j = 0; j < r->chosen; j++) sum += p[experts[j]];
  for (int64_t j = 0; j < r->chosen; j++) weights[j] = r->scale * p[experts[j]] / (r->normalised ? sum : 1.0);
}

/* ---- a problem --------------------------------------------------------------------------------------------------- */

typedef struct problem {
  tri_device *device;
  const tri_router *router;
  tri_dtype type;
  double tolerance;
  typed_array labels, logits, bias, experts, weights, gradient_weights, balance, gradient;
  int32_t live;
  tri_rows rows;
} problem;

#define KERNEL(name, ...) CHECK_OK(x->device->kernels->name(x->device->queue, x->type, __VA_ARGS__))

static bool is_token(int64_t row) { return row % 7 != 4; }

static void problem_begin(problem *x, tri_device *device, tri_dtype type, int which) {
  const tri_router *r = &cases[which].router;
  const tri_dtype wide = tri_dtype_wide(type);
  draws d = {tri_random_stream(7, TRI_RANDOM_TEST, (uint64_t)which), 0};
  *x = (problem){.device = device, .router = r, .type = type, .live = ROWS};
  x->rows = (tri_rows){CAPACITY, &x->live};
  x->tolerance = wide == TRI_FP64 ? 1e-12 : 3e-6;
  x->labels = typed_make(TRI_INT32, CAPACITY);
  x->logits = typed_make(wide, CAPACITY * r->experts);
  x->bias = typed_make(wide, r->experts);
  x->experts = typed_make(TRI_INT32, CAPACITY * r->chosen);
  x->weights = typed_make(wide, CAPACITY * r->chosen);
  x->gradient_weights = typed_make(wide, CAPACITY * r->chosen);
  x->balance = typed_make(wide, SEQUENCES * r->experts);
  x->gradient = typed_make(wide, CAPACITY * r->experts);
  for (int64_t i = 0; i < CAPACITY * r->experts; i++) {
    const double logit = (double)pick(&d, -24, 24) / 8;
    typed_put(&x->logits, i, i < ROWS * r->experts && is_token(i / r->experts) ? logit : NAN);
  }
  for (int64_t row = 0; row < CAPACITY; row++) {
    const double token = row % 3 == 0 ? TRI_LABEL_NONE : (double)row;
    typed_put(&x->labels, row, is_token(row) ? token : TRI_LABEL_PADDING);
  }
  for (int64_t i = 0; i < r->experts; i++) typed_put(&x->bias, i, (double)pick(&d, 0, 7) * 0.046875);
  for (int64_t i = 0; i < ROWS * r->chosen; i++) {
    typed_put(&x->gradient_weights, i, (double)pick(&d, -64, 64) / 32);
  }
  for (int64_t i = 0; i < SEQUENCES * r->experts; i++) typed_put(&x->balance, i, (double)pick(&d, 0, 64) / 32);
}

static void problem_end(problem *x) {
  const typed_array *all[] = {&x->labels,  &x->logits,           &x->bias,    &x->experts,
                              &x->weights, &x->gradient_weights, &x->balance, &x->gradient};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

static const int32_t *experts_of(const problem *x, int64_t row) {
  return (const int32_t *)x->experts.data + row * x->router->chosen;
}

static void logits_of(const problem *x, int64_t row, double *out) {
  for (int64_t i = 0; i < x->router->experts; i++) out[i] = typed_get(&x->logits, row * x->router->experts + i);
}

static void check_near(const problem *x, double got, double expected, double tolerance, const char *what, int64_t row) {
  if (fabs(got - expected) <= tolerance) return;
  fail_msg("%s of %lld experts on %s, %s: row %lld has %.17g, not %.17g", what, (long long)x->router->experts,
           x->device->info.name, tri_dtype_name(x->type), (long long)row, got, expected);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void forward(problem *x, bool bias) {
  KERNEL(router_forward, x->rows, x->router, x->labels.data, x->logits.data, bias ? x->bias.data : NULL,
         x->experts.data, x->weights.data);
}

static void check_forward(problem *x, bool bias) {
  const tri_router *r = x->router;
  double logits[TRI_ROUTER_EXPERTS] = {0}, choice[TRI_ROUTER_EXPERTS] = {0}, weights[TRI_ROUTER_CHOSEN] = {0};
  int32_t experts[TRI_ROUTER_CHOSEN] = {0};
  forward(x, bias);
  for (int64_t row = 0; row < ROWS; row++) {
    for (int64_t j = 0; j < r->chosen && !is_token(row); j++) {
      assert_int_equal(experts_of(x, row)[j], -1);
      assert_true(typed_get(&x->weights, row * r->chosen + j) == 0);
    }
    if (!is_token(row)) continue;
    logits_of(x, row, logits);
    score(r, logits, choice);
    for (int64_t i = 0; bias && i < r->experts; i++) choice[i] += typed_get(&x->bias, i);
    /* Values that differ only by rounding count as equal. */
    for (int64_t i = 0; i < r->experts; i++) choice[i] = round(choice[i] * 0x1p40) * 0x1p-40;
    choose(r, choice, experts);
    weigh(r, logits, experts, weights);
    for (int64_t j = 0; j < r->chosen; j++) {
      check_near(x, experts_of(x, row)[j], experts[j], 0, "the experts", row);
      check_near(x, typed_get(&x->weights, row * r->chosen + j), weights[j], x->tolerance, "the weights", row);
    }
  }
  assert_true(typed_untouched(&x->experts, ROWS * r->chosen, CAPACITY * r->chosen));
  assert_true(typed_untouched(&x->weights, ROWS * r->chosen, CAPACITY * r->chosen));
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static const tri_step_values values = {.token_scale = 0.25, .sequence_scale = 0.5};
static const double z = 0.75;

/* Returns the loss of one row, whose gradient router_backward computes. */
static double loss_of(const problem *x, int64_t row, const double *logits, bool losses) {
  const tri_router *r = x->router;
  double weights[TRI_ROUTER_CHOSEN] = {0}, p[TRI_ROUTER_EXPERTS] = {0}, loss = 0, sum = 0;
  if (!is_token(row)) return 0;
  weigh(r, logits, experts_of(x, row), weights);
  for (int64_t j = 0; j < r->chosen; j++) loss += weights[j] * typed_get(&x->gradient_weights, row * r->chosen + j);
  if (!losses) return loss;
  score(r, logits, p);
  for (int64_t i = 0; i < r->experts; i++) sum += p[i];
  for (int64_t i = 0; i < r->experts; i++) {
    loss += typed_get(&x->balance, (FIRST_ROW + row) / SEQUENCE_ROWS * r->experts + i) * p[i] / sum;
  }
  return loss + z * values.token_scale * pow(log_sum_exp(logits, r->experts), 2);
}

static void check_backward(problem *x, bool losses) {
  const tri_router *r = x->router;
  const double h = 1e-4, tolerance = tri_dtype_wide(x->type) == TRI_FP64 ? 1e-7 : 1e-5;
  double logits[TRI_ROUTER_EXPERTS] = {0};
  KERNEL(router_backward, x->rows, r, x->logits.data, x->experts.data, x->weights.data, x->gradient_weights.data,
         losses ? x->balance.data : NULL, FIRST_ROW, losses ? SEQUENCE_ROWS : 0, losses ? z : 0, &values,
         x->gradient.data);
  for (int64_t row = 0; row < ROWS; row += SANITIZED ? 12 : 3) {
    logits_of(x, row, logits);
    for (int64_t i = 0; i < r->experts; i += 1 + r->experts / 100) {
      const double at = logits[i];
      logits[i] = at + h;
      const double more = loss_of(x, row, logits, losses);
      logits[i] = at - h;
      const double less = loss_of(x, row, logits, losses);
      logits[i] = at;
      check_near(x, typed_get(&x->gradient, row * r->experts + i), (more - less) / (2 * h), tolerance, "the gradient",
                 row);
    }
  }
  assert_true(typed_untouched(&x->gradient, ROWS * r->experts, CAPACITY * r->experts));
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* Sums the choices and the scores of each sequence's rows; one sequence has no rows here. */
static void check_loads(problem *x, typed_array *loads) {
  const tri_router *r = x->router;
  double logits[TRI_ROUTER_EXPERTS] = {0}, p[TRI_ROUTER_EXPERTS] = {0};
  double *expected = calloc((size_t)(SEQUENCES * 2 * r->experts), sizeof *expected);
  assert_non_null(expected);
  KERNEL(router_loads, x->rows, r, x->logits.data, x->experts.data, FIRST_ROW, SEQUENCE_ROWS, SEQUENCES, loads->data);
  for (int64_t row = 0; row < ROWS; row++) {
    if (!is_token(row)) continue;
    double *counts = expected + (FIRST_ROW + row) / SEQUENCE_ROWS * 2 * r->experts, sum = 0;
    logits_of(x, row, logits);
    score(r, logits, p);
    for (int64_t i = 0; i < r->experts; i++) sum += p[i];
    for (int64_t i = 0; i < r->experts; i++) counts[r->experts + i] += p[i] / sum;
    for (int64_t j = 0; j < r->chosen; j++) counts[experts_of(x, row)[j]]++;
  }
  for (int64_t i = 0; i < SEQUENCES * 2 * r->experts; i++) {
    check_near(x, typed_get(loads, i), expected[i], 20 * x->tolerance, "the loads", i);
  }
  free(expected);
}

static void check_balance(problem *x, const typed_array *loads) {
  const tri_router *r = x->router;
  const double coefficient = 3;
  double loss = 0.125, expected = 0.125;
  typed_array balance = typed_make(tri_dtype_wide(x->type), SEQUENCES * r->experts);
  KERNEL(router_balance, r, SEQUENCES, coefficient, &values, loads->data, balance.data, &loss);
  for (int64_t s = 0; s < SEQUENCES; s++) {
    double tokens = 0;
    for (int64_t row = 0; row < ROWS; row++) tokens += is_token(row) && (FIRST_ROW + row) / SEQUENCE_ROWS == s;
    if (tokens == 0) tokens = 1; /* without tokens all loads are 0 */
    for (int64_t i = 0; i < r->experts; i++) {
      const double f = (double)r->experts * typed_get(loads, 2 * s * r->experts + i) / ((double)r->chosen * tokens);
      const double mean = typed_get(loads, (2 * s + 1) * r->experts + i) / tokens;
      expected += values.sequence_scale * coefficient * f * mean;
      const double slope = values.sequence_scale * coefficient * f / tokens;
      check_near(x, typed_get(&balance, s * r->experts + i), slope, x->tolerance * (1 + slope), "the balance", s);
    }
  }
  check_near(x, loss, expected, x->tolerance * expected * 10, "the loss", 0);
  free(balance.data);
}

static void check_z_loss(problem *x) {
  double logits[TRI_ROUTER_EXPERTS] = {0}, loss = 0.5, expected = 0.5;
  KERNEL(router_z_loss, x->rows, x->router, z, &values, x->logits.data, x->experts.data, &loss);
  for (int64_t row = 0; row < ROWS; row++) {
    if (!is_token(row)) continue;
    logits_of(x, row, logits);
    expected += z * values.token_scale * pow(log_sum_exp(logits, x->router->experts), 2);
  }
  check_near(x, loss, expected, x->tolerance * expected, "the z-loss", 0);
}

static void check_count(problem *x) {
  const tri_router *r = x->router;
  int64_t counts[TRI_ROUTER_EXPERTS + 1], expected[TRI_ROUTER_EXPERTS + 1];
  typed_put(&x->weights, 3 * r->chosen, NAN);
  typed_put(&x->weights, 5 * r->chosen + r->chosen - 1, -INFINITY);
  for (int64_t i = 0; i <= r->experts; i++) counts[i] = expected[i] = 1000 * i;
  expected[r->experts] += 2;
  for (int64_t row = 0; row < ROWS; row++) {
    for (int64_t j = 0; j < r->chosen && is_token(row); j++) expected[experts_of(x, row)[j]]++;
  }
  KERNEL(router_count, x->rows, r, x->experts.data, x->weights.data, counts);
  assert_memory_equal(counts, expected, (size_t)(r->experts + 1) * sizeof *counts);
}

/* ---- the whole loss ---------------------------------------------------------------------------------------------- */

static double whole_loss(problem *x, const typed_array *loads, const typed_array *balance) {
  double loss = 0;
  KERNEL(router_loads, x->rows, x->router, x->logits.data, x->experts.data, FIRST_ROW, SEQUENCE_ROWS, SEQUENCES,
         loads->data);
  KERNEL(router_balance, x->router, SEQUENCES, 3.0, &values, loads->data, balance->data, &loss);
  KERNEL(router_z_loss, x->rows, x->router, z, &values, x->logits.data, x->experts.data, &loss);
  return loss;
}

/* The gradients that router_backward adds for the two losses equal those of the losses that the other kernels return.
 * */
static void check_whole_loss(tri_device *device, int which) {
  problem own, *x = &own;
  problem_begin(x, device, TRI_FP64, which);
  const tri_router *r = x->router;
  const double h = 1e-4;
  typed_array loads = typed_make(TRI_FP64, SEQUENCES * 2 * r->experts);
  forward(x, false);
  for (int64_t i = 0; i < ROWS * r->chosen; i++) typed_put(&x->gradient_weights, i, 0);
  whole_loss(x, &loads, &x->balance);
  KERNEL(router_backward, x->rows, r, x->logits.data, x->experts.data, x->weights.data, x->gradient_weights.data,
         x->balance.data, FIRST_ROW, SEQUENCE_ROWS, z, &values, x->gradient.data);
  for (int64_t i = 0; i < ROWS * r->experts; i += SANITIZED ? 17 * 41 : 41) {
    const double at = typed_get(&x->logits, i);
    typed_put(&x->logits, i, at + h);
    const double more = whole_loss(x, &loads, &x->balance);
    typed_put(&x->logits, i, at - h);
    const double less = whole_loss(x, &loads, &x->balance);
    typed_put(&x->logits, i, at);
    check_near(x, typed_get(&x->gradient, i), (more - less) / (2 * h), 1e-7, "the gradient of the losses", i);
  }
  free(loads.data);
  problem_end(x);
}

/* ---- no numbers -------------------------------------------------------------------------------------------------- */

/* Some rows contain NaN or infinity, in several ways. Each still chooses valid and different experts, and its weights
 * show the fault; other rows do not change. */
static void check_not_numbers(problem *x, bool bias) {
  const tri_router *r = x->router;
  enum { ALL, ONE, INFINITE, BAD_ROWS };
  typed_array before = typed_make(x->weights.type, ROWS * r->chosen);
  forward(x, bias);
  memcpy(before.data, x->weights.data, (size_t)(ROWS * r->chosen) * tri_dtype_bytes(before.type));
  for (int64_t i = 0; i < r->experts; i++) typed_put(&x->logits, ALL * r->experts + i, NAN);
  typed_put(&x->logits, ONE * r->experts + r->experts - 1, -NAN);
  for (int64_t i = 0; i < r->experts; i++) typed_put(&x->logits, INFINITE * r->experts + i, -INFINITY);
  forward(x, bias);
  for (int64_t row = 0; row < BAD_ROWS; row++) {
    bool seen[TRI_ROUTER_EXPERTS] = {false}, finite = true;
    for (int64_t j = 0; j < r->chosen; j++) {
      const int32_t e = experts_of(x, row)[j];
      assert_in_range(e, 0, r->experts - 1);
      assert_false(seen[e]);
      seen[e] = true;
      finite = finite && isfinite(typed_get(&x->weights, row * r->chosen + j));
    }
    if (row != INFINITE) assert_false(finite); /* the sigmoid of -infinity is 0 */
  }
  assert_memory_equal(typed_at(&x->weights, BAD_ROWS * r->chosen), typed_at(&before, BAD_ROWS * r->chosen),
                      (size_t)((ROWS - BAD_ROWS) * r->chosen) * tri_dtype_bytes(before.type));
  free(before.data);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static void check_case(tri_device *device, tri_dtype type, int which) {
  problem own, *x = &own;
  problem_begin(x, device, type, which);
  typed_array loads = typed_make(tri_dtype_wide(type), SEQUENCES * 2 * x->router->experts);
  check_forward(x, cases[which].bias);
  check_backward(x, false);
  check_backward(x, true);
  check_loads(x, &loads);
  check_balance(x, &loads);
  check_z_loss(x);
  check_count(x);
  check_not_numbers(x, cases[which].bias);
  free(loads.data);
  problem_end(x);
}

static void test_reference(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("reference", 1, &device));
  for (int which = 0; which < NUM_CASES; which++) {
    check_case(device, TRI_FP64, which);
    check_case(device, TRI_BF16, which);
    check_whole_loss(device, which);
  }
  tri_device_destroy(device);
}

static void check_unit(const char *name) {
  tri_device *device = NULL;
  if (tri_device_create(name, 2, &device) != TRI_OK) {
    print_message("SKIPPED: %s\n", tri_status_message());
    skip();
  }
  for (int which = 0; which < NUM_CASES; which++) {
    if (!SANITIZED || which % 2 == 0) check_case(device, TRI_FP32, which);
    if (!SANITIZED || which % 2 == 1) check_case(device, TRI_BF16, which);
  }
  tri_device_destroy(device);
}

VECTOR_UNIT_TESTS(check_unit)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference),
      VECTOR_UNIT_ENTRIES,
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
