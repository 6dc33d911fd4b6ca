/* Matrix products. Three libraries make them: the vendors' two (cublaslt.c, hipblaslt.c) and the kernel of this program
 * (tiled.c), for whatever a vendor's library does not take, or without such a library.
 *
 * How a product is made, its algorithm, is chosen once for each product: by the library's own ranking, or by timing
 * where that is asked for (gemm_choices.c). Equal algorithms of one version of a library give equal bits on equal
 * chips, so one rank chooses for all, and what it chose is written down (device/gemm_choices.h). */
#ifndef TRI_DEVICE_GPU_GEMM_H
#define TRI_DEVICE_GPU_GEMM_H

#include "device/gemm_choices.h"
#include "device/gpu/internal.h"

/* A product as a library is asked for it: row-major, as tri_matmul has it. Two products that are equal here are made
 * the same way. */
typedef struct tri_gpu_product {
  int64_t m, n, k, lda, ldb, ldc;
  tri_dtype in, out; /* of a and b; of c */
  bool a_transposed, b_transposed, accumulate;
  bool bias;     /* of n elements, added by the library */
  bool tf32;     /* fp32 operands may be rounded to 10 bits */
  int alignment; /* of the addresses of a, b and c: 16 bytes, or the less that they have */
} tri_gpu_product;

/* How a library makes it: the library's own data, good for the same version on the same chip. */
enum { TRI_GPU_ALGORITHM_BYTES = 64, TRI_GPU_MOST_ALGORITHMS = 8, TRI_GPU_PRODUCT_VERSION_BYTES = 64 };
typedef struct tri_gpu_algorithm {
  unsigned char data[TRI_GPU_ALGORITHM_BYTES];
  size_t workspace_bytes; /* that it wants */
} tri_gpu_algorithm;

typedef struct tri_gpu_product_call {
  const tri_gpu_product *product;
  const tri_gpu_algorithm *algorithm;
  const void *a, *b, *bias; /* device memory; bias may be NULL */
  void *c, *workspace;      /* of 256 bytes' alignment */
  size_t workspace_bytes;
  bool refused; /* set where it failed because the library does not take the algorithm: nothing has been queued */
} tri_gpu_product_call;

/* Objects of the library's own. */
typedef struct tri_gpu_product_state tri_gpu_product_state;

struct tri_gpu_product_library {
  const char *name; /* "cuBLASLt" */
  /* Fails, saying where it was looked for and how to get it, where it cannot be had or is of a version that is not
   * known. */
  tri_status (*open)(tri_gpu *gpu, tri_gpu_product_state **out);
  void (*close)(tri_gpu_product_state *state);
  /* Finds the file without a GPU, for people who ask: *path lives as long as the program; `version` is "" if it says
   * that with a GPU alone. The same failures as open's. NULL if there is no file. */
  tri_status (*look)(char version[TRI_GPU_PRODUCT_VERSION_BYTES], const char **path);
  void (*version)(const tri_gpu_product_state *state, char out[TRI_GPU_PRODUCT_VERSION_BYTES]); /* "13.1.0" */
  bool (*adds_bias)(const tri_gpu_product *product); /* whether it takes one with such a product */
  bool narrows_bias;                                 /* it takes that in the type of c, and not a wide one */
  /* At most TRI_GPU_MOST_ALGORITHMS that want no more workspace than there is, what it holds best first. *count 0 if
   * it does not take the product. */
  tri_status (*algorithms)(tri_gpu_product_state *state, const tri_gpu_product *product, size_t workspace_bytes,
                           tri_gpu_algorithm out[TRI_GPU_MOST_ALGORITHMS], int *count);
  tri_status (*multiply)(tri_gpu_product_state *state, tri_queue *queue, tri_gpu_product_call *call);
};

extern const tri_gpu_product_library tri_gpu_cublaslt, tri_gpu_hipblaslt, tri_gpu_tiled;

/* Workspace that a library gets at least, whatever else a product keeps there, for the choice to depend on the product
 * alone. */
size_t tri_gpu_product_workspace(const tri_gpu_product *product);

/* ---- what has been chosen (gemm_choices.c) -------------------------------------------------------------------- */

typedef struct tri_gpu_product_choice {
  const tri_gpu_product_library *maker;
  tri_gpu_algorithm algorithm;
} tri_gpu_product_choice;

typedef struct tri_gpu_product_entry {
  tri_gpu_product product;
  bool planned; /* requested while planning */
  bool chosen;
  tri_gpu_product_choice choice;
  int passed; /* candidates that need not be tried again, once the library has refused what was chosen */
} tri_gpu_product_entry;

struct tri_gpu_products {
  tri_gpu *gpu;
  pthread_mutex_t lock;                  /* of all that follows */
  bool opened;                           /* the vendor's library has been looked for */
  const tri_gpu_product_library *vendor; /* NULL: there is none, or it could not be opened */
  tri_gpu_product_state *state;          /* the vendor's */
  tri_gpu_product_entry *entries;
  int64_t num_entries, room;
  bool allow_tf32;
  bool told; /* that it has refused one */
};

tri_status tri_gpu_products_create(tri_gpu *gpu, tri_gpu_products **out);
void tri_gpu_products_destroy(tri_gpu_products *products);

/* Looks for the vendor's library, once. Where there should be one and it cannot be had, a warning says so, and this
 * program's own kernels make all products. */
tri_status tri_gpu_products_open(tri_gpu_products *products);

/* What the library is asked for where the program wants `of`; addresses of `alignment`. The library is open. */
tri_gpu_product tri_gpu_product_of(const tri_gpu_products *products, const tri_matmul *of, int alignment);
/* What the program would have asked for to come to this product. */
tri_matmul tri_gpu_product_matmul(const tri_gpu_product *product);

/* Somebody plans to ask for it. */
tri_status tri_gpu_products_plan(tri_gpu_products *products, const tri_matmul *of);
/* How it is made: as chosen before, or chosen now by the library's ranking. */
tri_status tri_gpu_products_choice(tri_gpu_products *products, const tri_gpu_product *product,
                                   tri_gpu_product_choice *out);
/* All ways to make it, the library's first; the own kernel's where the library has none. */
tri_status tri_gpu_products_candidates(tri_gpu_products *products, const tri_gpu_product *product,
                                       tri_gpu_product_choice out[TRI_GPU_MOST_ALGORITHMS], int *count);
/* The library has refused that, as its message says: the next candidate, at last the own kernel, which takes all. Ranks
 * of equal libraries come to the same. A warning says it, of the first product alone. */
tri_status tri_gpu_products_next(tri_gpu_products *products, const tri_gpu_product *product,
                                 const tri_gpu_product_choice *refused, tri_gpu_product_choice *out);
tri_status tri_gpu_products_set(tri_gpu_products *products, const tri_gpu_product *product,
                                const tri_gpu_product_choice *choice);

/* Runs it: `of` is what the program wants. */
tri_status tri_gpu_product_run(tri_queue *queue, const tri_matmul *of, const tri_gpu_product_choice *choice,
                               tri_gpu_product_call *call, void *workspace);

/* ---- texts of both (gemm_choices_text.c)
 * ------------------------------------------------------------------------------ */

enum { TRI_GPU_PRODUCT_TEXT_BYTES = 512 };

/* "bf16 fp32 768 2304 65536 768 2304 2304 a_transposed,accumulate 16"; returns text. */
const char *tri_gpu_product_print(const tri_gpu_product *product, char text[TRI_GPU_PRODUCT_TEXT_BYTES]);
/* The same with " : cuBLASLt 4194304 2a0b..." behind it. */
const char *tri_gpu_product_choice_print(const tri_gpu_product *product, const tri_gpu_product_choice *choice,
                                         char text[TRI_GPU_PRODUCT_TEXT_BYTES]);
/* Reads a line of either; false if it is invalid. `choice` may be NULL. */
bool tri_gpu_product_parse(const char *line, tri_gpu_product *product);
bool tri_gpu_product_choice_parse(const char *line, const tri_gpu_products *products, tri_gpu_product *product,
                                  tri_gpu_product_choice *choice);

/* ---- timing (gemm_timing.c) ----------------------------------------------------------------------------------- */

/* The fastest of the candidates on random operands, which it allocates and gives back; TRI_OUT_OF_MEMORY if there is
 * no room for them. */
tri_status tri_gpu_product_fastest(tri_device *device, const tri_gpu_product *product,
                                   const tri_gpu_product_choice *candidates, int count, int *best);

/* ---- the program's own kernels (matmul.c) ------------------------------------------------------------------------ */

/* What makes no sense, or is of types that are never multiplied. */
tri_status tri_gpu_matmul_check(const tri_matmul *product);

/* Rows of wide numbers, or of `to`, ld apart, as numbers of `to` densely. */
typedef struct tri_gpu_narrowing {
  tri_dtype to;
  int64_t rows, width, ld;
  bool in_is_wide;
} tri_gpu_narrowing;
tri_status tri_gpu_narrow(tri_queue *queue, const tri_gpu_narrowing *what, const void *in, void *out);
/* b of this type, as `product` says but for that, densely in the type of a. */
tri_status tri_gpu_narrow_b(tri_queue *queue, const tri_matmul *product, tri_dtype from, const void *b, void *out);

/* The kernel's variants differ in their tiles; the first is the one that is likely the fastest, by the shape alone. The
 * version changes whenever one of them adds up in another order. */
enum { TRI_GPU_TILED_VARIANTS = 2, TRI_GPU_TILED_VERSION = 1 };
int tri_gpu_tiled_first(const tri_matmul *product);
/* The shared memory that a block asks for, whose tile of c is large or small. */
size_t tri_gpu_tile_bytes(const tri_queue *queue, bool large);
tri_status tri_gpu_tiled_multiply(tri_queue *queue, const tri_matmul *product, int variant, const void *a,
                                  const void *b, const void *bias, void *c);

/* ---- device/description.h, device/kernels.h, device/gemm_choices.h
 * ---------------------------------------------------- */

/* As the planned accelerator's, and the product is one that the device will be asked for. */
tri_status tri_gpu_matmul_workspace(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
tri_status tri_gpu_matmul(tri_queue *queue, const tri_matmul *product, const void *a, const void *b, const void *bias,
                          void *c, void *workspace);
void tri_gpu_allow_tf32(tri_device *device);
void tri_gpu_chooser(tri_device *device, char out[TRI_DEVICE_GEMM_LIBRARY_BYTES]);
tri_status tri_gpu_products_asked(tri_device *device, char **out);
tri_status tri_gpu_products_choose(tri_device *device, const char *products, bool timed, char **choices);
tri_status tri_gpu_products_take(tri_device *device, const char *choices);

#endif
