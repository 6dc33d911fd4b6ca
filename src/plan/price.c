#include "plan/price.h"

#include "plan/product.h"

static double larger(double a, double b) { return a > b ? a : b; }

/* Products and their traffic: as long as the longer of both takes. */
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
  tri_op_call whole = *call;
  if (!system->flash_attention) whole.area = 1; /* masked scores are made, too, and passed over */
  call->op->cost(&whole, pass, &cost);
  if (!measured_s(cluster, system, call, &cost, pass, &price)) {
    price.compute_s = compute_s(cluster, system, call->type, &cost, pass);
  }
  if (call->op->makes_loss && pass == TRI_PASS_FORWARD) {
    if (tensor.size == 1) price.compute_s /= system->whole_head_share;
    price.compute_s += tri_price_memory(cluster, cost.rows * cost.columns * system->logit_bytes);
  }
  if (price.compute_s > 0) price.launch_s = cluster->efficiency.launch * system->kernels;
  if (cost.collective != TRI_COLLECTIVE_NONE) {
    price.tensor_s = tri_network_collective(cluster, cost.collective, cost.collective_bytes, tensor, system);
    if (system->kernels > 0 && tensor.size > 1) price.launch_s += cluster->efficiency.launch;
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
