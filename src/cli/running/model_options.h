/* The options that commands for trained models share: the device, the precision, the tokenizer. */
#ifndef TRI_CLI_RUNNING_MODEL_OPTIONS_H
#define TRI_CLI_RUNNING_MODEL_OPTIONS_H

#include "base/status.h"
#include "device/dtype.h"
#include "options/option_rows.h"

/* Rows of these options, whose values are a tri_model_options. */
extern const tri_option tri_model_option_rows[];

/* Reads a precision that may only be fp32 or bf16; PyTorch's names are accepted, too. */
tri_status tri_option_fp32_or_bf16(const char *option, const char *text, tri_dtype *out);

/* Drops each model that is the same folder as an earlier one, such as RUN/checkpoints/best and the checkpoint that it
 * links to, and logs that. models[*count]: checkpoints, runs' outputs or Hugging Face folders. */
tri_status tri_models_drop_doubles(char **models, int *count);

#endif
