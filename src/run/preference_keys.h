/* Keys of a run file for preferences, and the checks of their combinations. */
#ifndef TRI_RUN_PREFERENCE_KEYS_H
#define TRI_RUN_PREFERENCE_KEYS_H

#include "config/yaml.h"
#include "run/run_config.h"

/* Adds a stand-in for data.train, which is otherwise required, if it is missing from a file that has data.preferences
 * or an objective other than cross_entropy. Call it before the keys are read. */
tri_status tri_preference_keys_stand_in(tri_yaml_tree *tree, tri_yaml *root);

/* Completes the objective's settings, and removes the stand-in. Call it after the keys were read. Fails with
 * TRI_BAD_CONFIG if a key may not be combined with the objective, or if a loss of preferences has no data.preferences.
 * For preferences, sets data.train and data.validation to their corpora, with packed and masked documents. */
tri_status tri_preference_keys_finish(tri_run_config *config);

/* Returns whether a value of data.preferences is a file of JSON lines, which the run prepares when it begins. Such a
 * name ends in .jsonl, .json or .ndjson, or in one of these and .zst. */
bool tri_preferences_are_text(const char *preferences);

/* Returns whether the weights with which a run begins are the base of its adapter. This is so if only the adapter's
 * factors are trained and they are not those of another adapter, because initial factors do not change what the model
 * computes. */
bool tri_run_begins_with_base(const tri_run_config *config);

/* Returns whether the reference's log-probabilities can be computed at any step of a run on preferences: its loss needs
 * no reference, or the reference is the base of the adapter. */
bool tri_preferences_keep_reference(const tri_run_config *config);

#endif
