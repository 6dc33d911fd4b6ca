/* The four functions of the device's table for GEMMs: they look up the plan of a GEMM (matmul_plan.c) and execute
 * it. */
#include "device/cpu/matmul.h"

#include "base/memory.h"
#include "device/cpu/matmul_plan.h"

#include <string.h>

/* The operands of one call. */
typedef struct call {
  tri_cpu_matmul_state *state;
  const tri_matmul_plan *plan;
  const tri_matmul *product; /* the caller's GEMM, with its ldb, which is not part of a packed plan */
  const char *a, *b;
  const void *bias;
  char *c;
  char *workspace;
} call;

/* ---- supported GEMMs --------------------------------------------------------------------------------------------- */

static tri_status check_types(const tri_matmul *p) {
  bool narrow_b = p->b_type == TRI_BF16 || p->b_type == TRI_FP32;
  bool narrow_c = p->c_type == TRI_BF16 || p->c_type == TRI_FP32;
  if (p->a_type == TRI_FP32 && narrow_b && p->c_type == TRI_FP32) return TRI_OK;
  if (p->a_type == TRI_BF16 && narrow_b && narrow_c) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "the cpu device has no matrix product of %s and %s into %s; it has fp32 with either into fp32, "
                  "and bf16 with either (fp64: device: reference)",
                  tri_dtype_name(p->a_type), tri_dtype_name(p->b_type), tri_dtype_name(p->c_type));
}

tri_status tri_cpu_matmul_check(const tri_matmul *p) {
  TRI_TRY(check_types(p));
  bool sizes = p->m >= 0 && p->n >= 0 && p->k >= 0;
  bool lda = p->lda >= (p->a_transposed ? p->m : p->k);
  bool ldb = p->b_packed || p->ldb >= (p->b_transposed ? p->k : p->n);
  if (sizes && lda && ldb && p->ldc >= p->n && !(p->bias && p->accumulate)) return TRI_OK;
  return tri_fail_internal(
      "a matrix product of %lld x %lld x %lld with leading dimensions %lld, %lld, %lld%s: a row is longer "
      "than its leading dimension, or bias and accumulate meet",
      (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->lda, (long long)p->ldb, (long long)p->ldc,
      p->bias && p->accumulate ? ", bias and accumulate" : "");
}

tri_status tri_cpu_matmul_workspace(const tri_device_description *of, const tri_matmul *product, size_t *bytes) {
  tri_matmul_plan *plan = NULL;
  TRI_TRY(tri_cpu_matmul_check(product));
  *bytes = 0;
  if (product->m == 0 || product->n == 0) return TRI_OK;
  TRI_TRY(tri_matmul_plan_find(tri_cpu_matmul_state_of(of), product, &plan));
  *bytes = plan->workspace_bytes;
  return TRI_OK;
}

tri_status tri_cpu_matmul_packed(const tri_device_description *of, const tri_matmul *product, size_t *bytes) {
  tri_matmul_packing *packing = NULL;
  TRI_TRY(tri_cpu_matmul_check(product));
  TRI_TRY(tri_matmul_packing_find(tri_cpu_matmul_state_of(of), product, &packing));
  *bytes = packing->bytes;
  return TRI_OK;
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

enum { GENERATING_DEPTH = 2, ONEDNN_DEPTH = 32 }; /* depths of panels (reorder.h) */

static tri_status make_fill(tri_cpu_matmul_state *state, const tri_matmul *p, tri_dtype plain_type,
                            tri_matmul_packing *packing, tri_onednn_primitive *out) {
  tri_onednn_layout plain = {0};
  TRI_TRY(tri_onednn_layout_strided(plain_type, p->k, p->n, p->b_transposed ? 1 : p->ldb, p->b_transposed ? p->ldb : 1,
                                    &plain));
  tri_status status = tri_onednn_reorder_create(state->engine, &plain, &packing->layout, out);
  tri_onednn_layout_destroy(&plain);
  return status;
}

tri_status tri_cpu_matmul_pack(tri_queue *queue, const tri_matmul *product, tri_dtype b_plain_type, const void *b,
                               void *packed) {
  return tri_matmul_pack_into(tri_cpu_matmul_state_of(&queue->device->description), product, b_plain_type, b, packed);
}

/* Packs b in panels of `width` columns. */
static void pack_panels(const tri_cpu_matmul_state *state, const tri_matmul *p, tri_dtype plain_type, int64_t width,
                        int64_t depth, const void *b, void *packed) {
  const tri_cpu_panels job = {
      .n = p->n,
      .k = p->k,
      .ldb = p->ldb,
      .width = width,
      .depth = depth,
      .b_type = plain_type,
      .b_transposed = p->b_transposed,
      .b = b,
      .panels = packed,
  };
  state->options.pack_panels(state->options.threads, &job);
}

static tri_status pack_in_place(const tri_cpu_matmul_state *state, const tri_matmul *p, tri_dtype plain_type,
                                void *packed) {
  const size_t bytes = (size_t)(p->k * p->n) * tri_dtype_bytes(plain_type);
  void *copy = NULL;
  TRI_TRY(tri_alloc("a copy of a weight", bytes, 1, &copy));
  memcpy(copy, packed, bytes);
  pack_panels(state, p, plain_type, TRI_PANEL, GENERATING_DEPTH, copy, packed);
  tri_free(copy);
  return TRI_OK;
}

tri_status tri_matmul_pack_into(tri_cpu_matmul_state *state, const tri_matmul *product, tri_dtype b_plain_type,
                                const void *b, void *packed) {
  tri_matmul_packing *packing = NULL;
  TRI_TRY(tri_cpu_matmul_check(product));
  TRI_TRY(tri_matmul_packing_find(state, product, &packing));
  if (packing->bytes == 0 || (b_plain_type != TRI_FP32 && b_plain_type != product->b_type)) {
    return tri_fail_internal("%s values are packed as %s for a product that takes no such b; ask matmul_packed",
                             tri_dtype_name(b_plain_type), tri_dtype_name(product->b_type));
  }
  if (product->generating && b == packed) return pack_in_place(state, product, b_plain_type, packed);
  if (product->generating || packing->panel > 0) {
    pack_panels(state, product, b_plain_type, product->generating ? TRI_PANEL : packing->panel,
                product->generating ? GENERATING_DEPTH : ONEDNN_DEPTH, b, packed);
    return TRI_OK;
  }
  bool dense = product->ldb == (product->b_transposed ? product->k : product->n);
  tri_onednn_primitive once = {0};
  tri_onednn_primitive *fill = dense ? &packing->fill[b_plain_type == TRI_BF16] : &once;
  int before = tri_matmul_enter(state->options.threads);
  tri_status status = TRI_OK;
  if (fill->primitive == NULL) status = make_fill(state, product, b_plain_type, packing, fill);
  if (status == TRI_OK) status = tri_onednn_reorder_run(state->stream, fill, b, packed);
  tri_matmul_leave(before);
  tri_onednn_primitive_destroy(&once);
  return status;
}

/* ---- the primitive ----------------------------------------------------------------------------------------------- */

/* Returns b, or its dense copy in a's type in the workspace. */
static const void *staged_b(const call *at) {
  const tri_matmul *p = at->product;
  if (!at->plan->stage_b) return at->b;
  int64_t row = p->b_transposed ? p->k : p->n;
  tri_cpu_rows job = {
      .rows = p->b_transposed ? p->n : p->k,
      .columns = row,
      .from = at->b,
      .from_type = p->b_type,
      .from_ld = p->ldb,
      .to = at->workspace + at->plan->b_offset,
      .to_type = p->a_type,
      .to_ld = row,
  };
  at->state->options.copy_rows(at->state->options.threads, &job);
  return job.to;
}

/* Copies the rows of c from `first` on to their dense copy, or back. */
static void exchange_c(const call *at, int64_t first, int64_t rows, bool to_stage) {
  const tri_matmul *p = at->product;
  char *stored = at->c + (size_t)(first * p->ldc) * tri_dtype_bytes(p->c_type);
  char *stage = at->workspace + at->plan->c_offset;
  tri_cpu_rows job = {
      .rows = rows,
      .columns = p->n,
      .from = to_stage ? stored : stage,
      .from_type = p->c_type,
      .from_ld = to_stage ? p->ldc : p->n,
      .to = to_stage ? stage : stored,
      .to_type = p->c_type,
      .to_ld = to_stage ? p->n : p->ldc,
  };
  at->state->options.copy_rows(at->state->options.threads, &job);
}

/* Copies `rows` rows of a from `first` on to their stage: transposed, or without the gaps between rows. */
static void stage_a(const call *at, int64_t first, int64_t rows, char *stage) {
  const tri_matmul *p = at->product;
  const int64_t row = p->a_transposed ? 1 : p->lda;
  const char *from = at->a + (size_t)(first * row) * tri_dtype_bytes(p->a_type);
  if (p->a_transposed) {
    const tri_cpu_transpose job = {
        .rows = p->k, .columns = rows, .from_ld = p->lda, .to_ld = p->k, .from = from, .to = stage};
    at->state->options.transpose(at->state->options.threads, &job);
    return;
  }
  const tri_cpu_rows job = {.rows = rows,
                            .columns = p->k,
                            .from = from,
                            .from_type = p->a_type,
                            .from_ld = p->lda,
                            .to = stage,
                            .to_type = p->a_type,
                            .to_ld = p->k};
  at->state->options.copy_rows(at->state->options.threads, &job);
}

static tri_status run_primitive_chunk(const call *at, const void *b, int64_t first, int64_t rows) {
  const tri_matmul_plan *plan = at->plan;
  const tri_matmul *p = at->product;
  int which = rows != plan->rows.size;
  const char *a = at->a + (size_t)(first * p->lda) * tri_dtype_bytes(p->a_type);
  char *c = at->c + (size_t)(first * p->ldc) * tri_dtype_bytes(p->c_type);
  void *scratch = at->workspace == NULL ? NULL : at->workspace + plan->scratch_offset;
  if (plan->stage_a) {
    char *dense = at->workspace + plan->a_offset;
    stage_a(at, first, rows, dense);
    a = dense;
  }
  if (plan->stage_c) c = at->workspace + plan->c_offset;
  if (plan->stage_c && p->accumulate) exchange_c(at, first, rows, true);
  TRI_TRY(tri_onednn_product_run(at->state->stream, &plan->multiply[which], a, b, at->bias, c, scratch));
  if (plan->stage_c) exchange_c(at, first, rows, false);
  return TRI_OK;
}

static tri_status run_primitive(const call *at) {
  const tri_chunks *rows = &at->plan->rows;
  const void *b = staged_b(at);
  if (at->plan->pack_b) {
    char *packed = at->workspace + at->plan->b_offset;
    pack_panels(at->state, at->product, at->product->b_type, at->plan->panel, ONEDNN_DEPTH, b, packed);
    b = packed;
  }
  for (int64_t i = 0; i < rows->count; i++) {
    TRI_TRY(run_primitive_chunk(at, b, i * rows->size, tri_chunk_size(rows, i)));
  }
  return TRI_OK;
}

/* ---- sgemm ------------------------------------------------------------------------------------------------------- */

/* A part of an operand in fp32: in place, or in a copy. */
typedef struct wide {
  float *values;
  int64_t ld;
} wide;

/* Returns `rows` x `columns` of a stored matrix from (row, column) on. */
static wide widen(const call *at, bool stage, size_t offset, const char *matrix, tri_dtype type, int64_t ld,
                  int64_t row, int64_t column, int64_t rows, int64_t columns) {
  const char *from = matrix + (size_t)(row * ld + column) * tri_dtype_bytes(type);
  if (!stage) return (wide){(float *)(void *)from, ld};
  tri_cpu_rows job = {
      .rows = rows,
      .columns = columns,
      .from = from,
      .from_type = type,
      .from_ld = ld,
      .to = at->workspace + offset,
      .to_type = TRI_FP32,
      .to_ld = columns + TRI_STAGE_GAP,
  };
  at->state->options.copy_rows(at->state->options.threads, &job);
  return (wide){job.to, job.to_ld};
}

static wide wide_b(const call *at, int64_t depth_first, int64_t depth) {
  const tri_matmul *p = at->product;
  bool t = p->b_transposed;
  return widen(at, at->plan->stage_b, at->plan->b_offset, at->b, p->b_type, p->ldb, t ? 0 : depth_first,
               t ? depth_first : 0, t ? p->n : depth, t ? depth : p->n);
}

static wide wide_a(const call *at, int64_t first, int64_t rows, int64_t depth_first, int64_t depth) {
  const tri_matmul *p = at->product;
  bool t = p->a_transposed;
  return widen(at, at->plan->stage_a, at->plan->a_offset, at->a, p->a_type, p->lda, t ? depth_first : first,
               t ? first : depth_first, t ? depth : rows, t ? rows : depth);
}

/* Returns the memory in which the rows of c from `first` on are summed. */
static wide wide_c(const call *at, int64_t first) {
  const tri_matmul *p = at->product;
  if (!at->plan->stage_c) return (wide){(float *)(void *)at->c + first * p->ldc, p->ldc};
  int64_t row = at->plan->depth.count > 1 ? first : 0;
  return (wide){(float *)(void *)(at->workspace + at->plan->c_offset) + row * p->n, p->n};
}

/* A part of c that one thread computes: its place in c, and the fp32 sums. */
typedef struct tile {
  int64_t row, column, rows, columns;
  float *sum;
  int64_t ld;
} tile;

static char *tile_in_c(const call *at, const tile *t) {
  const tri_matmul *p = at->product;
  return at->c + (size_t)(t->row * p->ldc + t->column) * tri_dtype_bytes(p->c_type);
}

/* Initialises the sums with the bias or with c. Returns whether the sums have an initial value. */
static bool begin_tile(const call *at, const tile *t) {
  const tri_matmul *p = at->product;
  tri_cpu_rows job = {.rows = t->rows, .columns = t->columns, .to = t->sum, .to_type = TRI_FP32, .to_ld = t->ld};
  if (p->bias) {
    job.from = (const float *)at->bias + t->column;
    job.from_type = TRI_FP32;
  } else if (p->accumulate && at->plan->stage_c) {
    job.from = tile_in_c(at, t);
    job.from_type = p->c_type;
    job.from_ld = p->ldc;
  } else {
    return p->accumulate;
  }
  at->state->options.copy_rows(1, &job);
  return true;
}

static void end_tile(const call *at, const tile *t) {
  const tri_matmul *p = at->product;
  if (!at->plan->stage_c) return;
  tri_cpu_rows job = {
      .rows = t->rows,
      .columns = t->columns,
      .from = t->sum,
      .from_type = TRI_FP32,
      .from_ld = t->ld,
      .to = tile_in_c(at, t),
      .to_type = p->c_type,
      .to_ld = p->ldc,
  };
  at->state->options.copy_rows(1, &job);
}

/* A chunk of rows and of depth: c (+)= a b, on a and b from the chunk's first row and depth on. */
typedef struct chunk {
  int64_t first, rows, depth;
  bool is_first_depth, is_last_depth;
  wide a, b, c;
} chunk;

/* Computes a tile of the chunk, which begins at `row` and `column` of the chunk. The tile is so small that the steps
 * before and after the GEMM find c in the cache. */
static dnnl_status_t multiply_tile(const call *at, const chunk *in, int64_t row, int64_t column, int64_t rows,
                                   int64_t columns) {
  const tri_matmul *p = at->product;
  tile t = {in->first + row, column, rows, columns, in->c.values + row * in->c.ld + column, in->c.ld};
  bool add = in->is_first_depth ? begin_tile(at, &t) : true;
  dnnl_status_t status = dnnl_sgemm(p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N', rows, columns, in->depth,
                                    1.0f, in->a.values + (p->a_transposed ? row : row * in->a.ld), in->a.ld,
                                    in->b.values + (p->b_transposed ? column * in->b.ld : column), in->b.ld,
                                    add ? 1.0f : 0.0f, t.sum, t.ld);
  if (in->is_last_depth) end_tile(at, &t);
  return status;
}

/* Computes the chunk on all threads, each tile on one. */
static tri_status multiply_chunk(const call *at, const chunk *in) {
  tri_chunks across, down;
  int worst = 0;
  tri_matmul_tiles(in->rows, at->product->n, &down, &across);
#pragma omp parallel for schedule(dynamic, 1) num_threads(at->state->options.threads) reduction(max : worst)
  for (int64_t i = 0; i < down.count * across.count; i++) {
    int64_t y = i / across.count, x = i % across.count;
    int status = (int)multiply_tile(at, in, y * down.size, x * across.size, tri_chunk_size(&down, y),
                                    tri_chunk_size(&across, x));
    if (status > worst) worst = status;
  }
  return tri_onednn_check((dnnl_status_t)worst, "an fp32 matrix product");
}

static tri_status run_gemm(const call *at) {
  const tri_chunks *rows = &at->plan->rows, *depth = &at->plan->depth;
  for (int64_t d = 0; d < depth->count; d++) {
    int64_t depth_first = d * depth->size;
    chunk in = {.depth = tri_chunk_size(depth, d), .is_first_depth = d == 0, .is_last_depth = d + 1 == depth->count};
    in.b = wide_b(at, depth_first, in.depth);
    for (int64_t i = 0; i < rows->count; i++) {
      in.first = i * rows->size;
      in.rows = tri_chunk_size(rows, i);
      in.c = wide_c(at, in.first);
      in.a = wide_a(at, in.first, in.rows, depth_first, in.depth);
      TRI_TRY(multiply_chunk(at, &in));
    }
  }
  return TRI_OK;
}

/* ---- rows in generation ------------------------------------------------------------------------------------------ */

/* Computes rows [first, first + count). A row's result does not depend on the number of rows. */
static void run_few(const call *at, int64_t first, int64_t count) {
  const tri_matmul *p = at->product;
  const void *a = at->a + (size_t)(first * p->lda) * tri_dtype_bytes(p->a_type);
  tri_cpu_few_rows job = {
      .m = count,
      .n = p->n,
      .k = p->k,
      .lda = p->lda,
      .ldb = p->ldb,
      .ldc = p->ldc,
      .b_type = p->b_type,
      .c_type = p->c_type,
      .b_transposed = p->b_transposed,
      .b_packed = p->b_packed,
      .pairs = p->a_type == TRI_BF16 && !at->plan->stage_a,
      .accumulate = p->accumulate,
      .a = a,
      .b = at->b,
      .bias = at->bias,
      .c = at->c + (size_t)(first * p->ldc) * tri_dtype_bytes(p->c_type),
      .parts = (float *)(void *)(at->workspace + at->plan->c_offset),
  };
  if (at->plan->stage_a) {
    tri_cpu_rows widen = {.rows = count,
                          .columns = p->k,
                          .from = a,
                          .from_type = p->a_type,
                          .to_type = TRI_FP32,
                          .from_ld = p->lda,
                          .to_ld = p->k + TRI_STAGE_GAP,
                          .to = at->workspace + at->plan->a_offset};
    at->state->options.copy_rows(at->state->options.threads, &widen);
    job.a = widen.to;
    job.lda = widen.to_ld;
  }
  at->state->options.few_rows(at->state->options.regions, &job);
}

static void run_generating(const call *at) {
  const int64_t m = at->product->m;
  for (int64_t first = 0; first < m; first += TRI_MOST_ROWS)
    run_few(at, first, m - first < TRI_MOST_ROWS ? m - first : TRI_MOST_ROWS);
}

/* ---- few columns ------------------------------------------------------------------------------------------------- */

static void run_thin_depth(const call *at) {
  const tri_matmul *p = at->product;
  const tri_cpu_thin_depth job = {
      .m = p->m,
      .n = p->n,
      .k = p->k,
      .lda = p->lda,
      .ldb = p->ldb,
      .ldc = p->ldc,
      .a = at->a,
      .b = (const float *)(const void *)at->b,
      .c = at->c,
      .panels = (float *)(void *)(at->workspace + at->plan->c_offset),
  };
  at->state->options.thin_depth(at->state->options.threads, &job);
}

static void run_thin_gradient(const call *at) {
  const tri_matmul *p = at->product;
  const tri_cpu_thin_gradient job = {
      .m = p->m,
      .n = p->n,
      .k = p->k,
      .lda = p->lda,
      .ldb = p->ldb,
      .ldc = p->ldc,
      .accumulate = p->accumulate,
      .a = at->a,
      .b = at->b,
      .c = (float *)(void *)at->c,
      .wide = (float *)(void *)(at->workspace + at->plan->c_offset),
  };
  at->state->options.thin_gradient(at->state->options.threads, &job);
}

/* ---- k = 0 ------------------------------------------------------------------------------------------------------- */

static void run_zero(const call *at) {
  const tri_matmul *p = at->product;
  size_t element = tri_dtype_bytes(p->c_type);
  if (p->accumulate) return;
  if (!p->bias) {
    for (int64_t i = 0; i < p->m; i++) memset(at->c + (size_t)(i * p->ldc) * element, 0, (size_t)p->n * element);
    return;
  }
  tri_cpu_rows job = {
      .rows = p->m,
      .columns = p->n,
      .from = at->bias,
      .from_type = TRI_FP32,
      .to = at->c,
      .to_type = p->c_type,
      .to_ld = p->ldc,
  };
  at->state->options.copy_rows(at->state->options.threads, &job);
}

tri_status tri_cpu_matmul(tri_queue *queue, const tri_matmul *product, const void *a, const void *b, const void *bias,
                          void *c, void *workspace) {
  tri_matmul_plan *plan = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_cpu_matmul_check(product));
  if (product->m == 0 || product->n == 0) return TRI_OK;
  call at = {
      .state = tri_cpu_matmul_state_of(&queue->device->description),
      .product = product,
      .a = a,
      .b = b,
      .bias = product->bias ? bias : NULL,
      .c = c,
      .workspace = workspace,
  };
  TRI_TRY(tri_matmul_plan_find(at.state, product, &plan));
  at.plan = plan;
  if (workspace == NULL && plan->workspace_bytes > 0) {
    return tri_fail_internal("a matrix product of %lld x %lld x %lld needs %zu bytes of workspace and was given none",
                             (long long)product->m, (long long)product->n, (long long)product->k,
                             plan->workspace_bytes);
  }
  int before = tri_matmul_enter(at.state->options.threads);
  switch (plan->path) {
    case TRI_PATH_ZERO: run_zero(&at); break;
    case TRI_PATH_SKINNY: run_generating(&at); break;
    case TRI_PATH_GEMM: status = run_gemm(&at); break;
    case TRI_PATH_THIN_DEPTH: run_thin_depth(&at); break;
    case TRI_PATH_THIN_GRADIENT: run_thin_gradient(&at); break;
    case TRI_PATH_PRIMITIVE: status = run_primitive(&at); break;
  }
  tri_matmul_leave(before);
  return status;
}
