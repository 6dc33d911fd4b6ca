/* Reads a checkpoint's state into an engine and verifies it. Which checkpoint that is resume.c decides. */
#ifndef TRI_RECOVERY_LOAD_STATE_H
#define TRI_RECOVERY_LOAD_STATE_H

#include "engine/checkpoint_map.h"
#include "engine/engine.h"
#include "run/identity.h"
#include "run/progress.h"
#include "run/run_config.h"

typedef struct tri_loading {
  tri_engine *engine;
  const tri_run_config *config;
  tri_identity *identity; /* the checkpoint is compared with; NULL: nothing is compared */
  tri_resume_kind kind;
  tri_progress *progress;         /* becomes the checkpoint's; stays for weights alone, and may be NULL then */
  bool plain_too;                 /* a folder without checksums will do */
  tri_checkpoint_map held, saved; /* what this rank holds, and its share of what all ranks save together */
} tri_loading;

/* COLLECTIVE. A tri_checkpoint_try over a tri_loading: each rank reads what it holds of the checkpoint, once; together
 * they verify the checksums, compare it with the run, and look for values that are not finite. *damaged: another
 * checkpoint should be tried. The engine holds nothing that counts after a failure. */
tri_status tri_load_state(void *loading, const char *path, bool *damaged);

#endif
