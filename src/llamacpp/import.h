/* Reads a GGUF file of llama.cpp into a checkpoint. */
#ifndef TRI_LLAMACPP_IMPORT_H
#define TRI_LLAMACPP_IMPORT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_llamacpp_import_request {
  const char *from;      /* path of the file */
  const char *to;        /* the new folder, which must not exist */
  const char *tokenizer; /* folder whose tokenizer is used in place of the file's; NULL: the file's */
  int64_t shard_bytes;   /* largest size of a file with several tensors, in bytes (tri_checkpoint_request) */
} tri_llamacpp_import_request;

/* Returns whether the path is that of a GGUF file, by its first bytes. */
bool tri_llamacpp_is_file(const char *path);

/* LOCAL. Writes a checkpoint of step 0 with fp32 weights, config.json and tokenizer. Fails with TRI_UNSUPPORTED for an
 * architecture, a tokenizer or a type of tensors that is not supported, with TRI_BAD_FILE for a damaged file, a tensor
 * that is missing, has another shape, or does not belong to the model, and with TRI_BAD_USAGE if request->to exists.
 * After a failure the new folder does not exist. */
tri_status tri_llamacpp_import(const tri_llamacpp_import_request *request);

#endif
