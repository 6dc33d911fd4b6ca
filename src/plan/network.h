/* What collectives and messages cost in seconds on the links of a described machine. */
#ifndef TRI_PLAN_NETWORK_H
#define TRI_PLAN_NETWORK_H

#include "ops/op.h"
#include "plan/cluster.h"
#include "plan/system.h"

/* Ranks first, first + stride, ...: those of a group along an axis of the mesh. */
typedef struct tri_span {
  int64_t size, stride;
} tri_span;

/* A collective of `bytes` (the whole buffer): as the cluster's tables say, else by the quickest of ring, tree and, if
 * the system has them, rings within rings, in the quickest of the cluster's protocols, with all other groups along the
 * same axis doing the same at the same time. */
double tri_network_collective(const tri_cluster *cluster, tri_collective kind, double bytes, tri_span group,
                              const tri_system *system);

/* The same of gradients over data ranks, which lie where the ranks of a node see each other's. */
double tri_network_reduction(const tri_cluster *cluster, tri_collective kind, double bytes, tri_span group,
                             const tri_system *system);

/* A message from each device of a stage to the next stage's, where the way between two neighbours is the slowest: those
 * that wait for it hold up all others. */
double tri_network_message(const tri_cluster *cluster, double bytes, tri_span stages);

#endif
