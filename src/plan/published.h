/* Published results of training runs (configs/published.yaml), their predictions, and the fit of the constants of a
 * cluster to the results that are marked for it. */
#ifndef TRI_PLAN_PUBLISHED_H
#define TRI_PLAN_PUBLISHED_H

#include "plan/simulate.h"

/* Largest numbers of rows of a set, and of sets of a file. */
enum { TRI_PUBLISHED_ROWS = 1 << 16, TRI_PUBLISHED_SETS = 32 };

/* A row is one run: its model and layout, the published numbers, and the prediction. */
typedef struct tri_published_row {
  char name[64];
  bool fit; /* whether the constants of the cluster are fitted to this row */
  char model_name[64];
  int64_t devices, global_batch, sequence;
  tri_dtype precision;
  /* Published speed; at most one of these is above 0. tflops: TFLOP/s per device, with recompute; model_tflops: the
   * same without recompute; tokens_s: tokens per second and device. */
  double step_s, step_ms, tflops, model_tflops, tokens_s;
  /* Published memory of the fullest device, in 1e9 and in 2^30 bytes; at most one of these is above 0. */
  double mem_gb, mem_gib;
  bool out_of_memory; /* whether the run was published as out of memory */

  tri_model model;   /* model after tri_model_complete */
  tri_layout layout; /* resolved layout */
  tri_prediction prediction;
  double published_s, predicted_s; /* seconds of a step; published_s 0: only the memory was published */
  double published_bytes;          /* published bytes of the fullest device; 0: unknown */
  double host_share;               /* share of the predicted step that the launch of kernels by the host causes */
} tri_published_row;

/* A set of rows with the same cluster and system. */
typedef struct tri_published_set {
  char name[64], cluster_name[64], system_name[64];
  /* rows_from: file of comma-separated rows; "": none. columns: keys of the columns of this file; "": the first line of
   * the file has the keys. */
  char rows_from[256], columns[1024];
  tri_published_row *rows; /* rows of the set [num_rows], owned */
  int64_t num_rows, room;

  tri_cluster cluster;
  tri_system system;
} tri_published_set;

typedef struct tri_published {
  tri_published_set sets[TRI_PUBLISHED_SETS];
  int64_t num_sets;
} tri_published;

/* Reads the file, and the models, clusters, systems and row files that it names (published_file.c). *out must begin as
 * {0}. Release with tri_published_release, also after a failure. */
tri_status tri_published_load(const char *path, tri_published *out);
void tri_published_release(tri_published *published);

/* Returns the request to simulate a row. */
tri_simulation_request tri_published_request(const tri_published_set *set, const tri_published_row *row);

/* Predicts all rows of a set. */
tri_status tri_published_predict(tri_published_set *set);

/* Returns predicted / published - 1, of the seconds of a step. */
double tri_published_error(const tri_published_row *row);

/* Returns whether the time of a row was published, and the row is not marked `fit`. */
bool tri_published_is_judged(const tri_published_row *row);

/* Summary of the errors of a set. Judged rows are those of tri_published_is_judged. A *group* has at least four rows
 * with the same model, sequence, devices and batch. */
typedef struct tri_published_summary {
  double bias, mean, worst; /* errors of judged rows: mean, mean absolute, largest absolute */
  int64_t judged;           /* number of judged rows */
  /* Spearman rank correlation between predicted and published seconds in each group: lowest, and mean; 1 without
   * groups. */
  double rank_correlation, mean_rank_correlation;
  int64_t ranked_groups;                         /* number of groups */
  double memory_bias, memory_mean, memory_worst; /* errors of memory: mean, mean absolute, largest absolute */
  int64_t memory_rows, oom_rows;                 /* rows with published memory; rows published as out of memory */
  /* Rows published as out of memory but predicted to fit; other rows, predicted not to fit. */
  int64_t oom_said_to_fit, fit_said_not_to;
} tri_published_summary;
/* Computes the summary of a set. Must be called after tri_published_predict. */
tri_status tri_published_summarize(const tri_published_set *set, tri_published_summary *out);

/* An effect is a property of a run that influences its step. Errors are also reported for the rows with each effect
 * (published_effects.c). */
typedef struct tri_published_effect {
  const char *name;
  /* Returns whether the row shows the effect. */
  bool (*shows)(const tri_published_set *set, const tri_published_row *row);
} tri_published_effect;
extern const tri_published_effect tri_published_effects[];
extern const size_t tri_num_published_effects;

/* Fits constants of set->cluster to the rows marked `fit`: element i of tri_cluster_constants if bit i of `which` is
 * set. A pattern search on the logarithms of the constants minimises the sum of the squares of log(predicted /
 * published). A weak pull to the initial values decides only constants that the rows do not determine. */
tri_status tri_published_fit(tri_published_set *set, unsigned which);

#endif
