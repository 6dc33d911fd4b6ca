/* How far predictions have been from what was published, and what stands behind those for a cluster. The one place that
 * knows the interval; a test compares it with what `trireme validate` finds. */
#ifndef TRI_PLAN_ACCURACY_H
#define TRI_PLAN_ACCURACY_H

#include "plan/cluster.h"

#include <jansson.h>

/* Of the rows that nothing was fitted to, on clusters with fitted constants: nine in ten errors of a step's seconds
 * (predicted / published - 1) lie between low and high. */
typedef struct tri_accuracy {
  double low, high;
  int64_t rows;
} tri_accuracy;

tri_accuracy tri_accuracy_published(void);

/* The same of any errors, which it sorts. */
tri_accuracy tri_accuracy_of(double *errors, int64_t count);

/* "the constants of dgx-h100 are fitted to nothing; ..." in one line. Returns buffer. */
enum { TRI_ACCURACY_TEXT_BYTES = 512 };
char *tri_accuracy_text(const tri_cluster *cluster, char buffer[TRI_ACCURACY_TEXT_BYTES]);

/* { fitted: [constants], published_errors: {low, high, rows} } */
json_t *tri_accuracy_json(const tri_cluster *cluster);

#endif
