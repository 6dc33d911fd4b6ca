/* Copies of the run's state in memory that outlives the processes, so that a lost rank costs steps and not minutes.
 *
 * Every few steps each rank copies what it holds into a file of its node's shared memory (/dev/shm), and sends it
 * to a rank of another node, which keeps it in the same way. A job that starts again with the same layout takes the
 * newest step that is still whole, each rank from its own node or, where that is new, from its neighbour's. */
#ifndef TRI_RECOVERY_SNAPSHOT_H
#define TRI_RECOVERY_SNAPSHOT_H

#include "engine/engine.h"
#include "run/identity.h"
#include "run/progress.h"
#include "run/run_config.h"

typedef struct tri_snapshots tri_snapshots;

/* COLLECTIVE. The engine outlives them; release with tri_snapshots_destroy. */
tri_status tri_snapshots_create(tri_engine *engine, const tri_run_config *config, const tri_identity *identity,
                                tri_snapshots **out);
void tri_snapshots_destroy(tri_snapshots *snapshots);

/* COLLECTIVE, between two steps. An older snapshot goes once this one is whole. */
tri_status tri_snapshots_take(tri_snapshots *snapshots, const tri_progress *progress);

/* COLLECTIVE. The newest step of which every rank's part is somewhere in the job, or -1. */
tri_status tri_snapshots_find(tri_snapshots *snapshots, int64_t *step);

/* COLLECTIVE. Loads that step into the engine. TRI_BAD_FILE if a part is damaged; the engine then holds nothing that
 * counts. */
tri_status tri_snapshots_load(tri_snapshots *snapshots, int64_t step, tri_progress *progress);

/* LOCAL. Removes what is in this node's memory: the run has come to its end. */
void tri_snapshots_remove(const tri_snapshots *snapshots);

/* LOCAL, by a run that takes none, with its output held: removes those that an earlier start of it left here, of when
 * it took some, and that would never be removed. */
void tri_snapshots_forget(const char *output);

#endif
