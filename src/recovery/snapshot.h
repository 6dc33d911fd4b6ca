/* Snapshots: copies of the state of a run in memory that outlives the processes. With them a lost rank costs a few
 * steps, and not minutes.
 *
 * Every few steps each rank copies its state, its *part*, into a file in the shared memory of its node (/dev/shm), and
 * sends it to a rank of another node, which stores it in the same way. A job that starts again with the same
 * configuration and number of ranks resumes from the newest step that is still complete. Each rank reads its part from
 * its own node, or, if that node is new, from the node with the copy. */
#ifndef TRI_RECOVERY_SNAPSHOT_H
#define TRI_RECOVERY_SNAPSHOT_H

#include "engine/engine.h"
#include "run/identity.h"
#include "run/progress.h"
#include "run/run_config.h"

typedef struct tri_snapshots tri_snapshots;

/* COLLECTIVE. Prepares to take and to load snapshots. Removes those of other runs of the output from the memory of
 * the nodes. The engine must outlive the snapshots. Release with tri_snapshots_destroy, which removes no files. */
tri_status tri_snapshots_create(tri_engine *engine, const tri_run_config *config, const tri_identity *identity,
                                tri_snapshots **out);
void tri_snapshots_destroy(tri_snapshots *snapshots);

/* COLLECTIVE, between two steps. Takes a snapshot. Removes the snapshots of other steps once it is complete. */
tri_status tri_snapshots_make(tri_snapshots *snapshots, const tri_progress *progress);

/* COLLECTIVE. Sets *step to the newest complete step, or to -1. A step is complete if the part of every rank is on
 * some node of the job. */
tri_status tri_snapshots_find(tri_snapshots *snapshots, int64_t *step);

/* COLLECTIVE. Loads the snapshot of a step into the engine. Fails with TRI_BAD_FILE if a part is damaged; the state
 * of the engine and *progress are then unchanged. */
tri_status tri_snapshots_load(tri_snapshots *snapshots, int64_t step, tri_progress *progress);

/* LOCAL. Removes the snapshots of all runs of the output from the memory of this node. Called if no later start may
 * resume from them: at the end of the run, at a start with a `--resume` other than `auto`, and if the run gives up
 * before a good step has followed the newest snapshot. */
void tri_snapshots_remove(const tri_snapshots *snapshots);

/* LOCAL, for a run that takes no snapshots but holds the lock of its output. Removes the snapshots of all earlier
 * runs of the output from the memory of this node. */
void tri_snapshots_forget(const char *output);

#endif
