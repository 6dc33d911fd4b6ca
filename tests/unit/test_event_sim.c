/* Compares the two simulations of a step on random models, machines, systems and layouts: by turns and by instructions
 * a step takes the same time, with the same parts. Also compares a step with an extrapolated middle with one simulated
 * in full. */
#include "check.h"
#include "draws.h"
#include "model/family.h"
#include "plan/event_sim.h"
#include "schedule/layout_config.h"

#include <math.h>

enum { CASES = 800 };

static tri_model draw_model(draws *d) {
  tri_model model = {.family = toss(d) ? TRI_FAMILY_GPT2 : TRI_FAMILY_LLAMA,
                     .num_layers = pick(d, 1, 30),
                     .hidden_size = 256,
                     .num_heads = 4,
                     .num_kv_heads = 4,
                     .ffn_size = 1024,
                     .vocab_size = toss(d) ? 1000 : 30000,
                     .max_sequence = 128,
                     .tied = toss(d),
                     .norm_eps = 1e-5,
                     .init_std = 0.02};
  if (pick(d, 0, 2) == 0) draw_experts(d, &model);
  CHECK_OK(tri_model_complete(&model));
  return model;
}

/* The host may be slower than the device, messages slower than layers, and communication may stop the device. */
static tri_cluster draw_cluster(draws *d) {
  return (tri_cluster){.name = "drawn",
                       .node_devices = 4,
                       .peak_bf16 = pick_scale(d, 12, 15),
                       .vector_flops = pick_scale(d, 11, 14),
                       .memory_bytes = 1e12,
                       .memory_bandwidth = pick_scale(d, 10, 13),
                       .carries = pick(d, 0, 5) == 0,
                       .beside = toss(d) ? 1 : 0.75,
                       .links = {{.name = "inner",
                                  .share = 1,
                                  .spans = 4,
                                  .per = 1,
                                  .ports = 1,
                                  .stripe = 1,
                                  .bandwidth = pick_scale(d, 9, 12),
                                  .latency = pick_scale(d, -7, -4)},
                                 {.name = "outer",
                                  .share = toss(d) ? 1 : 0.4,
                                  .per = 4,
                                  .ports = 2,
                                  .stripe = 1,
                                  .bandwidth = pick_scale(d, 8, 11),
                                  .latency = pick_scale(d, -6, -4)}},
                       .num_links = 2,
                       .efficiency = {.matmul = 0.7,
                                      .matmul_half = (double)pick(d, 0, 200),
                                      .attention = 0.4,
                                      .memory = 0.8,
                                      .link = 0.7,
                                      .launch = toss(d) ? 0 : pick_scale(d, -7, -3),
                                      .start = toss(d) ? 0 : 1e-5}};
}

static tri_system draw_system(draws *d) {
  return (tri_system){.flash_attention = true,
                      .kernels = (double)pick(d, 0, 3),
                      .element_traffic = 1,
                      .whole_head_share = 1,
                      .overlap_reductions = toss(d),
                      .overlap_gathers = toss(d),
                      .overlap_messages = toss(d),
                      .overlap_experts = toss(d),
                      .gathers_experts = toss(d),
                      .scatter_messages = toss(d),
                      .whole_recompute = toss(d),
                      .link_share = 1,
                      .levels = toss(d),
                      .whole_gradients = toss(d),
                      .planned = toss(d)};
}

/* Returns false if the layout is not legal. */
static bool draw_layout(draws *d, const tri_model *model, int64_t *batch, tri_layout *out) {
  static const tri_schedule_kind schedules[] = {TRI_SCHEDULE_GPIPE, TRI_SCHEDULE_1F1B, TRI_SCHEDULE_INTERLEAVED,
                                                TRI_SCHEDULE_ZERO_BUBBLE};
  static const tri_recompute recomputes[] = {TRI_RECOMPUTE_NONE, TRI_RECOMPUTE_SELECTIVE, TRI_RECOMPUTE_FULL};
  tri_layout layout = {.tensor = pick(d, 1, 2),
                       .pipeline = pick(d, 1, 10),
                       .context = 1,
                       .data = pick(d, 1, 3),
                       .expert_tensor = 1,
                       .expert = 1,
                       .expert_capacity = 1.5,
                       .virtual_stages = 1,
                       .schedule = schedules[pick(d, 0, 3)],
                       .sequence_parallel = toss(d),
                       .zero = pick(d, 0, 3),
                       .recompute = recomputes[pick(d, 0, 2)],
                       .recompute_every = 1,
                       .reduce_precision = TRI_FP32,
                       .bucket_bytes = toss(d) ? 26214400 : 1000000,
                       .micro_batch = pick(d, 1, 2)};
  if (layout.schedule == TRI_SCHEDULE_INTERLEAVED) {
    layout.virtual_stages = pick(d, 2, 4);
    layout.micro_batch_group = toss(d) ? 0 : pick(d, 1, 20);
  }
  if (toss(d)) {
    layout.balance = TRI_BALANCE_LAYERS;
    layout.embedding_as_layers = pick(d, 0, 3);
    layout.head_as_layers = pick(d, 0, 3);
  }
  if (model->num_experts > 0) draw_expert_layout(d, &layout);
  *batch = layout.data * layout.micro_batch * (toss(d) ? pick(d, 1, 40) : pick(d, 40, 600));
  *out = layout;
  return tri_layout_resolve(out, model, 16, *batch, layout.tensor * layout.pipeline * layout.data) == TRI_OK;
}

static void check_same(const tri_simulation_request *request, const char *what, const tri_step_sample *found,
                       tri_step_sample expected, double most) {
  const double *parts = &found->time.compute, *others = &expected.time.compute;
  bool same = fabs(found->step_s - expected.step_s) <= most * expected.step_s;
  char text[TRI_LAYOUT_TEXT_BYTES];
  for (int i = 0; i < TRI_TIME_PARTS; i++) same = same && fabs(parts[i] - others[i]) <= most * expected.step_s;
  if (same) return;
  fail_msg("%ld layers, %ld sequences, %s: %s takes %.12g s (bubble %.12g), instruction by instruction %.12g (%.12g)",
           (long)request->model->num_layers, (long)request->global_batch,
           tri_layout_text(request->layout, text, sizeof text), what, found->step_s, found->time.bubble,
           expected.step_s, expected.time.bubble);
}

/* Checks that the lower bound of a step, or of its forwards, is not above its time. */
static void check_bound(const tri_stages *stages, tri_step_sample step) {
  double bound_s = 0;
  char text[TRI_LAYOUT_TEXT_BYTES];
  CHECK_OK(tri_event_sim_bound(stages, &bound_s));
  if (bound_s > 0 && bound_s <= step.step_s * (1 + 1e-9)) return;
  fail_msg("%ld layers, %ld sequences, %s: the bound is %.12g s, the step takes %.12g s",
           (long)stages->request->model->num_layers, (long)stages->request->global_batch,
           tri_layout_text(stages->request->layout, text, sizeof text), bound_s, step.step_s);
}

/* Checks forwards alone in both simulations, and as a part of a step with a loss of preferences, which needs them. */
static void check_forwards(tri_simulation_request *request, tri_stages *stages, tri_step_sample step) {
  const tri_preference_settings settings = {.loss = TRI_PREFERENCE_KTO, .beta = 0.1};
  const tri_train_objective kto = tri_objective_preference(&settings, 0);
  const int64_t micro_batches = tri_layout_micro_batches(request->layout, request->global_batch);
  tri_step_sample turns, programs;
  tri_prediction whole;
  stages->forward_only = true;
  CHECK_OK(tri_event_sim_turns(stages, micro_batches, NULL, &turns));
  CHECK_OK(tri_event_sim_programs(stages, micro_batches, NULL, &programs));
  check_bound(stages, programs);
  stages->forward_only = false;
  check_same(request, "turn by turn a forward", &turns, programs, 1e-9);
  assert_true(programs.time.compute < step.time.compute && programs.time.optimizer == 0);
  request->objective = &kto;
  CHECK_OK(tri_simulate_step(request, &whole));
  assert_true(fabs(whole.mismatched_s - programs.step_s) <= 1e-9 * step.step_s);
  assert_true(fabs(whole.reference_s - 2 * programs.step_s) <= 1e-9 * step.step_s);
  assert_true(fabs(tri_step_time_sum(&whole.time) - whole.step_s) <= 1e-9 * whole.step_s);
}

static void test_turns(void **state) {
  (void)state;
  draws d = {tri_random_stream(1, TRI_RANDOM_TEST, 11), 0};
  for (int legal = 0; legal < CASES;) {
    tri_model model = draw_model(&d);
    tri_cluster cluster = draw_cluster(&d);
    tri_system system = draw_system(&d);
    tri_layout layout;
    tri_simulation_request request = {
        .model = &model, .layout = &layout, .cluster = &cluster, .system = &system, .sequence = 64};
    request.precision = TRI_BF16;
    if (!draw_layout(&d, &model, &request.global_batch, &layout)) continue;
    if (toss(&d)) request.expert_imbalance = (double)pick(&d, 1, 4);
    tri_stages stages;
    tri_step_sample turns, programs;
    tri_prediction whole;
    int64_t micro_batches = tri_layout_micro_batches(&layout, request.global_batch);
    CHECK_OK(tri_stages_create(&request, &stages));
    CHECK_OK(tri_event_sim_turns(&stages, micro_batches, NULL, &turns));
    CHECK_OK(tri_event_sim_programs(&stages, micro_batches, NULL, &programs));
    check_same(&request, "turn by turn it", &turns, programs, 1e-9);
    CHECK_OK(tri_simulate_step(&request, &whole));
    check_bound(&stages, programs);
    check_same(&request, "without its middle it", &(tri_step_sample){whole.step_s, whole.time}, programs, 1e-9);
    check_forwards(&request, &stages, programs);
    tri_stages_destroy(&stages);
    legal++;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
