/* Advantages of small batches beside numbers made by hand, with verdicts missing, and their normalisers. TRL's results
 * are in tests/oracle/test_advantages.py. */
#include "check.h"
#include "rollout/advantage.h"
#include "rollout/pack.h"

#include <math.h>

enum { SIZE = 4 };

static const double MARGIN = 1e-4;

static tri_rollout_batch batch_of(const double *rewards, int64_t groups) {
  tri_rollout_batch batch = {0};
  CHECK_OK(tri_rollout_batch_create(groups, SIZE, &batch));
  for (int64_t i = 0; i < groups * SIZE; i++) batch.list[i].reward = rewards[i];
  return batch;
}

static void check_advantages(const double *rewards, int64_t groups, tri_scale_rewards scale, tri_baseline baseline,
                             const double *expected) {
  tri_policy_config policy = tri_policy_usual;
  tri_rollout_batch batch = batch_of(rewards, groups);
  policy.scale_rewards = scale;
  policy.baseline = baseline;
  tri_rollout_find_advantages(&batch, &policy);
  for (int64_t i = 0; i < groups * SIZE; i++) {
    const double got = batch.list[i].advantage;
    if (!(fabs(got - expected[i]) <= 1e-14)) fail_msg("completion %d: %.17g, not %.17g", (int)i, got, expected[i]);
  }
  tri_rollout_batch_release(&batch);
}

static void test_baselines(void **state) {
  (void)state;
  static const double rewards[] = {1, 0, 0, 3, 2, NAN, 5, NAN}, plain[] = {0, -1, -1, 2, -1.5, 0, 1.5, 0},
                      others[] = {0, -4.0 / 3, -4.0 / 3, 8.0 / 3, -3, 0, 3, 0};
  check_advantages(rewards, 2, TRI_SCALE_NONE, TRI_BASELINE_GROUP, plain);
  check_advantages(rewards, 2, TRI_SCALE_NONE, TRI_BASELINE_LEAVE_ONE_OUT, others);
}

static void test_scales(void **state) {
  (void)state;
  static const double rewards[] = {1, 0, 0, 3, 2, NAN, 5, NAN}, plain[] = {0, -1, -1, 2, -1.5, 0, 1.5, 0};
  const double own[] = {sqrt(2) + MARGIN, sqrt(4.5) + MARGIN};
  /* The mean of 1, 0, 0, 3, 2 and 5 is 11/6, and the sum of squares about it is 39 - 121/6. */
  const double all = sqrt((39 - 121.0 / 6) / 5) + MARGIN;
  double by_group[2 * SIZE], by_batch[2 * SIZE];
  for (int i = 0; i < 2 * SIZE; i++) {
    by_group[i] = plain[i] / own[i / SIZE];
    by_batch[i] = plain[i] / all;
  }
  check_advantages(rewards, 2, TRI_SCALE_BY_GROUP, TRI_BASELINE_GROUP, by_group);
  check_advantages(rewards, 2, TRI_SCALE_BY_BATCH, TRI_BASELINE_GROUP, by_batch);
}

static void test_groups_without_signal(void **state) {
  (void)state;
  static const double rewards[] = {NAN, NAN, NAN, NAN, NAN, 7, NAN, NAN, 2, 2, 2, 2}, none[3 * SIZE] = {0};
  static const tri_scale_rewards scales[] = {TRI_SCALE_BY_GROUP, TRI_SCALE_BY_BATCH, TRI_SCALE_NONE};
  for (int s = 0; s < 3; s++) {
    for (int64_t groups = 1; groups <= 3; groups++) {
      check_advantages(rewards, groups, scales[s], TRI_BASELINE_GROUP, none);
      check_advantages(rewards, groups, scales[s], TRI_BASELINE_LEAVE_ONE_OUT, none);
    }
  }
}

static void test_weighted_rewards(void **state) {
  (void)state;
  static const double weights[] = {2, -1, 0};
  static const double rewards[][3] = {{1, 1, 1}, {1, NAN, 1}, {NAN, 3, NAN}, {NAN, NAN, NAN}};
  static const double expected[] = {1, 2, -3};
  tri_rollout_batch batch = {0};
  CHECK_OK(tri_rollout_batch_create(1, SIZE, &batch));
  for (int i = 0; i < SIZE; i++) memcpy(batch.list[i].rewards, rewards[i], sizeof rewards[i]);
  tri_rollout_weigh_rewards(&batch, weights, 3);
  for (int i = 0; i < 3; i++) assert_true(batch.list[i].reward == expected[i]);
  assert_true(isnan(batch.list[3].reward));
  assert_true(tri_rollout_group_reward(&batch, 0) == 0);
  tri_rollout_weigh_rewards(&batch, weights, 0);
  assert_true(isnan(batch.list[0].reward) && isnan(tri_rollout_group_reward(&batch, 0)));
  tri_rollout_batch_release(&batch);
}

static void test_facts(void **state) {
  (void)state;
  static const double rewards[] = {1, 1, 1, 1, 1, 3, NAN, NAN, NAN, NAN, NAN, NAN};
  tri_rollout_batch batch = batch_of(rewards, 3);
  const tri_reward_facts facts = tri_rollout_reward_facts(&batch);
  assert_int_equal(facts.no_verdict, 6);
  assert_true(fabs(facts.mean - 4.0 / 3) < 1e-15 && fabs(facts.std - sqrt(4.0 / 6)) < 1e-15);
  assert_true(facts.zero_std == 1.0 / 3 && facts.no_signal == 2.0 / 3);
  tri_rollout_batch_release(&batch);
  batch = batch_of(rewards + 8, 1);
  const tri_reward_facts none = tri_rollout_reward_facts(&batch);
  assert_int_equal(none.no_verdict, SIZE);
  assert_true(isnan(none.mean) && isnan(none.std) && none.zero_std == 0 && none.no_signal == 1);
  tri_rollout_batch_release(&batch);
}

static void test_normalisers(void **state) {
  (void)state;
  static const int64_t tokens[] = {5, 2, 9, 1};
  static const bool counts[] = {true, true, false, true};
  double out[SIZE];
  tri_rollout_batch batch = {0};
  CHECK_OK(tri_rollout_batch_create(1, SIZE, &batch));
  for (int i = 0; i < SIZE; i++) {
    batch.list[i].count = tokens[i];
    batch.list[i].counts = counts[i];
  }
  tri_rollout_normalisers(&batch, TRI_LOSS_TYPE_DAPO, 9, 2, out);
  for (int i = 0; i < SIZE; i++) assert_true(out[i] == 2.0 / 8);
  tri_rollout_normalisers(&batch, TRI_LOSS_TYPE_GRPO, 9, 2, out);
  for (int i = 0; i < SIZE; i++) assert_true(fabs(out[i] - 1 / (2.0 * (double)tokens[i])) < 1e-16);
  tri_rollout_normalisers(&batch, TRI_LOSS_TYPE_DR_GRPO, 9, 1, out);
  for (int i = 0; i < SIZE; i++) assert_true(fabs(out[i] - 1 / 36.0) < 1e-16);
  for (int i = 0; i < SIZE; i++) batch.list[i].counts = false;
  tri_rollout_normalisers(&batch, TRI_LOSS_TYPE_CISPO, 9, 1, out);
  for (int i = 0; i < SIZE; i++) assert_true(out[i] == 0);
  tri_rollout_batch_release(&batch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_baselines),
      cmocka_unit_test(test_scales),
      cmocka_unit_test(test_groups_without_signal),
      cmocka_unit_test(test_weighted_rewards),
      cmocka_unit_test(test_facts),
      cmocka_unit_test(test_normalisers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
