/* Lists of operations with memory under them: one arena laid out by the memory plan, every slot resolved to a pointer.
 * The training engine and the generator both stand on it. */
#ifndef TRI_ENGINE_EXECUTOR_H
#define TRI_ENGINE_EXECUTOR_H

#include "device/kernels.h"
#include "model/parameters.h"
#include "ops/list.h"
#include "schedule/memory_plan.h"

/* A chunk: the list of one virtual pipeline stage. */
typedef struct tri_executor_chunk {
  const tri_op_list *list; /* not owned */
  void **slots;            /* [num_frames * TRI_NUM_PASSES * num_slots] */
  void **gradients;        /* [num_frames * num_slots] */
  void **buffers;          /* [num_calls * TRI_OP_BUFFERS] */
  void **constants;        /* [num_constants] */
} tri_executor_chunk;

typedef struct tri_executor {
  tri_device *device;               /* not owned */
  const tri_parameter_table *table; /* not owned */
  const tri_mesh *mesh;             /* not owned */
  const tri_buckets *buckets;       /* not owned; NULL where there are none */
  tri_mesh alone;                   /* where the caller has none */
  tri_memory_plan *plan;
  char *arena;
  tri_executor_chunk *chunks; /* [plan->num_chunks] */
  tri_dtype type;
  bool training;
  tri_run_parameter *parameters; /* [table->num_entries] */
} tri_executor;

/* Plans without allocating, and says in the message of TRI_OUT_OF_MEMORY what would not fit and what to turn down if
 * the machine does not have the bytes. Then allocates the arena, fills the constants; parameters are zero. mesh NULL is
 * one rank alone. */
tri_status tri_executor_create(const tri_parameter_table *table, const tri_memory_request *request, tri_device *device,
                               const tri_mesh *mesh, tri_executor **out);
void tri_executor_destroy(tri_executor *executor);

/* A run whose pointers are those of a chunk's frame; the caller fills in what is being computed. */
tri_run tri_executor_run(tri_executor *executor, int64_t chunk, int64_t frame);

/* The parameters have new values. */
tri_status tri_executor_prepare(tri_executor *executor);

/* One pass over a chunk's list: forwards in order; backwards of calls [first, end) in reverse, where an operation's
 * backward of the weights follows its backward of the inputs. */
tri_status tri_executor_forward(tri_executor *executor, int64_t chunk, tri_run *run);
tri_status tri_executor_forward_some(tri_executor *executor, int64_t chunk, int64_t first_call, int64_t end_call,
                                     tri_run *run);

typedef struct tri_backward {
  int64_t chunk, first_call, end_call;
  bool inputs, weights;
} tri_backward;
tri_status tri_executor_backward(tri_executor *executor, const tri_backward *backward, tri_run *run);

/* Flat arrays of the wide type; tri_stretch_of_... say where an entry lies in them. */
void *tri_executor_values(const tri_executor *executor);
void *tri_executor_gradients(const tri_executor *executor);
void *tri_executor_moment1(const tri_executor *executor);
void *tri_executor_moment2(const tri_executor *executor);

/* A bucket's values, or gradients, whole (of a sharded one: its slot, while it is filled), and this rank's part. */
void *tri_executor_bucket_values(const tri_executor *executor, const tri_bucket *bucket);
void *tri_executor_own_values(const tri_executor *executor, const tri_bucket *bucket);
void *tri_executor_bucket_gradients(const tri_executor *executor, const tri_bucket *bucket);
void *tri_executor_own_gradients(const tri_executor *executor, const tri_bucket *bucket);

/* Room for 2 * request->num_tokens ids and labels; a box of a kind; scratch for sums of partial gradients. */
int32_t *tri_executor_tokens(const tri_executor *executor);
void *tri_executor_box(const tri_executor *executor, tri_box_kind kind, int64_t box);
void *tri_executor_partial(const tri_executor *executor);

#endif
