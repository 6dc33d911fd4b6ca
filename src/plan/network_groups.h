/* Which links the groups of a domain cross.
 *
 * Ranks are placed on adjacent devices in their order. A level of links (tri_link) connects `spans` adjacent devices,
 * its *unit*; so a group of 3 ranks on nodes of 8 may be inside a node or have ranks in two. A group *crosses* a level
 * if the level connects ranks of it that no level within connects. */
#ifndef TRI_PLAN_NETWORK_GROUPS_H
#define TRI_PLAN_NETWORK_GROUPS_H

#include "plan/cluster.h"

#include <stdbool.h>
#include <stdint.h>

/* The positions of the ranks of a domain's groups. A group has the ranks b, b + stride, ..., b + (size - 1) * stride.
 * The first ranks b of the groups are k * size * stride + i for k = 0, 1, ... and i = 0 .. stride - 1, as far as the
 * last rank of the group is below `ranks`. */
typedef struct tri_group_extent {
  int64_t size, stride;
  int64_t ranks; /* number of ranks of the job; 0: size * stride */
} tri_group_extent;

/* How a group, or several groups alike, use the levels of links. */
typedef struct tri_group_kind {
  int64_t pieces[TRI_CLUSTER_LINKS]; /* number of units in which the group has ranks */
  /* Whether the group has equally many ranks in each of these units; true if it does not cross the level. */
  bool even[TRI_CLUSTER_LINKS];
  /* Ports of tri_link.per devices that one ring of the group can use: at least 1, and otherwise the part of the ports
   * that belongs to its ranks, where it has the fewest; at most tri_link.stripe. tri_link.stripe if the group does not
   * cross the level. */
  double lanes[TRI_CLUSTER_LINKS];
} tri_group_kind;

enum { TRI_GROUP_KINDS = 128 };

/* The groups of a domain on the links of a cluster. All of them communicate at the same time. The *load* of a level is
 * that of its busiest ports: the ports of tri_link.per adjacent devices. */
typedef struct tri_group_survey {
  const tri_group_kind *kinds;     /* [num_kinds]: the kinds of groups that occur */
  int64_t num_kinds;               /* at most TRI_GROUP_KINDS */
  double rings[TRI_CLUSTER_LINKS]; /* load: number of groups that cross the level and have ranks at the ports */
  /* Load: number of ranks that send to the next rank of their group over this level. */
  double senders[TRI_CLUSTER_LINKS];
  /* Ranks of the own group that the level or levels beyond connect with a rank: the sum over the ranks at the ports
   * (load), and the largest number of one rank. */
  double partners[TRI_CLUSTER_LINKS], most_partners[TRI_CLUSTER_LINKS];
} tri_group_survey;

/* Surveys the groups of a domain. The result is valid until the calling thread calls this function again. */
const tri_group_survey *tri_group_survey_of(const tri_cluster *cluster, tri_group_extent extent);

/* Counts the groups that have ranks in more than one unit of `devices` adjacent devices, and all groups, until their
 * positions repeat: 2 of 8 groups of 3 adjacent ranks cross nodes of 8. */
void tri_group_count_crossing(tri_group_extent extent, int64_t devices, int64_t *crossing, int64_t *groups);

#endif
