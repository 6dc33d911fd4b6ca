/* Reading metrics.jsonl back, and cutting it down to the steps that a resumed run begins behind.
 *
 * A process may have died while it wrote a line, a disk may have been full, somebody may have edited the file. So a
 * line counts only if it ends with a newline, is a JSON object with a step, and its step comes after that of the lines
 * before that count. Every other is passed over, and stays where it is if a line that counts
 * follows: it is no reason to lose that. */
#include "base/file.h"
#include "base/memory.h"
#include "base/write_fault.h"
#include "report/metrics.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static tri_status metrics_history_append(tri_metrics_history *history, int64_t *capacity,
                                         const tri_step_metrics *step) {
  if (history->count == *capacity) {
    int64_t wanted = *capacity == 0 ? 1024 : *capacity * 2;
    TRI_TRY(tri_realloc("the metrics of a run", (size_t)wanted, sizeof *step, &history->steps));
    *capacity = wanted;
  }
  history->steps[history->count++] = *step;
  return TRI_OK;
}

/* What a line of the file is to somebody who wants the steps before end_step. */
typedef enum line_kind {
  LINE_COUNTS,
  LINE_IS_LATER, /* a step from end_step on */
  LINE_IS_ODD,   /* no step, or one that does not come after those before it */
  LINE_IS_TORN,  /* the last one, without its newline */
} line_kind;

static line_kind kind_of(const char *line, size_t bytes, int64_t end_step, int64_t after, tri_step_metrics *step) {
  if (line[bytes - 1] != '\n') return LINE_IS_TORN;
  if (!parse_line(line, bytes, step)) return LINE_IS_ODD;
  if (step->step >= end_step) return LINE_IS_LATER;
  return step->step > after && step->step > 0 ? LINE_COUNTS : LINE_IS_ODD;
}

static tri_status cannot_read(const char *path) {
  return tri_fail(TRI_BAD_FILE, "cannot read %s: %s", path, strerror(errno));
}

static int64_t last_step(const tri_metrics_history *history) {
  return history->count == 0 ? INT64_MIN : history->steps[history->count - 1].step;
}

/* Notes a line and what would have to go with it. `end` is where it ends. */
static tri_status take_line(tri_metrics_history *history, int64_t *capacity, line_kind kind,
                            const tri_step_metrics *step, int64_t end) {
  history->num_lines++;
  switch (kind) {
    case LINE_COUNTS:
      history->bytes = end;
      history->num_behind = 0;
      history->scattered = history->num_later > 0;
      return metrics_history_append(history, capacity, step);
    case LINE_IS_LATER:
      if (history->num_later++ == 0 || step->step < history->later_first) history->later_first = step->step;
      if (step->step > history->later_last) history->later_last = step->step;
      break;
    case LINE_IS_ODD:
      if (history->num_odd++ == 0) history->first_odd = history->num_lines;
      history->num_behind++;
      break;
    case LINE_IS_TORN: break;
  }
  return TRI_OK;
}

tri_status tri_metrics_history_read(const char *path, int64_t end_step, tri_metrics_history *out) {
  tri_status status = TRI_OK;
  tri_metrics_history history = {0};
  int64_t capacity = 0, end = 0;
  char *line = NULL;
  size_t room = 0;
  FILE *file = fopen(path, "re");
  if (file == NULL) return tri_fail(TRI_BAD_FILE, "cannot open %s: %s", path, strerror(errno));
  for (ssize_t got = getline(&line, &room, file); got > 0; got = getline(&line, &room, file)) {
    tri_step_metrics step = {0};
    line_kind kind = kind_of(line, (size_t)got, end_step, last_step(&history), &step);
    end += got;
    TRI_TRY_GOTO(take_line(&history, &capacity, kind, &step, end), close_file);
  }
  if (ferror(file)) {
    status = cannot_read(path);
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

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

/* The first `bytes` bytes without the lines of later steps. */
static tri_status copy_lines(const char *path, FILE *from, int64_t end_step, int64_t bytes, FILE *to) {
  char *line = NULL;
  size_t room = 0;
  ssize_t got = 0;
  for (int64_t done = 0; done < bytes && (got = getline(&line, &room, from)) > 0; done += got) {
    tri_step_metrics step;
    if (kind_of(line, (size_t)got, end_step, INT64_MIN, &step) != LINE_IS_LATER) fwrite(line, 1, (size_t)got, to);
  }
  free(line);
  if (ferror(from)) return cannot_read(path);
  if (fflush(to) == 0 && !ferror(to) && fsync(fileno(to)) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot write a copy of %s: %s", path, tri_write_fault(errno));
}

static tri_status rewrite(const char *path, int64_t end_step, int64_t bytes) {
  tri_status status = TRI_OK;
  char temporary[TRI_PATH_BYTES];
  int file = -1;
  TRI_TRY(tri_file_replacement_name(path, temporary));
  TRI_TRY(tri_file_create(temporary, &file));
  FILE *from = fopen(path, "re"), *to = fdopen(file, "w");
  if (to == NULL) close(file);
  if (from == NULL || to == NULL) {
    status = tri_fail(TRI_IO_FAILED, "cannot copy %s to %s: %s", path, temporary, tri_write_fault(errno));
    goto close_files;
  }
  TRI_TRY_GOTO(copy_lines(path, from, end_step, bytes, to), close_files);
  if (rename(temporary, path) != 0) {
    status = tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", temporary, path, tri_write_fault(errno));
    goto close_files;
  }
  status = tri_file_sync_folder(path);
close_files:
  if (from != NULL) fclose(from);
  if (to != NULL) fclose(to);
  if (status != TRI_OK) (void)remove(temporary);
  return status;
}

tri_status tri_metrics_history_cut(const char *path, int64_t end_step, tri_metrics_history *out) {
  tri_metrics_history history = {0};
  TRI_TRY(tri_metrics_history_read(path, end_step, &history));
  tri_status status = TRI_OK;
  if (history.scattered) {
    status = rewrite(path, end_step, history.bytes);
  } else if (truncate(path, (off_t)history.bytes) != 0) {
    status = tri_fail(TRI_IO_FAILED, "cannot shorten %s to %lld bytes: %s", path, (long long)history.bytes,
                      tri_write_fault(errno));
  }
  if (status != TRI_OK) {
    tri_metrics_history_release(&history);
    return status;
  }
  *out = history;
  return TRI_OK;
}

void tri_metrics_history_release(tri_metrics_history *history) {
  tri_free(history->steps);
  *history = (tri_metrics_history){0};
}
