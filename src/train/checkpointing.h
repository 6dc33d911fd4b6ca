/* A run's state from a checkpoint. */
#ifndef TRI_TRAIN_CHECKPOINTING_H
#define TRI_TRAIN_CHECKPOINTING_H

#include "train/engine.h"
#include "train/progress.h"
#include "train/run_config.h"

/* COLLECTIVE. Loads what `resume` says (see tri_train_options) into the engine. *found is false where there is nothing
 * to resume.
 */
tri_status tri_checkpointing_load(tri_engine *engine, const tri_run_config *config, const char *resume,
                                  tri_progress *progress, bool *found);

#endif
