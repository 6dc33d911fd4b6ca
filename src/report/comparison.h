/* Runs beside each other: their courses in one picture, and a page with a table of them. */
#ifndef TRI_REPORT_COMPARISON_H
#define TRI_REPORT_COMPARISON_H

#include "report/metrics.h"
#include "report/summary.h"

/* What lies along the lower axis. */
#define TRI_COURSES(X) X(STEP, step, "steps") X(TOKENS, tokens, "tokens") X(TIME, time, "time spent training")
#define TRI_COURSE_VALUE(VALUE, name, title) TRI_COURSE_##VALUE,
typedef enum tri_course { TRI_COURSES(TRI_COURSE_VALUE) TRI_NUM_COURSES } tri_course;

/* Whether there is one of that name ("tokens"). */
bool tri_course_named(const char *name, tri_course *out);

/* A run, borrowed. */
typedef struct tri_compared {
  const char *name;                   /* its folder, as it was given */
  const char *model;                  /* or "" */
  const tri_metrics_history *history; /* with a step at least */
  const double *seconds;              /* [count]: of training up to and with each step */
  const tri_run_summary *summary;     /* as tri_run_summary_fill leaves it */
} tri_compared;

/* LOCAL. Draws losses (running means, and validation losses as dots) of all runs and replaces the file at `path`. */
tri_status tri_comparison_draw(const tri_compared *runs, int64_t count, tri_course course, const char *path);

/* LOCAL. A page with that picture over each course and a table; replaces the file at `path`. */
tri_status tri_comparison_write_page(const tri_compared *runs, int64_t count, const char *path);

/* Whether any of them is of preference pairs, and has accuracies. */
bool tri_comparison_has_accuracies(const tri_compared *runs, int64_t count);

#endif
