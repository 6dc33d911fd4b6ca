#include "plan/price.h"

#include "base/count.h"
#include "plan/gemm_time.h"
#include "plan/network.h"

#include <math.h>

/* Returns the seconds of a GEMM: the longer of arithmetic and memory traffic. */
static double product_s(const tri_cluster *cluster, tri_dtype type, tri_gemm p) {
  double bytes = p.batch * (p.rows * p.inner + p.inner * p.columns + p.rows * p.columns);
  return tri_larger_double(tri_gemm_s(cluster, type, &p),
                           tri_price_memory(cluster, bytes * (double)tri_dtype_bytes(type)));
}

/* Returns whether softmax, mask and scale are separate kernels. They are if the number of heads x sequences is not a
 * multiple of softmax_batches, which the fused kernel needs. */
static bool unfused_softmax(const tri_system *system, const tri_cost *cost) {
  if (system->flash_attention || cost->scores <= 0 || system->softmax_batches == 0) return false;
  return fmod(cost->products, (double)system->softmax_batches) != 0;
}

/* Returns the number of additional kernels of a softmax that is not fused: conversion to fp32, scale, four for the
 * mask (ones, triangle, conversion to bits, masked fill), conversion to 16 bits. The backward uses the mask of the
 * forward, which saves three. */
static double more_kernels(tri_pass pass) { return tri_pass_choose(pass, 7, 4, 0); }

/* Returns the seconds of attention that stores its scores. The full square of scores is computed, one kernel after
 * the other. Forward: scores, softmax, dropout (with a mask of one byte per score), product with the values.
 * Backward: the gradients of the probabilities and of v, of dropout and of the softmax, of q and of k. */
static double kept_scores_s(const tri_cluster *cluster, const tri_system *system, tri_dtype type, const tri_cost *cost,
                            tri_pass pass) {
  const tri_gemm scores = {.rows = cost->rows, .inner = cost->inner, .columns = cost->columns, .batch = cost->products};
  const tri_gemm values = {.rows = cost->rows, .inner = cost->columns, .columns = cost->inner, .batch = cost->products};
  double square = cost->rows * cost->columns * cost->products * (double)tri_dtype_bytes(type);
  double softmax = tri_pass_choose(pass, 2.0, 3.0, 0), dropout = 2.5;
  double cap = cost->capped > 0 ? tri_pass_choose(pass, 6.0, 7.0, 0)
                                : 0; /* accesses to each score: division, tanh, multiplication */
  if (unfused_softmax(system, cost))
    softmax = tri_pass_choose(pass, 15.0, 18.0, 0); /* accesses to each score, half of them in fp32 */
  double products = product_s(cluster, type, values) * tri_pass_choose(pass, 1.0, 3.0, 0);
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return 0;
  return product_s(cluster, type, scores) + products + tri_price_memory(cluster, square * (softmax + dropout + cap));
}

/* Prices the computation of a pass by the tables of the cluster. Returns false if the tables lack any part of it. */
static bool measured_s(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call,
                       const tri_cost *cost, tri_pass pass, tri_price *out) {
  const tri_measured *m = &cluster->measured;
  double seconds = 0, elements = 0;
  tri_price found = {0};
  tri_work work;
  if (cost->scores > 0) {
    if (!system->flash_attention || !tri_measured_attention_s(m, call->type, pass, cost, &out->compute_s)) return false;
    out->compute_s += cost->capped / cluster->vector_flops;
    return true;
  }
  tri_cost each[TRI_MEASURED_MOST_PRODUCTS];
  int count = tri_measured_products_of(call, cost, each);
  if (count == 0 && cost->flops > 0) return false;
  for (int i = 0; i < count; i++) {
    if (!tri_measured_product_s(m, call->type, &each[i], &seconds)) return false;
    found.compute_s += seconds;
    if (each[i].form == TRI_GEMM_GRADIENT) found.later_s += tri_measured_added_s(m, call->type, &each[i]);
  }
  if (cost->elements > 0) {
    const char *name = call->op->work != NULL ? call->op->work : call->op->name;
    if (!tri_measured_work_of(name, &work)) return false;
    if (!tri_measured_elements_s(m, call->type, work, pass, cost->elements, &elements)) return false;
  }
  found.compute_s += elements * system->element_traffic;
  if (found.compute_s <= 0) return false;
  *out = found;
  return true;
}

static bool is_gradient(tri_gemm_form form) {
  switch (form) {
    case TRI_GEMM_PLAIN:
    case TRI_GEMM_TRANSPOSED: return false;
    case TRI_GEMM_GRADIENT:
    case TRI_PRODUCT_ADDED: break;
  }
  return true;
}

bool tri_price_is_fp8(const tri_system *system, const tri_op_call *call) {
  return system->fp8_products && call->recomputable && call->type == TRI_BF16 && !call->op->routes;
}

/* Returns the seconds of converting the input of a GEMM to FP8; 0 in the backward of weights, whose operands have
 * been converted before. */
static double converting_s(const tri_cluster *cluster, const tri_system *system, const tri_cost *cost, tri_pass pass) {
  const double elements = tri_pass_choose(pass, 1, 1, 0) * cost->rows * cost->inner * cost->products;
  return tri_price_memory(cluster, elements * system->fp8_conversion);
}

/* Returns the seconds of computation by the roofline model, without the tables. */
static double compute_s(const tri_cluster *cluster, const tri_system *system, tri_dtype type, const tri_cost *cost,
                        tri_pass pass, bool fp8) {
  double traffic = cost->bytes / (cluster->memory_bandwidth * cluster->efficiency.memory), arithmetic = 0,
         converted = 0;
  if (cost->scores > 0 && !system->flash_attention) {
    return traffic * system->element_traffic + kept_scores_s(cluster, system, type, cost, pass);
  }
  if (cost->flops > 0 && cost->scores > 0) {
    arithmetic = cost->flops / (tri_cluster_peak(cluster, type) * cluster->efficiency.attention);
  } else if (cost->flops > 0) {
    double whole = 2.0 * cost->rows * cost->inner * cost->columns *
                   cost->products; /* FLOPs of one GEMM; cost->flops of a loss has those of three */
    const tri_gemm p = {.rows = cost->rows,
                        .inner = cost->inner,
                        .columns = cost->columns,
                        .batch = cost->products,
                        .gradient = is_gradient(cost->form),
                        .fp8 = fp8};
    if (fp8) converted = converting_s(cluster, system, cost, pass);
    arithmetic = tri_gemm_s(cluster, type, &p) * cost->flops / whole;
  } else {
    traffic *= system->element_traffic;
  }
  return converted + tri_larger_double(arithmetic + cost->vector_flops / cluster->vector_flops, traffic);
}

/* Returns the seconds of exchanging rows of experts in a system that sends a row once to each holder. A *holder* is
 * a group of ranks that split the same experts. Ranks with the same shard of their experts exchange equal parts of
 * the rows, and the ranks of a holder then gather all parts (or reduce-scatter the results). */
static double gathered_s(const tri_cluster *cluster, const tri_system *system, double bytes,
                         const tri_mesh_shape *shape) {
  const tri_group_extent holder = tri_network_extent(shape, TRI_DOMAIN_EXPERT_TENSOR);
  return tri_network_shared(cluster, TRI_COLLECTIVE_ALL_TO_ALL, bytes / (double)holder.size,
                            tri_network_extent(shape, TRI_DOMAIN_EXPERT_HOLDERS), system) +
         tri_network_collective(cluster, TRI_COLLECTIVE_ALL_GATHER, bytes, holder, system);
}

double tri_price_exchange(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call,
                          const tri_cost_exchange *exchange, const tri_mesh_shape *shape) {
  const tri_group_extent group = tri_network_extent(shape, exchange->domain);
  const bool rows = exchange->domain == TRI_DOMAIN_EXPERT && exchange->collective == TRI_COLLECTIVE_ALL_TO_ALL;
  const double bytes = exchange->bytes * (rows && system->expert_row_share > 0 ? system->expert_row_share : 1);
  if (exchange->collective == TRI_COLLECTIVE_NONE) return 0;
  if (rows && system->gathers_experts) return gathered_s(cluster, system, bytes, shape);
  if (call->op->transfer == NULL && !call->op->awaits) {
    return tri_network_collective(cluster, exchange->collective, bytes, group, system);
  }
  return tri_network_shared(cluster, exchange->collective, bytes, group, system);
}

/* Adds the exchanges of a pass to its price. A ring of n ranks computes in n parts. Its transfers overlap with the
 * parts, which then run at the share `beside` of their rate. */
static void price_exchanges(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call,
                            const tri_cost *cost, const tri_mesh_shape *shape, tri_price *price) {
  const double launch_s = system->kernels > 0 ? cluster->efficiency.launch : 0, kernels_s = price->launch_s;
  /* Seconds of transfers that can still overlap with one part of the computation; -1: not set yet. */
  double free_s = -1;
  for (int e = 0; e < TRI_COST_EXCHANGES; e++) {
    const tri_cost_exchange *exchange = &cost->exchanges[e];
    if (exchange->collective == TRI_COLLECTIVE_NONE) continue;
    tri_group_extent group = tri_network_extent(shape, exchange->domain);
    double each_s = tri_price_exchange(cluster, system, call, exchange, shape);
    double times = exchange->times > 0 ? exchange->times : 1;
    double *along_s = &price->along_s[tri_domain_axis(exchange->domain)];
    *along_s += times * each_s;
    if (group.size > 1) price->launch_s += times * launch_s;
    if (exchange->overlapped <= 0 || group.size <= 1) continue;
    if (free_s < 0) {
      free_s = price->compute_s / (double)group.size / cluster->beside;
      price->launch_s += (double)(group.size - 1) * kernels_s; /* each part has kernels of its own */
    }
    if (cluster->carries || !system->overlap_messages) continue;
    double over = each_s < free_s ? each_s : free_s;
    free_s -= over;
    *along_s -= exchange->overlapped * over;
    price->compute_s += exchange->overlapped * over * (1 - cluster->beside);
  }
}

tri_price tri_price_pass(const tri_cluster *cluster, const tri_system *system, const tri_op_call *call, tri_pass pass,
                         const tri_mesh_shape *shape) {
  tri_cost cost = {0};
  tri_price price = {0};
  tri_op_call whole = *call;
  if (!system->flash_attention) whole.attention_fraction = 1; /* masked scores are computed and stored, too */
  tri_op_cost(&whole, pass, &cost);
  const bool fp8 = tri_price_is_fp8(system, call) && cost.flops > 0 && cost.scores <= 0;
  if (fp8 || !measured_s(cluster, system, call, &cost, pass, &price)) {
    price.compute_s = compute_s(cluster, system, call->type, &cost, pass, fp8);
  }
  double element = (double)tri_dtype_bytes(call->type);
  if (system->gathers_experts) cost.copied -= cost.spread;
  if (cost.copied > 0) {
    price.compute_s += tri_price_work(cluster, call->type, TRI_WORK_COPY, cost.copied / 2 / element, cost.copied);
  }
  if (call->op->makes_loss && pass == TRI_PASS_FORWARD) {
    if (tri_domain_size(shape, TRI_DOMAIN_TENSOR) == 1) price.compute_s /= system->whole_head_share;
    price.compute_s += tri_price_memory(cluster, cost.rows * cost.columns * system->logit_bytes);
  }
  double kernels = system->kernels;
  if (kernels > 0 && unfused_softmax(system, &cost)) kernels += more_kernels(pass);
  if (price.compute_s > 0) price.launch_s = cluster->efficiency.launch * kernels;
  price_exchanges(cluster, system, call, &cost, shape, &price);
  return price;
}

double tri_price_cost(const tri_cluster *cluster, const tri_system *system, tri_dtype type, const tri_cost *cost,
                      const tri_mesh_shape *shape) {
  double seconds = 0;
  if (cost->flops <= 0 || !tri_measured_product_s(&cluster->measured, type, cost, &seconds)) {
    seconds = compute_s(cluster, system, type, cost, TRI_PASS_FORWARD, false);
  } else {
    seconds *= cost->flops / (2.0 * cost->rows * cost->inner * cost->columns * cost->products);
  }
  for (int e = 0; e < TRI_COST_EXCHANGES; e++) {
    const tri_cost_exchange *exchange = &cost->exchanges[e];
    if (exchange->collective == TRI_COLLECTIVE_NONE) continue;
    seconds += tri_network_collective(cluster, exchange->collective, exchange->bytes,
                                      tri_network_extent(shape, exchange->domain), system);
  }
  return seconds;
}

bool tri_price_recomputes(const tri_system *system, const tri_layout *layout, const tri_op_call *call) {
  bool whole = system->whole_recompute && layout->recompute == TRI_RECOMPUTE_FULL && call->recomputable;
  if (system->selective_attention && layout->recompute == TRI_RECOMPUTE_SELECTIVE && call->recomputable) {
    tri_cost cost = {0};
    tri_op_cost(call, TRI_PASS_FORWARD, &cost);
    return cost.scores > 0;
  }
  return call->recompute || (whole && call->layer % layout->recompute_every == 0);
}

/* Counts the accesses to an element. The engine reads the value, the gradient and both moments, and writes the value
 * and both moments: 7 accesses in the wide type. Other systems read the gradient, read and write their states, and
 * write the weight. */
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
