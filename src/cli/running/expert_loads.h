/* Computes the imbalance of a run's experts from its metrics. */
#ifndef TRI_CLI_RUNNING_EXPERT_LOADS_H
#define TRI_CLI_RUNNING_EXPERT_LOADS_H

#include "base/status.h"

#include <stdint.h>

/* Computes tri_simulation_request.expert_imbalance for experts on `holders` ranks. Sets *out to the mean over the steps
 * and layers whose loads are in the file `metrics` (metrics.jsonl), and to at least 1; to 0 if the file is missing or
 * has no loads. */
tri_status tri_expert_loads_imbalance(const char *metrics, int64_t holders, double *out);

#endif
