/* Compiles if this program's idea of cuBLASLt is NVIDIA's: prototypes, numbers, sizes and offsets, from cublasLt.h
 * where there is one. Each function here has one of this program's prototypes and hands its arguments to the vendor's
 * function as they are, so that another number, order or kind of arguments does not compile. */
#include "device/gpu/lt_calls.h"

#include <assert.h>
#include <cublasLt.h>

#define SAME(ours, theirs) static_assert((int64_t)(ours) == (int64_t)(theirs), #theirs)

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

SAME(TRI_CUBLAS_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME(TRI_CUBLAS_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH);
SAME(TRI_CUBLAS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(TRI_CUBLAS_OP_T, CUBLAS_OP_T);
SAME(TRI_CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(TRI_CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(TRI_CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F);
SAME(TRI_CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(TRI_CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(TRI_CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(TRI_CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(TRI_CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME(TRI_CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(TRI_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(TRI_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(TRI_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(TRI_LT_R_32F, CUDA_R_32F);
SAME(TRI_LT_R_64F, CUDA_R_64F);
SAME(TRI_LT_R_16BF, CUDA_R_16BF);
SAME(0, MAJOR_VERSION);
SAME(1, MINOR_VERSION);
SAME(2, PATCH_LEVEL);
SAME(0, CUBLAS_STATUS_SUCCESS);

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

SAME(sizeof(int), sizeof(cublasStatus_t));
SAME(sizeof(int), sizeof(cublasComputeType_t));
SAME(sizeof(int), sizeof(cudaDataType));
SAME(sizeof(int), sizeof(cublasLtMatmulDescAttributes_t));
SAME(sizeof(int), sizeof(cublasLtMatmulPreferenceAttributes_t));
SAME(sizeof(int), sizeof(libraryPropertyType));
SAME(sizeof(void *), sizeof(cublasLtHandle_t));
SAME(sizeof(void *), sizeof(cudaStream_t));
SAME(sizeof(tri_cublaslt_algorithm), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(tri_cublaslt_result), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(tri_cublaslt_result, algorithm), offsetof(cublasLtMatmulHeuristicResult_t, algo));
SAME(offsetof(tri_cublaslt_result, workspace_bytes), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(tri_cublaslt_result, state), offsetof(cublasLtMatmulHeuristicResult_t, state));

/* ---- prototypes -------------------------------------------------------------------------------------------------- */

static int create(void **handle) { return (int)cublasLtCreate((cublasLtHandle_t *)handle); }
static int destroy(void *handle) { return (int)cublasLtDestroy(handle); }
static int description_create(void **out, int compute_type, int scale_type) {
  return (int)cublasLtMatmulDescCreate((cublasLtMatmulDesc_t *)out, (cublasComputeType_t)compute_type,
                                       (cudaDataType_t)scale_type);
}
static int description_destroy(void *description) { return (int)cublasLtMatmulDescDestroy(description); }
static int description_set(void *description, int attribute, const void *value, size_t bytes) {
  return (int)cublasLtMatmulDescSetAttribute(description, (cublasLtMatmulDescAttributes_t)attribute, value, bytes);
}
static int layout_create(void **out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  return (int)cublasLtMatrixLayoutCreate((cublasLtMatrixLayout_t *)out, (cudaDataType)type, rows, columns, ld);
}
static int layout_destroy(void *layout) { return (int)cublasLtMatrixLayoutDestroy(layout); }
static int preference_create(void **out) {
  return (int)cublasLtMatmulPreferenceCreate((cublasLtMatmulPreference_t *)out);
}
static int preference_destroy(void *preference) { return (int)cublasLtMatmulPreferenceDestroy(preference); }
static int preference_set(void *preference, int attribute, const void *value, size_t bytes) {
  return (int)cublasLtMatmulPreferenceSetAttribute(preference, (cublasLtMatmulPreferenceAttributes_t)attribute, value,
                                                   bytes);
}
static int heuristic(void *handle, void *description, void *a, void *b, void *c, void *d, void *preference, int most,
                     void *results, int *count) {
  return (int)cublasLtMatmulAlgoGetHeuristic(handle, description, a, b, c, d, preference, most,
                                             (cublasLtMatmulHeuristicResult_t *)results, count);
}
static int matmul(void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b,
                  void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                  const void *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
  return (int)cublasLtMatmul(handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                             (const cublasLtMatmulAlgo_t *)algorithm, workspace, workspace_bytes, (cudaStream_t)stream);
}
static const char *status_name(int status) { return cublasLtGetStatusName((cublasStatus_t)status); }
static int property(int which, int *value) { return (int)cublasLtGetProperty((libraryPropertyType)which, value); }

extern const tri_gpu_lt_calls tri_test_cublaslt_calls;
const tri_gpu_lt_calls tri_test_cublaslt_calls = {
    .create = create,
    .destroy = destroy,
    .description_create = description_create,
    .description_destroy = description_destroy,
    .description_set = description_set,
    .layout_create = layout_create,
    .layout_destroy = layout_destroy,
    .preference_create = preference_create,
    .preference_destroy = preference_destroy,
    .preference_set = preference_set,
    .heuristic = heuristic,
    .matmul = matmul,
    .status_name = status_name,
    .property = property,
};
