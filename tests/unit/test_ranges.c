/* Numbers of the clusters that are part of the program, compared with plausible ranges for such machines. */
#include "check.h"
#include "config/preset.h"
#include "plan/published.h"
#include "plan/range.h"

#include <math.h>
#include <string.h>

static tri_status expect_plausible(void *context, const tri_range *range, double value) {
  if (value >= range->low && value <= range->high) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "%s: `%s` is %g, not %g to %g: %s", (const char *)context, range->name, value,
                  range->low, range->high, range->why);
}

static void test_shipped(void **state) {
  (void)state;
  char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES];
  size_t count = tri_preset_list("clusters", names);
  assert_true(count >= 5);
  for (size_t i = 0; i < count; i++) {
    tri_cluster cluster;
    assert_int_equal(tri_cluster_load(names[i], &cluster), TRI_OK);
    if (tri_ranges_visit(&cluster, expect_plausible, names[i]) != TRI_OK) fail_msg("%s", tri_status_message());
  }
}

/* Each row is consistent: plausible numbers are possible, and a number above the plausible range is not allowed. */
static void test_table(void **state) {
  (void)state;
  tri_cluster cluster = {.device = TRI_CLUSTER_ACCELERATOR}, cpu = {.device = TRI_CLUSTER_CPU};
  for (size_t i = 0; i < tri_num_ranges; i++) {
    const tri_range *r = &tri_ranges[i];
    assert_true(r->least <= r->low && r->low < r->high && r->high <= r->most);
    assert_ptr_equal(tri_range_of(r->name), r);
    assert_true(tri_range_allows(&cluster, r->name, r->low) && tri_range_allows(&cluster, r->name, r->high));
    assert_false(tri_range_allows(&cluster, r->name, r->high * 1.01));
    assert_true(tri_range_allows(&cpu, r->name, r->most));
    assert_true(strlen(r->why) > 5);
  }
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) assert_non_null(tri_range_of(tri_cluster_constant_name(i)));
}

/* If the rows would drive a fit out of the plausible range, it stops at the end of the range. */
static void test_fit_stays(void **state) {
  (void)state;
  tri_published_set set = {.num_rows = 1};
  tri_published_row row = {
      .name = "slow", .fit = true, .devices = 8, .global_batch = 8, .sequence = 1024, .precision = TRI_BF16};
  assert_int_equal(tri_cluster_load("a100-node", &set.cluster), TRI_OK);
  assert_int_equal(tri_system_load("megatron-node", &set.system), TRI_OK);
  row.model = (tri_model){.family = TRI_FAMILY_GPT2,
                          .num_layers = 4,
                          .hidden_size = 1024,
                          .num_heads = 16,
                          .vocab_size = 51200,
                          .max_sequence = 1024,
                          .tied = true,
                          .attention_bias = true,
                          .norm_eps = 1e-5,
                          .init_std = 0.02,
                          .rope_theta = 1e4,
                          .rope_scaling = tri_rope_scaling_none()};
  row.layout = (tri_layout){.tensor = 8,
                            .pipeline = 1,
                            .context = 1,
                            .expert = 1,
                            .virtual_stages = 1,
                            .recompute_every = 1,
                            .micro_batch = 1,
                            .reduce_precision = TRI_FP32,
                            .bucket_bytes = 26214400};
  assert_int_equal(tri_model_complete(&row.model), TRI_OK);
  assert_int_equal(tri_layout_resolve(&row.layout, &row.model, 128, 8, 8), TRI_OK);
  row.published_s = 100; /* no constant gives this time */
  set.rows = &row;
  assert_int_equal(tri_published_fit(&set, ~0u), TRI_OK);
  assert_true(row.predicted_s < row.published_s);
  const double *constants = tri_cluster_constants(&set.cluster);
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
    const tri_range *range = tri_range_of(tri_cluster_constant_name(i));
    if (constants[i] > 0) assert_true(constants[i] >= range->low && constants[i] <= range->high);
  }
  assert_true(set.cluster.efficiency.launch > 30e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shipped),
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_fit_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
