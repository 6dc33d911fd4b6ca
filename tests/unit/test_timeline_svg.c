/* Timelines as drawings: well-formed, small for any number of events, and with each colour as wide as its time. */
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "files/file.h"
#include "timeline/timeline.h"
#include "timeline/timeline_paint.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
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

/* Returns a timeline of ranks that do random work for random times, with pauses; about a thousand events a second. */
static tri_timeline *dense_timeline(int num_ranks, int events_each, uint64_t seed) {
  tri_timeline *timeline = NULL;
  CHECK_OK(tri_timeline_create(num_ranks, &timeline));
  for (int rank = 0; rank < num_ranks; rank++) {
    tri_random_key key = tri_random_stream(seed, TRI_RANDOM_TEST, (uint64_t)rank);
    double now_s = 3;
    for (int i = 0; i < events_each; i++) {
      uint32_t words[4];
      tri_random_block(key, (uint64_t)i, words);
      double length_s = 0.002 * (words[0] % 1000) / 1000;
      tri_event event =
          tri_event_make(rank, (tri_event_kind)(words[1] % TRI_NUM_EVENT_KINDS), "some event", now_s, now_s + length_s);
      event.axis = (int32_t)(words[2] % TRI_EVENT_AXES);
      event.micro_batch = i % 64;
      if (event.kind == TRI_EVENT_COMMUNICATION) event.wait_s = 0.3 * length_s;
      add(timeline, event);
      if (i % 3 == 0) {
        event.kind = TRI_EVENT_COMMUNICATION;
        event.lane = TRI_LANE_COMMUNICATION;
        add(timeline, event);
      }
      now_s += length_s + (words[3] % 4 == 0 ? 0.0005 : 0);
    }
  }
  CHECK_OK(tri_timeline_finish(timeline));
  return timeline;
}

/* ---- a little XML ------------------------------------------------------------------------------------------------ */

static const char *read_text(const char *at, char until) {
  for (; *at != until; at++) {
    if ((unsigned char)*at < 0x20 && *at != '\n') fail_msg("a control character: %.20s", at);
    if (*at == '\0' || (*at == '<' && until != '<')) fail_msg("no %c", until);
    if (*at != '&') continue;
    static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
    bool known = false;
    for (int i = 0; i < 4; i++) known = known || strncmp(at, entities[i], strlen(entities[i])) == 0;
    if (!known) fail_msg("no entity: %.20s", at);
  }
  return at;
}

/* Parses the attributes, from the end of a tag's name to the end of the tag. Sets *empty to whether the tag is closed.
 * */
static const char *read_attributes(const char *at, bool *empty) {
  *empty = false;
  for (;;) {
    while (isspace((unsigned char)*at)) at++;
    if (*at == '>') return at + 1;
    if (*at == '/') {
      assert_true(at[1] == '>');
      *empty = true;
      return at + 2;
    }
    size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789");
    if (name == 0 || at[name] != '=' || at[name + 1] != '"') fail_msg("no attribute: %.30s", at);
    at = read_text(at + name + 2, '"') + 1;
  }
}

static void expect_well_formed(const char *text) {
  char open[16][16];
  int depth = 0, roots = 0;
  for (const char *at = text; *at != '\0';) {
    if (*at != '<') {
      const char *end = depth > 0 ? read_text(at, '<') : at + 1;
      if (depth == 0) assert_true(*at == '\n');
      at = end;
      continue;
    }
    bool closes = at[1] == '/', empty = false;
    at += closes ? 2 : 1;
    char name[16] = "";
    sscanf(at, "%15[a-zA-Z]", name);
    at = read_attributes(at + strlen(name), &empty);
    if (closes) {
      assert_true(depth > 0);
      assert_string_equal(open[--depth], name);
    } else {
      roots += depth == 0;
      assert_true(depth < 16);
      if (!empty) strcpy(open[depth++], name);
    }
  }
  assert_int_equal(depth, 0);
  assert_int_equal(roots, 1);
}

/* Draws the timeline, and checks that the drawing is well-formed. Release it with tri_free. */
static char *draw(const tri_timeline *timeline, const char *title, size_t *bytes) {
  char *text = NULL;
  CHECK_OK(tri_timeline_write_svg(timeline, title, "drawn.svg"));
  CHECK_OK(tri_file_read("drawn.svg", 1 << 26, &text, bytes));
  expect_well_formed(text);
  return text;
}

static void expect_text(const char *text, const char *part) {
  if (strstr(text, part) == NULL) fail_msg("no %s", part);
}

static int count_text(const char *text, const char *part) {
  int count = 0;
  for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) count++;
  return count;
}

/* ---- drawings ---------------------------------------------------------------------------------------------------- */

static void what_is_said(void **state) {
  (void)state;
  tri_timeline *timeline = NULL;
  CHECK_OK(tri_timeline_create(2, &timeline));
  snprintf(timeline->labels[1], sizeof timeline->labels[1], "a<b> & \"c\"\x01 cut \xc3");
  for (int step = 0; step < 5; step++) {
    tri_event event = tri_event_make(0, TRI_EVENT_FORWARD, "forward", step, step + 0.5);
    event.step = step;
    event.micro_batch = 70 + step;
    event.chunk = 1;
    add(timeline, event);
    event = tri_event_make(1, TRI_EVENT_COMMUNICATION, "all_reduce", step, step + 1);
    event.step = step;
    event.axis = TRI_AXIS_DATA;
    event.bytes = 1234;
    event.wait_s = 0.75;
    add(timeline, event);
  }
  CHECK_OK(tri_timeline_finish(timeline));
  char *text = draw(timeline, "t\xc3\xaftle <&>", NULL);
  expect_text(text, ">t\xc3\xaftle &lt;&amp;&gt;</text>");
  expect_text(text, ">a&lt;b&gt; &amp; \"c\" cut </text>");
  expect_text(text, ">rank 0</text>");
  expect_text(text, "5 steps, 1.00 s each: ");
  expect_text(text, ">compute 25.0 %</tspan>");
  expect_text(text, ">exposed communication 12.5 %</tspan> (data 12.5 %)");
  expect_text(text, ">bubble 62.5 %</tspan>");
  expect_text(text, "<title>forward, micro-batch 74, chunk 1, step 5: 500 ms</title>");
  expect_text(text, "<title>all_reduce (data), step 5: 1.00 s, including 750 ms waiting, 1234 bytes</title>");
  expect_text(text, ">74</text>");
  for (int step = 1; step <= 5; step++) {
    char label[32];
    snprintf(label, sizeof label, ">step %d</text>", step);
    assert_int_equal(strstr(text, label) != NULL, step > 2);
  }
  assert_null(strstr(text, "step 2"));
  tri_free(text);
  tri_timeline_destroy(timeline);
}

static void many_events_and_ranks(void **state) {
  (void)state;
  size_t bytes = 0;
  tri_timeline *timeline = dense_timeline(16, 20000, 1);
  tri_free(draw(timeline, "many events", &bytes));
  assert_in_range(bytes, 100000, 2000000);
  tri_timeline_destroy(timeline);
  timeline = dense_timeline(16, 500, 1); /* each about three pixels wide: the maximum number of titles */
  tri_free(draw(timeline, "many titles", &bytes));
  assert_in_range(bytes, 100000, 2000000);
  tri_timeline_destroy(timeline);
  timeline = dense_timeline(1000, 4, 2);
  for (int rank = 0; rank < 1000; rank++) snprintf(timeline->labels[rank], sizeof *timeline->labels, "label");
  char *text = draw(timeline, "many ranks", &bytes);
  assert_int_equal(count_text(text, ">label</text>"), 256);
  tri_free(text);
  tri_timeline_destroy(timeline);
}

static void nothing_to_draw(void **state) {
  (void)state;
  tri_timeline *timeline = dense_timeline(2, 0, 1);
  char *text = draw(timeline, "nothing", NULL);
  expect_text(text, ">rank 1</text>");
  tri_free(text);
  CHECK_FAILS(tri_timeline_write_svg(timeline, "", "no/such.svg"), TRI_IO_FAILED, "cannot create no/such.svg");
  add(timeline, tri_event_make(0, TRI_EVENT_FORWARD, "forward", 1, 1)); /* without length */
  CHECK_FAILS(tri_timeline_write_svg(timeline, "", "early.svg"), TRI_INTERNAL, "before it is finished");
  CHECK_OK(tri_timeline_finish(timeline));
  tri_free(draw(timeline, "next to nothing", NULL));
  tri_timeline_destroy(timeline);
}

/* ---- colours ----------------------------------------------------------------------------------------------------- */

static void expect_widths(const tri_lane_spans *list, const tri_timeline_shares *shares, double pixels) {
  double width[TRI_NUM_PAINTS] = {0};
  for (int64_t i = 0; i < list->count; i++) {
    const tri_lane_span *span = &list->spans[i];
    assert_true(span->begin < span->end);
    assert_true(i == 0 || span[-1].end <= span->begin);
    width[span->paint] += span->end - span->begin;
  }
  assert_true(width[TRI_PAINT_IDLE] == 0);
  for (int paint = 1; paint < TRI_NUM_PAINTS; paint++) {
    double share =
        paint < TRI_PAINT_AXES ? shares->by_kind[paint - TRI_PAINT_WORK] : shares->exposed[paint - TRI_PAINT_AXES];
    if (!(fabs(width[paint] / pixels - share) <= 0.01)) {
      fail_msg("%d events wide: %.3f of colour %d, not %.3f", (int)list->count, width[paint] / pixels, paint, share);
    }
  }
}

/* From about a hundred pixels for each event to about a hundred events for each pixel. */
static void colours_as_wide_as_their_time(void **state) {
  (void)state;
  for (int events = 10; events <= 100000; events *= 10) {
    tri_timeline *timeline = NULL, *dense = dense_timeline(1, events, 7);
    CHECK_OK(tri_timeline_create(1, &timeline)); /* only the compute lane, since the shares also count the other one */
    for (int64_t i = 0; i < dense->ranks[0].count; i++) {
      if (dense->ranks[0].events[i].lane == TRI_LANE_COMPUTE) add(timeline, dense->ranks[0].events[i]);
    }
    CHECK_OK(tri_timeline_finish(timeline));
    tri_view view = {.pixels = 1000};
    tri_timeline_shares shares;
    tri_lane_spans list = {0};
    assert_true(tri_timeline_span(timeline, &view.begin_s, &view.end_s));
    CHECK_OK(tri_timeline_add_up(timeline, 0, 1, &shares));
    CHECK_OK(tri_paint_lane(&timeline->ranks[0], TRI_LANE_COMPUTE, &view, &list));
    expect_widths(&list, &shares, view.pixels);
    assert_in_range(list.count, 1, 2000);
    tri_free(list.spans);
    tri_timeline_destroy(timeline);
    tri_timeline_destroy(dense);
  }
}

/* A forward of ten pixels contains fifty collectives, which take a fifth of it, but never more than half of a pixel. */
static void dust_does_not_vanish(void **state) {
  (void)state;
  tri_timeline *timeline = NULL;
  CHECK_OK(tri_timeline_create(1, &timeline));
  add(timeline, tri_event_make(0, TRI_EVENT_FORWARD, "forward", 0, 10));
  for (int i = 0; i < 50; i++) {
    tri_event event = tri_event_make(0, TRI_EVENT_COMMUNICATION, "all_reduce", 0.2 * i + 0.1, 0.2 * i + 0.14);
    event.axis = TRI_AXIS_TENSOR;
    add(timeline, event);
  }
  CHECK_OK(tri_timeline_finish(timeline));
  tri_view view = {0, 10, 10};
  tri_lane_spans list = {0};
  double width = 0;
  CHECK_OK(tri_paint_lane(&timeline->ranks[0], TRI_LANE_COMPUTE, &view, &list));
  for (int64_t i = 0; i < list.count; i++) {
    if (list.spans[i].paint == TRI_PAINT_AXES + TRI_AXIS_TENSOR) width += list.spans[i].end - list.spans[i].begin;
  }
  if (width < 1 || width > 3) fail_msg("%g pixels", width);
  tri_free(list.spans);
  tri_timeline_destroy(timeline);
}

/* A range of time: events that begin before it or end after it are truncated, and others are left out. */
static void cut_to_the_view(void **state) {
  (void)state;
  tri_timeline *timeline = NULL;
  CHECK_OK(tri_timeline_create(1, &timeline));
  add(timeline, tri_event_make(0, TRI_EVENT_LOAD, "load", 0, 1));
  add(timeline, tri_event_make(0, TRI_EVENT_FORWARD, "forward", 1, 3));
  add(timeline, tri_event_make(0, TRI_EVENT_BACKWARD, "backward", 5, 7));
  add(timeline, tri_event_make(0, TRI_EVENT_OPTIMIZER, "update", 8, 9));
  CHECK_OK(tri_timeline_finish(timeline));
  tri_view view = {2, 6, 400};
  tri_lane_spans list = {0};
  for (int again = 0; again < 2; again++) {
    CHECK_OK(tri_paint_lane(&timeline->ranks[0], TRI_LANE_COMPUTE, &view, &list));
    assert_int_equal(list.count, 2);
    assert_int_equal(list.spans[0].paint, TRI_PAINT_WORK + TRI_EVENT_FORWARD);
    assert_true(list.spans[0].begin == 0 && list.spans[0].end == 100);
    assert_int_equal(list.spans[1].paint, TRI_PAINT_WORK + TRI_EVENT_BACKWARD);
    assert_true(list.spans[1].begin == 300 && list.spans[1].end == 400);
  }
  tri_free(list.spans);
  tri_timeline_destroy(timeline);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_said),         cmocka_unit_test(many_events_and_ranks),
      cmocka_unit_test(nothing_to_draw),      cmocka_unit_test(colours_as_wide_as_their_time),
      cmocka_unit_test(dust_does_not_vanish), cmocka_unit_test(cut_to_the_view),
  };
  return cmocka_run_group_tests(tests, enter_scratch, leave_scratch);
}
