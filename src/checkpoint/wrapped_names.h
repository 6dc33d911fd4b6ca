/* Names of tensors that a wrapper of PyTorch's left its mark in when a model was saved: they are read as if the model
 * had been taken out of its wrapper first. */
#ifndef TRI_CHECKPOINT_WRAPPED_NAMES_H
#define TRI_CHECKPOINT_WRAPPED_NAMES_H

#include "checkpoint/safetensors.h"

/* LOCAL. Takes the wrappers' parts out of the names of a model's or adapter's files (nothing else must be among them).
 * *taken: the part that was taken out first, with its dot, or NULL; *tensors: of how many names. TRI_BAD_FILE where two
 * tensors of a file would have one name. */
tri_status tri_unwrap_names(tri_safetensors_file *files, int64_t count, const char **taken, int64_t *tensors);

#endif
