/* The supervisor: one start of a job, from the start of the launcher to the end of the last rank. */
#ifndef TRI_LAUNCH_SUPERVISOR_H
#define TRI_LAUNCH_SUPERVISOR_H

#include "launch/cause.h"

typedef struct tri_start {
  char **line; /* command line of the launcher; NULL ends it */
  int64_t num_ranks;
  double hang_timeout_s; /* timeout of the ranks' own watchdogs; 0: no watchdog */
  const char *output;    /* output folder of the run, or NULL; error files are created next to it */
  bool resumes;          /* whether the same command resumes the run (tri_ending.resumes) */
  bool gives_streams;    /* whether rank 0 uses this process's standard input and output */
} tri_start;

/* LOCAL, once, before the first start. Blocks the signals that ask to stop, and SIGCHLD, which the supervisor waits
 * for; ignores SIGPIPE, so that a job does not end because its output is not read. Orphaned ranks become children of
 * this process from now on (PR_SET_CHILD_SUBREAPER). */
void tri_supervisor_prepare(void);

/* LOCAL, between two starts. Removes the pending signals that ask to stop, and returns their number. */
int tri_supervisor_asked(void);

/* LOCAL. Starts the launcher and waits for the end of the job; meanwhile shows the ranks' logs, passes stop requests
 * on, and watches for silent ranks. *ending is the result; on entry num_ranks, ranks (the same array), resumes, steps
 * (-1) and texts (-1) must be set, and all other members 0. The status is a failure of the supervisor itself; the job's
 * own status is tri_cause_report(ending). */
tri_status tri_supervise(const tri_start *start, tri_rank_news *ranks, tri_ending *ending);

/* Returns the seconds for which a process of the job may be silent before it counts as stopped. The limit is longer
 * than the ranks' hang_timeout, because their watchdogs have more information and should report first. 0: no limit. */
double tri_supervisor_limit_s(double hang_timeout_s);

#endif
