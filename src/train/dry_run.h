#ifndef TRI_TRAIN_DRY_RUN_H
#define TRI_TRAIN_DRY_RUN_H

#include "engine/engine.h"
#include "generation/runner.h"

#include <stdio.h>

/* LOCAL. Prints what a rank of the layout would do and hold: its operations, its step program and its memory plan, with
 * the memory of samples. Does not allocate the model's memory, and needs no other rank. */
tri_status tri_dry_run(const tri_engine_options *options, int rank, tri_device *device, const tri_runner_need *samples,
                       FILE *to);

/* LOCAL. The bytes of that rank's memory plan, without those of samples. */
tri_status tri_dry_run_bytes(const tri_engine_options *options, int rank, tri_device *device, size_t *bytes);

#endif
