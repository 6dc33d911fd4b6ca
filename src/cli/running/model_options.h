/* The options that the commands for trained models have in common: the device, the precision, the tokenizer. */
#ifndef TRI_CLI_RUNNING_MODEL_OPTIONS_H
#define TRI_CLI_RUNNING_MODEL_OPTIONS_H

#include "base/status.h"
#include "device/dtype.h"
#include "engine/model_options.h"
#include "options/option_rows.h"

/* Rows of these options. Their values are a tri_model_options. */
extern const tri_option tri_model_option_rows[];

/* Checks --weights, and chooses the first form that it names. Fails with TRI_BAD_USAGE if the precision is given twice;
 * `command` begins the message. */
tri_status tri_check_weights_option(const char *command, tri_model_options *options);

/* Reads a precision, which must be fp32 or bf16, or PyTorch's name of one of them. `option`: name of the option for
 * messages. */
tri_status tri_option_fp32_or_bf16(const char *option, const char *text, tri_dtype *out);

/* Drops each of models[*count] that is the same folder as an earlier one, logs that, and sets *count to the number of
 * the others. An example is RUN/checkpoints/best, which is a link to a checkpoint. A model is a checkpoint, the output
 * of a run, or a Hugging Face folder. */
tri_status tri_models_drop_doubles(char **models, int *count);

#endif
