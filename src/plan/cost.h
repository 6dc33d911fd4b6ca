/* What a prediction costs beside time: money and energy, and what failures add to all three. Everything that is not in
 * the cluster's file (`cost`, `failures`) is left out. */
#ifndef TRI_PLAN_COST_H
#define TRI_PLAN_COST_H

#include "plan/failures.h"
#include "plan/simulate.h"

#include <jansson.h>
#include <stdio.h>

/* Adds `cost` and `failures` to a prediction's JSON, with the totals for `tokens` tokens (0: none). */
tri_status tri_run_cost_json(const tri_simulation_request *request, const tri_prediction *prediction, double tokens,
                             json_t *object);

/* The same for people; nothing if nothing is known. */
tri_status tri_run_cost_text(const tri_simulation_request *request, const tri_prediction *prediction, double tokens,
                             FILE *to);

typedef struct tri_run_cost {
  bool priced, powered, interrupted; /* what the cluster's file says */
  double price, kwh;                 /* of a step */
  double checkpoint_bytes;           /* values and the optimizer's states, each once */
  tri_interruptions failures;
  double interval_s, goodput; /* the best interval, and the share of the time that is progress then; 1: nothing fails */
} tri_run_cost;

tri_status tri_run_cost_of(const tri_simulation_request *request, const tri_prediction *prediction, tri_run_cost *out);

/* Steps that tokens take, with those that failures make a run take again; 0: for ever. */
double tri_run_cost_steps(const tri_simulation_request *request, const tri_run_cost *expense, double tokens);

#endif
