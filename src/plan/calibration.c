/* The description of a measured machine. A pattern search on logarithms fits two pairs of constants: the share of
 * the peak that GEMMs reach, and the dimension at which they reach half of this share; and the bandwidth and latency
 * of a link. The rates of memory, element-wise work and attention follow directly from the measurements. */
#include "plan/calibration.h"

#include "base/count.h"
#include "plan/network.h"
#include "plan/system.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fitting {
  const tri_calibration *from;
  tri_cluster *cluster;
} fitting;

static double model_product_s(const tri_cluster *cluster, double peak, const tri_measured_product *p) {
  const tri_efficiency *e = &cluster->efficiency;
  double share = e->matmul;
  const double sides[] = {(double)p->rows, (double)p->inner, (double)p->columns};
  for (int i = 0; i < 3; i++) share *= sides[i] / (sides[i] + e->matmul_half);
  return 2 * sides[0] * sides[1] * sides[2] / (peak * share);
}

static double model_reduce_s(const fitting *f, const tri_measured_collective *c) {
  static const tri_system system = {.levels = true, .link_share = 1};
  return tri_network_collective(f->cluster, TRI_COLLECTIVE_ALL_REDUCE, (double)c->bytes,
                                (tri_group_extent){.size = f->from->devices, .stride = 1}, &system);
}

/* Returns whether the constants of the link are fitted to a measured collective. */
static bool is_fitted(const fitting *f, const tri_measured_collective *c) {
  return c->kind == TRI_COLLECTIVE_ALL_REDUCE && !c->shared && c->ranks == f->from->devices;
}

static double square(double x) { return x * x; }

static double products_off(const fitting *f) {
  const tri_measured *m = f->from->measured;
  double sum = 0;
  for (int64_t i = 0; i < m->num_products; i++) {
    sum += square(log(model_product_s(f->cluster, f->from->peak, &m->products[i]) / m->products[i].seconds));
  }
  return sum;
}

static double links_off(const fitting *f) {
  const tri_measured *m = f->from->measured;
  double sum = 0;
  for (int64_t i = 0; i < m->num_collectives; i++) {
    const tri_measured_collective *c = &m->collectives[i];
    if (is_fitted(f, c)) sum += square(log(model_reduce_s(f, c) / c->seconds));
  }
  for (int64_t i = 0; i < m->num_messages; i++) {
    double predicted =
        tri_network_message(f->cluster, (double)m->messages[i].bytes, (tri_group_extent){.size = 2, .stride = 1});
    sum += square(log(predicted / m->messages[i].seconds));
  }
  return sum;
}

/* Minimises off() over two numbers, each at most its element of most[2]. The search multiplies and divides the numbers
 * by a step, which becomes smaller when neither reduces off(). */
static void search(const fitting *f, double (*off)(const fitting *), double *numbers[2], double most[2]) {
  double best = off(f);
  for (double step = 2; step > 1.0005;) {
    bool moved = false;
    for (int i = 0; i < 4; i++) {
      double *at = numbers[i / 2], before = *at;
      *at = i % 2 == 0 ? before * step : before / step;
      double now = *at <= most[i / 2] ? off(f) : INFINITY;
      if (now < best) {
        best = now;
        moved = true;
      } else {
        *at = before;
      }
    }
    if (!moved) step = sqrt(step);
  }
}

enum { MOST_SAMPLES = TRI_MEASURED_PRODUCTS };

static double median(double *values, int64_t count) {
  if (count == 0) return 0;
  qsort(values, (size_t)count, sizeof *values, tri_compare_doubles);
  return values[count / 2];
}

static void compute_residuals(const fitting *f, tri_residuals *out) {
  double errors[MOST_SAMPLES];
  const tri_measured *m = f->from->measured;
  int64_t count = 0;
  for (int64_t i = 0; i < m->num_products; i++) {
    errors[i] = fabs(model_product_s(f->cluster, f->from->peak, &m->products[i]) / m->products[i].seconds - 1);
  }
  out->products = median(errors, m->num_products);
  for (int64_t i = 0; i < m->num_collectives; i++) {
    const tri_measured_collective *c = &m->collectives[i];
    if (is_fitted(f, c)) errors[count++] = fabs(model_reduce_s(f, c) / c->seconds - 1);
  }
  out->reduces = median(errors, count);
  for (int64_t i = 0; i < m->num_messages; i++) {
    errors[i] =
        fabs(tri_network_message(f->cluster, (double)m->messages[i].bytes, (tri_group_extent){.size = 2, .stride = 1}) /
                 m->messages[i].seconds -
             1);
  }
  out->messages = median(errors, m->num_messages);
}

/* ---- direct measurements ----------------------------------------------------------------------------------------- */

/* Returns the seconds of the measured forward of `work` with the most elements (`largest`) or with the fewest. Sets
 * *elements to their number. Both are 0 if no forward was measured. */
static double edge_s(const tri_measured *m, tri_work work, bool largest, double *elements) {
  const tri_measured_elements *found = NULL;
  for (int64_t i = 0; i < m->num_elements; i++) {
    const tri_measured_elements *e = &m->elements[i];
    if (e->work != work || e->pass != TRI_PASS_FORWARD) continue;
    if (found == NULL || (e->elements > found->elements) == largest) found = e;
  }
  *elements = found == NULL ? 0 : (double)found->elements;
  return found == NULL ? 0 : found->seconds;
}

/* Sets the memory bandwidth from the longest measured sum of two vectors, with two reads and a write for each element.
 * Sets the rate of vector arithmetic from GELU on the shortest measured vector, which fits into caches, with 16
 * operations for each element. A rate whose work was not measured is set to 1e9. */
static void set_rates(const tri_calibration *from, tri_cluster *c) {
  double elements, bytes = (double)tri_dtype_bytes(from->precision);
  double seconds = edge_s(from->measured, TRI_WORK_ADD, true, &elements);
  c->memory_bandwidth = seconds > 0 ? 3 * elements * bytes / seconds : 1e9;
  seconds = edge_s(from->measured, TRI_WORK_GELU, false, &elements);
  c->vector_flops = seconds > 0 ? 16 * elements / seconds : 1e9;
}

/* Returns the share of the peak that the GEMMs of attention reach on average, without the time of the softmax. */
static double attention_share(const tri_calibration *from, const tri_cluster *c) {
  const tri_measured *m = from->measured;
  double flops = 0, seconds = 0;
  for (int64_t i = 0; i < m->num_attention; i++) {
    const tri_measured_attention *a = &m->attention[i];
    double pairs = (double)a->sequence * ((double)a->sequence + 1) / 2 * (double)a->heads;
    flops += tri_pass_choose(a->pass, 2, 5, 0) * 2 * pairs * (double)a->head_dim;
    seconds += a->seconds - 8 * pairs / c->vector_flops;
  }
  double share = seconds > 0 ? flops / seconds / from->peak : 1;
  return share > 1 ? 1 : share > 0 ? share : 0.5;
}

void tri_calibrate(const tri_calibration *from, tri_cluster *out, tri_residuals *residuals) {
  tri_cluster c = {.cost = {.currency = "USD", .pue = 1}, /* not measured: the defaults of cluster files */
                   .device = from->accelerator ? TRI_CLUSTER_ACCELERATOR : TRI_CLUSTER_CPU,
                   .node_devices = from->devices,
                   .max_devices = from->devices,
                   .memory_bytes = from->memory_bytes,
                   .processors = from->processors,
                   .carries = !from->accelerator,
                   .beside = 1,
                   .fitted = "matmul matmul_half attention memory link launch",
                   .threads = from->threads,
                   .cores = from->cores,
                   .nodes = from->nodes,
                   .efficiency = {.matmul = 0.9, .matmul_half = 8, .memory = 1, .link = 1, .launch = 0}};
  fitting f = {from, &c};
  set_rates(from, &c);
  snprintf(c.name, sizeof c.name, "%s", from->name);
  snprintf(c.device_name, sizeof c.device_name, from->accelerator ? "GPU" : "device");
  if (from->precision == TRI_BF16) c.peak_bf16 = from->peak;
  if (from->precision == TRI_FP32) c.peak_fp32 = from->peak;
  if (from->precision == TRI_FP64) c.peak_fp64 = from->peak;
  c.efficiency.attention = attention_share(from, &c);
  search(&f, products_off, (double *[]){&c.efficiency.matmul, &c.efficiency.matmul_half}, (double[]){1, 1e4});
  if (from->devices > 1) {
    c.num_links = 1;
    c.links[0] =
        (tri_link){.name = "node", .per = 1, .ports = 1, .stripe = 1, .share = 1, .bandwidth = 4e9, .latency = 2e-6};
    search(&f, links_off, (double *[]){&c.links[0].bandwidth, &c.links[0].latency}, (double[]){1e15, 1});
  }
  compute_residuals(&f, residuals); /* before `measured` is set, since predictions would use its tables */
  c.measured = *from->measured;
  *out = c;
}
