/* A price is the seconds of an operation, or of other work, on a cluster. */
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
  double launch_s; /* seconds in which the host launches the kernels; the device waits if launching takes longer than
                      running the kernels */
  /* Additional seconds of computation in the first micro-batch of a step, and in each later one. */
  double first_s, later_s;
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

/* Returns the price of a pass. The computation is from the cluster's tables if they have it, else from the roofline
 * model: the longer of arithmetic (gemm_time.h) and memory traffic, each with the cluster's efficiency. `shape`:
 * mesh of the layout. */
tri_price tri_price_pass(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call, tri_pass pass,
                         const tri_mesh_shape *shape);

/* Returns the seconds of one collective of an exchange of a call; the exchange may have several
 * (tri_cost_exchange.times). */
double tri_price_exchange(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call,
                          const tri_cost_exchange *exchange, const tri_mesh_shape *shape);

/* Returns whether the system computes the GEMMs of a call in FP8: those of layers in bf16, except routers. Also true
 * for attention, but tri_price_pass does not price attention as FP8. */
bool tri_price_is_fp8(const tri_system *system, const tri_op_call *call);

/* Returns whether the forward of a call is recomputed before the backward of its layer. The list of operations marks
 * this, with two exceptions: systems with whole_recompute recompute all calls of a layer that recomputes, and
 * systems with selective_attention recompute only attention under selective recompute. */
bool tri_price_recomputes(const tri_system *system, const tri_layout *layout, const tri_op_call *call);

/* Returns the seconds of computation and communication of work that is not a pass of an operation, such as preparing
 * weights. */
double tri_price_cost(const tri_cluster *cluster, const tri_system *system, tri_dtype type, const tri_cost *cost,
                      const tri_mesh_shape *shape);

/* Returns the bytes that AdamW reads and writes to update one element. */
double tri_price_update_bytes(const tri_system *system, tri_dtype precision);

/* Returns the seconds in which a device reads or writes `bytes` bytes. */
double tri_price_memory(const tri_cluster *cluster, double bytes);

/* Returns the seconds of element-wise work that is not the kernel of an operation, such as copies and updates: from
 * the cluster's tables if they have it, else those of reading or writing `bytes` bytes. */
double tri_price_work(const tri_cluster *cluster, tri_dtype precision, tri_work work, double elements, double bytes);

#endif
