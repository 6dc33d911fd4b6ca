/* Published results (configs/published.yaml), their predictions, and the fit of a cluster's constants to the rows that
 * are marked for it. */
#ifndef TRI_PLAN_PUBLISHED_H
#define TRI_PLAN_PUBLISHED_H

#include "plan/simulate.h"

enum { TRI_PUBLISHED_ROWS = 1 << 16, TRI_PUBLISHED_SETS = 32 };

/* One run: its model, its layout, and the published numbers. */
typedef struct tri_published_row {
  char name[64];
  bool fit; /* the cluster's constants were fitted to it */
  char model_name[64];
  int64_t devices, global_batch, sequence;
  tri_dtype precision;
  double step_s, step_ms, tflops, model_tflops, tokens_s; /* published: at most one, the others 0 */
  double mem_gb, mem_gib;                                 /* published: at most one */
  bool out_of_memory;

  tri_model model;   /* complete */
  tri_layout layout; /* resolved */
  tri_prediction prediction;
  double published_s, predicted_s; /* seconds of a step; published_s 0: only memory is known */
  double published_bytes;          /* memory of a device; 0: unknown */
  double host_share;               /* share of the predicted step that is due to launch times of the host */
} tri_published_row;

typedef struct tri_published_set {
  char name[64], cluster_name[64], system_name[64];
  char rows_from[256], columns[1024]; /* a file of comma-separated rows, and the keys of its columns; "": none */
  tri_published_row *rows;
  int64_t num_rows, room;

  tri_cluster cluster;
  tri_system system;
} tri_published_set;

typedef struct tri_published {
  tri_published_set sets[TRI_PUBLISHED_SETS];
  int64_t num_sets;
} tri_published;

/* Reads the file and everything it names (published_file.c). Release with tri_published_release, also after a
 * failure. */
tri_status tri_published_load(const char *path, tri_published *out);
void tri_published_release(tri_published *published);

/* Returns the simulator's request for a row. */
tri_simulation_request tri_published_request(const tri_published_set *set, const tri_published_row *row);

/* Computes the predictions of a set. */
tri_status tri_published_predict(tri_published_set *set);

/* Returns predicted / published - 1 of the step's time. */
double tri_published_error(const tri_published_row *row);

/* Returns whether a row's time was published, and the row was not used for the fit. */
bool tri_published_is_judged(const tri_published_row *row);

/* Summary of the errors of a set. */
typedef struct tri_published_summary {
  double bias, mean, worst;                       /* errors of judged rows: mean, mean absolute, largest absolute */
  int64_t judged;                                 /* number of judged rows */
  double rank_correlation, mean_rank_correlation; /* Spearman's, of the seconds, within groups of rows with the same
                                                   * model, sequence, devices and batch: the lowest and the mean; 1: no
                                                   * groups */
  int64_t ranked_groups;                          /* groups of four rows or more */
  double memory_bias, memory_mean, memory_worst;  /* errors of memory, as above */
  int64_t memory_rows, oom_rows;                  /* rows with known memory; rows published as out of memory */
  int64_t oom_said_to_fit, fit_said_not_to; /* rows published as out of memory but predicted to fit; rows that fit but
                                             * are predicted not to */
} tri_published_summary;
tri_status tri_published_summarize(const tri_published_set *set, tri_published_summary *out);

/* An effect that influences the step of some rows; errors are reported by effects (published_effects.c). */
typedef struct tri_published_effect {
  const char *name;
  bool (*shows)(const tri_published_set *set, const tri_published_row *row);
} tri_published_effect;
extern const tri_published_effect tri_published_effects[];
extern const size_t tri_num_published_effects;

/* Fits constants (bits of `which`, in the order of tri_efficiency) to the rows marked `fit`: a pattern search on their
 * logarithms that minimises the squares of the logarithms of predicted / published times, with a weak pull to their
 * initial values, which matters only for constants that the rows do not determine. */
tri_status tri_published_fit(tri_published_set *set, unsigned which);

#endif
