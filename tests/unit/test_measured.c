/* Tables of measurements: seconds at their rows, between them and beyond them. */
#include "check.h"
#include "plan/measured.h"
#include "plan/network.h"
#include "plan/price.h"

#include <math.h>

static const int64_t sides[] = {64, 256, 1024, 4096};
enum { SIDES = 4 };

/* The seconds of a device whose rate rises with each side, differently for all three. */
static double truth_s(double rows, double inner, double columns) {
  double share = pow(rows, 0.2) * pow(inner, 0.1) * pow(columns, 0.05);
  return 2 * rows * inner * columns / (1e9 * share);
}

static void fill_grid(tri_measured *m, tri_gemm_form form) {
  m->precision = TRI_FP32;
  for (int i = 0; i < SIDES * SIDES * SIDES; i++) {
    tri_measured_product *p = &m->products[m->num_products++];
    *p = (tri_measured_product){
        .form = form, .rows = sides[i / SIDES / SIDES], .inner = sides[i / SIDES % SIDES], .columns = sides[i % SIDES]};
    p->seconds = truth_s((double)p->rows, (double)p->inner, (double)p->columns);
  }
}

static double product_s(const tri_measured *m, double rows, double inner, double columns) {
  double seconds = NAN;
  const tri_cost cost = {.rows = rows, .inner = inner, .columns = columns, .products = 1};
  assert_true(tri_measured_product_s(m, TRI_FP32, &cost, &seconds));
  return seconds;
}

static bool near(double a, double b, double share) { return fabs(a / b - 1) <= share; }

static tri_measured measured; /* too large for a stack */

static void exact_at_its_rows(void **state) {
  (void)state;
  measured = (tri_measured){0};
  fill_grid(&measured, TRI_GEMM_PLAIN);
  tri_measured_complete(&measured);
  for (int64_t i = 0; i < measured.num_products; i++) {
    const tri_measured_product *p = &measured.products[i];
    assert_true(near(product_s(&measured, (double)p->rows, (double)p->inner, (double)p->columns), p->seconds, 1e-12));
  }
}

/* A power of each side is a plane in logarithms, which interpolation reproduces inside the grid. */
static void exact_for_powers(void **state) {
  (void)state;
  measured = (tri_measured){0};
  fill_grid(&measured, TRI_GEMM_PLAIN);
  tri_measured_complete(&measured);
  static const double at[][3] = {{65, 100, 4000}, {500, 768, 3072}, {64, 300, 3000}, {4096, 64, 1025}, {777, 777, 777}};
  for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
    assert_true(near(product_s(&measured, at[i][0], at[i][1], at[i][2]), truth_s(at[i][0], at[i][1], at[i][2]), 1e-9));
  }
}

static void more_work_takes_longer(void **state) {
  (void)state;
  measured = (tri_measured){0};
  fill_grid(&measured, TRI_GEMM_PLAIN);
  measured.products[21].seconds *= 1.6; /* no longer a plane */
  tri_measured_complete(&measured);
  for (int axis = 0; axis < 3; axis++) {
    double before = 0;
    for (int step = 0; step < 85; step++) {
      double at[3] = {300, 300, 300};
      at[axis] = 32 * pow(1.07, step); /* to 9400 */
      double now = product_s(&measured, at[0], at[1], at[2]);
      assert_true(now > before);
      before = now;
    }
  }
}

/* All sides are equal: a table with exchanged sides gives the same seconds for exchanged sides. */
static void sides_are_alike(void **state) {
  (void)state;
  static const int order[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {0, 2, 1}, {1, 2, 0}};
  const double asked[] = {100, 700, 2500};
  double first = 0;
  for (size_t o = 0; o < sizeof order / sizeof order[0]; o++) {
    measured = (tri_measured){0};
    fill_grid(&measured, TRI_GEMM_PLAIN);
    for (int64_t i = 0; i < measured.num_products; i++) {
      tri_measured_product *p = &measured.products[i];
      const int64_t was[] = {p->rows, p->inner, p->columns};
      p->rows = was[order[o][0]];
      p->inner = was[order[o][1]];
      p->columns = was[order[o][2]];
    }
    tri_measured_complete(&measured);
    double now = product_s(&measured, asked[order[o][0]], asked[order[o][1]], asked[order[o][2]]);
    if (o == 0) first = now;
    assert_true(near(now, first, 1e-12));
  }
}

/* Beyond a table, the rate at its edge continues. */
static void edges_go_on(void **state) {
  (void)state;
  measured = (tri_measured){0};
  fill_grid(&measured, TRI_GEMM_PLAIN);
  tri_measured_complete(&measured);
  double edge = product_s(&measured, 4096, 4096, 4096);
  assert_true(near(product_s(&measured, 8192, 4096, 4096), 2 * edge, 1e-12));
  assert_true(near(product_s(&measured, 8192, 40960, 12288), 2 * 10 * 3 * edge, 1e-12));
  assert_true(near(product_s(&measured, 16, 64, 64), product_s(&measured, 64, 64, 64) / 4, 1e-12));
}

/* The shape of a model, between those of the grid, takes its measured time, and its neighbours are interpolated with
 * it. */
static void a_shape_between(void **state) {
  (void)state;
  measured = (tri_measured){0};
  fill_grid(&measured, TRI_GEMM_PLAIN);
  double own = 0.5 * truth_s(300, 768, 2304);
  measured.products[measured.num_products++] =
      (tri_measured_product){.rows = 300, .inner = 768, .columns = 2304, .seconds = own};
  tri_measured_complete(&measured);
  assert_true(near(product_s(&measured, 300, 768, 2304), own, 1e-12));
  double beside = product_s(&measured, 310, 768, 2304) / truth_s(310, 768, 2304);
  assert_true(beside > 0.5 && beside < 0.75);
  assert_true(near(product_s(&measured, 64, 64, 64), truth_s(64, 64, 64), 1e-12));
}

static void forms(void **state) {
  (void)state;
  double seconds = 0, plain, passing;
  tri_cost cost = {.rows = 256, .inner = 256, .columns = 256, .products = 1, .form = TRI_GEMM_GRADIENT};
  measured = (tri_measured){.precision = TRI_FP32};
  assert_false(tri_measured_product_s(&measured, TRI_FP32, &cost, &seconds));
  fill_grid(&measured, TRI_GEMM_PLAIN);
  tri_measured_complete(&measured);
  plain = product_s(&measured, 256, 256, 256);
  assert_true(tri_measured_product_s(&measured, TRI_FP32, &cost, &seconds)); /* a row of another form is found */
  assert_true(near(seconds, plain, 1e-12));
  assert_false(tri_measured_product_s(&measured, TRI_BF16, &cost, &seconds));
  measured.products[measured.num_products++] = (tri_measured_product){
      .form = TRI_GEMM_GRADIENT, .rows = 256, .inner = 256, .columns = 256, .seconds = 3 * plain};
  measured.products[measured.num_products++] = (tri_measured_product){
      .form = TRI_GEMM_PLAIN, .passing = true, .rows = 256, .inner = 256, .columns = 256, .seconds = 2 * plain};
  tri_measured_complete(&measured);
  assert_true(tri_measured_product_s(&measured, TRI_FP32, &cost, &seconds));
  assert_true(near(seconds, 3 * plain, 1e-12));
  cost.products = 5;
  assert_true(tri_measured_product_s(&measured, TRI_FP32, &cost, &seconds));
  assert_true(near(seconds, 15 * plain, 1e-12));
  cost = (tri_cost){.rows = 256, .inner = 256, .columns = 256, .products = 1, .unpacked = true};
  assert_true(tri_measured_product_s(&measured, TRI_FP32, &cost, &passing));
  assert_true(near(passing, 2 * plain, 1e-12));
}

static double collective_s(double bytes) {
  double seconds = NAN;
  assert_true(tri_measured_collective_s(&measured, TRI_COLLECTIVE_ALL_REDUCE, false, 4, bytes, &seconds));
  return seconds;
}

/* Below the smallest measurement the time is constant; above the largest it is proportional to the bytes. */
static void links(void **state) {
  (void)state;
  double seconds;
  measured = (tri_measured){
      .collectives = {{.kind = TRI_COLLECTIVE_ALL_REDUCE, .ranks = 4, .bytes = 100, .seconds = 1e-5},
                      {.kind = TRI_COLLECTIVE_ALL_REDUCE, .ranks = 4, .bytes = 10000, .seconds = 1e-3},
                      {.kind = TRI_COLLECTIVE_ALL_REDUCE, .ranks = 4, .shared = true, .bytes = 100, .seconds = 1e-6}},
      .num_collectives = 3,
      .messages = {{.bytes = 100, .seconds = 1e-5}},
      .num_messages = 1};
  tri_measured_complete(&measured);
  assert_true(near(collective_s(1000), 1e-4, 1e-12));
  assert_true(near(collective_s(8), 1e-5, 1e-12));
  assert_true(near(collective_s(1e6), 1e-1, 1e-12));
  assert_true(tri_measured_collective_s(&measured, TRI_COLLECTIVE_ALL_REDUCE, true, 4, 100, &seconds));
  assert_true(near(seconds, 1e-6, 1e-12));
  assert_false(tri_measured_collective_s(&measured, TRI_COLLECTIVE_ALL_REDUCE, false, 2, 100, &seconds));
  assert_false(tri_measured_collective_s(&measured, TRI_COLLECTIVE_ALL_GATHER, false, 4, 100, &seconds));
  assert_true(tri_measured_message_s(&measured, 400, &seconds) && near(seconds, 4e-5, 1e-12));
}

/* The planner uses the tables first, and its links for groups that are not in the tables. */
static void prices(void **state) {
  (void)state;
  static tri_cluster cluster;
  static const tri_system system = {.levels = true, .link_share = 1, .flash_attention = true};
  cluster = (tri_cluster){.peak_fp32 = 1e12,
                          .memory_bandwidth = 1e10,
                          .num_links = 1,
                          .links = {{.name = "node", .per = 1, .ports = 1, .stripe = 1, .share = 1, .bandwidth = 1e9}},
                          .efficiency = {.matmul = 1, .memory = 1, .link = 1}};
  cluster.measured =
      (tri_measured){.precision = TRI_FP32,
                     .elements = {{.work = TRI_WORK_UPDATE, .elements = 1000, .seconds = 7}},
                     .num_elements = 1,
                     .collectives = {{.kind = TRI_COLLECTIVE_ALL_REDUCE, .ranks = 2, .bytes = 1000, .seconds = 3}},
                     .num_collectives = 1};
  tri_measured_complete(&cluster.measured);
  assert_true(near(tri_price_work(&cluster, TRI_FP32, TRI_WORK_UPDATE, 2000, 1), 14, 1e-12));
  assert_true(near(tri_price_work(&cluster, TRI_FP32, TRI_WORK_ZERO, 2000, 1e10), 1, 1e-12));
  assert_true(near(tri_price_work(&cluster, TRI_BF16, TRI_WORK_UPDATE, 2000, 1e10), 1, 1e-12));
  const tri_collective reduce = TRI_COLLECTIVE_ALL_REDUCE;
  assert_true(near(tri_network_collective(&cluster, reduce, 1000, (tri_group_extent){.size = 2, .stride = 1}, &system),
                   3, 1e-12));
  assert_true(
      near(tri_network_shared(&cluster, reduce, 1000, (tri_group_extent){.size = 2, .stride = 4}, &system), 3, 1e-12));
  double four = tri_network_collective(&cluster, reduce, 1000, (tri_group_extent){.size = 4, .stride = 1}, &system);
  assert_true(four > 0 && four < 1e-3);
  cluster.nodes = 2; /* measured neighbours are not nodes that are far apart */
  assert_true(tri_network_shared(&cluster, reduce, 1000, (tri_group_extent){.size = 2, .stride = 4}, &system) < 1e-3);
}

static void faults(void **state) {
  (void)state;
  measured = (tri_measured){.precision = -1, .num_products = 1, .products = {{.rows = 1, .inner = 1, .columns = 1}}};
  CHECK_FAILS(tri_measured_check(&measured), TRI_BAD_CONFIG, "`measured.precision` is none");
  measured.precision = TRI_FP32;
  CHECK_OK(tri_measured_check(&measured));
  measured.products[1] = measured.products[0];
  measured.num_products = 2;
  CHECK_FAILS(tri_measured_check(&measured), TRI_BAD_CONFIG,
              "`measured.products` has the same size twice, in rows 1 and 2");
  measured = (tri_measured){.num_collectives = 1, .collectives = {{.ranks = 2, .bytes = 8, .seconds = 1}}};
  CHECK_FAILS(tri_measured_check(&measured), TRI_BAD_CONFIG, "row 1 of `measured.collectives` has the kind `none`");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_at_its_rows),
      cmocka_unit_test(exact_for_powers),
      cmocka_unit_test(more_work_takes_longer),
      cmocka_unit_test(sides_are_alike),
      cmocka_unit_test(edges_go_on),
      cmocka_unit_test(a_shape_between),
      cmocka_unit_test(forms),
      cmocka_unit_test(links),
      cmocka_unit_test(prices),
      cmocka_unit_test(faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
