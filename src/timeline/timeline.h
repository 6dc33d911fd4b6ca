/* Timelines of ranks. An event has a begin and an end in seconds; events can be drawn and added up.
 *
 * A timeline is filled by a run that measured itself (base/flight_recorder.h), or by a simulator that computed it. This
 * module uses no clock, no MPI and no engine.
 *
 * A rank has two lanes. The compute lane has the events of the rank's own thread, one after the other. An event may be
 * nested in another, such as a collective in a forward; at any moment the innermost event counts. The communication
 * lane has the communication in the background; its events may overlap.
 *
 * An event of communication begins with `wait_s` seconds in which the rank waits for another rank. Only the rest of the
 * event is communication. A pipeline stage that waits for its neighbour is therefore idle, however the wait is
 * implemented. A producer of events sets wait_s itself, or marks the events of several ranks that belong together
 * (tri_meeting); then tri_timeline_finish computes the waits. */
#ifndef TRI_TIMELINE_TIMELINE_H
#define TRI_TIMELINE_TIMELINE_H

#include "base/status.h"
#include "mesh/coordinates.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- events ------------------------------------------------------------------------------------------------------ */

typedef enum tri_event_kind {
  TRI_EVENT_FORWARD,
  TRI_EVENT_BACKWARD,
  TRI_EVENT_BACKWARD_INPUT,
  TRI_EVENT_BACKWARD_WEIGHT,
  TRI_EVENT_OPTIMIZER,
  TRI_EVENT_LOAD,   /* reads data; includes all other preparation of a step */
  TRI_EVENT_SAMPLE, /* samples and scores completions, in reinforcement learning */
  TRI_EVENT_COMMUNICATION,
} tri_event_kind;
enum { TRI_NUM_EVENT_KINDS = 8 };

typedef enum tri_event_lane { TRI_LANE_COMPUTE, TRI_LANE_COMMUNICATION } tri_event_lane;

/* Axis of events that do not belong to one tri_axis: communication of all ranks, and events without communication. */
enum { TRI_EVENT_NO_AXIS = TRI_NUM_AXES, TRI_EVENT_AXES = TRI_NUM_AXES + 1 };

typedef enum tri_meeting_kind {
  TRI_MEETING_NONE,
  TRI_MEETING_COLLECTIVE, /* no rank continues before all ranks have arrived */
  TRI_MEETING_SEND,       /* the sender does not wait */
  TRI_MEETING_RECEIVE,    /* the receiver does not continue before the send has begun */
} tri_meeting_kind;

/* Relation of an event to events of other ranks. */
typedef struct tri_meeting {
  tri_meeting_kind kind;
  /* For a message: the ranks of its sender and its receiver. For a collective: its first rank, and the index of its
   * group among the groups of that rank. */
  int32_t first, other;
  int32_t tag; /* tag of a message */
  /* A number that identifies the collective or the message. All ranks of a collective use the same number, and no other
   * collective of their group has it. Messages of a step from the same sender to the same receiver with the same tag
   * are matched in the order of their numbers on each side. Events of one rank with equal numbers belong to the same
   * collective or message. */
  uint64_t number;
} tri_meeting;

enum { TRI_EVENT_NAME_BYTES = 24 };

typedef struct tri_event {
  double begin_s, end_s, wait_s; /* wait_s: duration of the wait with which the event begins */
  int64_t step, bytes;           /* step: number of the step, from 0; bytes: size of the communication */
  tri_meeting meeting;
  int32_t rank, micro_batch, chunk; /* rank of the event; micro-batch and chunk that it works on, -1: none */
  int32_t axis;                     /* axis of communication: a tri_axis, or TRI_EVENT_NO_AXIS */
  tri_event_kind kind;
  tri_event_lane lane;
  char name[TRI_EVENT_NAME_BYTES];
} tri_event;

/* Returns an event of the compute lane, without a step, an axis or a micro-batch. Truncates a name that is too long. */
tri_event tri_event_make(int rank, tri_event_kind kind, const char *name, double begin_s, double end_s);

/* Returns "forward", "backward_input", ... */
const char *tri_event_kind_name(tri_event_kind kind);
/* Returns "tensor", "data", ..., and "all" for TRI_EVENT_NO_AXIS. */
const char *tri_event_axis_name(int axis);

/* A list of events that grows; starts as {0}. */
typedef struct tri_event_list {
  tri_event *events;
  int64_t count, capacity;
} tri_event_list;

/* Makes room for `capacity` events. */
tri_status tri_event_list_reserve(tri_event_list *list, int64_t capacity);
tri_status tri_event_list_add(tri_event_list *list, const tri_event *event);
void tri_event_list_release(tri_event_list *list);

/* ---- a timeline -------------------------------------------------------------------------------------------------- */

enum { TRI_TIMELINE_LABEL_BYTES = 96 };

typedef struct tri_timeline {
  int num_ranks;
  tri_event_list *ranks; /* [num_ranks]: events of each rank; tri_timeline_finish sorts them by begin, with enclosing
                            events first */
  char (*labels)[TRI_TIMELINE_LABEL_BYTES]; /* [num_ranks], such as "rank 3: tensor 1, pipeline 2"; the caller may
                                               change them */
  /* Whether tri_timeline_finish was called after the last tri_timeline_add. */
  bool finished;
} tri_timeline;

/* Creates a timeline with labels "rank 0", "rank 1", ... Release with tri_timeline_destroy. */
tri_status tri_timeline_create(int num_ranks, tri_timeline **out);
void tri_timeline_destroy(tri_timeline *timeline);

/* Adds a copy of an event. Fails with TRI_INTERNAL if the event is not possible: its rank, axis or kind does not exist,
 * its times are not finite, or it ends before it begins. Limits wait_s to the duration of the event. */
tri_status tri_timeline_add(tri_timeline *timeline, const tri_event *event);

/* Sorts the events, and computes the waits of events with meetings. Call it after the last tri_timeline_add and before
 * the functions below. */
tri_status tri_timeline_finish(tri_timeline *timeline);

/* Computes the first begin and the last end of all events. Returns false if there are no events. */
bool tri_timeline_span(const tri_timeline *timeline, double *begin_s, double *end_s);

typedef struct tri_timeline_step {
  int64_t step;
  double begin_s, end_s; /* the first begin and the last end of its events */
} tri_timeline_step;

/* Lists the steps of a timeline in order, (*out)[*count]. Release *out with tri_free. */
tri_status tri_timeline_steps(const tri_timeline *timeline, tri_timeline_step **out, int64_t *count);

/* ---- shares (timeline_shares.c) ---------------------------------------------------------------------------------- */

/* Shares of the time of steps, averaged over the ranks: compute + all of exposed + bubble = 1.
 *
 * compute   the innermost event of the compute lane computes,
 * exposed   that event communicates; or the compute lane is idle and the communication lane is active,
 * bubble    that event waits for another rank; or both lanes are idle,
 * hidden    the communication lane is active while the rank computes: a part of compute.
 *
 * The innermost event is the one that began last. If the communication lane is active along several axes at once, the
 * time is divided evenly among them. The time of steps is all time in which at least one of them is in progress, and
 * any event in it counts. So nothing is counted twice if a step begins before all ranks have ended the previous step.
 */
typedef struct tri_timeline_shares {
  int64_t num_steps;
  double step_s; /* total duration of the steps, divided by their number */
  double compute;
  double by_kind[TRI_NUM_EVENT_KINDS]; /* [kind]: part of `compute` in events of this kind; 0 for
                                          TRI_EVENT_COMMUNICATION */
  double exposed[TRI_EVENT_AXES], hidden[TRI_EVENT_AXES];
  double bubble;
} tri_timeline_shares;

/* Computes the shares of the steps [first_step, end_step); steps without events do not count. All shares are 0 if no
 * step has events. Fails with TRI_INTERNAL if the timeline is not finished. */
tri_status tri_timeline_add_up(const tri_timeline *timeline, int64_t first_step, int64_t end_step,
                               tri_timeline_shares *out);

double tri_timeline_exposed(const tri_timeline_shares *shares); /* returns the sum of `exposed` over all axes */

/* ---- files (timeline_json.c, timeline_svg.c) --------------------------------------------------------------------- */

/* Both files number steps from 1 and micro-batches from 0, as all other output does. Both functions fail with
 * TRI_INTERNAL if the timeline is not finished. */

/* Replaces the file at `path` by the timeline in the trace event format, which Perfetto (ui.perfetto.dev) and Chrome
 * read. Each rank is a process, and each lane is a thread. Overlapping events of the communication lane get further
 * threads. */
tri_status tri_timeline_write_json(const tri_timeline *timeline, const char *path);

/* Replaces the file at `path` by a drawing, with a row for each rank and time from left to right. The drawing shows the
 * last three steps, and at most 256 ranks, which are evenly chosen. The shares at the top are those of all steps and
 * all ranks. */
tri_status tri_timeline_write_svg(const tri_timeline *timeline, const char *title, const char *path);

#endif
