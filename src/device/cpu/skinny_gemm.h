/* Skinny GEMMs: products of few rows, as in generating text. They are bound by reading b, which is read once, in place.
 * Compiled once for each vector unit (kernels/few_rows.c). */
#ifndef TRI_DEVICE_CPU_SKINNY_GEMM_H
#define TRI_DEVICE_CPU_SKINNY_GEMM_H

#include "device/dtype.h"

#include <stdbool.h>

/* Most rows of a call; more are several calls. */
enum { TRI_FEW_ROWS = 64 };

/* c[m,n] = a[m,k] b + `bias` [n], or + c (accumulate), or + 0. b is [k,n], or, if b_transposed, [n,k]; b and c are fp32
 * or bf16. m <= TRI_FEW_ROWS. Sums are in fp32, in an order that depends only on k: the result of a row depends neither
 * on the other rows nor on the number of threads. */
typedef struct tri_cpu_few_rows {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  tri_dtype b_type, c_type;
  bool b_transposed, accumulate;
  const float *a;
  const void *b;
  const float *bias; /* or NULL */
  void *c;
  float *parts; /* [tri_few_rows_parts, m, n]: scratch; used if b is [k, n] */
} tri_cpu_few_rows;

/* The number of parts in which sums over k are made if b is [k, n]; each part of b is contiguous in memory. */
static inline int64_t tri_few_rows_parts(int64_t k, bool b_transposed) { return b_transposed ? 0 : k < 256 ? 1 : 4; }

typedef void (*tri_few_rows)(int threads, const tri_cpu_few_rows *job);

void tri_cpu_few_rows_baseline(int threads, const tri_cpu_few_rows *job);
#if defined(__x86_64__)
void tri_cpu_few_rows_avx2(int threads, const tri_cpu_few_rows *job);
void tri_cpu_few_rows_avx512(int threads, const tri_cpu_few_rows *job);
void tri_cpu_few_rows_avx512bf16(int threads, const tri_cpu_few_rows *job);
#endif

#endif
