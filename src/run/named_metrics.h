/* Metrics of a training task, in addition to those of every run: numbers under names such as "rewards/chosen".
 * metrics.jsonl, TensorBoard and the board use the same names. The list is made from a run's settings, so names may
 * come from the run file. */
#ifndef TRI_RUN_NAMED_METRICS_H
#define TRI_RUN_NAMED_METRICS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of a list. The board ignores further names of a line or a run, and longer names. */
enum { TRI_MOST_NAMED_METRICS = 512, TRI_METRIC_NAME_BYTES = 128 /* with the final zero */ };

/* Name of the fraction of pairs whose chosen answer has the higher reward. */
#define TRI_ACCURACY "rewards/accuracies"
#define TRI_HELD_OUT_ACCURACY "validation/" TRI_ACCURACY
/* Names of the mean margin between the rewards of a pair, and of the mean log-probability of the chosen answers. */
#define TRI_MARGIN "rewards/margins"
#define TRI_CHOSEN_LOGP "logps/chosen"
/* Name of the mean reward of the completions of held-out prompts. */
#define TRI_HELD_OUT_REWARD "validation/reward"

typedef struct tri_named_metric {
  char name[TRI_METRIC_NAME_BYTES];
  double value; /* value in a step; if it is not finite, it is unknown, and the line of the step does not have it */
} tri_named_metric;

/* Starts as {0}. */
typedef struct tri_named_metrics {
  tri_named_metric *list; /* [count], in the order in which a line of metrics.jsonl has them */
  int64_t count, room;
} tri_named_metrics;

struct tri_run_config;

/* Makes the list of metrics of the task that a run's objective selects, without values. Fails as tri_named_metrics_add
 * does. Release *out with tri_named_metrics_release, also after a failure. */
tri_status tri_named_metrics_of(const struct tri_run_config *config, tri_named_metrics *out);
void tri_named_metrics_release(tri_named_metrics *metrics);

/* Adds a metric whose name is formatted as by printf. Fails with TRI_BAD_CONFIG if the name is not valid or is in the
 * list already, or if the list is full. */
tri_status tri_named_metrics_add(tri_named_metrics *metrics, const char *format, ...) TRI_PRINTF(2, 3);

/* Sets the value of the metric with the formatted name. Does nothing if the list does not have it. */
void tri_named_metrics_set(tri_named_metrics *metrics, double value, const char *format, ...) TRI_PRINTF(3, 4);
/* Returns the metric with this name, or NULL. */
tri_named_metric *tri_named_metrics_find(const tri_named_metrics *metrics, const char *name);
/* Makes all values unknown. */
void tri_named_metrics_forget(tri_named_metrics *metrics);

/* Returns whether a text is a name: parts of letters, digits, '_', '-' and '.', separated by '/', and with its final
 * zero at most TRI_METRIC_NAME_BYTES bytes. */
bool tri_metric_name_is_valid(const char *name, size_t bytes);

#endif
