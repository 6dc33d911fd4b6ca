/* What launchers say of a rank that died. */
#ifndef TRI_LAUNCH_LAUNCHER_MESSAGES_H
#define TRI_LAUNCH_LAUNCHER_MESSAGES_H

#include <stdbool.h>

typedef struct tri_rank_death {
  int rank;   /* -1 if it is not said */
  long pid;   /* 0 if it is not said  */
  int signal; /* 0 if it was none     */
  int exit_status;
  char node[64];
} tri_rank_death;

/* Looks for the first one in what Open MPI's or MPICH's mpiexec wrote, or srun; false if there is none. */
bool tri_rank_death_find(const char *text, tri_rank_death *out);

/* Whether it is Open MPI's mpiexec that could not make the folder of its session. All jobs of a user have theirs in
 * one, TMPDIR/ompi.HOST.UID, which the last job to end removes: a job that begins at that moment ends, before it has
 * started any rank, with "A call to mkdir was unable to create the desired directory ... File exists". */
bool tri_launcher_lost_session_folder(const char *text);

#endif
