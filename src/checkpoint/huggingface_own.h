/* What a model's routers do and config.json has no words for: in an object `trireme` of its own, by the keys of a run
 * file. Where that changes the function that the model computes, its `model_type` begins with "trireme_", so that who
 * knows nothing of the object does not take the model for another. */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_OWN_H
#define TRI_CHECKPOINT_HUGGINGFACE_OWN_H

#include "base/json_reader.h"
#include "model/model.h"

#define TRI_OWN_MODEL_TYPE "trireme_"

/* Adds what `said`, the model as the document says it so far, has not as `model` has it. */
void tri_huggingface_write_own(const tri_model *model, const tri_model *said, const char *model_type, json_t *to);

/* Lays the object's values over a complete model. */
tri_status tri_huggingface_read_own(const tri_json_reader *from, tri_model *model);

#endif
