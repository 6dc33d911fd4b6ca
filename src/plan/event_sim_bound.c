/* A lower bound of the time of a step from the prices of its stages, without a simulation. It is above the bound of
 * bounds.h, since it counts each stage with all its layers, and the gathers of ZeRO 3. The search uses it to discard
 * layouts that are too slow before it simulates their turns.
 *
 * As event_sim_turns.c, it creates a program of three micro-batches for each kind of stage, and counts the one in the
 * middle as often as the step has such micro-batches. The step takes at least as long as, on any stage: the forwards of
 * one micro-batch on the stages before it, all its own work, and the backwards of one micro-batch on the stages before
 * it. With a split backward the last part does not count, because a stage may compute weight gradients while the last
 * gradient travels back. */
#include "base/count.h"
#include "base/memory.h"
#include "plan/event_sim.h"

#include <math.h>

enum { PLACES = 3 };

/* Lower bounds for a stage, in seconds. */
typedef struct stage_work {
  double begin_s;               /* before the first turn */
  double turns_s;               /* all turns, without the collectives of gradients among them */
  double reducing_turns_s;      /* all turns, with these collectives */
  double reduce_s;              /* after the last turn, until the gradient norm is known */
  double end_s;                 /* after the gradient norm */
  double forward_s, backward_s; /* one micro-batch in chunk 0 */
} stage_work;

/* Seconds of the turns of a stage, each summed over the turns. They overlap with each other. */
typedef struct turn_sums {
  double compute_s, along_s; /* computation; collectives that stop it, without those of gradients */
  double reduce_s;           /* collectives of gradients that stop it */
  double launch_s;           /* launches of kernels by the host */
  double stream_s;           /* gathers that overlap with computation */
  double alone_s;            /* a turn of computation and such gathers on a rank that does nothing else (turn_alone) */
} turn_sums;

/* Returns a + times * b. */
static turn_sums sums_plus(turn_sums a, double times, turn_sums b) {
  return (turn_sums){a.compute_s + times * b.compute_s, a.along_s + times * b.along_s,
                     a.reduce_s + times * b.reduce_s,   a.launch_s + times * b.launch_s,
                     a.stream_s + times * b.stream_s,   a.alone_s + times * b.alone_s};
}

static bool overlaps(const tri_stages *stages, bool system_overlaps) {
  return system_overlaps && !stages->request->cluster->carries;
}

static void add_price(tri_price price, turn_sums *to) {
  to->compute_s += price.compute_s;
  to->launch_s += price.launch_s;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) to->along_s += tri_larger_double(price.along_s[axis], 0);
}

/* Adds an instruction of a turn to the sums of the turn. */
static void add_instruction(const tri_stages *stages, const tri_stage_kind *kind, const tri_instruction *at,
                            turn_sums *turn) {
  const tri_system *system = stages->request->system;
  switch (at->kind) {
    case TRI_FORWARD: add_price(tri_stages_price_forward(kind, at), turn); return;
    case TRI_BACKWARD: add_price(tri_stages_price_backward(kind, at, true, true), turn); return;
    case TRI_BACKWARD_INPUT: add_price(tri_stages_price_backward(kind, at, true, false), turn); return;
    case TRI_BACKWARD_WEIGHT: add_price(tri_stages_price_backward(kind, at, false, true), turn); return;
    case TRI_SUM_PARTIAL: turn->reduce_s += kind->partial_s[at->bucket]; return;
    case TRI_REDUCE:
      if (!overlaps(stages, system->overlap_reductions)) turn->reduce_s += kind->reduce_s[at->bucket];
      return;
    case TRI_WAIT_GATHERED: /* not TRI_GATHER: a buffer may be gathered again before its first gather is awaited */
      *(overlaps(stages, system->overlap_gathers) ? &turn->stream_s : &turn->along_s) += kind->gather_s[at->bucket];
      return;
    case TRI_SEND:
      if (stages->messages_hold) turn->along_s += stages->message_s;
      return;
    case TRI_LOAD:
    case TRI_COUNT_LABELS:
    case TRI_PREPARE:
    case TRI_POST_RECEIVE:
    case TRI_RECEIVE:
    case TRI_WAIT_SENT:
    case TRI_SUM_TIED:
    case TRI_WAIT_REDUCED:
    case TRI_CLIP:
    case TRI_UPDATE:
    case TRI_GATHER: return;
  }
}

/* Adds the instructions after the last turn. All their collectives are awaited. Only sums of partial gradients may
 * overlap with reductions. */
static void add_end(const tri_stages *stages, const tri_stage_kind *kind, const tri_program *program,
                    stage_work *work) {
  double partial_s = 0, reduced_s = 0;
  for (int64_t i = program->reduce_first; i < program->num_instructions; i++) {
    const tri_instruction *at = &program->instructions[i];
    if (at->kind == TRI_SUM_TIED) work->reduce_s += kind->tied_s;
    if (at->kind == TRI_SUM_PARTIAL) partial_s += kind->partial_s[at->bucket];
    if (at->kind == TRI_REDUCE) reduced_s += kind->reduce_s[at->bucket];
    if (at->kind == TRI_CLIP) work->reduce_s += kind->clip_s + stages->clip_all_s;
    if (at->kind == TRI_UPDATE) work->end_s += kind->update_s;
    if (at->kind == TRI_GATHER) work->end_s += kind->gather_s[at->bucket];
  }
  const bool beside = overlaps(stages, stages->request->system->overlap_reductions);
  work->reduce_s += beside ? tri_larger_double(partial_s, reduced_s) : partial_s + reduced_s;
}

/* Returns the seconds of turns with these sums. While gathers are in progress, a computation runs at the rate
 * `beside`. */
static double turns_s(const tri_stages *stages, turn_sums all) {
  const double slowed = all.compute_s + all.stream_s * (1 - stages->request->cluster->beside);
  const double busy = tri_larger_double(all.compute_s + all.along_s, all.launch_s);
  return tri_larger_double(tri_larger_double(busy, all.alone_s), tri_larger_double(all.stream_s, slowed));
}

/* A turn on a rank that does nothing else, from the arrival of its message on. Times are in seconds since then. */
typedef struct alone {
  double now_s;                          /* end of the last instruction */
  double stream_s;                       /* end of the gathers that have been started */
  double gathered_s[TRI_BUCKET_BUFFERS]; /* end of the gather into each buffer */
} alone;

static void compute_alone(const tri_stages *stages, tri_price price, alone *at) {
  const double beside = stages->request->cluster->beside;
  const double done = tri_larger_double(at->stream_s - at->now_s, 0) * beside; /* while gathers are in progress */
  const double left = price.compute_s - done;
  at->now_s = left > 0 ? tri_larger_double(at->now_s, at->stream_s) + left : at->now_s + price.compute_s / beside;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) at->now_s += tri_larger_double(price.along_s[axis], 0);
}

/* Returns the end of the gather into the buffer of an instruction's bucket. */
static double *gathered_of(const tri_stage_kind *kind, const tri_instruction *in, alone *at) {
  return &at->gathered_s[kind->parts.buckets->entries[in->bucket].buffer];
}

/* Runs an instruction of a turn. The gathers of a turn begin in this turn, since each pass gathers its buckets
 * itself, and they follow each other. */
static void run_alone(const tri_stages *stages, const tri_stage_kind *kind, const tri_instruction *in, alone *at) {
  switch (in->kind) {
    case TRI_FORWARD: compute_alone(stages, tri_stages_price_forward(kind, in), at); return;
    case TRI_BACKWARD: compute_alone(stages, tri_stages_price_backward(kind, in, true, true), at); return;
    case TRI_BACKWARD_INPUT: compute_alone(stages, tri_stages_price_backward(kind, in, true, false), at); return;
    case TRI_BACKWARD_WEIGHT: compute_alone(stages, tri_stages_price_backward(kind, in, false, true), at); return;
    case TRI_GATHER:
      at->stream_s = tri_larger_double(at->stream_s, at->now_s) + kind->gather_s[in->bucket];
      *gathered_of(kind, in, at) = at->stream_s;
      return;
    case TRI_WAIT_GATHERED: at->now_s = tri_larger_double(at->now_s, *gathered_of(kind, in, at)); return;
    case TRI_SUM_PARTIAL:
    case TRI_REDUCE:
    case TRI_SEND:
    case TRI_LOAD:
    case TRI_COUNT_LABELS:
    case TRI_PREPARE:
    case TRI_POST_RECEIVE:
    case TRI_RECEIVE:
    case TRI_WAIT_SENT:
    case TRI_SUM_TIED:
    case TRI_WAIT_REDUCED:
    case TRI_CLIP:
    case TRI_UPDATE: return;
  }
}

/* Adds a turn to the work of a stage. `times`: number of turns like it in the step. */
static void add_turn(const tri_stages *stages, const tri_stage_kind *kind, const tri_program *program, int64_t turn,
                     int64_t micro_batches, turn_sums *all, stage_work *work) {
  const bool gathers = overlaps(stages, stages->request->system->overlap_gathers);
  const tri_instruction *compute = NULL;
  turn_sums sums = {0};
  alone at_work = {0};
  for (int64_t i = program->turn_first[turn]; i < program->turn_first[turn + 1]; i++) {
    const tri_instruction *at = &program->instructions[i];
    if (i >= program->reduce_first) break;
    if (at->first_call >= 0) compute = at;
    add_instruction(stages, kind, at, &sums);
    if (gathers) run_alone(stages, kind, at, &at_work);
  }
  if (compute == NULL) return;
  sums.alone_s = at_work.now_s;
  const bool middle = compute->micro_batch > 0 && compute->micro_batch + 1 < program->num_micro_batches;
  *all = sums_plus(*all, middle ? (double)(micro_batches - 2) : 1, sums);
  if (compute->chunk > 0) return;
  const bool forward = compute->kind == TRI_FORWARD;
  double *least = forward ? &work->forward_s : &work->backward_s;
  *least = fmin(*least, sums.compute_s + sums.along_s);
}

/* Computes the work of the stages of a kind. Like a script (event_sim_turns.c), it is that of the last stage of this
 * kind. */
static tri_status find_work(const tri_stages *stages, const tri_layout *settled, int64_t k, int64_t micro_batches,
                            stage_work *out) {
  const tri_stage_kind *kind = &stages->kinds[k];
  const int64_t few = micro_batches < PLACES ? micro_batches : PLACES;
  tri_layout any = *settled; /* the group of micro-batches does not affect the instructions of a turn */
  stage_work work = {.forward_s = INFINITY, .backward_s = INFINITY};
  if (!stages->forward_only) work.begin_s = kind->prepare_s + stages->count_s;
  turn_sums all = {0};
  tri_program *program = NULL;
  int64_t stage = stages->num_stages - 1;
  while (stages->kind_of[stage] != k) stage--;
  any.micro_batch_group = 0;
  any = tri_schedule_settle(&any, few);
  const tri_program_request of = tri_event_sim_program(stages, &any, stage, few);
  TRI_TRY(tri_program_create(&of, &program));
  for (int64_t t = 0; t < program->num_turns; t++) {
    add_turn(stages, kind, program, t, micro_batches, &all, &work);
  }
  add_end(stages, kind, program, &work);
  tri_program_destroy(program);
  all.launch_s -= work.begin_s; /* the host launches kernels from the start of the step on */
  work.turns_s = turns_s(stages, all);
  work.reducing_turns_s = tri_larger_double(work.turns_s, all.compute_s + all.along_s + all.reduce_s);
  *out = work;
  return TRI_OK;
}

tri_status tri_event_sim_bound(const tri_stages *stages, double *out) {
  const tri_layout layout = tri_event_sim_layout(stages);
  const int64_t micro_batches = tri_layout_micro_batches(&layout, stages->request->global_batch);
  const bool returns =
      !stages->forward_only && !tri_schedule_of(layout.schedule)->split_backward && layout.first_trained == 0;
  stage_work *works = NULL;
  tri_status status = TRI_OK;
  /* A stage that does not compute while it sends has the message in its turns. */
  const double hop_s = stages->messages_hold ? 0 : stages->message_s;
  double before_s = 0, behind_s = 0, turns_end_s = 0, end_s = 0;
  TRI_TRY(tri_alloc("a bound", (size_t)stages->num_kinds, sizeof *works, &works));
  for (int64_t k = 0; k < stages->num_kinds; k++) {
    TRI_TRY_GOTO(find_work(stages, &layout, k, micro_batches, &works[k]), done);
  }
  const double first_reduce_s = works[stages->kind_of[0]].reduce_s;
  before_s = works[stages->kind_of[0]].begin_s;
  for (int64_t s = 0; s < stages->num_stages; s++) {
    const stage_work *work = &works[stages->kind_of[s]];
    turns_end_s = fmax(turns_end_s, before_s + work->reducing_turns_s + work->reduce_s);
    if (returns) turns_end_s = fmax(turns_end_s, before_s + work->turns_s + behind_s + first_reduce_s);
    end_s = fmax(end_s, work->end_s);
    before_s += work->forward_s + hop_s;
    behind_s += work->backward_s + hop_s;
  }
  *out = turns_end_s + end_s;
done:
  tri_free(works);
  return status;
}
