/* The table of a run file's keys, and the checks that need more than one of them.
 *
 * Checks of combinations know the struct and not the file: their messages begin with the key in backquotes, and
 * tri_config_blame adds the line or the option that the key came from. Engines and devices report themselves what they
 * do not support. */
#include "run/run_config.h"

#include "base/count.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/parent.h"
#include "checkpoint/model_source.h"
#include "checkpoint/ties.h"
#include "config/config.h"
#include "device/device.h"
#include "files/hub.h"
#include "files/shell_word.h"
#include "model/model_config.h"
#include "model/trainable_config.h"
#include "optimizers/keys.h"
#include "run/allowed_changes.h"
#include "run/data_keys.h"
#include "run/named_metrics.h"
#include "run/preference_keys.h"
#include "run/rollout_keys.h"
#include "run/run_length.h"
#include "schedule/layout_config.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DECAYS(X)                                                                                                      \
  X("constant", TRI_DECAY_CONSTANT) X("linear", TRI_DECAY_LINEAR) X("cosine", TRI_DECAY_COSINE) X("wsd", TRI_DECAY_WSD)
TRI_CONFIG_WORDS(decays, tri_decay, DECAYS)
#define BEST_BYS(X) X("loss", TRI_BEST_BY_LOSS) X("accuracy", TRI_BEST_BY_ACCURACY) X("reward", TRI_BEST_BY_REWARD)
TRI_CONFIG_WORDS(best_bys, tri_best_by, BEST_BYS)
/* Number formats that activations can have. */
static const tri_config_word precisions[] = {{"fp32", TRI_FP32}, {"bf16", TRI_BF16}, {"fp64", TRI_FP64}, {NULL, 0}};

static_assert(sizeof(tri_dtype) == sizeof(int), "a choice is stored as int");

/* The sections whose tables are in this file are parts of tri_run_config without a type of their own: the offsets of
 * their rows are relative to the beginning of tri_run_config, and the sections' own offsets are 0. */
#define KEY(NAME, MEMBER, TYPE) .name = NAME, .type = TYPE, .offset = offsetof(tri_run_config, MEMBER)
#define COUNT(NAME, MEMBER, LOW, HIGH) KEY(NAME, MEMBER, TRI_CONFIG_INT), .range = {.low = LOW, .high = HIGH}
#define AUTO(NAME, MEMBER, LOW, HIGH) KEY(NAME, MEMBER, TRI_CONFIG_AUTO), .range = {.low = LOW, .high = HIGH}
#define NUMBER(NAME, MEMBER) KEY(NAME, MEMBER, TRI_CONFIG_DOUBLE)
#define TEXT(NAME, MEMBER) KEY(NAME, MEMBER, TRI_CONFIG_STRING), .bytes = sizeof(((tri_run_config *)0)->MEMBER)
#define PATH(NAME, MEMBER) KEY(NAME, MEMBER, TRI_CONFIG_PATH), .bytes = sizeof(((tri_run_config *)0)->MEMBER)
#define CHOICE(NAME, MEMBER, WORDS) KEY(NAME, MEMBER, TRI_CONFIG_CHOICE), .words = WORDS
#define NOT_NEGATIVE .range = {.low = 0, .high = TRI_CONFIG_MOST}
#define TABLE(NAME, KEYS)                                                                                              \
  static const tri_config_table NAME = {.noun = "run file", .keys = KEYS, .num_keys = sizeof(KEYS) / sizeof *(KEYS)}

enum {
  MOST_RANKS = 1 << 24,
  MOST_SEQUENCES = 1 << 24,
  MOST_STEPS = 1 << 30,
  USUAL_LOOK = 64 /* sequences of an evaluation if the file has no number */
};

static const tri_config_key optimizer_keys[] = {
    {COUNT("global_batch", optimizer.global_batch, 1, MOST_SEQUENCES), .example = "32",
     .follows = offsetof(tri_run_config, optimizer.batch_follows),
     .help = "global batch size: sequences of one step, over all ranks"},
    {COUNT("steps", optimizer.steps, 1, MOST_STEPS), .derived = "by epochs", .optional = true,
     .follows = offsetof(tri_run_config, optimizer.epochs), .help = "steps of the whole run"},
    {NUMBER("epochs", optimizer.epochs), .range = {.low = 0, .high = 1e6, .open_low = true}, .derived = "(steps)",
     .optional = true,
     .help = "instead of steps: passes over the samples of data.train, such as 3 or 0.5; steps are rounded up"},
    {NUMBER("lr", optimizer.lr), NOT_NEGATIVE, .example = "6.0e-4", .help = "highest learning rate"},
    {COUNT("warmup", optimizer.warmup, 0, MOST_STEPS), .fallback = "0",
     .follows = offsetof(tri_run_config, optimizer.warmup_ratio),
     .help = "warm-up: steps in which the learning rate rises to `lr`"},
    {NUMBER("warmup_ratio", optimizer.warmup_ratio), .range = {.low = 0, .high = 1, .open_low = true},
     .derived = "(warmup)", .optional = true, .help = "instead of warmup: the fraction of all steps, rounded up"},
    {CHOICE("decay", optimizer.decay, decays), .fallback = "cosine",
     .help = "learning-rate schedule after the warm-up"},
    {NUMBER("min_lr", optimizer.min_lr), NOT_NEGATIVE, .fallback = "0.0",
     .follows = offsetof(tri_run_config, optimizer.min_lr_ratio), .help = "learning rate at the end"},
    {NUMBER("min_lr_ratio", optimizer.min_lr_ratio), .range = {.low = 0, .high = 1, .open_low = true},
     .derived = "(min_lr)", .optional = true, .help = "instead of min_lr: the rate at the end as a fraction of `lr`"},
    {NUMBER("decay_fraction", optimizer.decay_fraction), .fallback = "0.2",
     .range = {.low = 0, .high = 1, .open_low = true},
     .help = "wsd: fraction of the steps, at the end, in which the rate falls"},
    TRI_OPTIMIZER_NAME_ROW(tri_run_config, optimizer.settings),
    {KEY("betas", optimizer.settings.betas, TRI_CONFIG_PAIR), .fallback = "[0.9, 0.95]",
     .range = {.low = 0, .high = 1, .open_high = true},
     .help = "decay of both moments (adamw, schedule_free, galore, fira), or of the step and the moment (lion)"},
    {NUMBER("eps", optimizer.settings.eps), .fallback = "1.0e-8",
     .range = {.low = 0, .high = TRI_CONFIG_MOST, .open_low = true},
     .help = "added to the denominator (adamw, schedule_free, galore, fira)"},
    {NUMBER("weight_decay", optimizer.settings.weight_decay), NOT_NEGATIVE, .fallback = "0.1",
     .help = "weight decay, times each group's weight_decay_scale"},
    {NUMBER("clip", optimizer.clip), NOT_NEGATIVE, .fallback = "1.0",
     .help = "gradient clipping: largest norm of the whole gradient; 0: no clipping"},
    {COUNT("max_bad_steps", optimizer.max_bad_steps, 1, MOST_STEPS), .fallback = "10",
     .help = "skipped steps in a row, with NaN or Inf, after which the run ends"},
    TRI_OPTIMIZER_STATE_ROWS(tri_run_config, optimizer.settings),
};
TABLE(optimizer_table, optimizer_keys);

static const tri_config_key evaluation_keys[] = {
    {COUNT("every", evaluation.every, 0, MOST_STEPS), .fallback = "100", .help = "steps between evaluations; 0: never"},
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, COUNT("sequences", evaluation.sequences, 1, MOST_STEPS),
                   .derived = "64, if `batches` is not given",
                   .help = "sequences of the validation corpus in each evaluation, spread over it"),
    {KEY("batches", evaluation.batches, TRI_CONFIG_AUTO), .range = {.low = 1, .high = MOST_STEPS}, .fallback = "auto",
     .help = "older key: `sequences` is this times layout.micro_batch; auto: not used"},
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, CHOICE("metric", evaluation.metric, best_bys), .fallback = "loss",
                   .help = "what stop_after and checkpoint.best go by: the validation loss; of preference pairs also "
                           "the accuracy; with "
                           "grpo always the reward"),
    {COUNT("stop_after", evaluation.stop_after, 0, MOST_STEPS), .fallback = "0",
     .help = "early stopping: evaluations in a row without a lower loss, after which the run ends; 0: never"},
};
TABLE(evaluation_table, evaluation_keys);

static const tri_config_key checkpoint_keys[] = {
    {COUNT("every", checkpoint.every, 0, MOST_STEPS), .fallback = "1000",
     .help = "steps between checkpoints; 0: none but the one at the end"},
    {KEY("at_end", checkpoint.at_end, TRI_CONFIG_BOOL), .fallback = "true",
     .help = "save at the end, also if a signal ends the run"},
    {COUNT("keep", checkpoint.keep, 0, MOST_STEPS), .fallback = "3",
     .help = "newest checkpoints to keep, in addition to the newest one that later steps have proven good; 0: all"},
    {COUNT("snapshot_every", checkpoint.snapshot_every, 0, MOST_STEPS), .fallback = "0",
     .help = "steps between snapshots in the memory of this node and of another one; 0: never"},
    {KEY("async", checkpoint.async, TRI_CONFIG_BOOL), .fallback = "false",
     .help = "save in the background: copy the state and write it while training continues"},
    {KEY("best", checkpoint.best, TRI_CONFIG_BOOL), .fallback = "false",
     .help = "also save whenever the validation loss is the lowest so far; the newest of these is always kept"},
    {COUNT("shard_bytes", checkpoint.shard_bytes, 1, (int64_t)1 << 50), .fallback = "5000000000",
     .help = "the most bytes of tensors in one file, if it is not one tensor"},
};
TABLE(checkpoint_table, checkpoint_keys);

#define PROMPT_ROW(HELP)                                                                                               \
  {                                                                                                                    \
    .name = "text", .type = TRI_CONFIG_STRING, .offset = offsetof(tri_sample_prompt, text),                            \
    .bytes = sizeof(((tri_sample_prompt *)0)->text), .fallback = "", .help = HELP                                      \
  }
static const tri_config_key prompt_keys[] = {PROMPT_ROW("prompt of a sample; empty: the beginning of a text")};
static const tri_config_key chat_keys[] = {PROMPT_ROW("message of a user")};
TABLE(prompt_table, prompt_keys);
TABLE(chat_table, chat_keys);

static const tri_config_key samples_keys[] = {
    {KEY("prompts", samples.prompts, TRI_CONFIG_LIST), .table = &prompt_table, .plain = "text", .in_line = true,
     .bytes = sizeof(tri_sample_prompt), .count = offsetof(tri_run_config, samples.num_prompts),
     .range = {.low = 0, .high = TRI_MOST_SAMPLES}, .derived = "none",
     .help = "prompts of the texts that every checkpoint adds to samples.jsonl: [\"The ship\", \"\"]"},
    {KEY("chat", samples.chat, TRI_CONFIG_LIST), .table = &chat_table, .plain = "text", .in_line = true,
     .bytes = sizeof(tri_sample_prompt), .count = offsetof(tri_run_config, samples.num_chat),
     .range = {.low = 0, .high = TRI_MOST_SAMPLES}, .derived = "none",
     .help =
         "messages of a user that each such text answers, by the chat template: [\"What is the capital of Peru?\"]"},
    {COUNT("tokens", samples.tokens, 1, 1 << 24), .fallback = "100", .help = "the most tokens of each text"},
    {NUMBER("temperature", samples.temperature), .fallback = "1.0", .range = {.low = 0, .high = 1e6},
     .help = "0: always the most likely token; 1: sample from the model's probabilities"},
    {COUNT("top_k", samples.top_k, 0, 1 << 24), .fallback = "0",
     .help = "sample from this many most likely tokens; 0: from all"},
    {NUMBER("top_p", samples.top_p), .fallback = "1.0", .range = {.low = 1e-9, .high = 1},
     .help = "sample from the most likely tokens that together have this probability"},
    {KEY("seed", samples.seed, TRI_CONFIG_SEED), .fallback = "1234",
     .help = "seed of sampling: the same weights and seed write the same text"},
    {COUNT("tensor", samples.tensor, 1, 1 << 16), .fallback = "1",
     .help = "first ranks that hold one copy of the weights for samples, for a model that one cannot hold; the texts "
             "are those of `generate --tensor`"},
};
TABLE(samples_table, samples_keys);

static const tri_config_key adapter_keys[] = {
    TRI_ADAPTER_ROWS(tri_run_config, model.tuning.adapter),
    {PATH("from", adapter_from), .fallback = "",
     .help = "folder of a run, a checkpoint or a PEFT adapter with the initial factors of a new run; empty: unused"},
};
TABLE(adapter_table, adapter_keys);

static const tri_config_key run_keys[] = {
    TRI_CONFIG_ROW(
        FREE, .name = "model", .type = TRI_CONFIG_SECTION, .offset = offsetof(tri_run_config, model),
        .table = &tri_model_table, .expand = tri_model_source_expand, .example = "gpt2-124m",
        .help =
            "a preset's name, a YAML file, a folder that holds a model (a checkpoint, a run's output, Hugging Face's) "
            "or keys"),
    {.name = "data", .type = TRI_CONFIG_SECTION, .table = &tri_data_table, .help = "what to train on"},
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, .name = "objective", .type = TRI_CONFIG_SECTION,
                   .table = &tri_objective_table, .offset = offsetof(tri_run_config, objective),
                   .expand = tri_objective_expand, .help = "the loss to train with: the next token, or preferences"),
    TRI_CONFIG_ROW(FREE, .name = "layout", .type = TRI_CONFIG_SECTION, .table = &tri_layout_table,
                   .offset = offsetof(tri_run_config, layout), .help = "how the model is distributed over ranks"),
    TRI_CONFIG_ROW(LEARNING, .name = "optimizer", .type = TRI_CONFIG_SECTION, .table = &optimizer_table,
                   .help = "the optimizer, its batch and its learning rate"),
    TRI_AVERAGE_ROW(tri_run_config, optimizer.settings),
    TRI_CONFIG_ROW(LEARNING, CHOICE("precision", precision, precisions), .fallback = "fp32",
                   .help = "type of activations; fp64 needs device: reference"),
    TRI_CONFIG_ROW(FREE, TEXT("device", device), .fallback = "auto",
                   .help = "auto, cpu, reference, gpu (gpu:2: that one)"),
    TRI_CONFIG_ROW(FREE, AUTO("device_memory", device_memory, 0, (int64_t)1 << 60), .fallback = "auto",
                   .help = "bytes of device memory that a rank may use; auto: all"),
    TRI_CONFIG_ROW(FREE, KEY("allow_tf32", allow_tf32, TRI_CONFIG_BOOL), .fallback = "false",
                   .help = "fp32 products may use TF32 (10 bits) on a GPU"),
    TRI_CONFIG_ROW(
        FREE, KEY("time_products", time_products, TRI_CONFIG_BOOL), .fallback = "false",
        .help = "GEMM autotuning on a GPU: time up to eight algorithms for each product and take the fastest; else the "
                "library's first"),
    TRI_CONFIG_ROW(FREE, AUTO("threads", threads, 0, 1 << 16), .fallback = "auto",
                   .help = "threads of one rank; auto: all cores"),
    TRI_CONFIG_ROW(SAMPLES, KEY("seed", seed, TRI_CONFIG_SEED), .fallback = "1234",
                   .help = "seed of initial weights, dropout and the order of samples"),
    TRI_CONFIG_ROW(LEARNING, .name = "evaluation", .type = TRI_CONFIG_SECTION, .table = &evaluation_table,
                   .help = "the validation loss"),
    TRI_CONFIG_ROW(FREE, .name = "checkpoint", .type = TRI_CONFIG_SECTION, .table = &checkpoint_table,
                   .help = "saving the run"),
    TRI_CONFIG_ROW(FREE, .name = "samples", .type = TRI_CONFIG_SECTION, .table = &samples_table,
                   .help = "texts that the run generates with each checkpoint"),
    TRI_CONFIG_ROW(SAMPLES, .name = "rollout", .type = TRI_CONFIG_SECTION, .table = &tri_rollout_table,
                   .offset = offsetof(tri_run_config, rollout),
                   .help = "reinforcement learning: the completions that a batch is made of"),
    TRI_CONFIG_ROW(
        LEARNING | TRI_CHANGE_MEASURE, KEY("reward", rewards, TRI_CONFIG_LIST), .table = &tri_reward_table,
        .plain = "name", .bytes = sizeof(tri_run_reward), .count = offsetof(tri_run_config, num_rewards),
        .range = {.low = 0, .high = TRI_MOST_REWARDS}, .derived = "none",
        .help = "reinforcement learning: rewards of completions, such as [number, {name: format, pattern: ...}]"),
    TRI_CONFIG_ROW(
        FREE, NUMBER("hang_timeout", hang_timeout), NOT_NEGATIVE, .fallback = "600.0",
        .help = "seconds without progress on a rank, after which the job is reported as hanging and ended; 0: never"),
    TRI_CONFIG_ROW(FREE, KEY("elastic", elastic, TRI_CONFIG_BOOL), .fallback = "false",
                   .help = "with another number of ranks than the layout needs, use the nearest layout that fits"),
    TRI_CONFIG_ROW(FREE, COUNT("max_restarts", max_restarts, 0, 1 << 20), .fallback = "0",
                   .help = "times that -n restarts a job from its newest checkpoint after a rank is lost"),
    TRI_CONFIG_ROW(
        FREE, PATH("init", init), .fallback = "",
        .help =
            "folder of a checkpoint, a run or a Hugging Face model with the initial weights of a new run; empty: none"),
    TRI_FREEZE_ROW(tri_run_config, model.tuning.freeze),
    TRI_CONFIG_ROW(CONTENT, .name = "adapter", .type = TRI_CONFIG_SECTION, .table = &adapter_table,
                   .help = "LoRA: trained low-rank factors of frozen matrices"),
    TRI_CONFIG_ROW(
        FREE, TEXT("allow_change", allow_change), .fallback = "",
        .help = "keys in which the checkpoint or model that is loaded may differ from this run, separated by commas: "
                "model.rope_theta, data.train"),
    TRI_CONFIG_ROW(FREE, PATH("output", output), .example = "runs/first",
                   .help = "the run's folder, relative to the current directory"),
};
TABLE(run_table, run_keys);

/* ---- combinations ------------------------------------------------------------------------------------------------ */

static tri_status check_batch(const tri_run_config *c) {
  int64_t data = c->layout.data == 0 ? 1 : c->layout.data;
  int64_t unit = c->layout.micro_batch * data;
  int64_t batch = c->optimizer.global_batch;
  if (batch % unit == 0) return TRI_OK;
  int64_t below = batch / unit * unit;
  int64_t nearest = below == 0 || batch - below > below + unit - batch ? below + unit : below;
  if (nearest > MOST_SEQUENCES) nearest = below;
  if (nearest == 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`layout.micro_batch` %" PRId64 " x layout.data %" PRId64 " = %" PRId64
                    " are more sequences than optimizer.global_batch may have, %" PRId64,
                    c->layout.micro_batch, data, unit, (int64_t)MOST_SEQUENCES);
  }
  char other[64];
  return tri_fail(TRI_BAD_CONFIG,
                  "`optimizer.global_batch` %" PRId64 " is not a multiple of layout.micro_batch %" PRId64
                  " x layout.data %" PRId64 " = %" PRId64 "; try %" PRId64 "%s",
                  batch, c->layout.micro_batch, data, unit, nearest,
                  tri_layout_other_micro_batch(&c->layout, batch, other, sizeof other));
}

static tri_status check_rates(const tri_run_config *c) {
  if (c->optimizer.steps > 0 && c->optimizer.warmup > c->optimizer.steps) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`optimizer.warmup` %" PRId64 " is longer than the run of %" PRId64
                    " steps; a tenth would be %" PRId64,
                    c->optimizer.warmup, c->optimizer.steps, c->optimizer.steps / 10);
  }
  if (c->optimizer.min_lr > c->optimizer.lr) {
    return tri_fail(TRI_BAD_CONFIG, "`optimizer.min_lr` %g is above optimizer.lr %g", c->optimizer.min_lr,
                    c->optimizer.lr);
  }
  return TRI_OK;
}

/* Checks that the layout has at most MOST_RANKS ranks, and that the number of tokens of the run does not overflow. */
static tri_status check_sizes(const tri_run_config *c) {
  int64_t ranks = 1;
  int64_t tokens = 0;
  const int64_t axes[] = {c->layout.tensor, c->layout.pipeline, c->layout.context, c->layout.data};
  for (int i = 0; i < 4; i++) {
    if (axes[i] != 0) ranks *= axes[i];
    if (ranks > MOST_RANKS) {
      return tri_fail(TRI_BAD_LAYOUT, "`layout` has more than %d ranks: tensor x pipeline x context x data",
                      MOST_RANKS);
    }
  }
  if (!tri_count_product((int64_t[]){c->optimizer.steps, c->optimizer.global_batch, c->data.sequence}, 3, &tokens)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`optimizer.steps` x global_batch x data.sequence is more tokens than can be counted");
  }
  return TRI_OK;
}

/* Checks that numbers which are used in fp32 do not become 0 or infinite in fp32: an eps of 0 would divide by 0 if a
 * moment is 0. */
static tri_status check_numbers(const tri_run_config *c) {
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"optimizer.lr", c->optimizer.lr},
                 {"optimizer.min_lr", c->optimizer.min_lr},
                 {"optimizer.betas", c->optimizer.settings.betas[0]},
                 {"optimizer.betas", c->optimizer.settings.betas[1]},
                 {"optimizer.eps", c->optimizer.settings.eps},
                 {"optimizer.weight_decay", c->optimizer.settings.weight_decay},
                 {"optimizer.clip", c->optimizer.clip}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    TRI_TRY(tri_dtype_check_number(c->precision, numbers[i].key, numbers[i].value));
  }
  return tri_model_check_numbers(&c->model, c->precision, "model.");
}

/* Checks the length of `output`, because all files that a run writes have names below it; otherwise the first save
 * would fail. */
static tri_status check_output(const tri_run_config *c) {
  size_t length = strlen(c->output);
  if (length + TRI_RUN_NAMES_BYTES < TRI_PATH_BYTES) return TRI_OK;
  return tri_fail(
      TRI_BAD_CONFIG,
      "`output` has %zu bytes; with the names of checkpoints below it paths would be longer than the %d that they "
      "may have; use at most %d",
      length, TRI_PATH_BYTES - 1, TRI_PATH_BYTES - TRI_RUN_NAMES_BYTES - 1);
}

/* Checks the device's name, and that the device supports the precision. The error message begins with the key, so that
 * tri_config_blame can add the line. */
static tri_status check_device(const tri_run_config *c) {
  const tri_status status = tri_device_check_name(c->device);
  if (status != TRI_OK) return tri_fail(status, "`device`: %s", tri_status_message());
  return tri_device_check_type(c->device, c->precision);
}

/* Refuses a metric that the task does not have, and keys that need a validation loss if there is none. */
static tri_status check_evaluation(const tri_run_config *c) {
  tri_named_metrics task;
  const tri_status status = tri_named_metrics_of(c, &task);
  const bool has_accuracy = tri_named_metrics_find(&task, TRI_HELD_OUT_ACCURACY) != NULL;
  tri_named_metrics_release(&task);
  TRI_TRY(status);
  switch (c->evaluation.metric) {
    case TRI_BEST_BY_LOSS: break;
    case TRI_BEST_BY_ACCURACY:
      if (has_accuracy) break;
      return tri_fail(TRI_BAD_CONFIG,
                      "`evaluation.metric` accuracy is of preference pairs, and objective.name is %s; use loss",
                      tri_objective_config_name(&c->objective));
    case TRI_BEST_BY_REWARD:
      if (c->data.prompts[0] != '\0') break;
      return tri_fail(TRI_BAD_CONFIG, "`evaluation.metric` reward is of grpo, and objective.name is %s; use loss",
                      tri_objective_config_name(&c->objective));
  }
  const bool stops = c->evaluation.stop_after > 0, never = c->evaluation.every == 0;
  if (!stops && !c->checkpoint.best) return TRI_OK;
  const char *key = stops ? "evaluation.stop_after" : "checkpoint.best";
  const bool by_reward = c->data.prompts[0] != '\0';
  const char *needs = by_reward ? "rewards of held-out prompts" : "a validation loss";
  if (c->data.validation[0] == '\0') {
    return tri_fail(TRI_BAD_CONFIG, "`%s` needs %s: name a %s", key, needs,
                    by_reward ? "file in data.validation_prompts" : "corpus in data.validation");
  }
  if (!never) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`%s` needs %s, and evaluation.every is 0, which is never: try 100", key, needs);
}

/* Sets the number of sequences of an evaluation, from evaluation.batches if an older file has that. Fails with
 * TRI_BAD_CONFIG if the file has both, or if there are too many sequences. After this call the number of sequences does
 * not depend on the layout, which an elastic run changes. */
static tri_status finish_evaluation(tri_run_config *c) {
  const int64_t batches = c->evaluation.batches, micro_batch = c->layout.micro_batch;
  if (batches > 0 && c->evaluation.sequences > 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`evaluation.batches` %" PRId64 " and evaluation.sequences %" PRId64
                    " both set the length of an evaluation; keep only sequences",
                    batches, c->evaluation.sequences);
  }
  if (batches > MOST_STEPS / micro_batch) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`evaluation.batches` %" PRId64 " x layout.micro_batch %" PRId64 " are more than %d sequences",
                    batches, micro_batch, MOST_STEPS);
  }
  if (batches > 0) c->evaluation.sequences = batches * micro_batch;
  if (c->evaluation.sequences == 0) c->evaluation.sequences = USUAL_LOOK;
  c->evaluation.batches_asked = batches;
  c->evaluation.batches = 0;
  return TRI_OK;
}

static tri_status check_run(const tri_run_config *c) {
  TRI_TRY(tri_layout_check_keys(&c->layout, &c->model));
  if (c->adapter_from[0] != '\0' && c->model.tuning.adapter.rank == 0) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "`adapter.from` is set, and adapter.rank is 0, which means no adapter; set adapter.rank to the rank "
        "of these factors");
  }
  TRI_TRY(check_output(c));
  if (c->data.sequence > c->model.max_sequence) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`data.sequence` %" PRId64 " is longer than the model's max_sequence; use at most %" PRId64,
                    c->data.sequence, c->model.max_sequence);
  }
  TRI_TRY(tri_rollout_keys_check(c));
  TRI_TRY(check_device(c));
  if (c->precision == TRI_FP64 && c->layout.reduce_precision == TRI_BF16) {
    return tri_fail(TRI_BAD_CONFIG, "`layout.reduce_precision` bf16 is for precision fp32 and bf16, not fp64");
  }
  TRI_TRY(check_batch(c));
  TRI_TRY(check_rates(c));
  TRI_TRY(check_evaluation(c));
  TRI_TRY(tri_optimizer_settings_check(&c->optimizer.settings));
  TRI_TRY(tri_allowed_changes_check(&run_table, c->allow_change));
  TRI_TRY(check_numbers(c));
  TRI_TRY(check_sizes(c));
  return tri_optimizer_settings_check_model(&c->optimizer.settings, &c->model);
}

/* ---- what to train on -------------------------------------------------------------------------------------------- */

bool tri_run_config_mixes_by_size(const tri_run_config *c) {
  for (int64_t k = 0; k < c->data.num_train; k++) {
    if (c->data.train[k].weight != 0) return false;
  }
  return c->data.num_train > 1;
}

tri_status tri_run_config_shares(const tri_run_config *c, tri_mixture_shares *out) {
  double weights[TRI_MOST_SOURCES];
  int64_t small = 0;
  for (int64_t k = 0; k < c->data.num_train; k++) weights[k] = c->data.num_train == 1 ? 1 : c->data.train[k].weight;
  tri_status status = tri_mixture_find_shares(weights, c->data.num_train, out, &small);
  if (status != TRI_BAD_CONFIG) return status;
  return tri_fail(TRI_BAD_CONFIG, "`data.train`: %.200s has %s; give it more, or leave it out",
                  c->data.train[small].path, tri_status_message());
}

/* Finishes the keys of preferences and rollouts, and checks and completes data.train. A single source has all samples
 * and all labels, whatever its weights are. */
static tri_status finish_sources(tri_run_config *c) {
  tri_train_source *train = c->data.train;
  tri_mixture_shares shares;
  TRI_TRY(tri_preference_keys_finish(c));
  TRI_TRY(tri_rollout_keys_finish(c));
  if (c->data.num_train == 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`data.train` is missing; add `train:` under `data:`, for example `train: corpus/train`");
  }
  if (c->data.num_train == 1) {
    train->weight = 0; /* the only source has all samples */
    train->label_weight = 1;
    return TRI_OK;
  }
  const bool by_size = tri_run_config_mixes_by_size(c);
  if ((c->optimizer.epochs > 0 && !by_size) || c->data.max_samples > 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`%s` is for one corpus, and data.train has %" PRId64 ", each with epochs of its own; %s",
                    c->data.max_samples > 0 ? "data.max_samples" : "optimizer.epochs", c->data.num_train,
                    c->data.max_samples > 0 ? "leave it out"
                                            : "give optimizer.steps, or leave out all weights, so that each sequence "
                                              "of all corpora is read once in an epoch");
  }
  for (int64_t k = 0; k < c->data.num_train; k++) {
    if (train[k].weight == 0 && !by_size) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`data.train` has %" PRId64
                      " sources and %.200s has no weight; give each its share of the samples, for example "
                      "{path: %.200s, weight: 0.5}, or none a weight, to mix by size",
                      c->data.num_train, train[k].path, train[k].path);
    }
    for (int64_t other = 0; other < k; other++) {
      if (strcmp(train[other].path, train[k].path) != 0) continue;
      char weight[48] = "";
      if (!by_size) snprintf(weight, sizeof weight, ", with weight %g", train[other].weight + train[k].weight);
      return tri_fail(TRI_BAD_CONFIG, "`data.train` names %.200s twice; name it once%s", train[k].path, weight);
    }
  }
  return by_size ? TRI_OK : tri_run_config_shares(c, &shares);
}

/* ---- trained parameters ------------------------------------------------------------------------------------------ */

static tri_status check_tuning(const tri_run_config *c) {
  TRI_TRY(tri_trainable_check(&c->model));
  if (!tri_trainable_has_adapter(&c->model.tuning) || c->init[0] != '\0') return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`adapter` needs a trained model: name its folder in `init`");
}

/* ---- its name ---------------------------------------------------------------------------------------------------- */

void tri_run_config_title(const tri_run_config *c, char *out, size_t bytes) {
  size_t end = strlen(c->output);
  while (end > 0 && c->output[end - 1] == '/') end--;
  size_t begin = end;
  while (begin > 0 && c->output[begin - 1] != '/') begin--;
  const bool named = strcmp(c->model.name, "inline") != 0 || begin == end;
  snprintf(out, bytes, "%.*s", named ? (int)strlen(c->model.name) : (int)(end - begin),
           named ? c->model.name : c->output + begin);
}

/* ---- whole files ------------------------------------------------------------------------------------------------- */

/* Expands the model `name` to the mapping *out, and replaces the values of those keys that are also in `said`. Moves
 * the nodes of `said` to *out. */
static tri_status lay_over(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml *said, tri_yaml **out) {
  TRI_TRY(tri_model_source_expand(tree, name, out));
  for (tri_yaml *key = said->first, *next = NULL; key != NULL; key = next) {
    next = key->next;
    key->next = NULL;
    TRI_TRY(tri_yaml_put(tree, *out, key->key, key));
  }
  return TRI_OK;
}

/* Sets `model` of a run with `init` to the model in that folder, and then the keys that the run file has under `model`.
 * Does nothing if `model` is a name, or a whole model, which has a family. Fails if `init` names no folder. */
static tri_status set_model_of_init(tri_yaml_tree *tree, tri_yaml *root) {
  tri_yaml *name = NULL, *model = NULL;
  if (root->kind != TRI_YAML_MAPPING) return TRI_OK; /* tri_config_read reports this */
  const tri_yaml *init = tri_yaml_find(root, "init");
  if (init == NULL || init->kind != TRI_YAML_SCALAR || init->text[0] == '\0') return TRI_OK;
  tri_yaml *said = tri_yaml_find(root, "model");
  const bool some_keys = said != NULL && said->kind == TRI_YAML_MAPPING && said->first != NULL;
  if (said != NULL && !tri_yaml_is_null(said) && (!some_keys || tri_yaml_find(said, "family") != NULL)) return TRI_OK;
  char folder[TRI_PATH_BYTES];
  TRI_TRY(tri_hub_resolve(init->text, folder));
  if (tri_path_exists(folder) && !tri_path_is_directory(folder)) {
    const tri_checkpoint_use use = {.settings_only = true};
    char found[TRI_PATH_BYTES];
    return tri_config_blame(init, tri_checkpoint_find(folder, &use, found));
  }
  if (!tri_path_is_directory(folder)) {
    char excerpt[TRI_YAML_EXCERPT_BYTES], advice[TRI_HUB_ADVICE_BYTES], nearest[TRI_NEAREST_FILE_BYTES];
    return tri_yaml_fail(init, "`init`", " names no folder: %s (relative to the current directory)%s%s",
                         tri_yaml_excerpt(init->text, excerpt), tri_yaml_nearest_file(init->text, "", nearest),
                         tri_hub_advice(init->text, advice));
  }
  TRI_TRY(tri_yaml_make(tree, init, init->text, &name));
  if (!some_keys) return tri_yaml_put(tree, root, "model", name);
  TRI_TRY(lay_over(tree, name, said, &model));
  return tri_yaml_put(tree, root, "model", model);
}

/* Returns whether the run sets model.tied itself. */
static bool says_tied(const tri_yaml *root) {
  if (root->kind != TRI_YAML_MAPPING) return false;
  const tri_yaml *model = tri_yaml_find(root, "model");
  return model != NULL && model->kind == TRI_YAML_MAPPING && tri_yaml_find(model, "tied") != NULL;
}

/* Makes the model untied if the weights of `init` are, because config.json may be wrong about that. If the run sets
 * model.tied itself, only warns. */
static void untie(bool tied_is_said, tri_run_config *c) {
  if (c->init[0] == '\0' || !c->model.tied || !tri_ties_are_broken(c->init, &c->model, !tied_is_said)) return;
  if (!tied_is_said) c->model.tied = false;
  if (tied_is_said && getenv(TRI_LAUNCHED) == NULL) {
    tri_warn("%s has an untied output projection; it is left out, since `model.tied` is true", c->init);
  }
}

/* Computes the number of steps of the whole run. If all steps had the same batch, the result does not depend on the
 * current step, to the last bit. */
static double steps_of_epochs(const tri_run_config *c, int64_t samples, int64_t step, int64_t seen) {
  const double all = c->optimizer.epochs * (double)samples, batch = (double)c->optimizer.global_batch;
  if (seen == step * c->optimizer.global_batch) return ceil(all / batch);
  return (double)step + fmax(ceil((all - (double)seen) / batch), 0);
}

tri_status tri_run_config_count_steps(tri_run_config *c, int64_t samples, int64_t step, int64_t seen) {
  c->optimizer.epoch_samples = samples;
  if (c->optimizer.epochs == 0) return TRI_OK;
  const double steps = steps_of_epochs(c, samples, step, seen);
  if (steps > MOST_STEPS) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`optimizer.epochs` %g of %" PRId64 " samples are %.0f steps; at most %d can be made",
                    c->optimizer.epochs, samples, steps, MOST_STEPS);
  }
  tri_run_length_set_steps(c, (int64_t)steps);
  TRI_TRY(check_rates(c));
  return check_sizes(c);
}

/* Adds the commit that the cache has now to names on the hub, so that config.yaml, resumed runs and adapters refer to
 * the same files later. Sets init_follows_main. */
static tri_status pin_names(tri_run_config *c) {
  char *const names[] = {c->init, c->adapter_from, c->data.tokenizer};
  const bool revised = c->init[tri_hub_name_length(c->init)] == '@';
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    bool pinned = false;
    TRI_TRY(tri_hub_pin(names[i], &pinned));
    if (i == 0) c->init_follows_main = pinned && !revised;
  }
  return TRI_OK;
}

static tri_status read_tree(tri_yaml_tree *tree, tri_yaml *root, const char *const *overrides, int64_t num_overrides,
                            tri_run_config *out) {
  const tri_written_length written = tri_run_length_written(root);
  for (int64_t i = 0; i < num_overrides; i++) TRI_TRY(tri_config_set(&run_table, tree, root, overrides[i]));
  TRI_TRY(tri_run_length_choose(root, &written));
  const bool tied_is_said = says_tied(root);
  TRI_TRY(set_model_of_init(tree, root));
  TRI_TRY(tri_rollout_keys_prepare(tree, root));
  TRI_TRY(tri_preference_keys_stand_in(tree, root));
  tri_objective_config_begin(&out->objective);
  TRI_TRY(tri_config_read(&run_table, tree, root, out));
  TRI_TRY(tri_run_length_check(root, out));
  TRI_TRY(tri_model_finish(tri_yaml_find(root, "model"), &out->model));
  untie(tied_is_said, out);
  TRI_TRY(pin_names(out));
  tri_run_length_finish(&written, out);
  TRI_TRY(tri_config_blame(root, finish_sources(out)));
  if (out->data.sequence == 0) {
    const char *how = "add `sequence:` under `data:`, for example `sequence: 4096`";
    TRI_TRY(tri_config_blame(root, tri_model_assume_sequence(&out->model, TRI_BAD_CONFIG, how, &out->data.sequence)));
  }
  tri_adapter_finish(&out->model.tuning.adapter);
  TRI_TRY(tri_config_blame(root, finish_evaluation(out)));
  TRI_TRY(tri_config_blame(root, check_tuning(out)));
  return tri_config_blame(root, check_run(out));
}

/* Refuses a path that is a folder, a corpus, or a file of records or text; the message names the key of a run file for
 * such a path. */
static tri_status check_file(const char *path) {
  static const char *const records[] = {".jsonl", ".jsonl.zst", ".csv", ".tsv", ".parquet", ".txt"};
  char index[TRI_PATH_BYTES];
  const size_t length = strlen(path);
  if (tri_path_is_directory(path)) {
    if (tri_path_join(index, path, "config.yaml") == TRI_OK && tri_path_exists(index)) {
      return tri_fail(TRI_BAD_USAGE, "%s is the folder of a run; its run file is %s", path, index);
    }
    return tri_fail(TRI_BAD_USAGE,
                    "%s is a folder, not a run file; a run file names the model to begin with as `init: %s`", path,
                    path);
  }
  if (!tri_path_exists(path) && tri_path_with(index, path, ".idx") == TRI_OK && tri_path_exists(index)) {
    return tri_fail(TRI_BAD_USAGE, "%s is a corpus, not a run file; a run file names it as `train: %s` under `data:`",
                    path, path);
  }
  for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
    const size_t end = strlen(records[i]);
    if (length <= end || strcmp(path + length - end, records[i]) != 0 || !tri_path_exists(path)) continue;
    return tri_fail(TRI_BAD_USAGE,
                    "%s contains records or text, so it is not a run file; make a corpus of it with `trireme prepare`, "
                    "and name the corpus in data.train of a run file (preferences: data.preferences)",
                    path);
  }
  return TRI_OK;
}

/* Refuses a study in place of a run file. */
static tri_status check_is_run(const tri_yaml *root) {
  if (root->kind != TRI_YAML_MAPPING || tri_yaml_find(root, "space") == NULL || tri_yaml_find(root, "data") != NULL) {
    return TRI_OK;
  }
  char word[TRI_SHELL_WORD_BYTES];
  return tri_fail(TRI_BAD_CONFIG, "%s is a study, not a run file: trireme tune %s", root->source,
                  tri_shell_word(root->source, word));
}

/* Loads a run file from `text`, or from the file `name` if text is NULL. */
static tri_status load(const char *name, const char *text, size_t bytes, const char *const *overrides,
                       int64_t num_overrides, tri_run_config *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  tri_run_config *config = NULL;
  TRI_TRY(tri_yaml_create(&tree));
  /* All bytes are zero, padding included, so that two loads of a file can be compared byte by byte. */
  tri_status status = tri_alloc("a run's configuration", 1, sizeof *config, &config);
  if (status == TRI_OK && text == NULL) status = check_file(name);
  if (status == TRI_OK && text == NULL) status = tri_yaml_read(tree, name, &root);
  if (status == TRI_OK && text != NULL) status = tri_yaml_parse(tree, name, false, text, bytes, &root);
  if (status == TRI_OK) status = check_is_run(root);
  if (status == TRI_OK) status = read_tree(tree, root, overrides, num_overrides, config);
  tri_yaml_destroy(tree);
  if (status == TRI_OK) memcpy(out, config, sizeof *config);
  tri_free(config);
  return status;
}

tri_status tri_run_config_load(const char *path, const char *const *overrides, int64_t num_overrides,
                               tri_run_config *out) {
  return load(path, NULL, 0, overrides, num_overrides, out);
}

tri_status tri_run_config_parse(const char *name, const char *text, size_t bytes, const char *const *overrides,
                                int64_t num_overrides, tri_run_config *out) {
  return load(name, text, bytes, overrides, num_overrides, out);
}

tri_status tri_run_config_print(const tri_run_config *config, char **out) {
  static const char *const head =
      "# A run, with every key as resolved: `trireme train` of this file is the same run.\n";
  if (config->data.preferences[0] == '\0' && config->data.prompts[0] == '\0')
    return tri_config_print(&run_table, config, head, out);
  tri_run_config *said = NULL;
  TRI_TRY(tri_alloc("a run's configuration", 1, sizeof *said, &said));
  *said = *config;
  said->data.num_train = 0; /* the paths are those of the prompts, or of corpora that are made from the preferences */
  said->data.validation[0] = '\0';
  tri_status status = tri_config_print(&run_table, said, head, out);
  tri_free(said);
  return status;
}

void tri_run_config_help(FILE *to) { tri_config_help(&run_table, to); }

const tri_config_table *tri_run_config_table(void) { return &run_table; }
