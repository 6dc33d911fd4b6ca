/* What things cost in seconds on a described machine. */
#ifndef TRI_PLAN_PRICE_H
#define TRI_PLAN_PRICE_H

#include "ops/op.h"
#include "plan/cluster.h"
#include "plan/network.h"
#include "plan/system.h"
#include "schedule/layout.h"

/* One pass of an operation: on the device, in collectives of its tensor group, and for whoever tells the device what to
 * do, which goes on beside the others as long as it is shorter. */
typedef struct tri_price {
  double compute_s, tensor_s, launch_s;
  double first_s, later_s; /* more of computing: in the first micro-batch of a step, and in those behind it */
} tri_price;

/* The roofline: the longer of arithmetic (product.h) and memory traffic, with what the cluster says is reached of both.
 */
tri_price tri_price_pass(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call, tri_pass pass,
                         tri_span tensor);

/* Whether a call's forward runs again before its layer's backward: what the list has marked or, in systems that run
 * whole layers again, all of a layer's. */
bool tri_price_runs_again(const tri_system *system, const tri_layout *layout, const tri_op_call *call);

/* Bytes that an update of one parameter reads and writes. */
double tri_price_update_bytes(const tri_system *system, tri_dtype precision);

/* Reads and writes of so many bytes. */
double tri_price_memory(const tri_cluster *cluster, double bytes);

/* What a step does over so many elements beside its operations; `bytes` of memory where no table says. */
double tri_price_work(const tri_cluster *cluster, tri_dtype precision, tri_work work, double elements, double bytes);

#endif
