/* Lists of values in the space of a study file. */
#ifndef TRI_TUNE_STUDY_VALUES_H
#define TRI_TUNE_STUDY_VALUES_H

#include "config/yaml.h"

/* Replaces `values: [1, 2, 4]` in the entries of a study's `space` by `values: 1 2 4`, which the table of keys reads.
 * Fails with TRI_BAD_CONFIG, with the line, if an entry of a list is not a scalar, or has a blank or a comma. */
tri_status tri_study_join_values(tri_yaml_tree *tree, tri_yaml *root);

#endif
