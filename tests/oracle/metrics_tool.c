/* metrics_tool DIRECTORY FIRST_STEP LAST_STEP [NAMED]: writes a run's metrics, NAMED of them of a task, with a falling
 * loss, every 10th step evaluated, step 7 not finite; then summary.json and loss.svg from what the file holds. */
#include "files/file.h"
#include "report/loss_curve.h"
#include "report/metrics.h"
#include "report/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tri_status write_steps(const char *directory, int64_t first, int64_t last, tri_named_metrics named) {
  tri_metrics *metrics = NULL;
  TRI_TRY(tri_metrics_open(directory, first, &metrics));
  tri_status status = TRI_OK;
  for (int64_t step = first; step <= last && status == TRI_OK; step++) {
    double noise = sin((double)step * 12.9898) * 0.15;
    double loss = 2.5 + 6 * exp(-(double)step / 60) + noise;
    tri_step_metrics line = {.step = step,
                             .loss = step == 7 ? NAN : loss,
                             .grad_norm = 1.0 / (double)step,
                             .lr = 6e-4,
                             .tokens = step * 8192,
                             .tokens_per_s = 12345.5,
                             .step_s = 8192 / 12345.5,
                             .mfu = 0.71,
                             .peak_bytes = 1 << 30,
                             .bad_steps = step >= 7,
                             .named = named,
                             .evaluated = step % 10 == 0,
                             .validation_loss = loss + 0.1};
    for (int64_t i = 0; i < named.count; i++) named.list[i].value = i % 3 == 0 ? NAN : (double)(i + step);
    status = tri_metrics_step(metrics, &line);
  }
  tri_status closed = tri_metrics_close(metrics);
  return status != TRI_OK ? status : closed;
}

static tri_status write_reports(const char *directory) {
  char path[TRI_PATH_BYTES];
  tri_status status = TRI_OK;
  tri_metrics_history history = {0};
  TRI_TRY(tri_path_join(path, directory, "metrics.jsonl"));
  TRI_TRY(tri_metrics_history_read(path, INT64_MAX, &history));
  tri_run_summary summary = {.seconds = 12.5,
                             .peak_bytes_predicted = 1000,
                             .peak_bytes_measured = 1001,
                             .model = "gpt2-\"quoted\"",
                             .device = "cpu",
                             .precision = "fp32"};
  TRI_TRY_GOTO(tri_run_summary_fill(&history, &summary), release_history);
  TRI_TRY_GOTO(tri_path_join(path, directory, "summary.json"), release_history);
  TRI_TRY_GOTO(tri_run_summary_write(&summary, path), release_history);
  TRI_TRY_GOTO(tri_path_join(path, directory, "loss.svg"), release_history);
  TRI_TRY_GOTO(tri_loss_curve_write(&history, "gpt2 <tiny> & co", path), release_history);
release_history:
  tri_metrics_history_release(&history);
  return status;
}

int main(int count, char **arguments) {
  tri_named_metrics named = {0};
  tri_status status = TRI_OK;
  if (count != 4 && count != 5) {
    fprintf(stderr, "usage: metrics_tool DIRECTORY FIRST_STEP LAST_STEP [NAMED]\n");
    return 2;
  }
  for (int64_t i = 0; status == TRI_OK && count == 5 && i < atoll(arguments[4]); i++) {
    status = tri_named_metrics_add(&named, "rewards/part.%0*lld/mean", (int)(i % 86), (long long)i);
  }
  if (status == TRI_OK) status = write_steps(arguments[1], atoll(arguments[2]), atoll(arguments[3]), named);
  tri_named_metrics_release(&named);
  if (status == TRI_OK) status = write_reports(arguments[1]);
  if (status != TRI_OK) fprintf(stderr, "metrics_tool: %s\n", tri_status_message());
  return tri_status_exit(status);
}
