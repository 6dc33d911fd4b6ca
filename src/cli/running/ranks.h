/* Commands whose work the ranks of a job can share: the option -n, the start of the job, and its end. */
#ifndef TRI_CLI_RUNNING_RANKS_H
#define TRI_CLI_RUNNING_RANKS_H

#include "comm/comm.h"

/* The work of a command, in each rank of the job. */
typedef struct tri_ranks_work {
  int64_t ranks;    /* ranks to start (-n); 0: not given; 0 or 1: this process, or ranks that a launcher has started */
  int64_t tensor;   /* --tensor; number of ranks to start if -n is not given and no launcher started this process */
  char **arguments; /* the command line, which the ranks get, too; ends with NULL */
  const char *stop_now; /* message with which a signal ends this process until tri_ranks_defer_stop; NULL: the signal
                           itself ends it (tri_stop_listen) */
  /* COLLECTIVE. Only the first rank prints results and logs. `threads`: cores of this rank; 0: the default. */
  tri_status (*work)(void *context, const tri_group *group, int threads);
  void *context;
} tri_ranks_work;

/* Starts a job of several ranks and waits for its end; or does the work in this process, as a rank of the job that it
 * belongs to, or alone. The first rank's output is the output of the command. */
tri_status tri_ranks_run(const tri_ranks_work *work);

/* In a process that is not a rank of a job: makes the first signal only ask it to stop, so that the work can end early.
 * A rank of a job still ends at a signal, because a launcher sends signals to the remaining ranks when a rank has died;
 * a rank's parent asks it to stop with TRI_PARENT_STOP. */
void tri_ranks_defer_stop(void);

/* COLLECTIVE. Returns the common status of the ranks, as tri_common_status. The message names the rank if it is not the
 * first one. */
tri_status tri_ranks_agree(const tri_group *group, tri_status status);

/* Ends this process's part of a job. In a job of several ranks, prints the message of a failure, which then ends the
 * whole job, and does not return. Only TRI_INTERRUPTED returns, with an empty message, since it has been printed. */
tri_status tri_ranks_end(tri_status status);

#endif
