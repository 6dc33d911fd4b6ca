/* A stand-in for cuBLASLt, or with STAND_IN_HIPBLASLT for hipBLASLt (stand_in.h; stand_in_lt.h). Words of TRI_STAND_IN:
 * cublaslt=13.1 or hipblaslt=1.0 is its version; refuses=1: it has no algorithms; fails=CODE: multiplications return
 * CODE; variant=V: only those with algorithm V or a better one. */
#include "stand_in_lt.h"
#include "stand_in_work.h"

#if defined(STAND_IN_HIPBLASLT)
typedef tri_hipblaslt_result result_of_heuristic;
#define LT(name) hipblasLt##name
#define NUMBER(name) TRI_HIPBLASLT_##name
enum { OP_T = TRI_HIPBLAS_OP_T };
enum { DONE = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 3, EXECUTION_FAILED = 5, NOT_SUPPORTED = 7 };

static int version(void) { return stand_in_version("hipblaslt", 10); }

/* fp64 has a number, and nothing that it is promised for. */
static stand_in_lt_kind kind_of(int compute_type) {
  return compute_type == TRI_HIPBLAS_COMPUTE_32F ? STAND_IN_LT_32F : STAND_IN_LT_NONE;
}
#else
typedef tri_cublaslt_result result_of_heuristic;
#define LT(name) cublasLt##name
#define NUMBER(name) TRI_CUBLASLT_##name
enum { OP_T = TRI_CUBLAS_OP_T };
enum { DONE = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };

static int version(void) { return stand_in_version("cublaslt", 131); }

static stand_in_lt_kind kind_of(int compute_type) {
  switch (compute_type) {
    case TRI_CUBLAS_COMPUTE_32F: return STAND_IN_LT_32F;
    case TRI_CUBLAS_COMPUTE_32F_FAST_TF32: return STAND_IN_LT_TF32;
    case TRI_CUBLAS_COMPUTE_64F: return STAND_IN_LT_64F;
    default: return STAND_IN_LT_NONE;
  }
}
#endif

/* ---- functions of this program's prototypes, under the library's names ------------------------------------------- */

#define DECLARE(field, name) STAND_IN_EXPORT extern __typeof__(*((tri_gpu_lt_calls *)NULL)->field) LT(name);
DECLARE(create, Create)
DECLARE(destroy, Destroy)
DECLARE(description_create, MatmulDescCreate)
DECLARE(description_destroy, MatmulDescDestroy)
DECLARE(description_set, MatmulDescSetAttribute)
DECLARE(layout_create, MatrixLayoutCreate)
DECLARE(layout_destroy, MatrixLayoutDestroy)
DECLARE(preference_create, MatmulPreferenceCreate)
DECLARE(preference_destroy, MatmulPreferenceDestroy)
DECLARE(preference_set, MatmulPreferenceSetAttribute)
DECLARE(heuristic, MatmulAlgoGetHeuristic)
DECLARE(matmul, Matmul)
DECLARE(status_name, GetStatusName)
DECLARE(property, GetProperty)
DECLARE(version, GetVersion)

/* ---- the library ------------------------------------------------------------------------------------------------- */

extern int cuMemGetInfo_v2(size_t *, size_t *);

/* It begins with the driver's context of this thread. */
int LT(Create)(void **handle) {
  size_t left, all;
  if (cuMemGetInfo_v2(&left, &all) != 0) return NOT_INITIALIZED;
  *handle = calloc(1, 16);
  return *handle == NULL ? NOT_INITIALIZED : DONE;
}

int LT(Destroy)(void *handle) {
  free(handle);
  return DONE;
}

int LT(GetProperty)(int which, int *value) {
  if (which < 0 || which > 2) return INVALID_VALUE;
  *value = which == 0 ? version() / 10 : which == 1 ? version() % 10 : 0;
  return DONE;
}

int LT(GetVersion)(const void *handle, int *out) {
  *out = version() / 10 * 100000 + version() % 10 * 100;
  return handle == NULL ? NOT_INITIALIZED : DONE;
}

const char *LT(GetStatusName)(int status) {
  switch (status) {
    case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS unknown";
  }
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

int LT(MatmulDescCreate)(void **out, int compute_type, int scale_type) {
  stand_in_lt_description *d = calloc(1, sizeof *d);
  if (d == NULL) return NOT_INITIALIZED;
  *d = (stand_in_lt_description){.compute = compute_type, .scale = scale_type, .bias_type = -1};
  *out = d;
  return DONE;
}

int LT(MatmulDescDestroy)(void *description) {
  free(description);
  return DONE;
}

static int set_number(stand_in_lt_description *d, int attribute, int value) {
  switch (attribute) {
    case NUMBER(MATMUL_DESC_TRANSA): d->first_transposed = value == OP_T; return DONE;
    case NUMBER(MATMUL_DESC_TRANSB): d->second_transposed = value == OP_T; return DONE;
    case NUMBER(MATMUL_DESC_EPILOGUE): d->adds_bias = value == NUMBER(EPILOGUE_BIAS); return DONE;
    case NUMBER(MATMUL_DESC_BIAS_DATA_TYPE): d->bias_type = value; return DONE;
    default: return INVALID_VALUE;
  }
}

int LT(MatmulDescSetAttribute)(void *description, int attribute, const void *value, size_t bytes) {
  stand_in_lt_description *d = description;
  int32_t number;
  if (attribute == NUMBER(MATMUL_DESC_BIAS_POINTER)) {
    if (bytes != sizeof d->bias) return INVALID_VALUE;
    memcpy(&d->bias, value, sizeof d->bias);
    return DONE;
  }
  if (bytes != sizeof number) return INVALID_VALUE;
  memcpy(&number, value, sizeof number);
  return set_number(d, attribute, number);
}

int LT(MatrixLayoutCreate)(void **out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  stand_in_lt_layout *layout = calloc(1, sizeof *layout);
  if (layout == NULL) return NOT_INITIALIZED;
  *layout = (stand_in_lt_layout){type, rows, columns, ld};
  *out = layout;
  return DONE;
}

int LT(MatrixLayoutDestroy)(void *layout) {
  free(layout);
  return DONE;
}

int LT(MatmulPreferenceCreate)(void **out) {
  stand_in_lt_preference *p = calloc(1, sizeof *p);
  if (p == NULL) return NOT_INITIALIZED;
  *p = (stand_in_lt_preference){.reductions = 7, .alignments = {256, 256, 256, 256}};
  *out = p;
  return DONE;
}

int LT(MatmulPreferenceDestroy)(void *preference) {
  free(preference);
  return DONE;
}

int LT(MatmulPreferenceSetAttribute)(void *preference, int attribute, const void *value, size_t bytes) {
  stand_in_lt_preference *p = preference;
  void *to = NULL;
  size_t wanted = sizeof(uint32_t);
  if (attribute == NUMBER(MATMUL_PREF_MAX_WORKSPACE_BYTES)) {
    to = &p->workspace_bytes;
    wanted = sizeof p->workspace_bytes;
  }
#if !defined(STAND_IN_HIPBLASLT)
  const int first = TRI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (attribute == TRI_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) to = &p->reductions;
  if (attribute >= first && attribute < first + TRI_GPU_LT_ADDRESSES) to = &p->alignments[attribute - first];
#endif
  if (to == NULL || bytes != wanted) return INVALID_VALUE;
  memcpy(to, value, bytes);
  return DONE;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Sums in pieces may be kept in the compute type alone; hipBLASLt is not asked. */
static bool reductions_are_right(const stand_in_lt_preference *p) {
#if defined(STAND_IN_HIPBLASLT)
  (void)p;
  return true;
#else
  return p->reductions == TRI_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
#endif
}

int LT(MatmulAlgoGetHeuristic)(void *handle, void *description, void *a, void *b, void *c, void *d, void *preference,
                               int most, void *results, int *count) {
  const stand_in_lt_product product = {description, a, b, c, d};
  const stand_in_lt_preference *p = preference;
  stand_in_lt_algorithm algorithms[STAND_IN_LT_VARIANTS];
  size_t workspace[STAND_IN_LT_VARIANTS];
  int found = 0;
  if (handle == NULL || most <= 0 || !reductions_are_right(p)) return INVALID_VALUE;
  if (!stand_in_lt_algorithms(&product, kind_of(product.description->compute), p, version(), algorithms, workspace,
                              &found)) {
    return NOT_SUPPORTED;
  }
  *count = found < most ? found : most;
  for (int i = 0; i < *count; i++) {
    result_of_heuristic result = {.workspace_bytes = workspace[i], .waves = 1};
    memcpy(&result.algorithm, &algorithms[i], sizeof algorithms[i]);
    memcpy((char *)results + (size_t)i * sizeof result, &result, sizeof result);
  }
  return DONE;
}

int LT(Matmul)(void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b,
               void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
               const void *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
  const stand_in_lt_product product = {description, a_layout, b_layout, c_layout, d_layout};
  const stand_in_lt_call call = {alpha, beta, a, b, c, d, workspace, stream, workspace_bytes};
  const int told = (int)stand_in_number("fails", 0);
  stand_in_lt_algorithm own;
  if (handle == NULL || algorithm == NULL) return INVALID_VALUE;
  memcpy(&own, algorithm, sizeof own);
  if (told != 0 && own.variant >= (int)stand_in_number("variant", 0)) return told;
  switch (stand_in_lt_multiply(&product, kind_of(product.description->compute), &own, version(), &call)) {
    case STAND_IN_LT_DONE: return DONE;
    case STAND_IN_LT_INVALID: return INVALID_VALUE;
    case STAND_IN_LT_UNSUPPORTED: break;
  }
  return NOT_SUPPORTED;
}
