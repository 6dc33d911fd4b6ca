/* Writes the trace event format. Complete events ("ph": "X") of one thread must nest; otherwise viewers draw them
 * wrong. Events of the compute lane nest if the timeline is right. Events that do not nest, and overlapping events of
 * the communication lane, go to a further thread of their rank, the first one with room.
 *
 * The times of both ends are rounded to whole nanoseconds before they are compared. Rounding keeps the order of times,
 * so events that nest on a thread also nest in the file. */
#include "timeline/timeline.h"

#include "base/memory.h"
#include "files/file.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_DEPTH = 16 };

/* A thread in the viewer. */
typedef struct thread {
  tri_event_lane lane;
  int number, depth;           /* number: index of the thread in its lane, from 1; depth: number of open events */
  int64_t ends_ns[MOST_DEPTH]; /* [depth]: ends of the open events; the innermost is the last */
} thread;

typedef struct trace {
  tri_file_writer *to;
  double origin_s; /* time that is written as 0 */
  const char *separator;
  thread *threads; /* [num_threads], threads of the rank that is being written */
  int num_threads;
  int64_t thread_capacity;
} trace;

static void write_string(trace *t, const char *text) {
  json_t *string = json_string(text);
  if (string == NULL) string = json_string("(no UTF-8)");
  char *quoted = json_dumps(string, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
  tri_file_writer_put(t->to, "%s", quoted == NULL ? "\"\"" : quoted);
  free(quoted);
  json_decref(string);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Adds an event to a thread if it fits: it is after all events of the thread or, in the compute lane, nested in one of
 * them. Returns whether the event was added. */
static bool enter(thread *on, tri_event_lane lane, int64_t begin_ns, int64_t end_ns) {
  if (on->lane != lane) return false;
  while (on->depth > 0 && on->ends_ns[on->depth - 1] <= begin_ns) on->depth--;
  if (on->depth > 0 && (lane != TRI_LANE_COMPUTE || on->ends_ns[on->depth - 1] < end_ns || on->depth == MOST_DEPTH)) {
    return false;
  }
  on->ends_ns[on->depth++] = end_ns;
  return true;
}

static tri_status add_thread(trace *t, tri_event_lane lane) {
  TRI_TRY(tri_grow("threads of a timeline", sizeof *t->threads, t->num_threads, &t->thread_capacity, &t->threads));
  thread added = {.lane = lane, .number = 1};
  for (int i = 0; i < t->num_threads; i++) added.number += t->threads[i].lane == lane;
  t->threads[t->num_threads++] = added;
  return TRI_OK;
}

static tri_status find_thread(trace *t, tri_event_lane lane, int64_t begin_ns, int64_t end_ns, int *out) {
  int i = 0;
  while (i < t->num_threads && !enter(&t->threads[i], lane, begin_ns, end_ns)) i++;
  if (i == t->num_threads) {
    TRI_TRY(add_thread(t, lane));
    enter(&t->threads[i], lane, begin_ns, end_ns);
  }
  *out = i;
  return TRI_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void begin_entry(trace *t) {
  tri_file_writer_put(t->to, "%s", t->separator);
  t->separator = ",\n";
}

static void write_name(trace *t, int pid, int tid, const char *what, const char *name) {
  begin_entry(t);
  tri_file_writer_put(t->to, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_name\",\"args\":{\"name\":", pid, tid,
                      what);
  write_string(t, name);
  tri_file_writer_put(t->to, "}}");
}

static void write_place(trace *t, int pid, int tid, const char *what, int place) {
  begin_entry(t);
  tri_file_writer_put(t->to,
                      "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%d}}",
                      pid, tid, what, place);
}

static const char *lane_name(tri_event_lane lane) {
  switch (lane) {
    case TRI_LANE_COMPUTE: return "compute";
    case TRI_LANE_COMMUNICATION: return "communication";
  }
  return "?";
}

static void write_thread(trace *t, int rank, int tid) {
  const thread *named = &t->threads[tid];
  char name[32];
  const char *lane = lane_name(named->lane);
  snprintf(name, sizeof name, named->number == 1 ? "%s" : "%s %d", lane, named->number);
  write_name(t, rank, tid, "thread", name);
  write_place(t, rank, tid, "thread", 1000 * (int)named->lane + named->number);
}

/* Writes a time in microseconds with three decimals. A double cannot always represent these digits, so the time is
 * given in nanoseconds. */
static void write_time(trace *t, const char *key, int64_t ns) {
  tri_file_writer_put(t->to, ",\"%s\":%lld.%03lld", key, (long long)(ns / 1000), (long long)(ns % 1000));
}

static void write_arguments(trace *t, const tri_event *event) {
  tri_file_writer_put(t->to, ",\"args\":{\"step\":%lld", (long long)event->step + 1);
  if (event->micro_batch >= 0) tri_file_writer_put(t->to, ",\"micro_batch\":%d", event->micro_batch);
  if (event->chunk >= 0) tri_file_writer_put(t->to, ",\"chunk\":%d", event->chunk);
  if (event->kind == TRI_EVENT_COMMUNICATION) {
    tri_file_writer_put(t->to, ",\"axis\":\"%s\",\"bytes\":%lld", tri_event_axis_name(event->axis),
                        (long long)event->bytes);
    write_time(t, "waited_us", llround(event->wait_s * 1e9));
  }
  tri_file_writer_put(t->to, "}");
}

static tri_status write_event(trace *t, const tri_event *event) {
  int64_t begin_ns = llround((event->begin_s - t->origin_s) * 1e9);
  int64_t end_ns = llround((event->end_s - t->origin_s) * 1e9);
  int tid = 0;
  TRI_TRY(find_thread(t, event->lane, begin_ns, end_ns, &tid));
  begin_entry(t);
  tri_file_writer_put(t->to, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":", event->rank, tid);
  write_string(t, event->name);
  tri_file_writer_put(t->to, ",\"cat\":\"%s\"", tri_event_kind_name(event->kind));
  write_time(t, "ts", begin_ns);
  write_time(t, "dur", end_ns - begin_ns);
  write_arguments(t, event);
  tri_file_writer_put(t->to, "}");
  return tri_file_writer_status(t->to);
}

static tri_status write_rank(trace *t, const tri_timeline *timeline, int rank) {
  const tri_event_list *list = &timeline->ranks[rank];
  t->num_threads = 0;
  TRI_TRY(add_thread(t, TRI_LANE_COMPUTE));
  TRI_TRY(add_thread(t, TRI_LANE_COMMUNICATION));
  write_name(t, rank, 0, "process", timeline->labels[rank]);
  write_place(t, rank, 0, "process", rank);
  for (int64_t i = 0; i < list->count; i++) TRI_TRY(write_event(t, &list->events[i]));
  for (int tid = 0; tid < t->num_threads; tid++) write_thread(t, rank, tid);
  return TRI_OK;
}

tri_status tri_timeline_write_json(const tri_timeline *timeline, const char *path) {
  if (!timeline->finished) return tri_fail_internal("a timeline is written to %s before it is finished", path);
  trace t = {.separator = ""};
  double end_s = 0;
  tri_timeline_span(timeline, &t.origin_s, &end_s);
  TRI_TRY(tri_file_writer_open(path, &t.to));
  tri_file_writer_put(t.to, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  tri_status status = TRI_OK;
  for (int rank = 0; rank < timeline->num_ranks && status == TRI_OK; rank++) status = write_rank(&t, timeline, rank);
  tri_file_writer_put(t.to, "\n]}\n");
  tri_free(t.threads);
  return tri_file_writer_close(t.to, status);
}
