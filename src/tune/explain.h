/* What a study found: the best trials, what mattered, how it went. As text, JSON and one HTML page. */
#ifndef TRI_TUNE_EXPLAIN_H
#define TRI_TUNE_EXPLAIN_H

#include "tune/study.h"

#include <jansson.h>
#include <stdio.h>

enum { TRI_REASON_KINDS = 8 };

typedef struct tri_explanation {
  const tri_study *study;
  const tri_trial *trials;
  int64_t count, done, failed;
  const tri_trial *known;          /* [study->num_known]: what became of the known recipes; state RUNNING: not tried */
  int64_t best;                    /* the trial's place in the list, or -1 */
  double importance[TRI_KNOBS];    /* mean |Shapley value| over the trials that are done; in units of the objective */
  double with_failures[TRI_KNOBS]; /* the same, of all trials, those that failed worth nothing; 0 if none failed */
  int32_t order[TRI_KNOBS];        /* parameters by it, most important first */
  double effect[TRI_KNOBS][TRI_KNOB_VALUES]; /* the mean of the trials with a value; NaN: no such trial */
  int64_t failures[TRI_KNOBS][TRI_KNOB_VALUES];
} tri_explanation;

tri_status tri_explain(const tri_study *study, const tri_trial *trials, int64_t count, const tri_trial *known,
                       tri_explanation *out);

/* "sequences of 2048 tokens; simulated; ...": what the trials rest on, or "". Returns buffer. */
enum { TRI_EXPLAIN_NOTE_BYTES = 640 };
char *tri_explain_note(const tri_study *study, char buffer[TRI_EXPLAIN_NOTE_BYTES]);

/* What values are in: "TFLOP/s a device, recomputed products counted". */
const char *tri_explain_unit(const tri_study *study);
const char *tri_explain_objective_unit(tri_objective objective);

/* Whether no other trial has more value for as little memory or as much for less; false if its memory is not
 * known. */
bool tri_explain_is_pareto(const tri_explanation *e, int64_t i);

/* The place that a value would have among the trials that are done: 1 is the best. */
int64_t tri_explain_rank(const tri_explanation *e, double value);

void tri_explain_text(const tri_explanation *e, FILE *to);
json_t *tri_explain_json(const tri_explanation *e);
/* Self-contained: no script, no file beside it (explain_html.c). */
void tri_explain_html(const tri_explanation *e, FILE *to);

/* How a value compares with the best: "+3.1 %", or "-" where the best is 0, as in a store that somebody else wrote. */
enum { TRI_EXPLAIN_BESIDE_BYTES = 48 };
const char *tri_explain_beside_best(const tri_explanation *e, double value, char out[TRI_EXPLAIN_BESIDE_BYTES]);

#endif
