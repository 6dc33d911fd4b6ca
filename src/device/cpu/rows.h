/* Copies a matrix row by row to another leading dimension and type: for the kernel copy_rows, and for staging the
 * operands of GEMMs. Compiled once for each vector unit (kernels/rows.c). */
#ifndef TRI_DEVICE_CPU_ROWS_H
#define TRI_DEVICE_CPU_ROWS_H

#include "device/cpu/variants.h"
#include "device/dtype.h"

/* A copy. Types are fp32 and bf16 in any combination, or equal; the matrices must not overlap. With from_ld 0 one row,
 * such as a bias, is repeated. Row from_rows[i] is copied to row to_rows[i]; an array that is NULL stands for row i. */
typedef struct tri_cpu_rows {
  int64_t rows, columns;
  const int32_t *from_rows, *to_rows;
  const void *from;
  tri_dtype from_type, to_type;
  int64_t from_ld, to_ld;
  void *to;
} tri_cpu_rows;

typedef void (*tri_rows_copy)(int threads, const tri_cpu_rows *job);

#define TRI_CPU_ROWS_COPY(isa) void tri_cpu_rows_copy_##isa(int threads, const tri_cpu_rows *job);
TRI_CPU_VARIANTS(TRI_CPU_ROWS_COPY)

#endif
