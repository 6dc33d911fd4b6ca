/* A run's state from a checkpoint. */
#ifndef TRI_RECOVERY_CHECKPOINTING_H
#define TRI_RECOVERY_CHECKPOINTING_H

#include "engine/engine.h"
#include "run/identity.h"
#include "run/progress.h"
#include "run/run_config.h"

/* COLLECTIVE, at every start, before anything else is loaded. The model beneath an adapter, from config->init:
 * checkpoints and snapshots have the adapter alone. Does nothing without one. */
tri_status tri_checkpointing_load_base(tri_engine *engine, const tri_run_config *config, tri_identity *identity);

/* COLLECTIVE. Loads what `resume` says (see tri_train_options) into the engine, after comparing it with the run
 * (identity NULL: compares nothing). *found is false where there is nothing to resume; the engine then has the weights
 * of config->init, if it names some. */
tri_status tri_checkpointing_load(tri_engine *engine, const tri_run_config *config, tri_identity *identity,
                                  const char *resume, tri_progress *progress, bool *found);

#endif
