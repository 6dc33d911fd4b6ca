/* What failures leave of a run: devices fail at random times, a run goes on from its last checkpoint, and checkpoints
 * take time themselves. Failures come as a Poisson process (Young 1974, Daly 2006), so the mean times below are exact:
 * also for failures while a checkpoint is written and while a run starts again. */
#ifndef TRI_PLAN_FAILURES_H
#define TRI_PLAN_FAILURES_H

typedef struct tri_interruptions {
  double between_s; /* mean seconds between failures of all nodes of the run together */
  double restart_s; /* from a failure to the first step again */
  double stop_s;    /* that training stands still for a checkpoint */
  double behind_s;  /* that it is being written beside training after that, until a run can go on from it; 0: no time */
} tri_interruptions;

/* The share of the time that is progress, where a run trains `interval_s` seconds between checkpoints. */
double tri_goodput(const tri_interruptions *of, double interval_s);

/* The interval that leaves most of it. Never one that is shorter than the writing of the last checkpoint takes. */
double tri_best_interval(const tri_interruptions *of);

/* The published estimates of it: Young, CACM 17 (1974), the square root of twice the product; and Daly, Future
 * Generation Computer Systems 22 (2006), equation 37. */
double tri_young_interval(const tri_interruptions *of);
double tri_daly_interval(const tri_interruptions *of);

#endif
