/* One start of a job, from the launcher's first breath to the end of the last rank. */
#ifndef TRI_LAUNCH_SUPERVISOR_H
#define TRI_LAUNCH_SUPERVISOR_H

#include "launch/cause.h"

typedef struct tri_start {
  char **line; /* of the launcher */
  int64_t num_ranks;
  double hang_timeout_s; /* of the ranks' own watchdogs; 0: no watchdog */
  const char *output;    /* of the run; NULL: none. Beside it ranks leave words that cannot be sent */
} tri_start;

/* LOCAL. Blocks the signals that it waits for, and SIGCHLD; ignores SIGPIPE: a job does not end because nothing reads
 * what it says. Once, before the first start. */
void tri_supervisor_prepare(void);

/* LOCAL. How many signals have asked to stop that arrived unseen: between starts. */
int tri_supervisor_asked(void);

/* LOCAL. Starts the launcher and stands between it and the user to the end of all: shows what ranks log, passes on a
 * wish to stop, and keeps the clock. *ending, zero but for num_ranks, ranks (the same array) and steps (-1), becomes
 * what there is to know. */
tri_status tri_supervise(const tri_start *start, tri_rank_news *ranks, tri_ending *ending);

/* How long a process of the job may be silent before it counts as stopped, for the ranks' own hang_timeout: they know
 * more, and report first. 0: for ever. */
double tri_supervisor_limit_s(double hang_timeout_s);

#endif
