/* A generator on a model with an adapter: factors, magnitudes and a base in 4 bits are computed as in training. Its
 * log-probabilities equal the engine's loss on the same weights, for each kind of adapter, read in place and from a
 * copy in other memory; and a sequence's bits do not depend on the rows that are run together. */
#include "generated_samples.h"

#include "base/memory.h"
#include "base/random.h"
#include "engine/engine_internal.h"
#include "engine/quantised.h"
#include "engine/send_weights.h"
#include "generation/generator.h"

#include <math.h>
#include <string.h>

enum { BATCH = 5 };

static const tri_layout layout = {.tensor = 1,
                                  .pipeline = 1,
                                  .context = 1,
                                  .data = 1,
                                  .expert = 1,
                                  .virtual_stages = 1,
                                  .schedule = TRI_SCHEDULE_1F1B,
                                  .micro_batch = BATCH,
                                  .recompute_every = 1,
                                  .bucket_bytes = 2000};

typedef enum kind { LORA, DORA, PISSA, FOUR_BITS, FOUR_BITS_DORA, EVERYWHERE } kind;
enum { KINDS = EVERYWHERE + 1 };

static void add_word(tri_trainable_words *words, const char *text) {
  snprintf(words->words[words->count++].text, TRI_TRAINABLE_WORD_BYTES, "%s", text);
}

/* Adds factors of the embedding, the output projection and experts, and trained norms. */
static void train_everywhere(tri_model *model) {
  static const char *const modules[] = {"q_proj",    "v_proj",       "o_proj", "gate_proj",
                                        "down_proj", "embed_tokens", "lm_head"};
  static const char *const of_gpt2[] = {"c_attn", "c_proj", "c_fc", "wte"};
  tri_adapter *adapter = &model->tuning.adapter;
  const bool gpt2 = model->family == TRI_FAMILY_GPT2, experts = model->num_experts > 0;
  for (int i = 0; i < (gpt2 ? 4 : 7); i++) {
    if (gpt2 || !experts || i < 3 || i > 4) add_word(&adapter->targets, gpt2 ? of_gpt2[i] : modules[i]);
  }
  if (experts) add_word(&adapter->targets, "mlp.experts.gate_up_proj");
  if (experts) add_word(&adapter->targets, "mlp.experts.down_proj");
  add_word(&adapter->train, gpt2 ? "*ln_1*" : "*norm*");
}

static tri_model make_model(tri_family family, kind how) {
  tri_model model = small_model_of(family);
  tri_adapter *adapter = &model.tuning.adapter;
  if (family == TRI_FAMILY_QWEN3_MOE) {
    model.num_experts = 4;
    model.experts_per_token = 2;
    model.expert_ffn_size = 24;
    model.head_dim = 16;
  }
  CHECK_OK(tri_model_complete(&model));
  adapter->rank = 3;
  adapter->alpha = 4;
  adapter->scaling = how == EVERYWHERE ? TRI_SCALING_RSLORA : TRI_SCALING_LORA;
  adapter->magnitude = how == DORA || how == FOUR_BITS_DORA;
  adapter->init = how == PISSA ? TRI_ADAPTER_PISSA : TRI_ADAPTER_KAIMING;
  adapter->quantise = how == FOUR_BITS || how == FOUR_BITS_DORA ? TRI_QUANTISE_NF4 : TRI_QUANTISE_NONE;
  if (how == EVERYWHERE) train_everywhere(&model);
  CHECK_OK(tri_trainable_check(&model));
  return model;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Returns a value for element i of an entry: norms and magnitudes near 1, others around 0. */
static double value_of(const tri_parameter *entry, int64_t e, int64_t i) {
  const double x = tri_random_uniform(tri_random_stream(3, TRI_RANDOM_TEST, (uint64_t)e), (uint64_t)i) - 0.5;
  return entry->num_dims == 1 && strstr(entry->name, "bias") == NULL ? 1 + 0.4 * x : 0.5 * x;
}

static void write_codes(const tri_executor *executor, int64_t e) {
  const tri_parameter *entry = &executor->weights->table->entries[e];
  for (int64_t m = 0; m < tri_parameter_num_matrices(entry); m++) {
    tri_quantised to;
    double *wide = NULL;
    tri_quantised_set_up(executor, e, m, &to);
    const size_t element = tri_dtype_bytes(to.type);
    CHECK_OK(tri_alloc("values", (size_t)to.cut.total, element, &wide));
    for (int64_t i = 0; i < to.cut.total; i++) tri_wide_set(to.type, wide, i, value_of(entry, e, m * to.cut.total + i));
    CHECK_OK(to.memory.write(to.memory.context, to.wide, wide, (size_t)to.cut.total * element));
    tri_free(wide);
  }
}

static void write_values(const tri_executor *executor) {
  const tri_parameter_table *table = executor->weights->table;
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    const tri_dtype type = tri_weights_type(executor->weights, entry);
    const size_t element = tri_dtype_bytes(type);
    char *values = NULL;
    if (entry->alias) continue;
    if (entry->stored == TRI_STORED_NF4) {
      write_codes(executor, e);
      continue;
    }
    CHECK_OK(tri_alloc("values", (size_t)entry->count, element, &values));
    for (int64_t i = 0; i < entry->count; i++) {
      const double value = value_of(entry, e, i);
      const uint16_t narrow = tri_bf16_of((float)value);
      if (type == TRI_BF16) memcpy(values + (size_t)i * element, &narrow, element);
      if (type != TRI_BF16) tri_wide_set(type, values, i, value);
    }
    CHECK_OK(tri_queue_upload_now(executor->device->queue, executor->weights->parameters[e].value, values,
                                  (size_t)entry->count * element));
    tri_free(values);
  }
  tri_weights_changed(executor->weights);
}

/* ---- generators -------------------------------------------------------------------------------------------------- */

typedef struct writer {
  tri_runner *runner;
  tri_generator *generator;
} writer;

/* Creates a generator that reads `shared`, or has weights of its own. `rows`: the most rows of a run. */
static writer make_writer(const tri_model *model, tri_dtype type, const tri_weights *shared, int64_t rows,
                          tri_device *device) {
  tri_runner_sizes sizes = tri_runner_sizes_for(BATCH, SEQUENCE);
  tri_runner_need need;
  writer out = {.runner = NULL};
  const size_t before = device->memory_bytes;
  sizes.rows = rows;
  sizes.logit_rows = rows;
  CHECK_OK(tri_runner_create(model, type, &sizes, shared, NULL, (tri_lent_memory){0}, device, &out.runner));
  CHECK_OK(tri_runner_plan(model, type, &sizes, shared != NULL, 1, device, &need));
  assert_int_equal(device->memory_bytes - before, need.device_bytes);
  CHECK_OK(tri_generator_create(model, type, out.runner, &out.generator));
  if (shared == NULL) write_values(tri_runner_executor(out.runner));
  CHECK_OK(tri_generator_publish(out.generator, TRI_PUBLISH_BETWEEN));
  return out;
}

static void free_writer(const writer *w) {
  tri_generator_destroy(w->generator);
  tri_runner_destroy(w->runner);
}

/* Computes the log-probabilities of samples [first, end), scores[end - first, SEQUENCE - 1]. */
static void score(const writer *w, int64_t first, int64_t end, double *scores) {
  tri_sequence *sequences[BATCH];
  for (int64_t i = first; i < end; i++) {
    int32_t ids[SEQUENCE];
    for (int64_t t = 0; t < SEQUENCE; t++) ids[t] = token(i, t);
    const tri_sequence_options options = {.scored = SEQUENCE - 1, .scores = scores + (i - first) * (SEQUENCE - 1)};
    CHECK_OK(tri_generator_begin(w->generator, ids, SEQUENCE, &options, &sequences[i - first]));
  }
  CHECK_OK(tri_generator_run(w->generator));
  for (int64_t i = first; i < end; i++) tri_generator_release(w->generator, sequences[i - first]);
}

static void check_loss(const char *name, const double *scores, double expected, double limit) {
  double sum = 0;
  for (int64_t i = 0; i < (int64_t)BATCH * (SEQUENCE - 1); i++) sum -= scores[i];
  const double loss = sum / (BATCH * (SEQUENCE - 1));
  if (!(fabs(loss - expected) <= limit * expected)) fail_msg("%s: %.17g, not %.17g", name, loss, expected);
}

static void check(const char *device_kind, tri_dtype type, tri_family family, kind how, double limit) {
  const tri_model model = make_model(family, how);
  double together[BATCH][SEQUENCE - 1], pieces[BATCH][SEQUENCE - 1], alone[SEQUENCE - 1], copied[BATCH][SEQUENCE - 1];
  tri_device *device = NULL;
  tri_engine *engine = NULL;
  tri_evaluation evaluation;
  bool shares = false;
  CHECK_OK(tri_device_create(device_kind, 1, &device));
  const tri_engine_options options = {.model = &model,
                                      .layout = &layout,
                                      .global_batch = BATCH,
                                      .sequence = SEQUENCE,
                                      .precision = type,
                                      .seed = 7,
                                      .ignore_token = -1,
                                      .clip = 1.0};
  CHECK_OK(tri_engine_create(&options, device, &engine));
  CHECK_OK(tri_runner_can_share(&model, type, tri_engine_weights(engine), &shares));
  assert_true(shares);
  write_values(engine->executor);
  CHECK_OK(tri_engine_score(engine, &feed, BATCH, &evaluation));
  const double expected = evaluation.loss_sum / evaluation.counted;
  const writer whole = make_writer(&model, type, tri_engine_weights(engine), BATCH * SEQUENCE, device);
  const writer small = make_writer(&model, type, tri_engine_weights(engine), BATCH + 1, device);
  const writer own = make_writer(&model, type, NULL, BATCH * SEQUENCE, device);
  score(&whole, 0, BATCH, together[0]);
  check_loss("in place", together[0], expected, limit);
  score(&own, 0, BATCH, copied[0]);
  assert_memory_equal(copied, together, sizeof together);
  score(&small, 0, BATCH, pieces[0]);
  assert_memory_equal(pieces, together, sizeof together);
  for (int64_t i = 0; i < BATCH; i++) {
    score(&small, i, i + 1, alone);
    assert_memory_equal(alone, together[i], sizeof alone);
  }
  CHECK_OK(tri_engine_score(engine, &feed, BATCH, &evaluation)); /* generation has changed no weight */
  assert_true(evaluation.loss_sum / evaluation.counted == expected);
  free_writer(&own);
  free_writer(&small);
  free_writer(&whole);
  tri_engine_destroy(engine);
  tri_device_destroy(device);
}

static void test_equals_training(void **state) {
  static const tri_family families[] = {TRI_FAMILY_LLAMA, TRI_FAMILY_GPT2, TRI_FAMILY_QWEN3_MOE};
  (void)state;
  for (int f = 0; f < 3; f++) {
    for (int how = 0; how < KINDS; how++) {
      check("reference", TRI_FP64, families[f], (kind)how, 1e-12);
      check("cpu", TRI_FP32, families[f], (kind)how, 1e-5);
      check("cpu", TRI_BF16, families[f], (kind)how, 2e-2);
    }
  }
}

/* The guarded device fails if the host touches device memory. */
static void test_guarded(void **state) {
  (void)state;
  check("guarded", TRI_FP64, TRI_FAMILY_LLAMA, FOUR_BITS_DORA, 1e-12);
  check("guarded", TRI_FP64, TRI_FAMILY_QWEN3_MOE, EVERYWHERE, 1e-12);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_training), cmocka_unit_test(test_guarded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
