/* NVIDIA's cuBLASLt, versions 12 and 13. Numbers and sizes are those of cublasLt.h 13.1 and library_types.h;
 * tests/gpu/prototypes_cublaslt.c compares them with the headers. */
#include "device/gpu/cublaslt.h"

#include "device/gpu/lt.h"

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
static const char *const folders[] = {"/usr/local/cuda/lib64",
                                      "/usr/local/cuda-*"
                                      "/lib64",
                                      NULL};
static const char *const wheels[] = {"nvidia/cu13/lib", "nvidia/cublas/lib", NULL};

static const tri_gpu_symbol symbols[] = {
    TRI_GPU_LT_SYMBOLS("cublasLt"),
    TRI_GPU_SYMBOL(tri_gpu_lt_calls, property, "cublasLtGetProperty"),
    TRI_GPU_SYMBOL_IF_ANY(tri_gpu_lt_calls, status_name, "cublasLtGetStatusName"),
    {0},
};

static const tri_gpu_library file = {
    .what = "NVIDIA's matrix products (cuBLASLt)",
    .how = "It comes with the CUDA toolkit, or `pip install nvidia-cublas` (`nvidia-cublas-cu12` for CUDA 12)",
    .names = names,
    .folders = folders,
    .wheels = wheels,
    .symbols = symbols,
};

static tri_status cublaslt_version(const tri_gpu_lt_calls *calls, const void *handle, int out[3]) {
  (void)handle;
  for (int i = 0; i < 3; i++) {
    if (calls->property(i, &out[i]) != 0)
      return tri_fail(TRI_DEVICE_FAILED, "cuBLASLt does not say which version it is");
  }
  return TRI_OK;
}

/* bf16 GEMMs accumulate in fp32, as fp32 GEMMs do; fp32 operands are rounded to TF32 only if the run allows it. */
static int cublaslt_compute_type(const tri_gpu_gemm *product) {
  switch (product->in) {
    case TRI_FP64: return TRI_CUBLAS_COMPUTE_64F;
    case TRI_FP32: return product->tf32 ? TRI_CUBLAS_COMPUTE_32F_FAST_TF32 : TRI_CUBLAS_COMPUTE_32F;
    case TRI_BF16:
    case TRI_INT32: break;
  }
  return TRI_CUBLAS_COMPUTE_32F;
}

/* Partial sums are kept in the type in which GEMMs accumulate: never in c or its type, because then a bf16 result would
 * be rounded more than once. */
static const tri_gpu_lt lt = {
    .is = &tri_gpu_cublaslt,
    .file = &file,
    .least = {12, 0},
    .most_major = 13,
    .read_version = cublaslt_version,
    .compute_type = cublaslt_compute_type,
    .transpose_first = TRI_CUBLASLT_MATMUL_DESC_TRANSA,
    .transpose_second = TRI_CUBLASLT_MATMUL_DESC_TRANSB,
    .epilogue = TRI_CUBLASLT_MATMUL_DESC_EPILOGUE,
    .bias_pointer = TRI_CUBLASLT_MATMUL_DESC_BIAS_POINTER,
    .bias_type = TRI_CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
    .operation_transpose = TRI_CUBLAS_OP_T,
    .epilogue_bias = TRI_CUBLASLT_EPILOGUE_BIAS,
    .workspace = TRI_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    .reductions = TRI_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
    .addresses = {TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                  TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES},
    .allowed_reductions = TRI_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
    .algorithm_bytes = sizeof(tri_cublaslt_algorithm),
    .result_bytes = sizeof(tri_cublaslt_result),
    .workspace_at = offsetof(tri_cublaslt_result, workspace_bytes),
    .state_at = offsetof(tri_cublaslt_result, state),
    .refusals = {TRI_CUBLAS_INVALID_VALUE, TRI_CUBLAS_ARCH_MISMATCH, TRI_CUBLAS_NOT_SUPPORTED},
};

static tri_status cublaslt_look(char version[TRI_GPU_GEMM_VERSION_BYTES], const char **path) {
  return tri_gpu_lt_look(&lt, version, path);
}

static tri_status cublaslt_open(tri_gpu *gpu, tri_gpu_gemm_state **out) { return tri_gpu_lt_open(&lt, gpu, out); }

const tri_gpu_gemm_library tri_gpu_cublaslt = {
    .name = "cuBLASLt",
    .open = cublaslt_open,
    .look = cublaslt_look,
    .close = tri_gpu_lt_close,
    .version = tri_gpu_lt_version,
    .adds_bias = tri_gpu_lt_adds_bias,
    .narrows_bias = true,
    .algorithms = tri_gpu_lt_algorithms,
    .multiply = tri_gpu_lt_multiply,
};
