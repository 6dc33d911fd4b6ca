/* A generator on the weights that an engine trains: it reads them in place if the types allow, else they are moved.
 * After each step its log-probabilities equal the engine's loss, and it refuses weights that have changed without being
 * published. */
#include "generated_samples.h"

#include "engine/send_weights.h"
#include "generation/generator.h"

#include <math.h>

enum { BATCH = 2, STEPS = 3 };

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

static tri_model make_model(tri_family family) {
  tri_model model = small_model_of(family);
  CHECK_OK(tri_model_complete(&model));
  return model;
}

typedef struct world {
  tri_model model;
  tri_device *device;
  tri_engine *engine;
  tri_runner *runner;
  tri_generator *generator;
  bool shares;
} world;

static void make_world(const char *kind, tri_dtype type, tri_family family, world *w) {
  const tri_runner_sizes sizes = tri_runner_sizes_for(BATCH, SEQUENCE);
  *w = (world){.model = make_model(family)};
  CHECK_OK(tri_device_create(kind, 1, &w->device));
  const tri_engine_options options = {.model = &w->model,
                                      .layout = &layout,
                                      .global_batch = BATCH,
                                      .sequence = SEQUENCE,
                                      .precision = type,
                                      .seed = 7,
                                      .ignore_token = -1,
                                      .clip = 1.0};
  CHECK_OK(tri_engine_create(&options, w->device, &w->engine));
  CHECK_OK(tri_runner_can_share(&w->model, type, tri_engine_weights(w->engine), &w->shares));
  const size_t before = w->device->memory_bytes;
  CHECK_OK(tri_runner_create(&w->model, type, &sizes, w->shares ? tri_engine_weights(w->engine) : NULL, NULL,
                             (tri_lent_memory){0}, w->device, &w->runner));
  tri_runner_need need;
  CHECK_OK(tri_runner_plan(&w->model, type, &sizes, w->shares, 1, w->device, &need));
  assert_int_equal(w->device->memory_bytes - before, need.device_bytes);
  CHECK_OK(tri_generator_create(&w->model, type, w->runner, &w->generator));
}

static void free_world(const world *w) {
  tri_generator_destroy(w->generator);
  tri_runner_destroy(w->runner);
  tri_engine_destroy(w->engine);
  tri_device_destroy(w->device);
}

/* Gives the generator the engine's current weights. */
static void give_weights(const world *w) {
  const tri_weights_target to = tri_runner_target(w->runner);
  if (!w->shares) CHECK_OK(tri_engine_send_weights(w->engine, TRI_POLICY_EVALUATED, &to));
  CHECK_OK(tri_engine_finish(w->engine));
  CHECK_OK(tri_generator_publish(w->generator, TRI_PUBLISH_BETWEEN));
}

/* Returns the mean loss of the samples, computed from the generator's log-probabilities. */
static double generator_loss(const world *w) {
  double scores[BATCH][SEQUENCE - 1], sum = 0;
  tri_sequence *sequences[BATCH];
  for (int64_t i = 0; i < BATCH; i++) {
    int32_t ids[SEQUENCE];
    for (int64_t t = 0; t < SEQUENCE; t++) ids[t] = token(i, t);
    const tri_sequence_options options = {.scored = SEQUENCE - 1, .scores = scores[i]};
    CHECK_OK(tri_generator_begin(w->generator, ids, SEQUENCE, &options, &sequences[i]));
  }
  CHECK_OK(tri_generator_run(w->generator));
  for (int64_t i = 0; i < BATCH; i++) {
    for (int64_t t = 0; t < SEQUENCE - 1; t++) sum -= scores[i][t];
    tri_generator_release(w->generator, sequences[i]);
  }
  return sum / (BATCH * (SEQUENCE - 1));
}

#define STEP(NUMBER) (&(tri_global_batch){(NUMBER), (NUMBER)*BATCH, BATCH})

static void check(const char *kind, tri_dtype type, tri_family family, bool shares, double limit) {
  double former = 0;
  world w;
  make_world(kind, type, family, &w);
  assert_true(w.shares == shares);
  for (int64_t s = 0; s <= STEPS; s++) {
    tri_step step;
    tri_evaluation score;
    if (s > 0) CHECK_OK(tri_engine_step(w.engine, &feed, STEP(s - 1), s - 1, 1e-2, &step));
    give_weights(&w);
    CHECK_OK(tri_engine_score(w.engine, &feed, BATCH, &score));
    const double loss = generator_loss(&w), expected = score.loss_sum / score.counted;
    if (!(fabs(loss - expected) <= limit * expected)) fail_msg("%.17g, not %.17g", loss, expected);
    if (s > 0) assert_true(fabs(loss - former) > 1e-3); /* the weights have changed */
    former = loss;
  }
  free_world(&w);
}

static void test_follows_training(void **state) {
  (void)state;
  check("reference", TRI_FP64, TRI_FAMILY_LLAMA, true, 1e-12);
  check("reference", TRI_FP64, TRI_FAMILY_GPT2, true, 1e-12);
  check("guarded", TRI_FP64, TRI_FAMILY_LLAMA, true, 1e-12);
  check("cpu", TRI_FP32, TRI_FAMILY_LLAMA, true, 1e-5);
  check("cpu", TRI_FP32, TRI_FAMILY_GPT2, true, 1e-5);
  check("cpu", TRI_BF16, TRI_FAMILY_LLAMA, false, 2e-2);
  check("cpu", TRI_BF16, TRI_FAMILY_GPT2, false, 2e-2);
}

static void test_unpublished(void **state) {
  (void)state;
  world w;
  tri_step step;
  tri_sequence *sequence = NULL;
  const int32_t ids[] = {1, 2, 3};
  const tri_sequence_options options = {.sampling = {.temperature = 0}, .wanted = 2};
  bool more = false;
  make_world("cpu", TRI_FP32, TRI_FAMILY_LLAMA, &w);
  give_weights(&w);
  CHECK_OK(tri_engine_step(w.engine, &feed, STEP(0), 0, 1e-2, &step));
  CHECK_OK(tri_generator_begin(w.generator, ids, 3, &options, &sequence));
  CHECK_FAILS(tri_generator_step(w.generator, &more), TRI_INTERNAL, "the weights have version");
  CHECK_OK(tri_generator_publish(w.generator, TRI_PUBLISH_READ_AGAIN));
  CHECK_OK(tri_generator_run(w.generator));
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_follows_training), cmocka_unit_test(test_unpublished)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
