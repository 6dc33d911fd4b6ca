/* GEMMs. Three libraries compute them: the vendors' two (lt.c) and this program's own kernel (tiled.c). The kernel
 * computes the GEMMs that the vendor's library does not support, and all GEMMs if there is no such library.
 *
 * The algorithm of a GEMM is chosen once: the first in the library's own ranking, or the fastest in a measurement if
 * that is requested (gemm_choices.c). Equal algorithms of one version of a library give equal bits on equal chips, so
 * one rank chooses for all, and its choices are saved (device/gemm_choices.h). */
#ifndef TRI_DEVICE_GPU_GEMM_H
#define TRI_DEVICE_GPU_GEMM_H

#include "device/gemm_choices.h"
#include "device/gpu/internal.h"

/* A GEMM as it is requested from a library, row-major as in tri_matmul. GEMMs with equal members use the same
 * algorithm. */
typedef struct tri_gpu_gemm {
  int64_t m, n, k, lda, ldb, ldc;
  tri_dtype in, out; /* in: type of a and b. out: type of c */
  bool a_transposed, b_transposed, accumulate;
  bool bias;     /* whether the library adds a bias of n elements */
  bool tf32;     /* whether fp32 operands may be rounded to TF32 (10 bits of mantissa) */
  int alignment; /* alignment of the addresses of a, b and c in bytes, at most 16 */
} tri_gpu_gemm;

/* An algorithm: the library's own data, valid for the same version on the same chip. */
enum { TRI_GPU_ALGORITHM_BYTES = 64, TRI_GPU_MOST_ALGORITHMS = 8, TRI_GPU_GEMM_VERSION_BYTES = 64 };
typedef struct tri_gpu_algorithm {
  unsigned char data[TRI_GPU_ALGORITHM_BYTES];
  size_t workspace_bytes; /* bytes of workspace that the algorithm needs */
} tri_gpu_algorithm;

typedef struct tri_gpu_gemm_call {
  const tri_gpu_gemm *product;
  const tri_gpu_algorithm *algorithm;
  const void *a, *b, *bias; /* device memory; bias may be NULL */
  void *c, *workspace;      /* workspace: aligned to 256 bytes */
  size_t workspace_bytes;
  bool refused; /* whether the library does not support the algorithm, and so has queued nothing (set by the library) */
} tri_gpu_gemm_call;

/* The library's own objects. */
typedef struct tri_gpu_gemm_state tri_gpu_gemm_state;

typedef struct tri_gpu_lt tri_gpu_lt;

struct tri_gpu_gemm_library {
  const char *name;     /* "cuBLASLt" */
  const tri_gpu_lt *lt; /* enum values and sizes of a vendor's library (lt.c); NULL: this program's own kernel */
  /* Opens the library. Fails with TRI_UNSUPPORTED if it is not available or of an unknown version; the message says
   * where it was looked for and how to get it. */
  tri_status (*open)(const tri_gpu_gemm_library *library, tri_gpu *gpu, tri_gpu_gemm_state **out);
  void (*close)(tri_gpu_gemm_state *state);
  /* Finds the library's file without a GPU, for `trireme doctor`. *path is valid until the program ends. `version` is
   * "" if the library reports it only with a GPU. Fails as `open` does. NULL: the implementation has no file. */
  tri_status (*look)(const tri_gpu_gemm_library *library, char version[TRI_GPU_GEMM_VERSION_BYTES], const char **path);
  void (*version)(const tri_gpu_gemm_state *state, char out[TRI_GPU_GEMM_VERSION_BYTES]); /* "13.1.0" */
  /* Returns whether the library can add a bias in this GEMM. NULL: it always can. */
  bool (*adds_bias)(const tri_gpu_gemm *product);
  bool narrows_bias; /* whether the bias must have the type of c */
  /* Lists at most TRI_GPU_MOST_ALGORITHMS algorithms that fit into the workspace, in the order of the library's
   * ranking. Sets *count to 0 if the library does not support the GEMM. */
  tri_status (*algorithms)(tri_gpu_gemm_state *state, const tri_gpu_gemm *product, size_t workspace_bytes,
                           tri_gpu_algorithm out[TRI_GPU_MOST_ALGORITHMS], int *count);
  /* Queues the GEMM. If the library does not support the algorithm, fails and sets call->refused. */
  tri_status (*multiply)(tri_gpu_gemm_state *state, tri_queue *queue, tri_gpu_gemm_call *call);
};

extern const tri_gpu_gemm_library tri_gpu_cublaslt, tri_gpu_hipblaslt, tri_gpu_tiled;

/* Returns the bytes of workspace that a library may use for a GEMM: a fixed number minus the bytes of a narrowed bias
 * and of alignment, at least 0. The number depends only on the GEMM, so the algorithm that is chosen depends only on
 * the GEMM, too. */
size_t tri_gpu_gemm_workspace(const tri_gpu_gemm *product);

/* ---- choices (gemm_choices.c) ------------------------------------------------------------------------------------ */

typedef struct tri_gpu_gemm_choice {
  const tri_gpu_gemm_library *maker; /* library that has the algorithm */
  tri_gpu_algorithm algorithm;
} tri_gpu_gemm_choice;

typedef struct tri_gpu_gemm_entry {
  tri_gpu_gemm product;
  bool planned; /* whether the GEMM was requested while memory was planned */
  bool chosen;
  tri_gpu_gemm_choice choice;
  int passed; /* index of the candidate to try after the next refusal; 0 before the first refusal */
} tri_gpu_gemm_entry;

struct tri_gpu_gemms {
  tri_gpu *gpu;
  pthread_mutex_t lock;               /* protects `entries`, and the opening of the library */
  bool opened;                        /* whether the vendor's library has been looked for */
  const tri_gpu_gemm_library *vendor; /* NULL: not available, or it could not be opened */
  tri_gpu_gemm_state *state;          /* state of the vendor's library */
  tri_gpu_gemm_entry *entries;
  int64_t num_entries, room;
  bool allow_tf32;
  bool warned; /* whether the warning about a refused algorithm has been printed */
};

tri_status tri_gpu_gemms_create(tri_gpu *gpu, tri_gpu_gemms **out);
void tri_gpu_gemms_destroy(tri_gpu_gemms *products);

/* Opens the vendor's library, once. If the runtime has a library (tri_gpu_runtime.products) that cannot be opened,
 * prints a warning, and this program's own kernel computes all GEMMs. Always returns TRI_OK. */
tri_status tri_gpu_gemms_open(tri_gpu_gemms *products);

/* Returns the request to a library for the GEMM `of` whose addresses are aligned to `alignment` bytes. Call
 * tri_gpu_gemms_open first. */
tri_gpu_gemm tri_gpu_gemm_of(const tri_gpu_gemms *products, const tri_matmul *of, int alignment);
/* Returns the tri_matmul of a request: the inverse of tri_gpu_gemm_of, with a and b of one type. */
tri_matmul tri_gpu_gemm_matmul(const tri_gpu_gemm *product);

/* Adds a GEMM that a run will request to the list that tri_gpu_gemms_asked returns. Opens the vendor's library, if the
 * GEMM has elements (m and n above 0). */
tri_status tri_gpu_gemms_plan(tri_gpu_gemms *products, const tri_matmul *of);
/* Sets *out to the chosen algorithm. If none is chosen yet, chooses the first in the library's ranking. */
tri_status tri_gpu_gemms_choice(tri_gpu_gemms *products, const tri_gpu_gemm *product, tri_gpu_gemm_choice *out);
/* Lists the algorithms of the vendor's library in the order of its ranking. If it has none for the GEMM, or if k is 0,
 * lists the variants of this program's own kernel, beginning with that of tri_gpu_tiled_first. *count: the length of
 * the list. */
tri_status tri_gpu_gemms_candidates(tri_gpu_gemms *products, const tri_gpu_gemm *product,
                                    tri_gpu_gemm_choice out[TRI_GPU_MOST_ALGORITHMS], int *count);
/* Sets *out to the next candidate after the library has refused the current one, and chooses it. The last candidate is
 * this program's own kernel, which supports all GEMMs. Ranks with equal libraries get the same result. Only the first
 * call prints a warning, with the library's error message (tri_status_message). */
tri_status tri_gpu_gemms_next(tri_gpu_gemms *products, const tri_gpu_gemm *product, const tri_gpu_gemm_choice *refused,
                              tri_gpu_gemm_choice *out);
tri_status tri_gpu_gemms_set(tri_gpu_gemms *products, const tri_gpu_gemm *product, const tri_gpu_gemm_choice *choice);

/* Runs `of` with the chosen algorithm. `call` has the operands and the request (product); this function sets its other
 * members, and call->refused if the library does not support the algorithm. Narrows the bias if the library needs that,
 * and adds the bias after the GEMM if product->bias is not set. `workspace` has the bytes of tri_gpu_matmul_workspace,
 * without those of a converted b. */
tri_status tri_gpu_gemm_run(tri_queue *queue, const tri_matmul *of, const tri_gpu_gemm_choice *choice,
                            tri_gpu_gemm_call *call, void *workspace);

/* ---- GEMMs and choices as text (gemm_choices_text.c) ------------------------------------------------------------- */

enum { TRI_GPU_GEMM_TEXT_BYTES = 512 };

/* Prints the types of a (and b) and of c, then m, n, k, lda, ldb, ldc, the flags that are set ("-" if none is), and the
 * alignment: "bf16 fp32 768 2304 65536 768 2304 2304 a_transposed,accumulate 16". Returns text. */
const char *tri_gpu_gemm_print(const tri_gpu_gemm *product, char text[TRI_GPU_GEMM_TEXT_BYTES]);
/* Prints the line of tri_gpu_gemm_print, followed by " : cuBLASLt 4194304 2a0b..." (library, workspace_bytes, data).
 * Returns text. */
const char *tri_gpu_gemm_choice_print(const tri_gpu_gemm *product, const tri_gpu_gemm_choice *choice,
                                      char text[TRI_GPU_GEMM_TEXT_BYTES]);
/* Parse a line that these functions have printed. Return false if it is invalid; for a choice also if it names a
 * library that is not open, or an algorithm that needs more workspace than the GEMM has. */
bool tri_gpu_gemm_parse(const char *line, tri_gpu_gemm *product);
bool tri_gpu_gemm_choice_parse(const char *line, const tri_gpu_gemms *products, tri_gpu_gemm *product,
                               tri_gpu_gemm_choice *choice);

/* ---- timing (gemm_timing.c) -------------------------------------------------------------------------------------- */

/* Times the candidates on random operands, which the function allocates and frees, and sets *best to the index of the
 * fastest. Fails with TRI_OUT_OF_MEMORY if the operands do not fit. */
tri_status tri_gpu_gemm_fastest(tri_device *device, const tri_gpu_gemm *product, const tri_gpu_gemm_choice *candidates,
                                int count, int *best);

/* ---- the program's own kernels (matmul.c) ------------------------------------------------------------------------ */

/* Fails with TRI_UNSUPPORTED if the GEMM has types that the kernels do not support, with TRI_INTERNAL if it is invalid.
 * Each of b and c must have the type of a, or its wide type (tri_dtype_wide). */
tri_status tri_gpu_matmul_check(const tri_matmul *product);

/* Conversion of rows to dense rows of type `to`. The input rows are `ld` elements apart, and have the wide type
 * (in_is_wide) or `to`. */
typedef struct tri_gpu_narrowing {
  tri_dtype to;
  int64_t rows, width, ld;
  bool in_is_wide;
} tri_gpu_narrowing;
tri_status tri_gpu_narrow(tri_queue *queue, const tri_gpu_narrowing *what, const void *in, void *out);
/* Converts b from type `from` to the type of a, as a dense matrix; `product` has b's shape and `ldb`. */
tri_status tri_gpu_narrow_b(tri_queue *queue, const tri_matmul *product, tri_dtype from, const void *b, void *out);

/* The kernel's variants differ in their tiles; tri_gpu_tiled_first returns the variant that is likely the fastest, from
 * the shape alone. TRI_GPU_TILED_VERSION is increased whenever a variant sums in a different order. */
enum { TRI_GPU_TILED_VARIANTS = 2, TRI_GPU_TILED_VERSION = 1 };
int tri_gpu_tiled_first(const tri_matmul *product);
/* Returns the bytes of shared memory of a block with a large or small tile of c. */
size_t tri_gpu_tile_bytes(const tri_queue *queue, bool large);
/* Returns the arguments of a kernel for a product without bias. */
matmul_arguments tri_gpu_matmul_arguments(const tri_matmul *product, const void *a, const void *b, void *c);
tri_status tri_gpu_tiled_multiply(tri_queue *queue, const tri_matmul *product, int variant, const void *a,
                                  const void *b, const void *bias, void *c);

/* ---- device/description.h, device/kernels.h, device/gemm_choices.h ----------------------------------------------- */

/* Computes the same workspace as tri_description_accelerator. Also registers the GEMM (tri_gpu_gemms_plan), since a run
 * will request it from the device. */
tri_status tri_gpu_matmul_workspace(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
tri_status tri_gpu_matmul(tri_queue *queue, const tri_matmul *product, const void *a, const void *b, const void *bias,
                          void *c, void *workspace);
void tri_gpu_allow_tf32(tri_device *device);
void tri_gpu_chooser(tri_device *device, char out[TRI_DEVICE_GEMM_LIBRARY_BYTES]);
tri_status tri_gpu_gemms_asked(tri_device *device, char **out);
tri_status tri_gpu_gemms_choose(tri_device *device, const char *products, bool timed, char **choices);
tri_status tri_gpu_gemms_read(tri_device *device, const char *choices);

#endif
