#include "report/timing.h"

#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "comm/collect.h"
#include "files/file.h"
#include "report/drawing_path.h"
#include "timeline/instruction_event.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WARM_UP = 2, STEPS = 8 };

/* A job of more ranks is timed only on request, since the first rank holds the records of all ranks. */
enum { MOST_RANKS = 64 };

/* ---- records as events ------------------------------------------------------------------------------------------- */

static tri_meeting meeting_of(const tri_mesh *mesh, const tri_record *record) {
  if (record->kind == TRI_RECORD_COLLECTIVE) {
    /* The group of a tied pair has the domain of the pipeline group, but numbers its collectives separately. */
    bool tied = strcmp(record->group, mesh->tied.name) == 0;
    return (tri_meeting){.kind = TRI_MEETING_COLLECTIVE,
                         .first = tri_mesh_world_rank(mesh, record->group, 0),
                         .other = 2 * tri_mesh_domain_of(mesh, record->group) + (tied ? 1 : 0),
                         .number = record->number};
  }
  int32_t peer = tri_mesh_world_rank(mesh, record->group, record->peer);
  bool sends = record->kind == TRI_RECORD_SEND;
  return (tri_meeting){.kind = sends ? TRI_MEETING_SEND : TRI_MEETING_RECEIVE,
                       .first = sends ? mesh->world.rank : peer,
                       .other = sends ? peer : mesh->world.rank,
                       .tag = record->tag,
                       .number = record->number};
}

static tri_event event_of(const tri_mesh *mesh, const tri_record *record, double ahead_s) {
  tri_event event = tri_event_make(mesh->world.rank, TRI_EVENT_COMMUNICATION, record->name, record->begin_s - ahead_s,
                                   record->end_s - ahead_s);
  event.step = record->step;
  event.bytes = record->bytes;
  event.micro_batch = record->micro_batch;
  event.chunk = record->chunk;
  event.lane = record->background ? TRI_LANE_COMMUNICATION : TRI_LANE_COMPUTE;
  if (record->kind == TRI_RECORD_WORK && record->code >= TRI_RECORD_SAMPLE) {
    event.kind = record->code == TRI_RECORD_SAMPLE ? TRI_EVENT_SAMPLE : TRI_EVENT_COMMUNICATION;
    return event;
  }
  if (record->kind == TRI_RECORD_WORK) {
    tri_instruction_kind kind = (tri_instruction_kind)record->code;
    event.kind = tri_instruction_event(kind);
    if (event.kind == TRI_EVENT_COMMUNICATION) event.axis = tri_instruction_axis(kind);
    return event;
  }
  int domain = tri_mesh_domain_of(mesh, record->group);
  event.axis = domain == TRI_NUM_DOMAINS ? (int)TRI_EVENT_NO_AXIS : (int)tri_domain_axis((tri_domain)domain);
  if (record->kind != TRI_RECORD_PROGRESS) event.meeting = meeting_of(mesh, record);
  return event;
}

/* Returns whether a record belongs to a step. Work between steps, such as an evaluation, does not. */
static bool belongs(const tri_record *record) {
  return record->step >= 0 && (record->kind != TRI_RECORD_WORK || record->code >= 0);
}

static tri_status read_events(const tri_mesh *mesh, double ahead_s, tri_event_list *out) {
  tri_record *records = NULL;
  int64_t count = 0;
  TRI_TRY(tri_recorder_kept(&records, &count));
  tri_status status = tri_event_list_reserve(out, count);
  for (int64_t i = 0; i < count && status == TRI_OK; i++) {
    if (!belongs(&records[i])) continue;
    tri_event event = event_of(mesh, &records[i], ahead_s);
    status = tri_event_list_add(out, &event);
  }
  tri_free(records);
  return status;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

enum { CLOCK_TAG = 1, EVENTS_TAG = 2, CLOCK_TURNS = 8 };

static tri_status send(const tri_group *world, int to, int tag, size_t bytes, const void *data) {
  tri_request *request = NULL;
  TRI_TRY(tri_send_start(world, to, tag, bytes, data, &request));
  return tri_request_wait(&request);
}

static tri_status receive(const tri_group *world, int from, int tag, size_t bytes, void *data) {
  tri_request *request = NULL;
  TRI_TRY(tri_receive_start(world, from, tag, bytes, data, &request));
  return tri_request_wait(&request);
}

/* Measures how far a rank's clock is ahead of the first rank's, and sends the result to that rank. The first rank asks
 * for the time several times, and uses the answer with the shortest round trip; that answer is half a round trip old. A
 * smaller difference than half a round trip cannot be measured and counts as 0, as between ranks of one machine, which
 * have the same clock. */
static tri_status ask_clock(const tri_group *world, int rank, double *ahead_s) {
  double shortest_s = INFINITY;
  for (int turn = 0; turn < CLOCK_TURNS; turn++) {
    double theirs_s = 0, asked_s = tri_clock_s();
    TRI_TRY(send(world, rank, CLOCK_TAG, sizeof asked_s, &asked_s));
    TRI_TRY(receive(world, rank, CLOCK_TAG, sizeof theirs_s, &theirs_s));
    double took_s = tri_clock_s() - asked_s;
    if (took_s >= shortest_s) continue;
    shortest_s = took_s;
    *ahead_s = theirs_s - (asked_s + 0.5 * took_s);
  }
  if (fabs(*ahead_s) < 0.5 * shortest_s) *ahead_s = 0;
  return send(world, rank, CLOCK_TAG, sizeof *ahead_s, ahead_s);
}

static tri_status answer_clock(const tri_group *world, double *ahead_s) {
  for (int turn = 0; turn < CLOCK_TURNS; turn++) {
    double asked_s, mine_s;
    TRI_TRY(receive(world, 0, CLOCK_TAG, sizeof asked_s, &asked_s));
    mine_s = tri_clock_s();
    TRI_TRY(send(world, 0, CLOCK_TAG, sizeof mine_s, &mine_s));
  }
  return receive(world, 0, CLOCK_TAG, sizeof *ahead_s, ahead_s);
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* COLLECTIVE. Collects the events of all ranks on the first rank, with times of the first rank's clock. */
static tri_status collect_events(const tri_mesh *mesh, tri_collected *out) {
  const tri_group *world = &mesh->world;
  tri_event_list own = {0};
  double ahead_s = 0;
  for (int rank = 1; rank < world->size && world->rank == 0; rank++) {
    double theirs_s = 0;
    TRI_TRY(ask_clock(world, rank, &theirs_s));
  }
  if (world->rank > 0) TRI_TRY(answer_clock(world, &ahead_s));
  tri_status status = tri_common_status(world, read_events(mesh, ahead_s, &own));
  if (status == TRI_OK)
    status = tri_collect(world, EVENTS_TAG, own.count * (int64_t)sizeof *own.events, own.events, out);
  tri_event_list_release(&own);
  return status;
}

static tri_status fill_timeline(const tri_mesh *mesh, const tri_collected *collected, tri_timeline *timeline) {
  const tri_event *events = collected->all;
  const int64_t count = collected->begins[mesh->world.size] / (int64_t)sizeof *events;
  for (int rank = 0; rank < mesh->world.size; rank++) {
    char place[TRI_TIMELINE_LABEL_BYTES - 24];
    snprintf(timeline->labels[rank], sizeof timeline->labels[rank], "rank %d: %s", rank,
             tri_mesh_describe(&mesh->shape, rank, place, sizeof place));
  }
  for (int64_t i = 0; i < count; i++) TRI_TRY(tri_timeline_add(timeline, &events[i]));
  return tri_timeline_finish(timeline);
}

/* ---- timed steps ------------------------------------------------------------------------------------------------- */

/* Fails if the requested files cannot be written, before the steps are run. Fails with TRI_BAD_USAGE if two of them
 * would have the same path. */
static tri_status check_paths(const tri_timing *timing) {
  const char *timeline = timing->path, *profile = timing->profile.path;
  if (timeline != NULL) TRI_TRY(tri_drawing_check("--timeline", timeline));
  if (profile != NULL) TRI_TRY(tri_drawing_check("--profile", profile));
  if (timeline == NULL || profile == NULL || !tri_drawing_same(timeline, profile)) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "--timeline and --profile would both write %.*s.svg; give them two names",
                  tri_drawing_stem(timeline), timeline);
}

tri_status tri_timing_plan(tri_timing *timing, const tri_mesh *mesh, tri_device *device, tri_dtype precision,
                           int64_t from, int64_t to) {
  timing->mesh = mesh;
  timing->device = device;
  timing->first = timing->end = -1;
  if (timing->path == NULL && timing->profile.path == NULL && mesh->world.size > MOST_RANKS) return TRI_OK;
  timing->first = to - from > WARM_UP ? from + WARM_UP : from;
  timing->end = to - timing->first < STEPS ? to : timing->first + STEPS;
  TRI_TRY(tri_first_rank_status(&mesh->world, mesh->world.rank == 0 ? check_paths(timing) : TRI_OK));
  return tri_common_status(&mesh->world, tri_profile_open(&timing->profile, device, precision, timing->first));
}

void tri_timing_step_begins(tri_timing *timing, int64_t step) {
  if (step == timing->first) tri_recorder_keep();
  timing->inside = step >= timing->first && step < timing->end;
  if (timing->inside) tri_profile_step_begins(&timing->profile);
}

static tri_status draw(const tri_timing *timing, const tri_timeline *timeline) {
  char path[TRI_PATH_BYTES], title[128];
  TRI_TRY(tri_drawing_name("--timeline", timing->path, ".json", path));
  TRI_TRY(tri_timeline_write_json(timeline, path));
  TRI_TRY(tri_drawing_name("--timeline", timing->path, ".svg", path));
  snprintf(title, sizeof title, "steps %lld to %lld on %d %s", (long long)timing->first + 1, (long long)timing->end,
           timing->mesh->world.size, timing->mesh->world.size == 1 ? "rank" : "ranks");
  TRI_TRY(tri_timeline_write_svg(timeline, title, path));
  tri_log("timeline of %s: %s, and .json for ui.perfetto.dev", title, path);
  return TRI_OK;
}

/* LOCAL, on the first rank. Adds up the events to timing->shares, and draws them if a timeline is requested. */
static tri_status judge(tri_timing *timing, const tri_collected *events) {
  tri_timeline *timeline = NULL;
  TRI_TRY(tri_timeline_create(timing->mesh->world.size, &timeline));
  tri_status status = fill_timeline(timing->mesh, events, timeline);
  if (status == TRI_OK) status = tri_timeline_add_up(timeline, timing->first, timing->end, &timing->shares);
  if (status == TRI_OK && timing->path != NULL) status = draw(timing, timeline);
  tri_timeline_destroy(timeline);
  return status;
}

/* COLLECTIVE. Ends the timed steps at step `steps`, merges their records and adds them up. */
static tri_status merge(tri_timing *timing, int64_t steps) {
  const tri_group *world = &timing->mesh->world;
  tri_collected events = {NULL, NULL};
  timing->end = steps;
  timing->merged = true;
  TRI_TRY(collect_events(timing->mesh, &events));
  const tri_status status = tri_first_rank_status(world, world->rank == 0 ? judge(timing, &events) : TRI_OK);
  tri_collected_release(&events);
  return status;
}

tri_status tri_timing_step_ended(tri_timing *timing, int64_t steps) {
  if (!timing->inside) return TRI_OK;
  timing->inside = false;
  tri_profile_step_ended(&timing->profile);
  return steps == timing->end ? merge(timing, steps) : TRI_OK;
}

tri_status tri_timing_end(tri_timing *timing, int64_t steps) {
  const bool timed = timing->first >= 0 && steps > timing->first;
  return timed && !timing->merged && !timing->inside ? merge(timing, steps) : TRI_OK;
}

tri_status tri_timing_write_profile(tri_timing *timing, bool stopping) {
  if (!timing->merged) return TRI_OK;
  return tri_profile_write(&timing->profile, timing->device, timing->mesh, &timing->shares, !stopping);
}

void tri_timing_warn_unwritten(const tri_timing *timing, int64_t steps) {
  if (timing->merged || timing->mesh == NULL || timing->mesh->world.rank > 0) return;
  const char *reason = steps > timing->first ? "the run has ended within the timed steps" : "no step was timed";
  if (timing->path != NULL) tri_warn("--timeline %s: %s, so it is not written", timing->path, reason);
  if (timing->profile.path != NULL) tri_warn("--profile %s: %s, so it is not written", timing->profile.path, reason);
}
