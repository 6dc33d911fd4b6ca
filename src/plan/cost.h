/* Money and energy of a predicted run, and the effect of failures on its time, money and energy. Parts that the file
 * of the cluster (`cost`, `failures`) does not describe are left out. */
#ifndef TRI_PLAN_COST_H
#define TRI_PLAN_COST_H

#include "plan/failures.h"
#include "plan/simulate.h"

#include <jansson.h>
#include <stdio.h>

/* Adds the objects `cost` and `failures` to the JSON of a prediction, with totals for `tokens` tokens (0: no
 * totals). */
tri_status tri_run_cost_json(const tri_simulation_request *request, const tri_prediction *prediction, double tokens,
                             json_t *object);

/* Prints the time, device-hours and node-hours of `tokens` tokens (0: leaves them out), and money, energy and failures
 * as far as the cluster's file describes them. */
tri_status tri_run_cost_text(const tri_simulation_request *request, const tri_prediction *prediction, double tokens,
                             FILE *to);

typedef struct tri_run_cost {
  bool priced, powered, interrupted; /* whether the file of the cluster has prices, powers and failures */
  double price, kwh;                 /* money and kWh of a step, including those of idle spare nodes */
  double checkpoint_bytes;           /* bytes of parameters and optimizer states, without copies in 16 bits */
  tri_interruptions failures;        /* set if `interrupted` */
  double availability;               /* share of the time in which there are enough nodes; 1 without repairs */
  /* Seconds of training between checkpoints with the best goodput; this goodput (failures.h) times `availability`, 1
   * without failures. */
  double interval_s, goodput;
} tri_run_cost;

/* Computes the cost of a step and the effect of failures. */
tri_status tri_run_cost_of(const tri_simulation_request *request, const tri_prediction *prediction, tri_run_cost *out);

/* Returns the time of a run of `tokens` tokens divided by the time of a step. It includes checkpoints, failures and
 * repairs. Returns 0 if the goodput is 0, because such a run never ends. */
double tri_run_cost_steps(const tri_simulation_request *request, const tri_run_cost *expense, double tokens);

#endif
