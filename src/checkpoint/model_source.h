/* What may stand where a model is asked for: a preset's name, a model file, or a folder that holds a model (a
 * checkpoint, a run's output, a Hugging Face folder), whose settings it is. The weights stay where they are. */
#ifndef TRI_CHECKPOINT_MODEL_SOURCE_H
#define TRI_CHECKPOINT_MODEL_SOURCE_H

#include "config/yaml.h"
#include "model/model.h"

/* LOCAL. For a row of a table, in the place of tri_model_expand: the keys that the name stands for. A folder is given
 * relative to the current directory, as a file is. A preset goes before a folder of its name, since what a run file
 * says must not depend on what lies about; ./NAME is the folder. What a model derives from other keys (head_dim from
 * hidden_size) is derived from those of a folder too, so that one key may be set without the others. */
tri_status tri_model_source_expand(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping);

/* LOCAL. A whole model by its preset's name, its file's path or its folder's. */
tri_status tri_model_source_load(const char *name, tri_model *out);

#endif
