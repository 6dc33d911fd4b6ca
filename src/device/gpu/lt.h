/* The common part of cuBLASLt and hipBLASLt: the same calls with the same arguments. Only numbers of enums differ.
 * Prototypes are declared here; tests/gpu/prototypes_cublaslt.c compares them with the vendor's header if that is
 * installed.
 *
 * The libraries use column-major matrices. A row-major c[m,n] is a column-major c^T[n,m], so the request is c^T = b^T
 * a^T: b as the first matrix, a as the second, each plain or transposed as in the program's request. A bias is added
 * along the rows of c^T, as the libraries do. */
#ifndef TRI_DEVICE_GPU_LT_H
#define TRI_DEVICE_GPU_LT_H

#include "device/gpu/gemm.h"
#include "device/gpu/library.h"

/* Types of elements have the same numbers in both. */
enum { TRI_LT_R_32F = 0, TRI_LT_R_64F = 1, TRI_LT_R_16BF = 14 };

/* Statuses, types and attributes are enums of the libraries, as wide as an int; descriptors and handles are pointers;
 * `attribute` is one of the attributes in tri_gpu_lt. */
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
  /* For d = a b + c; a, b, c and d are layouts. results[most]: structs of result_bytes each. */
  int (*heuristic)(void *handle, void *description, void *a, void *b, void *c, void *d, void *preference, int most,
                   void *results, int *count);
  int (*matmul)(void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b,
                void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                const void *algorithm, void *workspace, size_t workspace_bytes, void *stream);
  const char *(*status_name)(int status);           /* may be NULL */
  int (*property)(int which, int *value);           /* cuBLASLt: 0 major, 1 minor, 2 patch */
  int (*version)(const void *handle, int *version); /* hipBLASLt: major * 100000 + minor * 100 + patch */
} tri_gpu_lt_calls;

enum { TRI_GPU_LT_ADDRESSES = 4, TRI_GPU_LT_MOST_RESULT_BYTES = 128 };

/* One of the two libraries. An attribute of -1 does not exist in the library. */
typedef struct tri_gpu_lt {
  const tri_gpu_gemm_library *is;
  const tri_gpu_library *file;
  int least[2], most_major; /* range of versions with these numbers: lowest major and minor, highest major */
  bool asks_handle;         /* the version can be read only with a handle; the other library reports it without one */
  tri_status (*read_version)(const tri_gpu_lt_calls *calls, const void *handle, int out[3]);
  int (*compute_type)(const tri_gpu_gemm *product);
  /* Attributes of a description, and their values. */
  int transpose_first, transpose_second, epilogue, bias_pointer, bias_type;
  int operation_transpose, epilogue_bias;
  /* Attributes of a preference. Reductions: how partial sums of a long sum are reduced (a mask); addresses: alignments
   * of a, b, c and d. */
  int workspace, reductions, addresses[TRI_GPU_LT_ADDRESSES];
  uint32_t allowed_reductions;
  /* Sizes and offsets in a heuristic's result, which begins with the algorithm. */
  size_t algorithm_bytes, result_bytes, workspace_at, state_at;
  int refusals[3]; /* return values for an unsupported algorithm or GEMM, before any work is queued */
} tri_gpu_lt;

tri_status tri_gpu_lt_open(const tri_gpu_lt *lt, tri_gpu *gpu, tri_gpu_gemm_state **out);
tri_status tri_gpu_lt_look(const tri_gpu_lt *lt, char version[TRI_GPU_GEMM_VERSION_BYTES], const char **path);
void tri_gpu_lt_close(tri_gpu_gemm_state *state);
void tri_gpu_lt_version(const tri_gpu_gemm_state *state, char out[TRI_GPU_GEMM_VERSION_BYTES]);
bool tri_gpu_lt_adds_bias(const tri_gpu_gemm *product);
tri_status tri_gpu_lt_algorithms(tri_gpu_gemm_state *state, const tri_gpu_gemm *product, size_t workspace_bytes,
                                 tri_gpu_algorithm out[TRI_GPU_MOST_ALGORITHMS], int *count);
tri_status tri_gpu_lt_multiply(tri_gpu_gemm_state *state, tri_queue *queue, tri_gpu_gemm_call *call);

/* Functions of both libraries whose names differ only in the prefix. */
#define TRI_GPU_LT_SYMBOLS(prefix)                                                                                     \
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

#endif
