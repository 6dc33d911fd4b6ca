/* Computes the shares of time.
 *
 * The events of each rank are swept once. An edge is a time at which the state of the rank may change: an event begins,
 * ends or stops waiting, or a step begins or ends. Between two edges the state is constant, so all of that time is of
 * one kind. The state of the compute lane is a stack of the events that have begun; the innermost event is the topmost
 * one that has not ended. The state of the communication lane is the number of active events along each axis. */
#include "timeline/timeline.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

typedef struct edge {
  double time_s;
  int64_t begins;       /* index of the event of the compute lane that begins; -1: no event begins */
  int axis, background; /* background: change of the number of active events of the communication lane along `axis` */
  int steps;            /* change of the number of steps in progress */
} edge;

typedef struct sweep {
  const tri_event *events;
  edge *edges;
  int64_t num_edges;
  const tri_event **stack;
  int64_t depth;
  int background[TRI_EVENT_AXES];
  int steps;
} sweep;

static double waited_until(const tri_event *event) { return fmin(event->begin_s + event->wait_s, event->end_s); }

/* Compares edges by time. If events begin at the same time, the enclosing event comes first, as in the list of
 * events. */
static int compare_edges(const void *left, const void *right) {
  const edge *a = left, *b = right;
  if (a->time_s != b->time_s) return a->time_s < b->time_s ? -1 : 1;
  return (a->begins > b->begins) - (a->begins < b->begins);
}

static void add_event(sweep *s, int64_t index) {
  const tri_event *event = &s->events[index];
  edge none = {.begins = -1, .axis = event->axis};
  edge *edges = s->edges + s->num_edges;
  s->num_edges += 3;
  for (int i = 0; i < 3; i++) edges[i] = none;
  edges[0].time_s = event->begin_s;
  edges[1].time_s = waited_until(event);
  edges[2].time_s = event->end_s;
  switch (event->lane) {
    case TRI_LANE_COMPUTE: edges[0].begins = index; break;
    case TRI_LANE_COMMUNICATION:
      edges[1].background = 1;
      edges[2].background = -1;
      break;
  }
}

static void add_step(sweep *s, const tri_timeline_step *step) {
  s->edges[s->num_edges++] = (edge){.time_s = step->begin_s, .begins = -1, .steps = 1};
  s->edges[s->num_edges++] = (edge){.time_s = step->end_s, .begins = -1, .steps = -1};
}

static const tri_event *innermost(sweep *s, double time_s) {
  while (s->depth > 0 && s->stack[s->depth - 1]->end_s <= time_s) s->depth--;
  return s->depth == 0 ? NULL : s->stack[s->depth - 1];
}

static void divide_among_axes(const sweep *s, int axes, double length_s, double seconds[TRI_EVENT_AXES]) {
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) {
    if (s->background[axis] > 0) seconds[axis] += length_s / axes;
  }
}

/* Adds `length_s` seconds from `begin_s` on, in which the state is constant. Until the end of the sweep, `shares` has
 * seconds in place of shares. */
static void add_time(sweep *s, double begin_s, double length_s, tri_timeline_shares *shares) {
  const tri_event *event = innermost(s, begin_s);
  int axes = 0;
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) axes += s->background[axis] > 0;
  if (event == NULL && axes == 0) {
    shares->bubble += length_s;
  } else if (event == NULL) {
    divide_among_axes(s, axes, length_s, shares->exposed);
  } else if (event->kind != TRI_EVENT_COMMUNICATION) {
    shares->compute += length_s;
    shares->by_kind[event->kind] += length_s;
    divide_among_axes(s, axes, length_s, shares->hidden);
  } else if (begin_s < waited_until(event)) {
    shares->bubble += length_s;
  } else {
    shares->exposed[event->axis] += length_s;
  }
}

static void sweep_edges(sweep *s, tri_timeline_shares *shares) {
  qsort(s->edges, (size_t)s->num_edges, sizeof *s->edges, compare_edges);
  for (int64_t i = 0; i < s->num_edges; i++) {
    const edge *now = &s->edges[i];
    if (now->begins >= 0) s->stack[s->depth++] = &s->events[now->begins];
    s->background[now->axis] += now->background;
    s->steps += now->steps;
    if (s->steps == 0 || i + 1 == s->num_edges || s->edges[i + 1].time_s == now->time_s) continue;
    add_time(s, now->time_s, s->edges[i + 1].time_s - now->time_s, shares);
  }
}

static tri_status add_rank(const tri_event_list *list, const tri_timeline_step *steps, int64_t num_steps,
                           tri_timeline_shares *shares) {
  tri_status status = TRI_OK;
  sweep s = {.events = list->events};
  TRI_TRY(tri_alloc("shares of a timeline", (size_t)(3 * list->count + 2 * num_steps), sizeof *s.edges, &s.edges));
  TRI_TRY_GOTO(tri_alloc("shares of a timeline", (size_t)list->count, sizeof(tri_event *), &s.stack), free_edges);
  for (int64_t i = 0; i < list->count; i++) add_event(&s, i);
  for (int64_t i = 0; i < num_steps; i++) add_step(&s, &steps[i]);
  sweep_edges(&s, shares);
  tri_free(s.stack);
free_edges:
  tri_free(s.edges);
  return status;
}

/* Converts the seconds of all ranks to shares. */
static void divide(tri_timeline_shares *shares, int num_ranks) {
  double total_s = shares->compute + tri_timeline_exposed(shares) + shares->bubble;
  if (total_s <= 0) return;
  shares->step_s = total_s / num_ranks / (double)shares->num_steps;
  shares->compute /= total_s;
  shares->bubble /= total_s;
  for (int kind = 0; kind < TRI_NUM_EVENT_KINDS; kind++) shares->by_kind[kind] /= total_s;
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) {
    shares->exposed[axis] /= total_s;
    shares->hidden[axis] /= total_s;
  }
}

tri_status tri_timeline_add_up(const tri_timeline *timeline, int64_t first_step, int64_t end_step,
                               tri_timeline_shares *out) {
  if (!timeline->finished) return tri_fail_internal("a timeline is added up before it is finished");
  tri_status status = TRI_OK;
  tri_timeline_step *steps = NULL;
  int64_t count = 0, first = 0;
  TRI_TRY(tri_timeline_steps(timeline, &steps, &count));
  while (first < count && steps[first].step < first_step) first++;
  while (count > first && steps[count - 1].step >= end_step) count--;
  tri_timeline_shares shares = {.num_steps = count - first};
  for (int r = 0; r < timeline->num_ranks && shares.num_steps > 0; r++) {
    TRI_TRY_GOTO(add_rank(&timeline->ranks[r], steps + first, count - first, &shares), free_steps);
  }
  divide(&shares, timeline->num_ranks);
  *out = shares;
free_steps:
  tri_free(steps);
  return status;
}

double tri_timeline_exposed(const tri_timeline_shares *shares) {
  double sum = 0;
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) sum += shares->exposed[axis];
  return sum;
}
