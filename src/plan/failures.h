/* Goodput under failures: devices fail at random times, a run resumes from its last checkpoint, and checkpoints take
 * time. Failures are a Poisson process (Young 1974, Daly 2006). tri_goodput is exact for such failures, also for those
 * while a checkpoint is written or while a run restarts. */
#ifndef TRI_PLAN_FAILURES_H
#define TRI_PLAN_FAILURES_H

#include <stdint.h>

typedef struct tri_interruptions {
  double between_s; /* mean seconds between failures of all nodes of the run together */
  double restart_s; /* seconds from a failure to the first step after it */
  double stop_s;    /* seconds that training stops for a checkpoint */
  double behind_s;  /* seconds of writing the checkpoint in the background, before a run can resume from it */
} tri_interruptions;

/* Returns the goodput, the share of the time that is progress, of a run that trains `interval_s` seconds between
 * checkpoints. */
double tri_goodput(const tri_interruptions *of, double interval_s);

/* Returns the share of the time in which at most `spare` nodes are under repair, if a repair takes repair_s and
 * `between_s` is the mean time between failures of all nodes: their number has a Poisson distribution with the mean
 * repair_s / between_s (Palm's theorem, whatever the distribution of the repairs). */
double tri_availability(double between_s, double repair_s, int64_t spare);

/* Returns the interval with the highest goodput, but at least so long that a checkpoint is written (behind_s) before
 * the next one begins. */
double tri_best_interval(const tri_interruptions *of);

/* Published estimates of the best interval: Young, CACM 17 (1974), sqrt(2 stop_s between_s); and Daly, Future
 * Generation Computer Systems 22 (2006), equation 37. */
double tri_young_interval(const tri_interruptions *of);
double tri_daly_interval(const tri_interruptions *of);

#endif
