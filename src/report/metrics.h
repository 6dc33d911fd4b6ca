/* The metrics of a run while it trains: metrics.jsonl (one JSON object a line, one line a step), TensorBoard event
 * files, and a progress line. One rank of a run writes them. */
#ifndef TRI_REPORT_METRICS_H
#define TRI_REPORT_METRICS_H

#include "base/status.h"
#include "timeline/timeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One of several corpora that a run trains on, up to and with a step. */
typedef struct tri_source_metrics {
  const char *path;
  double share;   /* of all samples */
  int64_t tokens; /* inputs, padding included */
  double epochs;  /* how often its samples have been gone through */
} tri_source_metrics;

/* What the experts of a layer had in a step, of the global batch. */
typedef struct tri_expert_metrics {
  int64_t layer;
  int64_t num_experts;
  const int64_t *load;  /* [num_experts]: tokens of each */
  double max_over_mean; /* 1 if all had equally many */
  double entropy;       /* of the shares, over that of equal ones: 1 if all are equal, 0 if one had all */
  int64_t rounds;       /* most rounds that a micro-batch's rows took (layout.expert_capacity) */
} tri_expert_metrics;

/* From `layer` and `load`. */
tri_expert_metrics tri_expert_metrics_of(int64_t layer, const int64_t *load, int64_t num_experts, int64_t rounds);

/* Loads are written one by one in steps of at most this many experts: a line of a large model would be longer than all
 * that is said otherwise. */
enum { TRI_METRICS_LOADS = 1024 };

/* A number that a kind of training adds to a line, such as "rewards/chosen". */
enum { TRI_MOST_NAMED_METRICS = 24 };
typedef struct tri_named_metric {
  const char *name; /* static */
  double value;
} tri_named_metric;

/* The share of pairs whose chosen answer has the higher reward. */
#define TRI_ACCURACY "rewards/accuracies"
#define TRI_HELD_OUT_ACCURACY "validation/" TRI_ACCURACY

/* One step. In the file a number that is not finite is null, and validation_loss stands only where evaluated is set. */
typedef struct tri_step_metrics {
  int64_t step; /* 1 is the first                                              */
  double loss;  /* mean over the counted tokens of the global batch            */
  double grad_norm, lr;
  int64_t tokens;              /* trained on since the run began, this step's included        */
  double tokens_per_s, step_s; /* of this step                                                */
  double mfu;                  /* share of the device's best peak; NaN if it is unknown     */
  bool small_products;         /* products are too small to come near the peak: progress lines leave mfu out */
  size_t peak_bytes;
  int64_t bad_steps; /* skipped since the run began: loss or gradient was not finite */
  bool evaluated;
  double validation_loss;
  const tri_source_metrics *sources; /* [num_sources], where there are several; not read back */
  int64_t num_sources;
  const tri_expert_metrics *experts; /* [num_expert_layers], of a model that has any; not read back */
  int64_t num_expert_layers;
  double router_loss;            /* the same */
  const tri_named_metric *named; /* [num_named]; see tri_metrics_history for what is read back */
  int64_t num_named;
  const tri_timeline_shares *time; /* where the time of the steps went that were timed up to this one; NULL: of none */
} tri_step_metrics;

typedef struct tri_metrics tri_metrics;

/* LOCAL. Opens DIRECTORY/metrics.jsonl and a new event file; makes the directory if need be. What the file says of
 * first_step and later is removed (a run resumed from the checkpoint of step N continues with first_step N + 1; a new
 * run has first_step 1), and so is whatever follows the last line before it; a line is logged that says which steps
 * went. Lines before it that do not belong to a step stay, with a warning. Release with tri_metrics_close. */
tri_status tri_metrics_open(const char *directory, int64_t first_step, tri_metrics **out);

/* LOCAL. Adds one step to both files and hands it to the system, so that it survives the death of this process. */
tri_status tri_metrics_step(tri_metrics *metrics, const tri_step_metrics *step);

/* LOCAL. Brings metrics.jsonl to the disk, so that it survives the death of the machine: to be called before a
 * checkpoint, which must not know of steps that the file has lost. */
tri_status tri_metrics_sync(tri_metrics *metrics);

/* LOCAL. Shows the step last written of `steps`, on the line of tri_log_progress. */
void tri_metrics_progress(tri_metrics *metrics, int64_t steps);

/* LOCAL. NULL is ignored; the files are released whatever the status. */
tri_status tri_metrics_close(tri_metrics *metrics);

/* The text of a progress line: step, losses, learning rate, tokens/s, share of peak, time left, and TRI_ACCURACY where
 * the step has it and the line stays within 100 columns. Leaves out a validation loss or an mfu that is NaN, and the
 * mfu of small products. Returns buffer. */
char *tri_metrics_progress_text(const tri_step_metrics *step, int64_t steps, double validation_loss, double left_s,
                                char *buffer, size_t buffer_bytes);

/* ---- reading it back -------------------------------------------------------------------------------------------- */

typedef struct tri_metrics_history {
  tri_step_metrics *steps; /* [count], by rising step */
  int64_t count;
  int64_t num_lines; /* of the file */
  int64_t bytes;     /* up to the end of the last line that counts */
  int64_t num_odd,
      first_odd;      /* lines that do not belong to a step, or are out of order, and the first of them, from 1 */
  int64_t num_behind; /* of them, behind the last line that counts */
  int64_t num_later, later_first, later_last; /* lines of steps from end_step on, and their steps */
  bool scattered;                             /* some of them stand before a line that counts */
  double accuracy, held_out_accuracy;         /* the last TRI_ACCURACY, and of held-out pairs; NaN: there is none */
} tri_metrics_history;

/* LOCAL. Reads the steps before end_step from a metrics.jsonl. Lines that are not whole, or out of order, are passed
 * over. null is read as NaN. A missing file is TRI_BAD_FILE. Release with tri_metrics_history_release. */
tri_status tri_metrics_history_read(const char *path, int64_t end_step, tri_metrics_history *out);

/* LOCAL. Reads the same, and removes from the file what is behind them: lines of step end_step and later wherever they
 * are, and whatever follows the last line that counts. */
tri_status tri_metrics_history_cut(const char *path, int64_t end_step, tri_metrics_history *out);
void tri_metrics_history_release(tri_metrics_history *history);

#endif
