/* Prices compared with closed forms on a machine with round numbers: memory, products, collectives on rings, bytes of
 * an update; and prices of passes add up. */
#include "check.h"
#include "optimizers/optimizer.h"
#include "plan/gemm_time.h"
#include "plan/network.h"
#include "plan/price.h"

#include <math.h>

/* Returns a cluster of devices of 1 TFLOP/s and 100 GB/s, four in each node, with 10 GB/s and 1 us between any two. All
 * efficiencies are 1. */
static tri_cluster round_machine(void) {
  return (tri_cluster){
      .name = "round",
      .node_devices = 4,
      .peak_bf16 = 1e12,
      .peak_fp32 = 5e11,
      .vector_flops = 1e11,
      .memory_bytes = 1e12,
      .memory_bandwidth = 1e11,
      .links = {{.name = "all", .per = 1, .ports = 1, .stripe = 1, .share = 1, .bandwidth = 1e10, .latency = 1e-6}},
      .num_links = 1,
      .beside = 1,
      .efficiency = {.matmul = 1, .attention = 1, .memory = 1, .link = 1}};
}

static void near(double found, double expected) {
  if (!(fabs(found - expected) <= 1e-9 * fabs(expected))) fail_msg("%.17g is not %.17g", found, expected);
}

static void test_memory_and_products(void **state) {
  (void)state;
  tri_cluster cluster = round_machine();
  near(tri_price_memory(&cluster, 2e9), 0.02);
  near(tri_price_memory(&cluster, 0) + 1, 1);
  cluster.efficiency.memory = 0.5;
  near(tri_price_memory(&cluster, 2e9), 0.04);
  const tri_gemm product = {.rows = 1000, .inner = 2000, .columns = 500, .batch = 3};
  near(tri_gemm_s(&cluster, TRI_BF16, &product), 2.0 * 1000 * 2000 * 500 * 3 / 1e12);
  near(tri_gemm_s(&cluster, TRI_FP32, &product), 2.0 * 1000 * 2000 * 500 * 3 / 5e11);
  cluster.efficiency.matmul_half = 1000; /* each dimension d reaches d / (d + 1000) */
  const double reached = 1000.0 / 2000 * (2000.0 / 3000) * (500.0 / 1500);
  near(tri_gemm_s(&cluster, TRI_BF16, &product), 2.0 * 1000 * 2000 * 500 * 3 / 1e12 / reached);
}

/* A ring of n ranks has n - 1 rounds (an all-reduce twice as many). Each round sends an n-th of the bytes. */
static void test_rings(void **state) {
  (void)state;
  const tri_cluster cluster = round_machine();
  tri_system system;
  CHECK_OK(tri_system_load("trireme", &system));
  for (int64_t n = 2; n <= 8; n++) {
    const double bytes = 1e10, each = bytes / (double)n / 1e10, rounds = (double)(n - 1);
    const tri_group_extent all = {.size = n, .stride = 1};
    const double gathered = tri_network_collective(&cluster, TRI_COLLECTIVE_ALL_GATHER, bytes, all, &system);
    const double scattered = tri_network_collective(&cluster, TRI_COLLECTIVE_REDUCE_SCATTER, bytes, all, &system);
    const double reduced = tri_network_collective(&cluster, TRI_COLLECTIVE_ALL_REDUCE, bytes, all, &system);
    if (!(fabs(gathered / (rounds * each) - 1) <= 1e-3)) fail_msg("%ld ranks gather in %g s", (long)n, gathered);
    if (!(fabs(scattered / (rounds * each) - 1) <= 1e-3)) fail_msg("%ld ranks scatter in %g s", (long)n, scattered);
    if (!(fabs(reduced / (2 * rounds * each) - 1) <= 1e-3)) fail_msg("%ld ranks add up in %g s", (long)n, reduced);
  }
  const tri_group_extent alone = {.size = 1, .stride = 1};
  assert_true(tri_network_collective(&cluster, TRI_COLLECTIVE_ALL_REDUCE, 1e10, alone, &system) <= 0);
}

/* More bytes, or more of any other work, never take less time. */
static void test_more_takes_longer(void **state) {
  (void)state;
  tri_cluster cluster;
  tri_system system;
  CHECK_OK(tri_cluster_load("frontier", &cluster));
  CHECK_OK(tri_system_load("trireme", &system));
  double before = 0;
  for (double bytes = 1; bytes < 1e11; bytes *= 3) {
    const tri_group_extent across = {.size = 16, .stride = 8};
    const double now = tri_network_collective(&cluster, TRI_COLLECTIVE_ALL_REDUCE, bytes, across, &system);
    if (now < before) fail_msg("%g bytes take %g s, a third of them %g", bytes, now, before);
    before = now;
  }
}

static void test_sums(void **state) {
  (void)state;
  tri_price a = {.compute_s = 1, .launch_s = 2, .first_s = 3, .later_s = 4}, b = {.compute_s = 10, .launch_s = 20};
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) a.along_s[axis] = axis + 1;
  const tri_price sum = tri_price_minus(tri_price_add_scaled(a, 2, b), b);
  near(sum.compute_s, 11);
  near(sum.launch_s, 22);
  near(sum.later_s, 4);
  near(tri_price_collectives_s(&sum), TRI_NUM_AXES * (TRI_NUM_AXES + 1) / 2.0);
}

/* AdamW reads value, gradient and two moments and writes all but the gradient: 7 numbers of 4 bytes. An average of
 * weights that is due every fourth update reads a value and itself and writes itself: 3 numbers, a fourth of the time.
 */
static void test_updates(void **state) {
  (void)state;
  tri_system system;
  CHECK_OK(tri_system_load("trireme", &system));
  near(tri_price_update_bytes(&system, TRI_BF16), 28);
  tri_optimizer_settings settings = *tri_optimizer_settings_default();
  const tri_update_call call = {.optimizer = &tri_optimizer_adamw, .settings = &settings, .type = TRI_BF16};
  near(tri_update_element_bytes(&call), 28);
  near(tri_update_kept_bytes(&call), 8);
  settings.average.every = 4;
  near(tri_update_element_bytes(&call), 31);
  near(tri_update_kept_bytes(&call), 12);
  settings.state = TRI_STATE_BF16;
  near(tri_update_element_bytes(&call), 23);
  near(tri_update_kept_bytes(&call), 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_and_products),
      cmocka_unit_test(test_rings),
      cmocka_unit_test(test_more_takes_longer),
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_updates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
