/* The weights of a model on one rank: the values of its parameters, which several executors may read, and the address
 * of each one. Operations find a parameter by its number (tri_run_parameter), updates by their calls, exchanges by
 * buckets, checkpoints by ranges of the flat arrays.
 *
 * The weights own the memory of the values. The gradients and the optimizer's states are in the arena of the executor
 * that trains them.
 *
 * `version` grows with every change of the values. An executor remembers the version that it has packed for its GEMMs,
 * and refuses to run with another one (executor.h). */
#ifndef TRI_WEIGHTS_WEIGHTS_H
#define TRI_WEIGHTS_WEIGHTS_H

#include "model/parameters.h"
#include "ops/run.h"
#include "optimizers/optimizer.h"
#include "schedule/weights_plan.h"

/* Arrays in the arena of the executor that trains. With buckets that are sharded, `gradients` has this rank's
 * shards. */
typedef struct tri_weights_training {
  char *gradients, *reduce_buffers; /* gradients in the wide type; whole gradients of sharded buckets while they
                                       are reduced */
  char *sink;                       /* memory for gradients of frozen vectors, which are written but not read */
  char *states;                     /* the optimizer's states (tri_update_call.states) */
} tri_weights_training;

typedef struct tri_weights {
  const tri_parameter_table *table; /* not owned */
  const tri_buckets *buckets;       /* not owned; NULL: the arrays are laid out by the table alone */
  tri_dtype type;                   /* type of activations */
  int64_t version;                  /* tri_weights_version */
  const struct tri_weights *shared; /* weights whose memory these weights use; NULL: they have memory of their own */
  tri_device *device; /* device that has the memory; NULL before tri_weights_allocate or tri_weights_share */
  char *memory;       /* [plan.bytes]: this rank's shards of sharded buckets, buffers in which whole sharded buckets are
                         gathered, and whole values of all other parameters; NULL: not allocated yet, or the memory of
                         `shared` is used */
  tri_weights_plan plan;         /* layout of `memory` */
  tri_weights_training training; /* {NULL} if no executor trains the weights */
  tri_run_parameter *parameters; /* [table->num_entries], addresses of the parameters' values, gradients and copies */
  tri_run_copy *copies; /* [table->num_entries], copies in the activations' type; NULL if no executor trains the
                           weights */
} tri_weights;

/* Creates weights without memory. The table and the buckets must outlive them; `buckets` may be NULL. Release with
 * tri_weights_destroy, after the executors that read them. */
tri_status tri_weights_create(const tri_parameter_table *table, const tri_buckets *buckets, tri_dtype type,
                              tri_weights **out);
void tri_weights_destroy(tri_weights *weights);

/* Allocates zeroed memory for the values; does nothing if it is allocated already. An executor calls this after it has
 * checked that its whole plan fits into the device's memory. */
tri_status tri_weights_allocate(tri_weights *weights, const tri_weights_plan *plan, tri_device *device);
/* Sets the arrays of the executor that trains the weights. */
tri_status tri_weights_train(tri_weights *weights, const tri_weights_training *training);

/* Returns whether `weights` can read the values of all parameters in place from `from`: `from` has them whole, in the
 * type that the table of `weights` gives them, and adjacent if that table joins them. `from` need not have memory
 * yet. */
bool tri_weights_can_share(const tri_weights *weights, const tri_weights *from);
/* Lets `weights` use the memory of `from` in place of memory of its own. `from` must have memory and outlive `weights`.
 * tri_weights_version then returns the version of `from`. */
void tri_weights_share(tri_weights *weights, const tri_weights *from);

/* Returns the version: the number of tri_weights_changed so far, unless tri_weights_set_version has set another one;
 * the version of `shared` if these weights use its memory. */
int64_t tri_weights_version(const tri_weights *weights);
/* Sets the version, after the values of other weights that have this version were copied into these weights.
 * Invalidates the copies of parameters (tri_run_copy). The caller marks the parameters that it has written as dense
 * (tri_run_parameter.packed); others may still be packed in place. */
void tri_weights_set_version(tri_weights *weights, int64_t version);
/* Counts a change of the values: raises `version`, and invalidates all copies of parameters (tri_run_copy). Must be
 * called when parameters are about to change or have changed. Parameters that were packed in place count as dense
 * again: all of their values are rewritten. */
void tri_weights_changed(tri_weights *weights);
/* Sets this rank's elements of a parameter that has no codes. `values`: all elements of the tensor on disk, in the
 * type `from` (fp32 or fp64), in host memory. The weights must own their memory. */
tri_status tri_weights_set(const tri_weights *weights, int64_t index, tri_dtype from, const void *values);

/* Returns the address of `count` elements of a parameter, from its element `first` on, in its copy of the activations'
 * type, and counts them as written: the caller writes them with the parameter. NULL: the parameter has no copy. */
void *tri_weights_copy_to_write(tri_weights *weights, int64_t index, int64_t first, int64_t count);

/* Return the memory of a call of the optimizer: its first value and gradient, in the wide type; a state in its stored
 * type. */
void *tri_weights_call_values(const tri_weights *weights, const tri_update_call *call);
void *tri_weights_call_gradients(const tri_weights *weights, const tri_update_call *call);
void *tri_weights_state(const tri_weights *weights, const tri_update_call *call, int64_t state);

/* Returns the type of a parameter's values in memory; for a coded parameter the type of activations. */
tri_dtype tri_weights_type(const tri_weights *weights, const tri_parameter *entry);

/* Return flat arrays: values and gradients of the trained parameters in the wide type (tri_element_range_of_values and
 * tri_element_range_of_gradients give an entry's range), and values of frozen parameters by stored type. */
void *tri_weights_values(const tri_weights *weights);
char *tri_weights_frozen(const tri_weights *weights, tri_stored stored);
void *tri_weights_gradients(const tri_weights *weights);

/* Return the address of a bucket's whole values or gradients, and of this rank's shard of them. The whole values or
 * gradients of a sharded bucket are in its gather or reduce buffer, and valid only while the bucket uses that buffer.
 */
void *tri_weights_bucket_values(const tri_weights *weights, const tri_bucket *bucket);
void *tri_weights_own_values(const tri_weights *weights, const tri_bucket *bucket);
/* Return the address of a bucket's whole frozen parameters of one stored type, and of this rank's shard of them. */
void *tri_weights_bucket_frozen(const tri_weights *weights, const tri_bucket *bucket, tri_stored stored);
void *tri_weights_own_frozen(const tri_weights *weights, const tri_bucket *bucket, tri_stored stored);
void *tri_weights_bucket_gradients(const tri_weights *weights, const tri_bucket *bucket);
void *tri_weights_own_gradients(const tri_weights *weights, const tri_bucket *bucket);

#endif
