/* Timelines as files, read by other parsers. */
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "files/file.h"
#include "timeline/timeline.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static int enter_scratch(void **state) {
  (void)state;
  char folder[] = "/tmp/trireme-test-XXXXXX";
  return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int leave_scratch(void **state) {
  (void)state;
  char folder[TRI_PATH_BYTES];
  if (getcwd(folder, sizeof folder) == NULL) return 1;
  return chdir("/") != 0 || tri_directory_remove(folder) != TRI_OK;
}

static void add(tri_timeline *timeline, tri_event event) { CHECK_OK(tri_timeline_add(timeline, &event)); }

/* Events that are not nested, on a grid of a third of a nanosecond, so that times are rounded. */
static tri_timeline *random_timeline(int num_ranks, uint64_t num_events, uint64_t seed) {
  tri_timeline *timeline = NULL;
  CHECK_OK(tri_timeline_create(num_ranks, &timeline));
  tri_random_key key = tri_random_stream(seed, TRI_RANDOM_TEST, 0);
  for (uint64_t i = 0; i < num_events; i++) {
    uint32_t words[8];
    for (uint64_t k = 0; k < 2; k++) tri_random_block(key, 2 * i + k, words + 4 * k);
    double begin_s = 50 + words[0] % 300 * 1e-9 / 3;
    tri_event event = tri_event_make((int)(words[2] % (uint32_t)num_ranks), TRI_EVENT_COMMUNICATION, "all_reduce",
                                     begin_s, begin_s + words[1] % 30 * 1e-9 / 3);
    event.lane = words[3] % 2 == 0 ? TRI_LANE_COMMUNICATION : TRI_LANE_COMPUTE;
    if (event.lane == TRI_LANE_COMPUTE) event.kind = (tri_event_kind)(words[4] % TRI_NUM_EVENT_KINDS);
    event.axis = (int32_t)(words[5] % TRI_EVENT_AXES);
    event.wait_s = words[6] % 6 * 1e-9 / 3;
    add(timeline, event);
  }
  CHECK_OK(tri_timeline_finish(timeline));
  return timeline;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *read_json(const char *path) {
  json_error_t error;
  json_t *document = json_load_file(path, 0, &error);
  if (document == NULL) fail_msg("%s:%d: %s", path, error.line, error.text);
  return document;
}

static int64_t nanoseconds(const json_t *event, const char *key) {
  const json_t *time = json_object_get(event, key);
  assert_true(json_is_real(time));
  return llround(json_real_value(time) * 1000);
}

/* The value of the metadata `what` of a process or, with its tid, of a thread. */
static const json_t *metadata(const json_t *events, const char *what, const char *key, int pid, int tid) {
  size_t i;
  const json_t *event;
  json_array_foreach(events, i, event) {
    if (strcmp(json_string_value(json_object_get(event, "name")), what) != 0) continue;
    if (json_integer_value(json_object_get(event, "pid")) != pid) continue;
    if (json_integer_value(json_object_get(event, "tid")) != tid) continue;
    assert_string_equal(json_string_value(json_object_get(event, "ph")), "M");
    return json_object_get(json_object_get(event, "args"), key);
  }
  fail_msg("no %s of %d/%d", what, pid, tid);
  return NULL;
}

static void expect_event(const json_t *event, int tid, int64_t begin_ns, int64_t length_ns) {
  assert_string_equal(json_string_value(json_object_get(event, "ph")), "X");
  assert_int_equal(json_integer_value(json_object_get(event, "tid")), tid);
  assert_int_equal(nanoseconds(event, "ts"), begin_ns);
  assert_int_equal(nanoseconds(event, "dur"), length_ns);
}

static const json_t *nth_complete(const json_t *events, int n) {
  size_t i;
  const json_t *event;
  json_array_foreach(events, i, event) {
    if (strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0 && n-- == 0) return event;
  }
  fail_msg("too few events");
  return NULL;
}

static void what_json_says(void **state) {
  (void)state;
  tri_timeline *timeline = NULL;
  CHECK_OK(tri_timeline_create(2, &timeline));
  snprintf(timeline->labels[1], sizeof timeline->labels[1], "rank 1: \"data\" 1 \\ \xc3\xa9");
  tri_event event = tri_event_make(1, TRI_EVENT_FORWARD, "forward", 10.5, 10.75);
  event.step = 4;
  event.micro_batch = 3;
  event.chunk = 1;
  add(timeline, event);
  event = tri_event_make(1, TRI_EVENT_COMMUNICATION, "all_reduce", 10.6, 10.7);
  event.axis = TRI_AXIS_DATA;
  event.bytes = 5000000000;
  event.wait_s = 0.025;
  add(timeline, event);
  event.lane = TRI_LANE_COMMUNICATION;
  for (int i = 0; i < 2; i++) add(timeline, event);
  CHECK_OK(tri_timeline_finish(timeline));
  CHECK_OK(tri_timeline_write_json(timeline, "one.json"));
  json_t *document = read_json("one.json");
  const json_t *events = json_object_get(document, "traceEvents");
  assert_string_equal(json_string_value(metadata(events, "process_name", "name", 0, 0)), "rank 0");
  assert_string_equal(json_string_value(metadata(events, "process_name", "name", 1, 0)), timeline->labels[1]);
  assert_int_equal(json_integer_value(metadata(events, "process_sort_index", "sort_index", 1, 0)), 1);
  assert_string_equal(json_string_value(metadata(events, "thread_name", "name", 1, 0)), "compute");
  assert_string_equal(json_string_value(metadata(events, "thread_name", "name", 1, 1)), "communication");
  assert_string_equal(json_string_value(metadata(events, "thread_name", "name", 1, 2)), "communication 2");
  expect_event(nth_complete(events, 0), 0, 0, 250000000);
  expect_event(nth_complete(events, 1), 0, 100000000, 100000000);
  expect_event(nth_complete(events, 2), 1, 100000000, 100000000);
  expect_event(nth_complete(events, 3), 2, 100000000, 100000000);
  char *text = json_dumps(json_object_get(nth_complete(events, 0), "args"), JSON_COMPACT);
  assert_string_equal(text, "{\"step\":5,\"micro_batch\":3,\"chunk\":1}");
  free(text);
  text = json_dumps(json_object_get(nth_complete(events, 2), "args"), JSON_COMPACT);
  assert_string_equal(text, "{\"step\":1,\"axis\":\"data\",\"bytes\":5000000000,\"waited_us\":25000.0}");
  free(text);
  assert_string_equal(json_string_value(json_object_get(nth_complete(events, 1), "cat")), "communication");
  json_decref(document);
  tri_timeline_destroy(timeline);
}

static bool may_share(const json_t *a, const json_t *b, bool nested) {
  int64_t a_begin = nanoseconds(a, "ts"), a_end = a_begin + nanoseconds(a, "dur");
  int64_t b_begin = nanoseconds(b, "ts"), b_end = b_begin + nanoseconds(b, "dur");
  if (a_end <= b_begin || b_end <= a_begin) return true;
  return nested && ((a_begin <= b_begin && b_end <= a_end) || (b_begin <= a_begin && a_end <= b_end));
}

/* Any two events of a thread are disjoint or nested; those of the communication lane are disjoint. */
static void threads_nest(void **state) {
  (void)state;
  tri_timeline *timeline = random_timeline(2, 400, 1);
  CHECK_OK(tri_timeline_write_json(timeline, "random.json"));
  json_t *document = read_json("random.json");
  const json_t *events = json_object_get(document, "traceEvents"), *a, *b;
  size_t i, j;
  int complete = 0;
  json_array_foreach(events, i, a) {
    if (strcmp(json_string_value(json_object_get(a, "ph")), "X") != 0) continue;
    int pid = (int)json_integer_value(json_object_get(a, "pid")),
        tid = (int)json_integer_value(json_object_get(a, "tid"));
    const char *name = json_string_value(metadata(events, "thread_name", "name", pid, tid));
    complete++;
    for (j = 0; j < i; j++) {
      b = json_array_get(events, j);
      if (strcmp(json_string_value(json_object_get(b, "ph")), "X") != 0) continue;
      if (json_integer_value(json_object_get(b, "pid")) != pid) continue;
      if (json_integer_value(json_object_get(b, "tid")) != tid) continue;
      if (!may_share(a, b, strncmp(name, "compute", 7) == 0)) fail_msg("events %zu and %zu of %s", j, i, name);
    }
  }
  assert_int_equal(complete, 400);
  json_decref(document);
  tri_timeline_destroy(timeline);
}

static void empty_and_refused_json(void **state) {
  (void)state;
  tri_timeline *timeline = random_timeline(1, 0, 1);
  CHECK_OK(tri_timeline_write_json(timeline, "empty.json"));
  json_decref(read_json("empty.json"));
  CHECK_FAILS(tri_timeline_write_json(timeline, "no/such.json"), TRI_IO_FAILED, "cannot create no/such.json");
  snprintf(timeline->labels[0], sizeof timeline->labels[0], "cut \xc3");
  CHECK_OK(tri_timeline_write_json(timeline, "cut.json"));
  json_decref(read_json("cut.json"));
  timeline->finished = false;
  CHECK_FAILS(tri_timeline_write_json(timeline, "early.json"), TRI_INTERNAL, "before it is finished");
  tri_timeline_destroy(timeline);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_json_says),
      cmocka_unit_test(threads_nest),
      cmocka_unit_test(empty_and_refused_json),
  };
  return cmocka_run_group_tests(tests, enter_scratch, leave_scratch);
}
