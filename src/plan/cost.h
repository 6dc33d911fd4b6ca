/* Money and energy of a predicted run, and what failures add to time, money and energy. What is not in the cluster's
 * file
 * (`cost`, `failures`) is left out. */
#ifndef TRI_PLAN_COST_H
#define TRI_PLAN_COST_H

#include "plan/failures.h"
#include "plan/simulate.h"

#include <jansson.h>
#include <stdio.h>

/* Adds `cost` and `failures` to a prediction's JSON, with the totals for `tokens` tokens (0: no totals). */
tri_status tri_run_cost_json(const tri_simulation_request *request, const tri_prediction *prediction, double tokens,
                             json_t *object);

/* Prints time and hours of devices and nodes for `tokens` tokens (0: not), and what the cluster's file says of money,
 * energy and failures. */
tri_status tri_run_cost_text(const tri_simulation_request *request, const tri_prediction *prediction, double tokens,
                             FILE *to);

typedef struct tri_run_cost {
  bool priced, powered, interrupted; /* price, power, failures are in the cluster's file */
  double price, kwh;                 /* of a step, with spare nodes, which wait */
  double checkpoint_bytes;           /* of parameters and optimizer states, without copies */
  tri_interruptions failures;
  double availability;        /* share of the time in which there are enough nodes; 1 without repairs */
  double interval_s, goodput; /* best interval between checkpoints; goodput with it, 1 without failures */
} tri_run_cost;

tri_status tri_run_cost_of(const tri_simulation_request *request, const tri_prediction *prediction, tri_run_cost *out);

/* The number of steps for that many tokens, including steps that are repeated after failures; 0: the run never ends. */
double tri_run_cost_steps(const tri_simulation_request *request, const tri_run_cost *expense, double tokens);

#endif
