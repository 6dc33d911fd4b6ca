/* What collectives and messages cost in seconds on the links of a described machine. */
#ifndef TRI_PLAN_NETWORK_H
#define TRI_PLAN_NETWORK_H

#include "mesh/domain.h"
#include "ops/op.h"
#include "plan/cluster.h"
#include "plan/system.h"

/* Ranks first, first + stride, ...: those of a group of a domain. */
typedef struct tri_group_extent {
  int64_t size, stride;
} tri_group_extent;

/* Of a domain of a mesh. No axis that is not the domain's lies between its own. */
tri_group_extent tri_network_extent(const tri_mesh_shape *shape, tri_domain domain);

/* A collective of `bytes` (tri_cost_exchange): as the cluster's tables say, else by the quickest of ring, tree and, if
 * the system has them, rings within rings, in the quickest of the cluster's protocols, with all other groups of the
 * same domain doing the same at the same time. */
double tri_network_collective(const tri_cluster *cluster, tri_collective kind, double bytes, tri_group_extent group,
                              const tri_system *system);

/* The same of buffers that lie where the ranks of a node see each other's: gradients, and what passes between ranks
 * that share a sequence. */
double tri_network_shared(const tri_cluster *cluster, tri_collective kind, double bytes, tri_group_extent group,
                          const tri_system *system);

/* A message from each device of a stage to the next stage's, where the way between two neighbours is the slowest: those
 * that wait for it hold up all others. */
double tri_network_message(const tri_cluster *cluster, double bytes, tri_group_extent stages);

#endif
