/* Prices: the seconds of operations and of other work on a cluster. */
#ifndef TRI_PLAN_PRICE_H
#define TRI_PLAN_PRICE_H

#include "ops/op.h"
#include "plan/cluster.h"
#include "plan/system.h"
#include "schedule/layout.h"

/* The price of one pass of an operation. */
typedef struct tri_price {
  double compute_s;             /* seconds of computation on the device */
  double along_s[TRI_NUM_AXES]; /* seconds of collectives, by the axis under which reports show them [TRI_NUM_AXES] */
  double launch_s; /* seconds that the host takes to launch kernels; the device waits only if they are longer than its
                      own time */
  double first_s,
      later_s; /* additional seconds of computation in the first micro-batch of a step, and in each later one */
} tri_price;

/* Returns the seconds of all collectives. */
static inline double tri_price_collectives_s(const tri_price *price) {
  double sum = 0;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) sum += price->along_s[axis];
  return sum;
}

/* Returns a + scale * b. */
static inline tri_price tri_price_add_scaled(tri_price a, double scale, tri_price b) {
  tri_price sum = {.compute_s = a.compute_s + scale * b.compute_s,
                   .launch_s = a.launch_s + scale * b.launch_s,
                   .first_s = a.first_s + scale * b.first_s,
                   .later_s = a.later_s + scale * b.later_s};
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) sum.along_s[axis] = a.along_s[axis] + scale * b.along_s[axis];
  return sum;
}

static inline tri_price tri_price_plus(tri_price a, tri_price b) { return tri_price_add_scaled(a, 1, b); }
static inline tri_price tri_price_minus(tri_price a, tri_price b) { return tri_price_add_scaled(a, -1, b); }

/* Returns the price of a pass: from the cluster's tables if they have it, else from the roofline model. That is the
 * longer of arithmetic (gemm_time.h) and memory traffic, each with the cluster's efficiency. `shape`: the layout's
 * mesh. */
tri_price tri_price_pass(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call, tri_pass pass,
                         const tri_mesh_shape *shape);

/* Returns the seconds of one collective of an exchange of a call. */
double tri_price_exchange(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call,
                          const tri_cost_exchange *exchange, const tri_mesh_shape *shape);

/* Returns whether the system computes the GEMMs of a call in FP8. These are the calls of layers in bf16, except
 * routers. Also returns true for attention, but tri_price_pass never prices attention as FP8. */
bool tri_price_is_fp8(const tri_system *system, const tri_op_call *call);

/* Returns whether the forward of a call is recomputed before the backward of its layer. This is marked in the list
 * of operations, with two exceptions. Systems with whole_recompute recompute all calls of a layer that recomputes.
 * In systems with selective_attention, selective recompute recomputes only attention. */
bool tri_price_recomputes(const tri_system *system, const tri_layout *layout, const tri_op_call *call);

/* Returns the seconds of work outside of the passes of operations, such as preparing weights: its computation plus
 * its communication. */
double tri_price_cost(const tri_cluster *cluster, const tri_system *system, tri_dtype type, const tri_cost *cost,
                      const tri_mesh_shape *shape);

/* Returns the bytes that an AdamW update of one element reads and writes. */
double tri_price_update_bytes(const tri_system *system, tri_dtype precision);

/* Returns the seconds in which `bytes` bytes are read or written. */
double tri_price_memory(const tri_cluster *cluster, double bytes);

/* Returns the seconds of element-wise work that is not part of an operation: from the cluster's tables if they have
 * it, else the seconds in which `bytes` bytes are read or written. */
double tri_price_work(const tri_cluster *cluster, tri_dtype precision, tri_work work, double elements, double bytes);

#endif
