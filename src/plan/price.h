/* Prices: seconds on a cluster. */
#ifndef TRI_PLAN_PRICE_H
#define TRI_PLAN_PRICE_H

#include "ops/op.h"
#include "plan/cluster.h"
#include "plan/system.h"
#include "schedule/layout.h"

/* The price of one pass of an operation. */
typedef struct tri_price {
  double compute_s;             /* seconds on the device */
  double along_s[TRI_NUM_AXES]; /* seconds of collectives, by the axis under which reports show them */
  double launch_s; /* seconds of the host for launching kernels; hidden by the device's time if that is longer */
  double first_s, later_s; /* seconds added to compute_s: in the first micro-batch of a step, and in each later one */
} tri_price;

/* Returns the seconds of all collectives. */
static inline double tri_price_collectives_s(const tri_price *price) {
  double sum = 0;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) sum += price->along_s[axis];
  return sum;
}

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

/* Returns the price of a pass: from the cluster's tables if they have it, else by the roofline model, the longer of
 * arithmetic (gemm_time.h) and memory traffic, each with the cluster's efficiency. `shape`: the layout's mesh. */
tri_price tri_price_pass(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call, tri_pass pass,
                         const tri_mesh_shape *shape);

/* Returns the seconds of one collective of an exchange of a call. */
double tri_price_exchange(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call,
                          const tri_cost_exchange *exchange, const tri_mesh_shape *shape);

/* Returns whether the GEMMs of a call are in FP8 in this system: those of calls of layers in bf16, except routers. Also
 * returns true for attention, whose price is never that of FP8 (tri_price_pass). */
bool tri_price_is_fp8(const tri_system *system, const tri_op_call *call);

/* Returns whether a call's forward is recomputed before its layer's backward. The list of operations marks the call,
 * with two exceptions: systems with whole_recompute recompute all calls of a layer that recomputes, and in systems with
 * selective_attention selective recompute recomputes only attention. */
bool tri_price_recomputes(const tri_system *system, const tri_layout *layout, const tri_op_call *call);

/* Returns the seconds of a cost outside of the operations' passes: those of its computation plus those of its
 * communication. */
double tri_price_cost(const tri_cluster *cluster, const tri_system *system, tri_dtype type, const tri_cost *cost,
                      const tri_mesh_shape *shape);

/* Returns the bytes that an AdamW update of one element reads and writes. */
double tri_price_update_bytes(const tri_system *system, tri_dtype precision);

/* Returns the seconds in which `bytes` bytes are read or written. */
double tri_price_memory(const tri_cluster *cluster, double bytes);

/* Returns the seconds of element-wise work of a step outside of operations: from the cluster's tables if they have it,
 * else from its memory traffic, `bytes`. */
double tri_price_work(const tri_cluster *cluster, tri_dtype precision, tri_work work, double elements, double bytes);

#endif
