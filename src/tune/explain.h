/* Results of a study: the best trials, the importance of parameters, and the progress. Reports are text, JSON, or an
 * HTML page. */
#ifndef TRI_TUNE_EXPLAIN_H
#define TRI_TUNE_EXPLAIN_H

#include "tune/study.h"

#include <jansson.h>
#include <stdio.h>

enum { TRI_REASON_KINDS = 8 };

typedef struct tri_explanation {
  const tri_study *study;
  const tri_trial *trials;
  /* Numbers of all trials, of finished trials and of failed trials. */
  int64_t count, done, failed;
  const tri_trial
      *known;   /* [study->num_known]: results of the known recipes; state RUNNING: the recipe was not tried */
  int64_t best; /* index of the best trial, or -1 */
  double importance[TRI_KNOBS];    /* [i]: mean |Shapley value| of parameter i over the finished trials; 0 if there are
                                      more parameters than TRI_SHAPLEY_DIMS */
  double with_failures[TRI_KNOBS]; /* [i]: importance if failed trials are included with the value 0; 0 if no trial
                                      failed */
  int32_t order[TRI_KNOBS];        /* parameters by importance, the most important first */
  double effect[TRI_KNOBS][TRI_KNOB_VALUES]; /* [i][v]: mean shown value of the trials in which parameter i has its
                                                value v; NaN if there are none */
  /* [i][v]: number of failed trials in which parameter i has its value v. */
  int64_t failures[TRI_KNOBS][TRI_KNOB_VALUES];
} tri_explanation;

/* Analyses trials[count] and the results known[study->num_known] of the known recipes; all must outlive *out. */
tri_status tri_explain(const tri_study *study, const tri_trial *trials, int64_t count, const tri_trial *known,
                       tri_explanation *out);

/* Writes the assumptions of the trials, such as "sequences of 2048 tokens; simulated; ...", or "" if there are none.
 * Returns `buffer`. */
enum { TRI_EXPLAIN_NOTE_BYTES = 2100 };
char *tri_explain_note(const tri_study *study, char buffer[TRI_EXPLAIN_NOTE_BYTES]);

/* Returns the unit of values, such as "TFLOP/s a device, recomputed products counted". */
const char *tri_explain_unit(const tri_study *study);
/* Returns a trial's value in the unit of tri_explain_unit. */
double tri_explain_shown(const tri_explanation *e, const tri_trial *trial);

/* Returns whether trial i is Pareto-optimal in value and memory; false if it is not done or its memory is not known. */
bool tri_explain_is_pareto(const tri_explanation *e, int64_t i);

/* Returns the rank that a value would have among the finished trials; the best has rank 1. */
int64_t tri_explain_rank(const tri_explanation *e, double value);

/* tri_explain_text prints the report as text. tri_explain_json returns it as a new object; NULL if memory is
 * exhausted. */
void tri_explain_text(const tri_explanation *e, FILE *to);
json_t *tri_explain_json(const tri_explanation *e);
/* Prints a self-contained page: it has no scripts and needs no other files (explain_html.c). */
void tri_explain_html(const tri_explanation *e, FILE *to);

/* Writes the difference between a value and the best trial's value, relative to the best trial's value: "+3.1 %".
 * Writes "-" if there is no best trial, or if its value is 0 (damaged store). Returns `out`. */
enum { TRI_EXPLAIN_BESIDE_BYTES = 48 };
const char *tri_explain_beside_best(const tri_explanation *e, double value, char out[TRI_EXPLAIN_BESIDE_BYTES]);

#endif
