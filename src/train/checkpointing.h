/* The engine's state as a checkpoint, and back. */
#ifndef TRI_TRAIN_CHECKPOINTING_H
#define TRI_TRAIN_CHECKPOINTING_H

#include "train/engine.h"
#include "train/run_config.h"

/* Where a run is. Everything else that a step depends on is a function of these and of the configuration. */
typedef struct tri_progress {
  int64_t step;      /* steps made, skipped ones too: the next sample is step * global_batch */
  int64_t updates;   /* steps that changed the parameters */
  int64_t tokens;    /* trained on */
  int64_t bad_steps; /* skipped */
  int64_t bad_in_row;
  double seconds; /* of training */
} tri_progress;

/* Writes output/checkpoints/step-N. `tokenizer` is the path of a tokenizer.json or "". */
tri_status tri_checkpointing_save(tri_engine *engine, const tri_run_config *config, const tri_progress *progress,
                                  const char *tokenizer);

/* Loads what `resume` says (see tri_train_options) into the engine. *found is false where there is nothing to resume.
 */
tri_status tri_checkpointing_load(tri_engine *engine, const tri_run_config *config, const char *resume,
                                  tri_progress *progress, bool *found);

#endif
