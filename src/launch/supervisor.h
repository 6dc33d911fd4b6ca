/* The supervisor: one start of a job, from the start of the launcher to the end of the last rank. */
#ifndef TRI_LAUNCH_SUPERVISOR_H
#define TRI_LAUNCH_SUPERVISOR_H

#include "launch/cause.h"

typedef struct tri_start {
  char **line; /* command line of the launcher; NULL ends it */
  int64_t num_ranks;
  double hang_timeout_s; /* of the ranks' own watchdogs; 0: no watchdog */
  const char *output;    /* of the run, or NULL; error files are made beside it */
} tri_start;

/* LOCAL, once, before the first start. Blocks the signals that it waits for, and SIGCHLD; ignores SIGPIPE, so that a
 * job does not end because its output is not read. */
void tri_supervisor_prepare(void);

/* LOCAL. The number of signals that asked to stop between two starts. */
int tri_supervisor_asked(void);

/* LOCAL. Starts the launcher, and until the end of the job shows the ranks' logs, passes requests to stop on, and
 * watches for silent ranks. *ending is the result; it must be 0 but for num_ranks, ranks (the same array) and steps
 * (-1). */
tri_status tri_supervise(const tri_start *start, tri_rank_news *ranks, tri_ending *ending);

/* How long a process of the job may be silent before it counts as stopped; longer than the ranks' hang_timeout, whose
 * watchdogs know more and report first. 0: no limit. */
double tri_supervisor_limit_s(double hang_timeout_s);

#endif
