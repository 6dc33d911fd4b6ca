#include "plan/range.h"

#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ENDLESS 1e30
const tri_range tri_ranges[] = {
    {"peak_bf16", 0, ENDLESS, 50e12, 20e15, "matrix units from V100 (125 TFLOP/s) to what is announced"},
    {"peak_fp32", 0, ENDLESS, 10e12, 2e15, "vector units of V100 (15.7) to TF32 matrix units"},
    {"peak_fp64", 0, ENDLESS, 0.3e12, 0.5e15, "chips for inference have a 64th of fp32, MI300A 122 TFLOP/s"},
    {"peak_fp8", 0, ENDLESS, 200e12, 40e15, "RTX 4090 (330) to what is announced"},
    {"host_bandwidth", 0, ENDLESS, 10e9, 1e12, "PCIe 3 (16 GB/s) to NVLink-C2C (450) and what follows"},
    {"vector_flops", 0, ENDLESS, 5e12, 500e12, "fp32 and fp64 without matrix units"},
    {"memory_bytes", 1, ENDLESS, 16e9, 512e9, "V100 to stacks of twelve"},
    {"memory_bandwidth", 1, ENDLESS, 0.3e12, 20e12, "GDDR6 to eight stacks of HBM4"},
    {"processors", 0, 1 << 20, 60, 1024,
     "streaming multiprocessors or compute units: V100 80, MI250X's half 110, MI300X 304"},
    {"tile_fill", 0, 4096, 0, 512, "a pipeline of three to five steps of 32 or 64 elements, and a tile's last writes"},
    {"tiles.rows", 1, 4096, 16, 512, "cuBLAS and rocBLAS have 16 to 256; pairs of processors 512"},
    {"tiles.columns", 1, 4096, 16, 512, "as rows"},
    {"tiles.share", 0, 1, 0.2, 1,
     "loads for each product grow with 1/rows + 1/columns: 64 x 64 has three times those of 256 x 128"},
    {"links.bandwidth", 1, ENDLESS, 1e9, 2e12, "a port of 10 Gb/s to NVLink 5's 900 GB/s each way and what follows"},
    {"links.share", 1e-6, 1, 0.2, 1, "tapers of fat trees and dragonflies: 1:1 to 1:5"},
    {"links.latency", 0, 100, 0.3e-6, 50e-6,
     "a load over NVLink to Ethernet with a kernel in its way; a satellite takes 0.3 s"},
    {"protocols.share", 1e-6, 1, 0.2, 1, "NCCL's LL sends a flag with each word, or a quarter; LL128 one in 16"},
    {"protocols.latency", 1e-6, 1, 0.05, 1, "of Simple's: LL 0.6 of 3.4 us in a node, LL128 4 of 14 across"},
    {"beside", 1e-6, 1, 0.5, 1,
     "channels occupy at most 32 of 108 processors, and as much of the memory's bandwidth as the links have"},
    {"matmul", 1e-3, 1, 0.4, 1,
     "best products seen: MI250X 0.65, H100 0.80, A100 0.87 of the peak, clocks included; with `tiles`, waves and "
     "edges are counted separately, and a steady tile on a cool chip nearly reaches the peak"},
    {"matmul_half", 0, 1e6, 0, 1000, "elements at which half of the rate is left: a few sides of a tile"},
    {"attention", 1e-3, 1, 0.1, 0.8, "flash attention 1 on A100 0.3 to 0.5, 2 up to 0.7, 3 on H100 0.75"},
    {"memory", 1e-3, 1, 0.6, 0.95, "streams reach 0.8 to 0.93 of HBM; strided kernels less"},
    {"link", 1e-3, 1, 0.4, 0.95,
     "NCCL's bus bandwidth: NVLink 0.75 to 0.85, InfiniBand 0.8 to 0.95, contended networks 0.5"},
    {"launch", 0, 1, 0.5e-6, 40e-6,
     "a launch alone is 2 to 5 us, a kernel of an eager framework 5 to 10 us of a fast host's thread, 30 with modules, "
     "autograd and slow cores"},
    {"start", 0, 100, 0, 250e-6,
     "a collective's launch and handshake are 10 to 30 us; ranks that an eager host feeds are apart by tens to some "
     "hundred us where they meet"},
};
const size_t tri_num_ranges = sizeof tri_ranges / sizeof *tri_ranges;

const tri_range *tri_range_of(const char *name) {
  for (size_t i = 0; i < tri_num_ranges; i++) {
    if (strcmp(tri_ranges[i].name, name) == 0) return &tri_ranges[i];
  }
  return NULL;
}

typedef struct figure {
  const char *name;
  double value;
} figure;

static tri_status visit_figures(const figure *figures, size_t count, tri_range_visitor visit, void *context) {
  for (size_t i = 0; i < count; i++) TRI_TRY(visit(context, tri_range_of(figures[i].name), figures[i].value));
  return TRI_OK;
}

#define COUNT_OF(FIGURES) (sizeof(FIGURES) / sizeof *(FIGURES))

static tri_status visit_device(const tri_cluster *c, tri_range_visitor visit, void *context) {
  const figure peaks[] = {{"peak_bf16", c->peak_bf16},
                          {"peak_fp32", c->peak_fp32},
                          {"peak_fp64", c->peak_fp64},
                          {"peak_fp8", c->peak_fp8},
                          {"host_bandwidth", c->host_bandwidth}};
  for (size_t i = 0; i < COUNT_OF(peaks); i++) {
    if (peaks[i].value > 0) TRI_TRY(visit_figures(&peaks[i], 1, visit, context));
  }
  const figure rest[] = {
      {"vector_flops", c->vector_flops}, {"memory_bytes", c->memory_bytes}, {"memory_bandwidth", c->memory_bandwidth}};
  TRI_TRY(visit_figures(rest, COUNT_OF(rest), visit, context));
  if (c->num_tiles == 0) return TRI_OK;
  const figure tiled[] = {{"processors", (double)c->processors}, {"tile_fill", (double)c->tile_fill}};
  TRI_TRY(visit_figures(tiled, COUNT_OF(tiled), visit, context));
  for (int64_t t = 0; t < c->num_tiles; t++) {
    const figure tile[] = {{"tiles.rows", (double)c->tiles[t].rows},
                           {"tiles.columns", (double)c->tiles[t].columns},
                           {"tiles.share", c->tiles[t].share}};
    TRI_TRY(visit_figures(tile, COUNT_OF(tile), visit, context));
  }
  return TRI_OK;
}

tri_status tri_ranges_visit(const tri_cluster *cluster, tri_range_visitor visit, void *context) {
  tri_cluster copy = *cluster;
  const double *constants = tri_cluster_constants(&copy);
  TRI_TRY(visit_device(cluster, visit, context));
  for (int64_t l = 0; l < cluster->num_links; l++) {
    const tri_link *at = &cluster->links[l];
    const figure link[] = {
        {"links.bandwidth", at->bandwidth}, {"links.share", at->share}, {"links.latency", at->latency}};
    TRI_TRY(visit_figures(link, COUNT_OF(link), visit, context));
  }
  for (int64_t p = 0; p < cluster->num_protocols; p++) {
    const figure protocol[] = {{"protocols.share", cluster->protocols[p].share},
                               {"protocols.latency", cluster->protocols[p].latency}};
    TRI_TRY(visit_figures(protocol, COUNT_OF(protocol), visit, context));
  }
  const figure beside = {"beside", cluster->beside};
  TRI_TRY(visit_figures(&beside, 1, visit, context));
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
    const tri_range *range = tri_range_of(tri_cluster_constant_name(i));
    if (range != NULL) TRI_TRY(visit(context, range, constants[i]));
  }
  return TRI_OK;
}

static tri_status check_possible(void *context, const tri_range *range, double value) {
  (void)context;
  if (value >= range->least && value <= range->most) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`%s` is %g, which no machine has; the value must be between %g and %g, and is usually %g to %g (%s)",
                  range->name, value, range->least, range->most, range->low, range->high, range->why);
}

tri_status tri_ranges_check(const tri_cluster *cluster) { return tri_ranges_visit(cluster, check_possible, NULL); }

/* Writes "; did you mean 312e12?": the same digits with another power of 1000, which makes the value plausible.
 * Writes "" if no power does. */
static void write_guess(const tri_range *range, double value, char guess[64]) {
  guess[0] = '\0';
  for (int power = -15; power <= 15; power += 3) {
    const double meant = value * pow(10, power);
    if (power == 0 || meant < range->low || meant > range->high) continue;
    const bool plain = value >= 1e-3 && value < 1e6;
    if (plain) snprintf(guess, 64, "; did you mean %ge%d?", value, power);
    if (!plain) snprintf(guess, 64, "; did you mean %g?", meant);
    return;
  }
}

/* A number outside of the plausible range by this factor is a mistake, unless the cluster is hypothetical. */
enum { FAR = 1000 };

/* Logs a warning if a number is outside of the plausible range; fails if it is outside by a factor of FAR.
 * `context`: name of the cluster. */
static tri_status check_value(void *context, const tri_range *range, double value) {
  const char *name = context;
  const bool below = value < range->low;
  char guess[64];
  if (value == 0 || (!below && value <= range->high)) return TRI_OK;
  const double times = below ? range->low / value : value / range->high;
  write_guess(range, value, guess);
  if (times < FAR) {
    tri_warn("the cluster %s: `%s` is %g, %.3g times %s than that of an accelerator (%g to %g: %s)%s", name,
             range->name, value, times, below ? "smaller" : "larger", range->low, range->high, range->why, guess);
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_CONFIG,
                  "`%s` is %g, %.3g times %s than that of an accelerator (%g to %g: %s)%s Set "
                  "`hypothetical: true` if the machine is meant to be so",
                  range->name, value, times, below ? "smaller" : "larger", range->low, range->high, range->why,
                  guess[0] == '\0' ? "." : guess);
}

tri_status tri_ranges_remark(const tri_cluster *cluster) {
  char name[sizeof cluster->name];
  if (cluster->hypothetical) return TRI_OK;
  switch (cluster->device) {
    case TRI_CLUSTER_ACCELERATOR: break;
    case TRI_CLUSTER_CPU: return TRI_OK;
  }
  snprintf(name, sizeof name, "%s", cluster->name);
  return tri_ranges_visit(cluster, check_value, name);
}

bool tri_range_allows(const tri_cluster *cluster, const char *constant, double value) {
  const tri_range *range = tri_range_of(constant);
  if (range == NULL) return value > 0;
  switch (cluster->device) {
    case TRI_CLUSTER_ACCELERATOR: return value >= range->low && value <= range->high;
    case TRI_CLUSTER_CPU: return value >= range->least && value <= range->most;
  }
  return false;
}
