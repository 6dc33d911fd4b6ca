#include "plan/simulate.h"

#include "base/memory.h"
#include "model/family.h"
#include "plan/stages.h"
#include "timeline/instruction_event.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* Messages with one tag, in their order: when they were started on either side, and when they were on their way. */
typedef struct channel {
  double *sent, *posted, *begin, *end;
  int64_t num_sent, num_posted, num_done;
} channel;

typedef struct walker {
  const tri_stage_kind *kind;
  const tri_program *program;
  int64_t at;
  double now, stream;            /* the rank's own clock; when its reductions and gathers are through */
  double host;                   /* when the host has started all kernels until here: it may be ahead, or behind */
  double *bucket_end;            /* [buckets]: of the one under way */
  int64_t *box_tag, *box_number; /* [kind, box]: the message that was started there */
  tri_step_time spent;
  struct walker_note {
    double now;
    tri_step_time spent;
  } notes[3];   /* when the forwards of the probe's micro-batches began */
  int arrived;  /* at meetings of several stages: a bit for each that it has come to */
  bool blocked; /* the instruction that it is at cannot be done yet */
} walker;

/* Looks at a step's middle: whether it repeats itself every `period` micro-batches, and what each period adds. */
typedef struct probe {
  int64_t first, period; /* looks at the micro-batches first, first + period and first + 2 period */
  bool settled;
  double step_s;
  tri_step_time time; /* in the mean over the stages */
} probe;

enum { MEET_TIED, MEET_NORM, MEETINGS }; /* of the tied pair, and of all stages */

typedef struct simulation {
  const tri_stages *stages;
  int64_t micro_batches, most_boxes, num_channels;
  walker *walkers;
  channel *channels;
  double *times; /* of the channels */
  double met[MEETINGS];
  int64_t come[MEETINGS], expected[MEETINGS];
  tri_timeline *timeline; /* or NULL */
  probe *probe;           /* or NULL */
} simulation;

/* ---- events ------------------------------------------------------------------------------------------------------ */

typedef struct what {
  tri_event_kind kind;
  int axis;
  double begin_s, end_s, wait_s;
  bool background;
} what;

static tri_status tell(simulation *sim, const walker *w, const tri_instruction *at, what it) {
  if (sim->timeline == NULL || it.end_s <= it.begin_s) return TRI_OK;
  tri_event event =
      tri_event_make((int)(w - sim->walkers), it.kind, tri_instruction_name(at->kind), it.begin_s, it.end_s);
  event.step = 0;
  event.wait_s = it.wait_s;
  event.micro_batch = at->micro_batch;
  event.chunk = at->chunk;
  if (it.kind == TRI_EVENT_COMMUNICATION) event.axis = it.axis;
  if (it.background) event.lane = TRI_LANE_COMMUNICATION;
  return tri_timeline_add(sim->timeline, &event);
}

/* What all ranks do together is the norm. */
static double *part_of_axis(tri_step_time *time, int axis) {
  if (axis == TRI_EVENT_NO_AXIS) return &time->optimizer;
  switch ((tri_axis)axis) {
    case TRI_AXIS_TENSOR: return &time->tensor;
    case TRI_AXIS_CONTEXT: return &time->context;
    case TRI_AXIS_DATA: return &time->data;
    case TRI_AXIS_PIPELINE: return &time->pipeline;
  }
  return &time->optimizer;
}

/* The part of a step that an event counts as, as in a measured summary. */
static double *part_of(tri_step_time *time, tri_event_kind kind, int axis) {
  switch (kind) {
    case TRI_EVENT_FORWARD:
    case TRI_EVENT_BACKWARD:
    case TRI_EVENT_BACKWARD_INPUT:
    case TRI_EVENT_BACKWARD_WEIGHT:
    case TRI_EVENT_LOAD: break;
    case TRI_EVENT_OPTIMIZER: return &time->optimizer;
    case TRI_EVENT_COMMUNICATION: return part_of_axis(time, axis);
  }
  return &time->compute;
}

/* The rank is busy for so long. */
static tri_status spend(simulation *sim, walker *w, const tri_instruction *at, double seconds) {
  tri_event_kind kind = tri_instruction_event(at->kind);
  what event = {kind, tri_instruction_axis(at->kind), w->now, w->now + seconds, 0, false};
  w->now += seconds;
  *part_of(&w->spent, kind, event.axis) += seconds;
  return tell(sim, w, at, event);
}

/* It communicates until `end`, of which it waits for others until `begin`. */
static tri_status communicate(simulation *sim, walker *w, const tri_instruction *at, double begin, double end) {
  if (end <= w->now) return TRI_OK;
  int axis = tri_instruction_axis(at->kind);
  double carried = end - (begin > w->now ? begin : w->now), waited = end - w->now - carried;
  what event = {TRI_EVENT_COMMUNICATION, axis, w->now, end, waited, false};
  *part_of(&w->spent, event.kind, axis) += carried;
  w->spent.bubble += waited;
  w->now = end;
  return tell(sim, w, at, event);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Carries whatever both sides have started. One tag's messages follow each other through the same port. */
static void carry(const simulation *sim, channel *c) {
  while (c->num_done < c->num_sent && c->num_done < c->num_posted) {
    int64_t n = c->num_done++;
    double begin = c->sent[n] > c->posted[n] ? c->sent[n] : c->posted[n];
    if (n > 0 && c->end[n - 1] > begin) begin = c->end[n - 1];
    c->begin[n] = begin;
    c->end[n] = begin + sim->stages->message_s;
  }
}

static int64_t box_of(const simulation *sim, const tri_instruction *at) {
  return (int64_t)at->box_kind * sim->most_boxes + at->box;
}

static void start_message(const simulation *sim, walker *w, const tri_instruction *at, double *times, int64_t *count) {
  w->box_tag[box_of(sim, at)] = at->tag;
  w->box_number[box_of(sim, at)] = *count;
  times[(*count)++] = w->now;
  carry(sim, &sim->channels[at->tag]);
}

/* Blocked: the message has not been carried yet. */
static tri_status await_message(simulation *sim, walker *w, const tri_instruction *at) {
  const channel *c = &sim->channels[w->box_tag[box_of(sim, at)]];
  int64_t number = w->box_number[box_of(sim, at)];
  w->blocked = c->num_done <= number;
  if (w->blocked) return TRI_OK;
  TRI_TRY(communicate(sim, w, at, c->begin[number], c->end[number]));
  w->host = w->now; /* it has waited, too */
  return TRI_OK;
}

/* ---- meetings ---------------------------------------------------------------------------------------------------- */

/* Several stages do something together, when the last has come. */
static tri_status meet(simulation *sim, walker *w, const tri_instruction *at, int meeting, double seconds) {
  if ((w->arrived & 1 << meeting) == 0) {
    w->arrived |= 1 << meeting;
    sim->come[meeting]++;
    if (w->now > sim->met[meeting]) sim->met[meeting] = w->now;
  }
  w->blocked = sim->come[meeting] < sim->expected[meeting];
  if (w->blocked) return TRI_OK;
  TRI_TRY(communicate(sim, w, at, sim->met[meeting], sim->met[meeting] + seconds));
  w->host = w->now;
  return TRI_OK;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

/* Sets w->blocked where it has to wait for another stage: it is asked again. */
typedef tri_status simulate_handler(simulation *sim, walker *w, const tri_instruction *at);

static tri_status simulate_load(simulation *sim, walker *w, const tri_instruction *at) {
  (void)sim;
  (void)w;
  (void)at;
  return TRI_OK;
}

static tri_status simulate_count_labels(simulation *sim, walker *w, const tri_instruction *at) {
  return communicate(sim, w, at, w->now, w->now + sim->stages->count_s);
}

static tri_status simulate_prepare(simulation *sim, walker *w, const tri_instruction *at) {
  return spend(sim, w, at, w->kind->prepare_s);
}

static tri_status simulate_post_receive(simulation *sim, walker *w, const tri_instruction *at) {
  channel *c = &sim->channels[at->tag];
  start_message(sim, w, at, c->posted, &c->num_posted);
  return TRI_OK;
}

static tri_status simulate_receive(simulation *sim, walker *w, const tri_instruction *at) {
  return await_message(sim, w, at);
}

static tri_status simulate_send(simulation *sim, walker *w, const tri_instruction *at) {
  const tri_simulation_request *request = sim->stages->request;
  channel *c = &sim->channels[at->tag];
  start_message(sim, w, at, c->sent, &c->num_sent);
  if (request->system->overlap_messages && !request->cluster->carries) return TRI_OK;
  TRI_TRY(communicate(sim, w, at, w->now, w->now + sim->stages->message_s));
  w->host = w->now;
  return TRI_OK;
}

static tri_status simulate_wait_sent(simulation *sim, walker *w, const tri_instruction *at) {
  return await_message(sim, w, at);
}

static void note(const simulation *sim, walker *w, const tri_instruction *at) {
  if (sim->probe == NULL || at->chunk != 0 || at->first_call > 0) return;
  int64_t behind = at->micro_batch - sim->probe->first;
  if (behind < 0 || behind % sim->probe->period != 0 || behind > 2 * sim->probe->period) return;
  w->notes[behind / sim->probe->period] = (struct walker_note){w->now, w->spent};
}

/* A collective beside it takes processors and memory bandwidth of the device until it is through. */
static double slowed_s(const simulation *sim, const walker *w, double seconds) {
  double beside = sim->stages->request->cluster->beside, under_way = w->stream - w->now;
  if (under_way <= 0) return seconds;
  return seconds < under_way * beside ? seconds / beside : seconds + under_way * (1 - beside);
}

/* The host starts kernels in order, ahead of the device until it has to wait for something itself; where it is behind,
 * the device waits for its orders. */
static tri_status compute(simulation *sim, walker *w, const tri_instruction *at, tri_price price) {
  w->host += price.launch_s;
  price.compute_s = slowed_s(sim, w, price.compute_s);
  double late = w->host - (w->now + price.compute_s + price.tensor_s);
  if (late > 0) price.compute_s += late;
  TRI_TRY(spend(sim, w, at, price.compute_s));
  return communicate(sim, w, at, w->now, w->now + price.tensor_s);
}

static tri_status simulate_forward(simulation *sim, walker *w, const tri_instruction *at) {
  note(sim, w, at);
  return compute(sim, w, at, tri_stages_price_forward(w->kind, at));
}

static tri_status simulate_backward(simulation *sim, walker *w, const tri_instruction *at) {
  return compute(sim, w, at, tri_stages_price_backward(w->kind, at, true, true));
}

static tri_status simulate_backward_input(simulation *sim, walker *w, const tri_instruction *at) {
  return compute(sim, w, at, tri_stages_price_backward(w->kind, at, true, false));
}

static tri_status simulate_backward_weight(simulation *sim, walker *w, const tri_instruction *at) {
  return compute(sim, w, at, tri_stages_price_backward(w->kind, at, false, true));
}

static tri_status simulate_sum_tied(simulation *sim, walker *w, const tri_instruction *at) {
  if (sim->stages->num_stages == 1) return spend(sim, w, at, w->kind->tied_s);
  return meet(sim, w, at, MEET_TIED, w->kind->tied_s);
}

static tri_status simulate_sum_partial(simulation *sim, walker *w, const tri_instruction *at) {
  return communicate(sim, w, at, w->now, w->now + w->kind->partial_s[at->bucket]);
}

/* In the background, behind what is there already; without overlap, when it is waited for. */
static tri_status start_bucket(simulation *sim, walker *w, const tri_instruction *at, double seconds, bool overlaps) {
  if (!overlaps || sim->stages->request->cluster->carries) {
    w->bucket_end[at->bucket] = seconds;
    return TRI_OK;
  }
  double begin = w->stream > w->now ? w->stream : w->now;
  w->stream = begin + seconds;
  w->bucket_end[at->bucket] = w->stream;
  what event = {TRI_EVENT_COMMUNICATION, tri_instruction_axis(at->kind), begin, w->stream, 0, true};
  return tell(sim, w, at, event);
}

static tri_status await_bucket(simulation *sim, walker *w, const tri_instruction *at, bool overlaps) {
  double end = w->bucket_end[at->bucket];
  if (!overlaps || sim->stages->request->cluster->carries) end += w->now;
  return communicate(sim, w, at, w->now, end);
}

static tri_status simulate_reduce(simulation *sim, walker *w, const tri_instruction *at) {
  bool overlaps = sim->stages->request->system->overlap_reductions;
  return start_bucket(sim, w, at, w->kind->reduce_s[at->bucket], overlaps);
}

static tri_status simulate_wait_reduced(simulation *sim, walker *w, const tri_instruction *at) {
  return await_bucket(sim, w, at, sim->stages->request->system->overlap_reductions);
}

static tri_status simulate_clip(simulation *sim, walker *w, const tri_instruction *at) {
  if ((w->arrived & 1 << MEET_NORM) == 0) TRI_TRY(spend(sim, w, at, w->kind->clip_s));
  return meet(sim, w, at, MEET_NORM, sim->stages->clip_all_s);
}

static tri_status simulate_update(simulation *sim, walker *w, const tri_instruction *at) {
  return spend(sim, w, at, w->kind->update_s);
}

static tri_status simulate_gather(simulation *sim, walker *w, const tri_instruction *at) {
  bool overlaps = sim->stages->request->system->overlap_gathers;
  return start_bucket(sim, w, at, w->kind->gather_s[at->bucket], overlaps);
}

static tri_status simulate_wait_gathered(simulation *sim, walker *w, const tri_instruction *at) {
  return await_bucket(sim, w, at, sim->stages->request->system->overlap_gathers);
}

#define HANDLER(KIND, name, ...) simulate_##name,
static simulate_handler *const handlers[] = {TRI_INSTRUCTIONS(HANDLER)};
#undef HANDLER

static tri_status run_until_blocked(simulation *sim, walker *w, bool *moved) {
  while (w->at < w->program->num_instructions) {
    w->blocked = false;
    const tri_instruction *at = &w->program->instructions[w->at];
    TRI_TRY(handlers[at->kind](sim, w, at));
    if (w->blocked) return TRI_OK;
    w->at++;
    *moved = true;
  }
  return TRI_OK;
}

static tri_status run(simulation *sim) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t s = 0; s < sim->stages->num_stages; s++) TRI_TRY(run_until_blocked(sim, &sim->walkers[s], &moved));
    for (int64_t s = sim->stages->num_stages - 1; s >= 0; s--)
      TRI_TRY(run_until_blocked(sim, &sim->walkers[s], &moved));
  }
  for (int64_t s = 0; s < sim->stages->num_stages; s++) {
    const walker *w = &sim->walkers[s];
    if (w->at == w->program->num_instructions) continue;
    return tri_fail(TRI_INTERNAL, "the simulated step never ends: stage %ld waits for ever at instruction %ld", (long)s,
                    (long)w->at);
  }
  return TRI_OK;
}

/* ---- setting up -------------------------------------------------------------------------------------------------- */

static tri_status create_programs(simulation *sim) {
  const tri_simulation_request *request = sim->stages->request;
  tri_layout layout =
      tri_schedule_settle(request->layout, tri_layout_micro_batches(request->layout, request->global_batch));
  for (int64_t s = 0; s < sim->stages->num_stages; s++) {
    walker *w = &sim->walkers[s];
    w->kind = &sim->stages->kinds[sim->stages->kind_of[s]];
    tri_program_request of = {.layout = &layout,
                              .stage = s,
                              .micro_batches = sim->micro_batches,
                              .lists = (const tri_op_list *const *)w->kind->parts.lists,
                              .buckets = w->kind->parts.buckets,
                              .tied_pair = w->kind->tied};
    tri_program *program = NULL;
    TRI_TRY(tri_program_create(&of, &program));
    w->program = program;
    for (int kind = 0; kind < TRI_NUM_BOX_KINDS; kind++) {
      if (program->boxes[kind] > sim->most_boxes) sim->most_boxes = program->boxes[kind];
    }
    if (w->kind->tied) sim->expected[MEET_TIED]++;
    sim->expected[MEET_NORM]++;
  }
  return TRI_OK;
}

static tri_status create_room(simulation *sim) {
  const tri_layout *layout = sim->stages->request->layout;
  size_t m = (size_t)sim->micro_batches, boxes = (size_t)(TRI_NUM_BOX_KINDS * sim->most_boxes);
  sim->num_channels = layout->pipeline == 1 ? 0 : 2 * (layout->pipeline * layout->virtual_stages + 1);
  size_t channels = (size_t)sim->num_channels;
  TRI_TRY(tri_alloc("a simulation", channels, sizeof *sim->channels, &sim->channels));
  TRI_TRY(tri_alloc("a simulation", channels * m, 4 * sizeof(double), &sim->times));
  for (size_t c = 0; c < channels; c++) {
    double *at = sim->times + 4 * m * c;
    sim->channels[c] = (channel){.sent = at, .posted = at + m, .begin = at + 2 * m, .end = at + 3 * m};
  }
  for (int64_t s = 0; s < sim->stages->num_stages; s++) {
    walker *w = &sim->walkers[s];
    TRI_TRY(tri_alloc("a simulation", (size_t)w->kind->parts.buckets->count, sizeof *w->bucket_end, &w->bucket_end));
    TRI_TRY(tri_alloc("a simulation", 2 * boxes, sizeof *w->box_tag, &w->box_tag));
    w->box_number = w->box_tag + boxes;
  }
  return TRI_OK;
}

static void release(simulation *sim) {
  for (int64_t s = 0; sim->walkers != NULL && s < sim->stages->num_stages; s++) {
    tri_free(sim->walkers[s].box_tag);
    tri_free(sim->walkers[s].bucket_end);
    tri_program_destroy((tri_program *)(uintptr_t)sim->walkers[s].program);
  }
  tri_free(sim->times);
  tri_free(sim->channels);
  tri_free(sim->walkers);
}

static double *seconds_of(tri_step_time *time) { return &time->compute; }
enum { TIME_PARTS = sizeof(tri_step_time) / sizeof(double) };

static bool close_to(double a, double b) { return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)); }

/* Seconds of the newest period of a stage, or of the one before. */
static double period_s(const walker *w, int newest) { return w->notes[newest].now - w->notes[newest - 1].now; }

/* The slowest stages set the pace of the step: settled means that they take as long for one period as for the one
 * before. Faster ones, which may be ahead for a while, wait for them sooner or later. */
static void read_probe(const simulation *sim) {
  probe *out = sim->probe;
  for (int64_t s = 0; s < sim->stages->num_stages; s++) {
    const walker *w = &sim->walkers[s];
    if (period_s(w, 2) > out->step_s) out->step_s = period_s(w, 2);
    for (int i = 0; i < TIME_PARTS; i++) {
      double more = ((const double *)&w->notes[2].spent)[i] - ((const double *)&w->notes[1].spent)[i];
      seconds_of(&out->time)[i] += more / (double)sim->stages->num_stages;
    }
  }
  out->settled = out->step_s > 0;
  for (int64_t s = 0; s < sim->stages->num_stages && out->settled; s++) {
    const walker *w = &sim->walkers[s];
    bool slowest = close_to(period_s(w, 2), out->step_s);
    out->settled = slowest ? close_to(period_s(w, 1), out->step_s) : period_s(w, 1) < out->step_s * (1 + 1e-9);
  }
}

/* A step of so many micro-batches: its length and where it goes, in the mean over the stages. */
static tri_status simulate(const tri_stages *stages, int64_t micro_batches, tri_timeline *timeline, probe *looks,
                           double *step_s, tri_step_time *out) {
  simulation sim = {.stages = stages, .micro_batches = micro_batches, .timeline = timeline, .probe = looks};
  tri_status status = TRI_OK;
  double longest = 0;
  tri_step_time sum = {0};
  TRI_TRY_GOTO(tri_alloc("a simulation", (size_t)stages->num_stages, sizeof *sim.walkers, &sim.walkers), done);
  TRI_TRY_GOTO(create_programs(&sim), done);
  TRI_TRY_GOTO(create_room(&sim), done);
  TRI_TRY_GOTO(run(&sim), done);
  if (looks != NULL) read_probe(&sim);
  for (int64_t s = 0; s < stages->num_stages; s++) {
    if (sim.walkers[s].now > longest) longest = sim.walkers[s].now;
  }
  for (int64_t s = 0; s < stages->num_stages; s++) {
    walker *w = &sim.walkers[s];
    w->spent.bubble += longest - w->now;
    for (int i = 0; i < TIME_PARTS; i++) seconds_of(&sum)[i] += seconds_of(&w->spent)[i] / (double)stages->num_stages;
  }
  *step_s = longest;
  *out = sum;
done:
  release(&sim);
  return status;
}

/* ---- many micro-batches ------------------------------------------------------------------------------------------ */

typedef struct sample {
  double step_s;
  tri_step_time time;
} sample;

/* The middle of a step repeats itself once it has settled: what lies between is added without being run. */
static tri_status extrapolate(const tri_stages *stages, int64_t micro_batches, int64_t period, sample *out,
                              bool *settled) {
  probe looks = {.first = 2 * stages->request->layout->pipeline, .period = period};
  int64_t few = looks.first + 2 * period + 1;
  few += ((micro_batches - few) % period + period) % period;
  if (period > 4) few += period; /* the last groups of an interleaved schedule are no middle any more */
  *settled = false;
  if (few + period > micro_batches) return TRI_OK;
  TRI_TRY(simulate(stages, few, NULL, &looks, &out->step_s, &out->time));
  *settled = looks.settled;
  int64_t periods = (micro_batches - few) / period;
  double more = (double)periods;
  out->step_s += more * looks.step_s;
  double told = 0;
  for (int i = 0; i < TIME_PARTS; i++) {
    seconds_of(&out->time)[i] += more * seconds_of(&looks.time)[i];
    told += seconds_of(&out->time)[i];
  }
  out->time.bubble += out->step_s - told; /* of stages that were ahead */
  return TRI_OK;
}

/* Forwards of a step whose programs take so much memory that a search runs one of them at a time. */
enum { LONG_STEP = 20000 };

/* Whether a step has a middle in which the same comes again and again. */
static bool repeats_itself(tri_schedule_kind schedule) {
  switch (schedule) {
    case TRI_SCHEDULE_GPIPE: return false; /* all forwards first */
    case TRI_SCHEDULE_1F1B:
    case TRI_SCHEDULE_INTERLEAVED:
    case TRI_SCHEDULE_ZERO_BUBBLE: return true;
  }
  return false;
}

static tri_status run_step(const tri_stages *stages, sample *out) {
  bool settled = false;
  int64_t micro_batches = tri_layout_micro_batches(stages->request->layout, stages->request->global_batch);
  const tri_layout *layout = stages->request->layout;
  bool repeats = repeats_itself(layout->schedule);
  if (repeats && layout->virtual_stages == 1) TRI_TRY(extrapolate(stages, micro_batches, 4, out, &settled));
  if (repeats && !settled && layout->pipeline > 1) {
    TRI_TRY(extrapolate(stages, micro_batches, tri_schedule_period(layout, micro_batches), out, &settled));
  }
  if (settled) return TRI_OK;
  tri_status status;
  if (stages->num_stages * micro_batches < LONG_STEP) {
    return simulate(stages, micro_batches, NULL, NULL, &out->step_s, &out->time);
  }
#pragma omp critical(tri_long_step)
  status = simulate(stages, micro_batches, NULL, NULL, &out->step_s, &out->time);
  return status;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

double tri_step_model_flops(const tri_simulation_request *request) {
  return tri_model_flops_per_token(request->model, request->sequence) * (double)request->global_batch *
         (double)request->sequence;
}

/* A layer that is made again in full is a third more; the head is not. */
double tri_step_hardware_flops(const tri_simulation_request *request) {
  const tri_layout *layout = request->layout;
  double all = tri_step_model_flops(request);
  double head = 6.0 * (double)request->model->hidden_size * (double)request->model->vocab_size *
                (double)request->global_batch * (double)request->sequence;
  switch (layout->recompute) {
    case TRI_RECOMPUTE_NONE:
    case TRI_RECOMPUTE_SELECTIVE: return all; /* norms and activation functions, and no product */
    case TRI_RECOMPUTE_FULL: return all + (all - head) / 3.0 / (double)layout->recompute_every;
  }
  return all;
}

static tri_status check(const tri_simulation_request *request) {
  const tri_cluster *cluster = request->cluster;
  const tri_layout *layout = request->layout;
  int64_t devices = layout->tensor * layout->context * layout->data * layout->pipeline;
  if (tri_cluster_peak(cluster, request->precision) <= 0) {
    return tri_fail(TRI_UNSUPPORTED, "the cluster %s says no FLOP/s for %s; choose another --precision", cluster->name,
                    tri_dtype_name(request->precision));
  }
  if (devices > 1 && cluster->num_links == 0) {
    return tri_fail(TRI_BAD_CONFIG, "the cluster %s has no links, and %ld devices need some", cluster->name,
                    (long)devices);
  }
  int64_t reach = cluster->num_links == 0 ? 1 : cluster->links[cluster->num_links - 1].spans;
  if (reach != 0 && devices > reach) {
    return tri_fail(TRI_BAD_LAYOUT, "the links of the cluster %s join %ld devices, and the layout has %ld",
                    cluster->name, (long)reach, (long)devices);
  }
  return TRI_OK;
}

tri_status tri_simulate_step(const tri_simulation_request *request, tri_prediction *out) {
  tri_stages stages = {0};
  sample step;
  tri_prediction answer = {0};
  const tri_layout *layout = request->layout;
  TRI_TRY(check(request));
  TRI_TRY(tri_stages_create(request, &stages));
  tri_status status = run_step(&stages, &step);
  tri_stages_destroy(&stages);
  TRI_TRY(status);
  double devices = (double)(layout->tensor * layout->context * layout->data * layout->pipeline);
  double peak = tri_cluster_peak(request->cluster, request->precision);
  answer.step_s = step.step_s;
  answer.time = step.time;
  answer.bubble = step.time.bubble / step.step_s;
  answer.tokens_per_s = (double)request->global_batch * (double)request->sequence / step.step_s;
  answer.tflops_per_device = tri_step_hardware_flops(request) / step.step_s / devices / 1e12;
  answer.hfu = answer.tflops_per_device * 1e12 / peak;
  answer.mfu = tri_step_model_flops(request) / step.step_s / devices / peak;
  answer.model_tflops_per_device = answer.mfu * peak / 1e12;
  *out = answer;
  return TRI_OK;
}

tri_status tri_simulate(const tri_simulation_request *request, tri_prediction *out) {
  TRI_TRY(tri_simulate_step(request, out));
  TRI_TRY(tri_predict_fullest(request, &out->fullest_stage, &out->memory));
  out->fits = out->memory.peak <= request->cluster->memory_bytes;
  return TRI_OK;
}

tri_status tri_simulate_timeline(const tri_simulation_request *request, tri_timeline **out) {
  tri_stages stages = {0};
  tri_timeline *timeline = NULL;
  sample step;
  tri_status status = check(request);
  TRI_TRY(status);
  TRI_TRY(tri_stages_create(request, &stages));
  TRI_TRY_GOTO(tri_timeline_create((int)stages.num_stages, &timeline), done);
  for (int64_t s = 0; s < stages.num_stages; s++) {
    snprintf(timeline->labels[s], TRI_TIMELINE_LABEL_BYTES, "pipeline %ld", (long)s);
  }
  TRI_TRY_GOTO(simulate(&stages, tri_layout_micro_batches(request->layout, request->global_batch), timeline, NULL,
                        &step.step_s, &step.time),
               done);
  TRI_TRY_GOTO(tri_timeline_finish(timeline), done);
  *out = timeline;
  timeline = NULL;
done:
  tri_timeline_destroy(timeline);
  tri_stages_destroy(&stages);
  return status;
}
