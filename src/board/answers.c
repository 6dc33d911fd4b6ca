/* Answers requests about a board. The list of items, curves, a run's texts, a study and a timeline are answered as
 * JSON, and a timeline's picture as SVG. Items are read under the board's lock; files are read without the lock. */
#include "board/board.h"

#include "base/memory.h"
#include "board/internal.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "tune/store_peek.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  MOST_TEXT_BYTES = 1 << 20,
  TAIL_BYTES = 16384,
  SAMPLES_BYTES = 1 << 18,
  MOST_PICTURE_BYTES = 64 << 20,
  RECENT = 20
};

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Writes a document as the text of an answer, and releases the document. */
static tri_status answer_json(json_t *document, tri_answer *out) {
  out->text = document == NULL ? NULL : json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(8));
  json_decref(document);
  if (out->text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: an answer of the board");
  out->bytes = strlen(out->text);
  return TRI_OK;
}

/* Returns the item with the number; NULL if there is no such item, or if it is of another kind. */
static tri_board_item *item_of(const tri_board *board, int64_t number, tri_found_kind kind) {
  if (number < 0 || number >= board->num_items) return NULL;
  tri_board_item *item = board->items[number];
  return item->kind == kind && !item->gone ? item : NULL;
}

static const char *found_kind_name(tri_found_kind kind) {
#define FOUND_WORD(VALUE, word) #word,
  static const char *const words[] = {TRI_FOUND_KINDS(FOUND_WORD)};
  return words[kind];
}

/* Path of an item, which is below one of the board's folders. The board owns the text of the folder. */
typedef struct place {
  const char *root;
  char path[TRI_PATH_BYTES]; /* absolute path */
} place;

static const char *relative_of(const place *at) { return tri_path_below(at->root, at->path); }

static tri_status locate_board_item(tri_board *board, int64_t number, tri_found_kind kind, place *out) {
  tri_board_lock(board);
  const tri_board_item *item = item_of(board, number, kind);
  out->root = item == NULL ? NULL : item->root;
  snprintf(out->path, sizeof out->path, "%s", item == NULL ? "" : item->path);
  tri_board_unlock(board);
  if (out->root != NULL) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "there is no %s %" PRId64, found_kind_name(kind), number);
}

/* ---- list -------------------------------------------------------------------------------------------------------- */

static json_t *last_of(const tri_series *s, int64_t column) {
  const float *values = tri_series_values(s, column);
  for (int64_t i = values == NULL ? -1 : s->count - 1; i >= 0; i--) {
    if (isfinite(values[i])) return json_real((double)values[i]);
  }
  return json_null();
}

/* Returns the last value of each named number. */
static json_t *named_of(const tri_series *s) {
  json_t *out = json_object();
  for (int64_t k = 0; k < s->num_named; k++) {
    json_object_set_new(out, s->named[k].name, last_of(s, TRI_BOARD_COLUMNS + k));
  }
  return out;
}

/* Returns the mean of the finite values of a column over the last RECENT steps; null if there is none. */
static json_t *recent_of(const tri_series *s, tri_board_column column) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t i = s->count - 1; i >= 0 && i >= s->count - RECENT; i--) {
    double value = tri_series_value(s, column, i);
    if (!isfinite(value)) continue;
    sum += value;
    count++;
  }
  return count == 0 ? json_null() : json_real(sum / (double)count);
}

static json_t *least_of(const tri_series *s, tri_board_column column) {
  double least = INFINITY;
  for (int64_t i = 0; i < s->count; i++) least = fmin(least, tri_series_value(s, column, i));
  return tri_json_number(least);
}

static double most_of(const tri_series *s, tri_board_column column) {
  double most = -INFINITY;
  for (int64_t i = 0; i < s->count; i++) most = fmax(most, tri_series_value(s, column, i));
  return most;
}

static bool is_later(struct timespec a, struct timespec b) {
  return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

/* Returns whether the run is in progress: its lock exists, and within MOST_QUIET_S the lock was touched (a rank does so
 * every few seconds, also during a long step) or metrics were written. A run that was started again keeps its old
 * summary until it makes a step, but its lock is newer than the summary. */
static bool is_running(const tri_board_item *item) {
  enum { MOST_QUIET_S = 90 };
  if (item->summary != NULL && !is_later(item->touched, item->summary_changed)) return false;
  return item->locked && item->quiet_s < MOST_QUIET_S;
}

/* Returns whether the last failure is newer than the last metrics and the summary. */
static bool has_failed(const tri_board_item *item) {
  if (item->reason[0] == '\0' || is_later(item->series.changed, item->failed)) return false;
  return item->summary == NULL || is_later(item->failed, item->summary_changed);
}

/* Returns whether a reason is the message of a run that diverged. Each such message has one of these phrases
 * (train/bad_steps.c, train/run_end.c). */
static bool is_of_bad_steps(const char *reason) {
  return strstr(reason, "so the run stops") != NULL || strstr(reason, "steps in a row") != NULL;
}

tri_board_state tri_board_state_of(const tri_board_item *item) {
  const json_t *steps = json_object_get(item->summary, "steps");
  if (is_running(item)) return TRI_BOARD_RUNNING;
  if (json_is_true(json_object_get(item->summary, "ended_early"))) return TRI_BOARD_ENDED_EARLY;
  const bool is_whole = item->planned == 0 || !json_is_integer(steps) || json_integer_value(steps) >= item->planned;
  if (item->summary != NULL && is_whole) return TRI_BOARD_FINISHED;
  if (has_failed(item)) return is_of_bad_steps(item->reason) ? TRI_BOARD_DIVERGED : TRI_BOARD_FAILED;
  return TRI_BOARD_INTERRUPTED;
}

const char *tri_board_state_name(tri_board_state state) {
#define STATE_NAME(VALUE, NAME) NAME,
  static const char *const names[] = {TRI_BOARD_STATES(STATE_NAME)};
#undef STATE_NAME
  return names[state];
}

/* Returns the reason of the last failure; null if the run's state is not due to a failure. */
static json_t *reason_of(const tri_board_item *item, tri_board_state state) {
  json_t *reason = NULL;
  switch (state) {
    case TRI_BOARD_DIVERGED:
    case TRI_BOARD_FAILED: reason = json_string(item->reason); break;
    case TRI_BOARD_RUNNING:
    case TRI_BOARD_ENDED_EARLY:
    case TRI_BOARD_FINISHED:
    case TRI_BOARD_INTERRUPTED:
    case TRI_NUM_BOARD_STATES: break;
  }
  return reason == NULL ? json_null() : reason;
}

static json_t *checkpoints_of(const tri_board_item *item) {
  json_t *list = json_array();
  for (int64_t i = item->num_checkpoints - 1; i >= 0; i--) {
    const tri_board_checkpoint *c = &item->checkpoints[i];
    json_array_append_new(list, json_pack("{s:I, s:b, s:b}", "step", (json_int_t)c->step, "best", (int)c->best,
                                          "proven", (int)c->proven));
  }
  return list;
}

static void list_metrics(const tri_series *s, json_t *out) {
  int64_t last = s->count - 1;
  json_object_set_new(out, "step", json_integer(last < 0 ? 0 : s->steps[last]));
  json_object_set_new(out, "tokens", json_integer(last < 0 ? 0 : s->tokens[last]));
  json_object_set_new(out, "seconds", json_real(last < 0 ? 0 : s->seconds[last]));
  json_object_set_new(out, "loss", last_of(s, TRI_BOARD_LOSS));
  json_object_set_new(out, "validation_loss", last_of(s, TRI_BOARD_VALIDATION_LOSS));
  json_object_set_new(out, "best_validation_loss", least_of(s, TRI_BOARD_VALIDATION_LOSS));
  json_object_set_new(out, "tokens_per_s", recent_of(s, TRI_BOARD_TOKENS_PER_S));
  json_object_set_new(out, "step_s", recent_of(s, TRI_BOARD_STEP_S));
  json_object_set_new(out, "mfu", recent_of(s, TRI_BOARD_MFU));
  json_object_set_new(out, "peak_bytes", tri_json_number(most_of(s, TRI_BOARD_PEAK_BYTES)));
  json_object_set_new(out, "bad_steps", last_of(s, TRI_BOARD_BAD_STEPS));
  if (s->num_named > 0) json_object_set_new(out, "named", named_of(s));
  json_object_set_new(out, "rewinds", json_integer(s->rewinds));
  json_object_set_new(out, "odd_lines", json_integer(s->num_odd));
  json_object_set_new(out, "unread_bytes", json_integer(s->bytes - s->offset));
}

/* Returns the share of time in the summary; that of the metrics if the summary has none, or if there is no summary;
 * null if neither has one. */
static json_t *share_of(const tri_board_item *item) {
  json_t *of_summary = json_object_get(item->summary, "share");
  if (json_is_object(of_summary)) return json_incref(of_summary);
  json_t *share = item->series.share == NULL ? NULL : json_loads(item->series.share, 0, NULL);
  return share == NULL ? json_null() : share;
}

static void list_run(const tri_board_item *item, json_t *out) {
  list_metrics(&item->series, out);
  json_object_set_new(out, "version", json_integer(item->series.version));
  const tri_board_state state = tri_board_state_of(item);
  json_object_set_new(out, "state", json_string(tri_board_state_name(state)));
  json_object_set_new(out, "reason", reason_of(item, state));
  json_object_set_new(out, "planned_steps", item->planned > 0 ? json_integer(item->planned) : json_null());
  json_object_set_new(out, "objective", item->objective[0] != '\0' ? json_string(item->objective) : json_null());
  json_object_set_new(out, "quiet_s", tri_json_number(round(item->quiet_s)));
  json_object_set_new(out, "failed", json_boolean(item->failures != 0));
  json_object_set_new(out, "config", json_integer(item->config));
  json_object_set_new(out, "samples", json_integer(item->samples));
  json_object_set_new(out, "checkpoints", checkpoints_of(item));
  json_object_set_new(out, "share", share_of(item));
  json_object_set(out, "summary", item->summary == NULL ? json_null() : item->summary);
}

static json_t *list_item(const tri_board_item *item, int64_t number) {
  json_t *name = json_string(item->name); /* NULL if the name is not UTF-8, as file names may be */
  if (name == NULL) name = json_sprintf("%s %lld", found_kind_name(item->kind), (long long)number);
  json_t *out =
      json_pack("{s:I, s:o, s:I}", "id", (json_int_t)number, "name", name, "version", (json_int_t)item->version);
  if (item->kind == TRI_FOUND_RUN) list_run(item, out);
  return out;
}

tri_status tri_board_answer_list(tri_board *board, tri_answer *out) {
  json_t *lists[] = {json_array(), json_array(), json_array()};
  tri_board_lock(board);
  bool looked = board->looked;
  for (int64_t i = 0; i < board->num_items; i++) {
    const tri_board_item *item = board->items[i];
    if (!item->gone) json_array_append_new(lists[item->kind], list_item(item, i));
  }
  tri_board_unlock(board);
  return answer_json(
      json_pack("{s:s, s:b, s:o, s:o, s:o}", "trireme", TRIREME_VERSION, "looked", (int)looked, "runs",
                lists[TRI_FOUND_RUN], "studies", lists[TRI_FOUND_STUDY], "timelines", lists[TRI_FOUND_TIMELINE]),
      out);
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

/* Writes a number with seven significant digits, which is about the precision of a float. */
static void put_number(FILE *to, const char *separator, double value) { fprintf(to, "%s%.7g", separator, value); }

/* Writes the position on the axis and the number of steps of every bucket that has steps. A position has 12 digits, so
 * that even ten million steps have distinct positions. */
static void write_places(FILE *to, const tri_bucket_place *places, int64_t points) {
  const char *separator = "\"x\":[";
  bool any = false;
  for (int64_t i = 0; i < points; i++) {
    if (places[i].count == 0) continue;
    fprintf(to, "%s%.12g", separator, places[i].first + (places[i].last - places[i].first) / 2);
    separator = ",";
    any = true;
  }
  fprintf(to, "%s],\"steps\":", any ? "" : separator);
  separator = "[";
  for (int64_t i = 0; i < points; i++) {
    if (places[i].count == 0) continue;
    fprintf(to, "%s%" PRId64, separator, places[i].count);
    separator = ",";
  }
  fprintf(to, "%s]", any ? "" : separator);
}

/* Writes a column for every bucket that has steps: the lowest, the highest and the middle value; a single number if all
 * three are equal; null if no value is finite. A column without any finite value is left out. */
static void write_column(FILE *to, const char *name, const tri_bucket_place *places, const tri_bucket *buckets,
                         int64_t points) {
  const char *separator = "";
  int64_t any = 0;
  for (int64_t i = 0; i < points; i++) any += buckets[i].count;
  if (any == 0) return;
  fprintf(to, ",\"%s\":[", name);
  for (int64_t i = 0; i < points; i++) {
    const tri_bucket *b = &buckets[i];
    if (places[i].count == 0) continue;
    if (b->count == 0) {
      fprintf(to, "%snull", separator);
    } else if (b->low == b->high && b->middle == b->low) {
      put_number(to, separator, b->low);
    } else {
      fprintf(to, "%s", separator);
      put_number(to, "[", b->low);
      put_number(to, ",", b->high);
      put_number(to, ",", b->middle);
      fprintf(to, "]");
    }
    separator = ",";
  }
  fprintf(to, "]");
}

/* Writes the newest MOST_BAD steps whose loss or gradient was not finite, with their positions. */
static void write_bad_steps(FILE *to, const tri_series *s, tri_board_axis axis) {
  enum { MOST_BAD = 200 };
  const char *separator = "";
  fprintf(to, ",\"bad\":[");
  int64_t count = 0;
  for (int64_t i = s->count - 1; i >= 0 && count < MOST_BAD; i--) {
    const bool one_more =
        i > 0 && tri_series_value(s, TRI_BOARD_BAD_STEPS, i) > tri_series_value(s, TRI_BOARD_BAD_STEPS, i - 1);
    if (!isnan(tri_series_value(s, TRI_BOARD_LOSS, i)) && !one_more) continue;
    fprintf(to, "%s[%" PRId64 ",%.12g]", separator, s->steps[i], tri_series_place(s, axis, i));
    separator = ",";
    count++;
  }
  fprintf(to, "]");
}

/* Writes each checkpoint whose step is in the metrics: the step, its position on the axis, and whether the checkpoint
 * has the mark "best". */
static void write_checkpoints(FILE *to, const tri_board_item *item, tri_board_axis axis) {
  const tri_series *s = &item->series;
  const char *separator = "";
  int64_t at = 0;
  fprintf(to, ",\"checkpoints\":[");
  for (int64_t i = item->num_checkpoints - 1; i >= 0;
       i--) { /* in ascending order of steps: the newest checkpoint comes first in the list */
    while (at < s->count && s->steps[at] < item->checkpoints[i].step) at++;
    if (at == s->count || s->steps[at] != item->checkpoints[i].step) continue;
    fprintf(to, "%s[%" PRId64 ",%.12g,%d]", separator, s->steps[at], tri_series_place(s, axis, at),
            item->checkpoints[i].best);
    separator = ",";
  }
  fprintf(to, "]");
}

typedef struct curves {
  const tri_bucket_request *request;
  tri_bucket_place *places;
  tri_bucket *buckets; /* room for `room` buckets: as many as the columns of the largest run so far need */
  size_t room;
} curves;

static tri_status write_run(FILE *to, curves *c, const tri_board_item *item, int64_t number) {
  const tri_series *s = &item->series;
  const int64_t points = c->request->points;
  const size_t buckets = (size_t)(points * (TRI_BOARD_COLUMNS + s->num_named));
  TRI_TRY(tri_reserve("curves", sizeof *c->buckets, buckets, &c->room, &c->buckets));
  tri_series_buckets(s, c->request, c->places, c->buckets);
  fprintf(to, "{\"id\":%" PRId64 ",\"version\":%" PRId64 ",\"range\":[", number, s->version);
  if (s->count > 0) {
    tri_board_axis axis = c->request->axis;
    fprintf(to, "%.12g,%.12g", tri_series_place(s, axis, 0), tri_series_place(s, axis, s->count - 1));
  }
  fprintf(to, "],");
  write_places(to, c->places, points);
  for (int64_t column = 0; column < TRI_BOARD_COLUMNS + s->num_named; column++) {
    write_column(to, tri_series_name(s, column), c->places, &c->buckets[column * points], points);
  }
  write_bad_steps(to, s, c->request->axis);
  write_checkpoints(to, item, c->request->axis);
  fprintf(to, "}");
  return TRI_OK;
}

/* Writes the curves of runs[num_runs]. Locks the board for one run at a time, so that the reading thread can continue
 * in between. */
static tri_status write_runs(FILE *to, curves *c, tri_board *board, const int64_t *runs, int64_t num_runs) {
  const char *separator = "";
  tri_status status = TRI_OK;
  fprintf(to, "{\"runs\":[");
  for (int64_t i = 0; i < num_runs && status == TRI_OK; i++) {
    tri_board_lock(board);
    const tri_board_item *item = item_of(board, runs[i], TRI_FOUND_RUN);
    if (item != NULL) {
      fprintf(to, "%s", separator);
      status = write_run(to, c, item, runs[i]);
      separator = ",";
    }
    tri_board_unlock(board);
  }
  fprintf(to, "]}");
  return status;
}

tri_status tri_board_answer_series(tri_board *board, const tri_bucket_request *request, const int64_t *runs,
                                   int64_t num_runs, tri_answer *out) {
  curves c = {.request = request};
  tri_status status = TRI_OK;
  FILE *to = NULL;
  tri_answer answer = {0};
  const size_t points = (size_t)request->points;
  TRI_TRY_GOTO(tri_alloc("curves", points, sizeof *c.places, &c.places), done);
  to = open_memstream(&answer.text, &answer.bytes);
  if (to == NULL) {
    status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: curves");
    goto done;
  }
  status = write_runs(to, &c, board, runs, num_runs);
  if (fclose(to) != 0 && status == TRI_OK) status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: curves");
  if (status == TRI_OK) *out = answer;
  if (status != TRI_OK) free(answer.text);
done:
  tri_free(c.places);
  tri_free(c.buckets);
  return status;
}

/* ---- single items ------------------------------------------------------------------------------------------------ */

/* Returns the end of a text file in a folder: from the beginning of a line to the end of the last complete line.
 * Returns null if the file cannot be read. */
static json_t *text_in(const place *at, const char *name, size_t most_bytes) {
  char relative[TRI_PATH_BYTES], *text = NULL;
  bool cut = false;
  if (tri_path_join(relative, relative_of(at), name) != TRI_OK) return json_null();
  if (tri_board_read_end(at->root, relative, most_bytes, &text, &cut) != TRI_OK) return json_null();
  const char *line = cut ? strchr(text, '\n') : NULL;
  char *end = strrchr(text, '\n');
  if (end != NULL) end[1] = '\0';
  json_t *out = json_string(line != NULL ? line + 1 : text);
  tri_free(text);
  return out == NULL ? json_null() : out;
}

tri_status tri_board_answer_run(tri_board *board, int64_t number, tri_answer *out) {
  place at;
  TRI_TRY(locate_board_item(board, number, TRI_FOUND_RUN, &at));
  json_t *where = json_string(at.path);
  return answer_json(
      json_pack("{s:o, s:o, s:o, s:o}", "path", where == NULL ? json_null() : where, "config",
                text_in(&at, "config.yaml", MOST_TEXT_BYTES), "failures", text_in(&at, "failures.txt", TAIL_BYTES),
                "samples", text_in(&at, "samples.jsonl", SAMPLES_BYTES)),
      out);
}

tri_status tri_board_answer_study(tri_board *board, int64_t number, tri_answer *out) {
  place at;
  json_t *study = NULL;
  TRI_TRY(locate_board_item(board, number, TRI_FOUND_STUDY, &at));
  TRI_TRY(tri_store_peek(at.root, relative_of(&at), &study));
  return answer_json(study, out);
}

tri_status tri_board_answer_timeline(tri_board *board, int64_t number, tri_answer *out) {
  place at;
  json_t *found = NULL;
  TRI_TRY(locate_board_item(board, number, TRI_FOUND_TIMELINE, &at));
  TRI_TRY(tri_board_waits(at.root, relative_of(&at), &found));
  return answer_json(found, out);
}

/* Reads a file at its present size. One allocation has this size, because a picture may be large. Fails with
 * TRI_BAD_FILE if the file is larger than MOST_PICTURE_BYTES. */
static tri_status read_picture(int file, const char *path, tri_answer *out) {
  struct stat about;
  tri_answer read = {0};
  if (fstat(file, &about) != 0) return tri_fail(TRI_IO_FAILED, "cannot read %s: %s", path, strerror(errno));
  if (about.st_size > MOST_PICTURE_BYTES) {
    return tri_fail(TRI_BAD_FILE, "%s has more than %d MB, more than is shown", path, MOST_PICTURE_BYTES >> 20);
  }
  read.text = malloc((size_t)about.st_size + 1);
  if (read.text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a picture");
  while (read.bytes < (size_t)about.st_size) {
    ssize_t got = pread(file, read.text + read.bytes, (size_t)about.st_size - read.bytes, (off_t)read.bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break; /* the file was cut after fstat */
    read.bytes += (size_t)got;
  }
  read.text[read.bytes] = '\0';
  *out = read;
  return TRI_OK;
}

tri_status tri_board_answer_picture(tri_board *board, int64_t number, tri_answer *out) {
  place at;
  int file = -1;
  TRI_TRY(locate_board_item(board, number, TRI_FOUND_TIMELINE, &at));
  strcpy(at.path + strlen(at.path) - strlen("json"), "svg");
  TRI_TRY(tri_file_open_below(at.root, relative_of(&at), &file));
  tri_status status = read_picture(file, at.path, out);
  close(file);
  return status;
}
