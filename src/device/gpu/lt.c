/* The vendors' libraries of GEMMs: NVIDIA's cuBLASLt, versions 12 and 13, and AMD's hipBLASLt from 0.7 on (ROCm 6.1;
 * earlier versions number compute types differently). Struct tri_gpu_lt has the differences.
 *
 * The libraries use column-major matrices. A row-major c[m,n] is a column-major c^T[n,m], so the request is c^T = b^T
 * a^T: b is the first matrix and a the second, each plain or transposed as in the program's request. The libraries add
 * one element of the bias to each row of their result, that is, to each column of c. */
#include "base/memory.h"
#include "device/gpu/gemm.h"
#include "device/gpu/library.h"
#include "device/gpu/lt_calls.h"

#include <stdio.h>
#include <string.h>

enum { MOST_RESULT_BYTES = 128 };

/* The numbers of a library's enums and structs. An attribute that the library does not have is -1. */
struct tri_gpu_lt {
  const tri_gpu_library *file;
  int least[2], most_major; /* versions for which these numbers are valid: from major least[0] and minor least[1] to
                               major most_major */
  int compute_64f, compute_32f, compute_tf32; /* compute types of GEMMs; -1: the library does not support the type */
  /* Attributes of a description, and their values. */
  int transpose_first, transpose_second, epilogue, bias_pointer, bias_type;
  int operation_transpose, epilogue_bias;
  /* Attributes of a preference. The value of `reductions` (allowed_reductions) is a mask of the allowed ways to add the
   * partial sums of a long sum; those of `addresses` are the alignments of a, b, c and d. */
  int workspace, reductions, addresses[TRI_GPU_LT_ADDRESSES];
  uint32_t allowed_reductions;
  /* Sizes and offsets in bytes of a heuristic's result, which begins with the algorithm. */
  size_t algorithm_bytes, result_bytes, workspace_at, state_at;
  int refusals[3]; /* statuses of `matmul` for an unsupported algorithm or GEMM; no work has been queued then */
};

struct tri_gpu_gemm_state {
  const tri_gpu_gemm_library *library;
  const tri_gpu_lt *lt;
  tri_gpu *gpu;
  tri_gpu_lt_calls calls;
  const char *path;
  void *handle;
  int version[3];
};

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static tri_status refused(const tri_gpu_gemm_state *state, const char *what, int status) {
  const char *name = state->calls.status_name == NULL ? NULL : state->calls.status_name(status);
  char number[32];
  snprintf(number, sizeof number, "status %d", status);
  return tri_fail(TRI_DEVICE_FAILED, "%s %d.%d.%d (%s) failed to %s: %s", state->library->name, state->version[0],
                  state->version[1], state->version[2], state->path, what, name == NULL ? number : name);
}

/* Calls a function of the library, and goes to `done` with an error in `status` if it fails. For functions that have
 * the variables `state` and `status` and the label `done`. */
#define LT_TRY(call, what)                                                                                             \
  do {                                                                                                                 \
    int lt_status_ = (call);                                                                                           \
    if (lt_status_ != 0) {                                                                                             \
      status = refused(state, what, lt_status_);                                                                       \
      goto done;                                                                                                       \
    }                                                                                                                  \
  } while (0)

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Returns whether the library reports its version only with a handle, as hipBLASLt does. */
static bool version_needs_handle(const tri_gpu_gemm_state *state) { return state->calls.version != NULL; }

static bool read_numbers(tri_gpu_gemm_state *state) {
  int *out = state->version, number = 0;
  if (!version_needs_handle(state)) {
    for (int i = 0; i < 3; i++) {
      if (state->calls.property(i, &out[i]) != 0) return false;
    }
    return true;
  }
  if (state->calls.version(state->handle, &number) != 0) return false;
  out[0] = number / 100000;
  out[1] = number / 100 % 1000;
  out[2] = number % 100;
  return true;
}

static tri_status read_version(tri_gpu_gemm_state *state) {
  const tri_gpu_lt *lt = state->lt;
  if (!read_numbers(state)) {
    return tri_fail(TRI_DEVICE_FAILED, "%s does not say which version it is", state->library->name);
  }
  const int *version = state->version;
  const bool new_enough = version[0] > lt->least[0] || (version[0] == lt->least[0] && version[1] >= lt->least[1]);
  if (new_enough && version[0] <= lt->most_major) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s is %s %d.%d.%d, and this program knows versions from %d.%d to %d. %s",
                  state->path, state->library->name, version[0], version[1], version[2], lt->least[0], lt->least[1],
                  lt->most_major, lt->file->how);
}

static tri_status start(tri_gpu_gemm_state *state) {
  const tri_gpu_runtime *runtime = state->gpu->runtime;
  TRI_TRY(tri_gpu_library_open(state->lt->file, &state->calls, &state->path));
  if (runtime->enter != NULL) TRI_TRY(runtime->enter(state->gpu->context));
  if (!version_needs_handle(state)) TRI_TRY(read_version(state));
  int status = state->calls.create(&state->handle);
  if (status != 0) {
    state->handle = NULL;
    return refused(state, "start; a driver older than the library is a common reason", status);
  }
  return version_needs_handle(state) ? read_version(state) : TRI_OK;
}

static void lt_close(tri_gpu_gemm_state *state) {
  if (state == NULL) return;
  if (state->handle != NULL) state->calls.destroy(state->handle);
  tri_free(state);
}

static tri_status lt_open(const tri_gpu_gemm_library *library, tri_gpu *gpu, tri_gpu_gemm_state **out) {
  tri_gpu_gemm_state *state = NULL;
  TRI_TRY(tri_alloc("a library of matrix products", 1, sizeof *state, &state));
  *state = (tri_gpu_gemm_state){.library = library, .lt = library->lt, .gpu = gpu};
  tri_status status = start(state);
  if (status == TRI_OK) *out = state;
  if (status != TRI_OK) lt_close(state);
  return status;
}

static void lt_version(const tri_gpu_gemm_state *state, char out[TRI_GPU_GEMM_VERSION_BYTES]) {
  snprintf(out, TRI_GPU_GEMM_VERSION_BYTES, "%d.%d.%d", state->version[0], state->version[1], state->version[2]);
}

/* Opens the library without a GPU, and reads its path and its version. For a library that reports its version only with
 * a handle, creates one; if that fails, as without a GPU, the version is "". */
static tri_status lt_look(const tri_gpu_gemm_library *library, char version[TRI_GPU_GEMM_VERSION_BYTES],
                          const char **path) {
  tri_gpu_gemm_state state = {.library = library, .lt = library->lt};
  version[0] = '\0';
  TRI_TRY(tri_gpu_library_open(library->lt->file, &state.calls, &state.path));
  *path = state.path;
  if (version_needs_handle(&state) && state.calls.create(&state.handle) != 0) return TRI_OK;
  tri_status status = read_version(&state);
  if (status == TRI_OK) lt_version(&state, version);
  if (version_needs_handle(&state)) state.calls.destroy(state.handle);
  return status;
}

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

static int type_of(tri_dtype type) {
  switch (type) {
    case TRI_FP64: return TRI_LT_R_64F;
    case TRI_FP32: return TRI_LT_R_32F;
    case TRI_BF16: return TRI_LT_R_16BF;
    case TRI_INT32: break;
  }
  return -1; /* no GEMM has this type */
}

/* Returns the compute type; -1 if the library does not support the GEMM's types. bf16 GEMMs accumulate in fp32, as fp32
 * GEMMs do. fp32 operands are rounded to TF32 only if the run allows it. */
static int compute_type_of(const tri_gpu_lt *lt, const tri_gpu_gemm *product) {
  switch (product->in) {
    case TRI_FP64: return lt->compute_64f;
    case TRI_FP32: return product->tf32 ? lt->compute_tf32 : lt->compute_32f;
    case TRI_BF16: return lt->compute_32f;
    case TRI_INT32: break;
  }
  return -1;
}

/* A GEMM in the library's terms: c^T = b^T a^T. */
typedef struct description {
  void *product, *first, *second, *out;
} description;

static void description_destroy(const tri_gpu_gemm_state *state, description *d) {
  if (d->out != NULL) state->calls.layout_destroy(d->out);
  if (d->second != NULL) state->calls.layout_destroy(d->second);
  if (d->first != NULL) state->calls.layout_destroy(d->first);
  if (d->product != NULL) state->calls.description_destroy(d->product);
  *d = (description){0};
}

static int set_int(const tri_gpu_gemm_state *state, void *product, int attribute, int value) {
  const int32_t number = value;
  return state->calls.description_set(product, attribute, &number, sizeof number);
}

/* Describes the bias. `bias` is its address, or for a heuristic any address with the same alignment. */
static tri_status describe_bias(const tri_gpu_gemm_state *state, const tri_gpu_gemm *p, const void *bias,
                                void *product) {
  const tri_gpu_lt *lt = state->lt;
  tri_status status = TRI_OK;
  LT_TRY(set_int(state, product, lt->epilogue, lt->epilogue_bias), "take a bias");
  LT_TRY(set_int(state, product, lt->bias_type, type_of(p->out)), "take a bias of this type");
  LT_TRY(state->calls.description_set(product, lt->bias_pointer, &bias, sizeof bias), "take a bias's address");
done:
  return status;
}

/* Describes the GEMM to the library, for which a row-major [rows, columns] matrix is a column-major [columns, rows]
 * matrix. */
static tri_status description_create(const tri_gpu_gemm_state *state, const tri_gpu_gemm *p, const void *bias,
                                     description *out) {
  const tri_gpu_lt *lt = state->lt;
  const tri_gpu_lt_calls *calls = &state->calls;
  const int in = type_of(p->in), wide = type_of(tri_dtype_wide(p->in));
  const int64_t b_rows = p->b_transposed ? p->n : p->k, b_columns = p->b_transposed ? p->k : p->n;
  const int64_t a_rows = p->a_transposed ? p->k : p->m, a_columns = p->a_transposed ? p->m : p->k;
  tri_status status = TRI_OK;
  *out = (description){0};
  LT_TRY(calls->description_create(&out->product, compute_type_of(lt, p), wide), "describe a product");
  LT_TRY(calls->layout_create(&out->first, in, (uint64_t)b_columns, (uint64_t)b_rows, p->ldb), "describe b");
  LT_TRY(calls->layout_create(&out->second, in, (uint64_t)a_columns, (uint64_t)a_rows, p->lda), "describe a");
  LT_TRY(calls->layout_create(&out->out, type_of(p->out), (uint64_t)p->n, (uint64_t)p->m, p->ldc), "describe c");
  if (p->b_transposed)
    LT_TRY(set_int(state, out->product, lt->transpose_first, lt->operation_transpose), "transpose b");
  if (p->a_transposed)
    LT_TRY(set_int(state, out->product, lt->transpose_second, lt->operation_transpose), "transpose a");
  if (p->bias) status = describe_bias(state, p, bias, out->product);
done:
  if (status != TRI_OK) description_destroy(state, out);
  return status;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Returns whether the library adds a bias in GEMMs of this type: cuBLASLt does not in fp64. */
static bool lt_adds_bias(const tri_gpu_gemm *product) {
  switch (product->in) {
    case TRI_FP32:
    case TRI_BF16: return true;
    case TRI_FP64:
    case TRI_INT32: break;
  }
  return false;
}

static tri_status preference_create(const tri_gpu_gemm_state *state, const tri_gpu_gemm *p, size_t workspace_bytes,
                                    void **out) {
  const tri_gpu_lt *lt = state->lt;
  const tri_gpu_lt_calls *calls = &state->calls;
  const uint64_t most = workspace_bytes;
  const uint32_t alignment = (uint32_t)p->alignment;
  tri_status status = TRI_OK;
  *out = NULL;
  LT_TRY(calls->preference_create(out), "make a preference");
  LT_TRY(calls->preference_set(*out, lt->workspace, &most, sizeof most), "limit the workspace");
  if (lt->reductions >= 0) {
    LT_TRY(calls->preference_set(*out, lt->reductions, &lt->allowed_reductions, sizeof lt->allowed_reductions),
           "limit the reductions");
  }
  for (int i = 0; i < TRI_GPU_LT_ADDRESSES && lt->addresses[i] >= 0; i++) {
    LT_TRY(calls->preference_set(*out, lt->addresses[i], &alignment, sizeof alignment), "take an alignment");
  }
done:
  if (status != TRI_OK && *out != NULL) calls->preference_destroy(*out);
  return status;
}

/* Returns whether the library supports the GEMM's types and alignment. A library without a setting for the alignment of
 * addresses requires 16 bytes. */
static bool supports(const tri_gpu_lt *lt, const tri_gpu_gemm *product) {
  return compute_type_of(lt, product) >= 0 && (lt->addresses[0] >= 0 || product->alignment == 16);
}

/* Copies the usable algorithms of a heuristic's results[count] to `out`, and returns their number. */
static int read_results(const tri_gpu_lt *lt, const unsigned char *results, int count, size_t workspace_bytes,
                        tri_gpu_algorithm *out) {
  int taken = 0;
  for (int i = 0; i < count; i++) {
    const unsigned char *result = results + (size_t)i * lt->result_bytes;
    int state = 0;
    size_t wanted = 0;
    memcpy(&state, result + lt->state_at, sizeof state);
    memcpy(&wanted, result + lt->workspace_at, sizeof wanted);
    if (state != 0 || wanted > workspace_bytes) continue;
    out[taken] = (tri_gpu_algorithm){.workspace_bytes = wanted};
    memcpy(out[taken++].data, result, lt->algorithm_bytes);
  }
  return taken;
}

static tri_status lt_algorithms(tri_gpu_gemm_state *state, const tri_gpu_gemm *product, size_t workspace_bytes,
                                tri_gpu_algorithm out[TRI_GPU_MOST_ALGORITHMS], int *count) {
  const tri_gpu_runtime *runtime = state->gpu->runtime;
  _Static_assert(sizeof(tri_cublaslt_result) <= MOST_RESULT_BYTES && sizeof(tri_hipblaslt_result) <= MOST_RESULT_BYTES,
                 "a result of either library fits");
  unsigned char results[TRI_GPU_MOST_ALGORITHMS * MOST_RESULT_BYTES] __attribute__((aligned(16))) = {0};
  const void *some_bias = (const void *)(uintptr_t)256; /* the library uses only the alignment of this address */
  description d;
  void *preference = NULL;
  int found = 0;
  *count = 0;
  if (!supports(state->lt, product)) return TRI_OK;
  if (runtime->enter != NULL) TRI_TRY(runtime->enter(state->gpu->context));
  TRI_TRY(description_create(state, product, some_bias, &d));
  tri_status status = preference_create(state, product, workspace_bytes, &preference);
  if (status == TRI_OK) {
    int refusal = state->calls.heuristic(state->handle, d.product, d.first, d.second, d.out, d.out, preference,
                                         TRI_GPU_MOST_ALGORITHMS, results, &found);
    /* For an unsupported GEMM the library returns a status other than 0, or an empty list: *count stays 0. */
    if (refusal == 0) *count = read_results(state->lt, results, found, workspace_bytes, out);
    state->calls.preference_destroy(preference);
  }
  description_destroy(state, &d);
  return status;
}

/* ---- multiplying ------------------------------------------------------------------------------------------------- */

/* Returns whether a status of `matmul` says that the algorithm or GEMM is not supported. */
static bool is_refusal(const tri_gpu_lt *lt, int status) {
  for (size_t i = 0; i < sizeof lt->refusals / sizeof lt->refusals[0]; i++) {
    if (lt->refusals[i] == status) return true;
  }
  return false;
}

static tri_status lt_multiply(tri_gpu_gemm_state *state, tri_queue *queue, tri_gpu_gemm_call *call) {
  const tri_gpu_gemm *p = call->product;
  const tri_gpu_runtime *runtime = state->gpu->runtime;
  const float one = 1, beta = p->accumulate ? 1 : 0;
  const double wide_one = 1, wide_beta = p->accumulate ? 1 : 0;
  const bool wide = tri_dtype_bytes(tri_dtype_wide(p->in)) == sizeof(double);
  description d;
  if (runtime->enter != NULL) TRI_TRY(runtime->enter(state->gpu->context));
  TRI_TRY(description_create(state, p, call->bias, &d));
  int refusal = state->calls.matmul(state->handle, d.product, wide ? (const void *)&wide_one : &one, call->b, d.first,
                                    call->a, d.second, wide ? (const void *)&wide_beta : &beta, call->c, d.out, call->c,
                                    d.out, call->algorithm->data, call->workspace, call->workspace_bytes,
                                    runtime->stream_handle(tri_gpu_stream_of(queue), "matmul"));
  description_destroy(state, &d);
  if (refusal == 0) return TRI_OK;
  call->refused = is_refusal(state->lt, refusal);
  char what[160];
  snprintf(what, sizeof what, "multiply %lld x %lld x %lld (%s)", (long long)p->m, (long long)p->n, (long long)p->k,
           tri_dtype_name(p->in));
  return refused(state, what, refusal);
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

/* Functions of both libraries whose names differ only in the prefix. */
#define SYMBOLS(prefix)                                                                                                \
  TRI_GPU_SYMBOL(tri_gpu_lt_calls, create, prefix "Create"),                                                           \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, destroy, prefix "Destroy"),                                                     \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, description_create, prefix "MatmulDescCreate"),                                 \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, description_destroy, prefix "MatmulDescDestroy"),                               \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, description_set, prefix "MatmulDescSetAttribute"),                              \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, layout_create, prefix "MatrixLayoutCreate"),                                    \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, layout_destroy, prefix "MatrixLayoutDestroy"),                                  \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, preference_create, prefix "MatmulPreferenceCreate"),                            \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, preference_destroy, prefix "MatmulPreferenceDestroy"),                          \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, preference_set, prefix "MatmulPreferenceSetAttribute"),                         \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, heuristic, prefix "MatmulAlgoGetHeuristic"),                                    \
      TRI_GPU_SYMBOL(tri_gpu_lt_calls, matmul, prefix "Matmul")

#define FUNCTIONS                                                                                                      \
  .open = lt_open, .look = lt_look, .close = lt_close, .version = lt_version, .adds_bias = lt_adds_bias,               \
  .narrows_bias = true, .algorithms = lt_algorithms, .multiply = lt_multiply

static const tri_gpu_library cublaslt_file = {
    .what = "NVIDIA's matrix products (cuBLASLt)",
    .how = "It comes with the CUDA toolkit, or `pip install nvidia-cublas` (`nvidia-cublas-cu12` for CUDA 12)",
    .names = (const char *const[]){"libcublasLt.so.13", "libcublasLt.so.12", NULL},
    .folders = (const char *const[]){"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", NULL},
    .wheels = (const char *const[]){"nvidia/cu13/lib", "nvidia/cublas/lib", NULL},
    .symbols = (const tri_gpu_symbol[]){SYMBOLS("cublasLt"),
                                        TRI_GPU_SYMBOL(tri_gpu_lt_calls, property, "cublasLtGetProperty"),
                                        TRI_GPU_SYMBOL_IF_ANY(tri_gpu_lt_calls, status_name, "cublasLtGetStatusName"),
                                        {0}},
};

/* allowed_reductions: partial sums are kept in the type in which GEMMs accumulate, never in c or in its type, because
 * then a bf16 result would be rounded more than once. */
static const tri_gpu_lt cublaslt = {
    .file = &cublaslt_file,
    .least = {12, 0},
    .most_major = 13,
    .compute_64f = TRI_CUBLAS_COMPUTE_64F,
    .compute_32f = TRI_CUBLAS_COMPUTE_32F,
    .compute_tf32 = TRI_CUBLAS_COMPUTE_32F_FAST_TF32,
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

const tri_gpu_gemm_library tri_gpu_cublaslt = {.name = "cuBLASLt", .lt = &cublaslt, FUNCTIONS};

static const tri_gpu_library hipblaslt_file = {
    .what = "AMD's matrix products (hipBLASLt)",
    .how = "It comes with ROCm 6.1 or later (the package `hipblaslt`), or with PyTorch for ROCm",
    .names = (const char *const[]){"libhipblaslt.so.1", "libhipblaslt.so.0", NULL},
    .folders = (const char *const[]){"/opt/rocm/lib", "/opt/rocm-*/lib", NULL},
    .wheels = (const char *const[]){"torch/lib", "_rocm_sdk_libraries*/lib", NULL},
    .symbols =
        (const tri_gpu_symbol[]){
            SYMBOLS("hipblasLt"), TRI_GPU_SYMBOL(tri_gpu_lt_calls, version, "hipblasLtGetVersion"), {0}},
};

/* hipBLASLt has no setting for the alignment of addresses, and does not guarantee fp64: GEMMs with alignment below 16
 * bytes and fp64 GEMMs use this program's own kernel. TF32 is not requested: gfx90a does not have it. */
static const tri_gpu_lt hipblaslt = {
    .file = &hipblaslt_file,
    .least = {0, 7},
    .most_major = 1,
    .compute_64f = -1,
    .compute_32f = TRI_HIPBLAS_COMPUTE_32F,
    .compute_tf32 = TRI_HIPBLAS_COMPUTE_32F,
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

/* The bias has the type of c (`narrows_bias` in FUNCTIONS), as in PyTorch, because all versions are known to support
 * that. */
const tri_gpu_gemm_library tri_gpu_hipblaslt = {.name = "hipBLASLt", .lt = &hipblaslt, FUNCTIONS};
