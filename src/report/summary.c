#include "report/summary.h"

#include "base/count.h"
#include "base/memory.h"
#include "base/system.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "files/machine.h"
#include "report/shares.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the median of the finite values of the field at `offset`; NaN if there are no such values. The first tenth of
 * the steps (at most ten) is left out, since these touch memory for the first time and have cold caches. scratch[count]
 * is overwritten. */
static double median_of(const tri_metrics_history *history, size_t offset, double *scratch) {
  int64_t first = history->count / 10 < 10 ? history->count / 10 : 10, count = 0;
  for (int64_t i = first; i < history->count; i++) {
    double value = 0;
    memcpy(&value, (const char *)&history->steps[i] + offset, sizeof value);
    if (isfinite(value)) scratch[count++] = value;
  }
  if (count == 0) return NAN;
  qsort(scratch, (size_t)count, sizeof *scratch, tri_compare_doubles);
  return count % 2 == 1 ? scratch[count / 2] : 0.5 * (scratch[count / 2 - 1] + scratch[count / 2]);
}

static void fill_losses(const tri_metrics_history *history, tri_run_summary *s) {
  s->loss = s->validation_loss = s->best_validation_loss = NAN;
  s->best_validation_step = 0;
  for (int64_t i = 0; i < history->count; i++) {
    const tri_step_metrics *step = &history->steps[i];
    if (isfinite(step->loss)) s->loss = step->loss;
    if (!step->evaluated || !isfinite(step->validation_loss)) continue;
    s->validation_loss = step->validation_loss;
    if (s->best_validation_step == 0 || step->validation_loss < s->best_validation_loss) {
      s->best_validation_loss = step->validation_loss;
      s->best_validation_step = step->step;
    }
  }
}

tri_status tri_run_summary_fill(const tri_metrics_history *history, tri_run_summary *summary) {
  double *scratch = NULL;
  TRI_TRY(tri_alloc("the summary of a run", (size_t)history->count, sizeof *scratch, &scratch));
  fill_losses(history, summary);
  summary->accuracy = history->accuracy;
  summary->held_out_accuracy = history->held_out_accuracy;
  summary->tokens_per_s = median_of(history, offsetof(tri_step_metrics, tokens_per_s), scratch);
  summary->mfu = median_of(history, offsetof(tri_step_metrics, mfu), scratch);
  summary->step_s = median_of(history, offsetof(tri_step_metrics, step_s), scratch);
  tri_free(scratch);
  const tri_step_metrics *last = history->count > 0 ? &history->steps[history->count - 1] : NULL;
  summary->steps = last != NULL ? last->step : 0;
  summary->tokens = last != NULL ? last->tokens : 0;
  summary->bad_steps = last != NULL ? last->bad_steps : 0;

  tri_machine machine;
  summary->cores = tri_machine_read("/", &machine) == TRI_OK ? machine.cores_online : 0;
  summary->peak_rss_bytes = tri_system_peak_resident_bytes();
  summary->version = TRIREME_VERSION;
  if (gethostname(summary->host, sizeof summary->host) != 0) summary->host[0] = '\0';
  summary->host[sizeof summary->host - 1] = '\0';
  return TRI_OK;
}

static json_t *text_or_null(const char *text) {
  json_t *string = text == NULL ? NULL : json_string(text);
  return string == NULL ? json_null() : string; /* a host name need not be UTF-8 */
}

/* Returns a list with the sources in the order of data.train. */
static json_t *sources_json(const tri_run_summary *s) {
  json_t *list = json_array();
  for (int64_t k = 0; k < s->num_sources; k++) {
    const tri_source_metrics *source = &s->sources[k];
    json_array_append_new(list, json_pack("{s:s, s:f, s:I, s:f}", "path", source->path, "share", source->share,
                                          "tokens", (json_int_t)source->tokens, "epochs", source->epochs));
  }
  return list;
}

static json_t *summary_json(const tri_run_summary *s) {
  json_t *object = json_object();
  int failed = object == NULL;
  failed |= json_object_set_new(object, "steps", json_integer(s->steps));
  failed |= json_object_set_new(object, "loss", tri_json_number(s->loss));
  failed |= json_object_set_new(object, "validation_loss", tri_json_number(s->validation_loss));
  failed |= json_object_set_new(object, "best_validation_loss", tri_json_number(s->best_validation_loss));
  failed |= json_object_set_new(object, "best_validation_step", json_integer(s->best_validation_step));
  if (isfinite(s->accuracy)) failed |= json_object_set_new(object, TRI_ACCURACY, json_real(s->accuracy));
  if (isfinite(s->held_out_accuracy)) {
    failed |= json_object_set_new(object, TRI_HELD_OUT_ACCURACY, json_real(s->held_out_accuracy));
  }
  failed |= json_object_set_new(object, "ended_early", json_boolean(s->ended_early));
  failed |= json_object_set_new(object, "bad_steps", json_integer(s->bad_steps));
  failed |= json_object_set_new(object, "tokens", json_integer(s->tokens));
  if (s->num_sources > 0) failed |= json_object_set_new(object, "sources", sources_json(s));
  failed |= json_object_set_new(object, "seconds", tri_json_number(s->seconds));
  failed |= json_object_set_new(object, "step_s", tri_json_number(s->step_s));
  failed |= json_object_set_new(object, "tokens_per_s", tri_json_number(s->tokens_per_s));
  failed |= json_object_set_new(object, "mfu", tri_json_number(s->mfu));
  failed |= json_object_set_new(object, "peak_bytes_predicted", json_integer((json_int_t)s->peak_bytes_predicted));
  failed |= json_object_set_new(object, "peak_bytes_measured", json_integer((json_int_t)s->peak_bytes_measured));
  failed |= json_object_set_new(object, "peak_rss_bytes", json_integer((json_int_t)s->peak_rss_bytes));
  failed |= json_object_set_new(object, "checkpoint_pause_s", tri_json_number(s->checkpoint_pause_s));
  failed |= json_object_set_new(object, "checkpoint_s", tri_json_number(s->checkpoint_s));
  failed |= json_object_set_new(object, "load_s", tri_json_number(s->load_s));
  failed |= json_object_set_new(object, "result_waits_per_step", json_real(s->result_waits));
  failed |= json_object_set_new(object, "staging_waits_per_step", json_real(s->staging_waits));
  failed |= json_object_set_new(object, "share", s->time.num_steps > 0 ? tri_shares_json(&s->time) : json_null());
  failed |= json_object_set_new(object, "model", text_or_null(s->model));
  failed |= json_object_set_new(object, "device", text_or_null(s->device));
  failed |= json_object_set_new(object, "precision", text_or_null(s->precision));
  failed |= json_object_set_new(object, "ranks", json_integer(s->ranks));
  failed |= json_object_set_new(object, "threads", json_integer(s->threads));
  failed |= json_object_set_new(object, "nodes", json_integer(s->nodes));
  failed |= json_object_set_new(object, "cores", json_integer(s->cores));
  failed |= json_object_set_new(object, "version", text_or_null(s->version));
  failed |= json_object_set_new(object, "host", text_or_null(s->host));
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

tri_status tri_run_summary_write(const tri_run_summary *summary, const char *path) {
  tri_status status = TRI_OK;
  json_t *object = summary_json(summary);
  char *text = object == NULL ? NULL : json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
  json_decref(object);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "no memory to write %s", path);
  size_t bytes = strlen(text);
  text[bytes++] = '\n'; /* in place of the NUL */
  status = tri_file_replace(path, text, bytes);
  free(text);
  return status;
}
