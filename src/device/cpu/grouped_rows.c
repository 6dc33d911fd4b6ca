/* A tile of rows times the matrix of their group, on one thread.
 *
 * The last tile of a group may have fewer rows than the tile's size. The rows that it lacks are zeros in a copy of
 * a, and their results stay in a copy of c. */
#include "device/cpu/grouped.h"

#include <string.h>

/* Copies `rows` rows of `from` to `size` dense rows of `to`, padded with zeros. */
static void stage_rows(const tri_grouped_call *at, int64_t rows, int64_t size, int64_t columns, const char *from,
                       tri_dtype from_type, int64_t from_ld, char *to, tri_dtype to_type) {
  const size_t row_bytes = (size_t)columns * tri_dtype_bytes(to_type);
  tri_grouped_copy(at, rows, columns, from, from_type, from_ld, to, to_type, columns);
  memset(to + (size_t)rows * row_bytes, 0, (size_t)(size - rows) * row_bytes);
}

static void unstage_rows(const tri_grouped_call *at, int64_t rows, int64_t columns, const char *from,
                         tri_dtype from_type, char *to) {
  const tri_matmul *p = at->product;
  tri_grouped_copy(at, rows, columns, from, from_type, columns, to, p->c_type, p->ldc);
}

/* ---- the primitive ----------------------------------------------------------------------------------------------- */

static dnnl_status_t primitive_rows(const tri_grouped_call *at, int thread, int size, int64_t live, const char *a,
                                    const char *b, char *c) {
  const tri_grouped_plan *plan = at->plan;
  const tri_matmul *p = at->product;
  const int64_t rows = plan->sizes[size];
  const bool stage_a = plan->stage_a || live < rows, stage_c = plan->stage_c || live < rows;
  char *own_c = stage_c ? tri_grouped_memory(at, thread, plan->c_offset) : c;
  if (stage_a) {
    char *own_a = tri_grouped_memory(at, thread, plan->a_offset);
    stage_rows(at, live, rows, p->k, a, p->a_type, p->lda, own_a, p->a_type);
    a = own_a;
  }
  if (stage_c && p->accumulate) stage_rows(at, live, rows, p->n, c, p->c_type, p->ldc, own_c, p->c_type);
  dnnl_status_t status =
      tri_onednn_product_execute(plan->streams[thread], &plan->multiply[size * plan->threads + thread], a, b, NULL,
                                 own_c, tri_grouped_memory(at, thread, plan->scratch_offset));
  if (stage_c) unstage_rows(at, live, p->n, own_c, p->c_type, c);
  return status;
}

/* ---- sgemm ------------------------------------------------------------------------------------------------------- */

/* Returns rows [row, row + rows) and columns [column, column + columns) of b in fp32, as b is stored: in place, or
 * in a copy. Sets *ld to the leading dimension. */
static const float *part_of_b(const tri_grouped_call *at, int thread, const char *b, int64_t row, int64_t rows,
                              int64_t column, int64_t columns, int64_t *ld) {
  const tri_matmul *p = at->product;
  const bool t = p->b_transposed;
  const char *from = b + (size_t)((t ? column : row) * p->ldb + (t ? row : column)) * tri_dtype_bytes(p->b_type);
  *ld = p->ldb;
  if (!at->plan->stage_b) return (const float *)(const void *)from;
  char *to = tri_grouped_memory(at, thread, at->plan->b_offset);
  *ld = (t ? rows : columns) + TRI_STAGE_GAP;
  tri_cpu_rows job = {.rows = t ? columns : rows,
                      .columns = t ? rows : columns,
                      .from = from,
                      .from_type = p->b_type,
                      .from_ld = p->ldb,
                      .to = to,
                      .to_type = TRI_FP32,
                      .to_ld = *ld};
  at->state->options.copy_rows(1, &job);
  return (const float *)(const void *)to;
}

/* Computes c[rows, columns] (+)= a b[all its depth, columns from `column` on]. */
static dnnl_status_t gemm_columns(const tri_grouped_call *at, int thread, int64_t rows, int64_t column, int64_t columns,
                                  const float *a, int64_t lda, const char *b, float *c, int64_t ldc) {
  const tri_matmul *p = at->product;
  const tri_chunks *depth = &at->plan->depth;
  dnnl_status_t status = dnnl_success;
  for (int64_t d = 0; d < depth->count && status == dnnl_success; d++) {
    int64_t ldb = 0;
    const int64_t first = d * depth->size, deep = tri_chunk_size(depth, d);
    const float *part = part_of_b(at, thread, b, first, deep, column, columns, &ldb);
    status = dnnl_sgemm('N', p->b_transposed ? 'T' : 'N', rows, columns, deep, 1.0f, a + first, lda, part, ldb,
                        d > 0 || p->accumulate ? 1.0f : 0.0f, c, ldc);
  }
  return status;
}

static dnnl_status_t gemm_rows(const tri_grouped_call *at, int thread, int size, int64_t live, const char *a,
                               const char *b, char *c) {
  const tri_grouped_plan *plan = at->plan;
  const tri_matmul *p = at->product;
  const int64_t rows = plan->sizes[size];
  const bool stage_a = plan->stage_a || live < rows, stage_c = plan->stage_c || live < rows;
  int64_t lda = p->lda;
  dnnl_status_t status = dnnl_success;
  if (stage_a) {
    char *own = tri_grouped_memory(at, thread, plan->a_offset);
    stage_rows(at, live, rows, p->k, a, p->a_type, p->lda, own, TRI_FP32);
    a = own;
    lda = p->k;
  }
  for (int64_t x = 0; x < plan->across.count && status == dnnl_success; x++) {
    const int64_t column = x * plan->across.size, columns = tri_chunk_size(&plan->across, x);
    char *to = c + (size_t)column * tri_dtype_bytes(p->c_type);
    char *own = stage_c ? tri_grouped_memory(at, thread, plan->c_offset) : to;
    if (stage_c && p->accumulate) stage_rows(at, live, rows, columns, to, p->c_type, p->ldc, own, TRI_FP32);
    status = gemm_columns(at, thread, rows, column, columns, (const float *)(const void *)a, lda, b,
                          (float *)(void *)own, stage_c ? columns : p->ldc);
    if (stage_c) unstage_rows(at, live, columns, own, TRI_FP32, to);
  }
  return status;
}

/* ---- both paths -------------------------------------------------------------------------------------------------- */

dnnl_status_t tri_grouped_rows(const tri_grouped_call *at, int thread, int size, int64_t live, const char *a,
                               const char *b, char *c) {
  const tri_matmul *p = at->product;
  const size_t element = tri_dtype_bytes(p->c_type);
  switch (at->plan->path) {
    case TRI_PATH_GEMM: return gemm_rows(at, thread, size, live, a, b, c);
    case TRI_PATH_PRIMITIVE: return primitive_rows(at, thread, size, live, a, b, c);
    case TRI_PATH_THIN_DEPTH:
    case TRI_PATH_THIN_GRADIENT:
    case TRI_PATH_SKINNY: break; /* this path is only for a single matrix */
    case TRI_PATH_ZERO:
      for (int64_t i = 0; i < live && !p->accumulate; i++) {
        memset(c + (size_t)(i * p->ldc) * element, 0, (size_t)p->n * element);
      }
      break;
  }
  return dnnl_success;
}
