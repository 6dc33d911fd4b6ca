/* Initial values of sums, and how sums are stored, for the GEMMs of generation. */
#ifndef TRI_DEVICE_CPU_KERNELS_ROW_SUMS_H
#define TRI_DEVICE_CPU_KERNELS_ROW_SUMS_H

#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"
#include "device/cpu/skinny_gemm.h"

/* Stores sums [rows, pitch] to rows [row, row + rows), columns [first, first + count) of c. */
INLINE void store_sums(const tri_cpu_few_rows *job, int64_t row, int64_t rows, int64_t first, int64_t count,
                       const float *sums, int64_t pitch) {
  for (int64_t r = 0; r < rows; r++) {
    const int64_t to = (row + r) * job->ldc + first;
    if (job->c_type == TRI_BF16) {
      FOR_VECTORS(i, some, 0, count,
                  { vf_put(TRI_BF16, job->c, to + i, some, vf_get(TRI_FP32, sums + r * pitch, i, some)); });
    } else {
      memcpy((float *)job->c + to, sums + r * pitch, (size_t)count * sizeof(float));
    }
  }
}

/* Writes the initial values of sums: c if the GEMM accumulates, else the bias, or 0. */
INLINE void begin_sums(const tri_cpu_few_rows *job, int64_t row, int64_t rows, int64_t first, int64_t count,
                       float *sums, int64_t pitch) {
  for (int64_t r = 0; r < rows; r++) {
    const int64_t from = (row + r) * job->ldc + first;
    float *to = sums + r * pitch;
    if (job->accumulate && job->c_type == TRI_BF16) {
      FOR_VECTORS(i, some, 0, count, { vf_put(TRI_FP32, to, i, some, vf_get(TRI_BF16, job->c, from + i, some)); });
    } else if (job->accumulate) {
      memcpy(to, (const float *)job->c + from, (size_t)count * sizeof(float));
    } else if (job->bias != NULL) {
      memcpy(to, job->bias + first, (size_t)count * sizeof(float));
    } else {
      memset(to, 0, (size_t)count * sizeof(float));
    }
  }
}

/* Computes GEMMs with packed panels, and GEMMs of more than TRI_FEW_ROWS rows with a b of [k, n] (panels.c). */
void TRI_KERNEL(multiply_panels)(tri_regions *regions, const tri_cpu_few_rows *job);

#endif
