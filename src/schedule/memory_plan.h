/* The memory plan: where everything that a program touches lies in one arena, known before anything is allocated.
 *
 *   parameters | what is not trained | gradients | rows that pass between ranks | the optimizer's states
 *   | values and results of a step | batches | stage buffers | partial sums | others' terms
 *   | chunk 0: constants | packed weights | frame 0 | frame 1 | ... | chunk 1: ... | transient
 *
 * and in host memory beside it
 *
 *   values and results of a step | batches | notes of each frame | copies of the stage buffers and of rows that pass
 *   | staging of collectives | room for a save
 *
 * A chunk is what one virtual pipeline stage of this rank computes, a list of operations. A frame holds what one
 * micro-batch keeps from its forward to its backward; a chunk has as many as micro-batches are in flight. The transient
 * region is shared by everything that lives within one instruction: activations that no backward reads, gradients of
 * activations, scratch memory of operations. Two of them may overlap if they are never alive at the same time, in a
 * time that counts the forward of each operation, then the backward of each in reverse, each layer's after
 * those of its forwards that run again. */
#ifndef TRI_SCHEDULE_MEMORY_PLAN_H
#define TRI_SCHEDULE_MEMORY_PLAN_H

#include "base/status.h"
#include "ops/list.h"
#include "schedule/program.h"
#include "schedule/updates.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tri_region { TRI_REGION_NONE, TRI_REGION_FRAME, TRI_REGION_TRANSIENT } tri_region;

/* Where a slot or a gradient lies: an offset into its frame or into the transient region. */
typedef struct tri_place {
  tri_region region;
  size_t offset;
} tri_place;

/* Scratch memory of a call: of each of its passes (tri_pass), and of a forward that runs again before the backward of
 * the inputs, or of the weights. */
enum { TRI_WORKSPACE_AGAIN = TRI_NUM_PASSES - 1, TRI_NUM_WORKSPACES = 2 * TRI_NUM_PASSES - 1 };

typedef struct tri_chunk_plan {
  int64_t num_slots, num_calls, num_constants;
  tri_place *slots; /* [TRI_NUM_PASSES * num_slots]: where a pass finds a slot; they differ where it is made again */
  tri_place *gradients; /* [num_slots] */
  size_t *workspaces;   /* [num_calls * TRI_NUM_WORKSPACES]: in the transient region */
  size_t *buffers;      /* [num_calls * TRI_OP_BUFFERS]: in the arena; 0: no buffer */
  size_t *constants;    /* [num_constants]: in the arena */
  size_t *host_state;   /* [num_calls + 1]: in a frame's notes, where each call's begin */
  size_t host_states;   /* where those of frame 0 begin in host memory */
  int64_t first_router; /* of those whose counts a step has */
  int64_t num_frames;
  size_t frames, frame_bytes; /* where they begin in the arena, and the size of one */
} tri_chunk_plan;

typedef struct tri_memory_plan {
  tri_chunk_plan *chunks;
  int64_t num_chunks;

  /* Regions of the arena: where they begin. */
  size_t parameters, value_slots, frozen[TRI_NUM_STORED], sink, gradient_values, gradient_slots, transfer, states,
      values, results, batches, stage_buffers[TRI_NUM_STAGE_BUFFER_KINDS], partial, sums, transient;
  /* Regions of host memory. */
  size_t host_values, host_results, host_batches, host_stage_buffers[TRI_NUM_STAGE_BUFFER_KINDS], host_transfer,
      exchange, staging;
  size_t results_bytes; /* of a step: its results, and behind them */
  size_t result_counts; /* counts of its routers: [num_routers, router_experts + 1] */
  int64_t num_routers, router_experts;
  size_t row_bytes, stage_buffer_bytes; /* what a message carries; the same and its padding */
  size_t batch_bytes;                   /* of one batch: */
  size_t batch_labels, batch_positions, batch_weights, batch_slices; /* where they begin in it, behind the ids */
  size_t batch_global_rows, batch_inner_order, batch_outer_order, batch_send_rows; /* the same; 0: it has none */

  /* Their sizes in bytes; those of batches and messages on both sides together. */
  size_t parameter_bytes, gradient_bytes, transfer_bytes, optimizer_bytes, token_bytes, message_bytes, exchange_bytes,
      sums_bytes, staging_bytes, constant_bytes, buffer_bytes, activation_bytes, transient_bytes;
  size_t arena_bytes;
  size_t queue_bytes;                           /* beside the arena: what the device holds for its queue of kernels */
  size_t device_bytes, host_bytes, total_bytes; /* the arena and that, host memory, all */
} tri_memory_plan;

/* What to plan for. */
typedef struct tri_memory_request {
  const tri_op_list *const *lists; /* [num_chunks] */
  const int64_t *num_frames;       /* [num_chunks] */
  int64_t num_chunks;
  const tri_buckets *buckets;         /* NULL: arrays as the parameter table lays them out */
  int64_t num_values;                 /* elements of the flat array of parameters */
  int64_t num_gradients;              /* of gradients */
  int64_t num_frozen[TRI_NUM_STORED]; /* of what is not trained, by how it is kept: tri_stored_bytes each */
  size_t load_bytes;                  /* of scratch for a matrix on its way into 4 bits */
  int64_t num_sink;                   /* of scratch for gradients that come with others' and are not needed */
  const tri_updates *updates;         /* of the optimizer; NULL: none */
  int64_t num_partial;                /* of the scratch for sums of partial gradients */
  bool training;                      /* gradients, moments and backward passes too */
  bool split_backward;                /* gradients of activations wait for the backward of the weights */
  size_t staging_bytes;               /* of host memory: room for a save */
  size_t exchange_bytes; /* of host memory: staging of collectives where the host does not see the device's memory;
                            then stage buffers have copies there too, unless MPI reaches that. 0: neither */
  size_t sums_bytes;     /* of device memory: scratch of collectives where MPI reaches it; else 0 */
  int64_t num_batches;   /* micro-batches of the first list's size that are held at once */
  int64_t stage_buffers[TRI_NUM_STAGE_BUFFER_KINDS];
  const tri_device_description *device; /* asked for scratch memory and packed weights; NULL plans without either */
} tri_memory_request;

/* Release with tri_memory_plan_destroy. */
tri_status tri_memory_plan_create(const tri_memory_request *request, tri_memory_plan **out);
void tri_memory_plan_destroy(tri_memory_plan *plan);

/* ---- the parts ------------------------------------------------------------------------------------------------- */

/* Something that lives from one time to another in a shared region. */
typedef struct tri_interval {
  int64_t first, last; /* inclusive */
  size_t bytes;
  size_t offset; /* found by tri_intervals_place */
} tri_interval;

/* Gives every interval an offset such that no two that live at the same time overlap; *bytes is the size of the region.
 * Largest first, each at the lowest free offset. */
tri_status tri_intervals_place(tri_interval *intervals, int64_t count, size_t *bytes);

/* Room for one tensor: a multiple of 64 bytes. Tensors of a page or more get five cache lines more, so that tensors
 * whose sizes are multiples of the page do not all fall on the same sets of the cache. */
size_t tri_padded_bytes(size_t bytes);

/* Groups the gradients of a list into buffers: buffer_of[slot] is a number or -1. Residual connections pass their
 * gradient on in place where that is safe. *num_buffers is how many there are. */
tri_status tri_gradient_buffers(const tri_op_list *list, bool split_backward, int32_t *buffer_of, int64_t *num_buffers);

#endif
