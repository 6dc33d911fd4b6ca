/* Checks before the ranks of a job begin: they agree about the run, and their nodes have enough memory. */
#ifndef TRI_TRAIN_STARTUP_CHECKS_H
#define TRI_TRAIN_STARTUP_CHECKS_H

#include "engine/engine.h"
#include "generation/runner.h"
#include "run/run_config.h"
#include "run/run_data.h"

/* COLLECTIVE. Checks that all ranks run the same program with the same configuration on the same corpora (validation
 * corpora are optional). Fails with TRI_BAD_CONFIG on all ranks otherwise; the message has the difference and the
 * rank. */
tri_status tri_startup_check_agreement(const tri_mesh *mesh, const tri_run_config *config, const tri_run_data *data);

/* COLLECTIVE over the group. Checks that all ranks have the same corpus, by its size and tokens at places all over it.
 * Fails with TRI_BAD_CONFIG on all ranks otherwise. `corpus` is NULL on all ranks if there is no corpus. `what` names
 * the corpus in the message. */
tri_status tri_startup_check_corpus(const tri_group *group, const tri_corpus *corpus, int64_t vocab_size,
                                    const char *what);

/* Memory that a rank needs in addition to its engine's. */
typedef struct tri_startup_memory {
  bool snapshots;           /* whether the run takes snapshots */
  tri_runner_need samples;  /* memory for generating samples, on the ranks that do (samples.tensor) */
  tri_runner_need rollouts; /* memory for sampling completions, in reinforcement learning */
} tri_startup_memory;

/* COLLECTIVE. Plans every rank's memory without allocating it, adds `more`, and sums over the ranks of each node. Fails
 * with TRI_OUT_OF_MEMORY on all ranks if a node or a device has less memory than its ranks need; the message lists the
 * needs of its ranks, at most 16. Does nothing for a single rank that generates nothing, because its executor checks
 * the same plan. */
tri_status tri_startup_check_memory(const tri_engine_options *options, tri_device *device,
                                    const tri_startup_memory *more);

#endif
