/* Simulates a step by its programs: executes each instruction of each stage, and transfers messages between the
 * buffers of two stages. */
#include "base/memory.h"
#include "plan/event_sim.h"

/* The messages with one tag, in order. Times at which the sender and the receiver started each message, and at which
 * its transfer begins and ends, each [micro-batches]. */
typedef struct channel {
  double *sent, *posted, *begin, *end;
  int64_t num_sent, num_posted, num_done; /* numbers of messages so far; num_done: messages whose transfer is
                                             computed */
} channel;

typedef struct program_process {
  tri_stage_process base;
  tri_program *program;
  int64_t at; /* index of the next instruction */
  /* Tag and number of the message in each stage buffer [kind, stage buffer]. */
  int64_t *stage_buffer_tag, *stage_buffer_number;
} program_process;

typedef struct program_sim {
  tri_event_sim base;
  /* most_stage_buffers: largest number of stage buffers of one kind in a stage. */
  int64_t micro_batches, most_stage_buffers, num_channels;
  program_process *walkers; /* process of each stage [num_stages] */
  channel *channels;        /* channel of each tag [num_channels] */
  double *times;            /* memory of the arrays in `channels` */
} program_sim;

/* Return the struct whose first member is the argument. */
static program_sim *programs_of(tri_event_sim *walk) { return (program_sim *)walk; }
static program_process *program_of(tri_stage_process *w) { return (program_process *)w; }

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Computes the transfers of all messages that both sides have started. Messages with one tag are transferred one
 * after the other, since they use the same port. */
static void carry(const program_sim *walk, channel *c) {
  while (c->num_done < c->num_sent && c->num_done < c->num_posted) {
    int64_t n = c->num_done++;
    double begin = c->sent[n] > c->posted[n] ? c->sent[n] : c->posted[n];
    if (n > 0 && c->end[n - 1] > begin) begin = c->end[n - 1];
    c->begin[n] = begin;
    c->end[n] = begin + walk->base.stages->message_s;
  }
}

static int64_t stage_buffer_of(const program_sim *walk, const tri_instruction *at) {
  return (int64_t)at->stage_buffer_kind * walk->most_stage_buffers + at->stage_buffer;
}

static void start_message(const program_sim *walk, program_process *w, const tri_instruction *at, double *times,
                          int64_t *count) {
  w->stage_buffer_tag[stage_buffer_of(walk, at)] = at->tag;
  w->stage_buffer_number[stage_buffer_of(walk, at)] = *count;
  times[(*count)++] = w->base.now;
  carry(walk, &walk->channels[at->tag]);
}

/* Waits for the message in a stage buffer. Blocks the process if the transfer of the message is not computed yet,
 * because the other side has not started it. */
static tri_status await_message(program_sim *walk, program_process *w, const tri_instruction *at) {
  const channel *c = &walk->channels[w->stage_buffer_tag[stage_buffer_of(walk, at)]];
  int64_t number = w->stage_buffer_number[stage_buffer_of(walk, at)];
  w->base.blocked = c->num_done <= number;
  if (w->base.blocked) return TRI_OK;
  TRI_TRY(tri_event_sim_communicate(&walk->base, &w->base, at, c->begin[number], c->end[number]));
  w->base.host = w->base.now; /* the host waits with the rank */
  return TRI_OK;
}

tri_status tri_event_sim_post_receive(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  channel *c = &programs_of(walk)->channels[at->tag];
  start_message(programs_of(walk), program_of(w), at, c->posted, &c->num_posted);
  return TRI_OK;
}

tri_status tri_event_sim_receive(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return await_message(programs_of(walk), program_of(w), at);
}

tri_status tri_event_sim_send(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  channel *c = &programs_of(walk)->channels[at->tag];
  start_message(programs_of(walk), program_of(w), at, c->sent, &c->num_sent);
  if (!walk->stages->messages_hold) return TRI_OK;
  TRI_TRY(tri_event_sim_communicate(walk, w, at, w->now, w->now + walk->stages->message_s));
  w->host = w->now;
  return TRI_OK;
}

tri_status tri_event_sim_wait_sent(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at) {
  return await_message(programs_of(walk), program_of(w), at);
}

/* ---- the simulation ---------------------------------------------------------------------------------------------- */

static tri_status run_instructions(tri_event_sim *walk, tri_stage_process *base, bool *moved) {
  program_process *w = program_of(base);
  while (w->at < w->program->num_instructions) {
    base->blocked = false;
    TRI_TRY(tri_event_sim_instruction(walk, base, &w->program->instructions[w->at]));
    if (base->blocked) return TRI_OK;
    w->at++;
    *moved = true;
  }
  return TRI_OK;
}

static tri_status run(program_sim *walk) {
  TRI_TRY(tri_event_sim_run(&walk->base, walk->walkers, sizeof *walk->walkers, run_instructions));
  for (int64_t s = 0; s < walk->base.stages->num_stages; s++) {
    const program_process *w = &walk->walkers[s];
    if (w->at == w->program->num_instructions) continue;
    return tri_fail_internal("the simulated step never ends: stage %ld waits forever at instruction %ld", (long)s,
                             (long)w->at);
  }
  return TRI_OK;
}

static tri_status create_programs(program_sim *walk) {
  const tri_layout layout = tri_event_sim_layout(walk->base.stages);
  for (int64_t s = 0; s < walk->base.stages->num_stages; s++) {
    program_process *w = &walk->walkers[s];
    TRI_TRY(tri_stage_process_create(&walk->base, s, &w->base));
    tri_program_request of = tri_event_sim_program(walk->base.stages, &layout, s, walk->micro_batches);
    TRI_TRY(tri_program_create(&of, &w->program));
    for (int kind = 0; kind < TRI_NUM_STAGE_BUFFER_KINDS; kind++) {
      if (w->program->stage_buffers[kind] > walk->most_stage_buffers)
        walk->most_stage_buffers = w->program->stage_buffers[kind];
    }
  }
  return TRI_OK;
}

static tri_status create_room(program_sim *walk) {
  const tri_layout *layout = walk->base.stages->request->layout;
  size_t m = (size_t)walk->micro_batches,
         stage_buffers = (size_t)(TRI_NUM_STAGE_BUFFER_KINDS * walk->most_stage_buffers);
  walk->num_channels = layout->pipeline == 1 ? 0 : 2 * (layout->pipeline * layout->virtual_stages + 1);
  size_t channels = (size_t)walk->num_channels;
  TRI_TRY(tri_alloc("a simulation", channels, sizeof *walk->channels, &walk->channels));
  TRI_TRY(tri_alloc("a simulation", channels * m, 4 * sizeof(double), &walk->times));
  for (size_t c = 0; c < channels; c++) {
    double *at = walk->times + 4 * m * c;
    walk->channels[c] = (channel){.sent = at, .posted = at + m, .begin = at + 2 * m, .end = at + 3 * m};
  }
  for (int64_t s = 0; s < walk->base.stages->num_stages; s++) {
    program_process *w = &walk->walkers[s];
    TRI_TRY(tri_alloc("a simulation", 2 * stage_buffers, sizeof *w->stage_buffer_tag, &w->stage_buffer_tag));
    w->stage_buffer_number = w->stage_buffer_tag + stage_buffers;
  }
  return TRI_OK;
}

static void release(program_sim *walk) {
  for (int64_t s = 0; walk->walkers != NULL && s < walk->base.stages->num_stages; s++) {
    tri_free(walk->walkers[s].stage_buffer_tag);
    tri_program_destroy(walk->walkers[s].program);
    tri_stage_process_release(&walk->walkers[s].base);
  }
  tri_free(walk->times);
  tri_free(walk->channels);
  tri_free(walk->walkers);
}

tri_status tri_event_sim_programs(const tri_stages *stages, int64_t micro_batches, tri_timeline *timeline,
                                  tri_step_sample *out) {
  program_sim walk = {.base = {.stages = stages, .timeline = timeline}, .micro_batches = micro_batches};
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("a simulation", (size_t)stages->num_stages, sizeof *walk.walkers, &walk.walkers), done);
  TRI_TRY_GOTO(create_programs(&walk), done);
  TRI_TRY_GOTO(create_room(&walk), done);
  TRI_TRY_GOTO(run(&walk), done);
  *out = tri_event_sim_sum(stages, walk.walkers, sizeof *walk.walkers);
done:
  release(&walk);
  return status;
}
