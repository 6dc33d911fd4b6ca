/* The engine's verbs: a loop that calls them one by one does the same step as tri_engine_step, to the bit; calls in
 * another order fail. */
#include "check.h"

#include "engine/engine.h"

#include <string.h>

enum { LAYERS = 2, VOCABULARY = 29, SEQUENCE = 6, BATCH = 4, STEPS = 4 };

static const tri_layout layout = {.tensor = 1,
                                  .pipeline = 1,
                                  .context = 1,
                                  .data = 1,
                                  .expert = 1,
                                  .virtual_stages = 1,
                                  .schedule = TRI_SCHEDULE_1F1B,
                                  .micro_batch = 2,
                                  .recompute_every = 1,
                                  .bucket_bytes = 2000}; /* several buckets */

typedef struct bench {
  tri_device *device;
  tri_model model;
  tri_engine *engine, *oracle; /* with the same seed */
} bench;

static tri_engine_options options_of(const bench *b) {
  return (tri_engine_options){.model = &b->model,
                              .layout = &layout,
                              .global_batch = BATCH,
                              .sequence = SEQUENCE,
                              .precision = TRI_FP64,
                              .seed = 7,
                              .ignore_token = -1,
                              .clip = 1.0};
}

static tri_engine *create_engine(const bench *b) {
  tri_engine_options options = options_of(b);
  tri_engine *engine = NULL;
  CHECK_OK(tri_engine_create(&options, b->device, &engine));
  return engine;
}

static void create_bench(bench *b) {
  b->model = (tri_model){.name = "small",
                         .family = TRI_FAMILY_GPT2,
                         .num_layers = LAYERS,
                         .hidden_size = 12,
                         .num_heads = 2,
                         .num_kv_heads = 2,
                         .ffn_size = 20,
                         .vocab_size = VOCABULARY,
                         .max_sequence = SEQUENCE,
                         .norm_eps = 1e-5,
                         .init_std = 0.02,
                         .rope_theta = 10000,
                         .rope_scaling.factor = 1,
                         .attention_bias = true,
                         .tied = true};
  CHECK_OK(tri_model_complete(&b->model));
  CHECK_OK(tri_device_create("reference", 1, &b->device));
  b->engine = create_engine(b);
  b->oracle = create_engine(b);
}

static void destroy_bench(bench *b) {
  tri_engine_destroy(b->oracle);
  tri_engine_destroy(b->engine);
  tri_device_destroy(b->device);
}

/* Samples that the loop makes itself. */
static tri_status read_sample(const void *from, int64_t index, const tri_sample *out) {
  const int *times = from;
  for (int64_t t = 0; t < SEQUENCE; t++) {
    out->ids[t] = (int32_t)((index * SEQUENCE + t) * *times % VOCABULARY);
    out->labels[t] = t == 3 ? -1 : (int32_t)((index * SEQUENCE + t + 1) * *times % VOCABULARY);
    out->positions[t] = (int32_t)t;
    out->weights[t] = t == 1 ? 0 : t == 2 ? 0.1f : 0.5f * (float)(index % 3 + 1);
  }
  return TRI_OK;
}

/* Returns the sum of the weights. One label of each sequence is ignored, one has weight 0, one a tenth, and the others
 * have a weight that depends on the sequence. */
static double all_weights(int samples) {
  double sum = 0;
  for (int i = 0; i < samples; i++) sum += (SEQUENCE - 3) * 0.5 * (i % 3 + 1);
  return sum + samples * (double)0.1f;
}

static const int times = 7;
static const tri_feed feed = {read_sample, &times};

#define STEP(NUMBER) (&(tri_global_batch){(NUMBER), (NUMBER)*BATCH, BATCH})

static void check_same_step(const tri_step *step, const tri_step *expected) {
  assert_memory_equal(&step->loss, &expected->loss, sizeof step->loss);
  assert_memory_equal(&step->grad_norm, &expected->grad_norm, sizeof step->grad_norm);
  assert_true(step->counted == expected->counted);
}

static void test_verbs_make_the_step(void **state) {
  (void)state;
  bench b;
  create_bench(&b);
  for (int64_t s = 0; s < STEPS; s++) {
    tri_step step, expected;
    CHECK_OK(tri_engine_accumulate(b.engine, &feed, STEP(s + 1))); /* the loop decides otherwise */
    CHECK_OK(tri_engine_accumulate(b.engine, &feed, STEP(s)));
    CHECK_OK(tri_engine_reduce(b.engine, &step));
    CHECK_OK(tri_engine_update(b.engine, s, 1e-2));
    CHECK_OK(tri_engine_step(b.oracle, &feed, STEP(s), s, 1e-2, &expected));
    check_same_step(&step, &expected);
  }
  size_t bytes = (size_t)tri_engine_parameters(b.engine)->num_elements * sizeof(double);
  assert_memory_equal(tri_weights_values(tri_engine_executor(b.engine)->weights),
                      tri_weights_values(tri_engine_executor(b.oracle)->weights), bytes);
  destroy_bench(&b);
}

/* Without dropout, scores equal the losses at the beginning of a step on the same samples, in batches of any size. */
static void test_score(void **state) {
  (void)state;
  bench b;
  create_bench(&b);
  for (int64_t s = 0; s < STEPS; s++) {
    tri_evaluation first, both;
    tri_step step;
    CHECK_OK(tri_engine_score(b.engine, &feed, BATCH, &first));
    CHECK_OK(tri_engine_score(b.engine, &feed, BATCH - 1, &both)); /* the last batch is padded */
    CHECK_OK(tri_engine_accumulate(b.engine, &feed, STEP(0)));
    CHECK_OK(tri_engine_reduce(b.engine, &step));
    CHECK_OK(tri_engine_update(b.engine, s, 1e-2));
    const double loss = first.loss_sum / first.counted;
    assert_memory_equal(&step.loss, &loss, sizeof loss);
    assert_true(first.counted == all_weights(BATCH) && both.counted == all_weights(BATCH - 1));
    assert_true(both.loss_sum < first.loss_sum);
  }
  destroy_bench(&b);
}

static void test_given_tokens(void **state) {
  (void)state;
  bench b;
  create_bench(&b);
  int32_t ids[BATCH * SEQUENCE], labels[BATCH * SEQUENCE], positions[BATCH * SEQUENCE];
  float weights[BATCH * SEQUENCE];
  for (int64_t i = 0; i < BATCH; i++) {
    const int64_t at = i * SEQUENCE;
    CHECK_OK(tri_feed_read(
        &feed, BATCH + i,
        &(tri_sample){.ids = ids + at, .labels = labels + at, .positions = positions + at, .weights = weights + at}));
  }
  tri_step step, expected;
  tri_evaluation score, wanted;
  const tri_tokens tokens = {.ids = ids, .labels = labels, .weights = weights};
  const tri_tokens_at at = {tokens, 0, SEQUENCE};
  const tri_feed given = tri_tokens_feed(&at);
  CHECK_OK(tri_engine_gradients(b.engine, &tokens, 1, &step));
  CHECK_OK(tri_engine_step_on(b.engine, &tokens, 1, 0, 1e-2, &step));
  CHECK_OK(tri_engine_step(b.oracle, &feed, STEP(1), 0, 1e-2, &expected));
  check_same_step(&step, &expected);
  CHECK_OK(tri_engine_score(b.engine, &given, BATCH, &score));
  CHECK_OK(tri_engine_score(b.oracle, &given, BATCH, &wanted));
  assert_memory_equal(&score.loss_sum, &wanted.loss_sum, sizeof score.loss_sum);
  destroy_bench(&b);
}

static void test_order(void **state) {
  (void)state;
  bench b;
  tri_step step;
  tri_evaluation score;
  create_bench(&b);
  CHECK_FAILS(tri_engine_reduce(b.engine, &step), TRI_INTERNAL,
              "called to reduce, but the next verb of its step is accumulate");
  CHECK_FAILS(tri_engine_update(b.engine, 0, 1e-2), TRI_INTERNAL,
              "called to update, but the next verb of its step is accumulate");
  CHECK_OK(tri_engine_accumulate(b.engine, &feed, STEP(0)));
  CHECK_FAILS(tri_engine_update(b.engine, 0, 1e-2), TRI_INTERNAL,
              "called to update, but the next verb of its step is reduce");
  CHECK_OK(tri_engine_reduce(b.engine, &step));
  CHECK_OK(tri_engine_score(b.engine, &feed, 1, &score)); /* overwrites the reduced gradients */
  CHECK_FAILS(tri_engine_update(b.engine, 0, 1e-2), TRI_INTERNAL,
              "called to update, but the next verb of its step is accumulate");
  destroy_bench(&b);
}

/* ---- objectives -------------------------------------------------------------------------------------------------- */

static tri_status append_nothing(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                                 tri_logits logits, int32_t hidden, int32_t head_weight) {
  (void)objective;
  (void)logits;
  (void)model;
  (void)list;
  (void)hidden;
  (void)head_weight;
  return TRI_OK;
}

static void test_objectives(void **state) {
  (void)state;
  static const tri_train_objective nothing = {.name = "nothing", .append = append_nothing};
  bench b;
  create_bench(&b);
  tri_engine_options options = options_of(&b);
  tri_engine *engine = NULL;
  tri_step step, expected;
  options.objective = &nothing;
  CHECK_FAILS(tri_engine_create(&options, b.device, &engine), TRI_INTERNAL, "the objective nothing does not end in");
  options.objective = &tri_objective_cross_entropy;
  CHECK_OK(tri_engine_create(&options, b.device, &engine));
  CHECK_OK(tri_engine_step(engine, &feed, STEP(0), 0, 1e-2, &step));
  CHECK_OK(tri_engine_step(b.oracle, &feed, STEP(0), 0, 1e-2, &expected));
  check_same_step(&step, &expected);
  tri_engine_destroy(engine);
  destroy_bench(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_verbs_make_the_step), cmocka_unit_test(test_score),
      cmocka_unit_test(test_given_tokens),        cmocka_unit_test(test_order),
      cmocka_unit_test(test_objectives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
