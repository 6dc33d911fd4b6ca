/* Copies of matrices in the layouts that bf16 GEMMs read. Compiled once for each vector unit (kernels/reorder.c); the
 * results have the same bits for every vector unit, except for numbers below 2^-126, which AVX512-BF16 rounds to 0. */
#ifndef TRI_DEVICE_CPU_REORDER_H
#define TRI_DEVICE_CPU_REORDER_H

#include "base/count.h"
#include "device/cpu/variants.h"
#include "device/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_MOST_PANEL = 64 }; /* largest number of columns of a panel */

/* A copy of b[k, n], stored [n, k] if b_transposed, in panels of `width` columns:
 * [n / width, rounded up][k / 2, rounded up to depth / 2][width][2] in bf16, padded with zeros beyond n and k. oneDNN's
 * layouts of a bf16 GEMM's b are such panels with a depth of 32. */
typedef struct tri_cpu_panels {
  int64_t n, k, ldb;
  int64_t width;    /* a multiple of 16, at most TRI_MOST_PANEL */
  int64_t depth;    /* even: k is rounded up to a multiple of it */
  tri_dtype b_type; /* fp32 or bf16 */
  bool b_transposed;
  const void *b;
  void *panels;
} tri_cpu_panels;

static inline int64_t tri_panels_elements(const tri_cpu_panels *job) {
  return tri_round_up(job->n, job->width) * tri_round_up(job->k, job->depth);
}

/* A transpose of a matrix in bf16: to[columns, rows] from from[rows, columns]. Strides in elements. */
typedef struct tri_cpu_transpose {
  int64_t rows, columns, from_ld, to_ld;
  const void *from;
  void *to;
} tri_cpu_transpose;

typedef void (*tri_pack_panels)(int threads, const tri_cpu_panels *job);
typedef void (*tri_transpose)(int threads, const tri_cpu_transpose *job);

#define TRI_CPU_PACK_PANELS(isa) void tri_cpu_pack_panels_##isa(int threads, const tri_cpu_panels *job);
TRI_CPU_VARIANTS(TRI_CPU_PACK_PANELS)
#define TRI_CPU_TRANSPOSE(isa) void tri_cpu_transpose_##isa(int threads, const tri_cpu_transpose *job);
TRI_CPU_VARIANTS(TRI_CPU_TRANSPOSE)

#endif
