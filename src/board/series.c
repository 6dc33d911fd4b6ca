/* Follows a file that another process writes.
 *
 * Invariant: a series is equal to that of a reader who starts from the beginning. Three rules ensure that. A line
 * counts once its newline is written. If the step of a line is not above the last stored step, the line replaces all
 * stored steps from that step on. The bytes before `offset` are still those that were read, which is checked before
 * anything is added: by the inode, by the file's size, and by the last bytes before `offset`. These contain measured
 * times, and therefore differ if a run has written its steps again. */
#include "board/series.h"

#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINE_BYTES = 1 << 20, MOST_STEP_S = 1 << 30, MOST_SHARE_BYTES = 4096 };

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static tri_status grow_column(const tri_series *s, size_t size, void *column, int64_t *room) {
  *room = s->room;
  return tri_grow("the metrics of a run", size, s->count, room, column);
}

/* Grows all existing columns to the same capacity. */
static tri_status make_room(tri_series *s) {
  int64_t room = 0;
  TRI_TRY(grow_column(s, sizeof *s->steps, &s->steps, &room));
  TRI_TRY(grow_column(s, sizeof *s->tokens, &s->tokens, &room));
  TRI_TRY(grow_column(s, sizeof *s->seconds, &s->seconds, &room));
  for (int c = 0; c < TRI_BOARD_COLUMNS; c++) {
    if (s->columns[c] != NULL) TRI_TRY(grow_column(s, sizeof *s->columns[c], &s->columns[c], &room));
  }
  for (int64_t k = 0; k < s->num_named; k++) {
    TRI_TRY(grow_column(s, sizeof *s->named[k].values, &s->named[k].values, &room));
  }
  s->room = room;
  return TRI_OK;
}

/* Creates a column with NaN for the steps so far. */
static tri_status begin_column(const tri_series *s, float **column) {
  TRI_TRY(tri_alloc("the metrics of a run", (size_t)s->room, sizeof **column, column));
  for (int64_t i = 0; i < s->count; i++) (*column)[i] = NAN;
  return TRI_OK;
}

static tri_status make_columns(tri_series *s, const tri_board_line *line) {
  for (int c = 0; c < TRI_BOARD_COLUMNS; c++) {
    if (s->columns[c] == NULL && isfinite(line->values[c])) TRI_TRY(begin_column(s, &s->columns[c]));
  }
  return TRI_OK;
}

static bool is_named(const tri_series_named *column, const tri_board_named *number) {
  return strncmp(column->name, number->name, number->bytes) == 0 && column->name[number->bytes] == '\0';
}

/* Returns the column of a named number; -1 if there is none. Lines have their names in one order, so the column after
 * the last one found is tried first. */
static int64_t named_column(const tri_series *s, const tri_board_named *number, int64_t *next) {
  for (int64_t i = 0; i < s->num_named; i++) {
    const int64_t k = (*next + i) % s->num_named;
    if (!is_named(&s->named[k], number)) continue;
    *next = k + 1;
    return k;
  }
  return -1;
}

static tri_status make_named(tri_series *s, const tri_board_line *line) {
  int64_t next = 0;
  for (int64_t i = 0; i < line->num_named; i++) {
    const tri_board_named *number = &line->named[i];
    if (!isfinite(number->value) || named_column(s, number, &next) >= 0) continue;
    if (s->num_named == TRI_MOST_NAMED_METRICS) return TRI_OK;
    TRI_TRY(tri_grow("the metrics of a run", sizeof *s->named, s->num_named, &s->room_named, &s->named));
    tri_series_named *column = &s->named[s->num_named];
    TRI_TRY(begin_column(s, &column->values));
    memcpy(column->name, number->name, number->bytes);
    column->name[number->bytes] = '\0';
    s->num_named++;
  }
  return TRI_OK;
}

static void add_named(tri_series *s, const tri_board_line *line, int64_t at) {
  int64_t next = 0;
  for (int64_t k = 0; k < s->num_named; k++) s->named[k].values[at] = NAN;
  for (int64_t i = 0; i < line->num_named; i++) {
    const int64_t column = named_column(s, &line->named[i], &next);
    if (column >= 0) s->named[column].values[at] = (float)line->named[i].value;
  }
}

/* Returns the number of stored steps below `step`. */
static int64_t steps_before(const tri_series *s, int64_t step) {
  int64_t low = 0, high = s->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (s->steps[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Stores the line's share of time, if it has one. Few lines have it. */
static tri_status keep_share(tri_series *s, const tri_board_line *line) {
  char *share = NULL;
  if (line->share == NULL || line->share_bytes > MOST_SHARE_BYTES) return TRI_OK;
  TRI_TRY(tri_alloc("time shares of a run", line->share_bytes + 1, 1, &share));
  memcpy(share, line->share, line->share_bytes);
  tri_free(s->share);
  s->share = share;
  return TRI_OK;
}

static tri_status add_line(tri_series *s, const tri_board_line *line) {
  if (s->count > 0 && s->steps[s->count - 1] >= line->step) {
    s->count = steps_before(s, line->step);
    s->rewinds++;
  }
  TRI_TRY(make_room(s));
  TRI_TRY(make_columns(s, line));
  TRI_TRY(make_named(s, line));
  TRI_TRY(keep_share(s, line));
  int64_t at = s->count++;
  double step_s = line->values[TRI_BOARD_STEP_S];
  s->steps[at] = line->step;
  s->tokens[at] = line->tokens;
  const bool is_time = step_s > 0 && step_s <= MOST_STEP_S; /* no run writes other values */
  s->seconds[at] = (at > 0 ? s->seconds[at - 1] : 0) + (is_time ? step_s : 0);
  for (int c = 0; c < TRI_BOARD_COLUMNS; c++) {
    if (s->columns[c] != NULL) s->columns[c][at] = (float)line->values[c];
  }
  add_named(s, line, at);
  return TRI_OK;
}

double tri_series_value(const tri_series *s, tri_board_column column, int64_t i) {
  return s->columns[column] == NULL ? NAN : (double)s->columns[column][i];
}

const char *tri_series_name(const tri_series *s, int64_t column) {
  if (column < TRI_BOARD_COLUMNS) return tri_board_column_name((tri_board_column)column);
  return s->named[column - TRI_BOARD_COLUMNS].name;
}

const float *tri_series_values(const tri_series *s, int64_t column) {
  return column < TRI_BOARD_COLUMNS ? s->columns[column] : s->named[column - TRI_BOARD_COLUMNS].values;
}

bool tri_series_is_noisy(const tri_series *s, int64_t column) {
  static const char held_out[] = "validation/";
  if (column < TRI_BOARD_COLUMNS) return tri_board_column_is_noisy((tri_board_column)column);
  return strncmp(s->named[column - TRI_BOARD_COLUMNS].name, held_out, sizeof held_out - 1) != 0;
}

static void drop_named(tri_series *s) {
  for (int64_t k = 0; k < s->num_named; k++) tri_free(s->named[k].values);
  tri_free(s->named);
  s->named = NULL;
  s->num_named = s->room_named = 0;
}

/* ---- file -------------------------------------------------------------------------------------------------------- */

static void forget(tri_series *s) {
  if (s->offset > 0) s->rewinds++;
  s->count = s->num_odd = s->offset = 0;
  drop_named(s); /* another run in the same file may have other names */
  tri_free(s->share);
  s->share = NULL;
  s->tail_bytes = 0;
  s->passing = false;
  s->version++;
}

static bool is_the_same(const tri_series *s, int file, const struct stat *now) {
  char tail[TRI_SERIES_TAIL_BYTES];
  if (s->offset == 0) return true;
  if (now->st_dev != s->device || now->st_ino != s->inode || now->st_size < s->offset) return false;
  ssize_t got = pread(file, tail, s->tail_bytes, s->offset - (off_t)s->tail_bytes);
  return got == (ssize_t)s->tail_bytes && memcmp(tail, s->tail, s->tail_bytes) == 0;
}

static void keep_tail(tri_series *s, const char *text, size_t bytes) {
  size_t kept = bytes < sizeof s->tail ? bytes : sizeof s->tail;
  if (kept == 0) return;
  memcpy(s->tail, text + bytes - kept, kept);
  s->tail_bytes = kept;
}

int64_t tri_series_size(const tri_series *s) { return s->count * (1 + s->num_named / 24); }

bool tri_series_is_full(const tri_series *s) { return s->most > 0 && tri_series_size(s) >= s->most; }

/* Adds the complete lines at the beginning of the buffer, until the series is full, and counts those that are not
 * valid. Sets *used to the number of bytes of these lines. */
static tri_status add_lines(tri_series *s, const char *text, size_t bytes, size_t *used) {
  *used = 0;
  for (;;) {
    const char *line = text + *used, *end = memchr(line, '\n', bytes - *used);
    tri_board_line found;
    if (end == NULL || tri_series_is_full(s)) return TRI_OK;
    size_t length = (size_t)(end - line);
    if (s->passing || !tri_board_line_read(line, length, &found)) {
      s->num_odd++;
    } else {
      TRI_TRY(add_line(s, &found));
    }
    s->passing = false;
    *used += length + 1;
  }
}

static tri_status read_on(tri_series *s, int file, char *buffer, size_t most_bytes, bool *more) {
  ssize_t got = pread(file, buffer, most_bytes, s->offset);
  size_t used = 0;
  if (got < 0) return tri_fail(TRI_IO_FAILED, "cannot read %s: %s", s->path, strerror(errno));
  if (got == 0) return TRI_OK;
  TRI_TRY(add_lines(s, buffer, (size_t)got, &used));
  if (used == 0 && (size_t)got == most_bytes &&
      !tri_series_is_full(s)) { /* no valid line is that long: skip to the next newline */
    s->passing = true;
    used = (size_t)got;
  }
  s->offset += (int64_t)used;
  keep_tail(s, buffer, used);
  s->version += used > 0;
  *more = used > 0 && (size_t)got == most_bytes && !tri_series_is_full(s);
  return TRI_OK;
}

static tri_status follow(tri_series *s, int file, size_t most_bytes, bool *more) {
  struct stat now;
  char *buffer = NULL;
  if (fstat(file, &now) != 0) return tri_fail(TRI_IO_FAILED, "cannot look at %s: %s", s->path, strerror(errno));
  if (!is_the_same(s, file, &now)) forget(s);
  s->device = now.st_dev;
  s->inode = now.st_ino;
  s->bytes = now.st_size;
  s->changed = now.st_mtim;
  if (now.st_size <= s->offset || tri_series_is_full(s)) return TRI_OK;
  if (most_bytes < MOST_LINE_BYTES) most_bytes = MOST_LINE_BYTES;
  TRI_TRY(tri_alloc("lines of metrics", most_bytes, 1, &buffer));
  tri_status status = read_on(s, file, buffer, most_bytes, more);
  tri_free(buffer);
  return status;
}

tri_status tri_series_read(tri_series *s, size_t most_bytes, bool *more) {
  *more = false;
  int file = -1;
  TRI_TRY(tri_file_open_below(s->root, s->path, &file));
  tri_status status = follow(s, file, most_bytes, more);
  close(file);
  return status;
}

void tri_series_release(tri_series *s) {
  tri_free(s->steps);
  tri_free(s->tokens);
  tri_free(s->seconds);
  tri_free(s->share);
  for (int c = 0; c < TRI_BOARD_COLUMNS; c++) tri_free(s->columns[c]);
  drop_named(s);
  *s = (tri_series){0};
}
