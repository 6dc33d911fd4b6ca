/* Reads the state of a checkpoint into an engine, and verifies it. resume.c chooses the checkpoint. */
#ifndef TRI_RECOVERY_LOAD_STATE_H
#define TRI_RECOVERY_LOAD_STATE_H

#include "engine/checkpoint_map.h"
#include "engine/engine.h"
#include "run/progress.h"
#include "run/resume_check.h"
#include "run/run_config.h"

/* A load of a checkpoint: its arguments, and its results. All pointers are owned by the caller. */
typedef struct tri_loading {
  tri_engine *engine;
  const tri_run_config *config;
  tri_identity *identity; /* compared with that of the checkpoint; NULL: not compared */
  tri_resume_kind kind;
  tri_progress *progress; /* result: progress of the checkpoint; not set, and may be NULL, if only weights are read */
  bool plain_too;         /* whether to accept a Hugging Face folder, which has no checksums */
  /* held: this rank's slices of the tensors to read. saved: its slices of the tensors that a save writes, which are
   * used to verify checksums, since exactly one rank saves each element; not used if `held.elsewhere` is set. */
  tri_checkpoint_map held, saved;
  bool has_states;                  /* result: whether the optimizer's states were read from the checkpoint */
  bool missing[TRI_NUM_RUN_STATES]; /* result: whether the run keeps each state, and the checkpoint does not have it */
} tri_loading;

/* COLLECTIVE. Loads the checkpoint `path`; `loading` is a tri_loading. This is a tri_checkpoint_try.
 *
 * Each rank reads the slices that it holds, once. All ranks verify the checksums together, and the first rank compares
 * the checkpoint with the run. Fails if a value is not finite. *damaged tells whether the checkpoint is at fault, so
 * that an older one should be tried. After a failure the state of the engine is undefined.
 *
 * Sets loading->has_states and loading->missing, and, unless only weights are read, *loading->progress: the progress of
 * the checkpoint, with the next sample of this run, and with zeros for the states that do not continue those of the
 * checkpoint. After all parameters are set, the caller must call tri_engine_begin_states for the states that were not
 * read. */
tri_status tri_load_state(void *loading, const char *path, bool *damaged);

#endif
