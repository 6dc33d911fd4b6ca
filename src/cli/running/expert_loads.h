/* How busy the experts of a run's ranks were, from what it wrote of them. */
#ifndef TRI_CLI_RUNNING_EXPERT_LOADS_H
#define TRI_CLI_RUNNING_EXPERT_LOADS_H

#include "base/status.h"

#include <stdint.h>

/* tri_simulation_request.expert_imbalance if that many ranks share the experts: the mean over the steps and layers
 * whose loads metrics.jsonl holds; 0 if it holds none. */
tri_status tri_expert_loads_imbalance(const char *metrics, int64_t holders, double *out);

#endif
