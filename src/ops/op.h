/* Operations as descriptions, without a device, a rank or memory. run.h declares the context in which they run.
 *
 * A model is a short list of calls of operations over numbered slots (list.h). An operation is one file with everything
 * the system knows about it: how shapes follow, how much memory it needs, how it runs forward and backward, and its
 * costs. The engine, the memory plan and the simulator all use its table of functions (tri_op).
 *
 * A slot is a matrix [rows, width]: rows are the tokens of a micro-batch on this rank. The gradient of a slot is read
 * only by the call that produced the slot, and written by the calls that consume it: the first of these in backward
 * order overwrites it, and the others add to it (`accumulate`). */
#ifndef TRI_OPS_OP_H
#define TRI_OPS_OP_H

#include "base/status.h"
#include "device/block_weights.h"
#include "device/description.h"
#include "device/dtype.h"
#include "mesh/domain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of inputs, outputs, parameters and buffers of a call. */
enum { TRI_OP_INPUTS = 5, TRI_OP_OUTPUTS = 4, TRI_OP_PARAMETERS = 5, TRI_OP_BUFFERS = 2 };

/* The type in which the values of a parameter are stored: WIDE is the type of master weights (fp32, or fp64 on
 * `reference`), NARROW that of activations. */
#define TRI_STORED(X)                                                                                                  \
  X(WIDE, wide)                                                                                                        \
  X(NARROW, narrow)                                                                                                    \
  X(NF4, nf4)   /* in 4 bits (device/nf4.h), dequantised to the activations' type before each GEMM (weight.c) */       \
  X(BF16, bf16) /* in bf16, whatever the activations' type; not trained */                                             \
  X(Q8_0, q8_0) /* in blocks (device/block_weights.h); not trained */                                                  \
  X(Q4_0, q4_0)
#define TRI_STORED_VALUE(VALUE, name) TRI_STORED_##VALUE,
typedef enum tri_stored { TRI_STORED(TRI_STORED_VALUE) } tri_stored;
enum { TRI_NUM_STORED = TRI_STORED_Q4_0 + 1 };

/* Returns the type in which GEMMs read a parameter that is stored as `stored`. `activations`: type of activations. */
static inline tri_dtype tri_stored_type(tri_stored stored, tri_dtype activations) {
  switch (stored) {
    case TRI_STORED_WIDE: return tri_dtype_wide(activations);
    case TRI_STORED_BF16: return TRI_BF16;
    case TRI_STORED_NARROW:
    case TRI_STORED_NF4:
    case TRI_STORED_Q8_0:
    case TRI_STORED_Q4_0: break;
  }
  return activations;
}

/* Returns whether an array that is stored as `stored` has codes, whose unit is a byte, and not numbers. */
static inline bool tri_stored_is_coded(tri_stored stored) {
  switch (stored) {
    case TRI_STORED_WIDE:
    case TRI_STORED_NARROW:
    case TRI_STORED_BF16: return false;
    case TRI_STORED_NF4:
    case TRI_STORED_Q8_0:
    case TRI_STORED_Q4_0: break;
  }
  return true;
}

/* Returns the bytes of one unit of an array that is stored as `stored`: the bytes of an element, or 1 for codes. */
static inline size_t tri_stored_bytes(tri_stored stored, tri_dtype activations) {
  return tri_stored_is_coded(stored) ? 1 : tri_dtype_bytes(tri_stored_type(stored, activations));
}

/* Returns whether a matrix is stored in blocks, and sets *out to their type. */
static inline bool tri_stored_in_blocks(tri_stored stored, tri_block_type *out) {
  switch (stored) {
    case TRI_STORED_WIDE:
    case TRI_STORED_NARROW:
    case TRI_STORED_NF4:
    case TRI_STORED_BF16: return false;
    case TRI_STORED_Q8_0: *out = TRI_BLOCKS_Q8_0; return true;
    case TRI_STORED_Q4_0: break;
  }
  *out = TRI_BLOCKS_Q4_0;
  return true;
}

/* Return the type in which ranks exchange ranges of an array that is stored as `stored`, and the number of units
 * (tri_stored_bytes) in one element of that type. */
static inline tri_dtype tri_stored_gathered(tri_stored stored, tri_dtype activations) {
  return tri_stored_is_coded(stored) ? TRI_FP32 : tri_stored_type(stored, activations);
}

static inline int64_t tri_stored_unit(tri_stored stored) {
  return tri_stored_is_coded(stored) ? (int64_t)sizeof(float) : 1;
}

typedef enum tri_pass {
  TRI_PASS_FORWARD,
  TRI_PASS_BACKWARD_INPUT,
  TRI_PASS_BACKWARD_WEIGHT,
} tri_pass;
enum { TRI_NUM_PASSES = 3 };

/* Returns one of three values, by the pass. */
static inline double tri_pass_choose(tri_pass pass, double forward, double backward_input, double backward_weight) {
  switch (pass) {
    case TRI_PASS_FORWARD: return forward;
    case TRI_PASS_BACKWARD_INPUT: return backward_input;
    case TRI_PASS_BACKWARD_WEIGHT: return backward_weight;
  }
  return 0;
}

typedef struct tri_op tri_op;
typedef struct tri_op_call tri_op_call;
typedef struct tri_run tri_run; /* run.h */

/* The matrix that a slot holds. */
typedef struct tri_shape {
  int64_t rows, width;
  tri_dtype type;
} tri_shape;

/* Memory that a call needs in addition to its slots. */
typedef struct tri_op_memory {
  size_t workspace_bytes;              /* scratch, used during one pass of the call */
  size_t buffer_bytes[TRI_OP_BUFFERS]; /* kept between two calls of `prepare`, such as packed weights */
} tri_op_memory;

typedef enum tri_collective {
  TRI_COLLECTIVE_NONE,
  TRI_COLLECTIVE_ALL_REDUCE,
  TRI_COLLECTIVE_ALL_GATHER,
  TRI_COLLECTIVE_REDUCE_SCATTER,
  TRI_COLLECTIVE_ALL_TO_ALL,
  TRI_COLLECTIVE_PASS, /* each rank sends its block to the next rank of a ring */
} tri_collective;

/* Communication in one pass of a call. */
typedef struct tri_cost_exchange {
  tri_collective collective; /* TRI_COLLECTIVE_NONE: no communication */
  tri_domain domain;         /* the ranks that take part */
  double bytes; /* bytes of the whole buffer, with the parts of all ranks; all-to-all: bytes that one rank sends to all
                   ranks together; ring pass: bytes of the largest block */
  double times; /* number of these collectives, one after the other; 0 means 1 */
  double overlapped; /* number of these collectives that overlap with this call's computation, at most `times` */
} tri_cost_exchange;
enum { TRI_COST_EXCHANGES = 3 };

/* The form of a GEMM a b: plain (NN), b transposed (NT: a b^T), or a transposed (TN: a^T b, the gradient of a weight),
 * which the first micro-batch of a step writes (GRADIENT) and the others add to (ADDED). */
typedef enum tri_gemm_form {
  TRI_GEMM_PLAIN,
  TRI_GEMM_TRANSPOSED,
  TRI_GEMM_GRADIENT,
  TRI_PRODUCT_ADDED,
} tri_gemm_form;
enum { TRI_NUM_GEMM_FORMS = 4 };

/* The cost of one pass of a call. */
typedef struct tri_cost {
  double flops;        /* multiplications and additions of GEMMs */
  double vector_flops; /* element-wise arithmetic, done by vector units and bound by memory bandwidth */
  double capped;       /* part of vector_flops for soft caps of scores, which tables of measurements do not contain */
  double bytes;        /* bytes read and written, each tensor once */
  double copied;       /* bytes read and written by copies and sums before and after the computation */
  double spread; /* part of `copied` that is needed because ranks split the same experts and each of them receives every
                    row; not needed on a system with gathers_experts (plan/system.h) */
  double rows, inner, columns; /* shape of the GEMM of `flops`: [rows, inner] x [inner, columns]; 0: no GEMM */
  double products;             /* number of GEMMs of that shape that run at the same time */
  tri_gemm_form form;
  bool unpacked;   /* whether the GEMM's b is a weight that is not packed before the step */
  double elements; /* number of elements of element-wise work, as tables of measurements count them (work.h) */
  double scores; /* attention: number of pairs of positions, times heads; rows, inner and columns are then the shape of
                    q k^T */
  tri_cost_exchange exchanges[TRI_COST_EXCHANGES];
} tri_cost;

/* One differentiable operation. A bit of a mask is 1 if the statement in the mask's comment holds. */
struct tri_op {
  const char *name;
  const char *work;          /* name of its element-wise work in measurements (work.h); NULL: its own name */
  unsigned keeps_inputs;     /* bit i: a backward pass reads input i */
  unsigned keeps_outputs;    /* bit j: a backward pass reads output j */
  unsigned only_for_weights; /* bit i: input i is read only for the gradients of parameters */
  bool in_place;             /* whether forward may write output 0 over input 0 */
  bool backward_in_place;    /* whether backward_input may write the gradient of input 0 over that of output 0 */
  bool passes_gradient;    /* whether each input's gradient equals the gradient of output 0, so that there is no work if
                              the gradients share memory */
  bool passes_messages;    /* whether the operation receives its rows from another stage, or sends them to one */
  unsigned adds_gradients; /* bit i: backward_input can add to the gradient of input i */
  unsigned no_gradients;   /* bit i: input i has no gradient, because it is not a value of the model */
  bool of_experts;         /* whether its outputs are rows of experts, or tables of such rows */
  bool gathers_sequence;   /* whether its output is the gathered slices of the tensor ranks */
  bool routes;             /* whether the operation counts the rows of each expert in a step */
  bool makes_loss;         /* whether the operation writes the loss of the micro-batch */
  bool cheap; /* whether its output needs much memory but little time to compute, so that it is worth a recompute */
  bool sums;  /* whether output 0 is just input 0 + input 1 */
  bool clears_gradient; /* whether the first backward_weight of a step clears the gradient of parameter 0 */
  bool weights_read;  /* whether backward_weight reads values of parameters: the gradient of a LoRA factor A depends on
                         B */
  bool reads_experts; /* whether every pass may read the parameters of its layer's experts, which other calls have */
  bool takes_sum;     /* whether forward can also compute input 0 if a residual sum produces it (tri_op_call.sum) */
  bool awaits; /* whether the operation waits for a transfer that the producer of input 0 has started: exchange 0 of
                  this call's forward and exchange 0 of the producer's backward_input overlap with the calls between the
                  two */

  /* Computes the local shapes of the outputs from those of the inputs. */
  tri_status (*shape)(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                      tri_shape outputs[TRI_OP_OUTPUTS]);
  /* Computes the memory that a call needs. NULL: none. */
  tri_status (*memory)(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out);
  /* Returns the bytes of the transfer buffer, through which rows go to other ranks during a pass of the call; other
   * ranks of the node may read the buffer in place. NULL: none. */
  size_t (*transfer)(const tri_op_call *call);
  /* Returns the bytes of host memory that the call keeps for a micro-batch from its forward to its last backward:
   * counts that the device has sent, and transfers in progress. NULL: none. */
  size_t (*host_state)(const tri_op_call *call);
  /* Updates `buffers` after the parameters have changed; may use the workspace of the call's forward. NULL: nothing to
   * do. */
  tri_status (*prepare)(tri_run *run, const tri_op_call *call);
  tri_status (*forward)(tri_run *run, const tri_op_call *call);
  tri_status (*backward_input)(tri_run *run, const tri_op_call *call);  /* gradient of the inputs; may be NULL */
  tri_status (*backward_weight)(tri_run *run, const tri_op_call *call); /* gradient of the parameters; may be NULL */
  /* Computes the cost of a pass that the operation has; *out is 0 before. Called by tri_op_cost. */
  void (*cost)(const tri_op_call *call, tri_pass pass, tri_cost *out);
  /* Adds the cost of `prepare`, once a step, without packing `buffers`. NULL: nothing. */
  void (*prepare_cost)(const tri_op_call *call, tri_cost *out);
};

/* One line of a list. Absent slots and parameters are -1. */
struct tri_op_call {
  const tri_op *op;
  const void *attributes; /* the operation's own struct (ops.h), owned by the list */
  int32_t index;          /* index in the list */
  int32_t layer;          /* layer of the model; -1 before the first, num_layers after the last */
  int32_t inputs[TRI_OP_INPUTS], outputs[TRI_OP_OUTPUTS];
  int32_t parameters[TRI_OP_PARAMETERS]; /* index of a parameter, or of the first of several adjacent ones */
  unsigned frozen;                       /* bit i: parameter i is not trained, so it needs no gradient */
  tri_stored stored;                     /* storage of parameter 0 */
  int32_t constant;
  int32_t window; /* index in tri_op_windows of the sliding window that attention uses */
  int32_t sum; /* index of the previous call if its sum is computed in this call's forward, in one pass over memory; or
                  -1 */
  int64_t rows, sequence;    /* tokens of a micro-batch, positions of a sequence: the planned maximum */
  int64_t first_row;         /* if `sliced`: the first row of the micro-batch on this rank */
  int64_t most_slices;       /* maximum length of a list of attention slices */
  double attention_fraction; /* fraction of the causal score matrix that masks leave, on average; 1: all of it */
  tri_dtype type;            /* type of activations */
  bool sliced;   /* sequence parallelism: whether the call works on this rank's slice of the rows of the micro-batch */
  bool training; /* whether a backward pass follows */
  bool backward; /* whether its outputs depend on trained parameters, so that its backward runs */
  bool passes_back; /* whether the gradient of an input is needed, so that backward_input runs if the operation has one
                     */
  bool generating;  /* whether the prefill is followed by steps of one position for each sequence */
  bool keeps_dense; /* generating: whether another call or executor reads the dense values of parameter 0, so that they
                       are not packed in place */
  bool expert;      /* whether the call belongs to a layer of experts and comes after `dispatch` */
  bool weights_gathered; /* ZeRO 3: whether parameters are gathered for each use, so that they are not packed ahead */
  bool recomputable;     /* whether the call is in a layer whose forward may be recomputed before its backward */
  bool recompute;        /* whether its forward is recomputed (recompute.h) */
  bool accumulate[TRI_OP_INPUTS]; /* whether another call writes this input's gradient first, so that this call adds to
                                     it */
};

static inline bool tri_op_is_frozen(const tri_op_call *call, int parameter) {
  return (call->frozen >> parameter & 1u) != 0;
}

/* Returns whether backward_input has anything to compute. */
static inline bool tri_op_has_inputs(const tri_op_call *call) {
  return call->op->backward_input != NULL && call->passes_back;
}

/* Returns the number of directions of the call's GEMM: forward, and backward of the inputs. */
static inline int tri_op_directions(const tri_op_call *call) { return tri_op_has_inputs(call) ? 2 : 1; }

/* Returns whether backward_weight has anything to compute. */
static inline bool tri_op_has_weights(const tri_op_call *call) {
  if (call->op->backward_weight == NULL || !call->backward) return false;
  bool any = false, all_frozen = true;
  for (int i = 0; i < TRI_OP_PARAMETERS; i++) {
    if (call->parameters[i] < 0) continue;
    any = true;
    all_frozen = all_frozen && tri_op_is_frozen(call, i);
  }
  return !any || !all_frozen;
}

/* Return whether a backward pass reads an output, or an input. */
static inline bool tri_op_keeps_output(const tri_op_call *call, int output) {
  return call->backward && (call->op->keeps_outputs >> output & 1u) != 0;
}
static inline bool tri_op_keeps_input(const tri_op_call *call, int input) {
  if (!call->backward) return false;
  const unsigned kept = call->op->keeps_inputs & ~(tri_op_has_weights(call) ? 0u : call->op->only_for_weights);
  return (kept >> input & 1u) != 0;
}

/* Sets the cost of element-wise work: operations per element, and values read and written per element. */
static inline void tri_op_cost_of_elements(const tri_op_call *call, double elements, double flops, double values,
                                           tri_cost *out) {
  *out = (tri_cost){.elements = elements,
                    .vector_flops = elements * flops,
                    .bytes = elements * (double)tri_dtype_bytes(call->type) * values};
}

/* Computes the cost of a pass; 0 if its result is not needed. */
static inline void tri_op_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  *out = (tri_cost){0};
  if (pass == TRI_PASS_BACKWARD_WEIGHT && !tri_op_has_weights(call)) return;
  if (pass == TRI_PASS_BACKWARD_INPUT && !tri_op_has_inputs(call)) return;
  call->op->cost(call, pass, out);
}

#endif
