/* The search's lower bounds, compared with the simulator and the memory plan on random models, machines and layouts: a
 * bound that is too high would lose the best layout without a message. */
#include "check.h"
#include "draws.h"
#include "plan/bounds.h"
#include "schedule/layout_config.h"

#include <math.h>

enum { CASES = 1200 };

static int64_t pick_power(draws *d, int64_t most) { return (int64_t)1 << pick(d, 0, most); }

static tri_model draw_model(draws *d) {
  tri_model model = {.family = toss(d) ? TRI_FAMILY_GPT2 : TRI_FAMILY_LLAMA,
                     .num_layers = pick(d, 1, 10),
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
  if (pick(d, 0, 2) == 0) draw_windows(d, 24, &model);
  CHECK_OK(tri_model_complete(&model));
  return model;
}

static void draw_target(draws *d, tri_trainable_words *targets) {
  static const char *const names[] = {
      "q_proj", "layers.0.self_attn.q_proj", "embed_tokens", "mlp.experts.down_proj", "c_attn", "wte"};
  targets->count = 1;
  snprintf(targets->words[0].text, sizeof targets->words[0].text, "%s", names[pick(d, 0, 5)]);
}

/* Trains a part of the model, by patterns of names, with an adapter or without, if the model has such names. */
static void draw_tuning(draws *d, tri_model *model) {
  static const char *const names[] = {"*embed*", "*.1.*", "*norm*", "*mlp*", "*.[0-4].*", "*wte*", "*attn*", "*"};
  tri_model tuned = *model;
  tri_trainable_words *words = toss(d) ? &tuned.tuning.freeze : &tuned.tuning.adapter.train;
  words->count = pick(d, words == &tuned.tuning.freeze ? 1 : 0, 1);
  snprintf(words->words[0].text, sizeof words->words[0].text, "%s", names[pick(d, 0, 7)]);
  if (words == &tuned.tuning.adapter.train) {
    tuned.tuning.adapter.rank = pick(d, 1, 64);
    tuned.tuning.adapter.alpha = 16;
    tuned.tuning.adapter.quantise = toss(d) ? TRI_QUANTISE_NF4 : TRI_QUANTISE_NONE;
    tuned.tuning.adapter.magnitude = toss(d);
    if (toss(d)) draw_target(d, &tuned.tuning.adapter.targets);
  }
  if (tri_trainable_check(&tuned) == TRI_OK) *model = tuned;
}

static tri_cluster draw_cluster(draws *d) {
  return (tri_cluster){.name = "drawn",
                       .node_devices = 4,
                       .peak_bf16 = pick_scale(d, 12, 15),
                       .vector_flops = pick_scale(d, 11, 14),
                       .memory_bytes = 1e12,
                       .memory_bandwidth = pick_scale(d, 10, 13),
                       .links = {{.name = "inner",
                                  .spans = 4,
                                  .per = 1,
                                  .ports = 1,
                                  .stripe = 1,
                                  .share = 1,
                                  .bandwidth = pick_scale(d, 9, 12),
                                  .latency = pick_scale(d, -7, -4)},
                                 {.name = "outer",
                                  .per = 4,
                                  .ports = 2,
                                  .stripe = 1,
                                  .share = toss(d) ? 1 : 0.3,
                                  .bandwidth = pick_scale(d, 8, 11),
                                  .latency = pick_scale(d, -6, -4)}},
                       .num_links = 2,
                       .protocols = {{.name = "LL", .share = 0.25, .latency = 0.2}},
                       .num_protocols = pick(d, 0, 1),
                       .beside = toss(d) ? 1 : 0.8,
                       .efficiency = {.matmul = 0.7,
                                      .matmul_half = (double)pick(d, 0, 200),
                                      .attention = 0.4,
                                      .memory = 0.8,
                                      .link = 0.7,
                                      .launch = toss(d) ? 0 : 1e-6}};
}

/* Adds measured times: gathers whose seconds grow faster than their bytes, and an update faster than the memory's
 * bandwidth allows. */
static void measure(draws *d, tri_cluster *cluster) {
  tri_measured *m = &cluster->measured;
  const double update_s = 7 * 4 * (double)(1 << 20) / (0.8 * cluster->memory_bandwidth);
  m->precision = TRI_BF16;
  for (int64_t ranks = 2; ranks <= 12; ranks++) {
    for (int scale = 20; scale <= 24; scale += 4) {
      m->collectives[m->num_collectives++] = (tri_measured_collective){.kind = TRI_COLLECTIVE_ALL_GATHER,
                                                                       .ranks = ranks,
                                                                       .bytes = (int64_t)1 << scale,
                                                                       .seconds = scale == 20 ? 1e-4 : 3.2e-3};
    }
  }
  m->elements[m->num_elements++] = (tri_measured_elements){.work = TRI_WORK_UPDATE,
                                                           .pass = TRI_PASS_FORWARD,
                                                           .elements = 1 << 20,
                                                           .seconds = update_s / (double)pick(d, 1, 3)};
  tri_measured_complete(m);
}

/* Draws a division of the layers in which only the first and the last stage may be empty. */
static void draw_stage_layers(draws *d, int64_t layers, tri_layout *layout) {
  int64_t numbers[64], stages = layout->pipeline * layout->virtual_stages, left = layers - (stages - 2);
  if (stages < 2 || stages > 64 || left < 0) return;
  for (int64_t v = 0; v < stages; v++) {
    const int64_t more = v == stages - 1 ? left : pick(d, 0, (int)left);
    numbers[v] = more + (v > 0 && v < stages - 1);
    left -= more;
  }
  assert_int_equal(tri_count_list_keep(numbers, stages, &layout->stage_layers), TRI_OK);
}

/* Draws a layout that the search would try, with other balances of stages, too. Returns false if the layout is not
 * legal. Keys that no search varies are copied from `first`, the first layout of the search, or drawn if `first` is
 * NULL. */
static bool draw_layout(draws *d, const tri_search_request *request, const tri_layout *first, tri_layout *out) {
  static const tri_schedule_kind schedules[] = {TRI_SCHEDULE_1F1B, TRI_SCHEDULE_INTERLEAVED, TRI_SCHEDULE_INTERLEAVED,
                                                TRI_SCHEDULE_ZERO_BUBBLE};
  static const tri_context_exchange exchanges[] = {TRI_CONTEXT_GATHER, TRI_CONTEXT_HEADS, TRI_CONTEXT_RING};
  static const tri_recompute recomputes[] = {TRI_RECOMPUTE_NONE, TRI_RECOMPUTE_SELECTIVE, TRI_RECOMPUTE_FULL};
  tri_layout layout = {.tensor = pick_power(d, 1),
                       .pipeline = pick(d, 1, 8),
                       .context = pick(d, 0, 1) == 0 ? 1 : pick(d, 2, 4),
                       .context_exchange = exchanges[pick(d, 0, 2)],
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
                       .bucket_bytes = 26214400,
                       .micro_batch = pick_power(d, 2)};
  if (layout.context == 4 && layout.context_exchange != TRI_CONTEXT_HEADS && toss(d)) layout.context_inner = 2;
  if (layout.schedule == TRI_SCHEDULE_INTERLEAVED) layout.virtual_stages = pick(d, 2, 4);
  if (pick(d, 0, 1) == 0) {
    layout.balance = TRI_BALANCE_LAYERS;
    layout.embedding_as_layers = pick(d, 0, 3);
    layout.head_as_layers = pick(d, 0, 3);
  } else if (toss(d)) {
    draw_stage_layers(d, request->model->num_layers, &layout);
  }
  layout.sequence_regather = layout.sequence_parallel && toss(d);
  if (request->model->num_experts > 0) draw_expert_layout(d, &layout);
  if (first != NULL) {
    layout.expert_capacity = first->expert_capacity;
    layout.capacity_drop = first->capacity_drop;
  }
  if (tri_layout_resolve(&layout, request->model, request->sequence, request->global_batch, request->devices) != TRI_OK)
    return false;
  *out = layout;
  return true;
}

static void check_bound(tri_bounds *bounds, const tri_search_request *of, const tri_layout *layout) {
  tri_simulation_request request = {.model = of->model,
                                    .layout = layout,
                                    .cluster = of->cluster,
                                    .system = of->system,
                                    .global_batch = of->global_batch,
                                    .sequence = of->sequence,
                                    .precision = of->precision,
                                    .optimizer = of->optimizer,
                                    .masked = of->masked,
                                    .masked_attention_fraction = of->masked_attention_fraction,
                                    .drawn = of->drawn,
                                    .expert_imbalance = of->expert_imbalance};
  char text[TRI_LAYOUT_TEXT_BYTES];
  tri_prediction found;
  tri_bound bound;
  CHECK_OK(tri_bounds_of(bounds, layout, &bound));
  CHECK_OK(tri_simulate(&request, &found));
  if (bound.step_s <= found.step_s * (1 + 1e-9) && bound.bytes <= found.memory.peak) return;
  fail_msg("%ld layers, %ld sequences, %s: a step of %g s at least takes %g, %g bytes are %g",
           (long)of->model->num_layers, (long)of->global_batch, tri_layout_text(layout, text, sizeof text),
           bound.step_s, found.step_s, bound.bytes, found.memory.peak);
}

/* Draws documents of a few tokens, and documents about as long as a sequence or longer. */
static void draw_documents(draws *d, tri_search_request *request, tri_drawn_documents **drawn,
                           tri_attention_fraction_table **table) {
  int64_t some = pick(d, 1, 30), many = pick(d, 1, 100), longer = pick(d, 40, 90), few = pick(d, 1, 5);
  const tri_length_ranges lengths = {.count = 2,
                                     .ranges = {{some, some, many, many * some}, {longer, longer, few, few * longer}}};
  request->masked = true;
  request->masked_attention_fraction = 0.05 + 0.95 * tri_random_uniform(d->key, d->next++);
  CHECK_OK(tri_drawn_documents_create(&lengths, request->sequence, toss(d), drawn));
  CHECK_OK(tri_attention_fraction_table_create(*drawn, table));
  request->drawn = *table;
}

/* Returns a system whose activations, gradients and messages cost least. */
static tri_system least_system(void) {
  return (tri_system){.flash_attention = true,
                      .overlap_reductions = true,
                      .overlap_gathers = true,
                      .overlap_messages = true,
                      .overlap_experts = true,
                      .kernels = 1,
                      .element_traffic = 1,
                      .whole_head_share = 1,
                      .link_share = 1,
                      .levels = true,
                      .planned = true};
}

static void test_bounds(void **state) {
  (void)state;
  draws d = {tri_random_stream(1, TRI_RANDOM_TEST, 15), 0};
  const tri_system system = least_system();
  tri_system other = system; /* its memory is computed from these settings, which are the smallest ones */
  other.planned = false;
  other.gathers_again = true;
  other.overlap_layers = true;
  other.gathers_experts = true;
  other.selective_attention = true;
  other.weight_bytes = other.gradient_bytes = 2;
  other.state_bytes = 12;
  int tuned = 0, windowed = 0;
  for (int i = 0; i < CASES; i++) {
    tri_model model = draw_model(&d);
    tri_optimizer_settings optimizer = *tri_optimizer_settings_default();
    if (toss(&d)) optimizer.name = (tri_optimizer_name)pick(&d, TRI_OPTIMIZER_ADAMW, TRI_OPTIMIZER_FIRA);
    if (toss(&d)) draw_tuning(&d, &model);
    tuned += !tri_trainable_is_full(&model.tuning);
    windowed += model.window > 0;
    tri_cluster cluster = draw_cluster(&d);
    if (i % 5 == 4) measure(&d, &cluster);
    tri_search_request request = {.model = &model,
                                  .cluster = &cluster,
                                  .system = i % 3 == 2 ? &other : &system,
                                  .devices = 4 * pick(&d, 1, 6),
                                  .global_batch = toss(&d) ? pick(&d, 1, 6) : 12 * pick(&d, 1, 8),
                                  .sequence = model.window > 0 ? 101
                                              : toss(&d)       ? 64
                                                               : 61,
                                  .precision = TRI_BF16,
                                  .optimizer = &optimizer};
    tri_bounds *bounds = NULL;
    tri_layout layout, first;
    tri_drawn_documents *drawn = NULL;
    tri_attention_fraction_table *table = NULL;
    if (i % 4 == 3) draw_documents(&d, &request, &drawn, &table);
    if (toss(&d)) request.expert_imbalance = (double)pick(&d, 1, 4);
    CHECK_OK(tri_bounds_create(&request, &bounds));
    for (int tries = 0, legal = 0; tries < 200 && legal < 8; tries++) {
      if (!draw_layout(&d, &request, legal == 0 ? NULL : &first, &layout)) continue;
      if (legal == 0) first = layout;
      check_bound(bounds, &request, &layout);
      legal++;
    }
    tri_bounds_destroy(bounds);
    tri_attention_fraction_table_destroy(table);
    tri_drawn_documents_destroy(drawn);
  }
  assert_in_range(tuned, CASES / 4, CASES);
  assert_in_range(windowed, CASES / 5, CASES / 2);
}

/* An adapter in the first layer alone must not count for the other layers. */
static void test_adapter_of_one_layer(void **state) {
  (void)state;
  draws d = {tri_random_stream(1, TRI_RANDOM_TEST, 9), 0};
  const tri_cluster cluster = draw_cluster(&d);
  tri_system system = least_system();
  tri_model model = {.family = TRI_FAMILY_LLAMA,
                     .num_layers = 64,
                     .hidden_size = 1024,
                     .num_heads = 4,
                     .num_kv_heads = 4,
                     .ffn_size = 1024,
                     .vocab_size = 1000,
                     .max_sequence = 128,
                     .norm_eps = 1e-5,
                     .init_std = 0.02,
                     .tuning.adapter = {.rank = 64, .alpha = 16, .targets.count = 1}};
  tri_search_request request = {.model = &model,
                                .cluster = &cluster,
                                .system = &system,
                                .devices = 4,
                                .global_batch = 4,
                                .sequence = 8,
                                .precision = TRI_BF16,
                                .optimizer = tri_optimizer_settings_default()};
  tri_layout layout = {.tensor = 1,
                       .pipeline = 4,
                       .context = 1,
                       .expert_tensor = 1,
                       .expert = 1,
                       .expert_capacity = 1.5,
                       .virtual_stages = 1,
                       .schedule = TRI_SCHEDULE_1F1B,
                       .recompute_every = 1,
                       .reduce_precision = TRI_FP32,
                       .bucket_bytes = 26214400,
                       .micro_batch = 1};
  tri_bounds *bounds = NULL;
  system.planned = false;
  system.weight_bytes = system.gradient_bytes = 2;
  system.state_bytes = 12;
  snprintf(model.tuning.adapter.targets.words[0].text, sizeof model.tuning.adapter.targets.words[0].text, "%s",
           "layers.0.self_attn.q_proj");
  CHECK_OK(tri_model_complete(&model));
  CHECK_OK(tri_trainable_check(&model));
  CHECK_OK(tri_layout_resolve(&layout, &model, request.sequence, request.global_batch, request.devices));
  CHECK_OK(tri_bounds_create(&request, &bounds));
  check_bound(bounds, &request, &layout);
  tri_bounds_destroy(bounds);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds), cmocka_unit_test(test_adapter_of_one_layer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
