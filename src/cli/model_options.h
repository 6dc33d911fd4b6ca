/* The options that commands on a trained model share: where it runs and how. */
#ifndef TRI_CLI_MODEL_OPTIONS_H
#define TRI_CLI_MODEL_OPTIONS_H

#include "base/status.h"
#include "checkpoint/checkpoint.h"

#include <getopt.h>
#include <stdbool.h>

typedef struct tri_model_options {
  const char *device, *tokenizer; /* tokenizer NULL: the checkpoint's */
  const char *base;               /* folder of an adapter's base; NULL: the one that it names */
  tri_dtype precision;
  int64_t threads;
  bool no_verify; /* a checkpoint is not compared with its checksums */
  bool average;   /* the average of a run's weights is meant */
} tri_model_options;

/* The rows for getopt_long, and what it returns for them. */
enum {
  TRI_OPTION_DEVICE = 900,
  TRI_OPTION_THREADS,
  TRI_OPTION_PRECISION,
  TRI_OPTION_TOKENIZER,
  TRI_OPTION_NO_VERIFY,
  TRI_OPTION_BASE,
  TRI_OPTION_AVERAGE
};
#define TRI_MODEL_OPTION_ROWS                                                                                          \
  {"device", required_argument, NULL, TRI_OPTION_DEVICE}, {"threads", required_argument, NULL, TRI_OPTION_THREADS},    \
      {"no-verify", no_argument, NULL, TRI_OPTION_NO_VERIFY}, {"average", no_argument, NULL, TRI_OPTION_AVERAGE},      \
      {"precision", required_argument, NULL, TRI_OPTION_PRECISION},                                                    \
      {"base", required_argument, NULL, TRI_OPTION_BASE}, {                                                            \
    "tokenizer", required_argument, NULL, TRI_OPTION_TOKENIZER                                                         \
  }
#define TRI_MODEL_OPTION_HELP                                                                                          \
  "  --average           the average of the weights that the run has kept (average.every), in their place\n"           \
  "  --base FOLDER       of an adapter (LoRA): its base, if it is not at the path that it names\n"                     \
  "  --tokenizer FILE    tokenizer.json, if it is not the checkpoint's own\n"                                          \
  "  --precision P       fp32 (the default), bf16, or fp64 (devices reference and gpu)\n"                              \
  "  --device D          auto (the default), cpu, reference, gpu (gpu:2 ...), guarded or emulated\n"                   \
  "  --threads N         cores to use; all unless given\n"                                                             \
  "  --no-verify         do not compare what is read with the checkpoint's checksums, and say so\n"

tri_model_options tri_model_options_default(void);

/* What they want of a checkpoint. */
tri_checkpoint_use tri_model_options_use(const tri_model_options *options);

/* Takes one of the rows above; false if `result` is none of them. */
tri_status tri_model_option(int result, const char *value, tri_model_options *options, bool *taken);

/* The precision that numbers are written or measured in, where there are these two. */
tri_status tri_option_fp32_or_bf16(const char *option, const char *text, tri_dtype *out);

#endif
