/* Tied embeddings: config.json has the switch (tie_word_embeddings), but the weights may contradict it. As in
 * transformers 5, if both tensors are in the file and differ, the model is not tied; if only the output projection is
 * in the file, it is also used as the embedding. */
#ifndef TRI_CHECKPOINT_TIES_H
#define TRI_CHECKPOINT_TIES_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/parameters.h"

/* LOCAL. Loads the model of an open checkpoint from its config.json (whose checksum is compared if `verify`), with
 * `tied` false if the weights contradict it; `say`: whether to log that, and the notes of tri_huggingface_note. The
 * weights of a run's own checkpoint are not examined, and nothing is logged for it. Fails as tri_huggingface_load does.
 */
tri_status tri_ties_load_model(const tri_checkpoint *weights, bool verify, bool say, tri_model *out);

/* LOCAL. Returns whether the weights that `given` means (tri_checkpoint_find) have both tensors of a tied model, with
 * different values; `say`: whether to log that, unless this process is a rank of a job. Returns false for adapters and
 * for checkpoints of runs, which do not contradict config.json, and if the weights cannot be read: opening them later
 * reports the error. */
bool tri_ties_are_broken(const char *given, const tri_model *model, bool say);

/* Returns the output projection of a table of a tied model; NULL if the model is not tied. */
const tri_parameter *tri_ties_head(const tri_parameter_table *table);
/* LOCAL. Writes the names of the two tensors of a tied model; returns false if it is not tied. */
bool tri_ties_names(const tri_model *model, char head[TRI_PARAMETER_NAME_BYTES],
                    char embedding[TRI_PARAMETER_NAME_BYTES]);

#endif
