#include "plan/price.h"

#include <math.h>

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static double slope(double dimension, double half) { return dimension <= 0 ? 1 : dimension / (dimension + half); }

static double share_of_peak(const tri_efficiency *at, const tri_cost *cost) {
  if (cost->scores > 0) return at->attention;
  double half = at->matmul_half;
  return at->matmul * slope(cost->rows, half) * slope(cost->inner, half) * slope(cost->columns, half);
}

/* Attention that writes its scores computes the whole square, and passes them through memory: the product writes them,
 * the softmax reads and writes, dropout reads and writes, the product reads; the backward as often for the gradient and
 * once more for what was kept. */
static void keep_scores(tri_cost *cost, double element, tri_pass pass) {
  double again = 2.0 * 4.0 / 5.0; /* the square; and no scores are made again */
  cost->flops *= tri_pass_choose(pass, 2.0, again, again);
  cost->bytes += 2.0 * cost->scores * element * tri_pass_choose(pass, 6.0, 8.0, 8.0);
}

tri_price tri_price_pass(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call, tri_pass pass,
                         tri_span tensor) {
  tri_cost cost = {0};
  tri_price price = {0};
  tri_op_call whole = *call;
  if (!system->flash_attention) whole.area = 1; /* masked scores are made, too, and passed over */
  call->op->cost(&whole, pass, &cost);
  if (cost.scores > 0 && !system->flash_attention) keep_scores(&cost, (double)tri_dtype_bytes(call->type), pass);
  double arithmetic = cost.vector_flops / cluster->vector_flops;
  if (cost.flops > 0) {
    arithmetic += cost.flops / (tri_cluster_peak(cluster, call->type) * share_of_peak(&cluster->efficiency, &cost));
  }
  double traffic = cost.bytes / (cluster->memory_bandwidth * cluster->efficiency.memory);
  price.compute_s = arithmetic > traffic ? arithmetic : traffic;
  if (price.compute_s > 0 || cost.collective != TRI_COLLECTIVE_NONE) price.launch_s = cluster->efficiency.launch;
  if (cost.collective != TRI_COLLECTIVE_NONE) {
    price.tensor_s = tri_price_collective(cluster, cost.collective, cost.collective_bytes, tensor, system);
  }
  return price;
}

bool tri_price_runs_again(const tri_system *system, const tri_layout *layout, const tri_op_call *call) {
  bool whole = system->whole_recompute && layout->recompute == TRI_RECOMPUTE_FULL && call->recomputable;
  return call->again || (whole && call->layer % layout->recompute_every == 0);
}

/* The engine reads value, gradient and both moments and writes all but the gradient, all wide. */
double tri_price_update_bytes(const tri_system *system, tri_dtype precision) {
  if (system->planned) return 7.0 * (double)tri_dtype_bytes(tri_dtype_wide(precision));
  return system->gradient_bytes + 2.0 * system->state_bytes + system->weight_bytes;
}

double tri_price_memory(const tri_cluster *cluster, double bytes) {
  return bytes <= 0 ? 0 : bytes / (cluster->memory_bandwidth * cluster->efficiency.memory);
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

static int64_t span_of(const tri_link *link) { return link->spans == 0 ? INT64_MAX : link->spans; }

/* Members of a group among so many neighbouring devices. */
static int64_t members_within(tri_span group, int64_t devices) {
  int64_t most = devices / group.stride;
  if (most < 1) most = 1;
  return most < group.size ? most : group.size;
}

/* The innermost level that joins all of a group. */
static const tri_link *joining(const tri_cluster *cluster, tri_span group) {
  for (int64_t l = 0; l + 1 < cluster->num_links; l++) {
    if (members_within(group, span_of(&cluster->links[l])) == group.size) return &cluster->links[l];
  }
  return &cluster->links[cluster->num_links - 1];
}

/* Bytes a second of one of so many flows through the ports that `per` devices have together; a flow takes no more than
 * `stripe` ports at once. */
static double rate(const tri_cluster *cluster, const tri_link *link, double flows, int64_t stripe) {
  double port = link->bandwidth * cluster->efficiency.link, shared = port * (double)link->ports / flows;
  double most = port * (double)stripe;
  return shared < most ? shared : most;
}

/* The ways through the machine that a system's collectives take. */
typedef struct route {
  const tri_cluster *cluster;
  bool striped;
} route;

static int64_t stripe_of(const route *by, const tri_link *link) { return by->striped ? link->stripe : 1; }

/* One ring through all members crosses every level once a unit; units of `per` devices hold several groups' rings. */
static double ring_rate(const route *by, tri_span group, double *latency) {
  const tri_cluster *cluster = by->cluster;
  double slowest = INFINITY;
  int64_t inside = 1;
  *latency = 0;
  for (int64_t l = 0; l < cluster->num_links && inside < group.size; l++) {
    const tri_link *link = &cluster->links[l];
    int64_t within = members_within(group, span_of(link));
    if (within > inside) {
      double rings = (double)link->per / (double)members_within(group, link->per);
      double here = rate(cluster, link, rings, stripe_of(by, link));
      if (here < slowest) slowest = here;
      if (link->latency > *latency) *latency = link->latency;
    }
    inside = within;
  }
  return slowest;
}

/* A reduction of all is a scattering one and a gathering. */
static double passes_of(tri_collective kind) {
  switch (kind) {
    case TRI_COLLECTIVE_NONE: return 0.0;
    case TRI_COLLECTIVE_ALL_REDUCE: return 2.0;
    case TRI_COLLECTIVE_ALL_GATHER:
    case TRI_COLLECTIVE_REDUCE_SCATTER: return 1.0;
  }
  return 0.0;
}

static double ring(const route *by, tri_collective kind, double bytes, tri_span group) {
  double latency, size = (double)group.size, speed = ring_rate(by, group, &latency);
  return passes_of(kind) * (size - 1.0) * (bytes / size / speed + latency);
}

/* Up to the root and down again, in pieces small enough to fill the way: each link carries the buffer once a pass. */
static double tree(const route *by, tri_collective kind, double bytes, tri_span group) {
  double latency, speed = ring_rate(by, group, &latency), height = ceil(log2((double)group.size));
  return passes_of(kind) * (bytes / speed + height * latency);
}

/* Level by level: each reduces and scatters within, and passes on its part. Every device uses the outer ports then. */
static double hierarchical(const route *by, tri_collective kind, double bytes, tri_span group) {
  const tri_cluster *cluster = by->cluster;
  double seconds = 0, passes = passes_of(kind);
  int64_t inside = 1;
  for (int64_t l = 0; l < cluster->num_links && inside < group.size; l++) {
    const tri_link *link = &cluster->links[l];
    int64_t within = members_within(group, span_of(link));
    if (within % inside != 0) return INFINITY;
    int64_t ways = within / inside;
    if (ways > 1) {
      double speed = rate(cluster, link, (double)link->per, link->ports);
      if (inside == 1) { /* nothing was scattered: rings as above */
        double latency;
        speed = ring_rate(by, (tri_span){within, group.stride}, &latency);
      }
      seconds += passes * (double)(ways - 1) * (bytes / (double)inside / (double)ways / speed + link->latency);
    }
    inside = within;
  }
  return seconds;
}

double tri_price_collective(const tri_cluster *cluster, tri_collective kind, double bytes, tri_span group,
                            const tri_system *system) {
  if (group.size <= 1 || kind == TRI_COLLECTIVE_NONE || bytes <= 0) return 0;
  if (cluster->num_links == 0) return INFINITY;
  route by = {cluster, !system->single_ring};
  double best = ring(&by, kind, bytes, group);
  double other = system->levels ? hierarchical(&by, kind, bytes, group) : best;
  if (other < best) best = other;
  if (kind == TRI_COLLECTIVE_ALL_REDUCE) other = tree(&by, kind, bytes, group);
  if (other < best) best = other;
  return best / system->link_share;
}

double tri_price_message(const tri_cluster *cluster, double bytes, int64_t stride) {
  if (bytes <= 0) return 0;
  if (cluster->num_links == 0) return INFINITY;
  const tri_link *link = joining(cluster, (tri_span){2, stride});
  double sharing = (double)(stride < link->per ? stride : link->per);
  return bytes / rate(cluster, link, sharing, 1) + link->latency;
}
