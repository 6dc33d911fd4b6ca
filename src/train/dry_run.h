#ifndef TRI_TRAIN_DRY_RUN_H
#define TRI_TRAIN_DRY_RUN_H

#include "train/engine.h"

#include <stdio.h>

/* Prints what a rank would do and hold, for people: its operations, its step program and its memory plan. Allocates no
 * memory of the model's. */
tri_status tri_dry_run(const tri_engine_options *options, tri_device *device, FILE *to);

#endif
