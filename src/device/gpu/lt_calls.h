/* Prototypes, numbers and structs of cuBLASLt and hipBLASLt that this program uses. The calls and their arguments are
 * the same in both; numbers of enums and the structs of algorithms differ. NVIDIA's are those of cublasLt.h 13.1 and
 * library_types.h (tests/gpu/prototypes_cublaslt.c compares them with the headers if those are installed). AMD's are
 * from library/include/hipblaslt.h of github.com/ROCm/hipBLASLt at commits 007c1b57d117 (2024) and 4a8a78758926 (2025),
 * which agree. */
#ifndef TRI_DEVICE_GPU_LT_CALLS_H
#define TRI_DEVICE_GPU_LT_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* Types of elements, which have the same numbers in both libraries. */
enum { TRI_LT_R_32F = 0, TRI_LT_R_64F = 1, TRI_LT_R_16BF = 14 };

/* Statuses, types and attributes are enums of the libraries, as wide as an int; descriptors and handles are pointers;
 * `attribute` is one of the numbers below. */
typedef struct tri_gpu_lt_calls {
  int (*create)(void **handle);
  int (*destroy)(void *handle);
  int (*description_create)(void **out, int compute_type, int scale_type);
  int (*description_destroy)(void *description);
  int (*description_set)(void *description, int attribute, const void *value, size_t bytes);
  int (*layout_create)(void **out, int type, uint64_t rows, uint64_t columns, int64_t ld);
  int (*layout_destroy)(void *layout);
  int (*preference_create)(void **out);
  int (*preference_destroy)(void *preference);
  int (*preference_set)(void *preference, int attribute, const void *value, size_t bytes);
  /* Ranks the algorithms for d = a b + c, where a, b, c and d are layouts. results[most]: tri_cublaslt_result or
   * tri_hipblaslt_result. */
  int (*heuristic)(void *handle, void *description, void *a, void *b, void *c, void *d, void *preference, int most,
                   void *results, int *count);
  int (*matmul)(void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b,
                void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                const void *algorithm, void *workspace, size_t workspace_bytes, void *stream);
  const char *(*status_name)(int status);           /* may be NULL */
  int (*property)(int which, int *value);           /* cuBLASLt: 0 major, 1 minor, 2 patch */
  int (*version)(const void *handle, int *version); /* hipBLASLt: major * 100000 + minor * 100 + patch */
} tri_gpu_lt_calls;

enum { TRI_GPU_LT_ADDRESSES = 4 }; /* number of addresses with an alignment: a, b, c and d */

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
