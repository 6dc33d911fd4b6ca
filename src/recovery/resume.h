/* Resuming a run: from a snapshot, a checkpoint, given weights, or from the beginning. */
#ifndef TRI_RECOVERY_RESUME_H
#define TRI_RECOVERY_RESUME_H

#include "recovery/snapshot.h"

typedef struct tri_resume_request {
  tri_engine *engine;
  const tri_run_config *config;
  tri_identity *identity;   /* compared with the checkpoint's, and updated if the run branches; NULL: not compared */
  const char *from;         /* `--resume`: "auto", "never" or a folder */
  tri_snapshots *snapshots; /* NULL: the run takes no snapshots */
} tri_resume_request;

typedef enum tri_resumed {
  TRI_RESUMED_NOTHING, /* the engine has random weights, or those that `init` or `adapter.from` names */
  TRI_RESUMED_SNAPSHOT,
  TRI_RESUMED_CHECKPOINT,
} tri_resumed;

/* COLLECTIVE, at every start, before anything else is loaded. Loads the state to resume from, or the weights to begin
 * with, into the engine. Sets *progress to the progress of that state; does not change it for TRI_RESUMED_NOTHING. */
tri_status tri_resume(const tri_resume_request *request, tri_progress *progress, tri_resumed *out);

#endif
