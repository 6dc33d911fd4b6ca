/* Reads a checkpoint's state into an engine and verifies it. resume.c decides which checkpoint. */
#ifndef TRI_RECOVERY_LOAD_STATE_H
#define TRI_RECOVERY_LOAD_STATE_H

#include "engine/checkpoint_map.h"
#include "engine/engine.h"
#include "run/progress.h"
#include "run/resume_check.h"
#include "run/run_config.h"

typedef struct tri_loading {
  tri_engine *engine;
  const tri_run_config *config;
  tri_identity *identity; /* compared with the checkpoint's; NULL: not compared */
  tri_resume_kind kind;
  tri_progress *progress; /* output: progress of the checkpoint; not set, and may be NULL, if only weights are read */
  bool plain_too;         /* whether a Hugging Face folder without checksums is accepted */
  tri_checkpoint_map held, saved; /* all slices that this rank holds, and those that it saves; each element is saved by
                                     exactly one rank */
  bool has_states;                /* output: all optimizer states, averages included, were read from the checkpoint */
} tri_loading;

/* COLLECTIVE. A tri_checkpoint_try whose context is a tri_loading. Each rank reads the slices that it holds, once. The
 * ranks verify the checksums together, and the first rank compares the checkpoint with the run. Fails if a value is not
 * finite. Sets *damaged if the checkpoint is at fault and an older one should be tried. After a failure the engine's
 * state is undefined. Sets has_states of the tri_loading. If has_states is false, some states begin as copies of
 * parameters, and the caller must call tri_engine_begin_states once all parameters are set. */
tri_status tri_load_state(void *loading, const char *path, bool *damaged);

#endif
