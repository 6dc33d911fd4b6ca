/* Two fits by pattern search on logarithms: a product's share of the peak and the dimension at which half of it is
 * left; a link's bandwidth and latency. What is measured directly (memory, elements, attention) needs none. */
#include "plan/calibration.h"

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

static double product_s(const tri_cluster *cluster, double peak, const tri_product_sample *p) {
  const tri_efficiency *e = &cluster->efficiency;
  double share = e->matmul;
  const double sides[] = {p->rows, p->inner, p->columns};
  for (int i = 0; i < 3; i++) share *= sides[i] / (sides[i] + e->matmul_half);
  return 2 * p->rows * p->inner * p->columns / (peak * share);
}

static double reduce_s(const fitting *f, const tri_transfer_sample *t) {
  static const tri_system system = {.levels = true, .link_share = 1};
  return tri_network_collective(f->cluster, TRI_COLLECTIVE_ALL_REDUCE, t->bytes, (tri_span){f->from->devices, 1},
                                &system);
}

static double square(double x) { return x * x; }

static double products_off(const fitting *f) {
  double sum = 0;
  for (int64_t i = 0; i < f->from->num_products; i++) {
    const tri_product_sample *p = &f->from->products[i];
    sum += square(log(product_s(f->cluster, f->from->peak, p) / p->seconds));
  }
  return sum;
}

static double links_off(const fitting *f) {
  double sum = 0;
  for (int64_t i = 0; i < f->from->num_reduces; i++) {
    sum += square(log(reduce_s(f, &f->from->reduces[i]) / f->from->reduces[i].seconds));
  }
  for (int64_t i = 0; i < f->from->num_messages; i++) {
    double predicted = tri_network_message(f->cluster, f->from->messages[i].bytes, (tri_span){2, 1});
    sum += square(log(predicted / f->from->messages[i].seconds));
  }
  return sum;
}

/* Moves two numbers by factors, up and down, in smaller and smaller steps, as long as that helps. */
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

static int calibration_compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

enum { MOST_SAMPLES = 64 };

static double median(double *values, int64_t count) {
  if (count == 0) return 0;
  qsort(values, (size_t)count, sizeof *values, calibration_compare);
  return values[count / 2];
}

static void take_residuals(const fitting *f, tri_residuals *out) {
  double errors[MOST_SAMPLES];
  const tri_calibration *from = f->from;
  for (int64_t i = 0; i < from->num_products; i++) {
    errors[i] = fabs(product_s(f->cluster, from->peak, &from->products[i]) / from->products[i].seconds - 1);
  }
  out->products = median(errors, from->num_products);
  for (int64_t i = 0; i < from->num_reduces; i++)
    errors[i] = fabs(reduce_s(f, &from->reduces[i]) / from->reduces[i].seconds - 1);
  out->reduces = median(errors, from->num_reduces);
  for (int64_t i = 0; i < from->num_messages; i++) {
    errors[i] = fabs(
        tri_network_message(f->cluster, from->messages[i].bytes, (tri_span){2, 1}) / from->messages[i].seconds - 1);
  }
  out->messages = median(errors, from->num_messages);
}

void tri_calibrate(const tri_calibration *from, tri_cluster *out, tri_residuals *residuals) {
  tri_cluster c = {.device = from->accelerator ? TRI_CLUSTER_ACCELERATOR : TRI_CLUSTER_CPU,
                   .node_devices = from->devices,
                   .max_devices = from->devices,
                   .vector_flops = from->vector_flops,
                   .memory_bytes = from->memory_bytes,
                   .memory_bandwidth = from->memory_bandwidth,
                   .carries = !from->accelerator,
                   .beside = 1,
                   .fitted = "matmul matmul_half attention memory link launch",
                   .threads = from->threads,
                   .cores = from->cores,
                   .nodes = from->nodes,
                   .efficiency = {.matmul = 0.9, .matmul_half = 8, .memory = 1, .link = 1, .launch = 0}};
  fitting f = {from, &c};
  double share = from->attention_flops / from->peak;
  snprintf(c.name, sizeof c.name, "%s", from->name);
  if (from->precision == TRI_BF16) c.peak_bf16 = from->peak;
  if (from->precision == TRI_FP32) c.peak_fp32 = from->peak;
  if (from->precision == TRI_FP64) c.peak_fp64 = from->peak;
  c.efficiency.attention = share > 1 ? 1 : share;
  search(&f, products_off, (double *[]){&c.efficiency.matmul, &c.efficiency.matmul_half}, (double[]){1, 1e4});
  if (from->devices > 1) {
    c.num_links = 1;
    c.links[0] =
        (tri_link){.name = "node", .per = 1, .ports = 1, .stripe = 1, .share = 1, .bandwidth = 4e9, .latency = 2e-6};
    search(&f, links_off, (double *[]){&c.links[0].bandwidth, &c.links[0].latency}, (double[]){1e15, 1});
  }
  take_residuals(&f, residuals);
  *out = c;
}
