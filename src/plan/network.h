/* Predicts the seconds of collectives and messages on the links of a cluster. */
#ifndef TRI_PLAN_NETWORK_H
#define TRI_PLAN_NETWORK_H

#include "mesh/domain.h"
#include "ops/op.h"
#include "plan/cluster.h"
#include "plan/network_groups.h"
#include "plan/system.h"

/* Returns the extent of the groups of a domain in a mesh. The axes of the domain must be adjacent in the mesh. */
tri_group_extent tri_network_extent(const tri_mesh_shape *shape, tri_domain domain);

/* Returns the seconds of a collective of `bytes` (as in tri_cost_exchange) while all other groups of the domain execute
 * the same collective. The seconds include the wait for the last rank to reach the collective. They come from the
 * cluster's tables if the tables have the collective. Otherwise an all-reduce, all-gather or reduce-scatter takes as
 * long as the fastest algorithm with the fastest protocol: a ring, a tree (all-reduce only), or hierarchical rings
 * (tri_system.levels). The seconds are those of the slowest group, if the groups of the domain cross different links.
 * Returns 0 for a group of one rank or no bytes, and INFINITY if the cluster has neither table nor
 * links. */
double tri_network_collective(const tri_cluster *cluster, tri_collective kind, double bytes, tri_group_extent group,
                              const tri_system *system);

/* Returns the seconds of a collective whose buffers are in memory that the ranks of a node share
 * (tri_measured_collective.shared). Returns tri_network_collective if the tables have no such collective. */
double tri_network_shared(const tri_cluster *cluster, tri_collective kind, double bytes, tri_group_extent group,
                          const tri_system *system);

/* Returns the seconds in which all devices of a stage each send a message of `bytes` to the next stage. The seconds
 * come from the cluster's tables if the tables have messages; otherwise they are computed for the slowest link between
 * any two adjacent stages. Returns 0 with one stage or no bytes, and INFINITY if the cluster has neither table nor
 * links. `stages`: extent of the pipeline domain. */
double tri_network_message(const tri_cluster *cluster, double bytes, tri_group_extent stages);

#endif
