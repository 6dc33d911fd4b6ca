/* The step program: the work of one rank in one training step, as a flat list of instructions.
 *
 * The engine executes it, the simulator prices it and the memory plan assigns memory to it; none of them depends on
 * the schedule. A schedule (schedule.h) is the order of a stage's forwards and backwards; everything else of a step
 * is added here: messages between stages, reductions of buckets as soon as their gradients are complete, and the end
 * of the step: reduce, clip, update, gather.
 *
 * Messages pass through stage buffers, a few of each kind, used in turn. A receive is posted as soon as its stage
 * buffer is empty, and a stage buffer is sent while the rank computes. So each message has an instruction that
 * starts it and one that waits for it. Messages between two ranks are matched by their tag (tri_message). Messages
 * with equal tags are matched by their order, since both ranks process the micro-batches of a chunk in order. */
#ifndef TRI_SCHEDULE_PROGRAM_H
#define TRI_SCHEDULE_PROGRAM_H

#include "base/status.h"
#include "ops/list.h"
#include "schedule/buckets.h"
#include "schedule/instruction.h"
#include "schedule/layout.h"
#include "schedule/schedule.h"

/* Kind of a stage buffer: content and direction of its messages. */
typedef enum tri_stage_buffer_kind {
  TRI_STAGE_BUFFER_ACTIVATION_IN,
  TRI_STAGE_BUFFER_ACTIVATION_OUT,
  TRI_STAGE_BUFFER_GRADIENT_IN,
  TRI_STAGE_BUFFER_GRADIENT_OUT
} tri_stage_buffer_kind;
enum { TRI_NUM_STAGE_BUFFER_KINDS = 4 };

/* One instruction. Numbers that an instruction of its kind does not use (tri_operands) are -1. */
typedef struct tri_instruction {
  tri_instruction_kind kind;
  int32_t micro_batch, chunk;
  int32_t frame;                           /* the frame (memory_plan.h) that holds the micro-batch's activations */
  int32_t first_call, end_call;            /* calls of the chunk's list; -1 in a program that was made without lists */
  tri_stage_buffer_kind stage_buffer_kind; /* only for messages */
  int32_t stage_buffer;                    /* for messages: number of the stage buffer among those of its kind */
  int32_t in_buffer, out_buffer; /* for forwards and backwards: stage buffers that they read and write; -1: none */
  int32_t peer, tag;             /* for messages: stage of the other rank; tag (tri_message) */
  int32_t bucket;
} tri_instruction;

typedef struct tri_program {
  tri_instruction *instructions;
  int64_t num_instructions;
  int64_t num_micro_batches;
  int64_t num_chunks;
  int64_t *num_frames; /* largest number of micro-batches in flight at the same time, for each chunk [num_chunks] */
  int64_t stage_buffers[TRI_NUM_STAGE_BUFFER_KINDS]; /* number of stage buffers of each kind */
  bool split_backward; /* whether backwards of inputs and of weights are separate; gradients are then kept from one to
                          the other */
  int64_t *turn_first; /* first instruction of each turn, and the end of the last turn [num_turns + 1] */
  int64_t num_turns;
  int64_t reduce_first, update_first; /* reduce_first: index of the first instruction after all turns; update_first:
                                         index of the update, or num_instructions in a program without an update */
} tri_program;

/* The rank for which to create a program. */
typedef struct tri_program_request {
  const tri_layout *layout; /* resolved layout */
  int64_t stage;            /* from 0 to layout->pipeline - 1 */
  int64_t micro_batches;
  const tri_op_list *const *lists; /* lists of the chunks [virtual_stages]; NULL: instructions have no calls, in
                                      programs that are not executed */
  const tri_buckets *buckets;      /* NULL: no reductions and no update */
  bool tied_pair;    /* whether this rank holds the embedding or the output projection of tied embeddings, or both */
  bool forward_only; /* whether to create the program of an evaluation */
  bool reduces_each; /* whether the gradients of every micro-batch are reduced, instead of their sum in the last one;
                        for programs that are not executed */
} tri_program_request;

/* Creates the program of a rank. Release with tri_program_destroy. */
tri_status tri_program_create(const tri_program_request *request, tri_program **out);
void tri_program_destroy(tri_program *program);

const char *tri_stage_buffer_name(tri_stage_buffer_kind kind);

/* A message between two stages. The messages with one tag belong to the micro-batches 0, 1, ... in this order. */
typedef struct tri_message {
  int32_t peer; /* index of the other stage */
  int32_t tag;  /* 2 v, or 2 v + 1 for a gradient; v: the virtual stage that receives the message */
} tri_message;

/* Find the message that a turn of a stage waits for (`in`) or sends (`out`), and the kind of its stage buffer.
 * Return false if there is no message. */
bool tri_program_message_in(const tri_layout *layout, int64_t stage, const tri_turn *turn, tri_stage_buffer_kind *kind,
                            tri_message *out);
bool tri_program_message_out(const tri_layout *layout, int64_t stage, const tri_turn *turn, tri_stage_buffer_kind *kind,
                             tri_message *out);

/* Append the turns of the program of a stage to *out, in order; and return its number of stage buffers of each kind.
 * Neither function reads the lists and buckets of the request. */
tri_status tri_program_turns(const tri_program_request *request, tri_turns *out);
int64_t tri_program_stage_buffers(const tri_program_request *request);

/* Checks that the programs of all stages do not deadlock when they run together, even if each send only ends after
 * its receive has been posted. Fails with TRI_INTERNAL if they deadlock. */
tri_status tri_program_check(const tri_program *const *programs, int64_t stages);

#endif
