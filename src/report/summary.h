/* summary.json: a run in a few numbers, for scripts and tables. */
#ifndef TRI_REPORT_SUMMARY_H
#define TRI_REPORT_SUMMARY_H

#include "base/status.h"
#include "report/metrics.h"
#include "timeline/timeline.h"

#include <stddef.h>
#include <stdint.h>

/* A number that is not finite is written as null, and so is a NULL text. */
typedef struct tri_run_summary {
  /* From the run's metrics, by tri_run_summary_fill. */
  int64_t steps;               /* the last one                                                     */
  double loss;                 /* of the last good step                                            */
  double validation_loss;      /* the last one measured                                            */
  double best_validation_loss; /* and the step it was measured at, 0 if none was                   */
  int64_t best_validation_step;
  double accuracy, held_out_accuracy; /* of a run on preferences, the last ones; NaN: there is none */
  int64_t tokens;
  double tokens_per_s; /* median over the steps, the first few not counted                 */
  double mfu;          /* median                                                           */
  double step_s;       /* median                                                           */
  int64_t bad_steps;
  /* From the caller. */
  double seconds; /* of training, all processes of a resumed run together if known    */
  size_t peak_bytes_predicted, peak_bytes_measured;
  const char *model, *device, *precision;
  int64_t ranks, threads, nodes;           /* of the job; of each rank; that they are on */
  double checkpoint_pause_s, checkpoint_s; /* of the newest checkpoint: what steps waited for it, and all it took */
  double load_s;                           /* of the state that this process began with; 0: it began without one */
  double result_waits, staging_waits;      /* of the host for the device, a step: for results, for collectives */
  const tri_source_metrics *sources;       /* [num_sources], where there are several */
  int64_t num_sources;
  bool ended_early;         /* before its last step, since the validation loss did not become better */
  tri_timeline_shares time; /* where it went, in some steps; of no steps: it was not measured */
  /* By tri_run_summary_fill, of this process and this machine. */
  size_t peak_rss_bytes;
  int64_t cores; /* of this node; 0: not known */
  const char *version;
  char host[128];
} tri_run_summary;

/* LOCAL. Sets what the metrics and the system know; the rest is left alone. */
tri_status tri_run_summary_fill(const tri_metrics_history *history, tri_run_summary *summary);

/* LOCAL. Replaces the file at `path`; a crash leaves the old one or the new one. */
tri_status tri_run_summary_write(const tri_run_summary *summary, const char *path);

#endif
