/* The MPI launcher of the machine. */
#ifndef TRI_LAUNCH_LAUNCHER_H
#define TRI_LAUNCH_LAUNCHER_H

#include "base/status.h"
#include "files/file.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_launcher {
  char path[TRI_PATH_BYTES];
  char implementation[32]; /* "Open MPI", "MPICH", "Intel MPI", "unknown" */
  char version[32];        /* "4.1.4", or "" */
} tri_launcher;

/* LOCAL. Finds a launcher in the folders of search_path, separated by colons as in $PATH: mpiexec, mpirun, or their
 * names on systems with several MPIs; and runs it to find out its implementation. Chooses the first launcher that
 * can start programs built with `library` (tri_comm_library; NULL: any), or else the first launcher. Fails with
 * TRI_UNSUPPORTED if no launcher is found. */
tri_status tri_launcher_find(const char *search_path, const char *library, tri_launcher *out);

/* Returns whether a launcher can start programs that were built with `library`; true if the launcher is unknown. */
bool tri_launcher_speaks(const tri_launcher *launcher, const char *library);

typedef struct tri_launch_options {
  int64_t ranks, max_restarts;
  bool resumes; /* whether the same command resumes from the newest checkpoint, which error messages then mention */
  bool elastic; /* whether a restart may have fewer ranks if `ranks` are not available any more */
  double hang_timeout_s; /* timeout of the run's watchdogs; the supervisor waits somewhat longer (supervisor.h). 0: no
                            limit */
  const char *output;    /* output folder of the run; NULL: none */
  bool gives_streams;    /* whether rank 0 uses this process's standard input and output (tri_parent_use_streams) */
} tri_launch_options;

/* LOCAL. Starts this program's command line on options->ranks ranks through the launcher in $PATH, and waits for the
 * end of the job. Logs of the ranks are passed on; output of the launcher is shown only if no rank has reported an
 * error. SIGINT, SIGTERM and SIGHUP ask the job to stop: before the first step it is ended, later its ranks save; a
 * second signal ends it at once. A request of a scheduler (base/stop.h) never ends the job at once: it is passed on
 * to the ranks when all are connected, or after the first step; further ones change nothing. The status of a job
 * that was asked to stop is TRI_INTERRUPTED, unless a rank had failed. A job that had begun to train and lost a
 * rank, or hung, is restarted, up to max_restarts times. The status and its message are those of the rank that
 * failed first, or name the rank that was killed. `arguments` begins with the subcommand and ends with NULL. Fails
 * with TRI_BAD_USAGE if this process is a rank of a job already, and with TRI_UNSUPPORTED if there is no launcher
 * for the MPI of this program. */
tri_status tri_launch(const tri_launch_options *options, char **arguments);
/* LOCAL. Returns whether this process is a rank that tri_launch has started. Such a rank ignores the option -n. */
bool tri_launch_is_rank(void);

#endif
