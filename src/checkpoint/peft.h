/* Adapters as PEFT has them: names of tensors, and adapter_config.json.
 *
 * PEFT wraps a model, so that its names begin with `base_model.model.`: our `model.layers.0.mlp.up_proj.lora_A.weight`
 * is its `base_model.model.model.layers.0.mlp.up_proj.lora_A.weight`, and what else is trained (modules_to_save there)
 * has the same prefix. Files have its names, everything else has ours. */
#ifndef TRI_CHECKPOINT_PEFT_H
#define TRI_CHECKPOINT_PEFT_H

#include "base/file.h"
#include "checkpoint/base_signature.h"
#include "model/model.h"

/* Of the file of an adapter's tensors, as "model" is of a model's. */
#define TRI_PEFT_STEM "adapter_model"

enum { TRI_PEFT_NAME_BYTES = 128 };

/* PEFT's name of a tensor; and back: the rest of the string, or all of it if it is not one of PEFT's. */
void tri_peft_name(const char *own, char out[TRI_PEFT_NAME_BYTES]);
const char *tri_peft_own_name(const char *name);

typedef struct tri_peft {
  /* Of one that was read, targets and what else is trained are as many as there is room for, for people to read: which
   * modules have factors the tensors say. */
  tri_adapter adapter;
  char base[TRI_PATH_BYTES]; /* base_model_name_or_path, or "" */
  bool keeps_ties;           /* ensure_weight_tying: what trains one of two tied tensors trains both; PEFT else leaves
                                the other one as the base has it */
  tri_base_signature signature;
} tri_peft;

/* The adapter_config.json of an adapter of a complete model. Release *out with tri_free. */
tri_status tri_peft_print(const tri_peft *peft, const tri_model *model, char **out);

/* The text of an adapter_config.json; `path` is for messages. What would change the function and is not known here is
 * TRI_UNSUPPORTED by its key. */
tri_status tri_peft_parse(const char *path, const char *text, size_t bytes, tri_peft *out);

/* As the run file has it. */
const char *tri_peft_quantise_word(tri_quantise quantise);

/* LOCAL. Reads FOLDER/adapter_config.json; with `verify` that of a checkpoint is compared with its checksum. */
tri_status tri_peft_load(const char *folder, bool verify, tri_peft *out);

/* LOCAL. Whether a folder is PEFT's, or a checkpoint with an adapter: then tri_checkpoint_open finds its factors by our
 * names, "MODULE.lora_A.weight" [rank, in] and "MODULE.lora_B.weight" [out, rank]. */
bool tri_peft_is_folder(const char *folder);

/* LOCAL. For a run that begins with a folder's factors: whether they are of its rank and scale, and, where both are
 * known, of its base. The message begins with `adapter.from`. */
tri_status tri_peft_check_from(const char *folder, const tri_adapter *adapter, const tri_base_signature *base);

#endif
