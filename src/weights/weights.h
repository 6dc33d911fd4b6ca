/* The weights of a model on one rank: the memory of its parameters, of their gradients and of the optimizer's states,
 * and where in it each parameter is. Operations find a parameter by its number (tri_run_parameter), updates by their
 * calls, exchanges by buckets, checkpoints by ranges of the flat arrays. */
#ifndef TRI_WEIGHTS_WEIGHTS_H
#define TRI_WEIGHTS_WEIGHTS_H

#include "model/parameters.h"
#include "ops/run.h"
#include "optimizers/optimizer.h"
#include "schedule/buckets.h"

/* Arrays in device memory. With buckets, a rank has its own shards of `values`, `frozen` and `gradients`, and the
 * buffers hold whole buckets while they are gathered or reduced. */
typedef struct tri_weights_memory {
  char *values;                                                  /* trained parameters, wide */
  char *gather_buffers;                                          /* whole values of sharded buckets */
  char *frozen[TRI_NUM_STORED], *frozen_buffers[TRI_NUM_STORED]; /* the same of frozen parameters, by stored type */
  char *gradients, *reduce_buffers;                              /* wide; whole gradients of sharded buckets */
  char *sink;                                                    /* gradients of frozen vectors, which nothing reads */
  char *states;                                                  /* states of updates */
} tri_weights_memory;

typedef struct tri_weights {
  const tri_parameter_table *table; /* not owned */
  const tri_buckets *buckets;       /* not owned; NULL: arrays as the table lays them out */
  tri_dtype type;                   /* type of activations */
  bool training;                    /* has gradients, and copies of parameters in the activations' type */
  tri_weights_memory memory;        /* not owned */
  tri_run_parameter *parameters;    /* [table->num_entries] */
  tri_run_copy *copies;             /* [table->num_entries]; only for training */
} tri_weights;

typedef struct tri_weights_request {
  const tri_parameter_table *table;
  const tri_buckets *buckets;
  tri_dtype type;
  bool training;
  tri_weights_memory memory;
} tri_weights_request;

/* The table, the buckets and the memory must outlive the weights. Release with tri_weights_destroy. */
tri_status tri_weights_create(const tri_weights_request *request, tri_weights **out);
void tri_weights_destroy(tri_weights *weights);

/* Invalidates all copies of parameters (tri_run_copy) when parameters are about to change or have changed. */
void tri_weights_forget_copies(tri_weights *weights);
/* Returns the address of `count` elements of a parameter, from its element `first` on, in its copy of the activations'
 * type, and counts them as written: the caller writes them with the parameter. NULL: the parameter has no copy. */
void *tri_weights_take_copy(tri_weights *weights, int64_t index, int64_t first, int64_t count);

/* Return memory for a call of the optimizer: its first value and gradient, in the wide type; a state in its stored
 * type. */
void *tri_weights_call_values(const tri_weights *weights, const tri_update_call *call);
void *tri_weights_call_gradients(const tri_weights *weights, const tri_update_call *call);
void *tri_weights_state(const tri_weights *weights, const tri_update_call *call, int64_t state);

/* Return flat arrays: values and gradients of the trained parameters in the wide type (tri_element_range_of_... gives
 * an entry's range), and values of frozen parameters by stored type. */
void *tri_weights_values(const tri_weights *weights);
char *tri_weights_frozen(const tri_weights *weights, tri_stored stored);
void *tri_weights_gradients(const tri_weights *weights);

/* Return a bucket's whole values or gradients (of a sharded one: its slot, while it is filled), and this rank's shard.
 */
void *tri_weights_bucket_values(const tri_weights *weights, const tri_bucket *bucket);
void *tri_weights_own_values(const tri_weights *weights, const tri_bucket *bucket);
/* The same for its frozen parameters of one stored type. */
void *tri_weights_bucket_frozen(const tri_weights *weights, const tri_bucket *bucket, tri_stored stored);
void *tri_weights_own_frozen(const tri_weights *weights, const tri_bucket *bucket, tri_stored stored);
void *tri_weights_bucket_gradients(const tri_weights *weights, const tri_bucket *bucket);
void *tri_weights_own_gradients(const tri_weights *weights, const tri_bucket *bucket);

#endif
