/* Timelines with known shares, waits of events that have partners, and random timelines compared with a count over
 * every unit of time. */
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "timeline/timeline.h"

#include <math.h>

static tri_timeline *new_timeline(int num_ranks) {
  tri_timeline *timeline = NULL;
  CHECK_OK(tri_timeline_create(num_ranks, &timeline));
  return timeline;
}

static void add(tri_timeline *timeline, tri_event event) { CHECK_OK(tri_timeline_add(timeline, &event)); }

static tri_timeline_shares add_up(tri_timeline *timeline, int64_t first_step, int64_t end_step) {
  tri_timeline_shares shares;
  CHECK_OK(tri_timeline_finish(timeline));
  CHECK_OK(tri_timeline_add_up(timeline, first_step, end_step, &shares));
  return shares;
}

static void expect(double value, double expected) {
  if (!(fabs(value - expected) < 1e-12)) fail_msg("%.17g, not %.17g", value, expected);
}

static tri_event communication(int rank, tri_event_lane lane, int axis, double begin_s, double end_s) {
  tri_event event = tri_event_make(rank, TRI_EVENT_COMMUNICATION, "all_reduce", begin_s, end_s);
  event.lane = lane;
  event.axis = axis;
  return event;
}

static tri_event collective(int rank, tri_event_lane lane, uint64_t number, double begin_s, double end_s) {
  tri_event event = communication(rank, lane, TRI_AXIS_TENSOR, begin_s, end_s);
  event.meeting = (tri_meeting){.kind = TRI_MEETING_COLLECTIVE, .first = 0, .other = 1, .number = number};
  return event;
}

static tri_event message(tri_meeting_kind kind, int from, int to, uint64_t number, double begin_s, double end_s) {
  tri_event event =
      communication(kind == TRI_MEETING_SEND ? from : to, TRI_LANE_COMPUTE, TRI_AXIS_PIPELINE, begin_s, end_s);
  event.meeting = (tri_meeting){.kind = kind, .first = from, .other = to, .number = number};
  return event;
}

/* ---- 1F1B -------------------------------------------------------------------------------------------------------- */

/* Turn `turn` of stage `stage` in 1F1B: forwards until the later stages are filled, then alternating backwards and
 * forwards, then the remaining backwards. */
static bool turn_of_1f1b(int stages, int micro_batches, int stage, int turn, int *micro_batch) {
  int ahead = stages - stage < micro_batches ? stages - stage : micro_batches;
  bool backward = turn >= ahead && ((turn - ahead) % 2 == 0 || turn >= 2 * micro_batches - ahead);
  if (turn < ahead) {
    *micro_batch = turn;
  } else if (turn >= 2 * micro_batches - ahead) {
    *micro_batch = turn - micro_batches;
  } else {
    *micro_batch = (turn - ahead) / 2 + (backward ? 0 : ahead);
  }
  return backward;
}

/* The end of each turn, by stage, direction and micro-batch. A turn takes a second. */
typedef struct pipeline {
  int stages, micro_batches;
  double end_s[8][2][16];
} pipeline;

static double can_begin(const pipeline *p, int stage, bool backward, int micro_batch) {
  if (backward && stage == p->stages - 1) return p->end_s[stage][0][micro_batch];
  if (backward) return p->end_s[stage + 1][1][micro_batch];
  return stage == 0 ? 0 : p->end_s[stage - 1][0][micro_batch];
}

static void run_pipeline(pipeline *p) {
  for (int pass = 0; pass < p->stages * p->micro_batches * 2; pass++) {
    for (int stage = 0; stage < p->stages; stage++) {
      double now_s = 0;
      for (int turn = 0; turn < 2 * p->micro_batches; turn++) {
        int micro_batch;
        bool backward = turn_of_1f1b(p->stages, p->micro_batches, stage, turn, &micro_batch);
        now_s = fmax(now_s, can_begin(p, stage, backward, micro_batch)) + 1;
        p->end_s[stage][backward][micro_batch] = now_s;
      }
    }
  }
}

/* A receive begins when its stage is free, and ends when the neighbour has sent. Messages take no time. */
static void draw_pipeline(const pipeline *p, tri_timeline *timeline) {
  for (int stage = 0; stage < p->stages; stage++) {
    double now_s = 0;
    for (int turn = 0; turn < 2 * p->micro_batches; turn++) {
      int micro_batch;
      bool backward = turn_of_1f1b(p->stages, p->micro_batches, stage, turn, &micro_batch);
      double end_s = p->end_s[stage][backward][micro_batch];
      int from = backward ? stage + 1 : stage - 1, to = backward ? stage - 1 : stage + 1;
      uint64_t number = (uint64_t)micro_batch;
      if (from >= 0 && from < p->stages) {
        add(timeline, message(TRI_MEETING_RECEIVE, from, stage, number, now_s, end_s - 1));
      }
      add(timeline, tri_event_make(stage, backward ? TRI_EVENT_BACKWARD : TRI_EVENT_FORWARD, "turn", end_s - 1, end_s));
      if (to >= 0 && to < p->stages) add(timeline, message(TRI_MEETING_SEND, stage, to, number, end_s, end_s));
      now_s = end_s;
    }
  }
}

static void bubble_of_1f1b(void **state) {
  (void)state;
  for (int stages = 1; stages <= 8; stages++) {
    for (int micro_batches = 1; micro_batches <= 16; micro_batches += 3) {
      pipeline p = {stages, micro_batches, {{{0}}}};
      tri_timeline *timeline = new_timeline(stages);
      run_pipeline(&p);
      draw_pipeline(&p, timeline);
      tri_timeline_shares shares = add_up(timeline, 0, 1);
      assert_int_equal(shares.num_steps, 1);
      expect(shares.step_s, 2.0 * (micro_batches + stages - 1));
      expect(shares.bubble, (stages - 1.0) / (micro_batches + stages - 1));
      expect(shares.compute, (double)micro_batches / (micro_batches + stages - 1));
      expect(shares.by_kind[TRI_EVENT_FORWARD], shares.compute / 2);
      expect(shares.by_kind[TRI_EVENT_BACKWARD], shares.compute / 2);
      expect(tri_timeline_exposed(&shares), 0);
      tri_timeline_destroy(timeline);
    }
  }
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

/* Rank 1 arrives at 5 at a collective that rank 0 has joined at 2; it ends at 6. */
static void a_late_rank_is_a_bubble(void **state) {
  (void)state;
  tri_timeline *timeline = new_timeline(2);
  add(timeline, tri_event_make(0, TRI_EVENT_FORWARD, "forward", 0, 10));
  add(timeline, collective(0, TRI_LANE_COMPUTE, 7, 2, 6));
  add(timeline, tri_event_make(1, TRI_EVENT_FORWARD, "forward", 0, 10));
  add(timeline, collective(1, TRI_LANE_COMPUTE, 7, 5, 6));
  tri_timeline_shares shares = add_up(timeline, 0, 1);
  expect(timeline->ranks[0].events[1].wait_s, 3);
  expect(timeline->ranks[1].events[1].wait_s, 0);
  expect(shares.bubble, 3.0 / 20);
  expect(shares.exposed[TRI_AXIS_TENSOR], 2.0 / 20);
  expect(tri_timeline_exposed(&shares), 2.0 / 20);
  expect(shares.compute, 15.0 / 20);
  tri_timeline_destroy(timeline);
}

/* A rank arrives at a collective in the background when it starts it, even if it waits for its end much later. */
static void the_first_event_of_a_rank_counts(void **state) {
  (void)state;
  tri_timeline *timeline = new_timeline(2);
  for (int rank = 0; rank < 2; rank++) {
    add(timeline, tri_event_make(rank, TRI_EVENT_BACKWARD, "backward", 0, 8));
    add(timeline, collective(rank, TRI_LANE_COMMUNICATION, 1, 2 + rank, 10));
    add(timeline, collective(rank, TRI_LANE_COMPUTE, 1, 8, 10));
  }
  tri_timeline_shares shares = add_up(timeline, 0, 1);
  expect(timeline->ranks[0].events[1].wait_s, 1);
  expect(timeline->ranks[0].events[2].wait_s, 0);
  expect(shares.exposed[TRI_AXIS_TENSOR], 4.0 / 20);
  expect(shares.hidden[TRI_AXIS_TENSOR], 10.0 / 20);
  expect(shares.bubble, 0);
  tri_timeline_destroy(timeline);
}

/* Equal numbers in different groups are different collectives, as are different numbers in one group. */
static void other_collectives_are_not_waited_for(void **state) {
  (void)state;
  tri_timeline *timeline = new_timeline(3);
  tri_event other = collective(1, TRI_LANE_COMPUTE, 7, 5, 6);
  other.meeting.other = 2;
  add(timeline, collective(0, TRI_LANE_COMPUTE, 7, 2, 6));
  add(timeline, other);
  add(timeline, collective(2, TRI_LANE_COMPUTE, 8, 5, 6));
  CHECK_OK(tri_timeline_finish(timeline));
  expect(timeline->ranks[0].events[0].wait_s, 0);
  tri_timeline_destroy(timeline);
}

/* The numbers of sends and receives differ; their order decides. Counts restart in each step, and for each tag. */
static void messages_by_their_order(void **state) {
  (void)state;
  tri_timeline *timeline = new_timeline(2);
  for (int k = 0; k < 3; k++) {
    uint64_t number = (uint64_t)k;
    add(timeline, message(TRI_MEETING_SEND, 0, 1, number + 10, 10 * k + 4, 10 * k + 5));
    add(timeline, message(TRI_MEETING_RECEIVE, 0, 1, 2 * number, 10 * k, 10 * k + 5));
  }
  tri_event late = message(TRI_MEETING_SEND, 0, 1, 1, 40, 41);
  late.meeting.tag = 1;
  add(timeline, late);
  late.meeting.tag = 0;
  late.step = 1;
  add(timeline, late);
  CHECK_OK(tri_timeline_finish(timeline));
  for (int k = 0; k < 3; k++) {
    expect(timeline->ranks[0].events[k].wait_s, 0);
    expect(timeline->ranks[1].events[k].wait_s, 4);
  }
  tri_timeline_destroy(timeline);
}

/* The start and the wait of a message are events of one message. */
static void two_events_of_one_message(void **state) {
  (void)state;
  tri_timeline *timeline = new_timeline(2);
  for (int k = 0; k < 2; k++) {
    uint64_t number = (uint64_t)k;
    add(timeline, message(TRI_MEETING_SEND, 0, 1, number, 10 * k + 3, 10 * k + 4));
    add(timeline, message(TRI_MEETING_RECEIVE, 0, 1, number, 10 * k, 10 * k));
    add(timeline, message(TRI_MEETING_RECEIVE, 0, 1, number, 10 * k + 1, 10 * k + 5));
  }
  CHECK_OK(tri_timeline_finish(timeline));
  for (int k = 0; k < 2; k++) expect(timeline->ranks[1].events[2 * k + 1].wait_s, 2);
  tri_timeline_destroy(timeline);
}

/* Without a send, the event keeps the wait that its producer has set, but at most its duration. */
static void waits_of_the_producer(void **state) {
  (void)state;
  tri_timeline *timeline = new_timeline(2);
  tri_event receive = message(TRI_MEETING_RECEIVE, 0, 1, 0, 0, 4);
  receive.wait_s = 9;
  add(timeline, receive);
  receive.begin_s = 5;
  receive.end_s = 7;
  receive.meeting.number = 1;
  receive.wait_s = NAN;
  add(timeline, receive);
  add(timeline, message(TRI_MEETING_SEND, 0, 1, 0, 2, 3));
  CHECK_OK(tri_timeline_finish(timeline));
  expect(timeline->ranks[1].events[0].wait_s, 4);
  expect(timeline->ranks[1].events[1].wait_s, 0);
  tri_timeline_destroy(timeline);
}

/* ---- shares ------------------------------------------------------------------------------------------------------ */

/* A reduction from 2 to 14, hidden until the backward ends at 8; another axis joins it from 10 on. */
static void hidden_and_exposed(void **state) {
  (void)state;
  tri_timeline *timeline = new_timeline(1);
  add(timeline, tri_event_make(0, TRI_EVENT_BACKWARD, "backward", 0, 8));
  add(timeline, communication(0, TRI_LANE_COMMUNICATION, TRI_AXIS_DATA, 2, 14));
  add(timeline, communication(0, TRI_LANE_COMMUNICATION, TRI_AXIS_DATA, 3, 14));
  add(timeline, communication(0, TRI_LANE_COMMUNICATION, TRI_AXIS_PIPELINE, 10, 14));
  add(timeline, tri_event_make(0, TRI_EVENT_OPTIMIZER, "optimizer", 15, 16));
  tri_timeline_shares shares = add_up(timeline, 0, 1);
  expect(shares.compute, 9.0 / 16);
  expect(shares.by_kind[TRI_EVENT_OPTIMIZER], 1.0 / 16);
  expect(shares.hidden[TRI_AXIS_DATA], 6.0 / 16);
  expect(shares.exposed[TRI_AXIS_DATA], 4.0 / 16);
  expect(shares.exposed[TRI_AXIS_PIPELINE], 2.0 / 16);
  expect(shares.bubble, 1.0 / 16);
  tri_timeline_destroy(timeline);
}

/* Three steps with pauses between them; only the last two are requested, and the pause between them counts for neither.
 * */
static void some_steps(void **state) {
  (void)state;
  tri_timeline *timeline = new_timeline(2);
  for (int step = 0; step < 3; step++) {
    for (int rank = 0; rank < 2; rank++) {
      tri_event event = tri_event_make(rank, TRI_EVENT_FORWARD, "forward", 100 * step, 100 * step + 4 + rank);
      event.step = 5 + step;
      add(timeline, event);
    }
  }
  tri_timeline_shares shares = add_up(timeline, 6, 100);
  assert_int_equal(shares.num_steps, 2);
  expect(shares.step_s, 5);
  expect(shares.compute, 0.9);
  expect(shares.bubble, 0.1);
  shares = add_up(timeline, 8, 100);
  assert_int_equal(shares.num_steps, 0);
  assert_true(shares.step_s == 0 && shares.compute == 0 && shares.bubble == 0);
  tri_timeline_destroy(timeline);
}

enum { GRID = 60 }; /* random events begin and end on whole seconds below it */

static bool goes_on(const tri_event *event, double time_s) { return event->begin_s < time_s && time_s < event->end_s; }

static bool is_inside(const tri_event *inner, const tri_event *outer) {
  if (inner->begin_s != outer->begin_s) return inner->begin_s > outer->begin_s;
  if (inner->end_s != outer->end_s) return inner->end_s < outer->end_s;
  return inner->kind >= outer->kind; /* of equal events the later one of the list */
}

static void add_shares(const tri_event_list *list, double time_s, tri_timeline_shares *shares) {
  const tri_event *inner = NULL;
  bool background[TRI_EVENT_AXES] = {false};
  int axes = 0;
  for (int64_t i = 0; i < list->count; i++) {
    const tri_event *event = &list->events[i];
    if (!goes_on(event, time_s)) continue;
    if (event->lane == TRI_LANE_COMPUTE && (inner == NULL || is_inside(event, inner))) inner = event;
    if (event->lane == TRI_LANE_COMMUNICATION && time_s > event->begin_s + event->wait_s) {
      background[event->axis] = true;
    }
  }
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) axes += background[axis];
  if (inner != NULL && inner->kind == TRI_EVENT_COMMUNICATION) {
    *(time_s > inner->begin_s + inner->wait_s ? &shares->exposed[inner->axis] : &shares->bubble) += 1;
    return;
  }
  if (inner != NULL) {
    shares->compute += 1;
    shares->by_kind[inner->kind] += 1;
  } else if (axes == 0) {
    shares->bubble += 1;
  }
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) {
    if (background[axis]) *(inner != NULL ? &shares->hidden[axis] : &shares->exposed[axis]) += 1.0 / axes;
  }
}

static bool in_a_step(const tri_timeline *timeline, int64_t first_step, int64_t end_step, double time_s) {
  for (int64_t step = first_step; step < end_step; step++) {
    bool before = false, after = false;
    for (int r = 0; r < timeline->num_ranks; r++) {
      for (int64_t i = 0; i < timeline->ranks[r].count; i++) {
        const tri_event *event = &timeline->ranks[r].events[i];
        before = before || (event->step == step && event->begin_s < time_s);
        after = after || (event->step == step && event->end_s > time_s);
      }
    }
    if (before && after) return true;
  }
  return false;
}

static void compare(const tri_timeline_shares *shares, const tri_timeline_shares *seen, double seconds) {
  expect(shares->compute * seconds, seen->compute);
  expect(shares->bubble * seconds, seen->bubble);
  for (int kind = 0; kind < TRI_NUM_EVENT_KINDS; kind++) expect(shares->by_kind[kind] * seconds, seen->by_kind[kind]);
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) {
    expect(shares->exposed[axis] * seconds, seen->exposed[axis]);
    expect(shares->hidden[axis] * seconds, seen->hidden[axis]);
  }
}

/* Events that are not nested, some without length, in any order. */
static void fill_at_random(tri_timeline *timeline, tri_random_key key) {
  for (uint64_t i = 0; i < 60; i++) {
    uint32_t words[8];
    for (uint64_t k = 0; k < 2; k++) tri_random_block(key, 2 * i + k, words + 4 * k);
    double begin_s = words[0] % (GRID - 12), end_s = begin_s + words[1] % 12;
    tri_event event = tri_event_make((int)(words[2] % (uint32_t)timeline->num_ranks), TRI_EVENT_COMMUNICATION, "event",
                                     begin_s, end_s);
    event.lane = words[3] % 3 == 0 ? TRI_LANE_COMMUNICATION : TRI_LANE_COMPUTE;
    if (event.lane == TRI_LANE_COMPUTE) event.kind = (tri_event_kind)(words[4] % TRI_NUM_EVENT_KINDS);
    event.axis = (int32_t)(words[5] % TRI_EVENT_AXES);
    event.wait_s = event.kind == TRI_EVENT_COMMUNICATION ? words[6] % 6 : 0;
    event.step = (int64_t)(begin_s / 15) + (words[7] % 4 == 0);
    add(timeline, event);
  }
}

static void every_unit_of_time(void **state) {
  (void)state;
  for (uint64_t trial = 0; trial < 300; trial++) {
    tri_random_key key = tri_random_stream(3, TRI_RANDOM_TEST, trial);
    tri_timeline *timeline = new_timeline(1 + (int)(trial % 4));
    fill_at_random(timeline, key);
    int64_t first_step = (int64_t)(trial % 3), end_step = first_step + 1 + (int64_t)(trial / 3 % 3);
    tri_timeline_shares shares = add_up(timeline, first_step, end_step);
    tri_timeline_shares seen = {0};
    double seconds = 0;
    for (int cell = 0; cell < GRID; cell++) {
      if (!in_a_step(timeline, first_step, end_step, cell + 0.5)) continue;
      for (int r = 0; r < timeline->num_ranks; r++) add_shares(&timeline->ranks[r], cell + 0.5, &seen);
      seconds += timeline->num_ranks;
    }
    compare(&shares, &seen, seconds);
    expect(shares.compute + tri_timeline_exposed(&shares) + shares.bubble, 1);
    expect(shares.step_s * (double)shares.num_steps * timeline->num_ranks, seconds);
    tri_timeline_destroy(timeline);
  }
}

/* ---- order and refusals ------------------------------------------------------------------------------------------ */

static void the_order_of_adding_is_nothing(void **state) {
  (void)state;
  tri_timeline *a = new_timeline(2), *b = new_timeline(2);
  fill_at_random(a, tri_random_stream(4, TRI_RANDOM_TEST, 0));
  for (int r = 0; r < 2; r++) {
    for (int64_t i = a->ranks[r].count - 1; i >= 0; i--) add(b, a->ranks[r].events[i]);
  }
  CHECK_OK(tri_timeline_finish(a));
  CHECK_OK(tri_timeline_finish(b));
  for (int r = 0; r < 2; r++) {
    for (int64_t i = 0; i < a->ranks[r].count; i++) {
      const tri_event *x = &a->ranks[r].events[i], *y = &b->ranks[r].events[i];
      assert_true(x->begin_s == y->begin_s && x->end_s == y->end_s && x->kind == y->kind && x->lane == y->lane);
      assert_true(i == 0 || x[-1].begin_s < x->begin_s || (x[-1].begin_s == x->begin_s && x[-1].end_s >= x->end_s));
    }
  }
  tri_timeline_destroy(a);
  tri_timeline_destroy(b);
}

static void steps_in_order(void **state) {
  (void)state;
  static const int64_t order[] = {3, 1, 2, 3, 9, 1, 0, 3};
  static const tri_timeline_step expected[] = {{0, 6, 7}, {1, 1, 6}, {2, 2, 3}, {3, 0, 8}, {9, 4, 5}};
  tri_timeline *timeline = new_timeline(3);
  tri_timeline_step *steps = NULL;
  int64_t count = -1;
  double begin_s = -1, end_s = -1;
  CHECK_OK(tri_timeline_steps(timeline, &steps, &count));
  assert_int_equal(count, 0);
  tri_free(steps);
  assert_false(tri_timeline_span(timeline, &begin_s, &end_s));
  for (int i = 0; i < 8; i++) {
    tri_event event = tri_event_make(i % 3, TRI_EVENT_LOAD, "load", i, i + 1);
    event.step = order[i];
    add(timeline, event);
  }
  CHECK_OK(tri_timeline_finish(timeline));
  CHECK_OK(tri_timeline_steps(timeline, &steps, &count));
  assert_int_equal(count, 5);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(steps[i].step, expected[i].step);
    expect(steps[i].begin_s, expected[i].begin_s);
    expect(steps[i].end_s, expected[i].end_s);
  }
  assert_true(tri_timeline_span(timeline, &begin_s, &end_s));
  expect(begin_s, 0);
  expect(end_s, 8);
  tri_free(steps);
  tri_timeline_destroy(timeline);
}

static void impossible_events(void **state) {
  (void)state;
  tri_timeline *timeline = new_timeline(2);
  tri_timeline_shares shares;
  tri_event event = tri_event_make(2, TRI_EVENT_FORWARD, "forward", 0, 1);
  CHECK_FAILS(tri_timeline_add(timeline, &event), TRI_INTERNAL, "event forward of kind 0 of rank 2 along axis 8");
  event = tri_event_make(0, TRI_EVENT_FORWARD, "forward", 0, 1);
  event.axis = -1;
  CHECK_FAILS(tri_timeline_add(timeline, &event), TRI_INTERNAL, "of rank 0 along axis -1");
  event = tri_event_make(0, (tri_event_kind)TRI_NUM_EVENT_KINDS, "forward", 0, 1);
  CHECK_FAILS(tri_timeline_add(timeline, &event), TRI_INTERNAL, "of kind 8");
  event = tri_event_make(1, TRI_EVENT_FORWARD, "forward", 2, 1);
  CHECK_FAILS(tri_timeline_add(timeline, &event), TRI_INTERNAL, "of rank 1 begins at 2 s and ends at 1 s");
  event = tri_event_make(1, TRI_EVENT_FORWARD, "forward", NAN, 1);
  CHECK_FAILS(tri_timeline_add(timeline, &event), TRI_INTERNAL, "begins at nan s");
  CHECK_FAILS(tri_timeline_add_up(timeline, 0, 1, &shares), TRI_INTERNAL, "before it is finished");
  event = tri_event_make(0, TRI_EVENT_FORWARD, "a name that is longer than it may be", 0, 1);
  assert_string_equal(event.name, "a name that is longer t");
  tri_timeline_destroy(timeline);
}

static void names(void **state) {
  (void)state;
  assert_string_equal(tri_event_kind_name(TRI_EVENT_BACKWARD_INPUT), "backward_input");
  assert_string_equal(tri_event_kind_name(TRI_EVENT_COMMUNICATION), "communication");
  assert_string_equal(tri_event_axis_name(TRI_AXIS_PIPELINE), "pipeline");
  assert_string_equal(tri_event_axis_name(TRI_EVENT_NO_AXIS), "all");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bubble_of_1f1b),
      cmocka_unit_test(a_late_rank_is_a_bubble),
      cmocka_unit_test(the_first_event_of_a_rank_counts),
      cmocka_unit_test(other_collectives_are_not_waited_for),
      cmocka_unit_test(messages_by_their_order),
      cmocka_unit_test(two_events_of_one_message),
      cmocka_unit_test(waits_of_the_producer),
      cmocka_unit_test(hidden_and_exposed),
      cmocka_unit_test(some_steps),
      cmocka_unit_test(every_unit_of_time),
      cmocka_unit_test(the_order_of_adding_is_nothing),
      cmocka_unit_test(steps_in_order),
      cmocka_unit_test(impossible_events),
      cmocka_unit_test(names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
