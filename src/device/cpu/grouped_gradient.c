/* A tile of the gradient of one group's matrix, on one thread: the sum over the group's rows of a^T b, in parts with
 * equal numbers of rows from the group's first row on, and the last part with the remaining rows. */
#include "device/cpu/grouped.h"

#include <string.h>

/* A tile of c, and the rows that are summed. */
typedef struct tile {
  int64_t rows, columns; /* size of the tile in c: columns of a and of b */
  bool last_down;
  const char *a, *b; /* address of the group's first row, at the tile's first column */
  char *c;
  int64_t live;
} tile;

static const char *row_of(const char *matrix, tri_dtype type, int64_t ld, int64_t row) {
  return matrix + (size_t)(row * ld) * tri_dtype_bytes(type);
}

/* ---- sgemm ------------------------------------------------------------------------------------------------------- */

/* Returns `rows` rows of a or b in fp32: in place, or, if `stage` is true, in a copy. Sets *ld to the leading
 * dimension of the copy. */
static const float *widened(const tri_grouped_call *at, int thread, bool stage, size_t offset, int64_t rows,
                            int64_t columns, const char *from, tri_dtype type, int64_t *ld) {
  if (!stage) return (const float *)(const void *)from;
  char *to = tri_grouped_memory(at, thread, offset);
  tri_grouped_copy(at, rows, columns, from, type, *ld, to, TRI_FP32, columns + TRI_STAGE_GAP);
  *ld = columns + TRI_STAGE_GAP;
  return (const float *)(const void *)to;
}

static dnnl_status_t gemm_gradient(const tri_grouped_call *at, int thread, const tile *t, float *c, int64_t ldc) {
  const tri_grouped_plan *plan = at->plan;
  const tri_matmul *p = at->product;
  const int64_t part = plan->sizes[0];
  dnnl_status_t status = dnnl_success;
  for (int64_t first = 0; first < t->live && status == dnnl_success; first += part) {
    const int64_t rows = t->live - first < part ? t->live - first : part;
    int64_t lda = p->lda, ldb = p->ldb;
    const float *a = widened(at, thread, plan->stage_a, plan->a_offset, rows, t->rows,
                             row_of(t->a, p->a_type, p->lda, first), p->a_type, &lda);
    const float *b = widened(at, thread, plan->stage_b, plan->b_offset, rows, t->columns,
                             row_of(t->b, p->b_type, p->ldb, first), p->b_type, &ldb);
    status = dnnl_sgemm('T', 'N', t->rows, t->columns, rows, 1.0f, a, lda, b, ldb,
                        first > 0 || p->accumulate ? 1.0f : 0.0f, c, ldc);
  }
  return status;
}

/* ---- transposing a ----------------------------------------------------------------------------------------------- */

enum { SIDE = 32, LANES = 8 }; /* SIDE: side of a block, a cache line; LANES: elements of a vector */

typedef uint16_t lanes __attribute__((vector_size(2 * LANES)));

#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* Transposes eight rows to eight columns. */
static inline void turn_lanes(const uint16_t *from, int64_t from_ld, uint16_t *to, int64_t to_ld) {
  lanes x[LANES], y[LANES];
  for (int i = 0; i < LANES; i++) memcpy(&x[i], from + i * from_ld, sizeof x[i]);
  for (int i = 0; i < LANES; i += 2) {
    y[i] = MIX(x[i], x[i + 1], 0, 8, 1, 9, 2, 10, 3, 11);
    y[i + 1] = MIX(x[i], x[i + 1], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < LANES; i += 4) {
    for (int half = 0; half < 2; half++) {
      x[i + 2 * half] = MIX(y[i + half], y[i + half + 2], 0, 1, 8, 9, 2, 3, 10, 11);
      x[i + 2 * half + 1] = MIX(y[i + half], y[i + half + 2], 4, 5, 12, 13, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < LANES / 2; i++) {
    y[2 * i] = MIX(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    y[2 * i + 1] = MIX(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < LANES; i++) memcpy(to + i * to_ld, &y[i], sizeof y[i]);
}

/* Transposes a whole block, and prefetches the block AHEAD columns further. */
static void turn_whole(const uint16_t *from, int64_t from_ld, uint16_t *to, int64_t to_ld) {
  enum { AHEAD = 2 * SIDE };
  for (int c = 0; c < SIDE; c += LANES) {
    for (int r = 0; r < LANES; r++) __builtin_prefetch(from + (c + r) * from_ld + AHEAD);
    for (int r = 0; r < SIDE; r += LANES) turn_lanes(from + r * from_ld + c, from_ld, to + c * to_ld + r, to_ld);
  }
}

/* Transposes `rows` x `columns` of a block to `columns` rows of SIDE, padded with zeros. */
static void turn_block(const uint16_t *from, int64_t from_ld, int64_t rows, int64_t columns, uint16_t *to,
                       int64_t to_ld) {
  uint16_t block[SIDE * SIDE] = {0}, turned[SIDE * SIDE];
  if (rows == SIDE && columns == SIDE) {
    turn_whole(from, from_ld, to, to_ld);
    return;
  }
  for (int64_t r = 0; r < rows; r++) memcpy(block + r * SIDE, from + r * from_ld, (size_t)columns * sizeof *from);
  turn_whole(block, SIDE, turned, SIDE);
  for (int64_t c = 0; c < columns; c++) memcpy(to + c * to_ld, turned + c * SIDE, SIDE * sizeof *to);
}

/* Transposes a matrix [rows, columns] to [columns, depth], padded with zeros. `depth` is a multiple of SIDE. */
static void turn(const char *from, int64_t from_ld, int64_t rows, int64_t columns, char *to, int64_t depth) {
  const uint16_t *in = (const uint16_t *)(const void *)from;
  uint16_t *out = (uint16_t *)(void *)to;
  for (int64_t r = 0; r < depth; r += SIDE) {
    const int64_t left = rows < r ? 0 : rows - r < SIDE ? rows - r : SIDE;
    for (int64_t c = 0; c < columns; c += SIDE) {
      turn_block(left == 0 ? in : in + r * from_ld + c, from_ld, left, columns - c < SIDE ? columns - c : SIDE,
                 out + c * depth + r, depth);
    }
  }
}

/* ---- the primitive ----------------------------------------------------------------------------------------------- */

/* Returns `rows` rows of b as `depth` dense rows: in place if they already are, else in a copy. */
static const char *whole_b(const tri_grouped_call *at, int thread, const tile *t, int64_t first, int64_t rows,
                           int64_t depth) {
  const tri_matmul *p = at->product;
  const size_t row_bytes = (size_t)t->columns * tri_dtype_bytes(p->b_type);
  const char *from = row_of(t->b, p->b_type, p->ldb, first);
  if (!at->plan->stage_b && rows == depth) return from;
  char *to = tri_grouped_memory(at, thread, at->plan->b_offset);
  tri_grouped_copy(at, rows, t->columns, from, p->b_type, p->ldb, to, p->b_type, t->columns);
  memset(to + (size_t)rows * row_bytes, 0, (size_t)(depth - rows) * row_bytes);
  return to;
}

/* Computes the product of the rows from `first` on, as many as the largest size has, and adds it to c; or stores it,
 * if `first` is 0 and the GEMM does not accumulate. Fewer rows are padded to the smallest size that has room for
 * them. */
static dnnl_status_t primitive_part(const tri_grouped_call *at, int thread, const tile *t, int64_t first, char *c) {
  const tri_grouped_plan *plan = at->plan;
  const tri_matmul *p = at->product;
  const int64_t left = t->live - first;
  int size = 0;
  while (size + 1 < plan->num_sizes && plan->sizes[size] < left) size++;
  const int64_t depth = plan->sizes[size], rows = left < depth ? left : depth;
  const int kind = tri_grouped_kind(t->last_down, first > 0 || p->accumulate);
  char *turned = tri_grouped_memory(at, thread, plan->a_offset);
  turn(row_of(t->a, p->a_type, p->lda, first), p->lda, rows, t->rows, turned, depth);
  return tri_onednn_product_execute(
      plan->streams[thread], &plan->multiply[(kind * plan->num_sizes + size) * plan->threads + thread], turned,
      whole_b(at, thread, t, first, rows, depth), NULL, c, tri_grouped_memory(at, thread, plan->scratch_offset));
}

static dnnl_status_t primitive_gradient(const tri_grouped_call *at, int thread, const tile *t, char *c) {
  const int64_t part = at->plan->sizes[at->plan->num_sizes - 1];
  dnnl_status_t status = dnnl_success;
  for (int64_t first = 0; first < t->live && status == dnnl_success; first += part) {
    status = primitive_part(at, thread, t, first, c);
  }
  return status;
}

/* ---- both paths -------------------------------------------------------------------------------------------------- */

static void fill_zero(const tri_matmul *p, const tile *t) {
  const size_t element = tri_dtype_bytes(p->c_type);
  for (int64_t i = 0; i < t->rows; i++) {
    memset(t->c + (size_t)(i * p->ldc) * element, 0, (size_t)t->columns * element);
  }
}

static dnnl_status_t sum_tile(const tri_grouped_call *at, int thread, const tile *t) {
  const tri_grouped_plan *plan = at->plan;
  const tri_matmul *p = at->product;
  char *own = plan->stage_c ? tri_grouped_memory(at, thread, plan->c_offset) : t->c;
  const int64_t ldc = plan->stage_c ? t->columns : p->ldc;
  dnnl_status_t status = dnnl_success;
  if (plan->stage_c && p->accumulate) {
    tri_grouped_copy(at, t->rows, t->columns, t->c, p->c_type, p->ldc, own, TRI_FP32, ldc);
  }
  switch (plan->path) {
    case TRI_PATH_THIN_DEPTH:
    case TRI_PATH_THIN_GRADIENT:
    case TRI_PATH_SKINNY:
    case TRI_PATH_ZERO: break; /* a gradient does not use these paths */
    case TRI_PATH_GEMM: status = gemm_gradient(at, thread, t, (float *)(void *)own, ldc); break;
    case TRI_PATH_PRIMITIVE: status = primitive_gradient(at, thread, t, own); break;
  }
  if (plan->stage_c) tri_grouped_copy(at, t->rows, t->columns, own, TRI_FP32, ldc, t->c, p->c_type, p->ldc);
  return status;
}

dnnl_status_t tri_grouped_gradient(const tri_grouped_call *at, int thread, int64_t group, int64_t down,
                                   int64_t across) {
  const tri_grouped_plan *plan = at->plan;
  const tri_matmul *p = at->product;
  const int64_t first = at->begins[group], row = down * plan->down.size, column = across * plan->across.size;
  const tile t = {.rows = tri_chunk_size(&plan->down, down),
                  .columns = tri_chunk_size(&plan->across, across),
                  .last_down = down + 1 == plan->down.count,
                  .a = at->a + (size_t)(first * p->lda + row) * tri_dtype_bytes(p->a_type),
                  .b = at->b + (size_t)(first * p->ldb + column) * tri_dtype_bytes(p->b_type),
                  .c = at->c + group * at->stride_bytes + (row * p->ldc + column) * (int64_t)tri_dtype_bytes(p->c_type),
                  .live = at->begins[group + 1] - first};
  if (t.live > 0) return sum_tile(at, thread, &t);
  if (!p->accumulate) fill_zero(p, &t);
  return dnnl_success;
}
