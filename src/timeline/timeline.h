/* What ranks did when: events with a begin and an end in seconds, drawn and added up.
 *
 * A timeline is filled by a run that measured itself (train/flight_recorder.h), or by a simulator that computed
 * it. Nothing here knows a clock, MPI or the engine.
 *
 * A rank has two lanes. The compute lane is what its own thread did, one thing after the other: an event may lie inside
 * another (a collective inside a forward), and what counts at any moment is the innermost. The communication lane is
 * what went on in the background meanwhile; its events may overlap.
 *
 * An event of communication begins with `wait_s` seconds in which it could not go on, because another rank had not come
 * yet; only the rest is communication. A pipeline stage that waits for its neighbour is therefore idle, however the
 * waiting was done. A producer says wait_s itself, or says which events of several ranks belong together (tri_meeting)
 * and tri_timeline_finish finds it. */
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
  TRI_EVENT_LOAD, /* and what else readies a step */
  TRI_EVENT_COMMUNICATION,
} tri_event_kind;
enum { TRI_NUM_EVENT_KINDS = 7 };

typedef enum tri_event_lane { TRI_LANE_COMPUTE, TRI_LANE_COMMUNICATION } tri_event_lane;

/* An event's axis is a tri_axis or, where it lies along none of them (all ranks together), this one. */
enum { TRI_EVENT_NO_AXIS = TRI_NUM_AXES, TRI_EVENT_AXES = TRI_NUM_AXES + 1 };

typedef enum tri_meeting_kind {
  TRI_MEETING_NONE,
  TRI_MEETING_COLLECTIVE, /* no rank goes on before all have arrived */
  TRI_MEETING_SEND,       /* does not wait */
  TRI_MEETING_RECEIVE,    /* does not go on before the send has begun */
} tri_meeting_kind;

/* What an event of one rank has in common with events of others. */
typedef struct tri_meeting {
  tri_meeting_kind kind;
  /* A message's sender and receiver; a collective's first rank, and which of that rank's groups. */
  int32_t first, other;
  int32_t tag; /* of a message */
  /* A collective: equal on all ranks, and different from all others of its group. A message: the k-th of a step from
   * sender to receiver with a tag is on either side the one with the k-th number. Events of one rank with equal numbers
   * are about the same thing. */
  uint64_t number;
} tri_meeting;

enum { TRI_EVENT_NAME_BYTES = 24 };

typedef struct tri_event {
  double begin_s, end_s, wait_s;
  int64_t step, bytes;
  tri_meeting meeting;
  int32_t rank, micro_batch, chunk; /* micro_batch and chunk: -1: none */
  int32_t axis;                     /* of communication */
  tri_event_kind kind;
  tri_event_lane lane;
  char name[TRI_EVENT_NAME_BYTES];
} tri_event;

/* An event of the compute lane, of no step, axis or micro-batch; a longer name is cut. */
tri_event tri_event_make(int rank, tri_event_kind kind, const char *name, double begin_s, double end_s);

/* "forward", "backward_input", ... */
const char *tri_event_kind_name(tri_event_kind kind);
/* "tensor", "data", ..., and "all" for TRI_EVENT_NO_AXIS. */
const char *tri_event_axis_name(int axis);

/* A growing list; starts as {0}. */
typedef struct tri_event_list {
  tri_event *events;
  int64_t count, capacity;
} tri_event_list;

tri_status tri_event_list_reserve(tri_event_list *list, int64_t capacity);
tri_status tri_event_list_add(tri_event_list *list, const tri_event *event);
void tri_event_list_release(tri_event_list *list);

/* ---- a timeline -------------------------------------------------------------------------------------------------- */

enum { TRI_TIMELINE_LABEL_BYTES = 96 };

typedef struct tri_timeline {
  int num_ranks;
  tri_event_list *ranks;                    /* [num_ranks]; once finished, by begin and the enclosing event first */
  char (*labels)[TRI_TIMELINE_LABEL_BYTES]; /* [num_ranks] "rank 3: tensor 1, pipeline 2"; may be set again */
  bool finished;
} tri_timeline;

/* Release with tri_timeline_destroy. Labels are "rank 0", "rank 1", ... */
tri_status tri_timeline_create(int num_ranks, tri_timeline **out);
void tri_timeline_destroy(tri_timeline *timeline);

/* TRI_INTERNAL for an event that no rank can have had: one that ends before it begins, or of a rank that is not there.
 * wait_s is cut to the length of the event. */
tri_status tri_timeline_add(tri_timeline *timeline, const tri_event *event);

/* Orders the events and finds what events with meetings waited. After the last tri_timeline_add; what follows needs it.
 */
tri_status tri_timeline_finish(tri_timeline *timeline);

/* The first begin and the last end of all events; false if there are no events. */
bool tri_timeline_span(const tri_timeline *timeline, double *begin_s, double *end_s);

typedef struct tri_timeline_step {
  int64_t step;
  double begin_s, end_s; /* the first begin and the last end of its events */
} tri_timeline_step;

/* The steps of a timeline in order; *out of *count, released with tri_free. */
tri_status tri_timeline_steps(const tri_timeline *timeline, tri_timeline_step **out, int64_t *count);

/* ---- shares (timeline_shares.c) ---------------------------------------------------------------------------------- */

/* Where the time of steps went, as fractions of it, on average over the ranks: compute + all of exposed + bubble = 1.
 *
 * compute   the innermost event of the compute lane computes,
 * exposed   it communicates; or there is none, and something goes on in the communication lane,
 * bubble    neither: it waits for another rank, or nothing goes on at all,
 * hidden    something goes on in the communication lane while the rank computes: a part of compute.
 *
 * The innermost event is the one that began last. Where the communication lane goes on along several axes at once, the
 * moment is divided evenly among them. The time of steps is all in which at least one of them goes on, and what any
 * event does in it counts, so that where the next step begins before all ranks have ended one nothing counts twice. */
typedef struct tri_timeline_shares {
  int64_t num_steps;
  double step_s; /* the time of the steps over their number */
  double compute;
  double by_kind[TRI_NUM_EVENT_KINDS]; /* compute = all of these; that of TRI_EVENT_COMMUNICATION is 0 */
  double exposed[TRI_EVENT_AXES], hidden[TRI_EVENT_AXES];
  double bubble;
} tri_timeline_shares;

/* Over the steps [first_step, end_step) that have events. Without any all is 0. */
tri_status tri_timeline_add_up(const tri_timeline *timeline, int64_t first_step, int64_t end_step,
                               tri_timeline_shares *out);

double tri_timeline_exposed(const tri_timeline_shares *shares); /* over all axes */

/* ---- files (timeline_json.c, timeline_svg.c) --------------------------------------------------------------------- */

/* Both files count steps from 1 and micro-batches from 0, as the rest of what people see does. */

/* Replaces the file at `path` by the timeline in the trace event format, which Perfetto (ui.perfetto.dev) and Chrome
 * read: a process a rank, a thread a lane; more threads where events of the communication lane overlap. */
tri_status tri_timeline_write_json(const tri_timeline *timeline, const char *path);

/* Replaces the file at `path` by a drawing: ranks down, time across. It shows the last three steps of those that there
 * are, and of more than 256 ranks as many, evenly chosen; the shares on top are those of all steps and ranks. */
tri_status tri_timeline_write_svg(const tri_timeline *timeline, const char *title, const char *path);

#endif
