/* The choice of the engine for a GEMM.
 *
 * There are two engines, both of oneDNN. `sgemm` multiplies plain fp32 matrices with any leading dimensions, transposed
 * or not; it copies panels of both operands into blocks of its own. The `matmul` primitive ("brgemm" if the CPU has
 * AVX-512) also supports bf16, and b may have a blocked layout, packed once and used often. But all three matrices must
 * be dense, and a must not be transposed. Otherwise the primitive uses its own gemm if b is plain, and if b is blocked
 * a reference loop, which is a thousand times slower. This leads to the following choice. (Figures are GFLOP/s of one
 * core of an AVX-512 Xeon, peak 217, over the GEMMs of GPT-2 124M at 1024 tokens; the clock of that machine varies by a
 * fifth.)
 *
 * - fp32, b plain: sgemm, 176-205. The primitive reaches 154-183 on a plain b, but 80-92 if b has rows of 3072 floats,
 *   as they all begin in the same sets of the cache; on a blocked b 167-191. For gradients of weights (a transposed, c
 *   accumulated) the three give 169-206, 158-182 and 158-195, and the inner_product primitive's backward of weights
 *   108-150, or 55 for rows of 3072.
 * - fp32, 2 to 31 rows (batched generation): the primitive, 1.2 to 1.5 times as fast as sgemm there.
 * - rows in generation (tri_matmul.generating): neither engine, but kernels/few_rows.c and kernels/panels.c, which read
 *   b once at nearly the rate of memory if rows are few, and give a row the same bits for each number of rows. Weights
 *   in bf16 are packed in panels, which serve all numbers of rows; weights in fp32 have no second copy.
 * - fp32, b packed: the primitive on a blocked b. Off by default (pack_fp32), since over a whole step it was 2 % slower
 *   than sgemm, packing both directions costs 2.4 % more at 1024 tokens, and they are two more copies of the weights.
 * - bf16, native: the primitive, b blocked if it is packed. A transposed a (gradients of weights) or one with gaps
 *   between its rows is first copied into the workspace. Our own kernels pack and transpose (kernels/reorder.c): they
 *   pack the weights of GPT-2 124M, both ways round, in 37 ms on two cores of a Zen 5, oneDNN's reorders in 91. A plain
 *   b of [k, n] is packed by each call of many rows: the primitive copies it again for every block of rows, also for
 *   gradients of weights. For 2048 x 5632 x 1024 on one core with a matrix unit the GEMM takes 52.1 ms with a plain b;
 *   packing b takes 6.4 ms, and the GEMM then 38.4 ms. For 2048 x 1024 x 2816 these times are 13.6, 0.9 and 9.2 ms. A
 *   transposed b is as fast as a packed one.
 * - bf16, native, with k or n of at most TRI_MOST_THIN, such as the factors of LoRA: kernels/thin.c. The primitive is
 *   as fast, but copies c out and in if it is columns of a wider matrix, and transposes all of a for a gradient.
 * - fp32, b in bf16 (weights of a model in blocks that have no whole blocks): sgemm on fp32 copies of b.
 * - bf16, widened: sgemm on fp32 copies of a (and of b if it is bf16) made chunk by chunk, the result rounded once. The
 *   weights are best passed as they are, in fp32.
 *
 * Native or widened is measured, because CPUs differ that much. Zen 4 runs its bf16 dot product at twice the FLOP/s of
 * fp32. A Xeon whose matrix unit is hidden, as in many virtual machines, runs it at half: peak 109 against 217, over a
 * whole step 100 natively and 188 widened (fp32: 181). Without AVX-512 oneDNN 2.6 has no bf16 GEMM at all. The two ways
 * differ in the order of summation, so the measurement must always have the same outcome: see matmul_state.c.
 *
 * The invariant: the result does not depend on the number of threads. The primitive on a dense, not transposed a never
 * splits k among them (on a matrix unit it would with 16 threads or more: tri_onednn_product_threads); with a
 * transposed one it does, which is the other reason for the copy. A known exception: on a matrix unit it sums a deep k
 * in parts that fit the cache together with the rows and columns of a thread, which differ with the number of threads.
 * sgemm splits k and changes its kernels with the number of threads, so it only ever runs on one: c is cut in tiles by
 * its shape alone and the threads take tiles. With two threads that is as fast (0.89 to 1.06, mostly 1) as two threads
 * inside sgemm. */
#include "device/cpu/matmul_plan.h"

#include "base/count.h"
#include "base/text.h"

#include <omp.h>

enum {
  ROWS_TARGET = 1024,       /* rows of a chunk: two tiles */
  DEPTH_TARGET = 4096,      /* depth of a chunk: 16 MiB of fp32 at most */
  STAGE_ELEMENTS = 8 << 20, /* elements of a or c in a chunk of the primitive */
  STAGE_MIN_ROWS = 64,      /* minimum rows of a chunk, for any length */
  ALIAS_PAYS = 256,         /* columns of c from which a copy of a without aliasing is worthwhile */
  FEW_ROWS = 32,            /* number of rows below which the primitive is faster than sgemm */
  STAGGER_BYTES = 320,      /* gap between staged operands: a power of two would alias in the cache */
  CANONICAL_ROWS = 1024,    /* number of rows for which oneDNN's layout of b is requested */
  THIN_WIDTH = 128,         /* minimum of the wide dimension of a GEMM with few columns */
  PACK_ROWS = 1024,         /* rows of c from which it is worthwhile to pack a plain b for one call */
  PACK_COLUMNS = 128,       /* columns of c from which it is worthwhile to pack a plain b for one call */
  PACK_DEPTH = 16384,       /* maximum depth of a b that is packed for one call; at 32000 the packed GEMM is slower */
  PACK_ELEMENTS = 32 << 20, /* maximum elements of b: 64 MiB of workspace */
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

static int64_t b_row(const tri_matmul *p) { return p->b_transposed ? p->k : p->n; }

static size_t reserve(size_t *end, bool wanted, int64_t rows, int64_t columns, tri_dtype type) {
  size_t offset = *end;
  if (!wanted) return offset;
  *end += ((size_t)rows * (size_t)columns * tri_dtype_bytes(type) + STAGGER_BYTES + 63) / 64 * 64;
  return offset;
}

/* ---- sgemm ------------------------------------------------------------------------------------------------------- */

/* Returns whether rows of this length begin in few sets of the cache. A transposed a is read down its columns. A copy
 * of a with a gap between the rows costs 4 % of a large GEMM and saves 15 to 25 % (rows of 3072 floats: 150 GFLOP/s,
 * with a gap 195). For b a copy costs as much as it saves. */
static bool aliases(int64_t ld) { return ld % 512 == 0; }

/* Chooses the largest tiles that cut c into at least ENOUGH tiles, else the smallest ones. Large tiles need the least
 * packing, but every thread should have some. The number of threads is not used, so that the result does not depend on
 * it. */
void tri_matmul_tiles(int64_t rows, int64_t columns, tri_chunks *row_tiles, tri_chunks *column_tiles) {
  static const int64_t targets[][2] = {{512, 768}, {512, 384}, {256, 384}, {256, 256}, {128, 256}, {64, 256}, {64, 64}};
  enum { NUM_TARGETS = sizeof targets / sizeof targets[0], ENOUGH = 6 };
  for (int i = 0; i < NUM_TARGETS; i++) {
    *row_tiles = cut(rows, targets[i][0]);
    *column_tiles = cut(columns, targets[i][1]);
    if (row_tiles->count * column_tiles->count >= ENOUGH) return;
  }
}

static void plan_gemm(tri_matmul_plan *plan) {
  const tri_matmul *p = &plan->product;
  plan->path = TRI_PATH_GEMM;
  plan->stage_a = p->a_type == TRI_BF16 || (p->a_transposed && aliases(p->lda) && p->n >= ALIAS_PAYS);
  plan->stage_b = p->b_type == TRI_BF16;
  plan->stage_c = p->c_type == TRI_BF16;
  bool staged = plan->stage_a || plan->stage_b || plan->stage_c;
  plan->rows = cut(p->m, staged ? ROWS_TARGET : p->m);
  plan->depth = cut(p->k, staged ? DEPTH_TARGET : p->k);
  /* Memory is for these rows and not for rows.size, because a GEMM of fewer rows must never need more memory. */
  int64_t rows = staged ? tri_smaller(p->m, ROWS_TARGET) : p->m;
  size_t end = 0;
  plan->a_offset = reserve(&end, plan->stage_a, rows + TRI_STAGE_GAP, plan->depth.size + TRI_STAGE_GAP, TRI_FP32);
  plan->b_offset = reserve(&end, plan->stage_b, plan->depth.size + TRI_STAGE_GAP, p->n + TRI_STAGE_GAP, TRI_FP32);
  plan->c_offset = reserve(&end, plan->stage_c, plan->depth.count > 1 ? p->m : rows, p->n, TRI_FP32);
  plan->workspace_bytes = end;
}

/* ---- the primitive ----------------------------------------------------------------------------------------------- */

/* The layouts of one chunk of rows. */
typedef struct chunk_layouts {
  tri_onednn_layout a, b, c;
} chunk_layouts;

static void layouts_destroy(chunk_layouts *layouts) {
  tri_onednn_layout_destroy(&layouts->a);
  tri_onednn_layout_destroy(&layouts->b);
  tri_onednn_layout_destroy(&layouts->c);
}

static tri_status layouts_create(const tri_matmul_plan *plan, int64_t rows, chunk_layouts *out) {
  const tri_matmul *p = &plan->product;
  TRI_TRY(tri_onednn_layout_strided(p->a_type, rows, p->k, p->k, 1, &out->a));
  TRI_TRY(tri_onednn_layout_strided(p->c_type, rows, p->n, p->n, 1, &out->c));
  bool t = p->b_transposed;
  return tri_onednn_layout_strided(p->a_type, p->k, p->n, t ? 1 : p->n, t ? p->k : 1, &out->b);
}

/* Builds the primitive of a chunk of `rows` rows, plan->multiply[which]. packed_b is b's layout, or NULL for a plain
 * one. */
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
destroy_layouts:
  layouts_destroy(&layouts);
  return status;
}

/* Returns whether a plain b, such as a frozen weight that is read in place, is packed for this call. */
static bool packs_here(const tri_matmul *p) {
  if (p->b_packed || p->b_transposed || p->a_type != TRI_BF16 || p->b_type != TRI_BF16) return false;
  if (p->k > PACK_DEPTH || p->k * p->n > PACK_ELEMENTS) return false;
  return p->ldb == p->n && p->m >= PACK_ROWS && p->n >= PACK_COLUMNS;
}

/* Plans packing for this call. Sets *out to the layout of the packed b; NULL if oneDNN's layout has no panels. */
static tri_status plan_pack(tri_cpu_matmul_state *state, tri_matmul_plan *plan, const tri_onednn_layout **out) {
  tri_matmul_packing *packing = NULL;
  tri_matmul staged = plan->product;
  staged.a_transposed = false; /* the primitive reads the stage of a */
  TRI_TRY(tri_matmul_packing_find(state, &staged, &packing));
  plan->panel = packing->panel;
  plan->pack_b = packing->bytes > 0 && packing->panel > 0;
  if (plan->pack_b) *out = &packing->layout;
  return TRI_OK;
}

static tri_status find_packed(tri_cpu_matmul_state *state, const tri_matmul *p, const tri_onednn_layout **out) {
  tri_matmul_packing *packing = NULL;
  if (!p->b_packed) return TRI_OK;
  TRI_TRY(tri_matmul_packing_find(state, p, &packing));
  *out = &packing->layout;
  if (packing->bytes > 0) return TRI_OK;
  return tri_fail_internal("a packed b for a product of %lld x %lld x %lld that takes none; ask matmul_packed first",
                           (long long)p->m, (long long)p->n, (long long)p->k);
}

/* Returns the number of rows of a chunk: all rows, or, if a or c is staged, as many as stay in the cache. */
static int64_t rows_target(const tri_matmul_plan *plan) {
  const tri_matmul *p = &plan->product;
  int64_t longest = plan->stage_c && p->n > p->k ? p->n : p->k;
  int64_t rows = STAGE_ELEMENTS / longest;
  if (!plan->stage_a && !plan->stage_c) return p->m;
  return rows > ROWS_TARGET ? ROWS_TARGET : rows < STAGE_MIN_ROWS ? STAGE_MIN_ROWS : rows;
}

static void lay_out_primitive(tri_matmul_plan *plan, size_t packed_bytes) {
  const tri_matmul *p = &plan->product;
  int64_t rows = tri_smaller(p->m, rows_target(plan));
  size_t end = 0, scratch = plan->multiply[0].scratch_bytes;
  if (plan->multiply[1].scratch_bytes > scratch) scratch = plan->multiply[1].scratch_bytes;
  plan->a_offset = reserve(&end, plan->stage_a, rows, p->k, p->a_type);
  plan->b_offset = reserve(&end, plan->stage_b, p->k, p->n, p->a_type);
  if (plan->pack_b) end = (end + packed_bytes + STAGGER_BYTES + 63) / 64 * 64;
  plan->c_offset = reserve(&end, plan->stage_c, rows, p->n, p->c_type);
  plan->scratch_offset = end;
  plan->workspace_bytes = end + scratch;
}

static tri_status plan_primitive(tri_cpu_matmul_state *state, tri_matmul_plan *plan) {
  const tri_matmul *p = &plan->product;
  const tri_onednn_layout *packed_b = NULL;
  TRI_TRY(find_packed(state, p, &packed_b));
  plan->path = TRI_PATH_PRIMITIVE;
  plan->stage_a = p->a_transposed || p->lda != p->k;
  plan->stage_b = !p->b_packed && (p->b_type != p->a_type || p->ldb != b_row(p));
  plan->stage_c = p->ldc != p->n;
  plan->rows = cut(p->m, rows_target(plan));
  plan->depth = cut(p->k, p->k);
  int before = tri_matmul_enter(tri_onednn_product_threads(p->a_type, p->k, state->options.threads));
  tri_status status = packs_here(p) ? plan_pack(state, plan, &packed_b) : TRI_OK;
  const size_t packed_bytes = plan->pack_b ? tri_onednn_layout_bytes(packed_b) : 0;
  if (status == TRI_OK) status = build_chunk(state, plan, 0, plan->rows.size, packed_b);
  if (status == TRI_OK && plan->rows.last != plan->rows.size) {
    status = build_chunk(state, plan, 1, plan->rows.last, packed_b);
  }
  tri_matmul_leave(before);
  if (status == TRI_OK) lay_out_primitive(plan, packed_bytes);
  return status;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static bool is_reference(const tri_matmul_plan *plan) {
  return tri_begins_with(plan->multiply[0].implementation, "ref") ||
         tri_begins_with(plan->multiply[1].implementation, "ref");
}

/* Plans rows in generation. In fp32, a is copied if many of its rows would begin in the same sets of the cache. A GEMM
 * of fewer rows never needs more memory. */
static tri_status plan_few(tri_cpu_matmul_state *state, tri_matmul_plan *plan) {
  const tri_matmul *p = &plan->product;
  const int64_t rows = tri_smaller(p->m, TRI_MOST_ROWS), few = tri_smaller(p->m, TRI_FEW_ROWS);
  const int64_t parts = p->b_packed ? 0 : tri_few_rows_parts(p->k, p->b_transposed);
  const bool bf16 = p->a_type == TRI_BF16;
  bool pairs = false;
  plan->path = TRI_PATH_SKINNY;
  if (p->b_packed) TRI_TRY(tri_cpu_matmul_pairs(state, &pairs));
  plan->stage_a = bf16 ? !pairs : rows > few && aliases(p->lda);
  plan->a_offset = reserve(&plan->workspace_bytes, plan->stage_a, rows, p->k + TRI_STAGE_GAP, TRI_FP32);
  plan->c_offset = reserve(&plan->workspace_bytes, parts > 0, parts * few, p->n, TRI_FP32);
  return TRI_OK;
}

/* Plans the primitive if it is faster than sgemm for this fp32 GEMM, else sgemm. */
static tri_status plan_fp32(tri_cpu_matmul_state *state, tri_matmul_plan *plan) {
  const tri_matmul *p = &plan->product;
  bool dense = !p->a_transposed && p->lda == p->k && p->ldb == b_row(p) && p->ldc == p->n;
  bool few = dense && p->m > 1 && p->m < FEW_ROWS;
  if (p->b_packed) return plan_primitive(state, plan);
  if (p->b_type == TRI_BF16) { /* widened, piece by piece: the primitive needs one type */
    plan_gemm(plan);
    return TRI_OK;
  }
  if (few) {
    tri_status status = plan_primitive(state, plan);
    if (status != TRI_OK && status != TRI_UNSUPPORTED) return status;
    bool better = status == TRI_OK && !is_reference(plan) && !tri_begins_with(plan->multiply[0].implementation, "gemm");
    if (better) return TRI_OK;
    tri_matmul_plan_release(plan);
  }
  plan_gemm(plan);
  return TRI_OK;
}

/* Plans the addition of LoRA factors, or their gradient (thin.h). Returns false if the GEMM has neither form. */
static bool plan_thin(tri_matmul_plan *plan) {
  const tri_matmul *p = &plan->product;
  const bool adds = p->accumulate && p->c_type == TRI_BF16 && !p->a_transposed && p->b_transposed;
  const bool depth = adds && p->b_type == TRI_FP32 && !p->b_packed && p->k <= TRI_MOST_THIN && p->n >= THIN_WIDTH;
  const bool narrow = p->b_type == TRI_BF16 && p->c_type == TRI_FP32 && !p->bias;
  const bool gradient =
      narrow && p->a_transposed && !p->b_transposed && !p->b_packed && p->n <= TRI_MOST_THIN && p->m >= THIN_WIDTH;
  if (!depth && !gradient) return false;
  plan->path = depth ? TRI_PATH_THIN_DEPTH : TRI_PATH_THIN_GRADIENT;
  plan->c_offset =
      reserve(&plan->workspace_bytes, true, 1,
              depth ? tri_thin_depth_floats(p->n, p->k) : tri_thin_gradient_floats(p->m, p->n, p->k), TRI_FP32);
  return true;
}

static tri_status plan_bf16(tri_cpu_matmul_state *state, tri_matmul_plan *plan) {
  bool native = false;
  TRI_TRY(tri_cpu_matmul_bf16(state, &native, NULL));
  if (native && plan_thin(plan)) return TRI_OK;
  if (native || plan->product.b_packed) {
    tri_status status = plan_primitive(state, plan);
    if (plan->product.b_packed || (status != TRI_OK && status != TRI_UNSUPPORTED)) return status;
    if (status == TRI_OK && !is_reference(plan)) return TRI_OK;
    tri_matmul_plan_release(plan);
  }
  plan_gemm(plan);
  return TRI_OK;
}

tri_status tri_matmul_plan_make(tri_cpu_matmul_state *state, const tri_matmul *product, tri_matmul_plan *out) {
  tri_status status = TRI_OK;
  out->product = *product;
  if (product->k == 0) {
    out->path = TRI_PATH_ZERO;
    return TRI_OK;
  }
  if (product->generating && !product->a_transposed) {
    status = plan_few(state, out);
    if (status != TRI_OK) tri_matmul_plan_release(out);
    return status;
  }
  switch (product->a_type) {
    case TRI_BF16: status = plan_bf16(state, out); break;
    case TRI_FP32: status = plan_fp32(state, out); break;
    case TRI_FP64:
    case TRI_INT32:
      status = tri_fail_internal("the cpu plans no products of %s", tri_dtype_name(product->a_type));
      break;
  }
  if (status != TRI_OK) tri_matmul_plan_release(out);
  return status;
}

void tri_matmul_plan_release(tri_matmul_plan *plan) {
  for (int i = 0; i < 2; i++) tri_onednn_primitive_destroy(&plan->multiply[i]);
  *plan = (tri_matmul_plan){.product = plan->product};
}

/* ---- packed layouts ---------------------------------------------------------------------------------------------- */

/* Finds oneDNN's layout for a canonical number of rows: a packed b must serve GEMMs of any number of rows, so its
 * layout must not depend on that number. */
static tri_status find_blocked(tri_cpu_matmul_state *state, const tri_matmul *p, tri_matmul_packing *out) {
  tri_status status = TRI_OK;
  tri_onednn_layout a = {0}, any = {0}, c = {0};
  tri_onednn_primitive probe = {0};
  TRI_TRY_GOTO(tri_onednn_layout_strided(p->a_type, CANONICAL_ROWS, p->k, p->k, 1, &a), destroy);
  TRI_TRY_GOTO(tri_onednn_layout_any(p->a_type, p->k, p->n, &any), destroy);
  TRI_TRY_GOTO(tri_onednn_layout_strided(p->c_type, CANONICAL_ROWS, p->n, p->n, 1, &c), destroy);
  tri_onednn_product product = {.a = &a, .b = &any, .c = &c, .m = CANONICAL_ROWS, .n = p->n, .k = p->k};
  TRI_TRY_GOTO(tri_onednn_product_create(state->engine, &product, &probe, &out->layout), destroy);
  if (!tri_begins_with(probe.implementation, "ref") && !tri_begins_with(probe.implementation, "gemm")) {
    out->bytes = tri_onednn_layout_bytes(&out->layout);
    if (p->b_type == TRI_BF16) out->panel = tri_onednn_layout_panel(&out->layout, p->k, p->n);
  }
destroy:
  tri_onednn_primitive_destroy(&probe);
  tri_onednn_layout_destroy(&c);
  tri_onednn_layout_destroy(&any);
  tri_onednn_layout_destroy(&a);
  if (status == TRI_UNSUPPORTED) return TRI_OK; /* *out then has 0 bytes: b is not packed */
  return status;
}

tri_status tri_matmul_packing_make(tri_cpu_matmul_state *state, const tri_matmul *p, tri_matmul_packing *out) {
  const tri_cpu_panels panels = {.n = p->n, .k = p->k, .width = TRI_PANEL, .depth = 2};
  bool wanted = state->options.pack_fp32;
  if (p->generating) {
    if (p->a_type == TRI_BF16 && p->b_type == TRI_BF16 && !p->a_transposed)
      out->bytes = (size_t)tri_panels_elements(&panels) * tri_dtype_bytes(TRI_BF16);
    return TRI_OK;
  }
  if (p->a_type == TRI_BF16) TRI_TRY(tri_cpu_matmul_bf16(state, &wanted, NULL));
  if (!wanted || p->b_type != p->a_type || p->a_transposed || p->k == 0 || p->n == 0) return TRI_OK;
  int before = tri_matmul_enter(tri_onednn_product_threads(p->a_type, p->k, state->options.threads));
  tri_status status = find_blocked(state, p, out);
  tri_matmul_leave(before);
  return status;
}

void tri_matmul_packing_release(tri_matmul_packing *packing) {
  for (int i = 0; i < 2; i++) tri_onednn_primitive_destroy(&packing->fill[i]);
  tri_onednn_layout_destroy(&packing->layout);
  *packing = (tri_matmul_packing){0};
}
