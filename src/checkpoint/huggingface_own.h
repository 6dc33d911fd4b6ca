/* Settings of routers for which Hugging Face has no keys. They are in the object `trireme` of config.json, under the
 * keys of a run file. If they change the model's function, `model_type` begins with "trireme_", so that a program
 * without support for the object refuses the model instead of computing another function. */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_OWN_H
#define TRI_CHECKPOINT_HUGGINGFACE_OWN_H

#include "files/json_reader.h"
#include "model/model.h"

#define TRI_OWN_MODEL_TYPE "trireme_"

/* Adds the settings in which `model` differs from `said`, the model that `to` describes so far. If one of them changes
 * the model's function, also replaces `model_type` and `architectures` in `to` by our own; the parameter model_type is
 * the type without "trireme_". */
void tri_huggingface_write_own(const tri_model *model, const tri_model *said, const char *model_type, json_t *to);

/* Sets members of a model to the values of the object `trireme`, if the file has one. The model must be complete
 * (tri_model_complete). Fails with TRI_BAD_FILE for an unknown key or a wrong value. */
tri_status tri_huggingface_read_own(const tri_json_reader *from, tri_model *model);

#endif
