/* The accuracy of predictions: their errors against published results, and which constants of a cluster are measured.
 * The interval is written only here; a test compares it with what `trireme validate` finds. */
#ifndef TRI_PLAN_ACCURACY_H
#define TRI_PLAN_ACCURACY_H

#include "plan/cluster.h"

#include <jansson.h>

/* Nine in ten errors of a step's seconds (predicted / published - 1) are between low and high; over published rows to
 * which nothing was fitted, on clusters with fitted constants. */
typedef struct tri_accuracy {
  double low, high;
  int64_t rows;
} tri_accuracy;

tri_accuracy tri_accuracy_published(void);

/* The same for given errors; sorts them. */
tri_accuracy tri_accuracy_of(double *errors, int64_t count);

/* "the constants of dgx-h100 are fitted to nothing; ..." in one line. Returns buffer. */
enum { TRI_ACCURACY_TEXT_BYTES = 512 };
char *tri_accuracy_text(const tri_cluster *cluster, char buffer[TRI_ACCURACY_TEXT_BYTES]);

/* { fitted: [constants], published_errors: {low, high, rows} } */
json_t *tri_accuracy_json(const tri_cluster *cluster);

#endif
