/* Keys of a run file for preferences, and what they say together. */
#ifndef TRI_RUN_PREFERENCE_KEYS_H
#define TRI_RUN_PREFERENCE_KEYS_H

#include "config/yaml.h"
#include "run/run_config.h"

/* Before the keys are read: data.train is not asked for beside data.preferences. */
tri_status tri_preference_keys_stand_in(tri_yaml_tree *tree, tri_yaml *root);

/* After the keys were read: checks what goes with an objective and what does not. Of preferences the corpus stands for
 * data.train and data.validation, packed and with masked documents. */
tri_status tri_preference_keys_finish(tri_run_config *config);

/* Whether `data.preferences` is text that the run prepares when it begins, by its name: JSON lines. */
bool tri_preferences_are_text(const char *preferences);

/* Whether the reference's log-probabilities can be computed at any step of a run on preferences: its loss has no
 * reference, or that is the base of an adapter whose factors are all that is trained, and began as nothing. */
bool tri_preferences_keep_reference(const tri_run_config *config);

#endif
