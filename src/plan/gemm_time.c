#include "plan/gemm_time.h"

#include <math.h>

/* Largest number of processors that share a tile. With more of them, adding their parts takes longer than they save. */
enum { MOST_PARTS = 8 };
/* Smallest part of the inner dimension, in elements. */
static const double LEAST_PART = 256;
/* Rate of GEMMs whose rows are not aligned to 16 bytes, as a share of the rate with aligned rows, for elements of 1
 * or 2 bytes. Their loads are narrower. The figure is not measured. */
static const double UNALIGNED = 0.5;

static double slope(double dimension, double half) { return dimension <= 0 ? 1 : dimension / (dimension + half); }

static double flops_of(const tri_gemm *p) { return 2.0 * p->rows * p->inner * p->columns * p->batch; }

static double untiled(const tri_cluster *cluster, double peak, const tri_gemm *p) {
  double half = cluster->efficiency.matmul_half;
  double share = slope(p->rows, half) * slope(p->inner, half) * slope(p->columns, half);
  return flops_of(p) / (peak * cluster->efficiency.matmul * share);
}

static bool is_aligned(const tri_gemm *p, double dimension) { return fmod(dimension, p->fp8 ? 16 : 8) == 0; }

/* Returns the seconds with one tile shape and `parts` processors for each tile. */
static double tiled(const tri_cluster *cluster, double rate, const tri_tile *tile, double parts, const tri_gemm *p) {
  double tiles = ceil(p->rows / (double)tile->rows) * ceil(p->columns / (double)tile->columns) * p->batch;
  double waves = ceil(tiles * parts / (double)cluster->processors);
  double depth = ceil(p->inner / parts) + (double)cluster->tile_fill;
  double seconds = waves * 2.0 * (double)tile->rows * (double)tile->columns * depth / (rate * tile->share);
  if (parts == 1) return seconds;
  /* Bytes of partial sums in fp32, each written and read once. */
  double sums = p->rows * p->columns * p->batch * 4.0 * 2.0 * parts;
  return seconds + sums / (cluster->memory_bandwidth * cluster->efficiency.memory);
}

double tri_gemm_s(const tri_cluster *cluster, tri_dtype type, const tri_gemm *p) {
  double peak = p->fp8 ? cluster->peak_fp8 : tri_cluster_peak(cluster, type), best = INFINITY;
  if (flops_of(p) <= 0) return 0;
  if (cluster->num_tiles == 0) return untiled(cluster, peak, p);
  double rate = peak * cluster->efficiency.matmul / (double)cluster->processors;
  const double first = p->gradient ? p->rows : p->inner; /* length of a row of the first operand in memory */
  if (type == TRI_BF16 && !(is_aligned(p, first) && is_aligned(p, p->columns))) rate *= UNALIGNED;
  for (int64_t t = 0; t < cluster->num_tiles; t++) {
    for (int parts = 1; parts <= MOST_PARTS; parts *= 2) {
      if (parts > 1 && p->inner / parts < LEAST_PART) break;
      double seconds = tiled(cluster, rate, &cluster->tiles[t], parts, p);
      if (seconds < best) best = seconds;
    }
  }
  return best;
}
