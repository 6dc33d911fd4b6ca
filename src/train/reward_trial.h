/* Tries the rewards of a run on its prompts before anything is sampled. */
#ifndef TRI_TRAIN_REWARD_TRIAL_H
#define TRI_TRAIN_REWARD_TRIAL_H

#include "run/run_config.h"
#include "run/run_data.h"

#include <stdio.h>

/* LOCAL. Scores up to 64 prompts, each with its own answer, with an empty text and with another prompt's answer as the
 * completion, and prints the means as a table. Fails with TRI_BAD_CONFIG if the right answers do not earn more than
 * empty texts and other answers, although a reward compares with the answer, or if a command does not answer for all of
 * these completions. */
tri_status tri_reward_trial(const tri_run_config *config, const tri_run_data *data, FILE *to);

#endif
