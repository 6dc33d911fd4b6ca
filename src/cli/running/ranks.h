/* Commands whose work the ranks of a job can share: the option -n, the start of the job, and its end. */
#ifndef TRI_CLI_RUNNING_RANKS_H
#define TRI_CLI_RUNNING_RANKS_H

#include "comm/comm.h"

/* The work of a command. Each rank of the job does it. */
typedef struct tri_ranks_work {
  int64_t ranks; /* number of ranks to start (-n); 0: not given; with 0 or 1, this process does the work, or the ranks
                    that a launcher has started */
  int64_t
      tensor; /* --tensor; also the number of ranks to start if -n is not given and no launcher started this process */
  char **arguments;     /* command line, with NULL after the last word; the started ranks get the same */
  const char *stop_now; /* message that a signal prints when it ends this process, until tri_ranks_defer_stop; NULL: the
                           signal itself ends the process (tri_stop_listen) */
  /* COLLECTIVE. Does the work. Only the first rank prints results and logs. `threads` is the number of cores of this
   * rank; 0: the default. */
  tri_status (*work)(void *context, const tri_group *group, int threads);
  void *context;
} tri_ranks_work;

/* Starts a job of several ranks and waits for its end; or does the work in this process, which may be alone or a
 * rank of a job. The first rank's output is the output of the command. Begins to listen to signals (tri_stop_listen)
 * in a process that does the work. Fails with TRI_BAD_USAGE if the number of ranks to start is not a multiple of
 * `tensor`. */
tri_status tri_ranks_run(const tri_ranks_work *work);

/* Lets the first signal only ask this process to stop, so that the work can end early. Has no effect in a rank of a
 * job: a signal still ends it, because a launcher sends signals to the remaining ranks when a rank has died. A rank's
 * parent asks it to stop with TRI_PARENT_STOP. */
void tri_ranks_defer_stop(void);

/* COLLECTIVE. Returns the common status of the ranks, as tri_common_status does. The message names the rank unless it
 * is the first one. */
tri_status tri_ranks_agree(const tri_group *group, tri_status status);

/* Ends this process's part of a job. In a job of several ranks, a failure does not return: this function prints the
 * message, and the whole job ends. Only TRI_INTERRUPTED returns, with an empty message, because its message has been
 * printed. */
tri_status tri_ranks_end(tri_status status);

#endif
