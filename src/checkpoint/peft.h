/* Adapters in PEFT's format: names of tensors, and adapter_config.json.
 *
 * PEFT wraps a model, so that its names begin with `base_model.model.`: our `model.layers.0.mlp.up_proj.lora_A.weight`
 * is `base_model.model.model.layers.0.mlp.up_proj.lora_A.weight` in PEFT, and other trained tensors (its
 * modules_to_save) have the same prefix. Only files have PEFT's names. */
#ifndef TRI_CHECKPOINT_PEFT_H
#define TRI_CHECKPOINT_PEFT_H

#include "checkpoint/base_signature.h"
#include "files/file.h"
#include "model/model.h"

/* The stem of the file of an adapter's tensors (tri_checkpoint_request). */
#define TRI_PEFT_STEM "adapter_model"

enum { TRI_PEFT_NAME_BYTES = 128 };

/* Writes PEFT's name of a tensor: its prefix and the module's name in transformers 5 (model/module_names.h). */
void tri_peft_name(const char *own, char out[TRI_PEFT_NAME_BYTES]);
/* Writes PEFT's name of a tensor with the module's name in transformers 4, which is the name in the model's files;
 * older adapters have such names. */
void tri_peft_file_name(const char *own, char out[TRI_PEFT_NAME_BYTES]);
/* Writes PEFT's name of a tensor of the base in a module with factors: "q_proj.base_layer.bias". */
void tri_peft_base_layer_name(const char *own, char out[TRI_PEFT_NAME_BYTES]);
/* Returns `name` without PEFT's prefix, if it has that. The module's name is not changed. */
const char *tri_peft_own_name(const char *name);

typedef struct tri_peft {
  /* After tri_peft_parse, `targets` and `train` are only for messages, and may be cut off: the tensors in the file
   * decide which modules have factors. */
  tri_adapter adapter;
  char base[TRI_PATH_BYTES]; /* base_model_name_or_path; "": none */
  bool own;                  /* whether Trireme wrote the adapter */
  bool keeps_ties; /* whether training one of two tied tensors changes both, as in our own adapters and in PEFT's with
                      ensure_weight_tying; if not, the other tensor stays as it is in the base */
  tri_base_signature signature; /* signature of the base */
} tri_peft;

/* Prints the adapter_config.json of an adapter of `model`, which must be complete (tri_model_complete). Release *out
 * with tri_free. */
tri_status tri_peft_print(const tri_peft *peft, const tri_model *model, char **out);

/* Reads the text of an adapter_config.json; `path` is for messages. A key that changes the model's function and is
 * not supported is refused by name (TRI_UNSUPPORTED). Fails with TRI_BAD_FILE for a text that is not valid. */
tri_status tri_peft_parse(const char *path, const char *text, size_t bytes, tri_peft *out);

/* Returns the run file's word for a quantisation. */
const char *tri_peft_quantise_word(tri_quantise quantise);
/* Returns the words as a new JSON list. */
json_t *tri_peft_words_json(const tri_trainable_words *words);

/* LOCAL. Reads FOLDER/adapter_config.json; if `verify` is true and the folder is a checkpoint, compares the file's
 * checksum. Fails with TRI_BAD_FILE if the file is missing or damaged, and as tri_peft_parse does. */
tri_status tri_peft_load(const char *folder, bool verify, tri_peft *out);

/* LOCAL. Returns whether a folder is PEFT's or a checkpoint with an adapter. tri_checkpoint_open then finds its factors
 * by our names, "MODULE.lora_A.weight" [rank, in] and "MODULE.lora_B.weight" [out, rank]. */
bool tri_peft_is_folder(const char *folder);

/* LOCAL. For a run that starts from the factors in a folder: checks that they have the run's rank, alpha, scaling,
 * patterns, magnitudes, kind of initial values and, if a target is embed_tokens or lm_head, ensure_weight_tying. Also
 * checks that their base has the signature `base`, if both signatures are known; NULL: the base is not checked. Fails
 * with TRI_BAD_CONFIG if they differ, or if the folder has no adapter_config.json. The message begins with
 * `adapter.from`. */
tri_status tri_peft_check_from(const char *folder, const tri_adapter *adapter, const tri_base_signature *base);

#endif
