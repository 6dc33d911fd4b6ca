/* Tensor names with parts that come from a PyTorch wrapper (DDP, FSDP, torch.compile) around the saved model: these
 * parts are removed when the names are read. */
#ifndef TRI_CHECKPOINT_WRAPPED_NAMES_H
#define TRI_CHECKPOINT_WRAPPED_NAMES_H

#include "checkpoint/safetensors.h"

/* LOCAL. Removes the wrappers' parts from the names in files[count], which are all files of a model or an adapter, and
 * no other files. Sets *taken to the first removed part, with its dot (NULL if no part was removed), and *tensors to
 * the number of changed names. Fails with TRI_BAD_FILE if two tensors of a file would have the same name. */
tri_status tri_unwrap_names(tri_safetensors_file *files, int64_t count, const char **taken, int64_t *tensors);

#endif
