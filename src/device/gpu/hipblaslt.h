/* Numbers and structs of hipBLASLt that this program uses: for hipblaslt.c and its tests. They are from
 * library/include/hipblaslt.h of github.com/ROCm/hipBLASLt at commits 007c1b57d117 (2024) and 4a8a78758926 (2025),
 * which agree. */
#ifndef TRI_DEVICE_GPU_HIPBLASLT_H
#define TRI_DEVICE_GPU_HIPBLASLT_H

#include <stddef.h>
#include <stdint.h>

enum {
  TRI_HIPBLAS_INVALID_VALUE = 3,
  TRI_HIPBLAS_NOT_SUPPORTED = 7,
  TRI_HIPBLAS_ARCH_MISMATCH = 8,
  TRI_HIPBLAS_OP_T = 112,
  TRI_HIPBLAS_COMPUTE_32F = 2,

  TRI_HIPBLASLT_MATMUL_DESC_TRANSA = 0,
  TRI_HIPBLASLT_MATMUL_DESC_TRANSB = 1,
  TRI_HIPBLASLT_MATMUL_DESC_EPILOGUE = 2,
  TRI_HIPBLASLT_MATMUL_DESC_BIAS_POINTER = 3,
  TRI_HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 4,
  TRI_HIPBLASLT_EPILOGUE_BIAS = 4,

  TRI_HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
};

typedef struct tri_hipblaslt_algorithm {
  uint8_t data[16];
  size_t most_workspace_bytes;
} tri_hipblaslt_algorithm;

typedef struct tri_hipblaslt_result {
  tri_hipblaslt_algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
} tri_hipblaslt_result;

#endif
