/* Model descriptions as text: the table of their keys, presets (configs/models), files and printing. */
#ifndef TRI_MODEL_MODEL_CONFIG_H
#define TRI_MODEL_MODEL_CONFIG_H

#include "base/status.h"
#include "config/config.h"
#include "model/model.h"

/* The keys of `model:` in a run file, and of a model file; offsets into tri_model. The limits of the keys keep every
 * count that is derived from a model (parameters, bytes of optimizer state) within int64_t. */
extern const tri_config_table tri_model_table;

/* Implements tri_config_key.expand for a model key: makes the mapping of the model that `name` names. `name` is the
 * name of a preset, or the path of a YAML file (it has a slash or ends in .yaml; relative to the current directory). */
tri_status tri_model_expand(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping);

/* Sets defaults that depend on the family, and calls tri_model_complete. Must be called after tri_config_read of the
 * table. Messages name file and line of the key in the mapping. */
tri_status tri_model_finish(const tri_yaml *mapping, tri_model *model);

/* Returns whether a key of a model has the value that it would get from other keys if it were left out. The model must
 * be complete (tri_model_complete). */
bool tri_model_is_derived(const tri_model *model, const tri_config_key *key);

/* Reads a preset by its name, or a model file by its path. */
tri_status tri_model_load(const char *name_or_file, tri_model *out);

/* Reads a model as tri_model_load does, but with the function `expand`, for callers that accept more kinds of names
 * (checkpoint/model_source.h). */
typedef tri_status (*tri_model_expander)(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping);
tri_status tri_model_load_by(tri_model_expander expand, const char *name, tri_model *out);

/* Prints all keys as YAML with comments; tri_model_load of that text gives the same values. Release *out with tri_free.
 */
tri_status tri_model_print(const tri_model *model, char **out);

#endif
