/* Published results (configs/published.yaml), what is predicted for them, and the fit of a cluster's constants to the
 * rows that are marked for it. */
#ifndef TRI_PLAN_PUBLISHED_H
#define TRI_PLAN_PUBLISHED_H

#include "plan/simulate.h"

enum { TRI_PUBLISHED_ROWS = 1024, TRI_PUBLISHED_SETS = 8 };

typedef struct tri_published_row {
  char name[64];
  bool fit; /* the cluster's constants were fitted to it */
  int64_t layers, hidden, heads, vocab, sequence;
  int64_t devices, tensor, pipeline, virtual_stages, micro_batch, zero, global_batch;
  tri_recompute recompute;
  double tflops, step_s; /* what was published: one of the two, the other 0 */

  tri_model model;
  tri_layout layout; /* resolved */
  tri_prediction prediction;
  double published_s, predicted_s;
} tri_published_row;

typedef struct tri_published_set {
  char name[64], cluster_name[64], system_name[64];
  tri_published_row rows[TRI_PUBLISHED_ROWS];
  int64_t num_rows;

  tri_cluster cluster;
  tri_system system;
} tri_published_set;

typedef struct tri_published {
  tri_published_set sets[TRI_PUBLISHED_SETS];
  int64_t num_sets;
} tri_published;

/* Reads the file and everything it names. */
tri_status tri_published_load(const char *path, tri_published *out);

/* Fills in the predictions of a set. */
tri_status tri_published_predict(tri_published_set *set);

/* predicted / published - 1, of the step's time. */
double tri_published_error(const tri_published_row *row);

/* Over the rows that were not fitted: the mean of |error|, the worst, and Spearman's rank correlation of the seconds
 * within each model and number of devices, the least of them (1 where there are too few rows to rank). */
typedef struct tri_published_summary {
  double mean, worst, rank_correlation;
  int64_t judged;
} tri_published_summary;
tri_published_summary tri_published_summarize(const tri_published_set *set);

/* Moves the constants named (bits of `which`, in the order of tri_efficiency) so that the rows marked `fit` come out
 * best: a pattern search on the logarithms, least squares of the logarithms of the times, and a pull back to where they
 * began that decides only what the rows do not. */
tri_status tri_published_fit(tri_published_set *set, unsigned which);

#endif
