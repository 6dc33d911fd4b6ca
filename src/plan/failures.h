/* Goodput under failures. Nodes fail at random times, a run resumes from its last checkpoint, and checkpoints take
 * time. Failures are a Poisson process (Young 1974, Daly 2006). tri_goodput is exact for such failures, also if they
 * occur while a checkpoint is written or while a run restarts. */
#ifndef TRI_PLAN_FAILURES_H
#define TRI_PLAN_FAILURES_H

#include <stdint.h>

/* The failures and checkpoints of a run. */
typedef struct tri_interruptions {
  double between_s; /* mean seconds between two failures of any nodes of the run */
  double restart_s; /* seconds from a failure to the first step after it */
  double stop_s;    /* seconds that training stops for a checkpoint */
  /* Seconds after the stop for a checkpoint in which the checkpoint is written in the background. A run can resume from
   * it only afterwards. */
  double behind_s;
} tri_interruptions;

/* Returns the goodput of a run that trains `interval_s` seconds between checkpoints: the share of the time that is
 * progress. */
double tri_goodput(const tri_interruptions *of, double interval_s);

/* Returns the share of the time in which at most `spare` nodes are under repair. `between_s`: mean seconds between
 * failures of any nodes; repair_s: mean seconds of a repair. The number of nodes under repair has a Poisson
 * distribution with the mean repair_s / between_s (Palm's theorem, for any distribution of repair times). */
double tri_availability(double between_s, double repair_s, int64_t spare);

/* Returns the seconds of training between checkpoints with the highest goodput, but at least behind_s - stop_s, so that
 * the writing of a checkpoint in the background ends before that of the next checkpoint begins. */
double tri_best_interval(const tri_interruptions *of);

/* Return published estimates of the best interval: Young, CACM 17 (1974), sqrt(2 stop_s between_s); and Daly, Future
 * Generation Computer Systems 22 (2006), equation 37. */
double tri_young_interval(const tri_interruptions *of);
double tri_daly_interval(const tri_interruptions *of);

#endif
