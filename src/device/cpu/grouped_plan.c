/* The choice of the engine for GEMMs of rows in groups (matmul_plan.c describes the two engines).
 *
 * bf16 with the CPU's bf16 instructions, and fp32 with a packed b, use the primitive, planned for one thread. Each
 * thread has a primitive of its own, since its memory objects contain the addresses of its operands. All other GEMMs
 * use sgemm, on copies in fp32 if types are bf16.
 *
 * The guarantee: a row's bits depend only on the row and on b. Neither engine guarantees that by itself. Rows of one
 * GEMM may be summed in different orders if the last rows use a different kernel (sgemm with AVX2: 6 rows at a time).
 * GEMMs of different numbers of rows may be summed in different orders if their depth is cut in parts that fit a cache
 * (the matrix unit cuts depth 2048 differently for 48 rows than for 64). So the sizes are tried when a plan is made: a
 * tile of identical rows must give the same result in each row, and the same as the other sizes. Sizes that fail are
 * not used. At least one size remains, because a tile of a single row always agrees with itself. The test's exact sums
 * are 0: the results consist only of rounding errors, which differ in any other order, even rounded to bf16.
 *
 * A trial needs a matrix of the size of b. If b has more than TRIAL_ELEMENTS elements, only the preferred size is
 * used, without a trial. */
#include "device/cpu/grouped.h"

#include "base/memory.h"

#include <omp.h>
#include <string.h>

enum {
  TRIAL_ELEMENTS = 32 << 20,
  STAGE_ELEMENTS = 2 << 20, /* maximum elements of a tile's rows: larger sizes are not used */
  COLUMNS = 512,            /* columns of c that sgemm computes at once */
  DEPTH = 2048,             /* depth of b that is staged at once */
  GRADIENT_ROWS = 256,      /* rows of a tile of a gradient by the primitive */
  GRADIENT_DEPTH = 512,     /* rows that are summed at once */
  GRADIENT_LEAST = 32,      /* smallest power of two to which remaining rows are padded */
  STAGGER_BYTES = 320,      /* gap between staged operands (matmul_plan.c) */
};

static tri_chunks cut(int64_t length, int64_t target) {
  if (length <= target) return (tri_chunks){1, length, length};
  int64_t count = (length + target - 1) / target;
  int64_t size = (length + count - 1) / count;
  size = (size + 15) / 16 * 16;
  count = (length + size - 1) / size;
  return (tri_chunks){count, size, length - (count - 1) * size};
}

static size_t reserve(size_t *end, int64_t rows, int64_t columns, tri_dtype type) {
  const size_t offset = *end;
  *end += ((size_t)rows * (size_t)columns * tri_dtype_bytes(type) + STAGGER_BYTES + 63) / 64 * 64;
  return offset;
}

/* ---- primitives -------------------------------------------------------------------------------------------------- */

static bool is_fast(const tri_onednn_primitive *made) {
  return strncmp(made->implementation, "ref", 3) != 0 && strncmp(made->implementation, "gemm", 4) != 0;
}

/* Creates a primitive for each thread, out[threads], for a dense a [rows, depth] and a b with the layout `packed`;
 * NULL: b is dense, too. Fails with TRI_UNSUPPORTED if oneDNN has no fast implementation. */
static tri_status make_multiply(tri_cpu_matmul_state *state, const tri_grouped_plan *plan, int64_t rows, int64_t depth,
                                bool accumulate, const tri_onednn_layout *packed, tri_onednn_primitive *out) {
  const tri_matmul *p = &plan->product;
  tri_status status = TRI_OK;
  tri_onednn_layout a = {0}, b = {0}, c = {0};
  TRI_TRY_GOTO(tri_onednn_layout_strided(p->a_type, rows, depth, depth, 1, &a), destroy);
  TRI_TRY_GOTO(tri_onednn_layout_strided(p->a_type, depth, p->n, p->n, 1, &b), destroy);
  TRI_TRY_GOTO(tri_onednn_layout_strided(p->c_type, rows, p->n, p->n, 1, &c), destroy);
  const tri_onednn_product product = {
      .a = &a, .b = packed == NULL ? &b : packed, .c = &c, .accumulate = accumulate, .m = rows, .n = p->n, .k = depth};
  for (int thread = 0; thread < plan->threads; thread++) {
    TRI_TRY_GOTO(tri_onednn_product_create(state->engine, &product, &out[thread], NULL), destroy);
    if (!is_fast(&out[thread])) TRI_TRY_GOTO(tri_fail(TRI_UNSUPPORTED, "oneDNN has no fast product"), destroy);
  }
destroy:
  tri_onednn_layout_destroy(&c);
  tri_onednn_layout_destroy(&b);
  tri_onednn_layout_destroy(&a);
  return status;
}

static tri_status make_streams(tri_cpu_matmul_state *state, tri_grouped_plan *plan) {
  TRI_TRY(tri_alloc("streams of threads", (size_t)plan->threads, sizeof *plan->streams, &plan->streams));
  for (int thread = 0; thread < plan->threads; thread++) {
    TRI_TRY(tri_onednn_check(dnnl_stream_create(&plan->streams[thread], state->engine, dnnl_stream_default_flags),
                             "a stream"));
  }
  return TRI_OK;
}

static tri_status make_table(tri_grouped_plan *plan, int rows) {
  plan->num_primitives = rows * plan->threads;
  return tri_alloc("primitives of threads", (size_t)plan->num_primitives, sizeof *plan->multiply, &plan->multiply);
}

static void add_scratch(tri_grouped_plan *plan) {
  size_t most = 0;
  for (int i = 0; i < plan->num_primitives; i++) {
    if (plan->multiply[i].scratch_bytes > most) most = plan->multiply[i].scratch_bytes;
  }
  plan->scratch_offset = plan->thread_bytes;
  plan->thread_bytes += (most + 63) / 64 * 64;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Sizes of tiles. Except 1, they are multiples of the numbers of rows that all known kernels process at a time: with
 * these sizes a row keeps its bits. */
static const int64_t gemm_sizes[] = {1, 24, 48, 96, 192}, primitive_sizes[] = {1, 16, 32, 48, 64, 128};
static const int64_t gemm_preferred[] = {96, 48, 24, 192, 1}, primitive_preferred[] = {64, 32, 48, 16, 128, 1};
enum {
  GEMM_SIZES = sizeof gemm_sizes / sizeof *gemm_sizes,
  PRIMITIVE_SIZES = sizeof primitive_sizes / sizeof *primitive_sizes,
};

static void set_sizes(tri_grouped_plan *plan, const int64_t *sizes, int count, int64_t row, int64_t preferred) {
  plan->num_sizes = 0;
  for (int i = 0; i < count; i++) {
    if (sizes[i] <= preferred || sizes[i] * row <= STAGE_ELEMENTS) plan->sizes[plan->num_sizes++] = sizes[i];
  }
}

static void plan_gemm_rows(tri_grouped_plan *plan) {
  const tri_matmul *p = &plan->product;
  plan->path = TRI_PATH_GEMM;
  set_sizes(plan, gemm_sizes, GEMM_SIZES, p->k, gemm_preferred[0]);
  const int64_t most = plan->sizes[plan->num_sizes - 1];
  plan->stage_a = p->a_type != TRI_FP32;
  plan->stage_b = p->b_type != TRI_FP32;
  plan->stage_c = p->c_type != TRI_FP32;
  plan->across = cut(p->n, COLUMNS);
  plan->depth = cut(p->k, plan->stage_b ? DEPTH : p->k);
  plan->thread_bytes = 0;
  plan->a_offset = reserve(&plan->thread_bytes, most, p->k, TRI_FP32);
  plan->b_offset = plan->thread_bytes;
  if (plan->stage_b) {
    reserve(&plan->thread_bytes, plan->depth.size + TRI_STAGE_GAP, plan->across.size + TRI_STAGE_GAP, TRI_FP32);
  }
  plan->c_offset = reserve(&plan->thread_bytes, most, plan->across.size, TRI_FP32);
}

static tri_status plan_primitive_rows(tri_cpu_matmul_state *state, tri_grouped_plan *plan) {
  const tri_matmul *p = &plan->product;
  tri_matmul_packing *packing = NULL;
  tri_matmul packed = *p;
  packed.b_type = packed.a_type;
  TRI_TRY(tri_matmul_packing_find(state, &packed, &packing));
  if (packing->bytes == 0) return tri_fail(TRI_UNSUPPORTED, "oneDNN packs no such matrix");
  plan->path = TRI_PATH_PRIMITIVE;
  plan->packs = !p->b_packed;
  plan->packed_bytes = plan->packs ? (packing->bytes + 63) / 64 * 64 : 0;
  set_sizes(plan, primitive_sizes, PRIMITIVE_SIZES, p->k > p->n ? p->k : p->n, primitive_preferred[0]);
  TRI_TRY(make_table(plan, plan->num_sizes));
  for (int i = 0; i < plan->num_sizes; i++) {
    TRI_TRY(make_multiply(state, plan, plan->sizes[i], p->k, p->accumulate, &packing->layout,
                          &plan->multiply[i * plan->threads]));
  }
  const int64_t most = plan->sizes[plan->num_sizes - 1];
  plan->stage_a = p->lda != p->k;
  plan->stage_c = p->ldc != p->n;
  plan->a_offset = reserve(&plan->thread_bytes, most, p->k, p->a_type);
  plan->c_offset = reserve(&plan->thread_bytes, most, p->n, p->c_type);
  add_scratch(plan);
  return TRI_OK;
}

/* ---- the trial --------------------------------------------------------------------------------------------------- */

typedef struct trial {
  tri_grouped_call call;
  void *a, *b, *packed, *c, *first, *memory;
  size_t row_bytes; /* bytes of a row of c, without the gap after it */
} trial;

static uint32_t next_bits(uint32_t *bits) {
  *bits ^= *bits << 13;
  *bits ^= *bits >> 17;
  return *bits ^= *bits << 5;
}

/* Returns a value that uses all bits of a float's fraction, of varying magnitude. */
static float next_value(uint32_t *bits) {
  static const float magnitudes[] = {0x1p-31f, 0x1p-35f, 0x1p-39f, 0x1p-43f};
  const float value = (float)(int32_t)next_bits(bits);
  return value * magnitudes[next_bits(bits) % 4];
}

static void store_probe_value(void *array, tri_dtype type, int64_t i, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (type == TRI_BF16) {
    ((uint16_t *)array)[i] = (uint16_t)(bits >> 16);
  } else {
    ((float *)array)[i] = value;
  }
}

/* Returns the index of the element along the depth whose product cancels that of element `l`, which is in the first
 * half of the depth: both have the same b, and opposite values of a. The element is in the second half, at a place that
 * is shifted by a third of a half. */
static int64_t like(int64_t l, int64_t depth) {
  const int64_t half = depth / 2;
  return half + (l + half / 3) % half;
}

static void fill_a(const tri_matmul *p, int64_t rows, void *a) {
  uint32_t bits = 12345;
  for (int64_t l = 0; l < p->k / 2; l++) {
    const float value = next_value(&bits);
    for (int64_t i = 0; i < rows; i++) {
      store_probe_value(a, p->a_type, i * p->lda + l, value);
      store_probe_value(a, p->a_type, i * p->lda + like(l, p->k), -value);
    }
  }
}

static void fill_b(const tri_matmul *p, void *b) {
  uint32_t bits = 54321;
  for (int64_t l = 0; l < p->k / 2; l++) {
    const int64_t also = like(l, p->k);
    for (int64_t j = 0; j < p->n; j++) {
      const float value = next_value(&bits);
      store_probe_value(b, p->b_type, p->b_transposed ? j * p->ldb + l : l * p->ldb + j, value);
      store_probe_value(b, p->b_type, p->b_transposed ? j * p->ldb + also : also * p->ldb + j, value);
    }
  }
}

/* Fills c, to which the GEMM adds, with values as large as the rounding errors. */
static void fill_c(const tri_matmul *p, int64_t rows, void *c) {
  uint32_t bits = 777;
  for (int64_t j = 0; j < p->n; j++) {
    const float value = next_value(&bits) * 0x1p-22f;
    for (int64_t i = 0; i < rows; i++) store_probe_value(c, p->c_type, i * p->ldc + j, value);
  }
}

static void trial_end(trial *t) {
  void *all[] = {t->a, t->b, t->packed, t->c, t->first, t->memory};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tri_free(all[i]);
}

/* Begins a trial. `plain` is the GEMM with its b before packing. */
static tri_status trial_begin(tri_cpu_matmul_state *state, const tri_grouped_plan *plan, const tri_matmul *plain,
                              trial *t) {
  const tri_matmul *p = plain;
  const int64_t most = plan->sizes[plan->num_sizes - 1];
  t->row_bytes = (size_t)p->n * tri_dtype_bytes(p->c_type);
  TRI_TRY(tri_alloc("a test matrix", (size_t)(most * p->lda), tri_dtype_bytes(p->a_type), &t->a));
  TRI_TRY(tri_alloc("a test matrix", (size_t)((p->b_transposed ? p->n : p->k) * p->ldb), tri_dtype_bytes(p->b_type),
                    &t->b));
  TRI_TRY(tri_alloc("a test matrix", (size_t)(most * p->ldc), tri_dtype_bytes(p->c_type), &t->c));
  TRI_TRY(tri_alloc("a test row", t->row_bytes, 1, &t->first));
  TRI_TRY(tri_alloc("a test's memory", plan->thread_bytes, 1, &t->memory));
  fill_a(p, most, t->a);
  fill_b(p, t->b);
  t->call = (tri_grouped_call){
      .state = state, .plan = plan, .product = &plan->product, .a = t->a, .b = t->b, .threads_memory = t->memory};
  if (plan->path != TRI_PATH_PRIMITIVE) return TRI_OK;
  tri_matmul packed = *plain;
  tri_matmul_packing *packing = NULL;
  packed.b_type = packed.a_type;
  TRI_TRY(tri_matmul_packing_find(state, &packed, &packing));
  TRI_TRY(tri_alloc("a test matrix", packing->bytes, 1, &t->packed));
  TRI_TRY(tri_matmul_pack_into(state, &packed, plain->b_type, t->b, t->packed));
  t->call.b = t->packed;
  return TRI_OK;
}

/* Computes a tile of the size number `size`, and sets *same to whether all its rows are equal to t->first. If
 * is_first is true, t->first becomes the tile's first row before the comparison. */
static tri_status try_size(trial *t, int size, bool is_first, bool *same) {
  const tri_grouped_plan *plan = t->call.plan;
  const tri_matmul *p = &plan->product;
  const int64_t rows = plan->sizes[size];
  fill_c(p, rows, t->c);
  TRI_TRY(tri_onednn_check(tri_grouped_rows(&t->call, 0, size, rows, t->call.a, t->call.b, t->c), "a test product"));
  if (is_first) memcpy(t->first, t->c, t->row_bytes);
  *same = true;
  for (int64_t i = 0; i < rows && *same; i++) {
    const char *row = (const char *)t->c + (size_t)(i * p->ldc) * tri_dtype_bytes(p->c_type);
    *same = memcmp(row, t->first, t->row_bytes) == 0;
  }
  return TRI_OK;
}

static int index_of(const tri_grouped_plan *plan, int64_t size) {
  for (int i = 0; i < plan->num_sizes; i++) {
    if (plan->sizes[i] == size) return i;
  }
  return -1;
}

/* Finds the first of the preferred sizes with which all rows of a tile, whose operands are equal, get equal results.
 * Sets agrees[i] to whether size i gives this result to all rows, too. */
static tri_status try_sizes(trial *t, const int64_t *preferred, int count, bool *agrees) {
  int base = -1;
  for (int i = 0; i < count && base < 0; i++) {
    bool same = false;
    const int size = index_of(t->call.plan, preferred[i]);
    if (size >= 0) TRI_TRY(try_size(t, size, true, &same));
    if (same) base = size;
  }
  for (int i = 0; i < t->call.plan->num_sizes; i++) TRI_TRY(try_size(t, i, false, &agrees[i]));
  return TRI_OK;
}

static void keep_sizes(tri_grouped_plan *plan, const bool *kept) {
  int count = 0;
  for (int i = 0; i < plan->num_sizes; i++) {
    if (kept[i]) {
      plan->sizes[count] = plan->sizes[i];
      for (int thread = 0; plan->multiply != NULL && count != i && thread < plan->threads; thread++) {
        tri_onednn_primitive *from = &plan->multiply[i * plan->threads + thread];
        tri_onednn_primitive *to = &plan->multiply[count * plan->threads + thread];
        tri_onednn_primitive_destroy(to);
        *to = *from;
        *from = (tri_onednn_primitive){0};
      }
      count++;
    }
  }
  plan->num_sizes = count;
}

static tri_status choose_sizes(tri_cpu_matmul_state *state, tri_grouped_plan *plan, const tri_matmul *plain) {
  const bool gemm = plan->path == TRI_PATH_GEMM;
  const int64_t *preferred = gemm ? gemm_preferred : primitive_preferred;
  bool kept[TRI_GROUPED_SIZES] = {false};
  trial t = {0};
  kept[index_of(plan, preferred[0])] = true;
  if (plain->k * plain->n <= TRIAL_ELEMENTS) {
    tri_status status = trial_begin(state, plan, plain, &t);
    if (status == TRI_OK) status = try_sizes(&t, preferred, gemm ? GEMM_SIZES : PRIMITIVE_SIZES, kept);
    trial_end(&t);
    TRI_TRY(status);
  }
  keep_sizes(plan, kept);
  return TRI_OK;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Returns whether rows with this leading dimension begin in few sets of the cache (matmul_plan.c). */
static bool aliases(int64_t ld) { return ld % 512 == 0; }

static void plan_gemm_gradient(tri_grouped_plan *plan) {
  const tri_matmul *p = &plan->product;
  plan->path = TRI_PATH_GEMM;
  plan->num_sizes = 1;
  plan->sizes[0] = GRADIENT_DEPTH;
  tri_matmul_tiles(p->m, p->n, &plan->down, &plan->across);
  plan->stage_a = p->a_type != TRI_FP32 || aliases(p->lda);
  plan->stage_b = p->b_type != TRI_FP32;
  plan->stage_c = p->c_type != TRI_FP32;
  plan->thread_bytes = 0;
  plan->a_offset = reserve(&plan->thread_bytes, GRADIENT_DEPTH, plan->down.size + TRI_STAGE_GAP, TRI_FP32);
  plan->b_offset = reserve(&plan->thread_bytes, GRADIENT_DEPTH, plan->across.size + TRI_STAGE_GAP, TRI_FP32);
  plan->c_offset = plan->thread_bytes;
  if (plan->stage_c) reserve(&plan->thread_bytes, plan->down.size, plan->across.size, TRI_FP32);
}

static tri_status plan_primitive_gradient(tri_cpu_matmul_state *state, tri_grouped_plan *plan) {
  const tri_matmul *p = &plan->product;
  plan->path = TRI_PATH_PRIMITIVE;
  for (int64_t size = GRADIENT_LEAST; size <= GRADIENT_DEPTH; size *= 2) plan->sizes[plan->num_sizes++] = size;
  plan->down = cut(p->m, GRADIENT_ROWS);
  plan->across = cut(p->n, p->n);
  TRI_TRY(make_table(plan, TRI_GROUPED_KINDS * plan->num_sizes));
  for (int kind = 0; kind < TRI_GROUPED_KINDS; kind++) {
    const bool last = kind >= tri_grouped_kind(true, false), accumulate = kind == tri_grouped_kind(last, true);
    for (int i = 0; i < plan->num_sizes; i++) {
      TRI_TRY(make_multiply(state, plan, last ? plan->down.last : plan->down.size, plan->sizes[i], accumulate, NULL,
                            &plan->multiply[(kind * plan->num_sizes + i) * plan->threads]));
    }
  }
  plan->stage_b = p->ldb != p->n;
  plan->stage_c = p->ldc != p->n;
  plan->a_offset = reserve(&plan->thread_bytes, plan->down.size, GRADIENT_DEPTH, p->a_type);
  plan->b_offset = reserve(&plan->thread_bytes, GRADIENT_DEPTH, p->n, p->b_type);
  plan->c_offset = plan->thread_bytes;
  if (plan->stage_c) reserve(&plan->thread_bytes, plan->down.size, p->n, p->c_type);
  add_scratch(plan);
  return TRI_OK;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static void release_primitives(tri_grouped_plan *plan) {
  for (int i = 0; i < plan->num_primitives; i++) tri_onednn_primitive_destroy(&plan->multiply[i]);
  tri_free(plan->multiply);
  *plan = (tri_grouped_plan){.product = plan->product, .threads = plan->threads, .streams = plan->streams};
}

/* Plans the primitive if the GEMM should use it, else sgemm. */
static tri_status plan_engine(tri_cpu_matmul_state *state, tri_grouped_plan *plan) {
  const tri_matmul *p = &plan->product;
  bool native = p->b_packed;
  if (p->a_type == TRI_BF16) TRI_TRY(tri_cpu_matmul_bf16(state, &native, NULL));
  if (p->a_transposed && (p->b_type != p->a_type || p->c_type != TRI_FP32)) native = false;
  if (native || p->b_packed) {
    tri_status status = p->a_transposed ? plan_primitive_gradient(state, plan) : plan_primitive_rows(state, plan);
    if (status != TRI_UNSUPPORTED || p->b_packed) return status;
    release_primitives(plan);
  }
  if (p->a_transposed) {
    plan_gemm_gradient(plan);
  } else {
    plan_gemm_rows(plan);
  }
  return TRI_OK;
}

static tri_status make_plan(tri_cpu_matmul_state *state, const tri_matmul *plain, tri_grouped_plan *plan) {
  const tri_matmul *p = &plan->product;
  TRI_TRY(make_streams(state, plan));
  if (!p->a_transposed && (p->k == 0 || p->n == 0)) {
    plan->path = TRI_PATH_ZERO;
    plan->num_sizes = 1;
    plan->sizes[0] = gemm_preferred[0];
    return TRI_OK;
  }
  if (p->m == 0 || p->n == 0) return TRI_OK;
  TRI_TRY(plan_engine(state, plan));
  return p->a_transposed ? TRI_OK : choose_sizes(state, plan, plain);
}

static void plan_destroy(tri_grouped_plan *plan) {
  release_primitives(plan);
  for (int i = 0; plan->streams != NULL && i < plan->threads; i++) {
    if (plan->streams[i] != NULL) dnnl_stream_destroy(plan->streams[i]);
  }
  tri_free(plan->streams);
  tri_free(plan);
}

void tri_grouped_plans_destroy(tri_grouped_plan *first) {
  while (first != NULL) {
    tri_grouped_plan *next = first->next;
    plan_destroy(first);
    first = next;
  }
}

/* Returns the key of a plan. The number of rows is not part of the key, which has 1 row instead, and a packed b has no
 * leading dimension. */
static tri_matmul key_of(const tri_matmul *product) {
  tri_matmul key = *product;
  *(key.a_transposed ? &key.k : &key.m) = 1;
  if (key.b_packed) key.ldb = key.b_transposed ? key.k : key.n;
  return key;
}

tri_status tri_grouped_plan_find(tri_cpu_matmul_state *state, const tri_matmul *product, tri_grouped_plan **out) {
  const tri_matmul key = key_of(product);
  tri_grouped_plan *plan = state->grouped;
  while (plan != NULL && !tri_matmul_same(&plan->product, &key)) plan = plan->next;
  if (plan == NULL) {
    tri_matmul plain = key;
    plain.b_packed = false;
    TRI_TRY(tri_alloc("the plan of products in groups", 1, sizeof *plan, &plan));
    plan->product = key;
    plan->threads = state->options.threads;
    const int before = tri_matmul_enter(1);
    const tri_status status = make_plan(state, &plain, plan);
    tri_matmul_leave(before);
    if (status != TRI_OK) {
      plan_destroy(plan);
      return status;
    }
    plan->next = state->grouped;
    state->grouped = plan;
  }
  *out = plan;
  return TRI_OK;
}
