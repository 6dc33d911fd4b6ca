/* Whether a model's output projection is its embedding: config.json says it (tie_word_embeddings), and the weights may
 * say otherwise. As transformers 5 has it: where both tensors are in the file and differ, the model is not tied; where
 * only the projection is there, it is the embedding, too. */
#ifndef TRI_CHECKPOINT_TIES_H
#define TRI_CHECKPOINT_TIES_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/parameters.h"

/* LOCAL. The settings of the model of an open checkpoint: those of its config.json, which is compared with its
 * checksum if `verify`, but not tied if its weights say so; `say` tells of it in a line. */
tri_status tri_ties_load_model(const tri_checkpoint *weights, bool verify, bool say, tri_model *out);

/* LOCAL. Whether the weights that `given` means (tri_checkpoint_find) have both tensors of a tied model, with other
 * values; `say` tells of it in a line. Where nothing can be read it is false, and who opens the weights is told why. */
bool tri_ties_are_broken(const char *given, const tri_model *model, bool say);

/* LOCAL. The names of the two tensors of a tied model; false if it is not tied. */
bool tri_ties_names(const tri_model *model, char head[TRI_PARAMETER_NAME_BYTES],
                    char embedding[TRI_PARAMETER_NAME_BYTES]);

#endif
