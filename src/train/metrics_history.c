/* Reading metrics.jsonl back. A process may have died while it wrote the last line, so a line counts only if it ends
 * with a newline, is a JSON object with a step, and its step comes after that of the line before. */
#include "base/memory.h"
#include "train/metrics.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double real_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

static int64_t integer_of(const json_t *object, const char *key) {
  return (int64_t)json_integer_value(json_object_get(object, key));
}

static bool parse_line(const char *line, size_t bytes, tri_step_metrics *out) {
  if (bytes == 0 || line[bytes - 1] != '\n') return false;
  json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
  bool good = json_is_object(object) && json_is_integer(json_object_get(object, "step"));
  if (good) {
    *out = (tri_step_metrics){
        .step = integer_of(object, "step"),
        .loss = real_of(object, "loss"),
        .grad_norm = real_of(object, "grad_norm"),
        .lr = real_of(object, "lr"),
        .tokens = integer_of(object, "tokens"),
        .tokens_per_s = real_of(object, "tokens_per_s"),
        .step_s = real_of(object, "step_s"),
        .mfu = real_of(object, "mfu"),
        .peak_bytes = (size_t)integer_of(object, "peak_bytes"),
        .bad_steps = integer_of(object, "bad_steps"),
        .evaluated = json_object_get(object, "validation_loss") != NULL,
        .validation_loss = real_of(object, "validation_loss"),
    };
  }
  json_decref(object);
  return good;
}

static tri_status append(tri_metrics_history *history, int64_t *capacity, const tri_step_metrics *step) {
  if (history->count == *capacity) {
    int64_t wanted = *capacity == 0 ? 1024 : *capacity * 2;
    TRI_TRY(tri_realloc("the metrics of a run", (size_t)wanted, sizeof *step, &history->steps));
    *capacity = wanted;
  }
  history->steps[history->count++] = *step;
  return TRI_OK;
}

tri_status tri_metrics_history_read(const char *path, int64_t end_step, tri_metrics_history *out) {
  tri_status status = TRI_OK;
  tri_metrics_history history = {0};
  int64_t capacity = 0;
  char *line = NULL;
  size_t room = 0;
  FILE *file = fopen(path, "re");
  if (file == NULL) return tri_fail(TRI_BAD_FILE, "cannot open %s: %s", path, strerror(errno));
  for (ssize_t got = getline(&line, &room, file); got > 0; got = getline(&line, &room, file)) {
    tri_step_metrics step;
    if (!parse_line(line, (size_t)got, &step) || step.step >= end_step) break;
    if (history.count > 0 && step.step <= history.steps[history.count - 1].step) break;
    TRI_TRY_GOTO(append(&history, &capacity, &step), close_file);
    history.bytes += got;
  }
  if (ferror(file)) {
    status = tri_fail(TRI_BAD_FILE, "cannot read %s: %s", path, strerror(errno));
    goto close_file;
  }
  *out = history;
  history.steps = NULL;
close_file:
  tri_free(history.steps);
  free(line);
  fclose(file);
  return status;
}

void tri_metrics_history_release(tri_metrics_history *history) {
  tri_free(history->steps);
  *history = (tri_metrics_history){0};
}
