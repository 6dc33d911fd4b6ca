#include "plan/network.h"

#include <math.h>

tri_group_extent tri_network_extent(const tri_mesh_shape *shape, tri_domain domain) {
  tri_group_extent span = {1, 1};
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    if (tri_axis_is_folded((tri_axis)axis) != tri_domain_is_folded(domain)) continue; /* an axis of the other mesh */
    int64_t size = tri_mesh_axis_size(shape, (tri_axis)axis);
    if (tri_domain_has(domain, (tri_axis)axis)) {
      span.size *= size;
    } else if (span.size == 1) {
      span.stride *= size;
    }
  }
  return span;
}

static int64_t span_of(const tri_link *link) { return link->spans == 0 ? INT64_MAX : link->spans; }

/* Returns the number of members of a group among `devices` adjacent devices, if the first of these is a member. */
static int64_t members_within(tri_group_extent group, int64_t devices) {
  int64_t most = devices / group.stride + (devices % group.stride != 0 ? 1 : 0);
  return most < group.size ? most : group.size;
}

/* Returns the bytes per second of each of `flows` equal flows that leave a unit (tri_link.per) by its ports. One
 * flow uses at most `stripe` ports. All units of the level send at the same time, so each has only the share
 * link->share of the bandwidth of its ports. */
static double rate(const tri_cluster *cluster, const tri_link *link, double flows, int64_t stripe) {
  double port = link->bandwidth * cluster->efficiency.link, shared = port * (double)link->ports * link->share / flows;
  double most = port * (double)stripe;
  return shared < most ? shared : most;
}

/* How the collectives of a system use the links of a cluster. */
typedef struct route {
  const tri_cluster *cluster;
  bool striped; /* whether a ring may use several ports of a unit (tri_link.stripe) */
} route;

static int64_t stripe_of(const route *by, const tri_link *link) { return by->striped ? link->stripe : 1; }

/* The time of a collective on its links: bytes_s seconds for its bytes at the bandwidth of the links, plus hops_s
 * seconds for the latencies of its hops. */
typedef struct carriage {
  double bytes_s, hops_s;
} carriage;

/* Returns the seconds with the fastest protocol, which libraries are assumed to choose. Some protocols send flags
 * with the data, and have a lower latency per hop and a lower bandwidth: NCCL's LL sends 4 bytes of flags with 4
 * bytes of data, and LL128 sends 8 bytes of flags with 120 bytes of data. */
static double quickest_s(const tri_cluster *cluster, carriage of) {
  double best = of.bytes_s + of.hops_s;
  for (int64_t p = 0; p < cluster->num_protocols; p++) {
    const tri_protocol *protocol = &cluster->protocols[p];
    double seconds = of.bytes_s / protocol->share + of.hops_s * protocol->latency;
    if (seconds < best) best = seconds;
  }
  return best;
}

/* Speed and latencies of a ring or a tree through all members of a group. Level by level, from the innermost link
 * outwards, walk_of joins the `parts` pieces that the inner levels have connected into `left` larger pieces. On the
 * links of this level a ring has parts - left hops, and a tree has log2(parts / left) of its levels. */
typedef struct walk {
  double speed;    /* bytes per second on the slowest level of links */
  double ring_s;   /* sum of the latencies of the n - 1 hops that a reduce-scatter over n ranks makes */
  double height_s; /* sum of the latencies from a leaf of a tree to its root */
} walk;

static walk walk_of(const route *by, tri_group_extent group) {
  const tri_cluster *cluster = by->cluster;
  walk it = {.speed = INFINITY};
  double parts = (double)group.size;
  int64_t inside = 1;
  for (int64_t l = 0; l < cluster->num_links && inside < group.size; l++) {
    const tri_link *link = &cluster->links[l];
    int64_t within = members_within(group, span_of(link));
    if (within > inside) {
      double rings = (double)link->per / (double)members_within(group, link->per);
      double here = rate(cluster, link, rings, stripe_of(by, link)), left = ceil((double)group.size / (double)within);
      if (here < it.speed) it.speed = here;
      it.ring_s += (parts - left) * link->latency;
      it.height_s += ceil(log2(parts / left)) * link->latency;
      parts = left;
    }
    inside = within;
  }
  return it;
}

/* Returns how often the whole buffer crosses each link of a ring: twice in an all-reduce, which is a reduce-scatter
 * and an all-gather. Returns 0 for collectives that are not priced as rings. */
static double passes_of(tri_collective kind) {
  switch (kind) {
    case TRI_COLLECTIVE_NONE:
    case TRI_COLLECTIVE_ALL_TO_ALL:
    case TRI_COLLECTIVE_PASS: return 0.0;
    case TRI_COLLECTIVE_ALL_REDUCE: return 2.0;
    case TRI_COLLECTIVE_ALL_GATHER:
    case TRI_COLLECTIVE_REDUCE_SCATTER: return 1.0;
  }
  return 0.0;
}

static carriage ring(const walk *way, double passes, double bytes, tri_group_extent group) {
  double size = (double)group.size;
  return (carriage){passes * (size - 1.0) * bytes / size / way->speed, passes * way->ring_s};
}

/* Returns the time of a tree. The data go to the root and back in small pieces, one after the other, so each link
 * carries the whole buffer once in each direction. */
static carriage tree(const walk *way, double passes, double bytes) {
  return (carriage){passes * bytes / way->speed, passes * way->height_s};
}

/* Returns the time of hierarchical rings, summed over the levels of links. On each level a ring in each unit does a
 * reduce-scatter (or an all-gather), and every device continues on the next level with its part of the buffer. So
 * all devices use the outer ports at the same time. Returns INFINITY if the members do not divide evenly over the
 * units of a level. */
static carriage hierarchical(const route *by, double passes, double bytes, tri_group_extent group) {
  const tri_cluster *cluster = by->cluster;
  carriage sum = {0};
  int64_t inside = 1;
  for (int64_t l = 0; l < cluster->num_links && inside < group.size; l++) {
    const tri_link *link = &cluster->links[l];
    int64_t within = members_within(group, span_of(link));
    if (within % inside != 0) return (carriage){INFINITY, 0};
    int64_t ways = within / inside;
    if (ways > 1) {
      double speed = rate(cluster, link, (double)link->per, link->ports);
      /* the innermost level is a plain ring over the whole buffer */
      if (inside == 1) speed = walk_of(by, (tri_group_extent){within, group.stride}).speed;
      sum.bytes_s += passes * (double)(ways - 1) * bytes / (double)inside / (double)ways / speed;
      sum.hops_s += passes * (double)(ways - 1) * link->latency;
    }
    inside = within;
  }
  return sum;
}

/* Returns the seconds of an all-to-all. Each rank sends to near and far ranks at the same time, so the slowest level
 * of links determines the time. On a level, all devices of a unit share its ports. */
static double all_to_all_s(const route *by, double bytes, tri_group_extent group) {
  const tri_cluster *cluster = by->cluster;
  carriage worst = {0};
  int64_t inside = 1;
  for (int64_t l = 0; l < cluster->num_links && inside < group.size; l++) {
    const tri_link *link = &cluster->links[l];
    int64_t within = members_within(group, span_of(link));
    double crossing = bytes * (double)(group.size - inside) / (double)group.size;
    double here = crossing / rate(cluster, link, (double)link->per, link->ports);
    if (within > inside && here > worst.bytes_s) worst.bytes_s = here;
    if (within > inside && link->latency > worst.hops_s) worst.hops_s = link->latency;
    inside = within;
  }
  return quickest_s(cluster, worst);
}

/* Returns the expected seconds between the arrival of the average rank at a collective and the arrival of the last
 * one. Some ranks are late because of other processes, the scheduler of the host, or the start of a kernel on
 * another stream. If the delays have an exponential distribution with the mean `start`, the last of n ranks arrives
 * (1/2 + ... + 1/n) * start after the average. */
static double lateness_s(const tri_cluster *cluster, int64_t ranks) {
  const double n = (double)ranks;
  double sum = log(n) + 0.5772156649 + 1 / (2 * n) - 1 / (12 * n * n) - 1; /* 1/2 + ... + 1/n, to 1e-3 */
  return cluster->efficiency.start * sum;
}

/* Sets *seconds and returns true if the tables have the collective. The tables were measured on adjacent ranks, so
 * other groups are not looked up, unless the measurements used one node or an unknown number of nodes: within these all
 * ranks count as adjacent. */
static bool table_collective(const tri_cluster *cluster, tri_collective kind, bool shared, double bytes,
                             tri_group_extent group, double *seconds) {
  if (group.stride > 1 && cluster->nodes > 1) return false;
  return tri_measured_collective_s(&cluster->measured, kind, shared, group.size, bytes, seconds);
}

double tri_network_shared(const tri_cluster *cluster, tri_collective kind, double bytes, tri_group_extent group,
                          const tri_system *system) {
  double seconds;
  if (group.size <= 1 || kind == TRI_COLLECTIVE_NONE || bytes <= 0) return 0;
  if (table_collective(cluster, kind, true, bytes, group, &seconds)) return seconds;
  return tri_network_collective(cluster, kind, bytes, group, system);
}

double tri_network_collective(const tri_cluster *cluster, tri_collective kind, double bytes, tri_group_extent group,
                              const tri_system *system) {
  double seconds;
  if (group.size <= 1 || kind == TRI_COLLECTIVE_NONE || bytes <= 0) return 0;
  if (table_collective(cluster, kind, false, bytes, group, &seconds)) return seconds;
  if (cluster->num_links == 0) return INFINITY;
  route by = {cluster, !system->single_ring};
  if (kind == TRI_COLLECTIVE_PASS) return tri_network_message(cluster, bytes, group) + lateness_s(cluster, 2);
  if (kind == TRI_COLLECTIVE_ALL_TO_ALL) {
    return all_to_all_s(&by, bytes, group) / system->link_share + lateness_s(cluster, group.size);
  }
  walk way = walk_of(&by, group);
  double passes = passes_of(kind), best = quickest_s(cluster, ring(&way, passes, bytes, group));
  double other = system->levels ? quickest_s(cluster, hierarchical(&by, passes, bytes, group)) : best;
  if (other < best) best = other;
  if (kind == TRI_COLLECTIVE_ALL_REDUCE) other = quickest_s(cluster, tree(&way, passes, bytes));
  if (other < best) best = other;
  return best / system->link_share + lateness_s(cluster, group.size);
}

double tri_network_message(const tri_cluster *cluster, double bytes, tri_group_extent stages) {
  double seconds, slowest = 0;
  if (bytes <= 0 || stages.size <= 1) return 0;
  if ((stages.stride == 1 || cluster->nodes <= 1) && tri_measured_message_s(&cluster->measured, bytes, &seconds)) {
    return seconds;
  }
  if (cluster->num_links == 0) return INFINITY;
  int64_t inside = 1;
  for (int64_t l = 0; l < cluster->num_links && inside < stages.size; l++) {
    const tri_link *link = &cluster->links[l];
    int64_t within = members_within(stages, span_of(link));
    if (within > inside) {
      double flows = (double)(stages.stride < link->per ? stages.stride : link->per);
      double here = bytes / rate(cluster, link, flows, 1) + link->latency;
      if (here > slowest) slowest = here;
    }
    inside = within;
  }
  return slowest;
}
