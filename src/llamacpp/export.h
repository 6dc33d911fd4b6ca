/* Writes a model as a GGUF file, for llama.cpp and programs that are built on it. */
#ifndef TRI_LLAMACPP_EXPORT_H
#define TRI_LLAMACPP_EXPORT_H

#include "checkpoint/merged.h"
#include "gguf/blocks.h"
#include "model/model.h"

typedef struct tri_llamacpp_request {
  const tri_merged *from;    /* weights, or an adapter and its base, which are merged */
  const tri_model *model;    /* the model of `from` (tri_merged_open) */
  const char *name;          /* general.name */
  const char *to;            /* path of the new file, which must not exist */
  const tri_gguf_type *type; /* type of matrices: F32, F16, BF16, Q8_0 or Q4_0 */
  const char *tokenizer;     /* path of the tokenizer.json */
  const char *extra_files;   /* folder of the tokenizer's other files; NULL: none */
} tri_llamacpp_request;

typedef struct tri_llamacpp_written {
  int64_t tensors; /* number of tensors */
  int64_t kept;    /* number of matrices in bf16, because their rows do not consist of whole blocks */
  uint64_t bytes;  /* size of the file */
} tri_llamacpp_written;

/* LOCAL. Writes the file, under a temporary name until it is complete. Compares the weights with their checksums. Fails
 * with TRI_UNSUPPORTED if llama.cpp has no place for the model or the tokenizer (tri_llamacpp_find,
 * tri_llamacpp_add_vocabulary), with TRI_BAD_USAGE if the path exists, and with TRI_BAD_FILE for a weight that is NaN
 * or infinite, or too large for the type. After a failure there is no file. */
tri_status tri_llamacpp_export(const tri_llamacpp_request *request, tri_llamacpp_written *out);

#endif
