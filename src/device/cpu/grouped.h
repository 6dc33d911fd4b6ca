/* GEMMs of groups of rows (description.h): plans, which are made once for a shape and kept, and the tiles that a thread
 * computes. For grouped*.c only, except for the two functions of the device's tables. */
#ifndef TRI_DEVICE_CPU_GROUPED_H
#define TRI_DEVICE_CPU_GROUPED_H

#include "device/cpu/matmul_plan.h"

tri_status tri_cpu_grouped_workspace(const tri_device_description *of, const tri_grouped_matmul *product,
                                     size_t *bytes);
tri_status tri_cpu_grouped_matmul(tri_queue *queue, const tri_grouped_matmul *product, const int32_t *begins,
                                  const void *a, const void *b, void *c, void *workspace);

enum { TRI_GROUPED_SIZES = 8 };

/* A plan. Each thread computes its own tiles, with its own part of the workspace, to which operands are copied if their
 * layout does not suit the library or if they have fewer rows than a tile. */
typedef struct tri_grouped_plan {
  struct tri_grouped_plan *next;
  tri_matmul product;   /* GEMM of one group; plans do not depend on the number of rows */
  tri_matmul_path path; /* engine of the GEMM; ZERO: k or n is 0 */

  /* Numbers of rows of a tile, ascending. GEMM: rows of a and c; all sizes give the same bits for a row. Gradient: rows
   * of a and b that are summed at once. */
  int num_sizes;
  int64_t sizes[TRI_GROUPED_SIZES];

  tri_chunks down, across;        /* tiles of a gradient; a GEMM by sgemm is only cut across */
  tri_chunks depth;               /* division of k in a GEMM by sgemm */
  bool stage_a, stage_b, stage_c; /* whether the operand is always copied, not only if rows are missing */
  bool packs;                     /* whether b is packed during the call, one group at a time */
  size_t a_offset, b_offset, c_offset,
      scratch_offset, /* offsets of the copies and of scratch memory in a thread's memory */
      thread_bytes,   /* size of a thread's memory */
      packed_bytes;   /* size of the packed b of one group; 0: b is not packed during the call */

  /* PRIMITIVE: the primitive of a thread is multiply[(kind * num_sizes + size) * threads + thread]. kind:
   * tri_grouped_kind in a gradient, 0 in a GEMM. */
  int threads, num_primitives;
  tri_onednn_primitive *multiply;
  dnnl_stream_t *streams;
} tri_grouped_plan;

/* The operands of one call. */
typedef struct tri_grouped_call {
  tri_cpu_matmul_state *state;
  const tri_grouped_plan *plan;
  const tri_matmul *product; /* the caller's GEMM, with its ldb, which is not part of a packed plan */
  const char *a, *b;
  char *c, *threads_memory;
  const int32_t *begins;
  int64_t groups, stride_bytes;
} tri_grouped_call;

static inline char *tri_grouped_memory(const tri_grouped_call *at, int thread, size_t offset) {
  return at->threads_memory + (size_t)thread * at->plan->thread_bytes + offset;
}

/* Copies a matrix on the calling thread, and converts it. */
static inline void tri_grouped_copy(const tri_grouped_call *at, int64_t rows, int64_t columns, const char *from,
                                    tri_dtype from_type, int64_t from_ld, char *to, tri_dtype to_type, int64_t to_ld) {
  tri_cpu_rows job = {.rows = rows,
                      .columns = columns,
                      .from = from,
                      .from_type = from_type,
                      .from_ld = from_ld,
                      .to = to,
                      .to_type = to_type,
                      .to_ld = to_ld};
  at->state->options.copy_rows(1, &job);
}

/* Finds the plan of a GEMM in the state's list, or creates it (grouped_plan.c). The state owns the plan. */
tri_status tri_grouped_plan_find(tri_cpu_matmul_state *state, const tri_matmul *product, tri_grouped_plan **out);
void tri_grouped_plans_destroy(tri_grouped_plan *first);
/* Returns the index of a gradient's primitive. It depends on whether the tile is the last one down, whose height may
 * differ, and on whether the GEMM accumulates. */
static inline int tri_grouped_kind(bool last_down, bool accumulate) {
  return (last_down ? 2 : 0) + (accumulate ? 1 : 0);
}
enum { TRI_GROUPED_KINDS = 4 };

/* grouped_rows.c. Computes a tile of a GEMM, of plan->sizes[size] rows, on thread number `thread`: `live` rows of a
 * and c, with b of their group. Returns oneDNN's status. */
dnnl_status_t tri_grouped_rows(const tri_grouped_call *at, int thread, int size, int64_t live, const char *a,
                               const char *b, char *c);

/* grouped_gradient.c. Computes tile (down, across) of the gradient of one group, on thread number `thread`. Returns
 * oneDNN's status. */
dnnl_status_t tri_grouped_gradient(const tri_grouped_call *at, int thread, int64_t group, int64_t down, int64_t across);

#endif
