/* The run file: one YAML document that says everything about a run. */
#ifndef TRI_RUN_RUN_CONFIG_H
#define TRI_RUN_RUN_CONFIG_H

#include "base/file.h"
#include "base/status.h"
#include "data/mixture.h"
#include "data/source.h"
#include "device/dtype.h"
#include "model/model.h"
#include "model/objective_config.h"
#include "optimizers/optimizer.h"
#include "schedule/layout.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Room for the longest name that a run makes below its `output`, such as
 * /checkpoints/.tmp-step-9223372036854775807-4194304/model-00001-of-00001.safetensors, with what a rewrite adds. */
enum { TRI_RUN_NAMES_BYTES = 256 };

typedef enum tri_decay { TRI_DECAY_CONSTANT, TRI_DECAY_LINEAR, TRI_DECAY_COSINE, TRI_DECAY_WSD } tri_decay;

/* A corpus to train on, and its share of the samples beside others'. */
typedef struct tri_train_source {
  char path[TRI_PATH_BYTES]; /* prefix of .bin/.idx */
  double weight;             /* 1 if there is one source */
  double label_weight;       /* the same: how much each of its labels counts in the loss */
} tri_train_source;

/* By what an evaluation is better than those before. */
typedef enum tri_best_by { TRI_BEST_BY_LOSS, TRI_BEST_BY_ACCURACY } tri_best_by;

/* A text that samples begin with. */
enum { TRI_MOST_SAMPLES = 16, TRI_SAMPLE_PROMPT_BYTES = 1024 };
typedef struct tri_sample_prompt {
  char text[TRI_SAMPLE_PROMPT_BYTES]; /* "" is the beginning of a text */
} tri_sample_prompt;

typedef struct tri_run_config {
  tri_model model;
  struct {
    tri_train_source train[TRI_MOST_SOURCES];
    int64_t num_train;
    char validation[TRI_PATH_BYTES]; /* prefix of .bin/.idx, or "" */
    /* In the place of `train` and `validation` in a file; these then name the corpora that are made of them; "": none.
     */
    char preferences[TRI_PATH_BYTES], validation_preferences[TRI_PATH_BYTES];
    char tokenizer[TRI_PATH_BYTES]; /* tokenizer.json; "" takes the one beside `train` if there is one */
    int64_t sequence;
    int64_t ignore_token; /* labels with this id do not count; -1: unused */
    int64_t max_samples;  /* train on the first samples of the corpus only; 0: on all */
    tri_document_use documents;
    tri_packing_use packing;
    tri_too_long too_long; /* as all three are settled (resolve_auto.h): auto is what a file says, or does not say */
  } data;
  tri_objective_config objective;
  tri_layout layout;
  struct {
    int64_t global_batch;
    int64_t steps;         /* 0 until tri_run_config_count_steps, where epochs are given */
    double epochs;         /* passes over the samples of the one corpus; 0: steps are given */
    int64_t epoch_samples; /* samples of an epoch; 0 until tri_run_config_count_steps */
    double lr, min_lr;
    int64_t warmup;
    double
        warmup_share; /* of the steps, where the warm-up would be longer than the run; 0: such a warm-up is refused */
    int64_t warmup_asked; /* what it was before it was scaled to a run that was made shorter; 0: it was not */
    tri_decay decay;
    double decay_fraction; /* wsd: the share of the steps at the end in which the rate falls */
    double clip;           /* 0: no clipping */
    int64_t max_bad_steps;
    tri_optimizer_settings settings;
  } optimizer;
  tri_dtype precision;
  char device[128];
  bool allow_tf32;       /* fp32 products may round their operands to TF32 */
  bool time_products;    /* how products are made is chosen by timing */
  int64_t device_memory; /* bytes that a rank may take; 0 is all there are */
  int64_t threads;       /* 0 is all cores */
  uint64_t seed;
  struct {
    int64_t every, sequences; /* every 0 is never */
    int64_t batches;          /* as sequences are said in older files; 0 once the file is read, */
    int64_t batches_asked;    /* and what it was */
    tri_best_by metric;       /* of checkpoint.best and stop_after */
    int64_t stop_after;       /* evaluations in a row without a better loss, after which the run ends; 0 is never */
  } evaluation;
  struct {
    int64_t every, keep;    /* every 0 is only at the end; keep 0 is all */
    int64_t snapshot_every; /* steps between copies in the memory of two nodes; 0 is never */
    bool at_end;            /* saved there, too */
    bool async;             /* written while training goes on */
    bool best;              /* saved where the validation loss is the lowest so far, and the newest of these stays */
    int64_t shard_bytes;    /* the most that one file of tensors holds */
  } checkpoint;
  struct {
    tri_sample_prompt prompts[TRI_MOST_SAMPLES];
    int64_t num_prompts;
    tri_sample_prompt chat[TRI_MOST_SAMPLES]; /* messages of a user, which go through the chat template */
    int64_t num_chat;                         /* no samples are written without prompts and chat */
    int64_t tokens, top_k;
    double temperature, top_p;
    uint64_t seed;
  } samples;            /* as `trireme generate` has them */
  double hang_timeout;  /* seconds in which nothing moves, after which the job is given up; 0 is never */
  bool elastic;         /* a layout that does not fit the ranks gives way to the nearest that does */
  int64_t max_restarts; /* of a job that -n started and that lost a rank */
  char output[TRI_PATH_BYTES];
  char init[TRI_PATH_BYTES];         /* whose weights a new run begins with; "": unused */
  bool init_follows_main;            /* `init` is a name on the hub that was given without a revision */
  char adapter_from[TRI_PATH_BYTES]; /* whose factors the model's adapter begins with; "": unused */
  char allow_change[512];            /* keys in which what is loaded may differ from the run (identity.h) */
} tri_run_config;

/* Reads and checks a run file, then applies `--set key=value` overrides in order. `model:` may be a preset's name
 * (configs/models), a YAML file or inline. Messages name file, line, key and the nearest legal word. */
tri_status tri_run_config_load(const char *path, const char *const *overrides, int64_t num_overrides,
                               tri_run_config *out);
/* The same for a text that is already in memory; `name` stands for the file in messages. */
tri_status tri_run_config_parse(const char *name, const char *text, size_t bytes, const char *const *overrides,
                                int64_t num_overrides, tri_run_config *out);

/* Sets optimizer.steps if optimizer.epochs are given: the run has made `step` steps, which took `seen` samples, and
 * goes on until the epochs of `samples` samples each have been taken, rounded up to whole steps. A warm-up that is
 * longer is shortened. TRI_BAD_CONFIG if there are too many steps. */
tri_status tri_run_config_count_steps(tri_run_config *config, int64_t samples, int64_t step, int64_t seen);

/* The whole configuration as resolved, as YAML that tri_run_config_load reads back to the same values. Release *out
 * with tri_free. */
tri_status tri_run_config_print(const tri_run_config *config, char **out);

/* What to call a run: its model's name or, of a model that keys alone describe, its output's. */
enum { TRI_RUN_TITLE_BYTES = 128 };
void tri_run_config_title(const tri_run_config *config, char *out, size_t bytes);

/* The words of data.documents and data.packing, both ways: false if there is no such word. */
bool tri_run_config_find_documents(const char *word, tri_document_use *out);
bool tri_run_config_find_packing(const char *word, tri_packing_use *out);
const char *tri_run_config_documents(tri_document_use use);
const char *tri_run_config_packing(tri_packing_use use);
bool tri_run_config_find_too_long(const char *word, tri_too_long *out);
const char *tri_run_config_too_long(tri_too_long use);

/* The shares of data.train's sources: their weights have been checked. */
tri_status tri_run_config_shares(const tri_run_config *config, tri_mixture_shares *out);

/* One line a key: name, type, default and help, for `--help` and the documentation. */
void tri_run_config_help(FILE *to);
/* The keys themselves; offsets into tri_run_config. */
const tri_config_table *tri_run_config_table(void);

#endif
