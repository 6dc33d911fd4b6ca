/* The time of a matrix product on a cluster's device, from the tiles that it is cut into. */
#ifndef TRI_PLAN_GEMM_TIME_H
#define TRI_PLAN_GEMM_TIME_H

#include "plan/cluster.h"

/* `batch` products [rows, inner] x [inner, columns] that are computed together. */
typedef struct tri_gemm {
  double rows, inner, columns, batch;
  bool gradient; /* the gradient of a weight: the first operand is transposed, so both operands are stored by rows of
                    the inner dimension */
  bool fp8;      /* the operands are in FP8 */
} tri_gemm;

/* Returns the seconds of arithmetic, without memory traffic. A product is cut into tiles, and each processor
 * computes one tile at a time. A last wave of few tiles takes as long as a full one, tiles may extend beyond the
 * edges, and each tile fills its pipeline of loads before it multiplies. If there are few tiles, several processors
 * share a tile: each computes a part of the inner dimension, and the parts are added through memory. The library is
 * assumed to choose the best tile shape ("Matrix Multiplication Background User's Guide", NVIDIA 2023, on tiles,
 * waves and alignment).
 *
 * For a device without tiles (CPUs) the share of the peak is multiplied by d / (d + matmul_half) for each dimension
 * d. */
double tri_gemm_s(const tri_cluster *cluster, tri_dtype type, const tri_gemm *product);

#endif
