/* The run file: one YAML document that describes a run completely. */
#ifndef TRI_RUN_RUN_CONFIG_H
#define TRI_RUN_RUN_CONFIG_H

#include "base/status.h"
#include "data/mixture.h"
#include "data/source.h"
#include "device/dtype.h"
#include "files/file.h"
#include "model/model.h"
#include "model/objective_config.h"
#include "optimizers/optimizer.h"
#include "reward/command.h"
#include "reward/reward.h"
#include "rollout/settings.h"
#include "schedule/layout.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Maximum length of the names that a run creates below its `output`, such as
 * /checkpoints/.tmp-step-9223372036854775807-4194304/model-00001-of-00001.safetensors, with the suffix of a rewrite. */
enum { TRI_RUN_NAMES_BYTES = 256 };

typedef enum tri_decay { TRI_DECAY_CONSTANT, TRI_DECAY_LINEAR, TRI_DECAY_COSINE, TRI_DECAY_WSD } tri_decay;

/* A corpus to train on. */
typedef struct tri_train_source {
  char path[TRI_PATH_BYTES]; /* prefix of .bin/.idx */
  double weight;             /* relative share of the samples; 0 if it is the only source, or if all sources are mixed
                                by size */
  double label_weight;       /* weight of each label in the loss; 1 if there is one source */
} tri_train_source;

/* Measure by which evaluations are compared to find the best one. */
typedef enum tri_best_by { TRI_BEST_BY_LOSS, TRI_BEST_BY_ACCURACY, TRI_BEST_BY_REWARD } tri_best_by;

/* A reward: a rule, or a program of the user's. */
typedef struct tri_run_reward {
  tri_reward_settings rule;     /* settings of a rule; `name` and `weight` also apply to a command */
  tri_command_settings command; /* command.command "": the reward is a rule */
  char label[64];               /* name in metrics and in rollouts.jsonl */
} tri_run_reward;

static inline bool tri_run_reward_is_command(const tri_run_reward *reward) {
  return reward->command.command[0] != '\0';
}

/* Variable of the chat template, "NAME=VALUE". */
enum { TRI_MOST_CHAT_VARIABLES = 16 };
typedef struct tri_chat_variable {
  char text[256];
} tri_chat_variable;

/* Prompt of a sample. */
enum { TRI_MOST_SAMPLES = 16, TRI_SAMPLE_PROMPT_BYTES = 1024 };
typedef struct tri_sample_prompt {
  char text[TRI_SAMPLE_PROMPT_BYTES]; /* "": the beginning of a text */
} tri_sample_prompt;

typedef struct tri_run_config {
  tri_model model;
  struct {
    tri_train_source train[TRI_MOST_SOURCES];
    int64_t num_train;
    char validation[TRI_PATH_BYTES]; /* prefix of .bin/.idx, or "" */
    /* Corpora or JSON lines of preferences; "": none. With preferences, `train` and `validation` are these corpora, or
     * the corpora that are made from the JSON lines. */
    char preferences[TRI_PATH_BYTES], validation_preferences[TRI_PATH_BYTES];
    /* Files of prompts; "": none. With prompts, `train` and `validation` are these files. */
    char prompts[TRI_PATH_BYTES], validation_prompts[TRI_PATH_BYTES];
    bool skip_long; /* whether prompts that are too long are left out */
    tri_chat_variable chat_set[TRI_MOST_CHAT_VARIABLES];
    int64_t num_chat_set;
    char tokenizer[TRI_PATH_BYTES]; /* path of tokenizer.json; "": with prompts the one of `init`, else the one next to
                                       the first corpus that has one */
    int64_t sequence;
    int64_t ignore_token; /* labels with this id do not count; -1: unused */
    int64_t max_samples;  /* number of samples to train on, the first of the corpus; 0: all */
    /* These three keys are `auto` by default in a file; tri_run_resolve_auto resolves them. */
    tri_document_use documents;
    tri_packing_use packing;
    tri_too_long too_long;
    bool show_example; /* whether the first conversation or pair is printed when the run begins */
  } data;
  tri_objective_config objective;
  tri_layout layout;
  struct {
    int64_t global_batch;
    double batch_follows; /* 1: global_batch follows from the keys of `rollout`, and is not printed; else 0 */
    int64_t steps;        /* 0 until tri_run_config_count_steps if epochs are given */
    double epochs;        /* passes over the samples of the only corpus, or of all corpora if they are mixed by size; 0:
                             `steps` is given */
    int64_t epoch_samples; /* number of samples of an epoch; 0 until tri_run_config_count_steps */
    double lr, min_lr;
    double min_lr_ratio; /* min_lr / lr as given; 0: min_lr is given */
    int64_t warmup;
    double warmup_ratio;  /* warmup / steps as given; 0: warmup is given */
    double warmup_share;  /* fraction of the steps that is warm-up if the warm-up is longer than the run; 0: such a
                             warm-up is refused */
    int64_t warmup_asked; /* warm-up before it was scaled to a shortened run; 0: not scaled */
    tri_decay decay;
    double decay_fraction; /* wsd: share of the steps, at the end, in which the rate falls */
    double clip;           /* 0: no clipping */
    int64_t max_bad_steps;
    tri_optimizer_settings settings;
  } optimizer;
  tri_dtype precision;
  char device[128];
  bool allow_tf32;       /* whether fp32 products may round their operands to TF32 */
  bool time_products;    /* whether GEMM algorithms are chosen by timing */
  int64_t device_memory; /* bytes that a rank may use; 0: all */
  int64_t threads;       /* 0: all cores */
  uint64_t seed;
  struct {
    int64_t every,
        sequences;         /* every: steps between evaluations, 0: no evaluations; sequences: length of an evaluation */
    int64_t batches;       /* length in batches, from older files; 0 after the file is read */
    int64_t batches_asked; /* `batches` as it was in the file */
    tri_best_by metric;    /* measure that checkpoint.best and stop_after use */
    int64_t stop_after; /* number of evaluations in a row without improvement after which the run ends; 0: it does not
                           end early */
  } evaluation;
  struct {
    int64_t every,
        keep; /* every: steps between checkpoints, 0: only at the end; keep: number of checkpoints to keep, 0: all */
    int64_t snapshot_every; /* steps between copies in the memory of two nodes; 0: never */
    bool at_end;            /* whether a checkpoint is saved at the end, too */
    bool async;             /* whether checkpoints are written while training continues */
    bool best; /* whether a checkpoint is saved after each evaluation that is the best so far; the newest of these is
                  kept */
    int64_t shard_bytes; /* largest size of a file with several tensors, in bytes */
  } checkpoint;
  struct {
    tri_sample_prompt prompts[TRI_MOST_SAMPLES];
    int64_t num_prompts;
    tri_sample_prompt chat[TRI_MOST_SAMPLES]; /* user messages, which go through the chat template */
    int64_t num_chat;                         /* without prompts and chat, no samples are written */
    int64_t tokens, top_k;
    double temperature, top_p;
    uint64_t seed;
    int64_t tensor; /* number of tensor ranks that generate together, the first of the job */
  } samples;        /* keys of `samples`, with the same meanings as the options of `trireme generate` */
  tri_rollout_settings rollout;
  tri_run_reward rewards[TRI_MOST_REWARDS];
  int64_t num_rewards;
  double hang_timeout;  /* seconds without progress after which the job is ended; 0: never */
  bool elastic;         /* whether a layout that does not fit the ranks is replaced by the nearest one that does */
  int64_t max_restarts; /* maximum number of restarts of a job that -n started and that lost a rank */
  char output[TRI_PATH_BYTES];
  char init[TRI_PATH_BYTES];         /* weights that a new run begins with; "": none */
  bool init_follows_main;            /* whether `init` was given as a name on the hub without a revision */
  char adapter_from[TRI_PATH_BYTES]; /* factors that the model's adapter begins with; "": none */
  char allow_change[512];            /* keys that may differ between the run and what it loads (allowed_changes.h) */
} tri_run_config;

/* Reads a run file, applies `--set key=value` overrides in order, and checks the result. `model:` may be a preset's
 * name (configs/models), a YAML file, a folder that holds a model, or inline. Fails with TRI_BAD_CONFIG for wrong keys
 * and values; messages name file, line, key and the nearest legal word. */
tri_status tri_run_config_load(const char *path, const char *const *overrides, int64_t num_overrides,
                               tri_run_config *out);
/* Parses a run file from `text`, as tri_run_config_load does; `name` stands for the file in messages. */
tri_status tri_run_config_parse(const char *name, const char *text, size_t bytes, const char *const *overrides,
                                int64_t num_overrides, tri_run_config *out);

/* Sets optimizer.epoch_samples to `samples` and, if optimizer.epochs is given, optimizer.steps. The run has made `step`
 * steps, which read `seen` samples; it continues until it has read epochs * `samples` samples, rounded up to whole
 * steps. A warm-up that is longer than the run is shortened by warmup_share. Fails with TRI_BAD_CONFIG if there are too
 * many steps, or if the warm-up is longer than the run and warmup_share is 0. */
tri_status tri_run_config_count_steps(tri_run_config *config, int64_t samples, int64_t step, int64_t seen);

/* Prints the whole resolved configuration as YAML that tri_run_config_load reads back to the same values. Release *out
 * with tri_free. */
tri_status tri_run_config_print(const tri_run_config *config, char **out);

/* Copies a title for the run: the name of its model; if the model is described by keys alone, the name of its
 * output. */
enum { TRI_RUN_TITLE_BYTES = 128 };
void tri_run_config_title(const tri_run_config *config, char *out, size_t bytes);

/* Convert the words of data.documents, data.packing and data.too_long, and back. The find functions return false for an
 * unknown word. */
bool tri_run_config_find_documents(const char *word, tri_document_use *out);
bool tri_run_config_find_packing(const char *word, tri_packing_use *out);
const char *tri_run_config_documents(tri_document_use use);
const char *tri_run_config_packing(tri_packing_use use);
bool tri_run_config_find_too_long(const char *word, tri_too_long *out);
const char *tri_run_config_too_long(tri_too_long use);

/* Returns whether data.train has several sources without weights, which are mixed by their numbers of sequences. */
bool tri_run_config_mixes_by_size(const tri_run_config *config);

/* Computes the shares of data.train's sources, which have weights. Fails with TRI_BAD_CONFIG if a share is too
 * small. */
tri_status tri_run_config_shares(const tri_run_config *config, tri_mixture_shares *out);

/* Prints one line for each key: name, type, default and help, for `--help` and the documentation. */
void tri_run_config_help(FILE *to);
/* Returns the table of the keys; its offsets are into tri_run_config. */
const tri_config_table *tri_run_config_table(void);

#endif
