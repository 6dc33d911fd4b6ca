/* Sources of a model's settings: the name of a preset, a model file, or a folder with a model (a checkpoint, a run's
 * output, a Hugging Face folder). Weights are not read. */
#ifndef TRI_CHECKPOINT_MODEL_SOURCE_H
#define TRI_CHECKPOINT_MODEL_SOURCE_H

#include "config/yaml.h"
#include "model/model.h"

/* LOCAL. An `expand` function for a row of a table (tri_config_key), instead of tri_model_expand. Folders and files are
 * relative to the current directory. A preset takes precedence over a folder of its name, since the meaning of a run
 * file must not depend on the current directory; ./NAME is the folder. Keys that follow from others (head_dim from
 * hidden_size) are left out of a folder's mapping as well, so that one key may be set without the others. */
tri_status tri_model_source_expand(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping);

/* LOCAL. Reads the whole model of a preset, a file or a folder. Fails with TRI_BAD_CONFIG if `name` is none of these,
 * and as the reading of the file or of config.json does. */
tri_status tri_model_source_load(const char *name, tri_model *out);

#endif
