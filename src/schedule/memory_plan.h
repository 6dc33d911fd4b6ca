/* The memory plan: the offset of everything that a program uses in one arena, known before anything is allocated.
 *
 *   gradients | reduce buffers | gradients of frozen vectors (sink) | transfer buffer | the optimizer's states |
 *   values and results of a step | batches | stage buffers | partial sums | scratch of collectives |
 *   chunk 0: constants | packed weights | chunk 1: ... | scratch region
 *
 * The scratch region is the part whose contents no later step needs:
 *
 *   frames of chunk 0 | frames of chunk 1 | ... | transient | room for a borrower
 *
 * Between steps it may be lent: the executor that samples completions has its own scratch region and its cache of keys
 * and values there. Without training the packed weights are in the scratch region, too.
 *
 * The parameters have an allocation of their own (weights_plan.h). The plan of host memory is
 *
 *   values and results of a step | batches | host state of each frame | copies of the stage buffers and of the transfer
 *   buffer | staging of collectives | staging of checkpoints
 *
 * Reduce buffers hold the whole gradients of two buckets (ZeRO 2 and 3 with one micro-batch in a step). A rank has
 * only its own part of the other gradients.
 *
 * A chunk is the list of operations of one virtual stage of this rank. A frame holds the tensors that one
 * micro-batch keeps from its forward to its backward; a chunk has as many frames as it has micro-batches in flight.
 * The transient region is shared by everything that lives within one instruction: activations that no backward
 * reads, gradients of activations, scratch memory of operations. Two tensors in this region may overlap if they are
 * never alive at the same time. Time is counted in operations: first the forwards of all operations, then their
 * backwards in reverse order; the recomputed forwards of a layer come before its backwards. */
#ifndef TRI_SCHEDULE_MEMORY_PLAN_H
#define TRI_SCHEDULE_MEMORY_PLAN_H

#include "base/status.h"
#include "mesh/batch_columns.h"
#include "ops/list.h"
#include "schedule/program.h"
#include "schedule/updates.h"
#include "schedule/weights_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tri_region { TRI_REGION_NONE, TRI_REGION_FRAME, TRI_REGION_TRANSIENT } tri_region;

/* The place of a slot or a gradient: an offset in its frame or in the transient region. */
typedef struct tri_place {
  tri_region region;
  size_t offset;
} tri_place;

/* A call has scratch memory for each of its passes (tri_pass), at index `pass`, and for its recomputed forward before
 * the backward of the inputs or of the weights, at index TRI_WORKSPACE_AGAIN + `pass`. */
enum { TRI_WORKSPACE_AGAIN = TRI_NUM_PASSES - 1, TRI_NUM_WORKSPACES = 2 * TRI_NUM_PASSES - 1 };

typedef struct tri_chunk_plan {
  int64_t num_slots, num_calls, num_constants;
  tri_place *slots;     /* [TRI_NUM_PASSES * num_slots]: place of a slot in each pass; a recomputed slot has several */
  tri_place *gradients; /* [num_slots]: place of each slot's gradient */
  size_t *workspaces;   /* [num_calls * TRI_NUM_WORKSPACES]: offsets in the transient region */
  size_t *buffers;      /* [num_calls * TRI_OP_BUFFERS]: offsets in the arena; 0: no buffer */
  size_t *constants;    /* [num_constants]: offsets in the arena */
  size_t *host_state;   /* [num_calls + 1]: offset of each call's host state within the host state of a frame; the last
                           element: bytes of the host state of a frame */
  size_t host_states;   /* offset in host memory of the host state of frame 0 */
  int64_t first_router; /* index of the first router of this chunk among the routers of the rank */
  int64_t num_frames;
  size_t frames, frame_bytes; /* offset of frame 0 in the arena; bytes of a frame */
} tri_chunk_plan;

typedef struct tri_memory_plan {
  tri_chunk_plan *chunks; /* [num_chunks]: plan of each chunk */
  int64_t num_chunks;

  tri_weights_plan weights; /* the allocation of the parameters */
  /* Offsets of regions in the arena. */
  size_t sink, gradient_values, reduce_buffers, transfer, states, values, results, batches,
      stage_buffers[TRI_NUM_STAGE_BUFFER_KINDS], partial, sums, scratch, transient;
  /* Offsets of regions in host memory. */
  size_t host_values, host_results, host_batches, host_stage_buffers[TRI_NUM_STAGE_BUFFER_KINDS], host_transfer,
      exchange, staging;
  size_t results_bytes; /* bytes of tri_step_results with the counts and label results after it */
  size_t result_counts; /* offset of the routers' counts [num_routers, router_experts + 1] in the results */
  size_t result_labels; /* offset of log-probabilities of labels [num_batches, rows] in the results; 0: none */
  int64_t num_routers, router_experts;
  size_t row_bytes, stage_buffer_bytes;        /* bytes of a message between stages, without and with padding */
  size_t batch_bytes;                          /* bytes of one batch, which begins with the ids */
  size_t batch_columns[TRI_NUM_BATCH_COLUMNS]; /* offset of each column in a batch; 0 for the ids, and for columns that
                                                  are not needed */
  size_t batch_slices;                         /* offset of the attention slices in a batch; 0: not needed */

  /* Sizes of regions. parameter_bytes is 0 if the parameters are already allocated (request->has_weights). token_bytes
   * and message_bytes are sums over the arena and host memory. */
  size_t parameter_bytes, gradient_bytes, transfer_bytes, optimizer_bytes, token_bytes, message_bytes, exchange_bytes,
      sums_bytes, staging_bytes, constant_bytes, buffer_bytes, activation_bytes, transient_bytes;
  size_t scratch_bytes; /* bytes of the scratch region */
  size_t lent_bytes;    /* part of scratch_bytes that only a borrower needs (tri_memory_request.least_scratch) */
  size_t arena_bytes;   /* bytes of the arena; without the scratch region if it is in lent memory */
  size_t queue_bytes;   /* bytes of the device's queue, outside of the arena */
  size_t device_bytes, host_bytes,
      total_bytes; /* device_bytes: parameters, arena and queue; host_bytes: host memory; total_bytes: sum of both */
} tri_memory_plan;

/* Device memory that an executor lends to another one while it runs no step: its scratch region. The borrower's values
 * there are lost in the lender's next step. */
typedef struct tri_lent_memory {
  void *memory;
  size_t bytes;
} tri_lent_memory;

/* The lists, arrays and options to plan for. */
typedef struct tri_memory_request {
  const tri_op_list *const *lists; /* [num_chunks] */
  const int64_t *num_frames;       /* [num_chunks] */
  int64_t num_chunks;
  const tri_buckets *buckets;         /* NULL: the arrays are laid out as in the parameter table */
  bool has_weights;                   /* whether the parameters are already allocated, so that they are not counted */
  int64_t num_values;                 /* elements of the flat array of parameters */
  int64_t num_gradients;              /* elements of the flat array of gradients */
  int64_t num_frozen[TRI_NUM_STORED]; /* elements of frozen parameters, by stored type: tri_stored_bytes each */
  size_t load_bytes;                  /* bytes of scratch for quantising one matrix to 4 bits while weights are read */
  int64_t num_sink;                   /* elements of scratch for gradients of frozen parameters, which nothing reads */
  const tri_updates *updates;         /* the optimizer's updates; NULL: no optimizer states */
  int64_t num_partial;                /* elements of scratch for sums of partial gradients */
  bool training;                      /* whether to plan gradients, optimizer states and backward passes as well */
  bool split_backward;  /* whether backwards of inputs and of weights are separate, so that gradients of activations are
                           kept for the second */
  size_t staging_bytes; /* host memory for staging of checkpoints */
  size_t exchange_bytes; /* host memory for staging of collectives if the host cannot access the device's memory; stage
                            buffers then have copies in host memory as well, unless MPI is device-aware. 0: neither */
  size_t sums_bytes;     /* device memory for scratch of collectives if MPI is device-aware; else 0 */
  size_t least_scratch;  /* minimum size of the scratch region in bytes, for lending it between steps */
  tri_lent_memory
      lent; /* memory for the scratch region, only for a plan with one chunk; {NULL}: the region is in the arena */
  bool label_results;  /* whether the results of a step have the log-probability of each label of its micro-batches */
  int64_t num_batches; /* number of micro-batches in memory at the same time; the first list gives their size */
  int64_t stage_buffers[TRI_NUM_STAGE_BUFFER_KINDS]; /* number of stage buffers of each kind */
  const tri_device_description *device; /* computes the bytes of scratch and packed weights; NULL: plan without them */
} tri_memory_request;

/* Returns the request for forward passes of one list, of one micro-batch at a time. *list is read when the plan is
 * created. `num_values`: elements of the flat array of parameters. */
tri_memory_request tri_memory_request_forward(tri_op_list *const *list, int64_t num_values,
                                              const tri_device_description *device);

/* Creates a plan. Fails with TRI_OUT_OF_MEMORY if the sizes overflow. Release with tri_memory_plan_destroy. */
tri_status tri_memory_plan_create(const tri_memory_request *request, tri_memory_plan **out);
void tri_memory_plan_destroy(tri_memory_plan *plan);

/* ---- the parts --------------------------------------------------------------------------------------------------- */

/* A piece of memory in a shared region, in use from time `first` to time `last`. */
typedef struct tri_interval {
  int64_t first, last; /* times of its first and its last use */
  size_t bytes;
  size_t offset; /* offset in the region, set by tri_intervals_place */
} tri_interval;

/* Sets the offset of every interval so that intervals which are in use at the same time do not overlap. The largest
 * intervals are placed first, each at the lowest free offset. *bytes: size of the region. */
tri_status tri_intervals_place(tri_interval *intervals, int64_t count, size_t *bytes);

/* Returns the bytes of a tensor in a plan: a multiple of 64. Tensors of a page or more get five extra cache lines, so
 * that tensors whose sizes are multiples of the page do not all fall on the same sets of the cache. */
size_t tri_padded_bytes(size_t bytes);

/* Assigns the gradients of a list's slots to *num_buffers buffers. buffer_of[slot]: number of the buffer, or -1 for
 * a slot without a gradient. The gradients of a residual connection are equal, and share a buffer if that is safe. */
tri_status tri_gradient_buffers(const tri_op_list *list, bool split_backward, int32_t *buffer_of, int64_t *num_buffers);

#endif
