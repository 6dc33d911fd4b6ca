/* A model's weights from one folder to another: import and export. */
#ifndef TRI_CHECKPOINT_COPY_H
#define TRI_CHECKPOINT_COPY_H

#include "checkpoint/merged.h"
#include "checkpoint/run_notes.h"
#include "model/model.h"

typedef struct tri_copy_request {
  const tri_merged *from; /* weights, or an adapter and its base: then a model of both */
  const tri_model *model;
  const char *to;             /* a folder that does not exist yet */
  tri_dtype type;             /* of the weights there: fp32, fp64 or bf16 */
  const tri_run_notes *notes; /* of the weights */
  int64_t shard_bytes;        /* see tri_checkpoint_request */
  const char *tokenizer;      /* path of a tokenizer.json to copy, or NULL */
  const char *extra_files;    /* folder of what travels with the model (extra_files.h), or NULL */
  bool plain;                 /* a Hugging Face folder; else a checkpoint of step 0, without an optimizer's state */
} tri_copy_request;

typedef struct tri_copy_adapter_request {
  const tri_checkpoint *from;
  const char *to;
  tri_dtype type;
  const char *tokenizer;
  const tri_run_notes *notes;
} tri_copy_adapter_request;

/* LOCAL. Copies tensor by tensor, in pieces of some megabytes. What is not an adapter must have the model's tensors and
 * no others (TRI_BAD_FILE with their names), but for what transformers keeps beside them and can make again. What is
 * read is compared with its checksums (tri_checkpoint_open_verified), and a weight that is NaN or infinite, there or as
 * `type`, is TRI_BAD_FILE. When it fails nothing stays of the new folder. */
tri_status tri_checkpoint_copy(const tri_copy_request *request);

/* LOCAL. The same of an adapter by itself: PEFT's folder, with adapter_config.json as it is there, and without a
 * config.json. */
tri_status tri_checkpoint_copy_adapter(const tri_copy_adapter_request *request);

#endif
