/* The accuracy of predictions: their errors against published results, and the constants of a cluster that were
 * fitted to measurements. The errors are constants in accuracy.c; a test compares them with the output of `trireme
 * validate`. */
#ifndef TRI_PLAN_ACCURACY_H
#define TRI_PLAN_ACCURACY_H

#include "plan/cluster.h"
#include "plan/system.h"

#include <jansson.h>

/* Errors of predicted step times, each predicted / published - 1, over published results to which no constant was
 * fitted. A negative error means that the run was slower than predicted. */
typedef struct tri_accuracy {
  double mean, low, high; /* mean error, and the interval low .. high with nine in ten errors */
  int64_t rows;           /* number of published results */
} tri_accuracy;

/* Returns the errors of all published results, of all clusters. */
tri_accuracy tri_accuracy_published(void);

/* Returns the mean and the interval of errors[count], NAN without errors. Sorts the array. */
tri_accuracy tri_accuracy_of(double *errors, int64_t count);

/* The next three functions write one line of a report to `buffer` and return `buffer`. `devices`: number of devices
 * of the prediction; 0: unknown. */
enum { TRI_ACCURACY_TEXT_BYTES = 640 };
/* Writes the errors of the published results on this cluster: "accuracy: N published runs on NAME were predicted ...
 * too fast on average (...); none had more than M devices". For a cluster without published results, writes the
 * errors of all clusters. From 2,048 devices on, adds the errors of all results with at least 2,048 devices, and
 * from 4,096 devices on those of all results with at least 4,096 instead. Adds that a slower run is to be expected if
 * `devices` is above M. */
char *tri_accuracy_text(const tri_cluster *cluster, int64_t devices, char buffer[TRI_ACCURACY_TEXT_BYTES]);
/* Writes the names of the constants that were fitted to measurements, and of those that were not. */
char *tri_accuracy_fitted(const tri_cluster *cluster, char buffer[TRI_ACCURACY_TEXT_BYTES]);
/* Writes a warning if the kernels of this program have not run on this accelerator yet. Writes "" for CPUs, and for
 * systems other than this program. */
char *tri_accuracy_kernels(const tri_cluster *cluster, const tri_system *system, char buffer[TRI_ACCURACY_TEXT_BYTES]);

/* Returns { fitted: [constants], published_errors: {mean, low, high, rows}, cluster: {mean, low, high, rows,
 * most_devices} or null without published results, kernels_have_run }. */
json_t *tri_accuracy_json(const tri_cluster *cluster, const tri_system *system);

#endif
