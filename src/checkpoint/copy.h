/* Copies a model's weights from one folder to another: import and export. */
#ifndef TRI_CHECKPOINT_COPY_H
#define TRI_CHECKPOINT_COPY_H

#include "checkpoint/merged.h"
#include "checkpoint/run_notes.h"
#include "model/model.h"

typedef struct tri_copy_request {
  const tri_merged *from;     /* weights, or an adapter and its base, which are merged */
  const tri_model *model;     /* the model of `from` (tri_merged_open) */
  const char *to;             /* the new folder, which must not exist */
  tri_dtype type;             /* type of the written weights: fp32, fp64 or bf16 */
  const tri_run_notes *notes; /* notes that are written to the folder */
  int64_t shard_bytes; /* largest size of a file with several tensors, in bytes (tri_checkpoint_request); 0: no limit */
  const char *tokenizer;   /* path of a tokenizer.json to copy; NULL: none */
  const char *extra_files; /* folder whose extra files (extra_files.h) are copied; NULL: none */
  bool plain; /* whether to write a Hugging Face folder; if not, a checkpoint of step 0 is written, without optimizer
                 states */
  bool quantised; /* whether the matrices of layers are written in 4 bits, as bitsandbytes has them */
} tri_copy_request;

typedef struct tri_copy_adapter_request {
  const tri_checkpoint *from; /* the open adapter */
  const char *to;             /* path of the new folder, which must not exist */
  tri_dtype type;             /* type of the written factors */
  const char *tokenizer;
  const tri_run_notes *notes;
  const tri_merged *with_base; /* the adapter with its base, if the factors' initial values (principal.h) are
                                  subtracted; NULL: the factors are copied unchanged */
  const tri_model *model;      /* the model of `with_base` */
} tri_copy_adapter_request;

/* LOCAL. Copies tensor by tensor, in pieces of some megabytes (whole matrices if they are quantised); tri_merged_open
 * has checked that the weights are those of the model. Data are compared with their checksums
 * (tri_checkpoint_open_verified). Fails with TRI_BAD_USAGE if request->to exists, and with TRI_BAD_FILE if a weight is
 * NaN or infinite in the file, or becomes so when it is converted to `type`. After a failure the new folder does not
 * exist. */
tri_status tri_checkpoint_copy(const tri_copy_request *request);

/* LOCAL. Copies an adapter by itself: writes a PEFT folder without a config.json. Its adapter_config.json is that of
 * `from` with the notes added and the modules named as in transformers 5; if the adapter trains a tied embedding, also
 * with ensure_weight_tying, and the embedding is written under both names. Fails with TRI_BAD_USAGE if request->to
 * exists, and with TRI_UNSUPPORTED for tensors that PEFT cannot read by itself. With `with_base` the written factors
 * have twice the rank, A above A0 and B with -B0 to its right, so that they are plain LoRA over the unchanged base. */
tri_status tri_checkpoint_copy_adapter(const tri_copy_adapter_request *request);

#endif
