/* Compares a prediction with the measurements of a run. */
#ifndef TRI_CLI_RUNNING_COMPARE_MEASURED_H
#define TRI_CLI_RUNNING_COMPARE_MEASURED_H

#include "plan/cluster.h"

#include <stdbool.h>

/* Predicts the run in the folder (config.yaml, summary.json) on the cluster, and prints both: the step, the parts of
 * its time, its memory, and, if the run has a timeline (timeline.json, or `timeline`, which may be NULL), each kind of
 * instruction. */
tri_status tri_compare_measured(const char *run, const tri_cluster *cluster, const char *timeline, bool json);

#endif
