/* Computes the waiting time of each rank from a timeline that tri_timeline_write_json has written, with one event per
 * line. Lines are read one by one, so that a timeline may be larger than memory. Another writer may have produced
 * events with impossible numbers. These are skipped, since sums with them would be meaningless. */
#include "base/memory.h"
#include "board/internal.h"
#include "files/lines.h"
#include "timeline/timeline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_RANKS = 4096, COMPUTE_THREAD = 0, LONGEST_LINE_BYTES = 1 << 20, MOST_BYTES = 1 << 30 };
static const double most_us = 1e15; /* largest time in microseconds that is read: thirty years */

/* Waiting times of one rank's compute thread, by axis, in seconds. */
typedef struct rank_waits {
  double wait_s[TRI_EVENT_AXES];
  char label[TRI_TIMELINE_LABEL_BYTES];
  /* Whether the file has a name for the rank. */
  bool is_there;
} rank_waits;

typedef struct waits {
  rank_waits *ranks; /* [MOST_RANKS] */
  int64_t first_step, last_step;
  double begin_us, end_us;
} waits;

static int axis_of(const char *name) {
  for (int axis = 0; name != NULL && axis < TRI_EVENT_AXES; axis++) {
    if (strcmp(name, tri_event_axis_name(axis)) == 0) return axis;
  }
  return TRI_EVENT_NO_AXIS;
}

static void set_label(rank_waits *rank, const json_t *event) {
  const char *what = json_string_value(json_object_get(event, "name"));
  const char *label = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
  if (what == NULL || label == NULL || strcmp(what, "process_name") != 0) return;
  snprintf(rank->label, sizeof rank->label, "%s", label);
  rank->is_there = true;
}

static void add_event(waits *w, rank_waits *rank, const json_t *event) {
  const json_t *about = json_object_get(event, "args");
  double begin_us = json_number_value(json_object_get(event, "ts"));
  double length_us = json_number_value(json_object_get(event, "dur")), end_us = begin_us + length_us;
  double waited_us = json_number_value(json_object_get(about, "waited_us"));
  int64_t step = json_integer_value(json_object_get(about, "step"));
  if (fabs(begin_us) > most_us || !(length_us >= 0 && length_us <= most_us)) return;
  if (!(waited_us >= 0 && waited_us <= most_us)) return;
  if (step > 0 && (w->first_step == 0 || step < w->first_step)) w->first_step = step;
  if (step > w->last_step) w->last_step = step;
  if (begin_us < w->begin_us) w->begin_us = begin_us;
  if (end_us > w->end_us) w->end_us = end_us;
  if (json_integer_value(json_object_get(event, "tid")) != COMPUTE_THREAD) return; /* background threads do not count */
  int axis = axis_of(json_string_value(json_object_get(about, "axis")));
  rank->wait_s[axis] += 1e-6 * waited_us;
}

static void read_line(waits *w, const tri_line *line) {
  size_t bytes = line->bytes;
  while (bytes > 0 && line->text[bytes - 1] == ',') bytes--;
  json_t *event = json_loadb(line->text, bytes, 0, NULL);
  int64_t rank = json_integer_value(json_object_get(event, "pid"));
  const char *kind = json_string_value(json_object_get(event, "ph"));
  if (kind != NULL && rank >= 0 && rank < MOST_RANKS) {
    if (strcmp(kind, "M") == 0) set_label(&w->ranks[rank], event);
    if (strcmp(kind, "X") == 0) add_event(w, &w->ranks[rank], event);
  }
  json_decref(event);
}

static tri_status read_waits(const char *root, const char *relative, waits *w) {
  int file = -1;
  tri_lines *lines = NULL;
  tri_status status = TRI_OK;
  struct stat about;
  TRI_TRY(tri_file_open_below(root, relative, &file));
  if (fstat(file, &about) == 0 &&
      about.st_size > MOST_BYTES) { /* limited, because the whole file is read for each request */
    close(file);
    return tri_fail(TRI_BAD_FILE, "%s/%s has more than %d MB, more than is shown", root, relative, MOST_BYTES >> 20);
  }
  TRI_TRY(tri_lines_of(file, relative, LONGEST_LINE_BYTES, &lines));
  for (bool there = true; status == TRI_OK && there;) {
    tri_line line;
    status = tri_lines_next_any(lines, &line, &there);
    if (status == TRI_OK && there && !line.too_long) read_line(w, &line);
  }
  tri_lines_close(lines);
  return status;
}

static json_t *json_of_rank(const rank_waits *rank, int64_t number) {
  json_t *axes = json_object();
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) {
    if (rank->wait_s[axis] > 0) json_object_set_new(axes, tri_event_axis_name(axis), json_real(rank->wait_s[axis]));
  }
  return json_pack("{s:I, s:s, s:o}", "rank", (json_int_t)number, "label", rank->label, "waits_s", axes);
}

static json_t *json_of_waits(const waits *w) {
  json_t *ranks = json_array();
  for (int64_t i = 0; i < MOST_RANKS; i++) {
    if (w->ranks[i].is_there) json_array_append_new(ranks, json_of_rank(&w->ranks[i], i));
  }
  double seconds = w->end_us > w->begin_us ? 1e-6 * (w->end_us - w->begin_us) : 0;
  return json_pack("{s:o, s:I, s:I, s:f}", "ranks", ranks, "first_step", (json_int_t)w->first_step, "last_step",
                   (json_int_t)w->last_step, "seconds", seconds);
}

tri_status tri_board_waits(const char *root, const char *relative, json_t **out) {
  waits w = {.begin_us = 1e300, .end_us = -1e300};
  TRI_TRY(tri_alloc("who waits", MOST_RANKS, sizeof *w.ranks, &w.ranks));
  tri_status status = read_waits(root, relative, &w);
  if (status == TRI_OK) *out = json_of_waits(&w);
  tri_free(w.ranks);
  return status;
}
