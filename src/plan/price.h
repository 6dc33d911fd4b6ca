/* What things cost in seconds on a described machine. */
#ifndef TRI_PLAN_PRICE_H
#define TRI_PLAN_PRICE_H

#include "ops/op.h"
#include "plan/cluster.h"
#include "plan/system.h"
#include "schedule/layout.h"

/* One pass of an operation: on the device, in collectives by the axis that they are shown under, and on the host that
 * queues the work, which overlaps with the others as long as it is shorter. */
typedef struct tri_price {
  double compute_s, along_s[TRI_NUM_AXES], launch_s;
  double first_s, later_s; /* more of computing: in the first micro-batch of a step, and in those behind it */
} tri_price;

/* Of its collectives together. */
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

/* The roofline: the longer of arithmetic (gemm_time.h) and memory traffic, with what the cluster says is reached of
 * both. `shape` is the mesh of the layout. */
tri_price tri_price_pass(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call, tri_pass pass,
                         const tri_mesh_shape *shape);

/* Once of what passes in a pass of a call. */
double tri_price_exchange(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call,
                          const tri_cost_exchange *exchange, const tri_mesh_shape *shape);

/* Whether a call's forward runs again before its layer's backward: what the list has marked or, in systems that run
 * whole layers again, all of a layer's, and in those whose `selective` means attention, that. */
bool tri_price_recomputes(const tri_system *system, const tri_layout *layout, const tri_op_call *call);

/* Of a cost that is not a pass of an operation's: what it computes, and what passes between ranks one after the other.
 */
double tri_price_cost(const tri_cluster *cluster, const tri_system *system, tri_dtype type, const tri_cost *cost,
                      const tri_mesh_shape *shape);

/* Bytes that an update of one parameter reads and writes. */
double tri_price_update_bytes(const tri_system *system, tri_dtype precision);

/* Reads and writes of that many bytes. */
double tri_price_memory(const tri_cluster *cluster, double bytes);

/* What a step does over that many elements beside its operations; `bytes` of memory where no table says. */
double tri_price_work(const tri_cluster *cluster, tri_dtype precision, tri_work work, double elements, double bytes);

#endif
