/* Metrics of a run while it trains: metrics.jsonl (one JSON object per line and step), TensorBoard event files, and a
 * progress line. One rank of a run writes them. */
#ifndef TRI_REPORT_METRICS_H
#define TRI_REPORT_METRICS_H

#include "base/status.h"
#include "run/named_metrics.h"
#include "timeline/timeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Metrics of one of several corpora of a run, up to and including a step. */
typedef struct tri_source_metrics {
  const char *path;
  double share;   /* share of all samples */
  int64_t tokens; /* number of input tokens, padding included */
  double epochs;  /* passes over the corpus's samples so far */
} tri_source_metrics;

/* Load of the experts of a layer in a step, over the global batch. */
typedef struct tri_expert_metrics {
  int64_t layer;
  int64_t num_experts;
  const int64_t *load;  /* [num_experts]: tokens of each */
  double max_over_mean; /* 1 if the load is even */
  double entropy; /* entropy of the shares of the experts, divided by that of an even load: 1 if even, 0 if one expert
                     has all tokens */
  int64_t rounds; /* maximum over the micro-batches of the number of rounds for their rows (layout.expert_capacity) */
} tri_expert_metrics;

/* Computes the members of tri_expert_metrics from the load of a layer's experts. */
tri_expert_metrics tri_expert_metrics_of(int64_t layer, const int64_t *load, int64_t num_experts, int64_t rounds);

/* Maximum number of experts in a step whose loads are written one by one. With more, lines would become too long. */
enum { TRI_METRICS_LOADS = 1024 };

/* Metrics of one step. In the file a number that is not finite is null, and validation_loss is present only if
 * `evaluated`. */
typedef struct tri_step_metrics {
  int64_t step; /* number of the step, from 1 */
  double loss;  /* mean over the counted tokens of the global batch */
  double grad_norm, lr;
  int64_t tokens;              /* tokens since the run began, including this step */
  double tokens_per_s, step_s; /* rate and duration of this step */
  double mfu;                  /* fraction of the device's best peak; NaN if that is unknown */
  bool small_products; /* whether the GEMMs are too small to come near the peak, so that progress lines leave out mfu */
  /* Largest number of bytes that this rank's engine has used so far. */
  size_t peak_bytes;
  int64_t
      bad_steps; /* number of steps since the run began that were skipped, because loss or gradient was not finite */
  /* Whether validation_loss was measured after this step. */
  bool evaluated;
  double validation_loss;
  double chosen_logp; /* TRI_CHOSEN_LOGP of `named` when a line is read back; NaN: the line has none. Not written */
  const tri_source_metrics *sources; /* [num_sources], if there are several; not read back */
  int64_t num_sources;
  const tri_expert_metrics *experts; /* [num_expert_layers], if the model has experts; not read back */
  int64_t num_expert_layers;
  double router_loss;              /* loss of the router, only with experts; not read back */
  tri_named_metrics named;         /* metrics of the task; accuracies are read back into tri_metrics_history */
  const tri_timeline_shares *time; /* shares of time of the timed steps up to this one; NULL: none */
} tri_step_metrics;

typedef struct tri_metrics tri_metrics;

/* LOCAL. Opens DIRECTORY/metrics.jsonl and a new event file; creates the directory if needed. Removes the lines of
 * first_step and later (a run resumed from the checkpoint of step N has first_step N + 1; a new run has first_step 1),
 * and everything after the last valid line before them; logs which steps were removed. Earlier lines that are not a
 * step remain, with a warning; another warning is logged if steps before first_step are missing at the end of the file.
 * Fails with TRI_IO_FAILED if a file cannot be written, or if metrics.jsonl is a link that another user may have made.
 * Release with tri_metrics_close. */
tri_status tri_metrics_open(const char *directory, int64_t first_step, tri_metrics **out);

/* LOCAL. Writes one step to both files and flushes it to the system, so that it survives the death of this process.
 * Keeps the step for the progress line. Fails with TRI_IO_FAILED if a file cannot be written. */
tri_status tri_metrics_step(tri_metrics *metrics, const tri_step_metrics *step);

/* LOCAL. Writes metrics.jsonl to disk, so that it survives a crash of the machine. Call it before a checkpoint is
 * saved, which must not be ahead of the file. */
tri_status tri_metrics_sync(tri_metrics *metrics);

/* LOCAL. Shows the newest step as the progress line; `steps`: number of steps of the whole run. */
void tri_metrics_progress(tri_metrics *metrics, int64_t steps);

/* LOCAL. Closes the files and releases the memory, even if the status is a failure. NULL is ignored. */
tri_status tri_metrics_close(tri_metrics *metrics);

/* Formats a progress line: step, losses, learning rate, tokens/s, share of peak, time left, and TRI_ACCURACY if the
 * step has it and the line has at most 100 columns. Leaves out a validation loss or an mfu that is NaN, and the mfu of
 * small GEMMs. The line of a step with a reward has other parts: rewards, mean length of the completions, shares of the
 * time of rollouts and training, and time left. Returns buffer. */
char *tri_metrics_progress_text(const tri_step_metrics *step, int64_t steps, double validation_loss, double left_s,
                                char *buffer, size_t buffer_bytes);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct tri_metrics_history {
  tri_step_metrics *steps; /* [count], by ascending step */
  int64_t count;
  int64_t num_lines;          /* lines in the file */
  int64_t bytes;              /* position of the end of the last valid line of a step before end_step */
  int64_t num_odd, first_odd; /* num_odd: number of lines that are not a step, or out of order; first_odd: line number
                                 of the first of them, from 1 */
  int64_t num_behind;         /* number of lines that num_odd counts and that follow the last valid line */
  int64_t num_later, later_first,
      later_last; /* number of lines of steps from end_step on; the smallest and the largest of these steps */
  bool scattered; /* whether a line of a step from end_step on precedes a valid line of an earlier step */
  double accuracy, held_out_accuracy; /* the last TRI_ACCURACY, and the last of held-out pairs; NaN: none */
} tri_metrics_history;

/* LOCAL. Reads the steps before end_step from a metrics.jsonl. Lines that are incomplete or out of order are skipped.
 * null is read as NaN. A missing file is TRI_BAD_FILE. Release with tri_metrics_history_release. */
tri_status tri_metrics_history_read(const char *path, int64_t end_step, tri_metrics_history *out);

/* LOCAL. Reads the steps before end_step as tri_metrics_history_read does, and removes from the file all lines of
 * step end_step and later, and everything after the last valid line. Fails with TRI_IO_FAILED if the file cannot be
 * changed. */
tri_status tri_metrics_history_cut(const char *path, int64_t end_step, tri_metrics_history *out);
void tri_metrics_history_release(tri_metrics_history *history);

#endif
