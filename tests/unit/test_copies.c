/* Copies of parameters in the activations' type, on a device whose packed weights are plain copies: the update writes
 * them, and prepare packs only the ones that it has not written. The oracle is a run that packs everything before each
 * step. */
#include "check.h"

#include "device/kernels.h"
#include "engine/engine.h"
#include "sanitized.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, VOCABULARY = 37, SEQUENCE = 8, BATCH = 2, STEPS = 6, SKIPPED_STEP = 2 };
/* Matrices of a layer: q, k and v; the projection; up (Llama: and gate); down. Plus one: the head. */
enum { MATRICES = 4 * LAYERS + 1 };

/* ---- a device that counts ---------------------------------------------------------------------------------------- */

typedef struct seen {
  int packs;
  int64_t packed, copied; /* elements */
} seen;
static seen now;
static const tri_device_kernels *kernels;

static tri_status counted_pack(tri_queue *queue, const tri_matmul *product, tri_dtype type, const void *b,
                               void *packed) {
  now.packs++;
  now.packed += product->k * product->n;
  return kernels->matmul_pack(queue, product, type, b, packed);
}

static tri_status counted_adamw(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                                const tri_step_values *values, void *parameter, const void *gradient, void *moment1,
                                void *moment2, void *narrow) {
  if (narrow != NULL) now.copied += count;
  return kernels->adamw(queue, type, count, options, values, parameter, gradient, moment1, moment2, narrow);
}

static seen taken(void) {
  seen out = now;
  now = (seen){0};
  return out;
}

typedef struct bench {
  tri_device *device;
  tri_device_kernels counting;
} bench;

static void create_device(bench *b, const char *name) {
  CHECK_OK(tri_device_create(name, 1, &b->device));
  kernels = b->device->kernels;
  b->counting = *kernels;
  b->counting.matmul_pack = counted_pack;
  b->counting.adamw = counted_adamw;
  b->device->kernels = &b->counting;
  taken();
}

/* ---- an engine --------------------------------------------------------------------------------------------------- */

/* Widths are odd multiples of 4, so that parts of a joined matrix do not begin on round addresses. */
static tri_model small_model(tri_family family, bool tied) {
  tri_model model = {.name = "small",
                     .family = family,
                     .num_layers = LAYERS,
                     .hidden_size = 12,
                     .num_heads = 2,
                     .num_kv_heads = family == TRI_FAMILY_LLAMA ? 1 : 2,
                     .ffn_size = 20,
                     .vocab_size = VOCABULARY,
                     .max_sequence = SEQUENCE,
                     .norm_eps = 1e-5,
                     .init_std = 0.02,
                     .rope_theta = 10000,
                     .rope_scaling.factor = 1,
                     .attention_bias = family == TRI_FAMILY_GPT2,
                     .tied = tied};
  CHECK_OK(tri_model_complete(&model));
  return model;
}

static const tri_layout layout = {.tensor = 1,
                                  .pipeline = 1,
                                  .context = 1,
                                  .data = 1,
                                  .expert = 1,
                                  .virtual_stages = 1,
                                  .schedule = TRI_SCHEDULE_1F1B,
                                  .micro_batch = 1,
                                  .recompute_every = 1,
                                  .bucket_bytes = 2000}; /* several buckets */

static tri_engine *create_engine(const bench *b, const tri_model *model, tri_dtype precision, uint64_t seed) {
  tri_engine_options options = {.model = model,
                                .layout = &layout,
                                .global_batch = BATCH,
                                .sequence = SEQUENCE,
                                .precision = precision,
                                .seed = seed,
                                .ignore_token = -1,
                                .clip = 1.0};
  tri_engine *engine = NULL;
  CHECK_OK(tri_engine_create(&options, b->device, &engine));
  return engine;
}

typedef struct batch {
  int32_t ids[BATCH * SEQUENCE], labels[BATCH * SEQUENCE];
} batch;

static batch batch_of(int64_t step) {
  batch out;
  for (int i = 0; i < BATCH * SEQUENCE; i++) {
    out.ids[i] = (int32_t)((i * 7 + step * 11) % VOCABULARY);
    out.labels[i] = step == SKIPPED_STEP ? -1 : (int32_t)((i * 7 + step * 11 + 7) % VOCABULARY);
  }
  return out;
}

static double step_on(tri_engine *engine, int64_t step) {
  batch given = batch_of(step);
  tri_step result;
  CHECK_OK(tri_engine_step_on(engine, &(tri_tokens){.ids = given.ids, .labels = given.labels}, step,
                              step - (step > SKIPPED_STEP), 1e-2, &result));
  assert_int_equal(result.skipped, step == SKIPPED_STEP);
  return result.loss;
}

static size_t value_bytes(const tri_engine *engine) {
  return (size_t)tri_engine_parameters(engine)->num_elements * sizeof(float);
}

/* Returns a copy that the caller frees. */
static void *values_of(const bench *b, tri_engine *engine) {
  void *out = malloc(value_bytes(engine));
  assert_non_null(out);
  CHECK_OK(tri_queue_download_now(b->device->queue, out, tri_weights_values(tri_engine_executor(engine)->weights),
                                  value_bytes(engine)));
  return out;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* Compares steps with those of an engine whose parameters are reported as changed before each step. */
static void compare(const char *device, tri_family family, bool tied) {
  bench b;
  create_device(&b, device);
  tri_model model = small_model(family, tied);
  tri_engine *engine = create_engine(&b, &model, TRI_BF16, 1), *oracle = create_engine(&b, &model, TRI_BF16, 1);
  int64_t elements = 0;
  for (int64_t s = 0; s < STEPS; s++) {
    taken();
    double loss = step_on(engine, s);
    seen own = taken();
    tri_engine_parameters_changed(oracle);
    double expected = step_on(oracle, s);
    seen others = taken();
    assert_memory_equal(&loss, &expected, sizeof loss);
    if (s == 0) elements = own.packed;
    assert_int_equal(own.packs, s == 0 ? MATRICES : 0);
    assert_int_equal(own.copied, s == SKIPPED_STEP ? 0 : elements);
    assert_int_equal(others.packs, MATRICES);
  }
  void *values = values_of(&b, engine), *expected = values_of(&b, oracle);
  assert_memory_equal(values, expected, value_bytes(engine));
  free(expected);
  free(values);
  tri_engine_destroy(oracle);
  tri_engine_destroy(engine);
  tri_device_destroy(b.device);
}

static void test_updates_write_them(void **state) {
  (void)state;
  for (int tied = 0; tied < 2; tied++) {
    if (!SANITIZED || tied == 1) compare("emulated", TRI_FAMILY_GPT2, tied == 1);
    if (!SANITIZED || tied == 0) compare("emulated:warp=64,seed=3", TRI_FAMILY_LLAMA, tied == 1);
  }
}

/* Values change between an update and the next forward, as when a checkpoint is loaded. */
static void test_other_values_are_packed(void **state) {
  (void)state;
  bench b;
  create_device(&b, "emulated");
  tri_model model = small_model(TRI_FAMILY_LLAMA, true);
  tri_engine *engine = create_engine(&b, &model, TRI_BF16, 1), *other = create_engine(&b, &model, TRI_BF16, 2);
  void *values = values_of(&b, other);
  batch given = batch_of(1);
  tri_step result, expected;
  step_on(engine, 0);
  CHECK_OK(tri_queue_upload_now(b.device->queue, tri_weights_values(tri_engine_executor(engine)->weights), values,
                                value_bytes(engine)));
  tri_engine_parameters_changed(engine);
  taken();
  CHECK_OK(tri_engine_gradients(engine, &(tri_tokens){.ids = given.ids, .labels = given.labels}, 1, &result));
  assert_int_equal(taken().packs, MATRICES);
  CHECK_OK(tri_engine_gradients(other, &(tri_tokens){.ids = given.ids, .labels = given.labels}, 1, &expected));
  assert_memory_equal(&result.loss, &expected.loss, sizeof result.loss);
  assert_memory_equal(&result.grad_norm, &expected.grad_norm, sizeof result.grad_norm);
  free(values);
  tri_engine_destroy(other);
  tri_engine_destroy(engine);
  tri_device_destroy(b.device);
}

/* Updates write no copies if products read the parameter itself, or if the packed layout is private to the device. */
static void test_nobody_else_has_them(void **state) {
  (void)state;
  static const struct {
    const char *device;
    tri_dtype precision;
  } rows[] = {{"emulated", TRI_FP32}, {"cpu", TRI_BF16}, {"cpu", TRI_FP32}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    bench b;
    create_device(&b, rows[i].device);
    tri_model model = small_model(TRI_FAMILY_GPT2, true);
    tri_engine *engine = create_engine(&b, &model, rows[i].precision, 1);
    step_on(engine, 0);
    int packs = taken().packs;
    step_on(engine, 1);
    seen second = taken();
    assert_int_equal(second.packs, packs);
    assert_int_equal(second.copied, 0);
    tri_engine_destroy(engine);
    tri_device_destroy(b.device);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_updates_write_them),
      cmocka_unit_test(test_other_values_are_packed),
      cmocka_unit_test(test_nobody_else_has_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
