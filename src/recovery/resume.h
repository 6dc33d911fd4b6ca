/* Resumes a run from a snapshot or a checkpoint, or begins it with given weights or with random ones. */
#ifndef TRI_RECOVERY_RESUME_H
#define TRI_RECOVERY_RESUME_H

#include "recovery/snapshot.h"

typedef struct tri_resume_request {
  tri_engine *engine;
  const tri_run_config *config;
  /* Identity of the run, which is compared with that of the checkpoint, and updated if the run branches; NULL: nothing
   * is compared. */
  tri_identity *identity;
  const char *from;         /* value of `--resume`: "auto", "never" or a folder */
  tri_snapshots *snapshots; /* NULL: the run takes no snapshots */
} tri_resume_request;

typedef enum tri_resumed {
  TRI_RESUMED_NOTHING, /* the engine has random weights, or those that `init` or `adapter.from` name */
  TRI_RESUMED_SNAPSHOT,
  TRI_RESUMED_CHECKPOINT,
} tri_resumed;

/* COLLECTIVE, at every start, before anything else is loaded. Loads the state to resume from, or the weights to
 * begin with, into the engine. Sets *progress to the progress of that state; leaves it unchanged for
 * TRI_RESUMED_NOTHING. Fails with TRI_BAD_FILE if a folder that `--resume`, `init` or `adapter.from` names is missing
 * or damaged, or if all checkpoints of the output are, and as tri_resume_check does. */
tri_status tri_resume(const tri_resume_request *request, tri_progress *progress, tri_resumed *out);

#endif
