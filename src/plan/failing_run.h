/* The goodput of a run on nodes that fail, and the key of `failures` that lowers the goodput most. */
#ifndef TRI_PLAN_FAILING_RUN_H
#define TRI_PLAN_FAILING_RUN_H

#include "plan/cluster.h"
#include "plan/failures.h"

typedef struct tri_failing_run {
  tri_failures keys;       /* the section `failures` of the cluster's file; spare_nodes: at most other_nodes */
  double devices, nodes;   /* devices and nodes of the layout, without spare ones */
  int64_t other_nodes;     /* nodes of the machine that the layout does not use */
  double checkpoint_bytes; /* bytes of parameters and optimizer states, without copies in 16 bits */
} tri_failing_run;

typedef struct tri_run_goodput {
  double writing; /* bytes per second at which all nodes together write a checkpoint */
  bool shared;    /* whether storage_bandwidth limits `writing`, and not node_storage_bandwidth */
  tri_interruptions failures;
  double interval_s;   /* seconds of training between checkpoints that give the highest goodput (failures.h) */
  double availability; /* share of the time in which enough nodes work; 1 without repairs */
  double goodput;      /* the highest goodput times `availability` */
} tri_run_goodput;

/* Another value of a key with which most of the lost time would be progress. */
typedef struct tri_goodput_advice {
  const char *key;  /* key of `failures`, such as "spare_nodes"; NULL: no advice */
  const char *unit; /* unit of the values: "", "s" or "B/s" */
  double value, instead_of;
  double goodput; /* goodput of the run with that value */
} tri_goodput_advice;

tri_run_goodput tri_failing_run_goodput(const tri_failing_run *run);

/* Returns an advice if the goodput is below 0.9 and the best value of a single key recovers at least half of the lost
 * time. The best number of spare nodes is the number of nodes of the layout, or other_nodes if this is less; the best
 * bandwidth is 2^20 times the given one, and the best duration 2^-20 times. The advised value is the least number of
 * spare nodes, or the least power of two times the given value, with 0.95 of the goodput of the best value. */
tri_goodput_advice tri_failing_run_advise(const tri_failing_run *run);

#endif
