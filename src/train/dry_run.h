#ifndef TRI_TRAIN_DRY_RUN_H
#define TRI_TRAIN_DRY_RUN_H

#include "engine/engine.h"
#include "generation/runner.h"

#include <stdio.h>

/* Memory for generation beside training. */
typedef struct tri_dry_run_needs {
  tri_runner_need samples, rollouts;
} tri_dry_run_needs;

/* Memory of a rank in bytes, generation included: on its device, on the host, and the sum. */
typedef struct tri_dry_run_memory {
  size_t device, host, all;
} tri_dry_run_memory;

/* LOCAL. Prints the operations, the step program and the memory plan of a rank of the layout, with the memory for
 * generation. Does not allocate the model's memory, and needs no other rank. */
tri_status tri_dry_run(const tri_engine_options *options, int rank, tri_device *device, const tri_dry_run_needs *needs,
                       FILE *to);

/* LOCAL. Computes the memory of a rank without printing anything. */
tri_status tri_dry_run_plan(const tri_engine_options *options, int rank, tri_device *device,
                            const tri_dry_run_needs *needs, tri_dry_run_memory *out);

#endif
