/* Simulates a step by its turns. A turn is the forward or the backward of one micro-batch in one chunk. The simulation
 * does not create the instructions that schedule/program.c puts around each turn.
 *
 * Instead, it creates a program of three micro-batches for each kind of stage, and divides each turn in it into the
 * instructions before and after the message that the turn sends. Three micro-batches are enough: the first one writes
 * gradients, those in the middle accumulate, and after the last one gradients are reduced. Most turns are a single
 * instruction, so they have a single price.
 *
 * Only messages differ from turn to turn, and they follow from the turn: each tag has one message for each micro-batch,
 * and stage buffers are used in rotation. So a turn first waits for the message that it receives, and, if it sends one,
 * until the last message in the next stage buffer has been sent. Then it computes, posts the next receive into the
 * stage buffer that it has read, and sends. */
#include "base/memory.h"
#include "plan/event_sim.h"

#include <math.h>

enum { TURN_KINDS = TRI_TURN_BACKWARD_WEIGHT + 1, PLACES = 3 };

/* ---- instructions of a turn -------------------------------------------------------------------------------------- */

/* Instructions first .. end - 1. */
typedef struct span {
  const tri_instruction *first, *end;
} span;

/* The instructions of a turn, without those that receive and send. */
typedef struct duty {
  span before, behind; /* instructions before and after the message that the turn sends */
  bool plain;          /* whether the turn is a single forward or backward, whose price is `price` */
  tri_price price;
} duty;

/* The instructions of the stages of one kind. */
typedef struct script {
  tri_program *program; /* program of three micro-batches, or of fewer if the step has fewer */
  duty *duties;         /* instructions of each turn, at the index duty_of [chunks][TURN_KINDS][PLACES] */
  span begin, end;      /* instructions before the first and after the last turn of the step */
} script;

/* Returns the index of a turn in script.duties. It depends on the place of the micro-batch in the step: first, last,
 * or between them. */
static int64_t duty_of(int64_t chunk, int kind, int64_t micro_batch, int64_t micro_batches) {
  int64_t place = micro_batch == micro_batches - 1 ? 2 : micro_batch == 0 ? 0 : 1;
  return (chunk * TURN_KINDS + kind) * PLACES + place;
}

static bool starts_message(const tri_instruction *at) { return at->kind == TRI_POST_RECEIVE || at->kind == TRI_SEND; }
static bool awaits_message(const tri_instruction *at) { return at->kind == TRI_RECEIVE || at->kind == TRI_WAIT_SENT; }

/* Sets *out to the kind of turn that an instruction computes. Returns false if it is not a forward or a backward. */
static bool computes(tri_instruction_kind kind, tri_turn_kind *out) {
  if (kind == TRI_FORWARD) *out = TRI_TURN_FORWARD;
  if (kind == TRI_BACKWARD) *out = TRI_TURN_BACKWARD;
  if (kind == TRI_BACKWARD_INPUT) *out = TRI_TURN_BACKWARD_INPUT;
  if (kind == TRI_BACKWARD_WEIGHT) *out = TRI_TURN_BACKWARD_WEIGHT;
  return kind == TRI_FORWARD || kind == TRI_BACKWARD || kind == TRI_BACKWARD_INPUT || kind == TRI_BACKWARD_WEIGHT;
}

static tri_price price_of(const tri_stage_kind *kind, const tri_instruction *at) {
  if (at->kind == TRI_FORWARD) return tri_stages_price_forward(kind, at);
  return tri_stages_price_backward(kind, at, at->kind != TRI_BACKWARD_WEIGHT, at->kind != TRI_BACKWARD_INPUT);
}

static void read_turn(const tri_stage_kind *kind, script *s, span all) {
  duty found = {.before = all, .behind = {all.end, all.end}};
  const tri_instruction *compute = NULL;
  tri_turn_kind turn = TRI_TURN_FORWARD;
  while (found.before.first < all.end && awaits_message(found.before.first)) found.before.first++;
  for (const tri_instruction *at = found.before.first; at < all.end; at++) {
    if (computes(at->kind, &turn)) compute = at;
  }
  if (compute == NULL) return; /* a chunk without calls computes nothing */
  /* The messages that the turn starts follow its last forward or backward. In a program of so few micro-batches it may
   * start none. */
  found.before.end = found.behind.first = compute + 1;
  while (found.behind.first < all.end && starts_message(found.behind.first)) found.behind.first++;
  found.plain = found.before.end - found.before.first == 1 && found.behind.first == found.behind.end;
  if (found.plain) found.price = price_of(kind, compute);
  s->duties[duty_of(compute->chunk, (int)turn, compute->micro_batch, s->program->num_micro_batches)] = found;
}

/* Creates the script of a kind from the last stage of this kind. */
static tri_status script_create(const tri_stages *stages, const tri_layout *layout, int64_t k, int64_t micro_batches,
                                script *out) {
  const tri_stage_kind *kind = &stages->kinds[k];
  int64_t stage = stages->num_stages - 1;
  while (stages->kind_of[stage] != k) stage--;
  int64_t few = micro_batches < PLACES ? micro_batches : PLACES;
  tri_layout any = *layout; /* the group of micro-batches does not affect the instructions of a turn */
  any.micro_batch_group = 0;
  any = tri_schedule_settle(&any, few);
  tri_program_request of = tri_event_sim_program(stages, &any, stage, few);
  size_t duties = (size_t)layout->virtual_stages * TURN_KINDS * PLACES;
  TRI_TRY(tri_program_create(&of, &out->program));
  TRI_TRY(tri_alloc("a simulation", duties, sizeof *out->duties, &out->duties));
  const tri_program *program = out->program;
  const tri_instruction *all = program->instructions;
  for (int64_t t = 0; t < program->num_turns; t++) {
    read_turn(kind, out, (span){all + program->turn_first[t], all + program->turn_first[t + 1]});
  }
  out->begin = (span){all, all + program->turn_first[0]};
  while (out->begin.end > all && starts_message(out->begin.end - 1)) out->begin.end--;
  out->end = (span){all + program->turn_first[program->num_turns], all + program->num_instructions};
  while (out->end.first < out->end.end && awaits_message(out->end.first)) out->end.first++;
  return TRI_OK;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef struct message {
  /* Times at which the sender and the receiver started the message, and at which its transfer begins and ends. */
  double sent, posted, begin, end;
} message;

/* The messages with one tag; message n belongs to micro-batch n. Both sides have only a few stage buffers, so only
 * the last messages are stored, in a ring. */
typedef struct channel {
  message *ring;
  int64_t num_sent, num_posted, num_done;
} channel;

/* Number of directions of messages. Messages with activations have direction 0, messages with gradients direction 1. */
enum { WAYS = 2 };

/* Direction and tag of the message that a turn receives, and of the one that it sends; -1: no message. */
typedef struct route {
  int32_t in_way, in_tag, out_way, out_tag;
} route;

/* Tag and number of the message in a stage buffer. */
typedef struct parcel {
  int32_t tag, number;
} parcel;

/* Times at the start of a turn: `now`, `host` and `stream` of its process (tri_stage_process), and the arrival of the
 * message that it receives. */
typedef struct moment {
  double now, host, stream, message;
} moment;

typedef struct turn_walker {
  tri_stage_process base;
  const script *script;
  tri_turns turns;
  route *routes; /* route of each turn [chunks][TURN_KINDS] */
  int64_t at;    /* index of the next turn */
  /* By direction: index of the turn from which to look for the next receive to post. */
  int64_t to_post[WAYS];
  parcel *stage_buffers[WAYS]; /* last message sent from each stage buffer, by direction [stage buffers] */
  /* By direction: number of messages sent so far; stage buffer of the next message; number of messages that the
   * process has waited for after its last turn. */
  int64_t sent[WAYS], next_box[WAYS], drained[WAYS];
  bool begun;
  const tri_instruction *end_at; /* next instruction of script.end */
  moment *notes;                 /* start times of the turns of the last period [chunks][TURN_KINDS][probe->period] */
  tri_step_time spent;           /* base.spent one period before the last forward of chunk 0 that the probe compares */
} turn_walker;

typedef struct turn_walk {
  tri_event_sim base;
  /* stage_buffers: number for each direction. ring: size of channel.ring minus 1; the size is a power of two. */
  int64_t micro_batches, stage_buffers, ring;
  turn_walker *walkers;
  script *scripts;   /* script of each kind of stage [num_kinds] */
  channel *channels; /* channel of each tag */
  /* Memory of the arrays in `channels` and `walkers`. */
  message *messages;
  tri_turn *turns;
  route *routes;
  parcel *parcels;
  moment *notes;
  tri_step_probe *probe; /* test whether the middle of the step repeats; NULL: not tested */
} turn_walk;

/* Computes the transfers of all messages that both sides have started. Messages with one tag are transferred one
 * after the other, since they use the same port. */
static void carry(const turn_walk *walk, channel *c) {
  while (c->num_done < c->num_sent && c->num_done < c->num_posted) {
    int64_t n = c->num_done++;
    message *m = &c->ring[n & walk->ring];
    double begin = m->sent > m->posted ? m->sent : m->posted;
    if (n > 0 && c->ring[(n - 1) & walk->ring].end > begin) begin = c->ring[(n - 1) & walk->ring].end;
    m->begin = begin;
    m->end = begin + walk->base.stages->message_s;
  }
}

/* Waits for a message. Returns false if the transfer of the message is not computed yet, because the other side has not
 * started it. */
static bool await_message(const turn_walk *walk, turn_walker *w, int32_t tag, int64_t number) {
  const channel *c = &walk->channels[tag];
  if (c->num_done <= number) return false;
  const message *m = &c->ring[number & walk->ring];
  tri_stage_process_wait(&w->base, &w->base.spent.along[TRI_AXIS_PIPELINE], m->begin, m->end);
  w->base.host = w->base.now; /* the host waits with the rank */
  return true;
}

/* Posts the receive of the next turn that receives a message of direction `way`. Called when a stage buffer has
 * become empty. */
static void post_next(const turn_walk *walk, turn_walker *w, int way) {
  const tri_turn *end = w->turns.turns + w->turns.count, *turn = w->turns.turns + w->to_post[way];
  const route *by = NULL;
  for (; turn < end; turn++) {
    by = &w->routes[turn->chunk * TURN_KINDS + (int)turn->kind];
    if (by->in_way == way) break;
  }
  w->to_post[way] = turn - w->turns.turns + 1;
  if (turn >= end) return;
  channel *c = &walk->channels[by->in_tag];
  c->ring[c->num_posted++ & walk->ring].posted = w->base.now;
  carry(walk, c);
}

static void send(const turn_walk *walk, turn_walker *w, const route *by, int64_t number) {
  channel *c = &walk->channels[by->out_tag];
  int way = by->out_way;
  w->stage_buffers[way][w->next_box[way]] = (parcel){by->out_tag, (int32_t)number};
  w->next_box[way] = w->next_box[way] + 1 == walk->stage_buffers ? 0 : w->next_box[way] + 1;
  w->sent[way]++;
  c->ring[c->num_sent++ & walk->ring].sent = w->base.now;
  carry(walk, c);
  if (!walk->base.stages->messages_hold) return;
  tri_stage_process_wait(&w->base, &w->base.spent.along[TRI_AXIS_PIPELINE], w->base.now,
                         w->base.now + walk->base.stages->message_s);
  w->base.host = w->base.now;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

/* Compares the start of a turn with that of the same turn one period before. The shift of `now` must be the same for
 * all turns of all stages. The shifts of the host, of the stream of reductions and gathers, and of the message may be
 * smaller, since the rank waits for these only if they are late. */
static void compare(tri_step_probe *probe, const moment *before, const moment *now) {
  double period_s = now->now - before->now;
  if (probe->step_s == 0) probe->step_s = period_s;
  double most = probe->step_s * 1e-9;
  bool same = fabs(period_s - probe->step_s) <= most;
  bool late = now->host - before->host > probe->step_s + most || now->stream - before->stream > probe->step_s + most ||
              now->message - before->message > probe->step_s + most;
  if (!same || late) probe->settled = false;
}

static void note(const turn_walk *walk, turn_walker *w, const tri_turn *turn) {
  tri_step_probe *probe = walk->probe;
  if (probe == NULL) return;
  int64_t number = turn->micro_batch - probe->first, which = turn->chunk * TURN_KINDS + (int)turn->kind;
  if (number < 0 || number >= probe->count) return;
  const route *by = &w->routes[which];
  const channel *in = by->in_way < 0 ? NULL : &walk->channels[by->in_tag];
  moment now = {w->base.now, w->base.host, w->base.stream,
                in == NULL ? 0 : in->ring[turn->micro_batch & walk->ring].end};
  moment *before = &w->notes[which * probe->period + number % probe->period];
  if (number >= probe->period) compare(probe, before, &now);
  *before = now;
  if (which != TRI_TURN_FORWARD) return;
  if (number == probe->count - 1 - probe->period) w->spent = w->base.spent;
  if (number != probe->count - 1) return;
  for (int i = 0; i < TRI_TIME_PARTS; i++) {
    double more = tri_time_parts(&w->base.spent)[i] - tri_time_parts(&w->spent)[i];
    tri_time_parts(&probe->time)[i] += more / (double)walk->base.stages->num_stages;
  }
}

/* Runs instructions that neither send nor receive, so they never wait for another stage. */
static tri_status run_span(turn_walk *walk, turn_walker *w, span all) {
  for (const tri_instruction *at = all.first; at < all.end; at++) {
    TRI_TRY(tri_event_sim_instruction(&walk->base, &w->base, at));
  }
  return TRI_OK;
}

static void compute_turn(turn_walker *w, tri_price price) {
  tri_stage_process *base = &w->base;
  tri_stage_process_work(base, &base->spent.compute, tri_stage_process_launch(base, price));
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    tri_stage_process_wait(base, &base->spent.along[axis], base->now, base->now + price.along_s[axis]);
  }
}

/* Returns the additional seconds of attention that the documents of this micro-batch take, compared with a mean
 * micro-batch. */
static double more_s(const turn_walk *walk, const turn_walker *w, const tri_turn *turn) {
  const tri_attention_price *uneven = &w->base.kind->chunks[turn->chunk].uneven;
  if (walk->base.stages->more == NULL) return 0;
  double more = walk->base.stages->more[turn->micro_batch];
  switch (turn->kind) {
    case TRI_TURN_FORWARD: return more * uneven->forward_s;
    case TRI_TURN_BACKWARD:
    case TRI_TURN_BACKWARD_INPUT: return more * uneven->backward_s;
    case TRI_TURN_BACKWARD_WEIGHT: return 0;
  }
  return 0;
}

static tri_status run_turn(turn_walk *walk, turn_walker *w, bool *done) {
  const tri_turn *turn = &w->turns.turns[w->at];
  const route *by = &w->routes[turn->chunk * TURN_KINDS + (int)turn->kind];
  *done = false;
  if (by->in_way >= 0 && !await_message(walk, w, by->in_tag, turn->micro_batch)) return TRI_OK;
  if (by->out_way >= 0 && w->sent[by->out_way] >= walk->stage_buffers) {
    parcel before = w->stage_buffers[by->out_way][w->next_box[by->out_way]];
    if (!await_message(walk, w, before.tag, before.number)) return TRI_OK;
  }
  *done = true;
  w->at++;
  note(walk, w, turn);
  const duty *what = &w->script->duties[duty_of(turn->chunk, (int)turn->kind, turn->micro_batch, walk->micro_batches)];
  const double more = more_s(walk, w, turn);
  if (what->plain) {
    tri_price price = what->price;
    price.compute_s += more;
    compute_turn(w, price);
  } else {
    TRI_TRY(run_span(walk, w, what->before));
    tri_stage_process_work(&w->base, &w->base.spent.compute, more);
  }
  if (by->in_way >= 0) post_next(walk, w, by->in_way);
  if (by->out_way >= 0) send(walk, w, by, turn->micro_batch);
  return what->plain ? TRI_OK : run_span(walk, w, what->behind);
}

/* ---- the simulation ---------------------------------------------------------------------------------------------- */

static tri_status begin(turn_walk *walk, turn_walker *w) {
  w->begun = true;
  w->end_at = w->script->end.first;
  TRI_TRY(run_span(walk, w, w->script->begin));
  for (int64_t b = 0; b < walk->stage_buffers; b++) {
    for (int way = 0; way < WAYS; way++) post_next(walk, w, way);
  }
  return TRI_OK;
}

/* Waits, after the last turn, for the sent messages that are still in progress. Returns false if the transfer of one
 * is not computed yet. */
static bool drain(const turn_walk *walk, turn_walker *w) {
  for (int way = 0; way < WAYS; way++) {
    int64_t left = w->sent[way] < walk->stage_buffers ? w->sent[way] : walk->stage_buffers;
    for (; w->drained[way] < left; w->drained[way]++) {
      int64_t stage_buffer = (w->sent[way] - left + w->drained[way]) % walk->stage_buffers;
      if (!await_message(walk, w, w->stage_buffers[way][stage_buffer].tag, w->stage_buffers[way][stage_buffer].number))
        return false;
    }
  }
  return true;
}

/* Runs turns until the stage has to wait for another stage. base, process: first members of a turn_walk and of a
 * turn_walker. */
static tri_status run_turns(tri_event_sim *base, tri_stage_process *process, bool *moved) {
  turn_walk *walk = (turn_walk *)base;
  turn_walker *w = (turn_walker *)process;
  bool done = true;
  if (!w->begun) TRI_TRY(begin(walk, w));
  while (w->at < w->turns.count) {
    TRI_TRY(run_turn(walk, w, &done));
    if (!done) return TRI_OK;
    *moved = true;
  }
  if (!drain(walk, w)) return TRI_OK;
  for (; w->end_at < w->script->end.end; w->end_at++) {
    w->base.blocked = false;
    TRI_TRY(tri_event_sim_instruction(&walk->base, &w->base, w->end_at));
    if (w->base.blocked) return TRI_OK;
    *moved = true;
  }
  return TRI_OK;
}

static tri_status run(turn_walk *walk) {
  TRI_TRY(tri_event_sim_run(&walk->base, walk->walkers, sizeof *walk->walkers, run_turns));
  for (int64_t s = 0; s < walk->base.stages->num_stages; s++) {
    const turn_walker *w = &walk->walkers[s];
    if (w->at == w->turns.count && w->end_at == w->script->end.end) continue;
    return tri_fail_internal("the simulated step never ends: stage %ld waits forever in turn %ld of %ld", (long)s,
                             (long)w->at, (long)w->turns.count);
  }
  return TRI_OK;
}

/* ---- setting up -------------------------------------------------------------------------------------------------- */

static void find_routes(const tri_layout *layout, int64_t stage, route *routes) {
  for (int64_t i = 0; i < layout->virtual_stages * TURN_KINDS; i++) {
    const tri_turn turn = {(tri_turn_kind)(i % TURN_KINDS), 0, (int32_t)(i / TURN_KINDS)};
    tri_stage_buffer_kind stage_buffer = TRI_STAGE_BUFFER_ACTIVATION_IN;
    tri_message what = {-1, -1};
    routes[i] = (route){-1, -1, -1, -1};
    if (tri_program_message_in(layout, stage, &turn, &stage_buffer, &what)) {
      routes[i].in_way = stage_buffer == TRI_STAGE_BUFFER_GRADIENT_IN;
      routes[i].in_tag = what.tag;
    }
    if (tri_program_message_out(layout, stage, &turn, &stage_buffer, &what)) {
      routes[i].out_way = stage_buffer == TRI_STAGE_BUFFER_GRADIENT_OUT;
      routes[i].out_tag = what.tag;
    }
  }
}

static tri_status create_walkers(turn_walk *walk, const tri_layout *layout) {
  int64_t stages = layout->pipeline, most = layout->virtual_stages * walk->micro_batches * (TURN_KINDS - 1);
  int64_t routes = layout->virtual_stages * TURN_KINDS, period = walk->probe == NULL ? 0 : walk->probe->period;
  TRI_TRY(tri_alloc("a simulation", (size_t)(stages * most), sizeof *walk->turns, &walk->turns));
  TRI_TRY(tri_alloc("a simulation", (size_t)(stages * routes), sizeof *walk->routes, &walk->routes));
  TRI_TRY(tri_alloc("a simulation", (size_t)(stages * routes * period), sizeof *walk->notes, &walk->notes));
  TRI_TRY(
      tri_alloc("a simulation", (size_t)(stages * walk->stage_buffers), WAYS * sizeof *walk->parcels, &walk->parcels));
  for (int64_t s = 0; s < stages; s++) {
    turn_walker *w = &walk->walkers[s];
    TRI_TRY(tri_stage_process_create(&walk->base, s, &w->base));
    w->script = &walk->scripts[walk->base.stages->kind_of[s]];
    w->routes = walk->routes + s * routes;
    w->notes = walk->notes + s * routes * period;
    find_routes(layout, s, w->routes);
    for (int way = 0; way < WAYS; way++) w->stage_buffers[way] = walk->parcels + (s * WAYS + way) * walk->stage_buffers;
    /* Room for all turns, so that the array never grows. */
    w->turns = (tri_turns){.turns = walk->turns + s * most, .capacity = most};
    const tri_program_request of = tri_event_sim_program(walk->base.stages, layout, s, walk->micro_batches);
    TRI_TRY(tri_program_turns(&of, &w->turns));
  }
  return TRI_OK;
}

/* Allocates the channels. A send waits for a free stage buffer, so at most `stage_buffers` messages are sent and in
 * progress. At most `stage_buffers` receives are posted. A ring has room for these messages, and for the one before
 * them, whose end `carry` reads. */
static tri_status create_channels(turn_walk *walk, const tri_layout *layout) {
  int64_t count = layout->pipeline == 1 ? 0 : 2 * (layout->pipeline * layout->virtual_stages + 1), ring = 2;
  while (ring < 2 * walk->stage_buffers + 2 && ring < walk->micro_batches + 1) ring *= 2;
  walk->ring = ring - 1;
  TRI_TRY(tri_alloc("a simulation", (size_t)count, sizeof *walk->channels, &walk->channels));
  TRI_TRY(tri_alloc("a simulation", (size_t)(count * ring), sizeof *walk->messages, &walk->messages));
  for (int64_t c = 0; c < count; c++) walk->channels[c].ring = walk->messages + c * ring;
  return TRI_OK;
}

static tri_status create(turn_walk *walk) {
  const tri_stages *stages = walk->base.stages;
  const tri_layout layout = tri_event_sim_layout(stages);
  const tri_program_request first = tri_event_sim_program(stages, &layout, 0, walk->micro_batches);
  walk->stage_buffers = tri_program_stage_buffers(&first);
  TRI_TRY(tri_alloc("a simulation", (size_t)stages->num_kinds, sizeof *walk->scripts, &walk->scripts));
  for (int64_t k = 0; k < stages->num_kinds; k++) {
    TRI_TRY(script_create(stages, &layout, k, walk->micro_batches, &walk->scripts[k]));
  }
  TRI_TRY(create_channels(walk, &layout));
  TRI_TRY(tri_alloc("a simulation", (size_t)stages->num_stages, sizeof *walk->walkers, &walk->walkers));
  return create_walkers(walk, &layout);
}

static void release(turn_walk *walk) {
  const tri_stages *stages = walk->base.stages;
  for (int64_t s = 0; walk->walkers != NULL && s < stages->num_stages; s++)
    tri_stage_process_release(&walk->walkers[s].base);
  for (int64_t k = 0; walk->scripts != NULL && k < stages->num_kinds; k++) {
    tri_program_destroy(walk->scripts[k].program);
    tri_free(walk->scripts[k].duties);
  }
  tri_free(walk->notes);
  tri_free(walk->parcels);
  tri_free(walk->routes);
  tri_free(walk->turns);
  tri_free(walk->messages);
  tri_free(walk->channels);
  tri_free(walk->scripts);
  tri_free(walk->walkers);
}

tri_status tri_event_sim_turns(const tri_stages *stages, int64_t micro_batches, tri_step_probe *probe,
                               tri_step_sample *out) {
  turn_walk walk = {.base = {.stages = stages}, .micro_batches = micro_batches, .probe = probe};
  tri_status status = TRI_OK;
  if (probe != NULL) probe->settled = true;
  TRI_TRY_GOTO(create(&walk), done);
  TRI_TRY_GOTO(run(&walk), done);
  *out = tri_event_sim_sum(stages, walk.walkers, sizeof *walk.walkers);
done:
  release(&walk);
  return status;
}
