/* Policy-gradient losses (device/policy.h): derivatives compared with finite differences, with constant factors held
 * fixed; masks and clamps; results that stay finite. tests/oracle/test_policy_losses.py compares an engine's gradients
 * with TRL's. */
#include "check.h"
#include "device/policy.h"
#include "draws.h"

#include <math.h>
#include <stdlib.h>

enum { TOKENS = 24, COMPLETIONS = 3, DRAWS = 400 };

/* A sequence with completions of 9, 1 and 6 labels; the other tokens belong to none. */
typedef struct problem {
  tri_policy_batch batch;
  double advantage[TOKENS], normaliser[TOKENS], old[TOKENS], behaviour[TOKENS], reference[TOKENS], lp[TOKENS];
  int32_t segments[TOKENS], labels[TOKENS];
} problem;

static double between(draws *d, double low, double high) {
  return low + (high - low) * tri_random_uniform(d->key, d->next++);
}

static tri_policy_settings draw_settings(draws *d) {
  tri_policy_settings s = {.objective = toss(d) ? TRI_POLICY_CLIPPED : TRI_POLICY_CISPO,
                           .importance = (int32_t)pick(d, TRI_POLICY_IMPORTANCE_NONE, TRI_POLICY_SEQUENCE_MASK),
                           .by_sequence = toss(d),
                           .has_old = 1,
                           .epsilon = 0.2,
                           .epsilon_high = 0.28,
                           .delta = toss(d) ? 1.6 : TRI_POLICY_NO_LIMIT,
                           .beta = toss(d) ? 0.3 : 0,
                           .importance_min = 0.5,
                           .importance_max = 3,
                           .off_policy_limit = toss(d) ? 0.05 : TRI_POLICY_NO_LIMIT};
  if (s.objective == TRI_POLICY_CISPO) s.epsilon_high = 1.3;
  return s;
}

static void draw_problem(draws *d, problem *p) {
  static const int64_t firsts[] = {2, 12, 13}, ends[] = {11, 13, 19};
  *p = (problem){.batch = {draw_settings(d), 1, TOKENS}};
  for (int64_t t = 0; t < TOKENS; t++) {
    p->segments[t] = p->labels[t] = -1;
    p->lp[t] = between(d, -3, -0.1);
    p->old[t] = p->lp[t] + between(d, -0.5, 0.5);
    p->behaviour[t] = p->old[t] + between(d, -0.4, 0.4);
    p->reference[t] = p->lp[t] + between(d, -1, 1);
    p->normaliser[t] = between(d, 0.01, 0.1);
  }
  for (int64_t c = 0; c < COMPLETIONS; c++) {
    const double advantage = between(d, -2, 2);
    for (int64_t t = firsts[c]; t < ends[c]; t++) {
      p->segments[t] = (int32_t)c;
      p->labels[t] = 1;
      p->advantage[t] = advantage;
    }
  }
}

static tri_policy_columns columns_of(const problem *p) {
  return (tri_policy_columns){p->advantage, p->normaliser, p->batch.settings.has_old ? p->old : NULL, p->behaviour,
                              p->reference};
}

static void evaluate(const problem *p, double factors[TOKENS], double losses[TOKENS]) {
  const tri_policy_columns columns = columns_of(p);
  tri_policy_sums sums[TOKENS];
  for (int64_t c = 0; c < tri_policy_count(TOKENS, p->segments); c++)
    tri_policy_sum(&p->batch, 0, c, p->segments, &columns, p->lp, sums);
  for (int64_t t = 0; t < TOKENS; t++)
    tri_policy_row(&p->batch, t, p->labels, NULL, p->segments, &columns, sums, p->lp, factors, losses);
}

static double total(const problem *p) {
  double factors[TOKENS], losses[TOKENS], sum = 0;
  evaluate(p, factors, losses);
  for (int64_t t = 0; t < TOKENS; t++) sum += losses[t];
  return sum;
}

/* Whether the loss may have a kink near: ratios close to a bound. CISPO's ratio and the mask of `drift` count as
 * constants, so finite differences do not apply to them. */
static bool is_smooth(const problem *p) {
  const tri_policy_settings *s = &p->batch.settings;
  tri_policy_sums sums[TOKENS];
  const tri_policy_columns columns = columns_of(p);
  for (int64_t c = 0; c < COMPLETIONS; c++) tri_policy_sum(&p->batch, 0, c, p->segments, &columns, p->lp, sums);
  for (int64_t t = 0; t < TOKENS; t++) {
    if (p->segments[t] < 0) continue;
    const double x = s->by_sequence ? sums[p->segments[t]].log_ratio : p->lp[t] - p->old[t], r = exp(x);
    if (fabs(r - 0.8) < 1e-3 || fabs(r - 1.28) < 1e-3 || fabs(r - 1.6) < 1e-3) return false;
    if (fabs(sums[p->segments[t]].drift - 0.05) < 1e-3) return false;
  }
  return s->objective == TRI_POLICY_CLIPPED;
}

static void test_derivatives(void **state) {
  draws d = {tri_random_stream(7, TRI_RANDOM_TEST, 0), 0};
  (void)state;
  for (int64_t i = 0; i < DRAWS; i++) {
    problem p;
    double factors[TOKENS], losses[TOKENS];
    draw_problem(&d, &p);
    if (!is_smooth(&p)) continue;
    evaluate(&p, factors, losses);
    for (int64_t t = 0; t < TOKENS; t++) {
      const double step = 1e-5;
      problem up = p, down = p;
      up.lp[t] += step;
      down.lp[t] -= step;
      const double found = (total(&up) - total(&down)) / (2 * step);
      if (!(fabs(found + factors[t]) <= 1e-8))
        fail_msg("draw %ld, label %ld: %.12g, not %.12g", (long)i, (long)t, -factors[t], found);
    }
  }
}

/* CISPO's derivative is that of its loss with the ratio held fixed, and without `old` the ratio is 1 and has a
 * derivative. */
static void test_constants(void **state) {
  draws d = {tri_random_stream(8, TRI_RANDOM_TEST, 0), 0};
  (void)state;
  for (int64_t i = 0; i < DRAWS; i++) {
    problem p, same;
    double factors[TOKENS], losses[TOKENS], others[TOKENS];
    draw_problem(&d, &p);
    same = p;
    for (int64_t t = 0; t < TOKENS; t++) same.old[t] = same.lp[t];
    evaluate(&same, factors, losses);
    same.batch.settings.has_old = 0;
    evaluate(&same, others, losses);
    assert_memory_equal(factors, others, sizeof factors);
    p.batch.settings.objective = TRI_POLICY_CISPO;
    p.batch.settings.epsilon_high = 1.3;
    p.batch.settings.beta = 0;
    p.batch.settings.importance = TRI_POLICY_IMPORTANCE_NONE;
    p.batch.settings.off_policy_limit = TRI_POLICY_NO_LIMIT;
    p.batch.settings.by_sequence = 0;
    evaluate(&p, factors, losses);
    for (int64_t t = 0; t < TOKENS; t++) {
      const double ratio = fmin(exp(p.lp[t] - p.old[t]), 1.3);
      const double expected = p.segments[t] < 0 ? 0 : p.normaliser[t] * ratio * p.advantage[t];
      assert_true(fabs(factors[t] - expected) <= 1e-15 && fabs(losses[t] + expected * p.lp[t]) <= 1e-14);
    }
  }
}

/* Masked labels and extreme log-probabilities leave no infinite number. */
static void test_extremes(void **state) {
  static const double extremes[] = {0, -1e-300, -50, -700, -1e5};
  draws d = {tri_random_stream(9, TRI_RANDOM_TEST, 0), 0};
  (void)state;
  for (int64_t i = 0; i < DRAWS; i++) {
    problem p;
    double factors[TOKENS], losses[TOKENS];
    draw_problem(&d, &p);
    for (int64_t t = 0; t < TOKENS; t++) {
      p.lp[t] = extremes[pick(&d, 0, 4)];
      p.old[t] = extremes[pick(&d, 0, 4)];
      p.behaviour[t] = extremes[pick(&d, 0, 4)];
      p.reference[t] = extremes[pick(&d, 0, 4)];
    }
    evaluate(&p, factors, losses);
    for (int64_t t = 0; t < TOKENS; t++) assert_true(isfinite(factors[t]) && isfinite(losses[t]));
  }
}

/* A completion is the same alone and among others. */
static void test_company(void **state) {
  draws d = {tri_random_stream(10, TRI_RANDOM_TEST, 0), 0};
  (void)state;
  for (int64_t i = 0; i < DRAWS; i++) {
    problem p, alone;
    double factors[TOKENS], losses[TOKENS], own[TOKENS], own_losses[TOKENS];
    draw_problem(&d, &p);
    alone = p;
    for (int64_t t = 0; t < TOKENS; t++) alone.segments[t] = p.segments[t] == 2 ? 0 : -1;
    evaluate(&p, factors, losses);
    evaluate(&alone, own, own_losses);
    for (int64_t t = 13; t < 19; t++) assert_true(own[t] == factors[t] && own_losses[t] == losses[t]);
    for (int64_t t = 0; t < 13; t++) assert_true(own[t] == 0 && own_losses[t] == 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_derivatives), cmocka_unit_test(test_constants),
                                     cmocka_unit_test(test_extremes), cmocka_unit_test(test_company)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
