/* The table of instructions: what a step program can say.
 *
 * A line is an instruction:
 *
 *   KIND        TRI_KIND is its value,
 *   name        what people read, and what functions for it are named after,
 *   operands    which numbers of a tri_instruction say what it is about (tri_operands),
 *   completion  whether it is done when it returns, or starts what another one waits for (tri_completion),
 *   event       what its time counts as, in a timeline and in every share of a step: TRI_EVENT_event,
 *   domain      the ranks that it communicates with, where it does: that part of its time counts as the domain's
 * axis's. NONE where it never does, ALL for all ranks together.
 *
 * All that has to be known of every instruction is made by expanding the list, so that there is no second one. What
 * follows from a column is read there: timelines and shares (timeline/instruction_event.h), the dry run, the check of
 * programs. Code that does something else for each instruction has a function for each, named after the reader and the
 * instruction (engine_load, tri_event_sim_load), and an array of those beside the functions: a line without its
 * function does not compile. */
#ifndef TRI_SCHEDULE_INSTRUCTION_H
#define TRI_SCHEDULE_INSTRUCTION_H

/* clang-format off */
/*  KIND             name             operands     compl.   event            domain */
#define TRI_INSTRUCTIONS(X) \
  /* read the tokens of a micro-batch */ \
  X(LOAD,            load,            micro_batch, at_once, LOAD,            NONE) \
  /* sum the labels that count, over the global batch */ \
  X(COUNT_LABELS,    count_labels,    nothing,     at_once, LOAD,            LOSS) \
  /* the parameters are new: pack weights */ \
  X(PREPARE,         prepare,         nothing,     at_once, OPTIMIZER,       NONE) \
  /* a stage buffer is empty: what comes next of its kind may be put there */ \
  X(POST_RECEIVE,    post_receive,    stage_buffer_from,    starts,  COMMUNICATION,   PIPELINE) \
  /* wait until the stage buffer is full */ \
  X(RECEIVE,         receive,         stage_buffer_from,    waits,   COMMUNICATION,   PIPELINE) \
  /* start to send a stage buffer */ \
  X(SEND,            send,            stage_buffer_to,      starts,  COMMUNICATION,   PIPELINE) \
  /* wait until the stage buffer may be written again */ \
  X(WAIT_SENT,       wait_sent,       stage_buffer,         waits,   COMMUNICATION,   PIPELINE) \
  /* operations [first, end) of a chunk on a micro-batch */ \
  X(FORWARD,         forward,         calls,       at_once, FORWARD,         TENSOR) \
  /* gradients of inputs and weights of the same, operation by operation */ \
  X(BACKWARD,        backward,        calls_back,  at_once, BACKWARD,        TENSOR) \
  /* gradients of inputs alone: what an earlier stage waits for */ \
  X(BACKWARD_INPUT,  backward_input,  calls_back,  at_once, BACKWARD_INPUT,  TENSOR) \
  /* gradients of weights alone: may fill a bubble */ \
  X(BACKWARD_WEIGHT, backward_weight, calls_back,  at_once, BACKWARD_WEIGHT, TENSOR) \
  /* add the gradients of a tied pair */ \
  X(SUM_TIED,        sum_tied,        nothing,     at_once, OPTIMIZER,       PIPELINE) \
  /* add the partial gradients of a bucket over the ranks of their parts */ \
  X(SUM_PARTIAL,     sum_partial,     bucket,      at_once, OPTIMIZER,       TENSOR) \
  /* start to add a bucket's gradients over its replicas */ \
  X(REDUCE,          reduce,          bucket,      starts,  COMMUNICATION,   REPLICAS) \
  /* wait for that */ \
  X(WAIT_REDUCED,    wait_reduced,    bucket,      waits,   COMMUNICATION,   REPLICAS) \
  /* the gradient's norm over the whole model, and the factor that clips it */ \
  X(CLIP,            clip,            nothing,     at_once, OPTIMIZER,       ALL) \
  /* the optimizer, on the parts that are this rank's */ \
  X(UPDATE,          update,          nothing,     at_once, OPTIMIZER,       NONE) \
  /* start to collect a bucket's new parameters from its replicas */ \
  X(GATHER,          gather,          bucket,      starts,  COMMUNICATION,   REPLICAS) \
  /* wait for that */ \
  X(WAIT_GATHERED,   wait_gathered,   bucket,      waits,   COMMUNICATION,   REPLICAS)
/* clang-format on */

#define TRI_INSTRUCTION_KIND(KIND, ...) TRI_##KIND,
typedef enum tri_instruction_kind { TRI_INSTRUCTIONS(TRI_INSTRUCTION_KIND) } tri_instruction_kind;
#undef TRI_INSTRUCTION_KIND

/* What an instruction is about: the members of a tri_instruction that it has. */
typedef enum tri_operands {
  TRI_OPERANDS_nothing,
  TRI_OPERANDS_micro_batch,
  TRI_OPERANDS_calls, /* a micro-batch, a chunk, its frame, calls from first_call on, the stage buffers that they use */
  TRI_OPERANDS_calls_back,        /* the same, and the calls are taken from end_call - 1 down */
  TRI_OPERANDS_stage_buffer_to,   /* a stage buffer, and for whom its message is */
  TRI_OPERANDS_stage_buffer_from, /* a stage buffer, and from whom its message comes */
  TRI_OPERANDS_stage_buffer,      /* a stage buffer whose message is on its way out */
  TRI_OPERANDS_bucket,            /* a bucket and its chunk */
} tri_operands;

typedef enum tri_completion {
  TRI_COMPLETION_at_once,
  TRI_COMPLETION_starts, /* something that goes on beside the program */
  TRI_COMPLETION_waits,  /* until that has ended */
} tri_completion;

const char *tri_instruction_name(tri_instruction_kind kind);
tri_operands tri_instruction_operands(tri_instruction_kind kind);
tri_completion tri_instruction_completion(tri_instruction_kind kind);

#endif
