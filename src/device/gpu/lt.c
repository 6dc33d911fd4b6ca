#include "device/gpu/lt.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

struct tri_gpu_gemm_state {
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
  return tri_fail(TRI_DEVICE_FAILED, "%s %d.%d.%d (%s) failed to %s: %s", state->lt->is->name, state->version[0],
                  state->version[1], state->version[2], state->path, what, name == NULL ? number : name);
}

/* For functions with a variable `state`, a `status` and a label `done`. */
#define LT_TRY(call, what)                                                                                             \
  do {                                                                                                                 \
    int lt_status_ = (call);                                                                                           \
    if (lt_status_ != 0) {                                                                                             \
      status = refused(state, what, lt_status_);                                                                       \
      goto done;                                                                                                       \
    }                                                                                                                  \
  } while (0)

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tri_status read_version(tri_gpu_gemm_state *state) {
  const tri_gpu_lt *lt = state->lt;
  TRI_TRY(lt->read_version(&state->calls, state->handle, state->version));
  const int *version = state->version;
  const bool new_enough = version[0] > lt->least[0] || (version[0] == lt->least[0] && version[1] >= lt->least[1]);
  if (new_enough && version[0] <= lt->most_major) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s is %s %d.%d.%d, and this program knows versions from %d.%d to %d. %s",
                  state->path, lt->is->name, version[0], version[1], version[2], lt->least[0], lt->least[1],
                  lt->most_major, lt->file->how);
}

static tri_status start(tri_gpu_gemm_state *state) {
  const tri_gpu_runtime *runtime = state->gpu->runtime;
  TRI_TRY(tri_gpu_library_open(state->lt->file, &state->calls, &state->path));
  if (runtime->enter != NULL) TRI_TRY(runtime->enter(state->gpu->context));
  if (!state->lt->asks_handle) TRI_TRY(read_version(state));
  int status = state->calls.create(&state->handle);
  if (status != 0) {
    state->handle = NULL;
    return refused(state, "start; a driver older than the library is a common reason", status);
  }
  return state->lt->asks_handle ? read_version(state) : TRI_OK;
}

void tri_gpu_lt_close(tri_gpu_gemm_state *state) {
  if (state == NULL) return;
  if (state->handle != NULL) state->calls.destroy(state->handle);
  tri_free(state);
}

tri_status tri_gpu_lt_open(const tri_gpu_lt *lt, tri_gpu *gpu, tri_gpu_gemm_state **out) {
  tri_gpu_gemm_state *state = NULL;
  TRI_TRY(tri_alloc("a library of matrix products", 1, sizeof *state, &state));
  *state = (tri_gpu_gemm_state){.lt = lt, .gpu = gpu};
  tri_status status = start(state);
  if (status != TRI_OK) {
    tri_gpu_lt_close(state);
    return status;
  }
  *out = state;
  return TRI_OK;
}

void tri_gpu_lt_version(const tri_gpu_gemm_state *state, char out[TRI_GPU_GEMM_VERSION_BYTES]) {
  snprintf(out, TRI_GPU_GEMM_VERSION_BYTES, "%d.%d.%d", state->version[0], state->version[1], state->version[2]);
}

/* Opens the library without a GPU and reads its version, "" if it cannot be read. The library's context is created only
 * if the version cannot be read without one. */
tri_status tri_gpu_lt_look(const tri_gpu_lt *lt, char version[TRI_GPU_GEMM_VERSION_BYTES], const char **path) {
  tri_gpu_gemm_state state = {.lt = lt};
  version[0] = '\0';
  TRI_TRY(tri_gpu_library_open(lt->file, &state.calls, &state.path));
  *path = state.path;
  if (lt->asks_handle && state.calls.create(&state.handle) != 0) return TRI_OK;
  tri_status status = read_version(&state);
  if (status == TRI_OK) tri_gpu_lt_version(&state, version);
  if (lt->asks_handle) state.calls.destroy(state.handle);
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
  return -1; /* GEMMs do not have it */
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

/* Describes the bias; `bias` is its address, or any address of the same alignment. */
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

/* A row-major [rows, columns] matrix is column-major [columns, rows], its transpose. */
static tri_status description_create(const tri_gpu_gemm_state *state, const tri_gpu_gemm *p, const void *bias,
                                     description *out) {
  const tri_gpu_lt *lt = state->lt;
  const tri_gpu_lt_calls *calls = &state->calls;
  const int in = type_of(p->in), wide = type_of(tri_dtype_wide(p->in));
  const int64_t b_rows = p->b_transposed ? p->n : p->k, b_columns = p->b_transposed ? p->k : p->n;
  const int64_t a_rows = p->a_transposed ? p->k : p->m, a_columns = p->a_transposed ? p->m : p->k;
  tri_status status = TRI_OK;
  *out = (description){0};
  LT_TRY(calls->description_create(&out->product, lt->compute_type(p), wide), "describe a product");
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

/* cuBLASLt does not have epilogues in fp64. */
bool tri_gpu_lt_adds_bias(const tri_gpu_gemm *product) {
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

/* Reads the results of a heuristic. A library reports an unsupported GEMM by a status or by an empty list. */
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

tri_status tri_gpu_lt_algorithms(tri_gpu_gemm_state *state, const tri_gpu_gemm *product, size_t workspace_bytes,
                                 tri_gpu_algorithm out[TRI_GPU_MOST_ALGORITHMS], int *count) {
  const tri_gpu_runtime *runtime = state->gpu->runtime;
  unsigned char results[TRI_GPU_MOST_ALGORITHMS * TRI_GPU_LT_MOST_RESULT_BYTES] __attribute__((aligned(16))) = {0};
  const void *some_bias = (const void *)(uintptr_t)256; /* only its alignment is used */
  description d;
  void *preference = NULL;
  int found = 0;
  *count = 0;
  if (runtime->enter != NULL) TRI_TRY(runtime->enter(state->gpu->context));
  TRI_TRY(description_create(state, product, some_bias, &d));
  tri_status status = preference_create(state, product, workspace_bytes, &preference);
  if (status == TRI_OK) {
    int refusal = state->calls.heuristic(state->handle, d.product, d.first, d.second, d.out, d.out, preference,
                                         TRI_GPU_MOST_ALGORITHMS, results, &found);
    if (refusal == 0) *count = read_results(state->lt, results, found, workspace_bytes, out);
    state->calls.preference_destroy(preference);
  }
  description_destroy(state, &d);
  return status;
}

/* ---- multiplying ------------------------------------------------------------------------------------------------- */

static bool is_refusal(const tri_gpu_lt *lt, int status) {
  for (size_t i = 0; i < sizeof lt->refusals / sizeof lt->refusals[0]; i++) {
    if (lt->refusals[i] == status) return true;
  }
  return false;
}

tri_status tri_gpu_lt_multiply(tri_gpu_gemm_state *state, tri_queue *queue, tri_gpu_gemm_call *call) {
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
