/* Settings of routers for which config.json has no keys: they are in an object `trireme` of it, under the keys of a run
 * file. If they change what the model computes, its `model_type` begins with "trireme_", so that a program which does
 * not know the object refuses the model and does not compute something else. */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_OWN_H
#define TRI_CHECKPOINT_HUGGINGFACE_OWN_H

#include "base/json_reader.h"
#include "model/model.h"

#define TRI_OWN_MODEL_TYPE "trireme_"

/* Adds the settings in which `model` differs from `said`, the model that the document describes so far. */
void tri_huggingface_write_own(const tri_model *model, const tri_model *said, const char *model_type, json_t *to);

/* Sets members of a complete model to the object's values, if there is one. */
tri_status tri_huggingface_read_own(const tri_json_reader *from, tri_model *model);

#endif
