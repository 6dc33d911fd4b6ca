/* Money and energy of a predicted run, and the effect of failures on its time, money and energy. Each result needs
 * certain members of `cost` or `failures` in the file of the cluster, and is left out if the file does not have
 * them. The *reserved* devices and nodes of a run are those of its layout and the spare nodes. */
#ifndef TRI_PLAN_COST_H
#define TRI_PLAN_COST_H

#include "plan/failing_run.h"
#include "plan/simulate.h"

#include <jansson.h>
#include <stdio.h>

/* Adds the objects `cost` and `failures` and the members `device_name`, `reserved_devices` and `reserved_nodes` to the
 * JSON of a prediction, with totals for a run of `tokens` tokens (0: no totals), also of the hours of reserved devices
 * and nodes. */
tri_status tri_run_cost_json(const tri_simulation_request *request, const tri_prediction *prediction, double tokens,
                             json_t *object);

/* Prints the time and the hours of reserved devices and nodes of a run of `tokens` tokens (0: not printed), and its
 * money, energy and failures as far as the file of the cluster describes them. */
tri_status tri_run_cost_text(const tri_simulation_request *request, const tri_prediction *prediction, double tokens,
                             FILE *to);

typedef struct tri_run_cost {
  bool priced, powered, interrupted; /* whether the file of the cluster has prices, powers, failures */
  double price, kwh;                 /* money and kWh of a step, including idle spare nodes */
  int64_t spare_nodes; /* failures.spare_nodes, but at most the nodes of the machine that the run does not use */
  double reserved_devices, reserved_nodes;
  double checkpoint_bytes; /* bytes of parameters and optimizer states, without copies in 16 bits */
  double writing;          /* bytes per second at which all nodes together write a checkpoint */
  bool shared; /* whether failures.storage_bandwidth limits `writing`, and not failures.node_storage_bandwidth */
  tri_interruptions failures; /* failures and checkpoints of the run; set if `interrupted` */
  double availability;        /* share of the time in which enough nodes work; 1 without repairs */
  /* interval_s: seconds of training between checkpoints that give the highest goodput (failures.h), set if
   * `interrupted`; goodput: this highest goodput times `availability`, or 1 if the run is not `interrupted`. */
  double interval_s, goodput;
  tri_goodput_advice advice; /* another value of a key, if the goodput is low because of that key */
} tri_run_cost;

/* Computes the cost of a step and the effect of failures. */
tri_status tri_run_cost_of(const tri_simulation_request *request, const tri_prediction *prediction, tri_run_cost *out);

/* Writes what the energy counts, such as "the devices alone" or "whole nodes, times a PUE of 1.3". Returns out.
 */
enum { TRI_ENERGY_TEXT_BYTES = 64 };
char *tri_run_cost_energy(const tri_cluster *cluster, char out[TRI_ENERGY_TEXT_BYTES]);

/* Writes how the hours of reserved devices differ from those of devices that compute, such as "reserved with 2 spare
 * nodes", or "" without spare nodes. Returns out. */
enum { TRI_SPARE_TEXT_BYTES = 64 };
char *tri_run_cost_spare(const tri_run_cost *expense, char out[TRI_SPARE_TEXT_BYTES]);

/* Returns the time of a run of `tokens` tokens, with checkpoints, failures and repairs, divided by the time of a
 * step. Returns 0 if the goodput is 0, because such a run does not end. */
double tri_run_cost_steps(const tri_simulation_request *request, const tri_run_cost *expense, double tokens);

#endif
