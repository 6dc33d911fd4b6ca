/* The time of a matrix product on a device of a cluster, from the tiles into which the product is divided. */
#ifndef TRI_PLAN_GEMM_TIME_H
#define TRI_PLAN_GEMM_TIME_H

#include "plan/cluster.h"

/* `batch` products [rows, inner] x [inner, columns] that are computed together. */
typedef struct tri_gemm {
  double rows, inner, columns, batch;
  bool gradient; /* whether the product is the gradient of a weight: the first operand is transposed, so it is stored as
                    [inner, rows] */
  bool fp8;      /* whether the operands are in FP8 */
} tri_gemm;

/* Returns the seconds of arithmetic, without memory traffic. A product is divided into tiles, and each processor
 * computes one tile at a time. The last wave may have few tiles, but takes as long as a full one. Tiles may extend
 * beyond the edges of the product, and each tile fills its pipeline of loads before it multiplies. If there are few
 * tiles, several processors share a tile: each computes a part of the inner dimension, and the parts are added through
 * memory. The library is assumed to choose the best tile shape ("Matrix Multiplication Background User's Guide", NVIDIA
 * 2023, on tiles, waves and alignment).
 *
 * For a device without tiles (CPUs) the share of the peak is multiplied by d / (d + matmul_half) for each
 * dimension d. */
double tri_gemm_s(const tri_cluster *cluster, tri_dtype type, const tri_gemm *product);

#endif
