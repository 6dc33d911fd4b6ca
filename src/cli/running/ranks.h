/* Commands whose work the ranks of a job can share: the option -n, the start of the job, and its end. */
#ifndef TRI_CLI_RUNNING_RANKS_H
#define TRI_CLI_RUNNING_RANKS_H

#include "comm/comm.h"

/* The work of a command, in each rank of the job. */
typedef struct tri_ranks_work {
  int64_t ranks;        /* ranks to start (-n); 0 or 1: this process, or the ranks that a launcher has started */
  int64_t tensor;       /* --tensor; without -n and a launcher, as many ranks are started */
  char **arguments;     /* the command line, which the ranks get, too; ends with NULL */
  const char *stop_now; /* message of a signal that ends this process before the work begins; NULL: signals end it */
  /* COLLECTIVE. Only the first rank prints results and logs. `threads`: cores of this rank; 0: the default. */
  tri_status (*work)(void *context, const tri_group *group, int threads);
  void *context;
} tri_ranks_work;

/* Starts a job of `ranks` ranks and waits for its end, or joins the job that this process belongs to and does the work.
 * The output of the first rank is that of the command. */
tri_status tri_ranks_run(const tri_ranks_work *work);

/* Lets the first signal only ask this process to stop, so that the work can end early. A process of a job ends at once
 * all the same, unless its parent asks it to stop (TRI_PARENT_STOP): a launcher sends signals to the ranks that are
 * left when one has died. */
void tri_ranks_defer_stop(void);

/* COLLECTIVE. Returns the common status of the ranks, as tri_common_status. The message names the rank if it is not the
 * first one. */
tri_status tri_ranks_agree(const tri_group *group, tri_status status);

/* Ends this process's part of a job. The message of a failure is printed here if the process has other ranks, whose
 * job it ends; then the message of the returned status is empty. */
tri_status tri_ranks_end(tri_status status);

#endif
