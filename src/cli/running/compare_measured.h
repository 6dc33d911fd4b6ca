/* A prediction beside what a run measured of itself. */
#ifndef TRI_CLI_RUNNING_COMPARE_MEASURED_H
#define TRI_CLI_RUNNING_COMPARE_MEASURED_H

#include "plan/cluster.h"

#include <stdbool.h>

/* Predicts the run in the folder (config.yaml, summary.json) on the cluster, and prints both side by side: the step,
 * where its time goes, its memory, and, where the run has drawn itself (timeline.json, or `timeline`, which may be
 * NULL), each kind of instruction. */
tri_status tri_against(const char *run, const tri_cluster *cluster, const char *timeline, bool json);

#endif
