/* Model descriptions as text: the table of their keys, presets (configs/models), files and printing. */
#ifndef TRI_MODEL_MODEL_CONFIG_H
#define TRI_MODEL_MODEL_CONFIG_H

#include "base/status.h"
#include "config/config.h"
#include "model/model.h"

/* The keys of `model:` and of a model file; offsets into tri_model. Its limits keep every count that is derived from a
 * model (parameters, bytes of optimizer state) within int64_t. */
extern const tri_config_table tri_model_table;

/* For a row of a larger table: what a name in the place of a mapping stands for, a preset or a YAML file (a name with a
 * slash or that ends in .yaml; relative to the current directory). */
tri_status tri_model_expand(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping);

/* After tri_config_read of the table: defaults that depend on the family, and tri_model_complete. Faults name the place
 * in the mapping's file. */
tri_status tri_model_finish(const tri_yaml *mapping, tri_model *model);

/* Whether a key of the table changes the function that the model computes: not what its parameters begin with, how it
 * is trained or what reports say. (A longer max_sequence shows in the shape of learned positions, where there are
 * some.) */
bool tri_model_key_is_of_function(const char *key);

/* Whether a key of the table has, in a complete model, the value that follows from the others where it is left out. */
bool tri_model_is_derived(const tri_model *model, const tri_config_key *key);

/* A preset by its name or a model file by its path. */
tri_status tri_model_load(const char *name_or_file, tri_model *out);

/* The same for a floor above, whose names stand for more than those two. */
typedef tri_status (*tri_model_expander)(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping);
tri_status tri_model_load_by(tri_model_expander expand, const char *name, tri_model *out);

/* All keys as YAML with comments; tri_model_load of that text gives the same values. Release *out with tri_free. */
tri_status tri_model_print(const tri_model *model, char **out);

#endif
