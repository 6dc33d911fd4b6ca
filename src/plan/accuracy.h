/* The accuracy of predictions: their errors against published results, and which constants of a cluster are fitted
 * to measurements. The figures are only in accuracy.c; a test compares them with the results of `trireme validate`. */
#ifndef TRI_PLAN_ACCURACY_H
#define TRI_PLAN_ACCURACY_H

#include "plan/cluster.h"
#include "plan/system.h"

#include <jansson.h>

/* Errors of a step's seconds (predicted / published - 1) over published rows to which nothing was fitted: their mean,
 * and the interval that holds nine in ten of them. A negative error: the run was slower than predicted. */
typedef struct tri_accuracy {
  double mean, low, high;
  int64_t rows;
} tri_accuracy;

/* Returns the errors of all published rows. */
tri_accuracy tri_accuracy_published(void);

/* Returns the mean and the interval of given errors, and sorts the errors. */
tri_accuracy tri_accuracy_of(double *errors, int64_t count);

/* Each of these writes one line of a report and returns buffer. `devices`: number of devices of the prediction; 0:
 * unknown. */
enum { TRI_ACCURACY_TEXT_BYTES = 640 };
/* Writes the errors of the published rows of this cluster, "accuracy: N published runs on NAME were predicted ... too
 * fast on average (...); none had more than M devices", and those of rows with about as many devices; without rows of
 * this cluster, the errors of all rows. */
char *tri_accuracy_text(const tri_cluster *cluster, int64_t devices, char buffer[TRI_ACCURACY_TEXT_BYTES]);
/* Writes the names of the constants that were fitted to measurements. */
char *tri_accuracy_fitted(const tri_cluster *cluster, char buffer[TRI_ACCURACY_TEXT_BYTES]);
/* Writes a warning if the engine's kernels have never run on this accelerator; "" for other systems and for CPUs. */
char *tri_accuracy_kernels(const tri_cluster *cluster, const tri_system *system, char buffer[TRI_ACCURACY_TEXT_BYTES]);

/* { fitted: [constants], published_errors: {mean, low, high, rows}, cluster: null or {mean, low, high, rows,
 * most_devices}, kernels_have_run } */
json_t *tri_accuracy_json(const tri_cluster *cluster, const tri_system *system);

#endif
