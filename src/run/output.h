/* A run's output, held by this run alone. */
#ifndef TRI_RUN_OUTPUT_H
#define TRI_RUN_OUTPUT_H

#include "base/folder_lock.h"
#include "run/identity.h"

/* COLLECTIVE. Creates config->output, takes its lock, clears what killed runs have left half written there, and finds
 * the run's name (tri_identity_open). With `anew` an earlier run's checkpoints and metrics are moved aside first, and
 * the name is a new one. *lock is set on the first rank, as soon as it is held; release it with
 * tri_folder_lock_release. */
tri_status tri_output_hold(const tri_group *world, const tri_run_config *config, bool anew, tri_folder_lock **lock,
                           tri_identity *identity);

/* LOCAL, on the rank that holds the output. Writes OUTPUT/config.yaml: the configuration as it was resolved. */
tri_status tri_output_write_config(const tri_run_config *config);

/* LOCAL, on the rank that holds the output. The run goes on from the checkpoint `folder`, of that step. If that is one
 * of the output's own, later ones are moved aside; if it is another run's, all that is there is: it is another history.
 */
tri_status tri_output_make_room(const char *output, const char *folder, int64_t step);

#endif
