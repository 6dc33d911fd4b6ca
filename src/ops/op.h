/* Operations as they are described: with no device, no rank and no memory at hand. What they run on is run.h.
 *
 * A model is a short list of calls of operations over numbered slots (list.h). An operation is one file that holds
 * everything the system knows about it: how shapes follow, what memory it wants, how it runs forward and backward, and
 * what it costs. The engine runs it, the memory plan lays it out and the simulator prices it through this one table.
 *
 * A slot is a matrix [rows, width]: rows are the tokens of a micro-batch on this rank. The gradient of a slot is read
 * only by the call that produced it, and written by the calls that consume it: the first of them in
 * backward order writes, the others add (`accumulate`). */
#ifndef TRI_OPS_OP_H
#define TRI_OPS_OP_H

#include "base/status.h"
#include "device/description.h"
#include "device/dtype.h"
#include "mesh/domain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that a call has of each. */
enum { TRI_OP_INPUTS = 5, TRI_OP_OUTPUTS = 4, TRI_OP_PARAMETERS = 5, TRI_OP_BUFFERS = 2 };

/* The type in which the values of a parameter are stored: WIDE is the type of master weights (fp32, or fp64 on
 * `reference`), NARROW that of activations. */
#define TRI_STORED(X)                                                                                                  \
  X(WIDE, wide)                                                                                                        \
  X(NARROW, narrow) /* in the activations' type */                                                                     \
  X(NF4, nf4)       /* in 4 bits (device/nf4.h), and in the activations' type before each product (weight.c) */
#define TRI_STORED_VALUE(VALUE, name) TRI_STORED_##VALUE,
typedef enum tri_stored { TRI_STORED(TRI_STORED_VALUE) } tri_stored;
enum { TRI_NUM_STORED = TRI_STORED_NF4 + 1 };

/* The type that products read of a parameter stored like this, beside activations of a type. */
static inline tri_dtype tri_stored_type(tri_stored stored, tri_dtype activations) {
  switch (stored) {
    case TRI_STORED_WIDE: return tri_dtype_wide(activations);
    case TRI_STORED_NARROW:
    case TRI_STORED_NF4: break;
  }
  return activations;
}

/* Bytes of one unit of an array of such parameters: an element, or a byte for NF4. */
static inline size_t tri_stored_bytes(tri_stored stored, tri_dtype activations) {
  switch (stored) {
    case TRI_STORED_WIDE:
    case TRI_STORED_NARROW: return tri_dtype_bytes(tri_stored_type(stored, activations));
    case TRI_STORED_NF4: break;
  }
  return 1;
}

/* The type of the numbers as which a stretch of such an array passes between ranks, and how many of the array's
 * elements (in 4 bits bytes) are one. */
static inline tri_dtype tri_stored_gathered(tri_stored stored, tri_dtype activations) {
  switch (stored) {
    case TRI_STORED_WIDE:
    case TRI_STORED_NARROW: return tri_stored_type(stored, activations);
    case TRI_STORED_NF4: break;
  }
  return TRI_FP32;
}

static inline int64_t tri_stored_unit(tri_stored stored) {
  switch (stored) {
    case TRI_STORED_WIDE:
    case TRI_STORED_NARROW: return 1;
    case TRI_STORED_NF4: break;
  }
  return (int64_t)sizeof(float);
}

typedef enum tri_pass {
  TRI_PASS_FORWARD,
  TRI_PASS_BACKWARD_INPUT,
  TRI_PASS_BACKWARD_WEIGHT,
} tri_pass;
enum { TRI_NUM_PASSES = 3 };

/* One of three values, by the pass. */
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

/* Memory that a call needs beside its slots. */
typedef struct tri_op_memory {
  size_t workspace_bytes;              /* scratch, during one pass of the call */
  size_t buffer_bytes[TRI_OP_BUFFERS]; /* kept from one `prepare` to the next: packed weights */
} tri_op_memory;

typedef enum tri_collective {
  TRI_COLLECTIVE_NONE,
  TRI_COLLECTIVE_ALL_REDUCE,
  TRI_COLLECTIVE_ALL_GATHER,
  TRI_COLLECTIVE_REDUCE_SCATTER,
  TRI_COLLECTIVE_ALL_TO_ALL,
  TRI_COLLECTIVE_PASS, /* each rank sends its block to the next one in a ring */
} tri_collective;

/* Communication in one pass of a call. */
typedef struct tri_cost_exchange {
  tri_collective collective; /* or none */
  tri_domain domain;         /* the ranks that take part */
  double bytes;              /* of the whole buffer, all ranks' parts together; for an all-to-all what one rank has for
                                all ranks, for a ring pass the largest block */
  double times;              /* how many of these one after the other; 0 means 1 */
  double overlapped;         /* how many of `times` overlap with this call's computation */
} tri_cost_exchange;
enum { TRI_COST_EXCHANGES = 3 };

/* The form of a product a b: plain (NN), b transposed (NT: a b^T), or a transposed (TN: a^T b, the gradient of a
 * weight), which the first micro-batch of a step writes (GRADIENT) and the others add to (ADDED). */
typedef enum tri_product_form {
  TRI_PRODUCT_PLAIN,
  TRI_PRODUCT_TRANSPOSED,
  TRI_PRODUCT_GRADIENT,
  TRI_PRODUCT_ADDED,
} tri_product_form;
enum { TRI_NUM_PRODUCT_FORMS = 4 };

/* The cost of one pass of a call. */
typedef struct tri_cost {
  double flops;        /* multiplications and additions of matrix products */
  double vector_flops; /* element-wise arithmetic, done by vector units and bound by memory bandwidth */
  double capped;       /* the part of vector_flops for soft caps of scores, which tables of measurements do not have */
  double bytes;        /* read and written, each tensor once */
  double copied;       /* bytes read and written by copies and sums before and after that */
  double spread;       /* the part of `copied` that each further tensor rank of an expert adds; collectives among these
                          ranks do without it */
  double rows, inner, columns; /* the product [rows, inner] x [inner, columns] that flops are of; 0: there is none */
  double products;             /* how many of that size at the same time */
  tri_product_form form;
  bool unpacked;   /* the product's b is a weight that is not packed ahead */
  double elements; /* of element-wise work, as tables of measurements count them (work.h) */
  double scores;   /* attention: pairs of positions, times heads; the product above is then that of q and k */
  tri_cost_exchange exchanges[TRI_COST_EXCHANGES];
} tri_cost;

/* One differentiable operation. */
struct tri_op {
  const char *name;
  const char *work;          /* what its elements are measured as (work.h); NULL: its own name */
  unsigned keeps_inputs;     /* bit i: a backward pass reads input i */
  unsigned keeps_outputs;    /* bit j: a backward pass reads output j */
  unsigned only_for_weights; /* bit i: input i is read for the gradients of parameters alone */
  bool in_place;             /* forward may write output 0 over input 0 */
  bool backward_in_place;    /* backward_input may write the gradient of input 0 over that of output 0 */
  bool passes_gradient;      /* each input's gradient is that of output 0: no work where they share memory */
  bool passes_messages;      /* its rows come from another stage, or go to one */
  unsigned adds_gradients;   /* bit i: backward_input can add to the gradient of input i */
  unsigned no_gradients;     /* bit i: input i has no gradient: it is not a value of the model */
  bool of_experts;           /* its output has rows of experts */
  bool gathers_sequence;     /* its output is the tensor ranks' slices of rows, gathered */
  bool routes;               /* counts the rows of each expert in a step */
  bool makes_loss;           /* writes the loss of the micro-batch */
  bool cheap;                /* its output takes more memory than time: recompute it */
  bool sums;                 /* output 0 is input 0 + input 1, and nothing else */
  bool clears_gradient;      /* the first backward_weight of a step clears the gradient of parameter 0 */
  bool takes_sum;            /* forward can compute its input 0 if that is a sum: tri_op_call.sum */
  bool awaits;               /* waits for a transfer that the call which makes input 0 has started: exchange 0 of its
                                forward overlaps the calls between them, and so does exchange 0 of that call's
                                backward_input */

  /* Local shapes of the outputs from those of the inputs. */
  tri_status (*shape)(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                      tri_shape outputs[TRI_OP_OUTPUTS]);
  /* NULL: it needs none. */
  tri_status (*memory)(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out);
  /* Bytes of the transfer buffer, through which rows go to other ranks during one of its passes; other ranks of the
   * node may read it in place. NULL: none. */
  size_t (*transfer)(const tri_op_call *call);
  /* Bytes of host memory that the call keeps for a micro-batch from its forward to its last backward: counts that the
   * device has sent, and transfers under way. NULL: none. */
  size_t (*host_state)(const tri_op_call *call);
  /* The parameters have new values: updates `buffers`; may use the workspace of its forward. NULL: nothing to do. */
  tri_status (*prepare)(tri_run *run, const tri_op_call *call);
  tri_status (*forward)(tri_run *run, const tri_op_call *call);
  tri_status (*backward_input)(tri_run *run, const tri_op_call *call);  /* gradient of the inputs; may be NULL */
  tri_status (*backward_weight)(tri_run *run, const tri_op_call *call); /* gradient of the parameters; may be NULL */
  void (*cost)(const tri_op_call *call, tri_pass pass, tri_cost *out);
  /* Adds what `prepare` computes once a step beside packing `buffers`. NULL: nothing. */
  void (*prepare_cost)(const tri_op_call *call, tri_cost *out);
};

/* One line of a list. Absent slots and parameters are -1. */
struct tri_op_call {
  const tri_op *op;
  const void *attributes; /* the operation's own struct (ops.h), owned by the list */
  int32_t index;          /* in the list */
  int32_t layer;          /* of the model; -1 before the first, num_layers behind the last */
  int32_t inputs[TRI_OP_INPUTS], outputs[TRI_OP_OUTPUTS];
  int32_t parameters[TRI_OP_PARAMETERS]; /* index of a parameter, or of the first of several that lie side by side */
  unsigned frozen;                       /* bit i: parameter i is not trained, so it needs no gradient */
  tri_stored stored;                     /* how parameter 0 is stored */
  int32_t constant;
  int32_t window;            /* index of the list's sliding window, and so of its attention slices */
  int32_t sum;               /* index of the call right before it, if its forward computes that sum too, in one pass
                                over memory; or -1 */
  int64_t rows, sequence;    /* tokens of a micro-batch, positions of a sequence: the most, which is planned for */
  int64_t first_row;         /* if `sliced`: the first row of the micro-batch that this rank has */
  int64_t most_slices;       /* of attention in a list: planned for */
  double attention_fraction; /* of the causal score matrix that masks leave, on average; 1: all of it */
  tri_dtype type;            /* of activations */
  bool sliced;               /* sequence parallelism: `rows` are this rank's slice of the micro-batch's */
  bool training;             /* a backward pass follows */
  bool backward;             /* its outputs depend on parameters that are trained: a backward pass comes to it */
  bool passes_back;          /* the gradient of an input is needed: backward_input runs, if there is one */
  bool generating;           /* after prefill come steps of one position for each sequence */
  bool expert;               /* works on rows of experts: it is behind `route` in its layer */
  bool weights_gathered;     /* ZeRO 3: parameters are gathered for each use, so they are not packed ahead */
  bool recomputable;         /* in a layer whose forward may run again before its backward */
  bool recompute;            /* its forward does run again (recompute.h) */
  bool accumulate[TRI_OP_INPUTS]; /* another call has written this input's gradient: add to it */
};

static inline bool tri_op_is_frozen(const tri_op_call *call, int parameter) {
  return (call->frozen >> parameter & 1u) != 0;
}

/* Whether backward_input has anything to compute. */
static inline bool tri_op_has_inputs(const tri_op_call *call) {
  return call->op->backward_input != NULL && call->passes_back;
}

/* Directions of a product that the call makes: forward, and backward of the inputs. */
static inline int tri_op_directions(const tri_op_call *call) { return tri_op_has_inputs(call) ? 2 : 1; }

/* Whether backward_weight has anything to compute. */
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

/* Whether a backward pass reads an input, or an output. */
static inline bool tri_op_keeps_output(const tri_op_call *call, int output) {
  return call->backward && (call->op->keeps_outputs >> output & 1u) != 0;
}
static inline bool tri_op_keeps_input(const tri_op_call *call, int input) {
  if (!call->backward) return false;
  const unsigned kept = call->op->keeps_inputs & ~(tri_op_has_weights(call) ? 0u : call->op->only_for_weights);
  return (kept >> input & 1u) != 0;
}

/* The cost of a pass; nothing if its result is not needed. */
static inline void tri_op_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  *out = (tri_cost){0};
  if (pass == TRI_PASS_BACKWARD_WEIGHT && !tri_op_has_weights(call)) return;
  if (pass == TRI_PASS_BACKWARD_INPUT && !tri_op_has_inputs(call)) return;
  call->op->cost(call, pass, out);
}

#endif
