/* How long a matrix product takes on a described device, from the tiles that it is cut into. */
#ifndef TRI_PLAN_GEMM_TIME_H
#define TRI_PLAN_GEMM_TIME_H

#include "plan/cluster.h"

/* `batch` products [rows, inner] x [inner, columns] at once. */
typedef struct tri_gemm {
  double rows, inner, columns, batch;
  bool gradient; /* of a weight: both operands lie by rows of the inner dimension */
} tri_gemm;

/* Seconds of its arithmetic alone, memory traffic not counted. A product is cut into tiles, and processors take as many
 * tiles at a time as there are processors: a last wave of few tiles takes as long as a full one, tiles stand over the
 * edges, and each tile fills the pipeline of its loads before it multiplies. Where tiles are few, several processors
 * share one along the inner dimension, and their parts are added through memory. The library is taken to choose the
 * best of its shapes ("Matrix Multiplication Background User's Guide", NVIDIA 2023, on tiles, waves and alignment).
 *
 * A device without tiles (CPUs): share of the peak falls with each dimension d as d / (d + matmul_half). */
double tri_gemm_s(const tri_cluster *cluster, tri_dtype type, const tri_gemm *product);

#endif
