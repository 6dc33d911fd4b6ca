/* Plans of how a GEMM is computed; each is made once and kept in the state. Internal to matmul*.c. */
#ifndef TRI_DEVICE_CPU_MATMUL_PLAN_H
#define TRI_DEVICE_CPU_MATMUL_PLAN_H

#include "device/cpu/matmul.h"
#include "device/cpu/onednn.h"

/* A length cut in `count` parts of `size`; the last part has size `last`. */
typedef struct tri_chunks {
  int64_t count, size, last;
} tri_chunks;

static inline int64_t tri_chunk_size(const tri_chunks *chunks, int64_t i) {
  return i + 1 < chunks->count ? chunks->size : chunks->last;
}

/* Extra elements between the rows of a staged fp32 operand, against aliasing in the cache. */
enum { TRI_STAGE_GAP = 32 };

typedef enum tri_matmul_path {
  TRI_PATH_ZERO,          /* k is 0: nothing to sum */
  TRI_PATH_SKINNY,        /* few rows, in generation: skinny_gemm.h */
  TRI_PATH_GEMM,          /* oneDNN's sgemm, on copies in fp32 if types are bf16 */
  TRI_PATH_THIN_DEPTH,    /* thin.h: c += a b^T with a short k */
  TRI_PATH_THIN_GRADIENT, /* thin.h: c = a^T b of few columns */
  TRI_PATH_PRIMITIVE,     /* oneDNN's matmul */
} tri_matmul_path;

/* A plan. Staged operands are copies in the workspace, at their offsets there. */
typedef struct tri_matmul_plan {
  tri_matmul product;
  tri_matmul_path path;
  tri_chunks rows;  /* chunks of rows of c, and of a */
  tri_chunks depth; /* chunks of k; one for the primitive */
  bool stage_a;     /* whether a is staged. SKINNY: up to TRI_MOST_ROWS rows in fp32. GEMM: a chunk of rows and depth in
                       fp32. PRIMITIVE: a chunk of rows, dense */
  bool stage_b;     /* whether b is staged. GEMM: a chunk of depth in fp32. PRIMITIVE: all of b, dense in a's type */
  bool pack_b;      /* PRIMITIVE: whether all of b is packed in panels (reorder.h) by each call */
  int64_t panel;    /* columns of a panel if pack_b is true */
  bool stage_c; /* whether c is staged. GEMM: a chunk of rows in fp32, or all rows if k is cut. PRIMITIVE: a chunk of
                   rows, dense */
  size_t a_offset, b_offset, c_offset, scratch_offset, workspace_bytes;
  tri_onednn_primitive multiply[2]; /* PRIMITIVE: primitives for a whole chunk of rows, and for the last chunk */
} tri_matmul_plan;

/* A blocked layout of b; bytes 0: packing is not supported or not useful. */
typedef struct tri_matmul_packing {
  size_t bytes;
  tri_onednn_layout layout;
  int64_t panel; /* columns of a panel, if the layout has panels (reorder.h), else 0 */
  tri_onednn_primitive
      fill[2]; /* if `panel` is 0: primitives that pack a plain b in fp32, and in bf16; created when first used */
} tri_matmul_packing;

enum { TRI_MATMUL_CACHE = 512 };

/* Plans and packings by GEMM. When the cache is full, all entries are dropped: a run has a few dozen shapes. */
typedef struct tri_matmul_cache {
  struct tri_matmul_entry {
    tri_matmul key;
    tri_matmul_plan *plan;
    tri_matmul_packing *packing; /* an entry has either a plan or a packing; both NULL: the slot is empty */
  } entries[TRI_MATMUL_CACHE];
  int64_t count;
} tri_matmul_cache;

struct tri_cpu_matmul_state {
  tri_cpu_matmul_options options;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  double bf16_ratio;
  tri_matmul_cache cache;
  struct tri_grouped_plan *grouped; /* list of plans of GEMMs of groups of rows (grouped_plan.c) */
};

/* Sets this thread's OpenMP team to `threads`, which oneDNN uses, and returns the previous number. */
int tri_matmul_enter(int threads);
void tri_matmul_leave(int before);

/* Create a plan or a packing in *out, which must be {0} (matmul_plan.c). After a failure *out owns nothing. */
tri_status tri_matmul_plan_make(tri_cpu_matmul_state *state, const tri_matmul *product, tri_matmul_plan *out);
tri_status tri_matmul_packing_make(tri_cpu_matmul_state *state, const tri_matmul *product, tri_matmul_packing *out);
/* Divides c into tiles; one thread computes a tile with sgemm. */
void tri_matmul_tiles(int64_t rows, int64_t columns, tri_chunks *row_tiles, tri_chunks *column_tiles);
void tri_matmul_plan_release(tri_matmul_plan *plan);
void tri_matmul_packing_release(tri_matmul_packing *packing);

/* Checks types and sizes (matmul.c). Fails with TRI_UNSUPPORTED for a combination of types that the device lacks,
 * and with TRI_INTERNAL for illegal sizes. */
tri_status tri_cpu_matmul_check(const tri_matmul *product);
/* Packs b, which has the type b_plain_type, in the layout for `product` (matmul.c). Fails with TRI_INTERNAL if the
 * GEMM has no packed b. */
tri_status tri_matmul_pack_into(tri_cpu_matmul_state *state, const tri_matmul *product, tri_dtype b_plain_type,
                                const void *b, void *packed);

/* Returns whether two GEMMs have the same plan (matmul_state.c). */
bool tri_matmul_same(const tri_matmul *a, const tri_matmul *b);
/* Find an entry in the cache, or create it. *out is valid until the next call. */
tri_status tri_matmul_plan_find(tri_cpu_matmul_state *state, const tri_matmul *product, tri_matmul_plan **out);
tri_status tri_matmul_packing_find(tri_cpu_matmul_state *state, const tri_matmul *product, tri_matmul_packing **out);

#endif
