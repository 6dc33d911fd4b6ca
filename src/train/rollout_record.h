/* OUTPUT/rollouts.jsonl: a line for each completion of a batch, in the order of groups and samples, written when the
 * batch begins to be trained on. */
#ifndef TRI_TRAIN_ROLLOUT_RECORD_H
#define TRI_TRAIN_ROLLOUT_RECORD_H

#include "rollout/completion.h"
#include "run/run_config.h"

#include <stdio.h>

/* LOCAL, on the first rank. Opens the file for appending, after removing the lines of batches with numbers from
 * `batches` on, which a resumed run repeats. */
tri_status tri_rollout_record_open(const tri_run_config *config, int64_t batches, FILE **out);

/* LOCAL, on the first rank. Appends the completions of batch number `number`, with the texts of the first rollout.log
 * groups. */
tri_status tri_rollout_record_write(FILE *to, const tri_run_config *config, int64_t number,
                                    const tri_rollout_batch *batch);

#endif
