/* AMD's hipBLASLt from 0.7 on, of ROCm 6.1 and later; earlier versions number compute types differently. It has no
 * setting for the alignment of addresses, and does not guarantee fp64: GEMMs with alignment below 16 bytes and fp64
 * GEMMs use this program's own kernel. TF32 is not requested: gfx90a does not have it. */
#include "device/gpu/hipblaslt.h"

#include "device/gpu/lt.h"

static const char *const names[] = {"libhipblaslt.so.1", "libhipblaslt.so.0", NULL};
static const char *const folders[] = {"/opt/rocm/lib",
                                      "/opt/rocm-*"
                                      "/lib",
                                      NULL};
static const char *const wheels[] = {"torch/lib",
                                     "_rocm_sdk_libraries*"
                                     "/lib",
                                     NULL};

static const tri_gpu_symbol symbols[] = {
    TRI_GPU_LT_SYMBOLS("hipblasLt"),
    TRI_GPU_SYMBOL(tri_gpu_lt_calls, version, "hipblasLtGetVersion"),
    {0},
};

static const tri_gpu_library file = {
    .what = "AMD's matrix products (hipBLASLt)",
    .how = "It comes with ROCm 6.1 or later (the package `hipblaslt`), or with PyTorch for ROCm",
    .names = names,
    .folders = folders,
    .wheels = wheels,
    .symbols = symbols,
};

static tri_status hipblaslt_version(const tri_gpu_lt_calls *calls, const void *handle, int out[3]) {
  int version = 0;
  if (calls->version(handle, &version) != 0) {
    return tri_fail(TRI_DEVICE_FAILED, "hipBLASLt does not say which version it is");
  }
  out[0] = version / 100000;
  out[1] = version / 100 % 1000;
  out[2] = version % 100;
  return TRI_OK;
}

static int hipblaslt_compute_type(const tri_gpu_gemm *product) {
  (void)product;
  return TRI_HIPBLAS_COMPUTE_32F;
}

static const tri_gpu_lt lt = {
    .is = &tri_gpu_hipblaslt,
    .file = &file,
    .least = {0, 7},
    .most_major = 1,
    .asks_handle = true,
    .read_version = hipblaslt_version,
    .compute_type = hipblaslt_compute_type,
    .transpose_first = TRI_HIPBLASLT_MATMUL_DESC_TRANSA,
    .transpose_second = TRI_HIPBLASLT_MATMUL_DESC_TRANSB,
    .epilogue = TRI_HIPBLASLT_MATMUL_DESC_EPILOGUE,
    .bias_pointer = TRI_HIPBLASLT_MATMUL_DESC_BIAS_POINTER,
    .bias_type = TRI_HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
    .operation_transpose = TRI_HIPBLAS_OP_T,
    .epilogue_bias = TRI_HIPBLASLT_EPILOGUE_BIAS,
    .workspace = TRI_HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    .reductions = -1,
    .addresses = {-1, -1, -1, -1},
    .algorithm_bytes = sizeof(tri_hipblaslt_algorithm),
    .result_bytes = sizeof(tri_hipblaslt_result),
    .workspace_at = offsetof(tri_hipblaslt_result, workspace_bytes),
    .state_at = offsetof(tri_hipblaslt_result, state),
    .refusals = {TRI_HIPBLAS_INVALID_VALUE, TRI_HIPBLAS_ARCH_MISMATCH, TRI_HIPBLAS_NOT_SUPPORTED},
};

static tri_status hipblaslt_look(char version[TRI_GPU_GEMM_VERSION_BYTES], const char **path) {
  return tri_gpu_lt_look(&lt, version, path);
}

static tri_status hipblaslt_open(tri_gpu *gpu, tri_gpu_gemm_state **out) { return tri_gpu_lt_open(&lt, gpu, out); }

static bool takes(const tri_gpu_gemm *product) {
  switch (product->in) {
    case TRI_FP32:
    case TRI_BF16: return product->alignment == 16;
    case TRI_FP64:
    case TRI_INT32: break;
  }
  return false;
}

static tri_status hipblaslt_algorithms(tri_gpu_gemm_state *state, const tri_gpu_gemm *product, size_t workspace_bytes,
                                       tri_gpu_algorithm out[TRI_GPU_MOST_ALGORITHMS], int *count) {
  *count = 0;
  if (!takes(product)) return TRI_OK;
  return tri_gpu_lt_algorithms(state, product, workspace_bytes, out, count);
}

/* The bias has the type of c, as in PyTorch: all versions are known to support that. */
const tri_gpu_gemm_library tri_gpu_hipblaslt = {
    .name = "hipBLASLt",
    .open = hipblaslt_open,
    .look = hipblaslt_look,
    .close = tri_gpu_lt_close,
    .version = tri_gpu_lt_version,
    .adds_bias = tri_gpu_lt_adds_bias,
    .narrows_bias = true,
    .algorithms = hipblaslt_algorithms,
    .multiply = tri_gpu_lt_multiply,
};
