/* Executes lists of operations in one arena that is laid out by the memory plan, with a pointer for each slot. Used by
 * the training engine and by generation. */
#ifndef TRI_ENGINE_EXECUTOR_H
#define TRI_ENGINE_EXECUTOR_H

#include "checkpoint/checkpoint.h"
#include "device/step_values.h"
#include "engine/batch.h"
#include "engine/collectives.h"
#include "ops/list.h"
#include "schedule/memory_plan.h"
#include "weights/weights.h"

/* A chunk: the list of one virtual pipeline stage. */
typedef struct tri_executor_chunk {
  const tri_op_list *list; /* not owned */
  void **slots;            /* [num_frames * TRI_NUM_PASSES * num_slots] */
  void **gradients;        /* [num_frames * num_slots] */
  void **buffers;          /* [num_calls * TRI_OP_BUFFERS] */
  void **constants;        /* [num_constants] */
  void **host_state;       /* [num_frames * num_calls] */
} tri_executor_chunk;

typedef struct tri_executor {
  tri_device *device; /* not owned */
  tri_ranks ranks;    /* with this executor's exchange */
  tri_mesh alone;     /* used if the caller has no mesh */
  tri_memory_plan *plan;
  tri_batch_maker *maker;
  int64_t num_lists, outer;     /* lists of attention slices; outer context ranks, which gather keys */
  int64_t *counts;              /* [request->num_batches, ...]: tri_batch_counts of each batch */
  int64_t *begins;              /* tri_run.begins */
  char *arena;                  /* device memory, laid out by the plan */
  char *host;                   /* host memory, laid out by the plan */
  tri_checkpoint_memory memory; /* copies between device memory and host memory, for checkpoints */
  tri_executor_chunk *chunks;   /* [plan->num_chunks] */
  tri_dtype type;
  tri_weights *weights;   /* not owned */
  int64_t prepared;       /* version of the weights that are packed; -1: none is */
  int64_t *expert_rounds; /* [plan->num_routers]: tri_run.expert_rounds of all chunks */
  int64_t result_waits;   /* waits of the host for results so far */
} tri_executor;

/* Adds to a request the memory with which the collectives of a mesh of `ranks` ranks reach values on the device. */
void tri_executor_add_exchange(tri_memory_request *request, int64_t ranks, const tri_device *device);

/* Creates an executor. Plans memory before it allocates anything; the message of TRI_OUT_OF_MEMORY says what does not
 * fit and what to reduce. Then allocates the arena, and the weights unless another executor has done so, and fills the
 * constants; new parameters are zero. The weights must have the request's buckets and type, and outlive the executor.
 * mesh NULL: one rank alone. */
tri_status tri_executor_create(tri_weights *weights, const tri_memory_request *request, tri_device *device,
                               const tri_mesh *mesh, tri_executor **out);
void tri_executor_destroy(tri_executor *executor);

/* Returns a run with the pointers of a chunk's frame; the caller fills in the rest. */
tri_run tri_executor_run(tri_executor *executor, int64_t chunk, int64_t frame);

/* Packs weights again after parameters have changed, and remembers their version. */
tri_status tri_executor_prepare(tri_executor *executor);
/* Returns whether the packed weights are those of the current version. Forward passes fail if they are not. */
bool tri_executor_is_prepared(const tri_executor *executor);

/* Queues that gradients and stage buffers are uninitialised at the start of a step, since their contents are no longer
 * needed (tri_queue_mark_uninitialised). */
tri_status tri_executor_reset_step(tri_executor *executor);

/* Run one pass over a chunk's list: forwards in order; backwards of calls [first, end) in reverse order, each
 * operation's backward of the weights after its backward of the inputs. */
tri_status tri_executor_forward(tri_executor *executor, int64_t chunk, tri_run *run);
tri_status tri_executor_forward_some(tri_executor *executor, int64_t chunk, int64_t first_call, int64_t end_call,
                                     tri_run *run);

typedef struct tri_backward {
  int64_t chunk, first_call, end_call;
  bool inputs, weights;
} tri_backward;
tri_status tri_executor_backward(tri_executor *executor, const tri_backward *backward, tri_run *run);

/* Returns scratch memory for an update. */
void *tri_executor_update_workspace(const tri_executor *executor);

/* Return batch `number` of request->num_batches on the device, and in host memory, where it is made.
 * tri_executor_upload_batch queues the copy. Initially each sequence is one document. */
tri_batch tri_executor_batch(const tri_executor *executor, int64_t number);
tri_batch tri_executor_host_batch(const tri_executor *executor, int64_t number);
/* Returns the columns into which whole sequence `i` of a micro-batch is written; the second function makes the batch in
 * host memory from all of them (batch.h). */
tri_sample tri_executor_sequence(const tri_executor *executor, int64_t i);
tri_status tri_executor_make_batch(const tri_executor *executor, int64_t number);
/* Reserves `count` slices in each list of the batch, for the caller to fill in; some may be empty. */
void tri_executor_set_slices(tri_executor *executor, int64_t number, int64_t count);
/* Sets the batch of a run. */
void tri_executor_set_batch(const tri_executor *executor, int64_t number, tri_run *run);
tri_status tri_executor_upload_batch(tri_executor *executor, int64_t number);

/* Returns functions that copy between device memory (arena and weights) and host memory; NULL if the host can access
 * device memory. */
const tri_checkpoint_memory *tri_executor_memory(const tri_executor *executor);

/* Return the values and results of a step, on the device and in host memory. */
tri_step_values *tri_executor_step_values(const tri_executor *executor);
tri_step_results *tri_executor_step_results(const tri_executor *executor);
tri_step_values *tri_executor_host_values(const tri_executor *executor);
tri_step_results *tri_executor_host_results(const tri_executor *executor);
/* Queues a reset of the results to zero. */
tri_status tri_executor_clear_results(tri_executor *executor);
/* Return the counts of a chunk's routers in a step, [routers, experts + 1], on the device and, once the results are
 * read, in host memory. */
int64_t *tri_executor_router_counts(const tri_executor *executor, int64_t chunk);
const int64_t *tri_executor_host_counts(const tri_executor *executor, int64_t chunk);
/* Return the log-probabilities of the labels of batch `number`, [rows], on the device and, once the results are read,
 * in host memory. NULL if they are not computed. */
double *tri_executor_label_results(const tri_executor *executor, int64_t number);
const double *tri_executor_host_label_results(const tri_executor *executor, int64_t number);
/* Waits for the results. *out is valid until the next step. */
tri_status tri_executor_read_results(tri_executor *executor, const tri_step_results **out);

/* Return a stage buffer's copy in host memory (NULL: no copy), the stage buffer itself, and scratch memory for sums of
 * partial gradients. */
void *tri_executor_host_stage_buffer(const tri_executor *executor, tri_stage_buffer_kind kind, int64_t stage_buffer);
void *tri_executor_stage_buffer(const tri_executor *executor, tri_stage_buffer_kind kind, int64_t stage_buffer);
void *tri_executor_partial(const tri_executor *executor);

#endif
