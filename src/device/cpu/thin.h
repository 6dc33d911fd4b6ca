/* GEMMs with a matrix of few columns, such as the factors of LoRA: oneDNN's copies for such a GEMM take longer than the
 * GEMM itself. Compiled once for each vector unit (kernels/thin.c). Sums are in fp32, and their order depends neither
 * on the number of threads nor on the size of the wide dimension. */
#ifndef TRI_DEVICE_CPU_THIN_H
#define TRI_DEVICE_CPU_THIN_H

#include "base/count.h"
#include "device/cpu/variants.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_MOST_THIN = 32 }; /* largest thin dimension; above it a matrix unit is faster */

/* A GEMM: c[m,n] += a[m,k] b^T, with a and c in bf16, and b[n,k] in fp32, whose elements are rounded to bf16. k <=
 * TRI_MOST_THIN. c is rounded once. */
typedef struct tri_cpu_thin_depth {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  const void *a;
  const float *b;
  void *c;
  float *panels; /* [tri_thin_depth_floats], scratch memory */
} tri_cpu_thin_depth;

/* A GEMM: c[m,n] = a^T b, or += (accumulate), with a[k,m] and b[k,n] in bf16, and c in fp32. n <= TRI_MOST_THIN. */
typedef struct tri_cpu_thin_gradient {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  bool accumulate;
  const void *a, *b;
  float *c;
  float *wide; /* [tri_thin_gradient_floats], scratch memory */
} tri_cpu_thin_gradient;

enum { TRI_THIN_COLUMNS = 32, TRI_THIN_RANKS = 8 }; /* multiples that the wide and the thin dimension are padded to */

static inline int64_t tri_thin_depth_floats(int64_t n, int64_t k) { return tri_round_up(n, TRI_THIN_COLUMNS) * k; }

static inline int64_t tri_thin_gradient_floats(int64_t m, int64_t n, int64_t k) {
  return tri_round_up(n, TRI_THIN_RANKS) * (k + tri_round_up(m, TRI_THIN_COLUMNS));
}

typedef void (*tri_thin_depth)(int threads, const tri_cpu_thin_depth *job);
typedef void (*tri_thin_gradient)(int threads, const tri_cpu_thin_gradient *job);

#define TRI_CPU_THIN_DEPTH(isa) void tri_cpu_thin_depth_##isa(int threads, const tri_cpu_thin_depth *job);
TRI_CPU_VARIANTS(TRI_CPU_THIN_DEPTH)
#define TRI_CPU_THIN_GRADIENT(isa) void tri_cpu_thin_gradient_##isa(int threads, const tri_cpu_thin_gradient *job);
TRI_CPU_VARIANTS(TRI_CPU_THIN_GRADIENT)

#endif
