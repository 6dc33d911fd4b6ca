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

/* A chunk: the list of one virtual pipeline stage, with the addresses of its arrays. Frames are defined in
 * schedule/memory_plan.h. */
typedef struct tri_executor_chunk {
  const tri_op_list *list; /* not owned */
  void **slots;            /* addresses of the slots, by frame and pass [num_frames * TRI_NUM_PASSES * num_slots] */
  void **gradients;        /* addresses of the gradients of the slots, by frame [num_frames * num_slots] */
  void **buffers;          /* addresses of the buffers of the calls [num_calls * TRI_OP_BUFFERS]; NULL: none */
  void **constants;        /* addresses of the constants [num_constants] */
  void **host_state;       /* host memory of the calls, by frame [num_frames * num_calls]; NULL: none */
} tri_executor_chunk;

typedef struct tri_executor {
  tri_device *device; /* not owned */
  tri_ranks ranks;    /* the ranks' mesh, and the exchange of this executor */
  tri_mesh alone;     /* mesh of one rank, used if the caller gives no mesh */
  tri_memory_plan *plan;
  tri_batch_maker *maker;
  /* Number of lists of attention slices; number of outer context ranks, which gather keys. */
  int64_t num_lists, outer;
  int64_t *counts;              /* memory of the tri_batch_counts of all batches, each with counts_of_batch integers */
  int64_t *begins;              /* scratch memory for operations (tri_run.begins) */
  char *arena;                  /* device memory, laid out by the plan */
  char *scratch;                /* scratch region of the plan, in the arena or in lent memory */
  char *host;                   /* host memory, laid out by the plan */
  tri_checkpoint_memory memory; /* functions that copy between device memory and host memory, for checkpoints */
  tri_executor_chunk *chunks;   /* chunks of this rank [plan->num_chunks] */
  tri_dtype type;
  tri_weights *weights;   /* not owned */
  int64_t prepared;       /* tri_weights_version of the packed weights; -1: no weights are packed */
  int64_t *expert_rounds; /* tri_run.expert_rounds of all chunks [plan->num_routers] */
  int64_t result_waits;   /* number of waits of the host for results */
} tri_executor;

/* Adds to a request the memory that the exchange of a mesh of `ranks` ranks needs: for sums on the device, and for
 * staging in host memory. */
void tri_executor_add_exchange(tri_memory_request *request, int64_t ranks, const tri_device *device);

/* Creates an executor. Plans its memory, and fails with TRI_OUT_OF_MEMORY before it allocates anything if the plan does
 * not fit; the message names the memory that does not fit and the settings to reduce. Then allocates the arena,
 * allocates the weights (with zeros) unless another executor has allocated them, and fills the constants. The weights
 * must have the request's buckets and type, and outlive the executor. mesh NULL: one rank alone. */
tri_status tri_executor_create(tri_weights *weights, const tri_memory_request *request, tri_device *device,
                               const tri_mesh *mesh, tri_executor **out);
void tri_executor_destroy(tri_executor *executor);

/* Returns a run with the pointers of a chunk's frame; the caller fills in the rest. */
tri_run tri_executor_run(tri_executor *executor, int64_t chunk, int64_t frame);

/* Packs the weights, which is necessary after parameters have changed, and stores their version. */
tri_status tri_executor_prepare(tri_executor *executor);
/* Returns whether the packed weights are those of the current version. Forward passes fail if they are not. */
bool tri_executor_is_prepared(const tri_executor *executor);

/* Marks stage buffers, and gradients if `gradients` is set, as uninitialised at the start of a step or a score
 * (tri_queue_mark_uninitialised), since their contents are no longer needed. */
tri_status tri_executor_reset_step(tri_executor *executor, bool gradients);

/* Run the forwards of all calls of a chunk's list, or of calls [first_call, end_call), in order. */
tri_status tri_executor_forward(tri_executor *executor, int64_t chunk, tri_run *run);
tri_status tri_executor_forward_some(tri_executor *executor, int64_t chunk, int64_t first_call, int64_t end_call,
                                     tri_run *run);

typedef struct tri_backward {
  int64_t chunk, first_call, end_call;
  bool inputs, weights;
} tri_backward;
/* Runs the backwards of calls [first_call, end_call) in reverse order. The backward of an operation's weights follows
 * that of its inputs. */
tri_status tri_executor_backward(tri_executor *executor, const tri_backward *backward, tri_run *run);

/* Returns scratch memory for an update. */
void *tri_executor_update_workspace(const tri_executor *executor);

/* Return the arrays of batch `number`, one of request->num_batches: on the device, and in host memory, where
 * tri_executor_make_batch writes them. tri_executor_upload_batch queues the copy to the device. Initially each sequence
 * is one document. */
tri_batch tri_executor_batch(const tri_executor *executor, int64_t number);
tri_batch tri_executor_host_batch(const tri_executor *executor, int64_t number);
/* Returns the columns into which whole sequence `i` of the next micro-batch is written. */
tri_sample tri_executor_sequence(const tri_executor *executor, int64_t i);
/* Makes batch `number` in host memory from the sequences that were written to tri_executor_sequence (batch.h). */
tri_status tri_executor_make_batch(const tri_executor *executor, int64_t number);
/* Reserves `count` slices in each list of the batch. The caller fills them in; some may be empty. */
void tri_executor_set_slices(tri_executor *executor, int64_t number, int64_t count);
/* Sets the pointers of a run to the arrays of batch `number` on the device. */
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
/* Return the counts of a chunk's routers in a step [routers, experts + 1], with the columns of tri_router_loads.counts:
 * on the device, and in host memory, where they are valid once the results are read. */
int64_t *tri_executor_router_counts(const tri_executor *executor, int64_t chunk);
const int64_t *tri_executor_host_counts(const tri_executor *executor, int64_t chunk);
/* Return the log-probabilities of the labels of batch `number` [rows]: on the device, and in host memory, where they
 * are valid once the results are read. NULL if they are not computed. */
double *tri_executor_label_results(const tri_executor *executor, int64_t number);
const double *tri_executor_host_label_results(const tri_executor *executor, int64_t number);
/* Waits for the results of the step and copies them to host memory. *out is valid until the next step. */
tri_status tri_executor_read_results(tri_executor *executor, const tri_step_results **out);

/* Return the copy of a stage buffer in host memory (NULL: it has no copy), and the stage buffer itself. NULL if
 * stage_buffer is negative. */
void *tri_executor_host_stage_buffer(const tri_executor *executor, tri_stage_buffer_kind kind, int64_t stage_buffer);
void *tri_executor_stage_buffer(const tri_executor *executor, tri_stage_buffer_kind kind, int64_t stage_buffer);
/* Returns scratch memory for sums of partial gradients. */
void *tri_executor_partial(const tri_executor *executor);

/* Returns the scratch region, to lend it until the next step. */
tri_lent_memory tri_executor_lend(const tri_executor *executor);

#endif
