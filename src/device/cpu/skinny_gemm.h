/* GEMMs of generation: steps of few rows, bound by reading b, and pieces of prompts, up to some hundred rows. The bits
 * of a row's result do not depend on the other rows in the call. Compiled once for each vector unit
 * (kernels/few_rows.c, kernels/panels.c). */
#ifndef TRI_DEVICE_CPU_SKINNY_GEMM_H
#define TRI_DEVICE_CPU_SKINNY_GEMM_H

#include "device/cpu/regions.h"
#include "device/cpu/variants.h"
#include "device/dtype.h"

#include <stdbool.h>

enum {
  TRI_FEW_ROWS = 16,   /* maximum rows that read a b of [k, n] in place; more rows read copies of its panels */
  TRI_MOST_ROWS = 256, /* maximum rows of a call; more rows are several calls */
  TRI_PANEL = 64,      /* columns of a panel: whole vectors of every unit */
};

/* A GEMM: c[m,n] = a[m,k] b + `bias` [n], or + c (accumulate), or + 0. b is [k,n], or, if b_transposed, [n,k], in fp32
 * or bf16; or, if b_packed, panels of TRI_PANEL columns in bf16 (reorder.h, with a depth of 2). c is fp32 or bf16. m <=
 * TRI_MOST_ROWS. Sums are in fp32, in an order that depends only on k and on which of the three b is: the result of a
 * row depends neither on the other rows nor on the number of threads. */
typedef struct tri_cpu_few_rows {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  tri_dtype b_type, c_type;
  bool b_transposed, b_packed, accumulate;
  bool pairs; /* whether a is bf16, and multiplied with the CPU's products of pairs; only if b_packed. false: a is fp32
               */
  const void *a;
  const void *b;
  const float *bias; /* may be NULL */
  void *c;
  float *parts; /* [tri_few_rows_parts, m, n], scratch memory; used if b is [k, n] and m <= TRI_FEW_ROWS */
} tri_cpu_few_rows;

/* Returns the number of parts in which sums over k are computed if b is [k, n]; each part of b is contiguous in memory.
 * Returns 0 if b is transposed. */
static inline int64_t tri_few_rows_parts(int64_t k, bool b_transposed) { return b_transposed ? 0 : k < 256 ? 1 : 4; }

typedef void (*tri_few_rows)(tri_regions *regions, const tri_cpu_few_rows *job);

#define TRI_CPU_FEW_ROWS(isa) void tri_cpu_few_rows_##isa(tri_regions *regions, const tri_cpu_few_rows *job);
TRI_CPU_VARIANTS(TRI_CPU_FEW_ROWS)

#endif
