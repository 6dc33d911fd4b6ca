/* Which way a product goes.
 *
 * There are two engines, both of oneDNN. `sgemm` multiplies plain fp32 matrices of any leading dimensions and
 * transposition and copies panels of both operands into blocks of its own. The `matmul` primitive ("brgemm" where the
 * CPU has AVX-512) also knows bf16 and can take b in a blocked layout, made once and used often; but it wants a and c
 * dense and a not transposed: otherwise it takes its own gemm where b is plain, and where b is blocked a reference
 * loop a thousand times slower. So the choice is this:
 *
 *   fp32, b plain             sgemm. GFLOP/s of one core of an AVX-512 Xeon (peak 217), sgemm : primitive on plain b :
 *                             primitive on blocked b, over the products of GPT-2 124M at 1024 tokens: 176-205 :
 *                             154-183 : 167-191, and the primitive on plain b falls to 80-92 where b has rows of 3072
 *                             floats, as they all start in the same sets of the cache. Gradients of weights (a
 *                             transposed, c accumulated): 169-206 : 158-182 : 158-195; inner_product's backward of
 *                             weights 108-150 (55 for rows of 3072).
 *   fp32, 2 to 31 rows        the primitive, 1.2 to 1.5 times as fast as sgemm there (text generation in a batch).
 *   fp32, b packed            the primitive on blocked b; off by default (pack_fp32), since sgemm is as fast and
 * packing both directions costs 3 % of a step of 1024 tokens and a second and third copy of the weights. bf16, native
 * the primitive, b blocked. Gradients of weights: a transposed into the workspace first, which costs under 1 ns an
 * element; the primitive's own way with a transposed a splits k over the threads, so that its result would depend on
 * their number. bf16, widened             sgemm on fp32 copies of a (and of b where it is bf16) made chunk by chunk,
 * the result rounded once. The weights are best passed as they are, in fp32.
 *
 * Native or widened is measured, because CPUs differ that much. Zen 4 runs its bf16 dot product at twice the FLOP/s of
 * fp32; a Xeon whose matrix unit is hidden (most virtual machines) runs it at half: 109 GFLOP/s a core, against 217 in
 * fp32, of which the widened way reaches 190-200. Without AVX-512 oneDNN 2.6 has no bf16 product at all. The two ways
 * differ in the order of summation, so the measurement must not waver: see matmul_state.c.
 *
 * What must always hold: the result does not depend on the number of threads. The primitive on a dense, not transposed
 * a never splits k. sgemm does when there are more threads than blocks of 64 x 64 in c; it gets no more than that. And
 * the choice itself looks at the product alone. */
#include "device/cpu/matmul_plan.h"

#include <omp.h>
#include <string.h>

enum {
  ROWS_TARGET = 1024,  /* of a chunk: sgemm packs b again for each, 1/1000 of the work           */
  DEPTH_TARGET = 4096, /* of a chunk: 16 MiB of fp32 at most                                     */
  GEMM_BLOCK = 64,     /* of c, which sgemm gives to one thread                                  */
  FEW_ROWS = 32,       /* below, the primitive beats sgemm                                       */
  STAGGER_BYTES = 320, /* between staged operands: a power of two would alias in the cache       */
  CANONICAL_ROWS = 1024
};

int tri_matmul_enter(int threads) {
  int before = omp_get_max_threads();
  if (before != threads) omp_set_num_threads(threads);
  return before;
}

void tri_matmul_leave(int before) {
  if (before != omp_get_max_threads()) omp_set_num_threads(before);
}

static tri_chunks cut(int64_t length, int64_t target) {
  if (length <= target) return (tri_chunks){1, length, length};
  int64_t count = (length + target - 1) / target;
  int64_t size = (length + count - 1) / count;
  count = (length + size - 1) / size;
  return (tri_chunks){count, size, length - (count - 1) * size};
}

static int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

static int gemm_threads(const tri_cpu_matmul_state *state, int64_t rows, int64_t columns) {
  int64_t blocks = ((rows + GEMM_BLOCK - 1) / GEMM_BLOCK) * ((columns + GEMM_BLOCK - 1) / GEMM_BLOCK);
  return (int)min_of(state->options.threads, blocks);
}

static bool starts_with(const char *text, const char *beginning) {
  return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Rows of a and c follow one another without gaps, as the primitive wants them. */
static bool is_dense(const tri_matmul *p) { return !p->a_transposed && p->lda == p->k && p->ldc == p->n; }

static int64_t b_row(const tri_matmul *p) { return p->b_transposed ? p->k : p->n; }

static size_t reserve(size_t *end, bool wanted, int64_t rows, int64_t columns, tri_dtype type) {
  size_t offset = *end;
  if (!wanted) return offset;
  *end += ((size_t)rows * (size_t)columns * tri_dtype_bytes(type) + STAGGER_BYTES + 63) / 64 * 64;
  return offset;
}

/* ---- sgemm ------------------------------------------------------------------------------------------------------- */

static void plan_gemm(const tri_cpu_matmul_state *state, tri_matmul_plan *plan) {
  const tri_matmul *p = &plan->product;
  plan->path = TRI_PATH_GEMM;
  plan->stage_a = p->a_type == TRI_BF16;
  plan->stage_b = p->b_type == TRI_BF16;
  plan->stage_c = p->c_type == TRI_BF16;
  bool staged = plan->stage_a || plan->stage_b || plan->stage_c;
  plan->rows = cut(p->m, staged ? ROWS_TARGET : p->m);
  plan->depth = cut(p->k, staged ? DEPTH_TARGET : p->k);
  plan->threads = gemm_threads(state, min_of(plan->rows.size, plan->rows.last), p->n);
  size_t end = 0;
  plan->a_offset = reserve(&end, plan->stage_a, plan->rows.size, plan->depth.size, TRI_FP32);
  plan->b_offset = reserve(&end, plan->stage_b, plan->depth.size, p->n, TRI_FP32);
  plan->c_offset = reserve(&end, plan->stage_c, plan->depth.count > 1 ? p->m : plan->rows.size, p->n, TRI_FP32);
  plan->workspace_bytes = end;
}

/* ---- the primitive ----------------------------------------------------------------------------------------------- */

/* The layouts of one chunk of rows. */
typedef struct chunk_layouts {
  tri_onednn_layout stored_a, a, b, c;
} chunk_layouts;

static void layouts_destroy(chunk_layouts *layouts) {
  tri_onednn_layout_destroy(&layouts->stored_a);
  tri_onednn_layout_destroy(&layouts->a);
  tri_onednn_layout_destroy(&layouts->b);
  tri_onednn_layout_destroy(&layouts->c);
}

static tri_status plain_b(const tri_matmul *p, tri_dtype type, int64_t ld, tri_onednn_layout *out) {
  return tri_onednn_layout_strided(type, p->k, p->n, p->b_transposed ? 1 : ld, p->b_transposed ? ld : 1, out);
}

static tri_status layouts_create(const tri_matmul_plan *plan, int64_t rows, chunk_layouts *out) {
  const tri_matmul *p = &plan->product;
  int64_t lda = plan->stage_a ? p->k : p->lda;
  TRI_TRY(tri_onednn_layout_strided(p->a_type, rows, p->k, p->a_transposed ? 1 : p->lda, p->a_transposed ? p->lda : 1,
                                    &out->stored_a));
  TRI_TRY(tri_onednn_layout_strided(p->a_type, rows, p->k, lda, 1, &out->a));
  TRI_TRY(tri_onednn_layout_strided(p->c_type, rows, p->n, p->ldc, 1, &out->c));
  return plain_b(p, p->a_type, plan->stage_b || p->b_packed ? b_row(p) : p->ldb, &out->b);
}

/* packed_b is b's layout, or NULL for a plain one. */
static tri_status build_chunk(tri_cpu_matmul_state *state, tri_matmul_plan *plan, int which, int64_t rows,
                              const tri_onednn_layout *packed_b) {
  const tri_matmul *p = &plan->product;
  tri_status status = TRI_OK;
  chunk_layouts layouts = {0};
  TRI_TRY_GOTO(layouts_create(plan, rows, &layouts), destroy_layouts);
  tri_onednn_product product = {
      .a = &layouts.a,
      .b = packed_b != NULL ? packed_b : &layouts.b,
      .c = &layouts.c,
      .bias = p->bias,
      .accumulate = p->accumulate,
      .m = rows,
      .n = p->n,
      .k = p->k,
  };
  TRI_TRY_GOTO(tri_onednn_product_create(state->engine, &product, &plan->multiply[which], NULL), destroy_layouts);
  if (plan->stage_a) {
    TRI_TRY_GOTO(tri_onednn_reorder_create(state->engine, &layouts.stored_a, &layouts.a, &plan->transpose[which]),
                 destroy_layouts);
  }
destroy_layouts:
  layouts_destroy(&layouts);
  return status;
}

static tri_status plan_primitive(tri_cpu_matmul_state *state, tri_matmul_plan *plan) {
  const tri_matmul *p = &plan->product;
  const tri_onednn_layout *packed_b = NULL;
  plan->path = TRI_PATH_PRIMITIVE;
  plan->stage_a = p->a_transposed;
  plan->stage_b = !p->b_packed && p->b_type != p->a_type;
  plan->rows = cut(p->m, plan->stage_a ? ROWS_TARGET : p->m);
  plan->depth = cut(p->k, p->k);
  if (p->b_packed) {
    tri_matmul_packing *packing = NULL;
    TRI_TRY(tri_matmul_packing_find(state, p, &packing));
    if (packing->form == TRI_PACKING_NONE) {
      return tri_fail(TRI_INTERNAL,
                      "a packed b for a product of %lld x %lld x %lld (lda %lld, ldc %lld) that takes none; ask "
                      "matmul_packed first",
                      (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->lda, (long long)p->ldc);
    }
    if (packing->form == TRI_PACKING_BLOCKED) packed_b = &packing->layout;
  }
  bool dense_b = p->b_packed || plan->stage_b || p->ldb == b_row(p);
  bool dense = dense_b && p->ldc == p->n && (plan->stage_a || p->lda == p->k);
  plan->threads = dense ? state->options.threads : gemm_threads(state, plan->rows.last, p->n);
  int before = tri_matmul_enter(plan->threads);
  tri_status status = build_chunk(state, plan, 0, plan->rows.size, packed_b);
  if (status == TRI_OK && plan->rows.last != plan->rows.size) {
    status = build_chunk(state, plan, 1, plan->rows.last, packed_b);
  }
  tri_matmul_leave(before);
  if (status != TRI_OK) return status;
  size_t end = 0, scratch = plan->multiply[0].scratch_bytes;
  if (plan->multiply[1].scratch_bytes > scratch) scratch = plan->multiply[1].scratch_bytes;
  plan->a_offset = reserve(&end, plan->stage_a, plan->rows.size, p->k, p->a_type);
  plan->b_offset = reserve(&end, plan->stage_b, p->k, p->n, p->a_type);
  plan->scratch_offset = end;
  plan->workspace_bytes = end + scratch;
  return TRI_OK;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static bool is_reference(const tri_matmul_plan *plan) {
  return starts_with(plan->multiply[0].implementation, "ref") || starts_with(plan->multiply[1].implementation, "ref");
}

/* The primitive where it is better than sgemm on fp32, or else sgemm. */
static tri_status plan_fp32(tri_cpu_matmul_state *state, tri_matmul_plan *plan) {
  const tri_matmul *p = &plan->product;
  bool few = p->m > 1 && p->m < FEW_ROWS && is_dense(p) && p->ldb == b_row(p);
  if (p->b_packed) return plan_primitive(state, plan);
  if (few) {
    tri_status status = plan_primitive(state, plan);
    if (status != TRI_OK && status != TRI_UNSUPPORTED) return status;
    bool better = status == TRI_OK && !is_reference(plan) && !starts_with(plan->multiply[0].implementation, "gemm");
    if (better) return TRI_OK;
    tri_matmul_plan_release(plan);
  }
  plan_gemm(state, plan);
  return TRI_OK;
}

static tri_status plan_bf16(tri_cpu_matmul_state *state, tri_matmul_plan *plan) {
  bool native = false;
  TRI_TRY(tri_cpu_matmul_bf16(state, &native, NULL));
  if (native || plan->product.b_packed) {
    tri_status status = plan_primitive(state, plan);
    if (plan->product.b_packed || (status != TRI_OK && status != TRI_UNSUPPORTED)) return status;
    if (status == TRI_OK && !is_reference(plan)) return TRI_OK;
    tri_matmul_plan_release(plan);
  }
  plan_gemm(state, plan);
  return TRI_OK;
}

tri_status tri_matmul_plan_make(tri_cpu_matmul_state *state, const tri_matmul *product, tri_matmul_plan *out) {
  tri_status status = TRI_OK;
  out->product = *product;
  if (product->k == 0) {
    out->path = TRI_PATH_ZERO;
    return TRI_OK;
  }
  status = product->a_type == TRI_BF16 ? plan_bf16(state, out) : plan_fp32(state, out);
  if (status != TRI_OK) tri_matmul_plan_release(out);
  return status;
}

void tri_matmul_plan_release(tri_matmul_plan *plan) {
  for (int i = 0; i < 2; i++) {
    tri_onednn_primitive_destroy(&plan->multiply[i]);
    tri_onednn_primitive_destroy(&plan->transpose[i]);
  }
  *plan = (tri_matmul_plan){.product = plan->product};
}

/* ---- packed layouts ---------------------------------------------------------------------------------------------- */

/* oneDNN's layout for a canonical number of rows: it does not depend on that, and must not here. */
static tri_status find_blocked(tri_cpu_matmul_state *state, const tri_matmul *p, tri_matmul_packing *out) {
  tri_status status = TRI_OK;
  tri_onednn_layout a = {0}, any = {0}, c = {0};
  tri_onednn_primitive probe = {0};
  TRI_TRY_GOTO(tri_onednn_layout_strided(p->a_type, CANONICAL_ROWS, p->k, p->k, 1, &a), destroy);
  TRI_TRY_GOTO(tri_onednn_layout_any(p->a_type, p->k, p->n, &any), destroy);
  TRI_TRY_GOTO(tri_onednn_layout_strided(p->c_type, CANONICAL_ROWS, p->n, p->n, 1, &c), destroy);
  tri_onednn_product product = {.a = &a, .b = &any, .c = &c, .m = CANONICAL_ROWS, .n = p->n, .k = p->k};
  TRI_TRY_GOTO(tri_onednn_product_create(state->engine, &product, &probe, &out->layout), destroy);
  if (!starts_with(probe.implementation, "ref") && !starts_with(probe.implementation, "gemm")) {
    out->form = TRI_PACKING_BLOCKED;
    out->bytes = tri_onednn_layout_bytes(&out->layout);
  }
destroy:
  tri_onednn_primitive_destroy(&probe);
  tri_onednn_layout_destroy(&c);
  tri_onednn_layout_destroy(&any);
  tri_onednn_layout_destroy(&a);
  return status == TRI_UNSUPPORTED ? TRI_OK : status;
}

tri_status tri_matmul_packing_make(tri_cpu_matmul_state *state, const tri_matmul *p, tri_matmul_packing *out) {
  bool wanted = state->options.pack_fp32;
  if (p->a_type == TRI_BF16) TRI_TRY(tri_cpu_matmul_bf16(state, &wanted, NULL));
  if (!wanted || p->b_type != p->a_type || p->a_transposed || p->k == 0 || p->n == 0) return TRI_OK;
  if (is_dense(p)) {
    int before = tri_matmul_enter(state->options.threads);
    tri_status status = find_blocked(state, p, out);
    tri_matmul_leave(before);
    return status;
  }
  if (p->a_type == TRI_BF16) {
    out->form = TRI_PACKING_ROWS;
    out->bytes = (size_t)p->k * (size_t)p->n * tri_dtype_bytes(p->b_type);
  }
  return TRI_OK;
}

void tri_matmul_packing_release(tri_matmul_packing *packing) {
  for (int i = 0; i < 2; i++) tri_onednn_primitive_destroy(&packing->fill[i]);
  tri_onednn_layout_destroy(&packing->layout);
  *packing = (tri_matmul_packing){0};
}
