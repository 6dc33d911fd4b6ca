#include "plan/event_sim.h"

#include "base/memory.h"
#include "timeline/instruction_event.h"

#include <math.h>

/* ---- events ------------------------------------------------------------------------------------------------------ */

typedef struct what {
  tri_event_kind kind;
  int axis;
  double begin_s, end_s, wait_s;
  bool background;
} what;

static tri_status tell(tri_event_sim *walk, const tri_stage_process *w, const tri_instruction *at, what it) {
  if (walk->timeline == NULL || it.end_s <= it.begin_s) return TRI_OK;
  tri_event event = tri_event_make(w->stage, it.kind, tri_instruction_name(at->kind), it.begin_s, it.end_s);
  event.step = 0;
  event.wait_s = it.wait_s;
  event.micro_batch = at->micro_batch;
  event.chunk = at->chunk;
  if (it.kind == TRI_EVENT_COMMUNICATION) event.axis = it.axis;
  if (it.background) event.lane = TRI_LANE_COMMUNICATION;
  return tri_timeline_add(walk->timeline, &event);
}

/* Returns the part of a step to which the time of an event counts. Collectives over all ranks count as optimizer,
 * because they sum the gradient norm. The summary of a measured step lists them separately (report/shares.c). */
static double *part_of(tri_step_time *time, tri_event_kind kind, int axis) {
  switch (kind) {
    case TRI_EVENT_FORWARD:
    case TRI_EVENT_BACKWARD:
    case TRI_EVENT_BACKWARD_INPUT:
    case TRI_EVENT_BACKWARD_WEIGHT:
    case TRI_EVENT_LOAD:
    case TRI_EVENT_SAMPLE: break;
    case TRI_EVENT_OPTIMIZER: return &time->optimizer;
    case TRI_EVENT_COMMUNICATION: return axis == TRI_EVENT_NO_AXIS ? &time->optimizer : &time->along[axis];
  }
  return &time->compute;
}

static tri_status spend(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at, double seconds) {
  tri_event_kind kind = tri_instruction_event(at->kind);
  what event = {kind, tri_instruction_axis(at->kind), w->now, w->now + seconds, 0, false};
  tri_stage_process_work(w, part_of(&w->spent, kind, event.axis), seconds);
  return tell(walk, w, at, event);
}

static tri_status communicate_along(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at, int axis,
                                    double begin, double end) {
  if (end <= w->now) return TRI_OK;
  double wait_s = begin > w->now ? begin - w->now : 0;
  what event = {TRI_EVENT_COMMUNICATION, axis, w->now, end, wait_s, false};
  tri_stage_process_wait(w, part_of(&w->spent, event.kind, axis), begin, end);
  return tell(walk, w, at, event);
}

tri_status tri_event_sim_communicate(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at, double begin,
                                     double end) {
  return communicate_along(walk, w, at, tri_instruction_axis(at->kind), begin, end);
}

/* ---- collectives of several stages ------------------------------------------------------------------------------- */

/* Executes a collective of several stages. It begins when the last of them has reached it; until then, blocks the
 * process. */
static tri_status meet(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at, int meeting,
                       double seconds) {
  if ((w->arrived & 1 << meeting) == 0) {
    w->arrived |= 1 << meeting;
    walk->come[meeting]++;
    if (w->now > walk->met[meeting]) walk->met[meeting] = w->now;
  }
  w->blocked = walk->come[meeting] < walk->expected[meeting];
  if (w->blocked) return TRI_OK;
  TRI_TRY(tri_event_sim_communicate(walk, w, at, walk->met[meeting], walk->met[meeting] + seconds));
  w->host = w->now;
  return TRI_OK;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

tri_status tri_event_sim_load(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  (void)walk;
  (void)w;
  (void)at;
  return TRI_OK;
}

tri_status tri_event_sim_count_labels(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return tri_event_sim_communicate(walk, w, at, w->now, w->now + walk->stages->count_s);
}

/* Packs changed weights. This time counts in every training step, since each step has an update, but not if only
 * forwards are simulated. */
tri_status tri_event_sim_prepare(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  if (walk->stages->forward_only) return TRI_OK;
  return spend(walk, w, at, w->kind->prepare_s);
}

static tri_status compute(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at, tri_price price) {
  TRI_TRY(spend(walk, w, at, tri_stage_process_launch(w, price)));
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    TRI_TRY(communicate_along(walk, w, at, axis, w->now, w->now + price.along_s[axis]));
  }
  return TRI_OK;
}

tri_status tri_event_sim_forward(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return compute(walk, w, at, tri_stages_price_forward(w->kind, at));
}

tri_status tri_event_sim_backward(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return compute(walk, w, at, tri_stages_price_backward(w->kind, at, true, true));
}

tri_status tri_event_sim_backward_input(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return compute(walk, w, at, tri_stages_price_backward(w->kind, at, true, false));
}

tri_status tri_event_sim_backward_weight(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return compute(walk, w, at, tri_stages_price_backward(w->kind, at, false, true));
}

tri_status tri_event_sim_sum_tied(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  if (walk->stages->num_stages == 1) return spend(walk, w, at, w->kind->tied_s);
  return meet(walk, w, at, TRI_MEET_TIED, w->kind->tied_s);
}

tri_status tri_event_sim_sum_partial(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  const int axis = (int)tri_domain_axis(w->kind->parts.buckets->entries[at->bucket].parts);
  return communicate_along(walk, w, at, axis, w->now, w->now + w->kind->partial_s[at->bucket]);
}

/* Starts the reduction or gather of a bucket, and sets *end to its end (tri_stage_process.reduce_end). If `overlaps`,
 * and the device can overlap communication with computation, it begins when the reductions and gathers in progress have
 * ended; else it begins when the process waits for it (await_bucket). */
static tri_status start_bucket(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at, double seconds,
                               bool overlaps, double *end) {
  if (!overlaps || walk->stages->request->cluster->carries) {
    *end = seconds;
    return TRI_OK;
  }
  double begin = w->stream > w->now ? w->stream : w->now;
  w->stream = begin + seconds;
  *end = w->stream;
  what event = {TRI_EVENT_COMMUNICATION, tri_instruction_axis(at->kind), begin, w->stream, 0, true};
  return tell(walk, w, at, event);
}

static tri_status await_bucket(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at, bool overlaps,
                               double end) {
  if (!overlaps || walk->stages->request->cluster->carries) end += w->now;
  return tri_event_sim_communicate(walk, w, at, w->now, end);
}

tri_status tri_event_sim_reduce(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  bool overlaps = walk->stages->request->system->overlap_reductions;
  return start_bucket(walk, w, at, w->kind->reduce_s[at->bucket], overlaps, &w->reduce_end[at->bucket]);
}

tri_status tri_event_sim_wait_reduced(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return await_bucket(walk, w, at, walk->stages->request->system->overlap_reductions, w->reduce_end[at->bucket]);
}

tri_status tri_event_sim_clip(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  if ((w->arrived & 1 << TRI_MEET_NORM) == 0) TRI_TRY(spend(walk, w, at, w->kind->clip_s));
  return meet(walk, w, at, TRI_MEET_NORM, walk->stages->clip_all_s);
}

tri_status tri_event_sim_update(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return spend(walk, w, at, w->kind->update_s);
}

tri_status tri_event_sim_gather(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  bool overlaps = walk->stages->request->system->overlap_gathers;
  return start_bucket(walk, w, at, w->kind->gather_s[at->bucket], overlaps, &w->gather_end[at->bucket]);
}

tri_status tri_event_sim_wait_gathered(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return await_bucket(walk, w, at, walk->stages->request->system->overlap_gathers, w->gather_end[at->bucket]);
}

#define HANDLER(KIND, name, ...) tri_event_sim_##name,
static tri_event_sim_handler *const handlers[] = {TRI_INSTRUCTIONS(HANDLER)};
#undef HANDLER

tri_status tri_event_sim_instruction(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return handlers[at->kind](walk, w, at);
}

/* ---- stage processes --------------------------------------------------------------------------------------------- */

tri_status tri_stage_process_create(tri_event_sim *walk, int64_t stage, tri_stage_process *out) {
  const tri_stage_kind *kind = &walk->stages->kinds[walk->stages->kind_of[stage]];
  *out = (tri_stage_process){.kind = kind, .stage = (int)stage, .beside = walk->stages->request->cluster->beside};
  if (kind->tied) walk->expected[TRI_MEET_TIED]++;
  walk->expected[TRI_MEET_NORM]++;
  const size_t buckets = (size_t)kind->parts.buckets->count;
  TRI_TRY(tri_alloc("a simulation", 2 * buckets, sizeof *out->reduce_end, &out->reduce_end));
  out->gather_end = out->reduce_end + buckets;
  return TRI_OK;
}

void tri_stage_process_release(tri_stage_process *w) { tri_free(w->reduce_end); }

tri_layout tri_event_sim_layout(const tri_stages *stages) {
  const tri_simulation_request *request = stages->request;
  return tri_schedule_settle(request->layout, tri_layout_micro_batches(request->layout, request->global_batch));
}

tri_program_request tri_event_sim_program(const tri_stages *stages, const tri_layout *settled, int64_t stage,
                                          int64_t micro_batches) {
  const tri_stage_kind *kind = &stages->kinds[stages->kind_of[stage]];
  return (tri_program_request){.layout = settled,
                               .stage = stage,
                               .micro_batches = micro_batches,
                               .lists = (const tri_op_list *const *)kind->parts.lists,
                               .buckets = kind->parts.buckets,
                               .tied_pair = kind->tied,
                               .reduces_each = tri_system_reduces_each(stages->request->system, settled->zero),
                               .forward_only = stages->forward_only};
}

tri_status tri_event_sim_run(tri_event_sim *walk, void *walkers, size_t bytes, tri_stage_process_run *run) {
  const int64_t stages = walk->stages->num_stages;
  char *first = walkers;
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t s = 0; s < stages; s++) TRI_TRY(run(walk, (void *)(first + (size_t)s * bytes), &moved));
    for (int64_t s = stages - 1; s >= 0; s--) TRI_TRY(run(walk, (void *)(first + (size_t)s * bytes), &moved));
  }
  return TRI_OK;
}

tri_step_sample tri_event_sim_sum(const tri_stages *stages, void *walkers, size_t bytes) {
  tri_step_sample sum = {0};
  char *first = walkers;
  for (int64_t s = 0; s < stages->num_stages; s++) {
    const tri_stage_process *w = (const void *)(first + (size_t)s * bytes);
    if (w->now > sum.step_s) sum.step_s = w->now;
  }
  for (int64_t s = 0; s < stages->num_stages; s++) {
    tri_stage_process *w = (void *)(first + (size_t)s * bytes);
    w->spent.bubble += sum.step_s - w->now;
    for (int i = 0; i < TRI_TIME_PARTS; i++) {
      tri_time_parts(&sum.time)[i] += tri_time_parts(&w->spent)[i] / (double)stages->num_stages;
    }
  }
  return sum;
}
