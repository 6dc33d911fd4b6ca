/* The step program: what one rank does in one training step, as a flat stream of instructions.
 *
 * The engine executes it, the simulator prices it and the memory plan lays it out; none of them knows a schedule. A
 * schedule (schedule.h) says in which order a stage takes its forwards and backwards; everything else of a step is put
 * around that here: messages between stages, reductions of buckets as soon as their gradients are whole, and what ends
 * the step: reduce, clip, update, gather.
 *
 * Messages pass through stage buffers, a few of each kind, used in turn. A receive is posted as soon as its stage
 * buffer is empty, and a stage buffer is sent from while the rank computes; so a program has the instruction that
 * starts a message and the one that waits for it. Messages between two ranks are matched by their tag (the virtual
 * stage that they are for) and, with equal tags, by their order: both sides take a chunk's micro-batches in order. */
#ifndef TRI_SCHEDULE_PROGRAM_H
#define TRI_SCHEDULE_PROGRAM_H

#include "base/status.h"
#include "ops/list.h"
#include "schedule/buckets.h"
#include "schedule/instruction.h"
#include "schedule/layout.h"
#include "schedule/schedule.h"

/* What a message carries. */
typedef enum tri_stage_buffer_kind {
  TRI_STAGE_BUFFER_ACTIVATION_IN,
  TRI_STAGE_BUFFER_ACTIVATION_OUT,
  TRI_STAGE_BUFFER_GRADIENT_IN,
  TRI_STAGE_BUFFER_GRADIENT_OUT
} tri_stage_buffer_kind;
enum { TRI_NUM_STAGE_BUFFER_KINDS = 4 };

/* -1 if the instruction has none of it. */
typedef struct tri_instruction {
  tri_instruction_kind kind;
  int32_t micro_batch, chunk;
  int32_t frame;                /* the set of kept activations that the micro-batch lives in until its last backward */
  int32_t first_call, end_call; /* of the chunk's list; -1 if the program is only looked at */
  tri_stage_buffer_kind stage_buffer_kind; /* messages */
  int32_t stage_buffer;                    /* messages: which of its kind */
  int32_t in_buffer, out_buffer;           /* forwards and backwards: the stage buffers they read and write */
  int32_t peer, tag;                       /* messages: the other rank's stage */
  int32_t bucket;
} tri_instruction;

typedef struct tri_program {
  tri_instruction *instructions;
  int64_t num_instructions;
  int64_t num_micro_batches;
  int64_t num_chunks;
  int64_t *num_frames;                               /* [num_chunks]: micro-batches in flight at most */
  int64_t stage_buffers[TRI_NUM_STAGE_BUFFER_KINDS]; /* of each kind */
  bool split_backward; /* inputs and weights apart: gradients live from one to the other */
  int64_t *turn_first; /* [num_turns + 1]: where each turn of the schedule begins, and what is behind them */
  int64_t num_turns;
  int64_t end_first, update_first; /* behind all passes; and where the update begins */
} tri_program;

/* A rank whose program is asked for. */
typedef struct tri_program_request {
  const tri_layout *layout; /* resolved */
  int64_t stage;            /* of layout->pipeline */
  int64_t micro_batches;
  const tri_op_list *const
      *lists;                 /* [virtual_stages]; NULL: the program is only looked at, and has no calls to split */
  const tri_buckets *buckets; /* NULL: a forward alone, without reductions and update */
  bool tied_pair;             /* this rank holds one of a tied pair, or both */
  bool forward_only;          /* evaluation */
} tri_program_request;

/* Release with tri_program_destroy. */
tri_status tri_program_create(const tri_program_request *request, tri_program **out);
void tri_program_destroy(tri_program *program);

const char *tri_stage_buffer_name(tri_stage_buffer_kind kind);

/* A message between two stages: the other's number, and the virtual stage that it is for, twice, and 1 if it is a
 * gradient. Of one tag there is a message for each micro-batch, in their order. */
typedef struct tri_message {
  int32_t peer, tag;
} tri_message;

/* The message that a turn of a stage waits for, or makes, and the stage buffer that it lies in; false: none. */
bool tri_program_message_in(const tri_layout *layout, int64_t stage, const tri_turn *turn, tri_stage_buffer_kind *kind,
                            tri_message *out);
bool tri_program_message_out(const tri_layout *layout, int64_t stage, const tri_turn *turn, tri_stage_buffer_kind *kind,
                             tri_message *out);

/* Stage buffers of each kind in a training step of that many micro-batches. */
int64_t tri_program_stage_buffers(const tri_layout *layout, int64_t micro_batches);

/* Whether the programs of all stages, run together, end if a message is done only once both sides have started it: no
 * deadlock over stage buffers. */
tri_status tri_program_check(const tri_program *const *programs, int64_t stages);

#endif
