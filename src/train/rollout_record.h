/* OUTPUT/rollouts.jsonl: a line for each completion of a batch, in the order of groups and samples, written when the
 * batch begins to be trained on. */
#ifndef TRI_TRAIN_ROLLOUT_RECORD_H
#define TRI_TRAIN_ROLLOUT_RECORD_H

#include "rollout/completion.h"
#include "run/run_config.h"

#include <stdio.h>

/* LOCAL, on the first rank. Removes the lines of batches from number `batches` on, which the run will repeat, and opens
 * the file for appending. */
tri_status tri_rollout_record_open(const tri_run_config *config, int64_t batches, FILE **out);

/* LOCAL, on the first rank. Appends the completions of batch number `number`. The texts are those of the first
 * rollout.log groups. */
tri_status tri_rollout_record_write(FILE *to, const tri_run_config *config, int64_t number,
                                    const tri_rollout_batch *batch);

#endif
