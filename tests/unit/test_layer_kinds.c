/* Models in which only some layers have a window or a rotary embedding: each stage has the prices of its own layers,
 * the fullest stage is found, and the search finds the layouts that it finds without bounds. */
#include "check.h"
#include "draws.h"
#include "plan/search.h"
#include "plan/stages.h"
#include "schedule/layout_config.h"

#include <math.h>

enum { CASES = 150 };

static tri_model incomplete_model(int64_t layers, int64_t hidden_size) {
  return (tri_model){.family = TRI_FAMILY_LLAMA,
                     .num_layers = layers,
                     .hidden_size = hidden_size,
                     .num_heads = 8,
                     .num_kv_heads = 8,
                     .ffn_size = 4 * hidden_size,
                     .vocab_size = 1000,
                     .max_sequence = 16384,
                     .norm_eps = 1e-5,
                     .init_std = 0.02};
}

static tri_model model_of(int64_t layers, const char *window_layers) {
  tri_model model = incomplete_model(layers, 1024);
  model.window = 512;
  snprintf(model.window_layers, sizeof model.window_layers, "%s", window_layers);
  CHECK_OK(tri_model_complete(&model));
  return model;
}

static void load(tri_cluster *cluster, tri_system *system) {
  CHECK_OK(tri_cluster_load("dgx-h100", cluster));
  CHECK_OK(tri_system_load("trireme", system));
}

static tri_layout layout_of(const char *text, const tri_model *model, int64_t batch, int64_t devices) {
  tri_layout layout = {0};
  CHECK_OK(tri_layout_parse(text, &layout));
  CHECK_OK(tri_layout_resolve(&layout, model, model->max_sequence, batch, devices));
  return layout;
}

/* Returns the seconds of one forward of all layers of a stage. */
static double forward_s(const tri_stages *stages, int64_t stage) {
  const tri_stage_kind *kind = &stages->kinds[stages->kind_of[stage]];
  const tri_instruction all = {.kind = TRI_FORWARD, .end_call = (int32_t)kind->chunks[0].num_calls};
  return tri_stages_price_forward(kind, &all).compute_s;
}

/* Stages of two layers: `5 of 6` has a layer without a window in every third stage. */
static void test_prices_of_stages(void **state) {
  (void)state;
  tri_cluster cluster;
  tri_system system;
  load(&cluster, &system);
  const tri_model model = model_of(14, "5 of 6");
  const tri_layout layout = layout_of("pipeline=8,stage_layers=[0,2,2,2,2,2,2,2]", &model, 8, 8);
  const tri_simulation_request request = {.model = &model,
                                          .layout = &layout,
                                          .cluster = &cluster,
                                          .system = &system,
                                          .global_batch = 8,
                                          .sequence = model.max_sequence,
                                          .precision = TRI_BF16};
  tri_stages stages;
  CHECK_OK(tri_stages_create(&request, &stages));
  assert_int_equal(stages.num_kinds, 4); /* the first, the last, two windows, one window */
  for (int64_t stage = 1; stage < 7; stage++) {
    const double seconds = forward_s(&stages, stage), windowed = forward_s(&stages, 1);
    if (stage % 3 == 0) assert_true(seconds > 1.2 * windowed);
    if (stage % 3 != 0) assert_true(seconds == windowed);
  }
  tri_stages_destroy(&stages);
}

/* No stage needs more memory than the fullest one. */
static void test_fullest_stage(void **state) {
  (void)state;
  static const char *const schedules[] = {"1f1b", "zero-bubble"};
  static const char *const recomputes[] = {"none", "full", "full,recompute_every=2", "full,recompute_every=3"};
  draws d = {.key = tri_random_stream(41, TRI_RANDOM_TEST, 0)};
  tri_cluster cluster;
  tri_system system;
  load(&cluster, &system);
  for (int i = 0; i < CASES; i++) {
    char text[128];
    const int64_t pipeline = pick(&d, 3, 8), batch = pick(&d, 1, 12);
    /* Rows are short, compared with the tables of rotary angles. */
    tri_model model = incomplete_model(pick(&d, pipeline, 3 * pipeline), 64);
    draw_windows(&d, 4096, &model);
    model.head_dim = 64;
    CHECK_OK(tri_model_complete(&model));
    snprintf(text, sizeof text, "pipeline=%ld,schedule=%s,recompute=%s,micro_batch=1", (long)pipeline,
             schedules[pick(&d, 0, 1)], recomputes[pick(&d, 0, 3)]);
    const tri_layout layout = layout_of(text, &model, batch, pipeline);
    const tri_simulation_request request = {.model = &model,
                                            .layout = &layout,
                                            .cluster = &cluster,
                                            .system = &system,
                                            .global_batch = batch,
                                            .sequence = model.max_sequence,
                                            .precision = TRI_BF16};
    tri_memory_parts fullest;
    CHECK_OK(tri_predict_fullest(&request, INFINITY, NULL, &fullest));
    for (int64_t stage = 0; stage < pipeline; stage++) {
      tri_memory_parts here;
      CHECK_OK(tri_predict_memory(&request, stage, &here));
      if (here.peak <= fullest.peak) continue;
      fail_msg("%s, windows in %s, rotary embeddings in %s of %ld layers: stage %ld needs %g bytes, the fullest %g",
               text, model.window_layers, model.rope_layers, (long)model.num_layers, (long)stage, here.peak,
               fullest.peak);
    }
  }
}

static void test_search(void **state) {
  (void)state;
  static const char *const sets[] = {"5 of 6", "1 of 2", "3-"};
  tri_cluster cluster;
  tri_system system;
  load(&cluster, &system);
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    const tri_model model = model_of(8, sets[i]);
    tri_search_request request = {.model = &model,
                                  .cluster = &cluster,
                                  .system = &system,
                                  .devices = 4,
                                  .global_batch = 8,
                                  .sequence = model.max_sequence,
                                  .precision = TRI_BF16,
                                  .top = 8};
    tri_search_result bounded, all;
    CHECK_OK(tri_search(&request, &bounded));
    request.exhaustive = true;
    CHECK_OK(tri_search(&request, &all));
    assert_int_equal(bounded.num_answers, all.num_answers);
    assert_true(bounded.simulated < all.simulated / 4);
    for (int64_t a = 0; a < all.num_answers; a++) {
      const double found = bounded.answers[a].prediction.step_s, expected = all.answers[a].prediction.step_s;
      if (fabs(found - expected) > 1e-9 * expected) fail_msg("windows in %s: %g s is not %g", sets[i], found, expected);
    }
    tri_search_release(&bounded);
    tri_search_release(&all);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_prices_of_stages), cmocka_unit_test(test_fullest_stage),
                                     cmocka_unit_test(test_search)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
