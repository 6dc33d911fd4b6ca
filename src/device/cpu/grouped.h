/* Matrix products of rows in groups (description.h): how they are computed, made once for a shape and kept, and the
 * pieces that one thread computes. Internal to grouped*.c, but for the two functions of the device's tables. */
#ifndef TRI_DEVICE_CPU_GROUPED_H
#define TRI_DEVICE_CPU_GROUPED_H

#include "device/cpu/matmul_plan.h"

tri_status tri_cpu_grouped_workspace(const tri_device_description *of, const tri_grouped_matmul *product,
                                     size_t *bytes);
tri_status tri_cpu_grouped_matmul(tri_queue *queue, const tri_grouped_matmul *product, const int32_t *begins,
                                  const void *a, const void *b, void *c, void *workspace);

enum { TRI_GROUPED_SIZES = 8 };

/* Each thread computes tiles of its own, in a part of the workspace of its own, where operands are staged that lie
 * otherwise than an engine wants or that have fewer rows than a tile. */
typedef struct tri_grouped_plan {
  struct tri_grouped_plan *next;
  tri_matmul product;   /* of one group; how many rows there are is not a part of it */
  tri_matmul_path path; /* ZERO: a product of no depth */

  /* Rows in a tile, ascending. Product: of a and c, tiles whose rows are equal bits for bits. Gradient by the
   * primitive: of a and b. */
  int num_sizes;
  int64_t sizes[TRI_GROUPED_SIZES];

  tri_chunks down, across;        /* tiles of a gradient; a product by sgemm is cut across */
  tri_chunks depth;               /* of a product by sgemm                                  */
  bool stage_a, stage_b, stage_c; /* always, and not only where rows are missing           */
  bool packs;                     /* b is packed on the way, one group's at a time          */
  size_t a_offset, b_offset, c_offset, scratch_offset, thread_bytes, packed_bytes;

  /* PRIMITIVE, for each of the threads. Product: by size. Gradient: by tri_grouped_kind and size. */
  int threads, num_primitives;
  tri_onednn_primitive *multiply;
  dnnl_stream_t *streams;
} tri_grouped_plan;

/* What one call works on. */
typedef struct tri_grouped_call {
  tri_cpu_matmul_state *state;
  const tri_grouped_plan *plan;
  const tri_matmul *product; /* the caller's: ldb is not a part of a packed plan */
  const char *a, *b;
  char *c, *threads_memory;
  const int32_t *begins;
  int64_t groups, stride_bytes;
} tri_grouped_call;

static inline char *tri_grouped_memory(const tri_grouped_call *at, int thread, size_t offset) {
  return at->threads_memory + (size_t)thread * at->plan->thread_bytes + offset;
}

/* grouped_plan.c: from the state's list, made where it is missing. */
tri_status tri_grouped_plan_find(tri_cpu_matmul_state *state, const tri_matmul *product, tri_grouped_plan **out);
void tri_grouped_plans_destroy(tri_grouped_plan *first);
/* Of a gradient's primitives: which of the two heights of a tile, and whether it adds. */
static inline int tri_grouped_kind(bool last_down, bool accumulate) {
  return (last_down ? 2 : 0) + (accumulate ? 1 : 0);
}
enum { TRI_GROUPED_KINDS = 4 };

/* grouped_rows.c. A tile of a product: `live` rows of a and c, b of their group. */
dnnl_status_t tri_grouped_rows(const tri_grouped_call *at, int thread, int size, int64_t live, const char *a,
                               const char *b, char *c);

/* grouped_gradient.c. A tile of a gradient: of one group's rows, from the first of which a and b begin. */
dnnl_status_t tri_grouped_gradient(const tri_grouped_call *at, int thread, int64_t group, int64_t down, int64_t across);

#endif
