/* Copies of parts of q, k, v and of the gradient of the output in the order in which the GEMMs read them: in a tensor
 * with the q, k and v of all heads, the rows of one head are kilobytes apart and share a few sets of the cache. The
 * copies are padded with zeros to whole vectors and whole cells, so that the GEMMs need no special case at the edges.
 *
 *   rows     [count, row_cells(D)]      cells along d; left operand of a GEMM over d
 *   columns  [cells(D), TILE]           transpose of rows; right operand of a GEMM over d
 *   stacked  [cells(count), padded(D)]  cells along position; right operand of a GEMM over positions
 *
 * Without TRI_PAIRS, rows and stacked are the same. */
#ifndef TRI_DEVICE_CPU_KERNELS_ATTENTION_PACK_H
#define TRI_DEVICE_CPU_KERNELS_ATTENTION_PACK_H

#include "device/cpu/kernels/attention_cells.h"
#include "device/cpu/kernels/attention_product.h"

/* Some rows of one head. */
typedef struct head_rows {
  tri_dtype type;
  const void *first;
  int64_t stride; /* distance between two rows, in elements */
  int64_t count, head_dim;
} head_rows;

/* Returns `count` rows of head `head`, from row `first` on, of an array with these strides of rows and heads. */
INLINE head_rows rows_of(const tri_attention *call, const void *base, int64_t row_stride, int64_t head_stride,
                         int64_t first, int64_t head, int64_t count) {
  int64_t at = first * row_stride + head * head_stride;
  return (head_rows){call->type, element(base, call->type, at), row_stride, count, call->head_dim};
}

/* Returns the band of keys from row first_key on that queries from row first_query on attend to. */
INLINE band band_of(const tri_attention_slice *slice, int64_t first_query, int64_t first_key) {
  const int64_t apart = first_query - slice->first_query - (first_key - slice->first_key);
  return (band){apart + slice->from, apart + slice->to};
}

/* Returns the factor between a tile's stored scores and the scores of the call. The stored scores are products of q and
 * k or, with a soft cap, values of tanh. */
INLINE double unit_of(const tri_attention *call) { return call->soft_cap > 0 ? call->soft_cap : call->scale; }

/* A range of keys: [begin, end). */
typedef struct key_run {
  int64_t begin, end;
} key_run;

/* Returns the range of the `count` keys to which any query from row `first` to row `last` attends; empty, from 0 to 0,
 * if there are no such keys. */
INLINE key_run keys_seen(band of, int64_t first, int64_t last, int64_t count) {
  const int64_t begin = clamp(first + of.low, 0, count), end = clamp(last + of.high + 1, 0, count);
  return begin < end ? (key_run){begin, end} : (key_run){0, 0};
}

/* Replaces the unmasked products of a tile's queries, `rows` rows from row `from` on, and `keys` keys by tanh(scale
 * product / soft_cap). Masked products in the same vectors change, too. */
static void cap_scores(const tri_attention *call, float *scores, int64_t from, int64_t rows, int64_t keys, band of) {
  const float share = (float)(call->scale / call->soft_cap);
  for (int64_t i = from; i < from + rows; i++) {
    const key_run seen = keys_seen(of, i - from, i - from, keys);
    float *score = scores + i * TILE;
    for (int64_t at = seen.begin / LANES * LANES; at < seen.end; at += LANES)
      vf_store(TRI_FP32, score, at, vf_tanh_by_exp2(vf_load(TRI_FP32, score, at) * share));
  }
}

/* Returns the cells of a packed row: a multiple of LANES, hence of 4, which pack_columns needs. */
INLINE int64_t row_cells(int64_t head_dim) { return divide_up(cells(head_dim), LANES) * LANES; }

#if TRI_PAIRS

static void pack_rows(const head_rows *from, cell *to) {
  const int64_t pitch = row_cells(from->head_dim);
  for (int64_t r = 0; r < from->count; r++, to += pitch) {
    fetch(from->first, from->type, (r + AHEAD) * from->stride, from->head_dim);
    for (int64_t d = from->head_dim / 2; d < pitch; d++) to[d] = 0;
    memcpy(to, element(from->first, from->type, r * from->stride), (size_t)from->head_dim * 2);
  }
}

static void pack_stacked(const head_rows *from, cell *to) {
  const int64_t width = from->head_dim, pitch = padded(width);
  for (int64_t r = 0; r < from->count; r += 2, to += pitch) {
    const uint16_t *even = element(from->first, from->type, r * from->stride);
    if (r + 1 < from->count) {
      const uint16_t *odd = element(from->first, from->type, (r + 1) * from->stride);
      for (int64_t d = 0; d < width; d++) to[d] = even[d] | (uint32_t)odd[d] << 16;
    } else {
      for (int64_t d = 0; d < width; d++) to[d] = even[d];
    }
    for (int64_t d = width; d < pitch; d++) to[d] = 0;
  }
}

#else

static void pack_rows(const head_rows *from, cell *to) {
  const int64_t width = from->head_dim, pitch = row_cells(width);
  for (int64_t r = 0; r < from->count; r++, to += pitch) {
    fetch(from->first, from->type, (r + AHEAD) * from->stride, width);
    row_read(to, from->type, element(from->first, from->type, r * from->stride), width);
    for (int64_t d = width; d < pitch; d++) to[d] = 0;
  }
}

static void pack_stacked(const head_rows *from, cell *to) { pack_rows(from, to); }

#endif

/* Four numbers or cells that are moved without arithmetic. */
typedef float four __attribute__((vector_size(16)));
typedef float four_in_memory __attribute__((vector_size(16), aligned(4), may_alias));

/* Transposes `count` packed rows; columns up to TILE are zeros. */
static void pack_columns(const cell *rows, int64_t count, int64_t head_dim, cell *to) {
  static const cell zeros[4];
  const int64_t pitch = row_cells(head_dim), depth = cells(head_dim);
  for (int64_t r = 0; r < TILE; r += 4) {
    const cell *row[4];
    int64_t step[4];
    for (int i = 0; i < 4; i++) {
      row[i] = r + i < count ? rows + (r + i) * pitch : zeros;
      step[i] = r + i < count;
    }
    for (int64_t d = 0; d < depth; d += 4) {
      four x0 = *(const four_in_memory *)(row[0] + d * step[0]), x1 = *(const four_in_memory *)(row[1] + d * step[1]);
      four x2 = *(const four_in_memory *)(row[2] + d * step[2]), x3 = *(const four_in_memory *)(row[3] + d * step[3]);
      four low01 = __builtin_shufflevector(x0, x1, 0, 4, 1, 5), high01 = __builtin_shufflevector(x0, x1, 2, 6, 3, 7);
      four low23 = __builtin_shufflevector(x2, x3, 0, 4, 1, 5), high23 = __builtin_shufflevector(x2, x3, 2, 6, 3, 7);
      four_in_memory *out = (four_in_memory *)(to + d * TILE + r);
      out[0 * TILE / 4] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
      out[1 * TILE / 4] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
      out[2 * TILE / 4] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
      out[3 * TILE / 4] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    }
  }
}

/* ---- scratch memory ---------------------------------------------------------------------------------------------- */

/* Memory from which parts of a thread's scratch are allocated. If base is NULL, only the bytes are counted. */
typedef struct scratch {
  char *base;
  size_t used;
} scratch;

/* Returns bytes aligned to a cache line. One extra line avoids that adjacent tiles of equal size map to the same cache
 * sets. */
static void *allocate_scratch_part(scratch *from, int64_t bytes) {
  void *part = from->base ? from->base + from->used : NULL;
  from->used += ((size_t)bytes + 63) / 64 * 64 + 64;
  return part;
}

INLINE int64_t rows_bytes(int64_t count, int64_t head_dim) { return count * row_cells(head_dim) * 4; }
INLINE int64_t columns_bytes(int64_t head_dim) { return divide_up(cells(head_dim), 4) * 4 * TILE * 4; }
INLINE int64_t stacked_bytes(int64_t count, int64_t head_dim) { return cells(count) * padded(head_dim) * 4; }

#endif
