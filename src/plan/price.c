#include "plan/price.h"

#include "plan/product.h"

#include <math.h>

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static double larger(double a, double b) { return a > b ? a : b; }

/* A product and its traffic: `count` times [rows, inner] x [inner, columns], as long as the longer of both takes. */
static double product_s(const tri_cluster *cluster, tri_dtype type, tri_product p) {
  double bytes = p.batch * (p.rows * p.inner + p.inner * p.columns + p.rows * p.columns);
  return larger(tri_product_s(cluster, type, &p), tri_price_memory(cluster, bytes * (double)tri_dtype_bytes(type)));
}

/* Attention that writes its scores: all of the square, one kernel after the other. Forward: scores, softmax, dropout (a
 * mask of a byte beside), the sum of values. Backward: the gradients of probabilities and of v, back through dropout
 * and softmax, the gradients of q and k. */
static double kept_scores_s(const tri_cluster *cluster, tri_dtype type, const tri_cost *cost, tri_pass pass) {
  const tri_product scores = {cost->rows, cost->inner, cost->columns, cost->products};
  const tri_product values = {cost->rows, cost->columns, cost->inner, cost->products};
  double square = cost->rows * cost->columns * cost->products * (double)tri_dtype_bytes(type);
  double softmax = tri_pass_choose(pass, 2.0, 3.0, 0), dropout = 2.5;
  double products = product_s(cluster, type, values) * tri_pass_choose(pass, 1.0, 3.0, 0);
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return 0;
  return product_s(cluster, type, scores) + products + tri_price_memory(cluster, square * (softmax + dropout));
}

/* What the cluster's tables say: of the products, and of what goes over elements beside them. */
static bool measured_s(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call,
                       const tri_cost *cost, tri_pass pass, tri_price *out) {
  const tri_measured *m = &cluster->measured;
  double seconds = 0, elements = 0;
  tri_price found = {0};
  tri_work work;
  if (cost->scores > 0) {
    return system->flash_attention && tri_measured_attention_s(m, call->type, pass, cost, &out->compute_s);
  }
  tri_cost each[TRI_MEASURED_MOST_PRODUCTS];
  int count = tri_measured_products_of(call, cost, each);
  if (count == 0 && cost->flops > 0) return false;
  for (int i = 0; i < count; i++) {
    if (!tri_measured_product_s(m, call->type, &each[i], &seconds)) return false;
    found.compute_s += seconds;
    if (each[i].form == TRI_PRODUCT_GRADIENT) found.later_s += tri_measured_added_s(m, call->type, &each[i]);
  }
  if (cost->elements > 0) {
    if (!tri_measured_work_of(call->op->name, &work)) return false;
    if (!tri_measured_elements_s(m, call->type, work, pass, cost->elements, &elements)) return false;
  }
  found.compute_s += elements * system->element_traffic;
  if (found.compute_s <= 0) return false;
  *out = found;
  return true;
}

static double compute_s(const tri_cluster *cluster, const tri_system *system, tri_dtype type, const tri_cost *cost,
                        tri_pass pass) {
  double traffic = cost->bytes / (cluster->memory_bandwidth * cluster->efficiency.memory), arithmetic = 0;
  if (cost->scores > 0 && !system->flash_attention) {
    return traffic * system->element_traffic + kept_scores_s(cluster, type, cost, pass);
  }
  if (cost->flops > 0 && cost->scores > 0) {
    arithmetic = cost->flops / (tri_cluster_peak(cluster, type) * cluster->efficiency.attention);
  } else if (cost->flops > 0) {
    double whole = 2.0 * cost->rows * cost->inner * cost->columns * cost->products; /* of the three of a loss, one */
    const tri_product p = {cost->rows, cost->inner, cost->columns, cost->products};
    arithmetic = tri_product_s(cluster, type, &p) * cost->flops / whole;
  } else {
    traffic *= system->element_traffic;
  }
  return larger(arithmetic + cost->vector_flops / cluster->vector_flops, traffic);
}

tri_price tri_price_pass(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call, tri_pass pass,
                         tri_span tensor) {
  tri_cost cost = {0};
  tri_price price = {0};
  call->op->cost(call, pass, &cost);
  if (!measured_s(cluster, system, call, &cost, pass, &price)) {
    price.compute_s = compute_s(cluster, system, call->type, &cost, pass);
  }
  if (call->op->makes_loss && pass == TRI_PASS_FORWARD) {
    if (tensor.size == 1) price.compute_s /= system->whole_head_share;
    price.compute_s += tri_price_memory(cluster, cost.rows * cost.columns * system->logit_bytes);
  }
  if (price.compute_s > 0) price.launch_s = cluster->efficiency.launch * system->kernels;
  if (cost.collective != TRI_COLLECTIVE_NONE) {
    price.tensor_s = tri_price_collective(cluster, cost.collective, cost.collective_bytes, tensor, system);
    if (system->kernels > 0) price.launch_s += cluster->efficiency.launch;
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

double tri_price_work(const tri_cluster *cluster, tri_dtype precision, tri_work work, double elements, double bytes) {
  double seconds = 0;
  if (tri_measured_elements_s(&cluster->measured, precision, work, TRI_PASS_FORWARD, elements, &seconds))
    return seconds;
  return tri_price_memory(cluster, bytes);
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

/* Tables are of neighbours; within a node all are. */
static bool table_collective(const tri_cluster *cluster, tri_collective kind, bool shared, double bytes, tri_span group,
                             double *seconds) {
  if (group.stride > 1 && cluster->nodes > 1) return false;
  return tri_measured_collective_s(&cluster->measured, kind, shared, group.size, bytes, seconds);
}

double tri_price_reduction(const tri_cluster *cluster, tri_collective kind, double bytes, tri_span group,
                           const tri_system *system) {
  double seconds;
  if (group.size <= 1 || kind == TRI_COLLECTIVE_NONE || bytes <= 0) return 0;
  if (table_collective(cluster, kind, true, bytes, group, &seconds)) return seconds;
  return tri_price_collective(cluster, kind, bytes, group, system);
}

double tri_price_collective(const tri_cluster *cluster, tri_collective kind, double bytes, tri_span group,
                            const tri_system *system) {
  double seconds;
  if (group.size <= 1 || kind == TRI_COLLECTIVE_NONE || bytes <= 0) return 0;
  if (table_collective(cluster, kind, false, bytes, group, &seconds)) return seconds;
  if (cluster->num_links == 0) return INFINITY;
  route by = {cluster, !system->single_ring};
  double best = ring(&by, kind, bytes, group);
  double other = system->levels ? hierarchical(&by, kind, bytes, group) : best;
  if (other < best) best = other;
  if (kind == TRI_COLLECTIVE_ALL_REDUCE) other = tree(&by, kind, bytes, group);
  if (other < best) best = other;
  return best / system->link_share + cluster->efficiency.start;
}

double tri_price_message(const tri_cluster *cluster, double bytes, int64_t stride) {
  double seconds;
  if (bytes <= 0) return 0;
  if ((stride == 1 || cluster->nodes <= 1) && tri_measured_message_s(&cluster->measured, bytes, &seconds)) {
    return seconds;
  }
  if (cluster->num_links == 0) return INFINITY;
  const tri_link *link = joining(cluster, (tri_span){2, stride});
  double sharing = (double)(stride < link->per ? stride : link->per);
  return bytes / rate(cluster, link, sharing, 1) + link->latency;
}
