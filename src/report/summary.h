/* summary.json: the main numbers of a run, for scripts and tables. */
#ifndef TRI_REPORT_SUMMARY_H
#define TRI_REPORT_SUMMARY_H

#include "base/status.h"
#include "report/metrics.h"
#include "timeline/timeline.h"

#include <stddef.h>
#include <stdint.h>

/* A number that is not finite is written as null, and so is a NULL text; an accuracy that is not finite is left out. */
typedef struct tri_run_summary {
  /* Set by tri_run_summary_fill from the run's metrics. */
  int64_t steps;               /* number of the last step */
  double loss;                 /* loss of the last good step */
  double validation_loss;      /* last validation loss that was measured */
  double best_validation_loss; /* the lowest validation loss; best_validation_step: its step, 0 if none was measured */
  int64_t best_validation_step;
  double accuracy, held_out_accuracy; /* last accuracies of a run on preferences, of training and of held-out
                                         preferences; NaN: none */
  int64_t tokens;
  double tokens_per_s; /* median over the steps except the first tenth, at most ten */
  double mfu;          /* median over the same steps as tokens_per_s */
  double step_s;       /* duration of a step in seconds: median over the same steps as tokens_per_s */
  int64_t bad_steps;
  /* Set by the caller. */
  double seconds; /* seconds of training, summed over all processes of a resumed run if known */
  size_t peak_bytes_predicted, peak_bytes_measured;
  const char *model, *device, *precision;
  int64_t ranks, threads, nodes; /* ranks of the job; threads of each rank; nodes of the job */
  double checkpoint_pause_s,
      checkpoint_s; /* seconds that steps waited for the newest checkpoint; seconds until it was complete */
  double load_s;    /* seconds to load the state with which this process began; 0: no state */
  double result_waits, staging_waits; /* waits of the host for the device, per step: for results, and for collectives */
  const tri_source_metrics *sources;  /* [num_sources], if there are several */
  int64_t num_sources;
  bool ended_early; /* whether the run ended before its last step, because the validation loss stopped improving */
  tri_timeline_shares time; /* shares of time in some steps; no steps: not measured */
  /* Set by tri_run_summary_fill for this process and this machine. peak_rss_bytes: largest resident size of this
   * process. */
  size_t peak_rss_bytes;
  int64_t cores; /* cores of this node; 0: unknown */
  const char *version;
  char host[128];
} tri_run_summary;

/* LOCAL. Sets the members that follow from the metrics and the system; the other members are not changed. */
tri_status tri_run_summary_fill(const tri_metrics_history *history, tri_run_summary *summary);

/* LOCAL. Replaces the file at `path`; after a crash it has the old or the new content. */
tri_status tri_run_summary_write(const tri_run_summary *summary, const char *path);

#endif
