/* Comparison of runs: their curves in one picture, and a page with a table. */
#ifndef TRI_REPORT_COMPARISON_H
#define TRI_REPORT_COMPARISON_H

#include "report/metrics.h"
#include "report/summary.h"

#include <jansson.h>

/* Quantity on the x axis. */
#define TRI_COURSES(X) X(STEP, step, "steps") X(TOKENS, tokens, "tokens") X(TIME, time, "time spent training")
#define TRI_COURSE_VALUE(VALUE, name, title) TRI_COURSE_##VALUE,
typedef enum tri_course { TRI_COURSES(TRI_COURSE_VALUE) TRI_NUM_COURSES } tri_course;

/* Looks up a course by name ("tokens"). Returns whether it exists. */
bool tri_course_named(const char *name, tri_course *out);

/* A run, borrowed. */
typedef struct tri_compared {
  const char *name;                   /* path of its folder as given by the user */
  const char *model;                  /* name of its model, or "" */
  const tri_metrics_history *history; /* metrics with at least one step */
  const double *seconds;              /* [history->count]: seconds of training up to and including each step */
  const tri_run_summary *summary;     /* from tri_run_summary_fill */
} tri_compared;

/* LOCAL. Draws the losses of all runs (running means, and validation losses as dots), and replaces the file at `path`.
 */
tri_status tri_comparison_draw(const tri_compared *runs, int64_t count, tri_course course, const char *path);

/* LOCAL. Writes a page with the picture of the losses over each course, a table of the runs, and one of the keys that
 * differ (`keys` of tri_differing_keys); replaces the file at `path`. */
tri_status tri_comparison_write_page(const tri_compared *runs, int64_t count, json_t *keys, const char *path);

/* Returns whether the summary of any run has an accuracy, of training or of held-out preferences. */
bool tri_comparison_has_accuracies(const tri_compared *runs, int64_t count);

#endif
