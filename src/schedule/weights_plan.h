/* The memory of the parameters of one rank: offsets of their arrays in one allocation. The values of trained
 * parameters come first, then the gather buffers for sharded buckets (ZeRO 3), then the gather buffers for frozen
 * parameters, and the frozen parameters. The last two have one part for each stored type. weights/weights.h
 * allocates the memory; the memory plan of a list counts it (memory_plan.h). */
#ifndef TRI_SCHEDULE_WEIGHTS_PLAN_H
#define TRI_SCHEDULE_WEIGHTS_PLAN_H

#include "schedule/buckets.h"

typedef struct tri_weights_plan {
  size_t values, gather_buffers, frozen_buffers[TRI_NUM_STORED], frozen[TRI_NUM_STORED]; /* offsets, in bytes */
  size_t bytes; /* size of the whole allocation */
} tri_weights_plan;

/* Plans the memory of `num_values` trained and `num_frozen` frozen elements. `type`: type of activations. If
 * `buckets` is not NULL, these are the numbers of elements in the shards of this rank; if it is NULL, the parameters
 * are placed as in their table. */
tri_weights_plan tri_weights_plan_make(const tri_buckets *buckets, int64_t num_values,
                                       const int64_t num_frozen[TRI_NUM_STORED], tri_dtype type);

/* Returns the bytes of scratch that are enough for quantising any one matrix of the table to 4 bits while it is read
 * (engine/quantised.h). `buckets` may be NULL. */
size_t tri_weights_load_bytes(const tri_parameter_table *table, const tri_buckets *buckets, tri_dtype type);

#endif
