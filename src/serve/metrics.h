/* /metrics, in the text format of Prometheus. */
#ifndef TRI_SERVE_METRICS_H
#define TRI_SERVE_METRICS_H

#include "serve/front.h"

/* Upper limits of the ranges into which times to the first token are sorted (tri_serve_counters.delays), ascending, in
 * seconds. */
extern const double tri_serve_delays[TRI_SERVE_DELAYS];

/* Returns the text of /metrics; free() releases it. NULL if memory is exhausted. */
char *tri_serve_metrics(tri_serve_front *front);

#endif
