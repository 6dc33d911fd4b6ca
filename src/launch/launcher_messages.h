/* Messages of launchers about dead ranks. */
#ifndef TRI_LAUNCH_LAUNCHER_MESSAGES_H
#define TRI_LAUNCH_LAUNCHER_MESSAGES_H

#include <stdbool.h>

typedef struct tri_rank_death {
  int rank;   /* rank that died; -1: not known */
  long pid;   /* process id of the rank; 0: not known */
  int signal; /* signal that ended the process; 0: it did not end by a signal */
  int exit_status;
  char node[64];
} tri_rank_death;

/* Finds the first dead rank in the output of Open MPI's or MPICH's mpiexec, or srun; returns false if the output names
 * no dead rank. */
bool tri_rank_death_find(const char *text, tri_rank_death *out);

/* Returns whether `text`, the output of Open MPI's mpiexec, says that it could not create its session folder. The
 * session folders of all jobs of a user are in one folder, TMPDIR/ompi.HOST.UID, which the last job to end removes.
 * A job that starts at that moment ends before it has started a rank, with "A call to mkdir was unable to create the
 * desired directory ... File exists". */
bool tri_launcher_lost_session_folder(const char *text);

#endif
