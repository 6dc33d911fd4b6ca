/* Hugging Face's description of models: config.json <-> tri_model, by the families' tables of keys (model/hf_keys.h).
 *
 * A key that changes the model's function and has no member in tri_model is refused by name (TRI_UNSUPPORTED). The one
 * dropout rate of a model is read from `resid_pdrop` or `hidden_dropout`; the dropout of attention weights is ignored,
 * with a line in the log before training (tri_huggingface_note). */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_H
#define TRI_CHECKPOINT_HUGGINGFACE_H

#include "base/status.h"
#include "device/dtype.h"
#include "model/model.h"

#include <stddef.h>
#include <stdint.h>

/* Reads the text of a config.json; `path` is for messages. The result has passed tri_model_complete. Fails with
 * TRI_UNSUPPORTED for a model_type, a key or a value that is not supported, and with TRI_BAD_FILE for a text that is
 * not a valid config.json; after a failure *out is unchanged. */
tri_status tri_huggingface_parse(const char *path, const char *text, size_t bytes, tri_model *out);

/* LOCAL. Reads FOLDER/config.json, and compares it with its checksum if the folder is a checkpoint. Fails with
 * TRI_BAD_FILE if the file is missing or damaged, and as tri_huggingface_parse does. */
tri_status tri_huggingface_load(const char *folder, tri_model *out);
/* LOCAL. Reads FOLDER/config.json without comparing its checksum, for commands with --no-verify. */
tri_status tri_huggingface_load_unverified(const char *folder, tri_model *out);

/* LOCAL. Logs the ignored keys of a folder's config.json, pairs of keys with the same meaning and different values and,
 * if `training`, settings that are not supported in training (huggingface_keys.h). Does nothing if the file cannot be
 * read. */
void tri_huggingface_note(const char *folder, bool training);

/* Returns the model_type that tri_huggingface_print writes: "qwen3_moe". */
const char *tri_huggingface_model_type(const tri_model *model);

/* Returns PyTorch's name of a type: "bfloat16". */
const char *tri_huggingface_type_name(tri_dtype type);

/* Prints the config.json of a model whose weights are saved in the type `weights`. Fails if transformers cannot
 * represent the model (tri_hf_keys.check). end_of_text is the id of the tokenizer's token, or -1. Ids of special tokens
 * in the config.json of the folder `like` (NULL: no folder) take precedence. Release *out with tri_free. */
tri_status tri_huggingface_print(const tri_model *model, tri_dtype weights, int32_t end_of_text, const char *like,
                                 char **out);

#endif
