/* The machine's own MPI launcher. */
#ifndef TRI_LAUNCH_LAUNCHER_H
#define TRI_LAUNCH_LAUNCHER_H

#include "base/file.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_launcher {
  char path[TRI_PATH_BYTES];
  char implementation[32]; /* "Open MPI", "MPICH", "Intel MPI", "unknown" */
  char version[32];        /* "4.1.4", or "" */
} tri_launcher;

/* LOCAL. Finds a launcher in the folders of search_path, which are separated by colons as in $PATH, and asks it who it
 * is: mpiexec, mpirun, or what systems with several MPIs call them. The first that speaks the language of `library`
 * (tri_comm_library; NULL: any), else the first. TRI_UNSUPPORTED if there is none. */
tri_status tri_launcher_find(const char *search_path, const char *library, tri_launcher *out);

/* Whether a launcher can start a program that was built with that library. What is unknown is believed to. */
bool tri_launcher_speaks(const tri_launcher *launcher, const char *library);

typedef struct tri_launch_options {
  int64_t ranks, max_restarts;
  bool elastic;          /* start with fewer ranks where as many cannot be had any more */
  double hang_timeout_s; /* of the run; the parent's own patience is somewhat longer (supervisor.h). 0: for ever */
  const char *output;    /* of the run, or NULL */
} tri_launch_options;

/* LOCAL. Starts this program's command line again, less its -n, on that many ranks through the launcher in $PATH, and
 * waits for the end of the job. What the ranks log is passed on; what the launcher itself has to say is shown only
 * where no rank has said anything. SIGINT, SIGTERM and SIGHUP are a wish to stop: before the first step the job is
 * ended, later its ranks save; a second one ends it at once. A scheduler's request (base/stop.h) waits for the first
 * step, and may be repeated. The status is then TRI_INTERRUPTED, unless a rank had
 * failed. A job that had begun to train and lost a rank, or hung, is started again, up to max_restarts times. The
 * status and its message are those of the rank that failed first, or name the rank that was killed. `arguments` begins
 * with the subcommand and ends with NULL. */
tri_status tri_launch(const tri_launch_options *options, char **arguments);

#endif
