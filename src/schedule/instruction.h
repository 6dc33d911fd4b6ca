/* The table of the instructions of step programs.
 *
 * A line is an instruction:
 *
 *   KIND        TRI_KIND is its value,
 *   name        printed name; functions for the instruction are named after it,
 *   operands    which members of a tri_instruction it uses (tri_operands),
 *   completion  whether it is done when it returns, or starts communication, or waits for it (tri_completion),
 *   event       the event to which its time is attributed in timelines and in the shares of step time: TRI_EVENT_event,
 *   domain      the ranks with which it communicates. The time of this communication is attributed to the axis of the
 *               domain. NONE: it never communicates; ALL: it communicates with all ranks of the job.
 *
 * Everything that depends on the kind of an instruction is made by expanding this list. Timelines and shares of step
 * time (timeline/instruction_event.h), the dry run and the check of programs read the columns of the list. Code that
 * does something different for each instruction has one function for each, named after the reader and the instruction
 * (step_load, tri_event_sim_load), and an array of these functions: a line without a function does not compile. */
#ifndef TRI_SCHEDULE_INSTRUCTION_H
#define TRI_SCHEDULE_INSTRUCTION_H

/* clang-format off */
/*  KIND             name             operands     compl.   event            domain */
#define TRI_INSTRUCTIONS(X) \
  /* read the tokens of a micro-batch */ \
  X(LOAD,            load,            micro_batch, at_once, LOAD,            NONE) \
  /* count the labels that contribute to the loss, summed over the global batch */ \
  X(COUNT_LABELS,    count_labels,    nothing,     at_once, LOAD,            LOSS) \
  /* pack the weights, because the last update changed the parameters */ \
  X(PREPARE,         prepare,         nothing,     at_once, OPTIMIZER,       NONE) \
  /* start to receive a message into an empty stage buffer: the next message of this buffer's kind */ \
  X(POST_RECEIVE,    post_receive,    stage_buffer_from,    starts,  COMMUNICATION,   PIPELINE) \
  /* wait until the message is in the stage buffer */ \
  X(RECEIVE,         receive,         stage_buffer_from,    waits,   COMMUNICATION,   PIPELINE) \
  /* start to send a stage buffer */ \
  X(SEND,            send,            stage_buffer_to,      starts,  COMMUNICATION,   PIPELINE) \
  /* wait until the stage buffer may be written again */ \
  X(WAIT_SENT,       wait_sent,       stage_buffer,         waits,   COMMUNICATION,   PIPELINE) \
  /* compute calls [first_call, end_call) of a chunk on a micro-batch */ \
  X(FORWARD,         forward,         calls,       at_once, FORWARD,         TENSOR) \
  /* compute gradients of inputs and weights of calls [first_call, end_call), one call after the other */ \
  X(BACKWARD,        backward,        calls_back,  at_once, BACKWARD,        TENSOR) \
  /* compute gradients of inputs only, which an earlier stage waits for */ \
  X(BACKWARD_INPUT,  backward_input,  calls_back,  at_once, BACKWARD_INPUT,  TENSOR) \
  /* compute gradients of weights only, which no stage waits for */ \
  X(BACKWARD_WEIGHT, backward_weight, calls_back,  at_once, BACKWARD_WEIGHT, TENSOR) \
  /* sum the gradients of the embedding and of the output projection that is tied to it */ \
  X(SUM_TIED,        sum_tied,        nothing,     at_once, OPTIMIZER,       PIPELINE) \
  /* sum a bucket's partial gradients over the ranks that have parts of them */ \
  X(SUM_PARTIAL,     sum_partial,     bucket,      at_once, OPTIMIZER,       TENSOR) \
  /* start to sum a bucket's gradients over its replicas: all-reduce, or reduce-scatter from ZeRO 1 on */ \
  X(REDUCE,          reduce,          bucket,      starts,  COMMUNICATION,   REPLICAS) \
  /* wait until the bucket's gradients are summed */ \
  X(WAIT_REDUCED,    wait_reduced,    bucket,      waits,   COMMUNICATION,   REPLICAS) \
  /* compute the gradient norm of the whole model, and the factor that clips it */ \
  X(CLIP,            clip,            nothing,     at_once, OPTIMIZER,       ALL) \
  /* update the parts of the parameters that this rank owns */ \
  X(UPDATE,          update,          nothing,     at_once, OPTIMIZER,       NONE) \
  /* start to all-gather a bucket's updated parameters over its replicas */ \
  X(GATHER,          gather,          bucket,      starts,  COMMUNICATION,   REPLICAS) \
  /* wait until the bucket's parameters are gathered */ \
  X(WAIT_GATHERED,   wait_gathered,   bucket,      waits,   COMMUNICATION,   REPLICAS)
/* clang-format on */

#define TRI_INSTRUCTION_KIND(KIND, ...) TRI_##KIND,
typedef enum tri_instruction_kind { TRI_INSTRUCTIONS(TRI_INSTRUCTION_KIND) } tri_instruction_kind;
#undef TRI_INSTRUCTION_KIND

/* The members of tri_instruction that an instruction uses. */
typedef enum tri_operands {
  TRI_OPERANDS_nothing,
  TRI_OPERANDS_micro_batch,
  TRI_OPERANDS_calls,      /* micro_batch, chunk, frame, calls from first_call up to end_call, in_buffer, out_buffer */
  TRI_OPERANDS_calls_back, /* the members of TRI_OPERANDS_calls; the calls run from end_call - 1 down to first_call */
  TRI_OPERANDS_stage_buffer_to,   /* a stage buffer, and the receiver and tag of its message */
  TRI_OPERANDS_stage_buffer_from, /* a stage buffer, and the sender and tag of its message */
  TRI_OPERANDS_stage_buffer,      /* a stage buffer whose message is being sent */
  TRI_OPERANDS_bucket,            /* a bucket and its chunk */
} tri_operands;

typedef enum tri_completion {
  TRI_COMPLETION_at_once,
  TRI_COMPLETION_starts, /* starts communication that runs while the program continues */
  TRI_COMPLETION_waits,  /* waits for communication that another instruction started */
} tri_completion;

const char *tri_instruction_name(tri_instruction_kind kind);
tri_operands tri_instruction_operands(tri_instruction_kind kind);
tri_completion tri_instruction_completion(tri_instruction_kind kind);

#endif
