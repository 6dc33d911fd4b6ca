/* A run's output, held by this run alone. */
#ifndef TRI_RUN_OUTPUT_H
#define TRI_RUN_OUTPUT_H

#include "base/folder_lock.h"
#include "run/identity.h"

/* The output of a run, on the first rank. */
typedef struct tri_run_output {
  char path[TRI_PATH_BYTES];
  tri_folder_lock *lock; /* NULL on other ranks, and before the output is open */
  bool made;             /* the run made the folder */
} tri_run_output;

/* COLLECTIVE. Opens config->output: makes the folder and takes its lock. Nothing below the output may be written before
 * this. Release with tri_run_output_close. */
tri_status tri_run_output_open(const tri_group *world, const tri_run_config *config, tri_run_output *out);

/* COLLECTIVE. Begins to write to an open output, once the run is known to be possible: clears what killed runs have
 * left half written there, and finds the run's name (tri_identity_open). With `anew` an earlier run's checkpoints and
 * metrics are moved aside first, and the name is a new one. */
tri_status tri_run_output_begin(const tri_group *world, const tri_run_config *config, bool anew,
                                tri_identity *identity);

/* LOCAL. Releases the lock, and removes the folder if the run made it and left nothing there. */
void tri_run_output_close(tri_run_output *output);

/* LOCAL, on the rank that holds the output. Writes OUTPUT/config.yaml: the configuration as it was resolved. */
tri_status tri_output_write_config(const tri_run_config *config);

/* LOCAL, on the rank that holds the output. The run goes on from the checkpoint `folder`, of that step. If that is one
 * of the output's own, later ones are moved aside; if it is another run's, all that is there is: it is another history.
 */
tri_status tri_output_make_room(const char *output, const char *folder, int64_t step);

#endif
