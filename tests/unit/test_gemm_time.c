/* Times of GEMMs in tiles and waves, compared with counts by hand. */
#include "check.h"
#include "plan/gemm_time.h"

#include <math.h>

/* Returns a cluster of 10 processors of 1 TFLOP/s each, with one shape of tile that takes 2 x 128 x 128 FLOPs for each
 * inner element. */
static tri_cluster small_cluster(void) {
  return (tri_cluster){.peak_bf16 = 10e12,
                       .memory_bandwidth = 1e12,
                       .processors = 10,
                       .tile_fill = 0,
                       .tiles = {{128, 128, 1.0}},
                       .num_tiles = 1,
                       .efficiency = {.matmul = 1, .memory = 1}};
}

static double tile_s(double inner) { return 2.0 * 128 * 128 * inner / 1e12; }

static double product_s(const tri_cluster *cluster, double rows, double inner, double columns, double batch) {
  return tri_gemm_s(cluster, TRI_BF16, &(tri_gemm){.rows = rows, .inner = inner, .columns = columns, .batch = batch});
}

static void expect(double is, double should_be) {
  if (!(fabs(is - should_be) <= 1e-12 * should_be)) fail_msg("%.17g s, not %.17g", is, should_be);
}

static void test_waves(void **state) {
  (void)state;
  const tri_cluster c = small_cluster();
  expect(product_s(&c, 128, 128, 128, 1), tile_s(128));
  expect(product_s(&c, 1, 128, 8, 1), tile_s(128));          /* a tile that extends beyond both edges */
  expect(product_s(&c, 10 * 128, 128, 128, 1), tile_s(128)); /* one tile for each processor */
  expect(product_s(&c, 10 * 128 + 1, 128, 128, 1), 2 * tile_s(128));
  expect(product_s(&c, 128, 128, 128, 11), 2 * tile_s(128)); /* tiles of several simultaneous products count together */
  expect(product_s(&c, 128 * 100, 128, 128 * 3, 1), 30 * tile_s(128));
  assert_true(product_s(&c, 0, 128, 128, 1) == 0);
}

/* One tile for ten processors: it is split into parts of at least 256 inner elements, which are added in fp32. */
static void test_parts(void **state) {
  (void)state;
  tri_cluster c = small_cluster();
  double sums = 128.0 * 128 * 4 * 2;
  c.memory_bandwidth = 1e15;
  expect(product_s(&c, 128, 504, 128, 1), tile_s(504));
  expect(product_s(&c, 128, 512, 128, 1), tile_s(256) + 2 * sums / 1e15);
  expect(product_s(&c, 128, 65536, 128, 1), tile_s(8192) + 8 * sums / 1e15);
  c.memory_bandwidth = 1e3; /* adding the parts takes too long, so one processor computes the tile alone */
  expect(product_s(&c, 128, 65536, 128, 1), tile_s(65536));
}

static void test_choice(void **state) {
  (void)state;
  tri_cluster c = small_cluster();
  c.tiles[1] = (tri_tile){64, 64, 0.5};
  c.num_tiles = 2;
  expect(product_s(&c, 128, 128, 128, 1), tile_s(128) / 4 / 0.5); /* four small tiles at the same time */
  expect(product_s(&c, 1280, 128, 1280, 1), 10 * tile_s(128));    /* many tiles: the large shape is faster */
}

static void test_rates(void **state) {
  (void)state;
  tri_cluster c = small_cluster();
  c.tile_fill = 64;
  expect(product_s(&c, 128, 128, 128, 1), tile_s(128 + 64));
  c.efficiency.matmul = 0.5;
  expect(product_s(&c, 128, 128, 128, 1), 2 * tile_s(128 + 64));
  expect(product_s(&c, 128, 127, 128, 1), 4 * tile_s(127 + 64)); /* rows of 254 bytes are too unaligned for vectors */
  expect(product_s(&c, 127, 128, 128, 1), 2 * tile_s(128 + 64)); /* the number of rows is not a stride */
}

/* A product is never faster than the peak allows, and more processors of the same kind never make it slower. */
static void test_bounds(void **state) {
  (void)state;
  tri_cluster c = small_cluster(), more = small_cluster();
  more.processors = 40;
  more.peak_bf16 = 40e12;
  for (int i = 0; i < 500; i++) {
    double rows = 1 + i * 37 % 900, inner = 8 * (1 + i * 53 % 500), columns = 8 * (1 + i * 71 % 300);
    double seconds = product_s(&c, rows, inner, columns, 1);
    assert_true(seconds >= 2 * rows * inner * columns / c.peak_bf16);
    assert_true(product_s(&more, rows, inner, columns, 1) <= seconds);
  }
}

static void test_without_tiles(void **state) {
  (void)state;
  tri_cluster c = small_cluster();
  c.num_tiles = 0;
  c.efficiency.matmul_half = 128;
  expect(product_s(&c, 128, 128, 128, 1), 2 * pow(128, 3) / 10e12 * 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_waves), cmocka_unit_test(test_parts),  cmocka_unit_test(test_choice),
      cmocka_unit_test(test_rates), cmocka_unit_test(test_bounds), cmocka_unit_test(test_without_tiles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
