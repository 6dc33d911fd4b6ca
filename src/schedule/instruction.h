/* The table of instructions: what a step program can say.
 *
 * A line is an instruction: X(KIND, name), TRI_KIND and the name that people read. All that has to be known of every
 * instruction is made by expanding the list, so that nobody keeps a second one. Whoever does something for each of them
 * has a function for each, named after the reader and the instruction (engine_load, simulate_load), and an array of
 * those beside the functions: a line without its function does not compile. */
#ifndef TRI_SCHEDULE_INSTRUCTION_H
#define TRI_SCHEDULE_INSTRUCTION_H

/* clang-format off */
#define TRI_INSTRUCTIONS(X) \
  X(LOAD, load)                       /* read the tokens of a micro-batch                                      */ \
  X(COUNT_LABELS, count_labels)       /* sum the labels that count, over the global batch                      */ \
  X(PREPARE, prepare)                 /* the parameters are new: pack weights                                  */ \
  X(POST_RECEIVE, post_receive)       /* a box is empty: what comes next of its kind may be put there          */ \
  X(RECEIVE, receive)                 /* wait until the box is full                                            */ \
  X(SEND, send)                       /* start to send a box                                                   */ \
  X(WAIT_SENT, wait_sent)             /* wait until the box may be written again                               */ \
  X(FORWARD, forward)                 /* operations [first, end) of a chunk on a micro-batch                   */ \
  X(BACKWARD, backward)               /* gradients of inputs and weights of the same, operation by operation   */ \
  X(BACKWARD_INPUT, backward_input)   /* gradients of inputs alone: what an earlier stage waits for            */ \
  X(BACKWARD_WEIGHT, backward_weight) /* gradients of weights alone: may fill a bubble                         */ \
  X(SUM_TIED, sum_tied)               /* add the gradients of a tied pair                                      */ \
  X(SUM_PARTIAL, sum_partial)         /* add the partial gradients of a bucket over the tensor group           */ \
  X(REDUCE, reduce)                   /* start to add a bucket's gradients over the data ranks                 */ \
  X(WAIT_REDUCED, wait_reduced)       /* wait for that                                                         */ \
  X(CLIP, clip)                       /* the gradient's norm over the whole model, and the factor that clips it */ \
  X(UPDATE, update)                   /* the optimizer, on the parts that are this rank's                      */ \
  X(GATHER, gather)                   /* start to collect a bucket's new parameters from the data ranks        */ \
  X(WAIT_GATHERED, wait_gathered)     /* wait for that                                                         */
/* clang-format on */

#define TRI_INSTRUCTION_KIND(KIND, name) TRI_##KIND,
typedef enum tri_instruction_kind { TRI_INSTRUCTIONS(TRI_INSTRUCTION_KIND) } tri_instruction_kind;
#undef TRI_INSTRUCTION_KIND

const char *tri_instruction_name(tri_instruction_kind kind);

#endif
