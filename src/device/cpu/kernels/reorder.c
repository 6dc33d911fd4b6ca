/* Panels of pairs, and transposes, of bf16 (reorder.h).
 *
 * The elements are moved as words of two: a word has an element of row 2 i of a tile and, above it, the element of row
 * 2 i + 1 in the same column. Words of a b that is stored [k, n] are made from vectors of two rows; if b is transposed,
 * a word is two adjacent numbers in memory, and a square of words is transposed in registers. A transpose makes words
 * of two rows, and then transposes the square. */
#include "device/cpu/reorder.h"

#include "base/count.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

enum {
  DEPTH = 2 * LANES, /* rows of a tile, LANES pairs */
  ALONG = 256,       /* rows of a task: multiple of every DEPTH */
};

/* Returns words whose lower halves are the elements of `low`, and whose upper halves are those of `high`. */
INLINE vu join(vh low, vh high) {
#if defined(__AVX512F__)
  return (vu)_mm512_or_si512(_mm512_cvtepu16_epi32((__m256i)low),
                             _mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)high), 16));
#else
  return __builtin_convertvector(low, vu) | __builtin_convertvector(high, vu) << 16;
#endif
}

/* Returns LANES elements of `type` in bf16. */
INLINE vh narrow_at(tri_dtype type, const void *array, int64_t i) {
  switch (type) {
    case TRI_BF16: return *(const vh_memory *)((const uint16_t *)array + i);
    case TRI_FP32: return vf_to_bf16(*(const vf_memory *)((const float *)array + i));
    case TRI_FP64:
    case TRI_INT32: break;
  }
  return (vh){0};
}

/* Returns 2 LANES adjacent elements of `type` as words. */
INLINE vu words_at(tri_dtype type, const void *array, int64_t i) {
  const vh halves[2] = {narrow_at(type, array, i), narrow_at(type, array, i + LANES)};
  vu words;
  memcpy(&words, halves, sizeof words);
  return words;
}

/* Exchanges, in each pair of rows r and r + STEP, the lanes whose number has the bit STEP in row r with those that do
 * not have it in row r + STEP. After STEP = LANES / 2, ..., 1 the square is transposed. */
#define EXCHANGE(STEP, low_, high_)                                                                                    \
  UNROLL for (int r = 0; r < LANES; r++) {                                                                             \
    if ((r & (STEP)) != 0) continue;                                                                                   \
    const vu a = rows[r], b = rows[r + (STEP)];                                                                        \
    rows[r] = __builtin_shufflevector(a, b, KEEP low_);                                                                \
    rows[r + (STEP)] = __builtin_shufflevector(a, b, KEEP high_);                                                      \
  }
#define KEEP(...) __VA_ARGS__

INLINE void transpose_words(vu rows[LANES]) {
#if TRI_VECTOR_BYTES == 64
  EXCHANGE(8, (0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
           (8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
  EXCHANGE(4, (0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
           (4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31))
  EXCHANGE(2, (0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
           (2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31))
  EXCHANGE(1, (0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),
           (1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31))
#elif TRI_VECTOR_BYTES == 32
  EXCHANGE(4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
  EXCHANGE(2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
  EXCHANGE(1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))
#else
  EXCHANGE(2, (0, 1, 4, 5), (2, 3, 6, 7))
  EXCHANGE(1, (0, 4, 2, 6), (1, 5, 3, 7))
#endif
}

/* ---- panels ------------------------------------------------------------------------------------------------------ */

/* Makes the words of LANES columns and up to LANES pairs of a tile at `b`; word (pair, column) goes to
 * to[pair * width + column]. */
INLINE void pack_tile(tri_dtype type, const void *b, int64_t ldb, bool transposed, int64_t pairs, int64_t width,
                      uint32_t *to) {
  vu rows[LANES];
  UNROLL for (int i = 0; i < LANES; i++) {
    rows[i] = transposed ? words_at(type, b, i * ldb)
                         : join(narrow_at(type, b, 2 * i * ldb), narrow_at(type, b, (2 * i + 1) * ldb));
  }
  if (transposed) transpose_words(rows);
  if (pairs == LANES) {
    UNROLL for (int i = 0; i < LANES; i++) memcpy(to + i * width, &rows[i], sizeof rows[i]);
  } else {
    for (int64_t i = 0; i < pairs; i++) memcpy(to + i * width, &rows[i], sizeof rows[i]);
  }
}

/* Packs a tile with rows or columns beyond the matrix, from a copy that is padded with zeros. `row` and `column`: its
 * place in b as it is stored. */
static void pack_edge(const tri_cpu_panels *job, int64_t row, int64_t column, int64_t pairs, uint32_t *to) {
  char copy[DEPTH * LANES * 4] __attribute__((aligned(64)));
  const bool t = job->b_transposed;
  const int64_t height = t ? LANES : DEPTH, length = t ? DEPTH : LANES, element = (int64_t)tri_dtype_bytes(job->b_type);
  const int64_t rows = tri_smaller(height, (t ? job->n : job->k) - row);
  const int64_t columns = tri_smaller(length, (t ? job->k : job->n) - column);
  memset(copy, 0, sizeof copy);
  for (int64_t r = 0; r < rows && columns > 0; r++) {
    memcpy(copy + r * length * element, (const char *)job->b + ((row + r) * job->ldb + column) * element,
           (size_t)(columns * element));
  }
  if (job->b_type == TRI_BF16) {
    pack_tile(TRI_BF16, copy, length, t, pairs, job->width, to);
  } else {
    pack_tile(TRI_FP32, copy, length, t, pairs, job->width, to);
  }
}

/* Packs the rows of a panel from k `begin` to `end`. */
INLINE void pack_part(tri_dtype type, bool t, const tri_cpu_panels *job, int64_t panel, int64_t begin, int64_t end) {
  const int64_t depth = tri_round_up(job->k, job->depth), first = panel * job->width;
  uint32_t *words = (uint32_t *)job->panels + panel * job->width * (depth / 2);
  for (int64_t at = begin; at < end; at += DEPTH) {
    const int64_t pairs = tri_smaller(LANES, (end - at) / 2);
    for (int64_t j = 0; j < job->width; j += LANES) {
      const int64_t row = t ? first + j : at, column = t ? at : first + j;
      uint32_t *to = words + at / 2 * job->width + j;
      if (at + DEPTH <= job->k && first + j + LANES <= job->n) {
        const char *b = (const char *)job->b + (row * job->ldb + column) * (int64_t)tri_dtype_bytes(type);
        pack_tile(type, b, job->ldb, t, pairs, job->width, to);
      } else {
        pack_edge(job, row, column, pairs, to);
      }
    }
  }
}

static void pack_task(const tri_cpu_panels *job, int64_t panel, int64_t begin, int64_t end) {
  if (job->b_type == TRI_BF16 && job->b_transposed) pack_part(TRI_BF16, true, job, panel, begin, end);
  if (job->b_type == TRI_BF16 && !job->b_transposed) pack_part(TRI_BF16, false, job, panel, begin, end);
  if (job->b_type == TRI_FP32 && job->b_transposed) pack_part(TRI_FP32, true, job, panel, begin, end);
  if (job->b_type == TRI_FP32 && !job->b_transposed) pack_part(TRI_FP32, false, job, panel, begin, end);
}

void TRI_KERNEL(pack_panels)(int threads, const tri_cpu_panels *job) {
  const int64_t panels = tri_divide_up(job->n, job->width), depth = tri_round_up(job->k, job->depth);
  const int64_t parts = tri_divide_up(depth, ALONG);
#pragma omp parallel for schedule(static) num_threads(threads) if (job->n * job->k > TRI_ALONE)
  for (int64_t task = 0; task < parts * panels; task++) {
    const int64_t begin = task / panels * ALONG;
    pack_task(job, task % panels, begin, tri_smaller(begin + ALONG, depth));
  }
}

/* ---- transposes -------------------------------------------------------------------------------------------------- */

/* Transposes DEPTH rows and LANES columns. */
INLINE void transpose_tile(const uint16_t *from, int64_t from_ld, uint16_t *to, int64_t to_ld) {
  vu rows[LANES];
  UNROLL for (int i = 0; i < LANES; i++) rows[i] =
      join(*(const vh_memory *)(from + 2 * i * from_ld), *(const vh_memory *)(from + (2 * i + 1) * from_ld));
  transpose_words(rows);
  UNROLL for (int i = 0; i < LANES; i++) memcpy(to + i * to_ld, &rows[i], sizeof rows[i]);
}

/* Transposes the rows [begin, end) and the columns from `column` on of a tile at an edge of the matrix. */
static void transpose_edge(const tri_cpu_transpose *job, int64_t begin, int64_t end, int64_t column) {
  const int64_t last = tri_smaller(column + LANES, job->columns);
  const uint16_t *from = job->from;
  uint16_t *to = job->to;
  for (int64_t c = column; c < last; c++) {
    for (int64_t r = begin; r < end; r++) to[c * job->to_ld + r] = from[r * job->from_ld + c];
  }
}

/* Transposes LANES columns. */
static void transpose_columns(const tri_cpu_transpose *job, int64_t column) {
  const uint16_t *from = (const uint16_t *)job->from + column;
  uint16_t *to = (uint16_t *)job->to + column * job->to_ld;
  int64_t row = 0;
  for (; column + LANES <= job->columns && row + DEPTH <= job->rows; row += DEPTH)
    transpose_tile(from + row * job->from_ld, job->from_ld, to + row, job->to_ld);
  transpose_edge(job, row, job->rows, column);
}

void TRI_KERNEL(transpose)(int threads, const tri_cpu_transpose *job) {
#pragma omp parallel for schedule(static) num_threads(threads) if (job->rows * job->columns > TRI_ALONE)
  for (int64_t column = 0; column < job->columns; column += LANES) transpose_columns(job, column);
}
