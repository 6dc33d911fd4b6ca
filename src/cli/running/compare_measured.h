/* Compares a prediction with the measurements of a run. */
#ifndef TRI_CLI_RUNNING_COMPARE_MEASURED_H
#define TRI_CLI_RUNNING_COMPARE_MEASURED_H

#include "plan/cluster.h"

#include <stdbool.h>

/* Predicts the run in the folder `run` (config.yaml, summary.json) on a cluster, and prints the prediction and the
 * measurements: the step, the parts of its time, and its memory. If the run has a timeline, also prints each kind of
 * instruction. `timeline` is the path of the timeline; if it is NULL, timeline.json of the folder is used. Fails with
 * TRI_BAD_CONFIG if the run had another number of threads per rank than the cluster was measured with. Warns if its
 * ranks, cores or nodes differ, and of what cannot be compared. */
tri_status tri_compare_measured(const char *run, const tri_cluster *cluster, const char *timeline, bool json);

#endif
