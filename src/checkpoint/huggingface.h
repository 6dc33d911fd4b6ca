/* Models as Hugging Face describes them: config.json <-> tri_model, by the dialects of the families (model/hf_keys.h).
 *
 * Whatever would change the function that the model computes and has no place in tri_model is TRI_UNSUPPORTED by name.
 * Dropout is taken from `resid_pdrop`; the dropout of attention weights, which no model here has, is not, and training
 * says so (tri_huggingface_note). */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_H
#define TRI_CHECKPOINT_HUGGINGFACE_H

#include "base/status.h"
#include "device/dtype.h"
#include "model/model.h"

#include <stddef.h>
#include <stdint.h>

/* The text of a config.json; `path` is for messages. The result has passed tri_model_complete. */
tri_status tri_huggingface_parse(const char *path, const char *text, size_t bytes, tri_model *out);

/* LOCAL. Reads FOLDER/config.json; that of a checkpoint is compared with its checksum. */
tri_status tri_huggingface_load(const char *folder, tri_model *out);
/* LOCAL. The same without comparing, for commands that were told so. */
tri_status tri_huggingface_load_unverified(const char *folder, tri_model *out);

/* LOCAL. Says in a line each which keys of a folder's config.json count for nothing, which of two keys for one thing
 * counts, and, if `training`, what of them is not done in training (huggingface_keys.h). Nothing if it cannot be
 * read. */
void tri_huggingface_note(const char *folder, bool training);

/* The config.json of a model whose weights are saved as `weights`. end_of_text is the tokenizer's, or -1. Ids of
 * special tokens are those of the config.json of the folder `like`, where it has some (NULL: there is none). Release
 * *out with tri_free. */
tri_status tri_huggingface_print(const tri_model *model, tri_dtype weights, int32_t end_of_text, const char *like,
                                 char **out);

#endif
