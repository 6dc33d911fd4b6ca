/* The options that commands for trained models share: the device, the precision, the tokenizer. */
#ifndef TRI_CLI_RUNNING_MODEL_OPTIONS_H
#define TRI_CLI_RUNNING_MODEL_OPTIONS_H

#include "base/status.h"
#include "engine/model_options.h"

#include <getopt.h>
#include <stdbool.h>

/* Values that getopt_long returns for these options, and the rows of the table. */
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
  "  --device D          auto (the default), cpu, reference or gpu (gpu:2 ...)\n"                                      \
  "  --threads N         cores to use; all unless given\n"                                                             \
  "  --no-verify         do not compare what is read with the checkpoint's checksums, and say so\n"

/* Handles one of the options above; *taken is false if `result` is not one of them. */
tri_status tri_model_option(int result, const char *value, tri_model_options *options, bool *taken);

/* Reads a precision that may only be fp32 or bf16; PyTorch's names are accepted, too. */
tri_status tri_option_fp32_or_bf16(const char *option, const char *text, tri_dtype *out);

/* Drops each model that is the same folder as an earlier one, such as RUN/checkpoints/best and the checkpoint that it
 * links to, and logs that. models[*count]: checkpoints, runs' outputs or Hugging Face folders. */
tri_status tri_models_drop_doubles(char **models, int *count);

#endif
