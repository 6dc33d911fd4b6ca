/* The search, compared with simulating all layouts: the layouts that its bounds leave out are never better; its results
 * are sorted, distinct, valid, and fit into memory; if none fits, the message says how much memory is missing. */
#include "check.h"
#include "draws.h"
#include "plan/search.h"
#include "schedule/layout_config.h"

#include <math.h>
#include <string.h>

enum { CASES = 6, TOP = 4 };

static void near(double found, double expected, const char *what) {
  if (!(fabs(found - expected) <= 1e-9 * fabs(expected))) fail_msg("%s: %.17g is not %.17g", what, found, expected);
}

static tri_model draw_model(draws *d) {
  tri_model model = {.family = toss(d) ? TRI_FAMILY_GPT2 : TRI_FAMILY_LLAMA,
                     .num_layers = pick(d, 2, 12),
                     .hidden_size = 1024,
                     .num_heads = 8,
                     .num_kv_heads = 8,
                     .ffn_size = 4096,
                     .vocab_size = toss(d) ? 1000 : 50000,
                     .max_sequence = 512,
                     .tied = toss(d),
                     .norm_eps = 1e-5,
                     .init_std = 0.02};
  CHECK_OK(tri_model_complete(&model));
  return model;
}

static tri_search_request draw_request(draws *d, const tri_model *model, const tri_cluster *cluster,
                                       const tri_system *system) {
  static const int64_t devices[] = {2, 4, 6, 8};
  return (tri_search_request){.model = model,
                              .cluster = cluster,
                              .system = system,
                              .devices = devices[pick(d, 0, 3)],
                              .global_batch = 16 * pick(d, 1, 4),
                              .sequence = 512,
                              .precision = toss(d) ? TRI_BF16 : TRI_FP32,
                              .top = TOP};
}

static void check_answers(const tri_search_request *request, const tri_search_result *found) {
  for (int64_t i = 0; i < found->num_answers; i++) {
    const tri_answer *answer = &found->answers[i];
    char text[TRI_LAYOUT_TEXT_BYTES], other[TRI_LAYOUT_TEXT_BYTES];
    tri_layout again = answer->layout;
    CHECK_OK(tri_layout_resolve(&again, request->model, request->sequence, request->global_batch, request->devices));
    assert_true(answer->prediction.memory.peak <= request->cluster->memory_bytes);
    if (i == 0) continue;
    assert_true(answer->prediction.step_s >= found->answers[i - 1].prediction.step_s);
    tri_layout_text(&answer->layout, text, sizeof text);
    tri_layout_text(&found->answers[i - 1].layout, other, sizeof other);
    if (strcmp(text, other) == 0) fail_msg("%s is there twice", text);
  }
}

static void test_beside_all(void **state) {
  (void)state;
  draws d = {.key = tri_random_stream(29, TRI_RANDOM_TEST, 0)};
  tri_system system;
  tri_cluster cluster;
  int64_t left_out = 0;
  CHECK_OK(tri_system_load("trireme", &system));
  for (int i = 0; i < CASES; i++) {
    CHECK_OK(tri_cluster_load(toss(&d) ? "frontier" : "dgx-h100", &cluster));
    cluster.memory_bytes *= toss(&d) ? 1 : 0.05; /* so that some do not fit */
    const tri_model model = draw_model(&d);
    tri_search_request request = draw_request(&d, &model, &cluster, &system);
    tri_search_result pruned, all;
    const tri_status status = tri_search(&request, &pruned);
    request.exhaustive = true;
    assert_int_equal(tri_search(&request, &all), status);
    if (status != TRI_OK) continue;
    check_answers(&request, &pruned);
    assert_int_equal(pruned.num_answers, all.num_answers);
    assert_int_equal(pruned.valid, all.valid);
    for (int64_t a = 0; a < all.num_answers; a++) {
      near(pruned.answers[a].prediction.step_s, all.answers[a].prediction.step_s, "an answer's step");
    }
    left_out += all.simulated - pruned.simulated;
    tri_search_release(&pruned);
    tri_search_release(&all);
  }
  assert_true(left_out > 0); /* else the test would be empty */
}

/* Results need less and less memory, and none is both slower and larger than another. */
static void test_pareto(void **state) {
  (void)state;
  draws d = {.key = tri_random_stream(31, TRI_RANDOM_TEST, 0)};
  tri_system system;
  tri_cluster cluster;
  CHECK_OK(tri_system_load("trireme", &system));
  CHECK_OK(tri_cluster_load("frontier", &cluster));
  const tri_model model = draw_model(&d);
  tri_search_request request = draw_request(&d, &model, &cluster, &system);
  tri_search_result found;
  request.devices = 8;
  CHECK_OK(tri_search_pareto(&request, &found));
  assert_true(found.num_answers > 1);
  for (int64_t i = 1; i < found.num_answers; i++) {
    assert_true(found.answers[i].prediction.memory.peak < found.answers[i - 1].prediction.memory.peak);
    assert_true(found.answers[i].prediction.step_s >= found.answers[i - 1].prediction.step_s);
  }
  tri_search_release(&found);
}

static void test_nothing_fits(void **state) {
  (void)state;
  draws d = {.key = tri_random_stream(37, TRI_RANDOM_TEST, 0)};
  tri_system system;
  tri_cluster cluster;
  tri_search_result found;
  CHECK_OK(tri_system_load("trireme", &system));
  CHECK_OK(tri_cluster_load("frontier", &cluster));
  cluster.memory_bytes = 1e6;
  const tri_model model = draw_model(&d);
  tri_search_request request = draw_request(&d, &model, &cluster, &system);
  assert_int_equal(tri_search(&request, &found), TRI_OUT_OF_MEMORY);
  if (strstr(tri_status_message(), "KiB") == NULL) fail_msg("%s", tri_status_message());
  request.devices = 7919; /* a prime that divides neither batch nor layers */
  cluster.memory_bytes = 1e12;
  assert_int_equal(tri_search(&request, &found), TRI_BAD_LAYOUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside_all), cmocka_unit_test(test_pareto),
                                     cmocka_unit_test(test_nothing_fits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
