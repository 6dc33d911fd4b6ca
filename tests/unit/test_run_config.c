/* Run files: defaults, combinations of keys, options, and the printed configuration, which gives the same run. */
#include "base/memory.h"
#include "base/random.h"
#include "files/file.h"
#include "run/run_config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config_expect.h"

static tri_run_config config, other; /* too large for the stack */

#define LEAST                                                                                                          \
  "model: gpt2-124m\n"                                                                                                 \
  "data: {train: corpus/train}\n"                                                                                      \
  "optimizer:\n"                                                                                                       \
  "  global_batch: 32\n"                                                                                               \
  "  steps: 500\n"                                                                                                     \
  "  lr: 6e-4\n"                                                                                                       \
  "output: runs/first\n"

static tri_status parse(const char *text, tri_run_config *out) {
  return tri_run_config_parse("run.yaml", text, strlen(text), NULL, 0, out);
}

static tri_status parse_with(const char *text, const char *option) {
  return tri_run_config_parse("run.yaml", text, strlen(text), &option, 1, &config);
}

static void has_the_documented_defaults(void **state) {
  (void)state;
  EXPECT_OK(parse(LEAST, &config));
  const tri_run_config *c = &config;
  assert_string_equal(c->model.name, "gpt2-124m");
  assert_int_equal(c->model.vocab_size, 50257);
  assert_int_equal(c->data.num_train, 1);
  assert_string_equal(c->data.train[0].path, "corpus/train");
  assert_true(c->data.train[0].weight == 0);
  assert_string_equal(c->data.validation, "");
  assert_string_equal(c->data.tokenizer, "");
  assert_int_equal(c->data.sequence, 1024);
  assert_true(c->layout.tensor == 1 && c->layout.pipeline == 1 && c->layout.context == 1 && c->layout.data == 0 &&
              c->layout.expert == 1 && c->layout.virtual_stages == 1 && c->layout.schedule == TRI_SCHEDULE_1F1B &&
              !c->layout.sequence_parallel && c->layout.zero == 0 && c->layout.recompute == TRI_RECOMPUTE_NONE &&
              c->layout.micro_batch == 1);
  assert_true(c->optimizer.global_batch == 32 && c->optimizer.steps == 500 && c->optimizer.lr == 6e-4 &&
              c->optimizer.warmup == 0 && c->optimizer.decay == TRI_DECAY_COSINE && c->optimizer.min_lr == 0 &&
              c->optimizer.decay_fraction == 0.2 && c->optimizer.settings.betas[0] == 0.9 &&
              c->optimizer.settings.betas[1] == 0.95 && c->optimizer.settings.eps == 1e-8 &&
              c->optimizer.settings.weight_decay == 0.1 && c->optimizer.clip == 1 && c->optimizer.max_bad_steps == 10);
  assert_true(c->precision == TRI_FP32 && c->threads == 0 && c->seed == 1234);
  assert_string_equal(c->device, "auto");
  assert_true(c->evaluation.every == 100 && c->evaluation.sequences == 64 && c->evaluation.batches == 0 &&
              c->evaluation.stop_after == 0);
  assert_true(c->checkpoint.every == 1000 && c->checkpoint.keep == 3);
  assert_true(c->samples.num_prompts == 0 && c->samples.tokens == 100 && c->samples.temperature == 1 &&
              c->samples.top_k == 0 && c->samples.top_p == 1 && c->samples.seed == 1234 && c->samples.tensor == 1);
  assert_string_equal(c->output, "runs/first");
}

/* The example of the design, with the model inline. */
static void reads_a_whole_run(void **state) {
  (void)state;
  EXPECT_OK(parse(
      "model: {family: llama, num_layers: 4, hidden_size: 64, num_heads: 4, num_kv_heads: 2, ffn_size: 160,\n"
      "        vocab_size: 300, max_sequence: 64, tied: true, rope_theta: 500000.0, attention_bias: true,\n"
      "        rope_scaling: {factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_sequence: 32}}\n"
      "data: {train: a, validation: b, tokenizer: c.json, sequence: 32}\n"
      "layout: {tensor: 2, pipeline: 2, context: 2, data: 4, expert: 2, virtual_stages: 2, schedule: interleaved,\n"
      "         sequence_parallel: true, zero: 3, recompute: selective, micro_batch: 4}\n"
      "optimizer: {global_batch: 32, steps: 500, lr: 6.0e-4, warmup: 50, decay: wsd, min_lr: 6.0e-5,\n"
      "            decay_fraction: 0.5, betas: [0.8, 0.99], eps: 1.0e-6, weight_decay: 0, clip: 0, max_bad_steps: 3}\n"
      "precision: fp64\ndevice: reference\nthreads: 2\nseed: 18446744073709551615\n"
      "evaluation: {every: 0, batches: 2}\ncheckpoint: {every: 0, keep: 0}\noutput: /tmp/x\n",
      &config));
  const tri_run_config *c = &config;
  assert_string_equal(c->model.name, "inline");
  assert_true(c->model.family == TRI_FAMILY_LLAMA && c->model.tied && c->model.attention_bias &&
              c->model.rope_scaling.original_max_sequence == 32);
  assert_true(c->layout.data == 4 && c->layout.schedule == TRI_SCHEDULE_INTERLEAVED && c->layout.sequence_parallel &&
              c->layout.zero == 3 && c->layout.recompute == TRI_RECOMPUTE_SELECTIVE && c->layout.context == 2 &&
              c->layout.virtual_stages == 2 && c->layout.expert == 2 && c->layout.pipeline == 2);
  assert_true(c->optimizer.decay == TRI_DECAY_WSD && c->optimizer.decay_fraction == 0.5 &&
              c->optimizer.settings.betas[0] == 0.8 && c->optimizer.settings.betas[1] == 0.99 &&
              c->optimizer.clip == 0 && c->optimizer.settings.weight_decay == 0 && c->optimizer.warmup == 50 &&
              c->optimizer.settings.eps == 1e-6);
  assert_true(c->precision == TRI_FP64 && c->threads == 2 && c->seed == UINT64_MAX && c->data.sequence == 32);
  assert_string_equal(c->data.tokenizer, "c.json");
}

static void asks_for_what_has_no_default(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"output: x\n",
       "`model` is missing from run.yaml; add `model:`, for example `model: gpt2-124m`; also missing: `data.train` "
       "(for "
       "example corpus/train), `optimizer.global_batch` (for example 32), `optimizer.lr` (for example 6.0e-4)"},
      {"model: gpt2-demo\n",
       "`data.train` is missing from run.yaml; add `train:` under `data:`, for example `train: corpus/train`; also "
       "missing: `optimizer.global_batch` (for example 32), `optimizer.lr` (for example 6.0e-4), `output` (for example "
       "runs/first)"},
      {"model: gpt2-demo\ndata: {train: x}\noptimizer: {global_batch: 4}\n",
       "`optimizer.lr` is missing from run.yaml; add `lr:` under `optimizer:`, for example `lr: 6.0e-4`; also missing: "
       "`output` (for example runs/first)"},
      {"model: gpt2-demo\ndata: {train: x}\noptimizer: {global_batch: 4, lr: 1}\noutput: b\n",
       "`optimizer.steps` is missing from run.yaml; add `steps:` under `optimizer:`, for example `steps: 500`, or "
       "`epochs:`, for example `epochs: 3`"},
      {"model: gpt2-demo\ndata: {train: x}\noptimizer: {global_batch: 4, steps: 1, lr: 1}\n",
       "`output` is missing from run.yaml; add `output:`, for example `output: runs/first`"},
      {"", "run.yaml is empty"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message, parse(cases[i].text, &config));
  }
}

static void names_line_key_and_nearest_word(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"model:\n  family: gpt2\n  layers: 3\n",
       "`layers` is not a key of `model:` at line 3 of run.yaml; did you mean `num_layers`?"},
      {"optimizer:\n  lr: fast\n"
       "model: gpt2-demo\n"
       "data: {train: a}\n",
       "`optimizer.global_batch` is missing from run.yaml; add `global_batch:` under `optimizer:`, for example "
       "`global_batch: 32`; also missing: `output` (for example runs/first)"},
      {"optimizer:\n  lr: fast\n  steps: 1\n  global_batch: 1\nmodel: gpt2-demo\ndata: {train: a}\noutput: b\n",
       "`lr` under `optimizer:` at line 2 of run.yaml must be a number, not `fast`"},
      {LEAST "layout: {schedule: 1b1f}\n",
       "`schedule` under `layout:` at line 8 of run.yaml must be one of gpipe, 1f1b, interleaved, zero-bubble, not "
       "`1b1f`; did you mean `1f1b`?"},
      {LEAST "layout: {zero: 4}\n", "`zero` under `layout:` at line 8 of run.yaml must be between 0 and 3, not 4"},
      {LEAST "layout: {tensor: 0}\n",
       "`tensor` under `layout:` at line 8 of run.yaml must be between 1 and 16777216, not 0"},
      {LEAST "precision: fp16\n",
       "`precision` at line 8 of run.yaml must be one of fp32, bf16, fp64, not `fp16`; did "
       "you mean `bf16`?"},
      {LEAST "checkpoint: {keep: -1}\n",
       "`keep` under `checkpoint:` at line 8 of run.yaml must be between 0 and 1073741824, not -1"},
      {LEAST "checkpoints: {keep: 1}\n",
       "`checkpoints` is not a key of a run file at line 8 of run.yaml; did you mean `checkpoint`?"},
      {LEAST "evaluation: 50\n", "`evaluation` at line 8 of run.yaml must be a mapping of keys, not `50`"},
      {LEAST "seed: 1\nseed: 2\n", "`seed` at line 9 of run.yaml was already given at line 8; keep one of them"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message, parse(cases[i].text, &config));
  }
  EXPECT_FAILS_LIKE(TRI_BAD_CONFIG, "`gpt2-124` at line 1 of run.yaml is not a model preset; did you mean `gpt2-124m`?",
                    parse("model: gpt2-124\ndata: {train: x}\n", &config));
}

static void refuses_impossible_combinations(void **state) {
  (void)state;
  static const struct {
    const char *option, *message;
    tri_status status;
  } cases[] = {
      {"optimizer.global_batch=30",
       "--set optimizer.global_batch=30: `optimizer.global_batch` 30 is not a multiple of "
       "layout.micro_batch 4 x layout.data 2 = 8; try 32, or layout.micro_batch 3",
       TRI_BAD_CONFIG},
      {"optimizer.global_batch=3",
       "--set optimizer.global_batch=3: `optimizer.global_batch` 3 is not a multiple of "
       "layout.micro_batch 4 x layout.data 2 = 8; try 8",
       TRI_BAD_CONFIG},
      {"layout.micro_batch=5",
       "`optimizer.global_batch` 32 is not a multiple of layout.micro_batch 5 x layout.data 2 = "
       "10; try 30, or layout.micro_batch 4 (line 4 of run.yaml)",
       TRI_BAD_CONFIG},
      {"data.sequence=1025",
       "--set data.sequence=1025: `data.sequence` 1025 is longer than the model's max_sequence; "
       "use at most 1024",
       TRI_BAD_CONFIG},
      {"optimizer.warmup=501",
       "--set optimizer.warmup=501: `optimizer.warmup` 501 is longer than the run of 500 steps; a tenth would be 50",
       TRI_BAD_CONFIG},
      {"optimizer.min_lr=1e-3", "--set optimizer.min_lr=1e-3: `optimizer.min_lr` 0.001 is above optimizer.lr 0.0006",
       TRI_BAD_CONFIG},
      {"precision=fp64",
       "--set precision=fp64: `precision` fp64 needs `device: reference` or `device: gpu`, not "
       "`device: auto`",
       TRI_BAD_CONFIG},
      {"layout.tensor=16777216",
       "`layout` has more than 16777216 ranks: tensor x pipeline x context x data (line "
       "8 of run.yaml)",
       TRI_BAD_LAYOUT},
      {"model.num_heads=5",
       "--set model.num_heads=5: `num_heads` 5 does not divide hidden_size 768: num_heads 5 x "
       "head_dim 153 = 765; try num_heads 4",
       TRI_BAD_CONFIG},
      {"optimizer.lr=-1", "--set optimizer.lr=-1: `lr` under `optimizer:` must be at least 0, not -1", TRI_BAD_CONFIG},
      {"optimizer.betas=[0.9, 1]",
       "--set optimizer.betas=[0.9, 1]: `betas` under `optimizer:` must be at least 0 and "
       "below 1, not 1",
       TRI_BAD_CONFIG},
      {"optimizer.clip=-0.1", "--set optimizer.clip=-0.1: `clip` under `optimizer:` must be at least 0, not -0.1",
       TRI_BAD_CONFIG},
      {"layers=4", "--set layers=4: `layers` is not a key; did you mean `model.num_layers`?", TRI_BAD_CONFIG},
      {"optimizer.lr", "--set optimizer.lr: `=` is missing; write --set key=value, for example --set optimizer.lr=1e-4",
       TRI_BAD_USAGE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    memset(&config, 0x5A, sizeof config);
    memset(&other, 0x5A, sizeof other);
    EXPECT_FAILS(cases[i].status, cases[i].message,
                 parse_with(LEAST "layout: {micro_batch: 4, data: 2}\n", cases[i].option));
    assert_memory_equal(&config, &other, sizeof config); /* outputs only on success */
  }
  const char *const too_many[] = {"optimizer.steps=1073741824", "optimizer.global_batch=16777216",
                                  "model.max_sequence=1073741824", "data.sequence=1073741824"};
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "--set optimizer.steps=1073741824: `optimizer.steps` x global_batch x data.sequence is more tokens than "
               "can be counted",
               tri_run_config_parse("run.yaml", LEAST, strlen(LEAST), too_many, 4, &config));
}

/* ---- mixtures ---------------------------------------------------------------------------------------------------- */

#define BESIDE_TRAIN "model: gpt2-124m\noptimizer: {global_batch: 32, steps: 500, lr: 6e-4}\noutput: x\n"

static void reads_mixtures(void **state) {
  (void)state;
  tri_mixture_shares shares;
  EXPECT_OK(parse(BESIDE_TRAIN "data:\n  train:\n    - {path: web/train, weight: 7}\n    - {path: code, weight: 3e0}\n",
                  &config));
  assert_int_equal(config.data.num_train, 2);
  assert_string_equal(config.data.train[0].path, "web/train");
  assert_string_equal(config.data.train[1].path, "code");
  assert_true(config.data.train[0].weight == 7 && config.data.train[1].weight == 3);
  assert_true(config.data.train[0].label_weight == 1 && config.data.train[1].label_weight == 1);
  EXPECT_OK(tri_run_config_shares(&config, &shares));
  assert_true(shares.num_sources == 2 && shares.period == 10 && shares.counts[0] == 7 && shares.counts[1] == 3);
  /* A single source has no share, in any notation. */
  static const char *const alone[] = {"data: {train: a}\n", "data: {train: [a]}\n", "data: {train: [{path: a}]}\n",
                                      "data: {train: [{path: a, weight: 0.3}]}\n"};
  EXPECT_OK(parse(BESIDE_TRAIN "data: {train: \"a\"}\n", &other));
  for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
    char text[512];
    snprintf(text, sizeof text, "%s%s", BESIDE_TRAIN, alone[i]);
    EXPECT_OK(parse(text, &config));
    assert_memory_equal(&config, &other, sizeof config);
  }
  EXPECT_OK(parse_with(LEAST, "data.train=[{path: a, weight: 1}, {path: b, weight: 2}]"));
  assert_true(config.data.num_train == 2 && config.data.train[1].weight == 2);
  EXPECT_OK(parse_with(LEAST, "data.train=[{path: a, weight: 1, label_weight: 0.5}, {path: b, weight: 2}]"));
  assert_true(config.data.train[0].label_weight == 0.5 && config.data.train[1].label_weight == 1);
  assert_false(tri_run_config_mixes_by_size(&config));
  EXPECT_OK(parse_with(LEAST, "data.train=[a, {path: b, label_weight: 2}]"));
  assert_true(config.data.num_train == 2 && tri_run_config_mixes_by_size(&config));
  assert_true(config.data.train[0].label_weight == 1 && config.data.train[1].label_weight == 2);
  EXPECT_OK(parse_with(LEAST, "data.train=b"));
  assert_int_equal(config.data.num_train, 1);
  assert_string_equal(config.data.train[0].path, "b");
  EXPECT_OK(parse(BESIDE_TRAIN "data: {train: {path: c, label_weight: 2}}\n", &config));
  assert_int_equal(config.data.num_train, 1);
  assert_string_equal(config.data.train[0].path, "c");
}

static void refuses_mixtures_that_say_nothing(void **state) {
  (void)state;
  static const struct {
    const char *data, *message;
  } cases[] = {
      {"[]",
       "`data.train` is missing; add `train:` under `data:`, for example `train: corpus/train` (line 4 of run.yaml)"},
      {"", "`train` under `data:` at line 4 of run.yaml has no value; it must be a path"},
      {"{weight: 0.5}",
       "`data.train.path` is missing from run.yaml; add `path:` under `data.train:`, for example `path: corpus/train`"},
      {"[[a]]", "`train` under `data:` at line 4 of run.yaml must be a text or a list of mappings of keys, not a list"},
      {"[{path: a, weight: 0}, {path: b, weight: 1}]",
       "`data.train` has 2 sources and a has no weight; give each its share of the samples, for example {path: a, "
       "weight: 0.5}, or none a weight, to mix by size (line 4 of run.yaml)"},
      {"[{path: a, weight: -0.5}, {path: b, weight: 1}]",
       "`weight` under `data.train:` at line 4 of run.yaml must be at least 0, not -0.5"},
      {"[{path: a, weight: 1, label_weight: 0}, {path: b, weight: 1}]",
       "`label_weight` under `data.train:` at line 4 of run.yaml must be between 1e-06 and 1000000, not 0"},
      {"[{path: a, weight: most}, {path: b, weight: 1}]",
       "`weight` under `data.train:` at line 4 of run.yaml must be a number, not `most`"},
      {"[{path: a, weight: .nan}, {path: b, weight: 1}]",
       "`weight` under `data.train:` at line 4 of run.yaml must be a number, not `.nan`"},
      {"[{weight: 0.5}, {path: b, weight: 1}]",
       "`data.train.path` is missing from run.yaml; add `path:` under `data.train:`, for example `path: corpus/train`"},
      {"[{path: a, weigth: 0.5}]",
       "`weigth` is not a key of `data.train:` at line 4 of run.yaml; did you mean `weight`?"},
      {"[{path: a, weight: 0.5}, {path: b}]",
       "`data.train` has 2 sources and b has no weight; give each its share of the samples, for example {path: b, "
       "weight: 0.5}, or none a weight, to mix by size (line 4 of run.yaml)"},
      {"[a, b, a]", "`data.train` names a twice; name it once (line 4 of run.yaml)"},
      {"[{path: a, weight: 0.5}, {path: b, weight: 1}, {path: a, weight: 0.25}]",
       "`data.train` names a twice; name it once, with weight 0.75 (line 4 of run.yaml)"},
      {"[{path: a, weight: 1e-9}, {path: b, weight: 1}]",
       "`data.train`: a has a weight of 1e-09, which is less than 1 / 1048576 of the sum of all weights; give it more, "
       "or leave it out (line 4 of run.yaml)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[1024];
    snprintf(text, sizeof text, "%sdata: {train: %s}\n", BESIDE_TRAIN, cases[i].data);
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message, parse(text, &config));
  }
  char many[64 * TRI_MOST_SOURCES] = BESIDE_TRAIN "data:\n  train:\n";
  for (int k = 0; k <= TRI_MOST_SOURCES; k++) {
    snprintf(many + strlen(many), sizeof many - strlen(many), "  - {path: c%d, weight: 1}\n", k);
  }
  EXPECT_FAILS(TRI_BAD_CONFIG, "`train` under `data:` at line 134 of run.yaml has more than 128 entries",
               parse(many, &config));
}

static void options_work_on_presets_in_order(void **state) {
  (void)state;
  EXPECT_OK(parse_with(LEAST, "model.num_layers=4"));
  assert_int_equal(config.model.num_layers, 4);
  assert_int_equal(config.model.hidden_size, 768);
  const char *const options[] = {
      "model.num_layers=5", "model=llama-3-8b", "model.num_layers=3",          "layout.tensor=2",
      "layout.data=1",      "layout.data=auto", "model.rope_scaling.factor=1", "data.sequence=4096"};
  EXPECT_FAILS(
      TRI_BAD_CONFIG,
      "the sequence length is missing, and the maximum of llama-3-8b, 131072 tokens, is too long for a default; "
      "add `sequence:` "
      "under `data:`, for example `sequence: 4096` (run.yaml)",
      tri_run_config_parse("run.yaml", LEAST, strlen(LEAST), options, 7, &config));
  EXPECT_OK(tri_run_config_parse("run.yaml", LEAST, strlen(LEAST), options, 8, &config));
  assert_true(config.model.num_layers == 3 && config.model.hidden_size == 4096 && config.layout.tensor == 2 &&
              config.layout.data == 0 && config.model.rope_scaling.factor == 1);
  assert_string_equal(config.model.name, "llama-3-8b");
  assert_int_equal(config.data.sequence, 4096);
}

/* ---- files and printing ------------------------------------------------------------------------------------------ */

static int enter_folder(void **state) {
  char *folder = strdup("/tmp/trireme-test-run-XXXXXX");
  *state = folder;
  return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int leave_folder(void **state) {
  int failed = chdir("/") != 0 || tri_directory_remove(*state) != TRI_OK;
  free(*state);
  return failed;
}

static void reads_files_and_the_examples(void **state) {
  (void)state;
  EXPECT_FAILS(TRI_BAD_FILE, "cannot open none.yaml: No such file or directory",
               tri_run_config_load("none.yaml", NULL, 0, &config));
  EXPECT_OK(tri_file_replace("run.yaml", LEAST, strlen(LEAST)));
  EXPECT_OK(tri_run_config_load("run.yaml", NULL, 0, &config));
  EXPECT_OK(parse(LEAST, &other));
  assert_memory_equal(&config, &other, sizeof config);
  EXPECT_OK(tri_run_config_load(TRIREME_SOURCE_DIR "/configs/runs/gpt2-demo.yaml", NULL, 0, &config));
  EXPECT_OK(tri_run_config_load(TRIREME_SOURCE_DIR "/configs/runs/gpt2-124m.yaml", NULL, 0, &config));
  char *large = calloc(1, TRI_PATH_BYTES * 300);
  memset(large, '#', TRI_PATH_BYTES * 300);
  EXPECT_OK(tri_file_replace("large.yaml", large, (size_t)TRI_PATH_BYTES * 300));
  free(large);
  EXPECT_FAILS(TRI_BAD_FILE, "large.yaml is larger than the 1.00 MiB that such a file may have",
               tri_run_config_load("large.yaml", NULL, 0, &config));
}

static uint64_t next(uint64_t *index, uint64_t below) {
  tri_random_key key = tri_random_stream(11, TRI_RANDOM_TEST, 3);
  uint64_t bits = (uint64_t)tri_random_u32(key, *index) << 32 | tri_random_u32(key, *index + 1);
  *index += 2;
  return bits % below;
}

static double next_double(uint64_t *index, double below) {
  return below * tri_random_uniform(tri_random_stream(12, TRI_RANDOM_TEST, 3), (*index)++);
}

static void any_experts(tri_model *m, uint64_t *index) {
  m->router_groups = m->router_kept_groups = 1;
  m->router_scale = 1;
  if (m->family != TRI_FAMILY_LLAMA || m->attention_bias || m->mlp_bias || next(index, 2) == 0) return;
  m->family = TRI_FAMILY_DOTS1;
  m->router_groups = 1 + (int64_t)next(index, 4);
  m->router_kept_groups = 1 + (int64_t)next(index, (uint64_t)m->router_groups);
  m->num_experts = m->router_groups * (2 + (int64_t)next(index, 20));
  m->experts_per_token = m->router_kept_groups;
  m->expert_ffn_size = 1 + (int64_t)next(index, 4096);
  m->shared_experts = (int64_t)next(index, 3);
  m->dense_layers = (int64_t)next(index, (uint64_t)m->num_layers + 1);
  m->router_scoring = (tri_router_scoring)next(index, 2);
  m->router_quota = next(index, 2) == 1;
  m->router_normalised = next(index, 2) == 1;
  m->router_bias = next(index, 2) == 1;
  m->router_scale = 0.1 + next_double(index, 5);
  m->balance = m->router_bias ? TRI_BALANCE_EXPERTS_BIAS : (tri_balance_experts)next(index, 2);
  if (m->balance != TRI_BALANCE_EXPERTS_NONE) m->balance_rate = 1e-9 + next_double(index, 1);
  m->z_loss = next_double(index, 1);
}

static void any_model(tri_model *m, uint64_t most_layers, uint64_t *index) {
  bool llama = next(index, 2) == 1;
  m->family = llama ? TRI_FAMILY_LLAMA : TRI_FAMILY_GPT2;
  snprintf(m->name, sizeof m->name, "model %d: \"it's\" #%d", (int)next(index, 100), (int)next(index, 10));
  m->num_layers = 1 + (int64_t)next(index, most_layers);
  m->num_kv_heads = 1 + (int64_t)next(index, 16);
  m->num_heads = llama ? m->num_kv_heads * (1 + (int64_t)next(index, 8)) : m->num_kv_heads;
  m->head_dim = 2 * (2 + (int64_t)next(index, 100));
  m->hidden_size = m->num_heads * (llama ? 1 + (int64_t)next(index, 1 << 13) : m->head_dim);
  m->ffn_size = 1 + (int64_t)next(index, 1 << 22);
  m->vocab_size = 1 + (int64_t)next(index, INT32_MAX);
  m->max_sequence = 1 + (int64_t)next(index, 1 << 20);
  m->tied = next(index, 2) == 1;
  m->attention_bias = !llama || next(index, 2) == 1;
  m->activation = llama || next(index, 2) == 0 ? TRI_ACTIVATION_GELU_TANH : TRI_ACTIVATION_GELU_ERF;
  m->dropout = llama ? 0 : next_double(index, 1);
  m->norm_eps = exp(-next_double(index, 30));
  m->init_std = exp(-next_double(index, 9));
  m->rotary_fraction = m->embedding_scale = m->residual_scale = m->logit_divisor = 1;
  snprintf(m->rope_layers, sizeof m->rope_layers, "all");
  snprintf(m->model_type, sizeof m->model_type, "%s", next(index, 2) == 0 ? "" : "mistral");
  m->rope_theta = llama ? 1 + next_double(index, 1e7) : 10000;
  m->window = llama ? (int64_t)next(index, 3) * (1 + (int64_t)next(index, 1 << 20)) : 0;
  snprintf(m->window_layers, sizeof m->window_layers, "%s",
           m->window > 0 && m->num_layers > 8 && next(index, 2) == 0 ? "0, 3-5" : "all");
  m->mlp_bias = llama && !m->attention_bias && m->window == 0 && next(index, 2) == 1;
  m->output_bias = llama && m->attention_bias && m->window == 0 && next(index, 2) == 1;
  tri_rope_scaling *scaling = &m->rope_scaling;
  scaling->type = llama ? (tri_rope_type)next(index, 5) : TRI_ROPE_LLAMA3;
  scaling->factor = llama ? 1 + next_double(index, 30) : 1;
  scaling->low_freq_factor = 0.1 + next_double(index, 1);
  scaling->high_freq_factor = 2 + next_double(index, 9);
  scaling->original_max_sequence = 1 + (int64_t)next(index, 1 << 20);
  scaling->attention_factor = next(index, 2) == 0 ? 0 : next_double(index, 2);
  scaling->mscale = next_double(index, 2);
  scaling->mscale_all_dim = next_double(index, 2);
  scaling->beta_slow = 0.1 + next_double(index, 2);
  scaling->beta_fast = 3 + next_double(index, 40);
  scaling->truncate = next(index, 2) == 1;
  for (int64_t i = 0; i < m->head_dim / 2 && i < TRI_ROPE_MOST_PAIRS; i++) {
    scaling->short_factor[i] = 0.5 + next_double(index, 3);
    scaling->long_factor[i] = 0.5 + next_double(index, 60);
  }
  any_experts(m, index);
}

/* Returns an objective with default settings; others are refused unless the loss is one of preferences. */
static tri_objective_config plain_objective(void) {
  EXPECT_OK(parse(LEAST, &other));
  return other.objective;
}

static void any_run(tri_run_config *c, uint64_t *index) {
  memset(c, 0, sizeof *c);
  tri_adapter *adapter = &c->model.tuning.adapter;
  const int64_t rank = next(index, 20) == 0 ? 1 : 0;
  any_model(&c->model, rank > 0 ? 64 : 1 << 14, index); /* checks of an adapter list all parameters */
  adapter->rank = rank;
  const double alpha = 0.5 + next_double(index, 100), dropout = next_double(index, 1);
  adapter->alpha = adapter->rank > 0 ? alpha : 1; /* both keys are refused without a rank */
  adapter->dropout = adapter->rank > 0 ? dropout : 0;
  adapter->scaling = adapter->rank > 0 ? TRI_SCALING_RSLORA : TRI_SCALING_LORA;
  adapter->init = adapter->rank > 0 ? TRI_ADAPTER_GAUSSIAN : TRI_ADAPTER_KAIMING;
  if (adapter->rank > 0 && next(index, 2) == 1) {
    adapter->rank_pattern.count = adapter->alpha_pattern.count = 1;
    adapter->rank_pattern.entries[0] = (tri_adapter_pattern){.pattern = ".*", .rank = 1};
    adapter->alpha_pattern.entries[0] = (tri_adapter_pattern){.pattern = "(.*)\\.\\w+|\"x", .alpha = 0.1 + dropout};
  }
  adapter->quantise = adapter->rank > 0 ? TRI_QUANTISE_NF4 : TRI_QUANTISE_NONE;
  snprintf(c->init, sizeof c->init, "models/base");
  adapter->targets.count = 1;
  snprintf(adapter->targets.words[0].text, TRI_TRAINABLE_WORD_BYTES, "%s", "all-linear");
  c->data.num_train = 1 + (int64_t)next(index, 4);
  const bool by_size = c->data.num_train == 1 || next(index, 3) == 0;
  for (int64_t k = 0; k < c->data.num_train; k++) {
    tri_train_source *source = &c->data.train[k];
    snprintf(source->path, sizeof source->path, "corpus/tr\xC3\xA9sor %d-%d", (int)next(index, 1000), (int)k);
    source->weight = by_size ? 0 : 0.01 + next_double(index, 100);
    source->label_weight = c->data.num_train == 1 ? 1 : 0.01 + next_double(index, 100);
  }
  snprintf(c->data.validation, sizeof c->data.validation, "%s", next(index, 2) == 0 ? "" : "~");
  snprintf(c->data.tokenizer, sizeof c->data.tokenizer, "%s", next(index, 2) == 0 ? "" : "C:\\t\"ok\"enizer.json");
  c->data.sequence = 1 + (int64_t)next(index, (uint64_t)c->model.max_sequence);
  c->objective = plain_objective();
  c->data.documents = (tri_document_use)next(index, 2);
  c->data.packing = (tri_packing_use)next(index, 2);
  tri_layout *l = &c->layout; /* member by member: a whole struct would copy its padding */
  l->tensor = 1 + (int64_t)next(index, 9);
  l->pipeline = 1 + (int64_t)next(index, 9);
  l->context = 1 + (int64_t)next(index, 9);
  l->context_exchange = (tri_context_exchange)next(index, 3);
  l->context_inner = (int64_t)next(index, 9);
  l->data = (int64_t)next(index, 9);
  l->expert = 1 + (int64_t)next(index, 9);
  l->expert_tensor = 1 + (int64_t)next(index, 9);
  l->expert_capacity = 0.125 + next_double(index, 100);
  l->capacity_drop = next(index, 2) == 1;
  l->virtual_stages = 1 + (int64_t)next(index, 9);
  l->schedule = (tri_schedule_kind)next(index, 4);
  l->sequence_parallel = next(index, 2) == 1;
  l->sequence_regather = l->sequence_parallel && next(index, 2) == 1;
  l->zero = (int64_t)next(index, 4);
  l->recompute = (tri_recompute)next(index, 3);
  l->micro_batch = 1 + (int64_t)next(index, 100);
  c->optimizer.global_batch =
      c->layout.micro_batch * (c->layout.data == 0 ? 1 : c->layout.data) * (1 + (int64_t)next(index, 100));
  c->optimizer.steps = 1 + (int64_t)next(index, 1000000);
  c->optimizer.lr = next_double(index, 1);
  c->optimizer.min_lr = next_double(index, c->optimizer.lr);
  c->optimizer.warmup = (int64_t)next(index, (uint64_t)c->optimizer.steps);
  c->optimizer.decay = (tri_decay)next(index, 4);
  c->optimizer.decay_fraction = 1 - next_double(index, 1);
  c->optimizer.settings = *tri_optimizer_settings_default();
  c->optimizer.settings.name = (tri_optimizer_name)next(index, 6); /* the others need a rank */
  c->optimizer.settings.galore.rank = 1 + (int64_t)next(index, 100);
  c->optimizer.settings.fira.every = 1 + (int64_t)next(index, 1000);
  c->optimizer.settings.adafactor.eps[1] = next_double(index, 1);
  c->optimizer.settings.state = (tri_state_storage)next(index, 3);
  c->optimizer.settings.muon.momentum = next_double(index, 1);
  c->optimizer.settings.groups[TRI_GROUP_VECTORS].lr_scale = next_double(index, 10);
  c->optimizer.settings.groups[TRI_GROUP_ROUTERS].name = TRI_OPTIMIZER_LION;
  c->optimizer.settings.betas[0] = next_double(index, 1);
  c->optimizer.settings.betas[1] = next_double(index, 1);
  c->optimizer.settings.eps = exp(-next_double(index, 85)); /* not 0 in fp32 */
  c->optimizer.settings.weight_decay = next_double(index, 10);
  c->optimizer.clip = next_double(index, 10);
  c->layout.balance = (tri_balance)(next(index, 2));
  if (next(index, 2) == 1) {
    l->pipeline = 3;
    l->virtual_stages = 1;
    l->balance = TRI_BALANCE_WORK;
    EXPECT_OK(tri_count_list_keep((int64_t[]){0, c->model.num_layers, 0}, 3, &l->stage_layers));
  }
  c->layout.recompute_every = 1 + (int64_t)next(index, 100);
  c->layout.bucket_bytes = 1 + (int64_t)next(index, 1 << 30);
  c->optimizer.max_bad_steps = 1 + (int64_t)next(index, 100);
  c->precision = (tri_dtype)next(index, 3);
  snprintf(c->device, sizeof c->device, "%s", c->precision == TRI_FP64 ? "reference" : "cpu");
  c->threads = (int64_t)next(index, 100);
  c->seed = next(index, UINT64_MAX);
  c->evaluation.every = (int64_t)next(index, 1000);
  c->evaluation.sequences = 1 + (int64_t)next(index, 1000);
  static const char *const prompts[] = {"", "Once: upon", "- \"said\" # ~", " 12", "caf\xC3\xA9\\"};
  c->samples.num_prompts = (int64_t)next(index, 6);
  for (int64_t k = 0; k < c->samples.num_prompts; k++) {
    snprintf(c->samples.prompts[k].text, TRI_SAMPLE_PROMPT_BYTES, "%s", prompts[next(index, 5)]);
  }
  c->samples.tokens = 1 + (int64_t)next(index, 1000);
  c->samples.top_k = (int64_t)next(index, 1000);
  c->samples.temperature = next_double(index, 10);
  c->samples.top_p = 0.01 + 0.5 * next_double(index, 1);
  c->samples.seed = next(index, 1000);
  c->samples.tensor = 1 + (int64_t)next(index, 8);
  c->rollout = (tri_rollout_settings){.num_generations = 8,
                                      .temperature = 1,
                                      .slots = 64,
                                      .tensor = 1,
                                      .filter = {-TRI_ROLLOUT_NO_LIMIT, TRI_ROLLOUT_NO_LIMIT},
                                      .max_filtered = 256,
                                      .validation_top_p = 1,
                                      .validation_repetition_penalty = 1,
                                      .max_failed = 0.05,
                                      .log = 8};
  c->objective.policy = tri_policy_usual;
  if (c->evaluation.every > 0 && c->data.validation[0] != '\0') {
    c->evaluation.stop_after = (int64_t)next(index, 1000);
    c->checkpoint.best = next(index, 2) == 1;
  }
  c->optimizer.settings.average.after = (int64_t)next(index, 1000);
  if (tri_optimizer_that_averages(&c->optimizer.settings) == NULL) {
    c->optimizer.settings.average.every = (int64_t)next(index, 1000);
  }
  c->checkpoint.every = (int64_t)next(index, 1000);
  c->checkpoint.keep = (int64_t)next(index, 1000);
  c->checkpoint.at_end = next(index, 2) == 1;
  c->checkpoint.async = next(index, 2) == 1;
  c->checkpoint.shard_bytes = 1 + (int64_t)next(index, UINT64_C(1) << 50);
  c->checkpoint.snapshot_every = (int64_t)next(index, 1000);
  c->layout.reduce_precision = c->precision != TRI_FP64 && next(index, 2) == 1 ? TRI_BF16 : TRI_FP32;
  c->hang_timeout = next_double(index, 1000);
  c->elastic = next(index, 2) == 1;
  c->max_restarts = (int64_t)next(index, 100);
  snprintf(c->output, sizeof c->output, "%s", next(index, 2) == 0 ? "/runs/a b" : "null");
}

static void prints_what_reads_back(void **state) {
  (void)state;
  uint64_t index = 0;
  for (int i = 0; i < 500; i++) {
    char *text = NULL;
    any_run(&config, &index);
    EXPECT_OK(tri_run_config_print(&config, &text));
    EXPECT_OK(parse(text, &other));
    assert_memory_equal(&config, &other, sizeof config);
    tri_free(text);
  }
}

static void refuses_to_print_nonsense(void **state) {
  (void)state;
  char *text = NULL;
  EXPECT_OK(parse(LEAST, &config));
  config.optimizer.lr = NAN;
  EXPECT_FAILS(TRI_BAD_CONFIG, "`optimizer.lr` must be at least 0, not nan", tri_run_config_print(&config, &text));
  assert_null(text);
}

/* PyYAML as a second reader of printed files: it must read our numbers as numbers and our texts as texts. */
static void prints_what_others_read(void **state) {
  (void)state;
  static const char program[] =
      "import yaml, json\n"
      "json.dump(yaml.safe_load(open('printed.yaml')), open('printed.json', 'w'))\n"
      "c = json.load(open('printed.json'))\n"
      "def leaves(c):\n"
      "  for k, v in c.items():\n"
      "    if isinstance(v, dict): yield from leaves(v)\n"
      "    elif k in ('freeze', 'targets', 'train', 'chat', 'chat_set', 'stop', 'reward') and v in ([], 'all-linear'): "
      "pass\n"
      "    elif k == 'stage_layers': assert all(isinstance(x, int) for x in v)\n"
      "    elif k in ('short_factor', 'long_factor'): assert all(isinstance(x, float) for x in v)\n"
      "    elif k in ('prompts', 'chat'): assert isinstance(v, str) or all(isinstance(entry['text'], str) for entry in "
      "v)\n"
      "    elif isinstance(v, list) and isinstance(v[0], dict):\n"
      "      for entry in v: assert isinstance(entry['path'], str) and isinstance(entry['weight'], float)\n"
      "    else: yield k, v\n"
      "words = 'allow_change from name family model_type rope_layers residual type activation router_scoring train "
      "validation preferences validation_preferences prompts validation_prompts recipe loss_type "
      "importance_sampling_level "
      "scale_rewards baseline mode metric tokenizer documents "
      "packing too_long "
      "window_layers "
      "schedule balance "
      "context_exchange quantise scaling "
      "recompute "
      "reduce_precision decay init state "
      "precision "
      "device output'\n"
      "for k, v in leaves(c):\n"
      "  if k == 'decay' and isinstance(v, float): continue\n" /* average.decay; the other key has a word */
      "  assert isinstance(v, str) == (k in words.split() or v in ('auto', 'moonlight', 'keller')), (k, v)\n"
      "o = c['optimizer']\n"
      "print(*(float(x).hex() for x in (o['lr'], o['betas'][0], o['eps'], c['model']['norm_eps'])),\n"
      "      c['seed'], c['model']['hidden_size'], sep='\\n')\n"
      "print(c['model']['name'], c['data']['tokenizer'], c['output'], sep='\\n')\n";
  EXPECT_OK(tri_file_replace("read.py", program, strlen(program)));
  if (system("/usr/bin/python3 -c 'import yaml' >/dev/null 2>&1") != 0) {
    fprintf(stderr, "SKIPPED: python3-yaml is not installed, so only Trireme reads the printed configuration\n");
    skip();
  }
  uint64_t index = 1 << 20;
  for (int i = 0; i < 5; i++) {
    char *text = NULL;
    char *read = NULL;
    char expected[TRI_PATH_BYTES * 3];
    any_run(&config, &index);
    EXPECT_OK(tri_run_config_print(&config, &text));
    EXPECT_OK(tri_file_replace("printed.yaml", text, strlen(text)));
    tri_free(text);
    assert_int_equal(system("/usr/bin/python3 read.py > read.txt"), 0);
    EXPECT_OK(tri_file_read("read.txt", 100000, &read, NULL));
    double numbers[4];
    char *at = read;
    for (int j = 0; j < 4; j++) numbers[j] = strtod(at, &at);
    const double wanted[4] = {config.optimizer.lr, config.optimizer.settings.betas[0], config.optimizer.settings.eps,
                              config.model.norm_eps};
    assert_memory_equal(numbers, wanted, sizeof wanted);
    snprintf(expected, sizeof expected, "\n%llu\n%lld\n%s\n%s\n%s\n", (unsigned long long)config.seed,
             (long long)config.model.hidden_size, config.model.name, config.data.tokenizer, config.output);
    assert_string_equal(at, expected);
    tri_free(read);
  }
}

/* The length of a run in steps or epochs, from a file or from options. */
static void counts_epochs(void **state) {
  (void)state;
#define LENGTH(LENGTH)                                                                                                 \
  "model: gpt2-demo\ndata: {train: a}\noptimizer: {global_batch: 8, lr: 1, " LENGTH "}\noutput: b\n"
  static const struct {
    const char *text, *option;
    double epochs;
    int64_t steps, warmup; /* of 75 samples */
  } cases[] = {
      {LENGTH("epochs: 3"), NULL, 3, 29, 0},
      {LENGTH("epochs: 0.5"), NULL, 0.5, 5, 0},
      {LENGTH("epochs: 1.0e-3"), NULL, 1e-3, 1, 0},
      {LENGTH("epochs: 3, warmup: 4"), NULL, 3, 29, 4},
      {LENGTH("epochs: 3, warmup: 100"), NULL, 3, 29, 2},
      {LENGTH("steps: 500, warmup: 100"), "optimizer.epochs=3", 3, 29, 5},
      {LENGTH("steps: 500, warmup: 100"), "optimizer.steps=10", 0, 10, 2},
      {LENGTH("epochs: 3, warmup: 100"), "optimizer.steps=50", 0, 50, 5},
      {LENGTH("epochs: 3"), "optimizer.epochs=1", 1, 10, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *const options[] = {cases[i].option};
    char *printed = NULL;
    EXPECT_OK(tri_run_config_parse("run.yaml", cases[i].text, strlen(cases[i].text), options, cases[i].option != NULL,
                                   &config));
    EXPECT_OK(tri_run_config_count_steps(&config, 75, 0, 0));
    assert_true(config.optimizer.epochs == cases[i].epochs);
    assert_int_equal(config.optimizer.steps, cases[i].steps);
    assert_int_equal(config.optimizer.warmup, cases[i].warmup);
    EXPECT_OK(tri_run_config_print(&config, &printed));
    const bool by_epochs = cases[i].epochs > 0;
    assert_int_equal(strstr(printed, "  epochs: ") != NULL, by_epochs);
    assert_int_equal(strstr(printed, "  # steps: ") != NULL, by_epochs);
    assert_int_equal(strstr(printed, "  steps: ") != NULL, !by_epochs);
    EXPECT_OK(tri_run_config_parse("printed", printed, strlen(printed), NULL, 0, &config));
    EXPECT_OK(tri_run_config_count_steps(&config, 75, 0, 0));
    assert_int_equal(config.optimizer.steps, cases[i].steps);
    tri_free(printed);
  }
  EXPECT_FAILS(
      TRI_BAD_CONFIG,
      "`optimizer.epochs` at line 3 of run.yaml and optimizer.steps both set the length of the run; keep one of them",
      parse(LENGTH("epochs: 3, steps: 5"), &config));
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "`epochs` under `optimizer:` at line 3 of run.yaml must be above 0 and at most 1000000, not 0",
               parse(LENGTH("epochs: 0"), &config));
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "`steps` under `optimizer:` at line 3 of run.yaml must be between 1 and 1073741824, not 0",
               parse(LENGTH("steps: 0"), &config));
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "`optimizer.warmup` 100 is longer than the run of 50 steps; a tenth would be 5 (line 3 of run.yaml)",
               parse(LENGTH("steps: 50, warmup: 100"), &config));
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "`num_epochs` is not a key of `optimizer:` at line 3 of run.yaml; did you mean `epochs`?",
               parse(LENGTH("num_epochs: 3"), &config));
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "`optimizer.epochs` is for one corpus, and data.train has 2, each with epochs of its own; give "
               "optimizer.steps, or leave out all weights, so that each sequence of all corpora is read once in an "
               "epoch (line 3 of run.yaml)",
               parse("model: gpt2-demo\ndata: {train: [{path: a, weight: 1}, {path: c, weight: 1}]}\n"
                     "optimizer: {global_batch: 8, lr: 1, epochs: 3}\noutput: b\n",
                     &config));
  EXPECT_OK(parse(
      "model: gpt2-demo\ndata: {train: [a, c]}\noptimizer: {global_batch: 8, lr: 1, epochs: 3}\noutput: b\n", &config));
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "`data.max_samples` is for one corpus, and data.train has 2, each with epochs of its own; leave it out "
               "(line 2 of run.yaml)",
               parse("model: gpt2-demo\ndata: {train: [{path: a, weight: 1}, {path: c, weight: 1}], max_samples: 5}\n"
                     "optimizer: {global_batch: 8, lr: 1, steps: 3}\noutput: b\n",
                     &config));
  EXPECT_OK(parse(LENGTH("epochs: 1.0e+6"), &config));
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "`optimizer.epochs` 1e+06 of 1000000 samples are 125000000000 steps; at most 1073741824 can be made",
               tri_run_config_count_steps(&config, 1000000, 0, 0));
#undef LENGTH
}

static void lists_every_key(void **state) {
  (void)state;
  char *help = NULL;
  char *printed = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&help, &bytes);
  tri_run_config_help(to);
  fclose(to);
  EXPECT_OK(parse(LEAST, &config));
  EXPECT_OK(tri_run_config_print(&config, &printed));
  int keys = 0;
  int lines = 0;
  for (const char *at = printed; (at = strchr(at, '\n')) != NULL; at++) keys++;
  for (const char *at = help; (at = strchr(at, '\n')) != NULL; at++) lines++;
  /* Each heading has one line; keys of entries of a list have no line, nor have optional keys. */
  assert_int_equal(lines, keys + 37);
  assert_non_null(strstr(help, "optimizer.max_bad_steps "));
  assert_non_null(strstr(help, "relative to the current directory"));
  free(help);
  tri_free(printed);
}

/* Fails for a key whose row has no TRI_CHANGE bits and is in no section that has them. */
static void expect_change(const tri_config_table *table, unsigned inherited) {
  for (size_t i = 0; i < table->num_keys; i++) {
    const tri_config_key *key = &table->keys[i];
    const unsigned change = key->change != 0 ? key->change : inherited;
    if (key->type == TRI_CONFIG_SECTION) {
      expect_change(key->table, change);
    } else if (change == 0) {
      fail_msg("the row of `%s` does not say what another value means on a resume", key->name);
    }
  }
}

static void each_key_has_a_change(void **state) {
  (void)state;
  expect_change(tri_run_config_table(), 0);
}

int main(void) {
#define IN_FOLDER(TEST) cmocka_unit_test_setup_teardown(TEST, enter_folder, leave_folder)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(has_the_documented_defaults),
      cmocka_unit_test(reads_a_whole_run),
      cmocka_unit_test(asks_for_what_has_no_default),
      cmocka_unit_test(names_line_key_and_nearest_word),
      cmocka_unit_test(refuses_impossible_combinations),
      cmocka_unit_test(options_work_on_presets_in_order),
      cmocka_unit_test(reads_mixtures),
      cmocka_unit_test(refuses_mixtures_that_say_nothing),
      IN_FOLDER(reads_files_and_the_examples),
      cmocka_unit_test(prints_what_reads_back),
      cmocka_unit_test(refuses_to_print_nonsense),
      IN_FOLDER(prints_what_others_read),
      cmocka_unit_test(counts_epochs),
      cmocka_unit_test(lists_every_key),
      cmocka_unit_test(each_key_has_a_change),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
