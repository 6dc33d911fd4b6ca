#include "plan/network.h"

#include "base/count.h"

#include <math.h>

tri_group_extent tri_network_extent(const tri_mesh_shape *shape, tri_domain domain) {
  tri_group_extent span = {1, 1, tri_mesh_num_ranks(shape)};
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

/* Returns the bytes per second of each of `flows` equal flows that leave a unit (tri_link.per) by its ports. One
 * flow uses at most `lanes` ports. All units of the level send at the same time, so each has only the share
 * link->share of the bandwidth of its ports. */
static double rate(const tri_cluster *cluster, const tri_link *link, double flows, double lanes) {
  double port = link->bandwidth * cluster->efficiency.link, shared = port * (double)link->ports * link->share / flows;
  double most = port * lanes;
  return shared < most ? shared : most;
}

/* The groups of a domain on the links of a cluster. */
typedef struct route {
  const tri_cluster *cluster;
  const tri_group_survey *survey;
  int64_t size; /* ranks of a group */
  bool striped; /* whether a ring may use several ports of a unit (tri_link.stripe) */
} route;

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

/* Returns the bytes per second of a ring of a group on a level that it crosses. */
static double ring_rate(const route *by, const tri_group_kind *kind, int64_t l) {
  return rate(by->cluster, &by->cluster->links[l], by->survey->rings[l], by->striped ? kind->lanes[l] : 1.0);
}

static walk walk_of(const route *by, const tri_group_kind *kind) {
  const tri_cluster *cluster = by->cluster;
  walk it = {.speed = INFINITY};
  double parts = (double)by->size;
  for (int64_t l = 0; l < cluster->num_links && parts > 1; l++) {
    const tri_link *link = &cluster->links[l];
    const double left = (double)kind->pieces[l];
    if (left >= parts) continue;
    const double here = ring_rate(by, kind, l);
    if (here < it.speed) it.speed = here;
    it.ring_s += (parts - left) * link->latency;
    it.height_s += ceil(log2(parts / left)) * link->latency;
    parts = left;
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

static carriage ring(const walk *way, double passes, double bytes, double size) {
  return (carriage){passes * (size - 1.0) * bytes / size / way->speed, passes * way->ring_s};
}

/* Returns the time of a tree. The data go to the root and back in small pieces, one after the other, so each link
 * carries the whole buffer once in each direction. */
static carriage tree(const walk *way, double passes, double bytes) {
  return (carriage){passes * bytes / way->speed, passes * way->height_s};
}

/* Returns the time of hierarchical rings, summed over their stages. In each stage a ring in each unit does a
 * reduce-scatter (or an all-gather), and every device continues in the next stage with its part of the buffer. So all
 * devices use the outer ports at the same time. A stage is a level of links, or several levels if the group has not
 * equally many ranks in the units of the inner ones; it is as slow as its slowest level, and its hops as the slowest
 * hop. */
static carriage hierarchical(const route *by, const tri_group_kind *kind, double passes, double bytes) {
  const tri_cluster *cluster = by->cluster;
  const double size = (double)by->size;
  carriage sum = {0};
  double pieces = size, parts = size; /* pieces: when the stage begins */
  double speed = INFINITY, latency = 0;
  for (int64_t l = 0; l < cluster->num_links && parts > 1; l++) {
    const tri_link *link = &cluster->links[l];
    if ((double)kind->pieces[l] >= parts) continue;
    parts = (double)kind->pieces[l];
    /* the first stage is a plain ring over the whole buffer */
    const double here =
        pieces < size ? rate(cluster, link, (double)link->per, (double)link->ports) : ring_rate(by, kind, l);
    if (here < speed) speed = here;
    latency = tri_larger_double(latency, link->latency);
    if (!kind->even[l]) continue;
    const double ways = pieces / parts, inside = size / pieces;
    sum.bytes_s += passes * (ways - 1) * bytes / inside / ways / speed;
    sum.hops_s += passes * (ways - 1) * latency;
    pieces = parts;
    speed = INFINITY;
    latency = 0;
  }
  return pieces > parts ? (carriage){INFINITY, 0} : sum;
}

/* Returns the seconds of an all-to-all. Each rank sends to near and far ranks at the same time, so the slowest level
 * of links determines the time. On a level, all devices of a unit share its ports. */
static double all_to_all_s(const route *by, double bytes) {
  const tri_cluster *cluster = by->cluster;
  const tri_group_survey *survey = by->survey;
  carriage worst = {0};
  for (int64_t l = 0; l < cluster->num_links; l++) {
    const tri_link *link = &cluster->links[l];
    const double port = link->bandwidth * cluster->efficiency.link, each = bytes / (double)by->size;
    const double lanes = tri_larger_double(1, (double)link->ports / (double)link->per);
    if (survey->rings[l] <= 0) continue;
    const double unit_s = each * survey->partners[l] / (port * (double)link->ports * link->share);
    const double device_s = each * survey->most_partners[l] / (port * lanes);
    worst.bytes_s = tri_larger_double(worst.bytes_s, tri_larger_double(unit_s, device_s));
    worst.hops_s = tri_larger_double(worst.hops_s, link->latency);
  }
  return quickest_s(cluster, worst);
}

/* Returns the seconds of the fastest algorithm for a kind of groups. */
static double kind_s(const route *by, const tri_group_kind *kind, tri_collective how, double bytes, bool levels) {
  const walk way = walk_of(by, kind);
  const double passes = passes_of(how);
  double best = quickest_s(by->cluster, ring(&way, passes, bytes, (double)by->size));
  double other = levels ? quickest_s(by->cluster, hierarchical(by, kind, passes, bytes)) : best;
  if (other < best) best = other;
  if (how == TRI_COLLECTIVE_ALL_REDUCE) other = quickest_s(by->cluster, tree(&way, passes, bytes));
  return other < best ? other : best;
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
  if (kind == TRI_COLLECTIVE_PASS) return tri_network_message(cluster, bytes, group) + lateness_s(cluster, 2);
  const route by = {cluster, tri_group_survey_of(cluster, group), group.size, !system->single_ring};
  double slowest = 0;
  if (kind == TRI_COLLECTIVE_ALL_TO_ALL) {
    slowest = all_to_all_s(&by, bytes);
  } else {
    for (int64_t k = 0; k < by.survey->num_kinds; k++)
      slowest = tri_larger_double(slowest, kind_s(&by, &by.survey->kinds[k], kind, bytes, system->levels));
  }
  return slowest / system->link_share + lateness_s(cluster, group.size);
}

double tri_network_message(const tri_cluster *cluster, double bytes, tri_group_extent stages) {
  double seconds, slowest = 0;
  if (bytes <= 0 || stages.size <= 1) return 0;
  if ((stages.stride == 1 || cluster->nodes <= 1) && tri_measured_message_s(&cluster->measured, bytes, &seconds)) {
    return seconds;
  }
  if (cluster->num_links == 0) return INFINITY;
  const tri_group_survey *survey = tri_group_survey_of(cluster, stages);
  for (int64_t l = 0; l < cluster->num_links; l++) {
    const tri_link *link = &cluster->links[l];
    if (survey->senders[l] <= 0) continue;
    slowest = tri_larger_double(slowest, bytes / rate(cluster, link, survey->senders[l], 1) + link->latency);
  }
  return slowest;
}
