/* Numbers and structs of cuBLASLt that this program uses: for cublaslt.c and its tests. */
#ifndef TRI_DEVICE_GPU_CUBLASLT_H
#define TRI_DEVICE_GPU_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

enum {
  TRI_CUBLAS_INVALID_VALUE = 7,
  TRI_CUBLAS_ARCH_MISMATCH = 8,
  TRI_CUBLAS_NOT_SUPPORTED = 15,
  TRI_CUBLAS_OP_T = 1,
  TRI_CUBLAS_COMPUTE_32F = 68,
  TRI_CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
  TRI_CUBLAS_COMPUTE_64F = 70,

  TRI_CUBLASLT_MATMUL_DESC_TRANSA = 3,
  TRI_CUBLASLT_MATMUL_DESC_TRANSB = 4,
  TRI_CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  TRI_CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  TRI_CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,
  TRI_CUBLASLT_EPILOGUE_BIAS = 4,

  TRI_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  TRI_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
  TRI_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
};

typedef struct tri_cublaslt_algorithm {
  uint64_t data[8];
} tri_cublaslt_algorithm;

typedef struct tri_cublaslt_result {
  tri_cublaslt_algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
} tri_cublaslt_result;

#endif
