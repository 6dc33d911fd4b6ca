#include "timeline/timeline.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- events ------------------------------------------------------------------------------------------------------ */

const char *tri_event_kind_name(tri_event_kind kind) {
  switch (kind) {
    case TRI_EVENT_FORWARD: return "forward";
    case TRI_EVENT_BACKWARD: return "backward";
    case TRI_EVENT_BACKWARD_INPUT: return "backward_input";
    case TRI_EVENT_BACKWARD_WEIGHT: return "backward_weight";
    case TRI_EVENT_OPTIMIZER: return "optimizer";
    case TRI_EVENT_LOAD: return "load";
    case TRI_EVENT_SAMPLE: return "sample";
    case TRI_EVENT_COMMUNICATION: return "communication";
  }
  return "?";
}

const char *tri_event_axis_name(int axis) { return axis < TRI_NUM_AXES ? tri_axis_name((tri_axis)axis) : "all"; }

tri_event tri_event_make(int rank, tri_event_kind kind, const char *name, double begin_s, double end_s) {
  tri_event event = {.begin_s = begin_s,
                     .end_s = end_s,
                     .rank = rank,
                     .micro_batch = -1,
                     .chunk = -1,
                     .axis = TRI_EVENT_NO_AXIS,
                     .kind = kind};
  snprintf(event.name, sizeof event.name, "%s", name);
  return event;
}

tri_status tri_event_list_reserve(tri_event_list *list, int64_t capacity) {
  if (capacity <= list->capacity) return TRI_OK;
  TRI_TRY(tri_realloc("events of a timeline", (size_t)capacity, sizeof *list->events, &list->events));
  list->capacity = capacity;
  return TRI_OK;
}

tri_status tri_event_list_add(tri_event_list *list, const tri_event *event) {
  if (list->count == list->capacity) TRI_TRY(tri_event_list_reserve(list, list->count == 0 ? 64 : 2 * list->count));
  list->events[list->count++] = *event;
  return TRI_OK;
}

void tri_event_list_release(tri_event_list *list) {
  tri_free(list->events);
  *list = (tri_event_list){0};
}

/* ---- a timeline -------------------------------------------------------------------------------------------------- */

tri_status tri_timeline_create(int num_ranks, tri_timeline **out) {
  tri_timeline *timeline = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("a timeline", 1, sizeof *timeline, &timeline));
  TRI_TRY_GOTO(tri_alloc("a timeline", (size_t)num_ranks, sizeof *timeline->ranks, &timeline->ranks), failed);
  timeline->num_ranks = num_ranks;
  TRI_TRY_GOTO(tri_alloc("a timeline", (size_t)num_ranks, sizeof *timeline->labels, &timeline->labels), failed);
  for (int r = 0; r < num_ranks; r++) snprintf(timeline->labels[r], sizeof timeline->labels[r], "rank %d", r);
  *out = timeline;
  return TRI_OK;
failed:
  tri_timeline_destroy(timeline);
  return status;
}

void tri_timeline_destroy(tri_timeline *timeline) {
  if (timeline == NULL) return;
  for (int r = 0; r < timeline->num_ranks; r++) tri_event_list_release(&timeline->ranks[r]);
  tri_free(timeline->ranks);
  tri_free(timeline->labels);
  tri_free(timeline);
}

tri_status tri_timeline_add(tri_timeline *timeline, const tri_event *event) {
  if (event->rank < 0 || event->rank >= timeline->num_ranks || event->axis < 0 || event->axis >= TRI_EVENT_AXES ||
      (unsigned)event->kind >= TRI_NUM_EVENT_KINDS) {
    return tri_fail_internal("event %s of kind %d of rank %d along axis %d is not one of a timeline of %d ranks",
                             event->name, (int)event->kind, event->rank, event->axis, timeline->num_ranks);
  }
  if (!isfinite(event->begin_s) || !isfinite(event->end_s) || event->end_s < event->begin_s) {
    return tri_fail_internal("event %s of rank %d begins at %g s and ends at %g s", event->name, event->rank,
                             event->begin_s, event->end_s);
  }
  tri_event_list *list = &timeline->ranks[event->rank];
  TRI_TRY(tri_event_list_add(list, event));
  tri_event *added = &list->events[list->count - 1];
  added->wait_s = fmin(fmax(0, added->wait_s), added->end_s - added->begin_s); /* NaN becomes 0 */
  timeline->finished = false;
  return TRI_OK;
}

bool tri_timeline_span(const tri_timeline *timeline, double *begin_s, double *end_s) {
  bool any = false;
  double begin = INFINITY, end = -INFINITY;
  for (int r = 0; r < timeline->num_ranks; r++) {
    for (int64_t i = 0; i < timeline->ranks[r].count; i++) {
      begin = fmin(begin, timeline->ranks[r].events[i].begin_s);
      end = fmax(end, timeline->ranks[r].events[i].end_s);
      any = true;
    }
  }
  if (!any) return false;
  *begin_s = begin;
  *end_s = end;
  return true;
}

static int64_t count_events(const tri_timeline *timeline) {
  int64_t count = 0;
  for (int r = 0; r < timeline->num_ranks; r++) count += timeline->ranks[r].count;
  return count;
}

/* Adds an event to its step. The steps stay sorted. */
static void note_step(tri_timeline_step *steps, int64_t *count, const tri_event *event) {
  int64_t at = 0;
  for (int64_t end = *count; at < end;) {
    int64_t middle = at + (end - at) / 2;
    if (steps[middle].step < event->step) {
      at = middle + 1;
    } else {
      end = middle;
    }
  }
  tri_timeline_step *step = &steps[at];
  if (at < *count && step->step == event->step) {
    step->begin_s = fmin(step->begin_s, event->begin_s);
    step->end_s = fmax(step->end_s, event->end_s);
    return;
  }
  memmove(step + 1, step, (size_t)(*count - at) * sizeof *step);
  *step = (tri_timeline_step){event->step, event->begin_s, event->end_s};
  (*count)++;
}

tri_status tri_timeline_steps(const tri_timeline *timeline, tri_timeline_step **out, int64_t *count) {
  tri_timeline_step *steps = NULL;
  int64_t held = 0, capacity = 0;
  for (int r = 0; r < timeline->num_ranks; r++) {
    for (int64_t i = 0; i < timeline->ranks[r].count; i++) {
      tri_status status = tri_grow("steps of a timeline", sizeof *steps, held, &capacity, &steps);
      if (status != TRI_OK) {
        tri_free(steps);
        return status;
      }
      note_step(steps, &held, &timeline->ranks[r].events[i]);
    }
  }
  *out = steps;
  *count = held;
  return TRI_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static int sign_of(double a, double b) { return (a > b) - (a < b); }

static int sign_of_ints(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* Compares events by begin. If two events begin at the same time, the enclosing one comes first: the longer event, or
 * the one that computes if both are equally long. The further comparisons make the order independent of the order in
 * which the events were added. */
static int compare_events(const void *left, const void *right) {
  const tri_event *a = left, *b = right;
  int order = sign_of(a->begin_s, b->begin_s);
  if (order == 0) order = sign_of(b->end_s, a->end_s);
  if (order == 0) order = sign_of_ints((int64_t)a->lane, (int64_t)b->lane);
  if (order == 0) order = sign_of_ints((int64_t)a->kind, (int64_t)b->kind);
  if (order == 0) order = sign_of_ints(a->step, b->step);
  if (order == 0) order = sign_of_ints(a->chunk, b->chunk);
  if (order == 0) order = sign_of_ints(a->micro_batch, b->micro_batch);
  if (order == 0) order = sign_of_ints(a->axis, b->axis);
  if (order == 0) order = sign_of_ints(a->bytes, b->bytes);
  return order == 0 ? strcmp(a->name, b->name) : order;
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

static int sign_of_numbers(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static bool is_message(const tri_event *event) { return event->meeting.kind != TRI_MEETING_COLLECTIVE; }

/* Compares the places of two meetings. Collectives of the same group are equal. Sends from the same sender to the same
 * receiver with the same tag in the same step are equal, and so are such receives. */
static int compare_places(const tri_event *a, const tri_event *b) {
  int order = (int)is_message(a) - (int)is_message(b);
  if (order == 0) order = sign_of_ints(a->meeting.first, b->meeting.first);
  if (order == 0) order = sign_of_ints(a->meeting.other, b->meeting.other);
  if (order == 0 && is_message(a)) order = sign_of_ints(a->meeting.tag, b->meeting.tag);
  if (order == 0 && is_message(a)) order = sign_of_ints(a->step, b->step);
  if (order == 0) order = sign_of_ints((int64_t)a->meeting.kind, (int64_t)b->meeting.kind);
  return order;
}

static int compare_meetings(const void *left, const void *right) {
  const tri_event *a = *(tri_event *const *)left, *b = *(tri_event *const *)right;
  int order = compare_places(a, b);
  if (order == 0) order = sign_of_numbers(a->meeting.number, b->meeting.number);
  if (order == 0) order = sign_of_ints(a->rank, b->rank);
  return order == 0 ? sign_of(a->begin_s, b->begin_s) : order;
}

static void wait_until(tri_event *event, double time_s) {
  event->wait_s = fmax(0, fmin(time_s, event->end_s) - event->begin_s);
}

/* Returns the end of the events from `first` on that belong to the same collective, or to the same side of a
 * message. */
static int64_t end_of_meeting(tri_event *const *met, int64_t first, int64_t count) {
  int64_t end = first + 1;
  while (end < count && compare_places(met[first], met[end]) == 0 &&
         met[first]->meeting.number == met[end]->meeting.number) {
    end++;
  }
  return end;
}

/* Sets the waits of a collective: no rank continues before the last rank has arrived. A rank arrives with the first of
 * its events. */
static void wait_for_all(tri_event **met, int64_t first, int64_t end) {
  double last_s = -INFINITY;
  for (int64_t i = first; i < end; i++) {
    if (i == first || met[i]->rank != met[i - 1]->rank) last_s = fmax(last_s, met[i]->begin_s);
  }
  for (int64_t i = first; i < end; i++) wait_until(met[i], last_s);
}

static int64_t count_meetings(tri_event *const *met, int64_t first, int64_t end) {
  int64_t meetings = 0;
  for (; first < end; first = end_of_meeting(met, first, end)) meetings++;
  return meetings;
}

/* Sets the waits of messages in one direction: sends [first, middle) and receives [middle, end). If the numbers of
 * sends and receives differ, sets no waits, because it is not known which ones are missing. */
static void wait_for_sends(tri_event **met, int64_t first, int64_t middle, int64_t end) {
  if (count_meetings(met, first, middle) != count_meetings(met, middle, end)) return;
  int64_t send = first;
  for (int64_t receive = middle; receive < end; send = end_of_meeting(met, send, middle)) {
    for (int64_t same = end_of_meeting(met, receive, end); receive < same; receive++) {
      wait_until(met[receive], met[send]->begin_s);
    }
  }
}

static void find_waits(tri_event **met, int64_t count) {
  for (int64_t first = 0, end; first < count; first = end) {
    end = end_of_meeting(met, first, count);
    if (met[first]->meeting.kind == TRI_MEETING_COLLECTIVE) {
      wait_for_all(met, first, end);
      continue;
    }
    while (end < count && compare_places(met[first], met[end]) == 0) end++;
    if (met[first]->meeting.kind != TRI_MEETING_SEND || end == count) continue;
    tri_event as_received = *met[first];
    as_received.meeting.kind = TRI_MEETING_RECEIVE;
    int64_t middle = end;
    while (end < count && compare_places(&as_received, met[end]) == 0) end++;
    wait_for_sends(met, first, middle, end);
  }
}

tri_status tri_timeline_finish(tri_timeline *timeline) {
  tri_event **met = NULL;
  int64_t count = 0;
  TRI_TRY(tri_alloc("meetings of a timeline", (size_t)count_events(timeline), sizeof(tri_event *), &met));
  for (int r = 0; r < timeline->num_ranks; r++) {
    tri_event_list *list = &timeline->ranks[r];
    if (list->count > 0) qsort(list->events, (size_t)list->count, sizeof *list->events, compare_events);
    for (int64_t i = 0; i < list->count; i++) {
      if (list->events[i].meeting.kind != TRI_MEETING_NONE) met[count++] = &list->events[i];
    }
  }
  qsort(met, (size_t)count, sizeof(tri_event *), compare_meetings);
  find_waits(met, count);
  tri_free(met);
  timeline->finished = true;
  return TRI_OK;
}
