#ifndef TRI_TUNE_STUDY_VALUES_H
#define TRI_TUNE_STUDY_VALUES_H

#include "config/yaml.h"

/* `values: [1, 2, 4]` in the entries of a study's `space` becomes `values: 1 2 4`, which its keys know. A list that
 * holds other than plain values, or one with a blank or a comma in it, is TRI_BAD_CONFIG with its line. */
tri_status tri_study_join_values(tri_yaml_tree *tree, tri_yaml *root);

#endif
