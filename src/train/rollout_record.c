#include "train/rollout_record.h"

#include "base/log.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "files/lines.h"
#include "files/write_fault.h"
#include "generation/written.h"
#include "tokenizer/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

enum { LONGEST_LINE_BYTES = 64 << 20 };

/* ---- resuming ---------------------------------------------------------------------------------------------------- */

/* Returns the batch of a line if it is one of the first `batches` batches; -1 otherwise. */
static int64_t batch_of(const tri_line *line, int64_t batches) {
  json_t *object = line->too_long ? NULL : json_loadb(line->text, line->bytes, JSON_ALLOW_NUL, NULL);
  const json_t *batch = json_object_get(object, "batch");
  const bool stays = line->ended && json_is_integer(batch) && json_integer_value(batch) < batches;
  const int64_t out = stays ? json_integer_value(batch) : -1;
  json_decref(object);
  return out;
}

/* Sets *end to the offset after the lines of the first `batches` batches, and *last to the batch of the last of these
 * lines, -1 if there are none. Batches ascend, so all other lines follow them. */
static tri_status find_end(const char *path, int64_t batches, int64_t *end, int64_t *last) {
  tri_lines *lines = NULL;
  bool there = true;
  *end = 0;
  TRI_TRY(tri_lines_open(path, LONGEST_LINE_BYTES, &lines));
  tri_status status = TRI_OK;
  while (status == TRI_OK && there) {
    tri_line line;
    status = tri_lines_next_any(lines, &line, &there);
    const int64_t batch = status != TRI_OK || !there ? -1 : batch_of(&line, batches);
    if (batch < 0) break;
    *end = line.end;
    *last = batch;
  }
  tri_lines_close(lines);
  return status;
}

/* Removes the lines after the first `batches` batches, and warns if some of these batches have none. */
static tri_status cut_record(const char *path, int64_t batches) {
  int64_t end = 0, last = -1;
  TRI_TRY(find_end(path, batches, &end, &last));
  if (last + 1 < batches) {
    tri_warn("%s has lost its lines from batch %" PRId64 " on, and continues with batch %" PRId64 " (numbers from 0)",
             path, last + 1, batches);
  }
  if (truncate(path, end) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot shorten %s: %s", path, tri_write_fault(errno));
}

tri_status tri_rollout_record_open(const tri_run_config *config, int64_t batches, FILE **out) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, config->output, "rollouts.jsonl"));
  if (tri_path_exists(path)) {
    TRI_TRY(cut_record(path, batches));
  } else if (batches > 0) {
    tri_warn("%s is missing, and begins with batch %" PRId64 " (numbers from 0)", path, batches);
  }
  *out = fopen(path, "ae");
  if (*out == NULL) return tri_fail(TRI_IO_FAILED, "cannot open %s for writing: %s", path, tri_write_fault(errno));
  return TRI_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *print_rewards(const tri_run_config *config, const tri_rollout_completion *c) {
  json_t *out = json_object();
  for (int64_t r = 0; r < config->num_rewards; r++)
    json_object_set_new(out, config->rewards[r].label, tri_json_number(c->rewards[r]));
  return out;
}

static json_t *print_completion(const tri_run_config *config, int64_t number, bool with_text,
                                const tri_rollout_completion *c) {
  json_t *line =
      json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:o, s:o}", "batch", (json_int_t)number, "group",
                (json_int_t)c->group, "sample", (json_int_t)c->sample, "line", (json_int_t)c->prompt->line, "tokens",
                (json_int_t)c->count, "finish", tri_finish_name(c->finish), "reward", tri_json_number(c->reward),
                "rewards", print_rewards(config, c), "advantage", tri_json_number(c->advantage));
  if (line == NULL || !with_text) return line;
  json_object_set_new(line, "prompt", tri_json_text(c->prompt->text, c->prompt->text_bytes));
  json_object_set_new(line, "completion", tri_json_text(c->text, c->text_bytes));
  return line;
}

tri_status tri_rollout_record_write(FILE *to, const tri_run_config *config, int64_t number,
                                    const tri_rollout_batch *batch) {
  for (int64_t i = 0; i < tri_rollout_batch_count(batch); i++) {
    json_t *line = print_completion(config, number, i / batch->size < config->rollout.log, &batch->list[i]);
    TRI_TRY(tri_json_write_line(to, line, "a completion"));
  }
  if (fflush(to) == 0 && ferror(to) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot write %s/rollouts.jsonl: %s", config->output, tri_write_fault(errno));
}
