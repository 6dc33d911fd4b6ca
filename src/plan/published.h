/* Published results (configs/published.yaml), what is predicted for them, and the fit of a cluster's constants to the
 * rows that are marked for it. */
#ifndef TRI_PLAN_PUBLISHED_H
#define TRI_PLAN_PUBLISHED_H

#include "plan/simulate.h"

enum { TRI_PUBLISHED_ROWS = 1 << 16, TRI_PUBLISHED_SETS = 32 };

/* One run: keys of a model, of a layout, and what was published of it. */
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
  double published_s, predicted_s; /* published 0: nothing but memory is known */
  double published_bytes;          /* of a device; 0: not known */
  double host_share;               /* of the predicted step, that a host without delay would save */
} tri_published_row;

typedef struct tri_published_set {
  char name[64], cluster_name[64], system_name[64];
  char rows_from[256], columns[1024];
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

/* What is asked of the simulator for a row. */
tri_simulation_request tri_published_request(const tri_published_set *set, const tri_published_row *row);

/* Fills in the predictions of a set. */
tri_status tri_published_predict(tri_published_set *set);

/* predicted / published - 1, of the step's time. */
double tri_published_error(const tri_published_row *row);

/* Whether a row's time was published and nothing fitted to it. */
bool tri_published_is_judged(const tri_published_row *row);

/* Over the rows that are judged: the mean of the errors and of their sizes, and the worst. Spearman's rank correlation
 * of the seconds within each model, number of devices and batch that has four rows or more: the least and the mean over
 * those groups (1 if there is none). Of memory: rows whose bytes are known, errors as above, and of those that were
 * published as out of memory how many are said to fit. */
typedef struct tri_published_summary {
  double bias, mean, worst;
  int64_t judged;
  double rank_correlation, mean_rank_correlation;
  int64_t ranked_groups;
  double memory_bias, memory_mean, memory_worst;
  int64_t memory_rows, oom_rows, oom_said_to_fit, fit_said_not_to;
} tri_published_summary;
tri_status tri_published_summarize(const tri_published_set *set, tri_published_summary *out);

/* An effect that a step of a row shows: errors are told by them (published_effects.c). */
typedef struct tri_published_effect {
  const char *name;
  bool (*shows)(const tri_published_set *set, const tri_published_row *row);
} tri_published_effect;
extern const tri_published_effect tri_published_effects[];
extern const size_t tri_num_published_effects;

/* Moves the constants named (bits of `which`, in the order of tri_efficiency) so that the rows marked `fit` come out
 * best: a pattern search on the logarithms, least squares of the logarithms of the times, and a pull back to where they
 * began that decides only what the rows do not. */
tri_status tri_published_fit(tri_published_set *set, unsigned which);

#endif
