/* The output folder of a run, which is locked by the run. */
#ifndef TRI_RUN_OUTPUT_H
#define TRI_RUN_OUTPUT_H

#include "files/folder_lock.h"
#include "run/identity.h"

/* The output of a run, on the first rank. */
typedef struct tri_run_output {
  char path[TRI_PATH_BYTES];
  tri_folder_lock *lock; /* NULL on other ranks, and before the output is open */
  bool made;             /* whether the run created the folder */
} tri_run_output;

/* COLLECTIVE. Opens config->output: creates the folder and takes its lock. Fails with TRI_BUSY if another run has the
 * lock. Nothing may be written below the output before this. Release with tri_run_output_close. */
tri_status tri_run_output_open(const tri_group *world, const tri_run_config *config, tri_run_output *out);

/* COLLECTIVE. Begins to write to an open output, after all checks have shown that the run is possible. Refuses folders
 * in place of its files, removes incomplete files of killed runs, and finds the run's name (tri_identity_open). With
 * `anew`, first moves an earlier run's checkpoints, metrics and samples aside, and creates a new name. */
tri_status tri_run_output_begin(const tri_group *world, const tri_run_config *config, bool anew,
                                tri_identity *identity);

/* LOCAL. Releases the lock, and removes the folder if the run created it and it is empty. */
void tri_run_output_close(tri_run_output *output);

/* LOCAL, on the rank that holds the lock. Writes OUTPUT/config.yaml: the resolved configuration. */
tri_status tri_output_write_config(const tri_run_config *config);

/* LOCAL, on the rank that holds the lock. Prepares the output for a run that resumes from the checkpoint `folder`,
 * which has `step` steps. If the checkpoint is in this output, later checkpoints are moved aside. If it belongs to
 * another run, all checkpoints of the output are moved aside, because they belong to a different history. */
tri_status tri_output_make_room(const char *output, const char *folder, int64_t step);

#endif
