/* Losses of preferences: derivatives compared with finite differences, results that stay finite, and relations between
 * losses. tests/oracle/test_preference_losses.py compares their values with TRL's. */
#include "check.h"
#include "draws.h"
#include "model/preference_losses.h"

#include <math.h>

enum { NUM_LOSSES = TRI_NUM_PREFERENCE_LOSSES, NUM_DRAWS = 2000 };

/* A loss of any kind, with one or two completions. */
typedef struct problem {
  tri_preference_settings settings;
  tri_completion_sums chosen, rejected;
  int desirable;
} problem;

static tri_preference_rules rules_of(const problem *p) {
  return tri_preference_rules_of((tri_preference_loss)p->settings.loss);
}

static tri_preference_value value_of(const problem *p) {
  return rules_of(p).paired ? tri_preference_pair(&p->settings, &p->chosen, &p->rejected)
                            : tri_preference_single(&p->settings, &p->chosen, p->desirable);
}

/* Returns the value of the same problem with another loss. */
static tri_preference_value value_with(problem p, tri_preference_loss loss) {
  p.settings.loss = (int32_t)loss;
  return value_of(&p);
}

static double between(draws *d, double low, double high) {
  return low + (high - low) * tri_random_uniform(d->key, d->next++);
}

static tri_completion_sums draw_sums(draws *d) {
  tri_completion_sums sums;
  sums.labels = (double)pick(d, 1, 40);
  sums.logp = -sums.labels * pick_scale(d, -3, 1);
  sums.reference = sums.logp + between(d, -15, 15);
  return sums;
}

static problem draw_problem(draws *d, int loss) {
  problem p = {.settings = {.loss = loss}};
  p.settings.beta = pick_scale(d, -2, 0.5);
  p.settings.label_smoothing = between(d, 1e-3, 0.45);
  p.settings.simpo_gamma = between(d, 0, 2);
  p.settings.desirable_weight = between(d, 0.1, 2);
  p.settings.undesirable_weight = between(d, 0.1, 2);
  p.settings.kl = between(d, 0, 3);
  p.settings.discopop_tau = pick_scale(d, -1.3, 0.3);
  p.chosen = draw_sums(d);
  p.rejected = draw_sums(d);
  p.desirable = toss(d);
  return p;
}

/* ---- derivatives ------------------------------------------------------------------------------------------------- */

/* Returns how fast the argument of the loss's exponentials changes with S. Steps must be small compared with its
 * inverse. */
static double rate_of(const problem *p, const tri_completion_sums *sums) {
  const double beta = p->settings.beta;
  if (p->settings.loss == TRI_PREFERENCE_DISCOPOP) return beta * (1 + 1 / p->settings.discopop_tau);
  if (p->settings.loss == TRI_PREFERENCE_ORPO) return (1 - sums->labels / sums->logp) / sums->labels;
  return beta;
}

static double loss_at(problem p, int rejected, double by) {
  tri_completion_sums *moved = rejected != 0 ? &p.rejected : &p.chosen;
  moved->logp += by;
  return value_of(&p).loss;
}

/* Returns the five-point difference quotient, whose error is of the fourth order in the step. */
static double difference(const problem *p, int rejected, double step) {
  const double near = loss_at(*p, rejected, step) - loss_at(*p, rejected, -step);
  const double far = loss_at(*p, rejected, 2 * step) - loss_at(*p, rejected, -2 * step);
  return (8 * near - far) / (12 * step);
}

static void check_derivative(const problem *p, int rejected) {
  const tri_preference_value value = value_of(p);
  const double rate = rate_of(p, rejected != 0 ? &p->rejected : &p->chosen), step = 2e-3 / rate;
  const double found = difference(p, rejected, step), ours = rejected != 0 ? value.rejected : value.chosen;
  const double size = fmax(fabs(ours), rate * fmax(1, fabs(value.loss)));
  if (!(fabs(found - ours) <= 1e-9 * size))
    fail_msg("%s: d loss / d S of the %s is %.12g, not %.12g", rules_of(p).name, rejected != 0 ? "rejected" : "chosen",
             found, ours);
}

/* Returns whether a hinge is near its kink. */
static int is_at_bend(const problem *p) {
  const double left = 1 - tri_preference_margin(&p->settings, &p->chosen, &p->rejected);
  return p->settings.loss == TRI_PREFERENCE_HINGE && fabs(left) < 0.01;
}

static void derivatives_are_those_of_the_losses(void **state) {
  (void)state;
  draws d = {tri_random_stream(7, TRI_RANDOM_TEST, 0), 0};
  for (int loss = 0; loss < NUM_LOSSES; loss++) {
    for (int i = 0; i < NUM_DRAWS; i++) {
      const problem p = draw_problem(&d, loss);
      if (is_at_bend(&p)) continue;
      check_derivative(&p, 0);
      if (rules_of(&p).paired) check_derivative(&p, 1);
    }
  }
}

/* ---- large and small numbers ------------------------------------------------------------------------------------- */

static void check_finite(const problem *p) {
  const tri_preference_value v = value_of(p);
  if (!isfinite(v.loss) || !isfinite(v.chosen) || !isfinite(v.rejected))
    fail_msg("%s of S %g and %g, R %g and %g is %g, %g, %g", rules_of(p).name, p->chosen.logp, p->rejected.logp,
             p->chosen.reference, p->rejected.reference, v.loss, v.chosen, v.rejected);
}

static void large_arguments_stay_finite(void **state) {
  static const double sizes[] = {0, 1e-300, 1e-12, 1, 36, 37, 350, 700, 1e4};
  enum { NUM_SIZES = sizeof sizes / sizeof sizes[0] };
  (void)state;
  draws d = {tri_random_stream(8, TRI_RANDOM_TEST, 0), 0};
  for (int loss = 0; loss < NUM_LOSSES; loss++) {
    for (int i = 0; i < NUM_SIZES * NUM_SIZES * 4; i++) {
      problem p = draw_problem(&d, loss);
      p.settings.discopop_tau = 0.05;
      const double chosen = sizes[i / 4 % NUM_SIZES] / p.settings.beta;
      const double rejected = sizes[i / 4 / NUM_SIZES] / p.settings.beta;
      p.chosen.logp = -chosen;
      p.chosen.reference = i % 2 == 0 ? 0 : -2 * chosen;
      p.rejected.logp = -rejected;
      p.rejected.reference = i / 2 % 2 == 0 ? 0 : -2 * rejected;
      check_finite(&p);
      p.chosen.labels = p.rejected.labels = i % 2;
      check_finite(&p);
    }
  }
}

static problem plain_problem(double chosen, double rejected) {
  problem p = {.settings = {.beta = 0.5, .desirable_weight = 1, .undesirable_weight = 1, .discopop_tau = 0.05}};
  p.chosen = (tri_completion_sums){chosen, 0, 1};
  p.rejected = (tri_completion_sums){rejected, 0, 1};
  return p;
}

static int is_near(double value, double wanted) { return fabs(value - wanted) <= 1e-14 * fmax(1, fabs(wanted)); }
#define CHECK_NEAR(value, wanted) assert_true(is_near(value, wanted))

static void limits_are_reached(void **state) {
  (void)state;
  problem p = plain_problem(-1400, 0);
  CHECK_NEAR(value_of(&p).loss, 700);
  CHECK_NEAR(value_of(&p).chosen, -0.5);
  CHECK_NEAR(value_of(&p).rejected, 0.5);
  p = plain_problem(0, -1400);
  assert_true(value_of(&p).loss > 0 && value_of(&p).loss < 1e-300); /* exp(-700), not 0 */
  assert_true(value_of(&p).chosen < 0 && value_of(&p).chosen > -1e-300);
}

/* orpo with a mean log probability m near 0: the odds are then 1 / -m, and log(1 - exp(m)) is log(-m). */
static void odds_of_what_is_nearly_certain(void **state) {
  (void)state;
  for (double m = -1e-3; m < -1e-7; m /= 10) {
    problem p = plain_problem(m, log(0.5)); /* odds of the rejected: 1 */
    const tri_preference_value value = value_with(p, TRI_PREFERENCE_ORPO);
    const double odds = -1 / expm1(m) - 1;
    CHECK_NEAR(value.loss, 0.5 * log1p(1 / odds));
    CHECK_NEAR(value.chosen, -0.5); /* beta / (1 + odds) / -expm1(m) = beta */
  }
  problem p = plain_problem(0, 0);
  p.settings.loss = TRI_PREFERENCE_ORPO;
  check_finite(&p);
  CHECK_NEAR(value_of(&p).loss, 0.5 * log(2));
}

/* ---- relations --------------------------------------------------------------------------------------------------- */

static void check_same(tri_preference_value a, tri_preference_value b) {
  CHECK_NEAR(a.loss, b.loss);
  CHECK_NEAR(a.chosen, b.chosen);
  CHECK_NEAR(a.rejected, b.rejected);
}

static void check_special_cases(problem p) {
  problem bare = p;
  bare.settings.label_smoothing = bare.settings.kl = bare.settings.simpo_gamma = 0;
  check_same(value_with(bare, TRI_PREFERENCE_ROBUST), value_with(bare, TRI_PREFERENCE_DPO));
  check_same(value_with(bare, TRI_PREFERENCE_KTO), value_with(bare, TRI_PREFERENCE_APO_ZERO_UNPAIRED));
  bare.chosen.labels = bare.rejected.labels = 1;
  check_same(value_with(bare, TRI_PREFERENCE_SIGMOID_NORM), value_with(bare, TRI_PREFERENCE_DPO));
  check_same(value_with(bare, TRI_PREFERENCE_SIMPO), value_with(bare, TRI_PREFERENCE_CPO));
  bare.chosen.reference = bare.rejected.reference = 0;
  check_same(value_with(bare, TRI_PREFERENCE_CPO), value_with(bare, TRI_PREFERENCE_DPO));
}

/* apo_zero is the sum of two losses of single completions. */
static void check_halves(problem p) {
  problem other = p;
  other.chosen = p.rejected;
  p.settings.desirable_weight = other.settings.undesirable_weight = 1;
  p.desirable = 1;
  other.desirable = 0;
  const tri_preference_value good = value_with(p, TRI_PREFERENCE_APO_ZERO_UNPAIRED);
  const tri_preference_value bad = value_with(other, TRI_PREFERENCE_APO_ZERO_UNPAIRED);
  check_same(value_with(p, TRI_PREFERENCE_APO_ZERO),
             (tri_preference_value){good.loss + bad.loss, good.chosen, bad.chosen});
}

/* If the completions are exchanged, f(-x) - f(x) = x, and the magnitudes of the derivatives add up to beta. */
static void check_places(problem p) {
  problem other = p;
  other.chosen = p.rejected;
  other.rejected = p.chosen;
  const double x = tri_preference_margin(&p.settings, &p.chosen, &p.rejected);
  const tri_preference_value one = value_with(p, TRI_PREFERENCE_DPO), two = value_with(other, TRI_PREFERENCE_DPO);
  assert_true(fabs(one.loss - two.loss + x) <= 1e-13 * fmax(1, fabs(x)));
  CHECK_NEAR(one.chosen - two.rejected, -p.settings.beta);
}

/* If the model and its reference both raise a completion's log probability by the same amount, the loss does not
 * change. */
static void check_reference(problem p) {
  problem other = p;
  other.chosen.logp += 8;
  other.chosen.reference += 8;
  const tri_preference_value one = value_of(&p), two = value_of(&other);
  if (!rules_of(&p).reference || is_at_bend(&p)) return;
  assert_true(fabs(one.loss - two.loss) <= 1e-10 * fmax(1, fabs(one.loss)));
  assert_true(fabs(one.chosen - two.chosen) <= 1e-10 * fmax(1, fabs(one.chosen)));
}

static void losses_are_related(void **state) {
  (void)state;
  draws d = {tri_random_stream(9, TRI_RANDOM_TEST, 0), 0};
  for (int i = 0; i < NUM_DRAWS; i++) {
    const problem p = draw_problem(&d, i % NUM_LOSSES);
    check_special_cases(p);
    check_halves(p);
    check_places(p);
    check_reference(p);
  }
}

static void losses_of_the_other_kind_are_not_numbers(void **state) {
  (void)state;
  problem p = plain_problem(-1, -2);
  for (int loss = 0; loss < NUM_LOSSES; loss++) {
    p.settings.loss = loss;
    assert_true(isnan(tri_preference_pair(&p.settings, &p.chosen, &p.rejected).chosen) == !rules_of(&p).paired);
    assert_true(isnan(tri_preference_single(&p.settings, &p.chosen, 1).chosen) == rules_of(&p).paired);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(derivatives_are_those_of_the_losses),
      cmocka_unit_test(large_arguments_stay_finite),
      cmocka_unit_test(limits_are_reached),
      cmocka_unit_test(odds_of_what_is_nearly_certain),
      cmocka_unit_test(losses_are_related),
      cmocka_unit_test(losses_of_the_other_kind_are_not_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
