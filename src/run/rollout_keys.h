/* The keys of a run file for reinforcement learning: the sections `rollout` and `reward`, and checks of their
 * combinations with keys of other sections. */
#ifndef TRI_RUN_ROLLOUT_KEYS_H
#define TRI_RUN_ROLLOUT_KEYS_H

#include "run/run_config.h"

extern const tri_config_table tri_rollout_table; /* offsets into tri_rollout_settings */
extern const tri_config_table tri_reward_table;  /* offsets into tri_run_reward */

/* Must be called before the keys are read. Replaces objective.recipe by the keys for which it stands. Then, if
 * objective.name is grpo, sets data.train and optimizer.global_batch, which follow from other keys, to values that
 * tri_rollout_keys_finish replaces. Fails with TRI_BAD_CONFIG for an unknown recipe, or if such a file has
 * optimizer.global_batch. */
tri_status tri_rollout_keys_prepare(tri_yaml_tree *tree, tri_yaml *root);

/* Must be called after the keys are read. Checks the keys of a run of reinforcement learning, and sets the keys that
 * follow from them. In other runs, refuses the keys of reinforcement learning. Error messages begin with the key in
 * backquotes. */
tri_status tri_rollout_keys_finish(tri_run_config *config);

/* Checks the length of completions, after data.sequence is known. Fails with TRI_BAD_CONFIG if it leaves no room for a
 * prompt. */
tri_status tri_rollout_keys_check(const tri_run_config *config);

/* Sets optimizer.global_batch of a run of reinforcement learning to the maximum number of samples of an update on
 * `data` data ranks (0: one). Does nothing for other runs. */
void tri_rollout_keys_set_batch(tri_run_config *config, int64_t data);

#endif
