/* Computes the imbalance of a run's experts from its metrics. */
#ifndef TRI_CLI_RUNNING_EXPERT_LOADS_H
#define TRI_CLI_RUNNING_EXPERT_LOADS_H

#include "base/status.h"

#include <stdint.h>

/* Sets *out for tri_simulation_request.expert_imbalance with the experts on `holders` ranks: the mean over the steps
 * and layers whose loads are in the file `metrics` (metrics.jsonl); 0 if it has none. */
tri_status tri_expert_loads_imbalance(const char *metrics, int64_t holders, double *out);

#endif
