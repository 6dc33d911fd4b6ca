/* Element-wise kernels: add, scale, activations, dropout, rotation, conversion. All are bound by memory bandwidth, or
 * by one exponential. */
#include "device/cpu/cpu.h"
#include "device/cpu/kernels/activations.h"
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>

/* Elements of a piece. The threads share an array of `count` elements in pieces of whole cache lines; PARALLEL_PIECES
 * is the loop over the first elements of the pieces, `first`. */
enum { PIECE = 4096 };

INLINE int64_t piece_end(int64_t first, int64_t count) { return first + PIECE < count ? first + PIECE : count; }

#define PARALLEL_PIECES                                                                                                \
  _Pragma("omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)") /* applies to the following \
                                                                                              loop */                  \
      for (int64_t first = 0; first < count; first += PIECE)

/* ---- add --------------------------------------------------------------------------------------------------------- */

INLINE void add_piece(tri_dtype type, int64_t first, int64_t end, const void *a, const void *b, void *out) {
  FOR_VECTORS(i, count, first, end,
              { vf_put(type, out, i, count, vf_get(type, a, i, count) + vf_get(type, b, i, count)); });
}

static tri_status add(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a, const void *b,
                      void *out) {
  const int64_t count = tri_rows_live(rows) * width;
  PARALLEL_PIECES { BY_TYPE(add_piece, first, piece_end(first, count), a, b, out); }
  return TRI_OK;
}

/* ---- scale ------------------------------------------------------------------------------------------------------- */

INLINE void scale_piece(tri_dtype type, float factor, int64_t first, int64_t end, const void *x, void *y) {
  FOR_VECTORS(i, count, first, end, { vf_put(type, y, i, count, vf_get(type, x, i, count) * factor); });
}

static tri_status scale(tri_queue *queue, tri_dtype type, int64_t count, double factor, const void *x, void *y) {
  PARALLEL_PIECES { BY_TYPE(scale_piece, (float)factor, first, piece_end(first, count), x, y); }
  return TRI_OK;
}

/* ---- conversion -------------------------------------------------------------------------------------------------- */

INLINE void convert_piece(tri_dtype from, tri_dtype to, int64_t first, int64_t end, const void *in, void *out) {
  FOR_VECTORS(i, count, first, end, { vf_put(to, out, i, count, vf_get(from, in, i, count)); });
}

static tri_status convert(tri_queue *queue, int64_t count, tri_dtype from, const void *in, tri_dtype to, void *out) {
  if (from == to) return tri_queue_move(queue, out, in, (size_t)count * tri_dtype_bytes(from));
  if (from == TRI_FP32 && to == TRI_BF16) {
    PARALLEL_PIECES { convert_piece(TRI_FP32, TRI_BF16, first, piece_end(first, count), in, out); }
  } else if (from == TRI_BF16 && to == TRI_FP32) {
    PARALLEL_PIECES { convert_piece(TRI_BF16, TRI_FP32, first, piece_end(first, count), in, out); }
  } else {
    return tri_fail(TRI_UNSUPPORTED, "the cpu does not convert %s to %s", tri_dtype_name(from), tri_dtype_name(to));
  }
  return TRI_OK;
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

/* Calls a function as BY_TYPE does, with the type and the kind of an activation as its first arguments, both
 * constants. */
#define ACTIVATION_CASE(VALUE, name, hf_names, operation, gated, forward, backward, function, ...)                     \
  case TRI_ACTIVATION_##VALUE:                                                                                         \
    BY_TYPE(function, TRI_ACTIVATION_##VALUE, __VA_ARGS__);                                                            \
    break;
#define BY_ACTIVATION(...)                                                                                             \
  do {                                                                                                                 \
    switch (kind) { TRI_ACTIVATIONS_WITH(ACTIVATION_CASE, __VA_ARGS__) }                                               \
  } while (0)

INLINE void activation_piece(tri_dtype type, tri_activation kind, int64_t first, int64_t end, const void *x, void *y) {
  FOR_VECTORS(i, count, first, end, { vf_put(type, y, i, count, activation(kind, vf_get(type, x, i, count))); });
}

static tri_status activation_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                     int64_t width, const void *x, void *y) {
  const int64_t count = tri_rows_live(rows) * width;
  PARALLEL_PIECES { BY_ACTIVATION(activation_piece, first, piece_end(first, count), x, y); }
  return TRI_OK;
}

INLINE void slope_piece(tri_dtype type, tri_activation kind, int64_t first, int64_t end, const void *x,
                        const void *gradient_y, void *gradient_x) {
  FOR_VECTORS(i, count, first, end, {
    vf dy = vf_get(type, gradient_y, i, count);
    vf_put(type, gradient_x, i, count, times_slope(kind, dy, vf_get(type, x, i, count)));
  });
}

static tri_status activation_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                      int64_t width, const void *x, const void *gradient_y, void *gradient_x) {
  const int64_t count = tri_rows_live(rows) * width;
  PARALLEL_PIECES { BY_ACTIVATION(slope_piece, first, piece_end(first, count), x, gradient_y, gradient_x); }
  return TRI_OK;
}

/* ---- gated activations ------------------------------------------------------------------------------------------- */

/* Computes y = act(gate) * up * weight for row r. */
INLINE void gated_row(tri_dtype type, tri_activation kind, int64_t r, int64_t width, const void *x, float weight,
                      void *y) {
  int64_t gates = r * 2 * width, ups = gates + width;
  FOR_VECTORS(c, count, 0, width, {
    vf gate = vf_get(type, x, gates + c, count);
    vf up = vf_get(type, x, ups + c, count);
    vf_put(type, y, r * width + c, count, activation(kind, gate) * up * weight);
  });
}

/* Computes y = weight * act(gate) * up. weights NULL: the weight is 1, which changes no bit. */
static tri_status weighted_gated_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                         int64_t width, const void *x, const void *weights, void *y) {
  const int64_t live = tri_rows_live(rows);
  const float *of = weights;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int64_t r = 0; r < live; r++) BY_ACTIVATION(gated_row, r, width, x, of == NULL ? 1.0f : of[r], y);
  return TRI_OK;
}

static tri_status gated_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                                const void *x, void *y) {
  return weighted_gated_forward(queue, type, kind, rows, width, x, NULL, y);
}

INLINE void gated_slope_row(tri_dtype type, tri_activation kind, int64_t r, int64_t width, const void *x,
                            const void *gradient_y, void *gradient_x) {
  int64_t gates = r * 2 * width, ups = gates + width;
  FOR_VECTORS(c, count, 0, width, {
    vf gate = vf_get(type, x, gates + c, count);
    vf up = vf_get(type, x, ups + c, count);
    vf dy = vf_get(type, gradient_y, r * width + c, count);
    vf_put(type, gradient_x, gates + c, count, times_slope(kind, dy * up, gate));
    vf_put(type, gradient_x, ups + c, count, times_activation(kind, dy, gate));
  });
}

static tri_status gated_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                                 const void *x, const void *gradient_y, void *gradient_x) {
  const int64_t live = tri_rows_live(rows);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int64_t r = 0; r < live; r++) BY_ACTIVATION(gated_slope_row, r, width, x, gradient_y, gradient_x);
  return TRI_OK;
}

INLINE void weighted_slope_row(tri_dtype type, tri_activation kind, int64_t r, int64_t width, const void *x,
                               const float *weights, const void *gradient_y, void *gradient_x,
                               float *gradient_weights) {
  int64_t gates = r * 2 * width, ups = gates + width;
  const float weight = weights[r];
  vf sum = {0};
  FOR_VECTORS(c, count, 0, width, {
    vf gate = vf_get(type, x, gates + c, count);
    vf up = vf_get(type, x, ups + c, count);
    vf dy = vf_get(type, gradient_y, r * width + c, count);
    vf slope = dy * weight;
    sum += dy * (activation(kind, gate) * up);
    vf_put(type, gradient_x, gates + c, count, times_slope(kind, slope * up, gate));
    vf_put(type, gradient_x, ups + c, count, times_activation(kind, slope, gate));
  });
  gradient_weights[r] = vf_sum(sum);
}

static tri_status weighted_gated_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                          int64_t width, const void *x, const void *weights, const void *gradient_y,
                                          void *gradient_x, void *gradient_weights) {
  const int64_t live = tri_rows_live(rows);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int64_t r = 0; r < live; r++) {
    BY_ACTIVATION(weighted_slope_row, r, width, x, weights, gradient_y, gradient_x, gradient_weights);
  }
  return TRI_OK;
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* BLOCKS: number of blocks of Philox 4x32-10 that are computed at once, which is the number of 64-bit lanes. Each lane
 * holds a 32-bit word; the upper half contains unused remains of the arithmetic. */
enum { BLOCKS = TRI_VECTOR_BYTES / 8, GROUP = 4 * BLOCKS };

typedef uint64_t vw __attribute__((vector_size(TRI_VECTOR_BYTES)));

INLINE vw multiply_low_halves(vw a, vw b) {
#if defined(__AVX512F__)
  return (vw)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (vw)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (vw)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

/* Stores the lanes of two vectors interleaved: a0 b0 a1 b1 ... */
INLINE void store_in_turn(uint32_t *out, vw a, vw b) {
#if TRI_VECTOR_BYTES == 64
  vw low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  vw high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#elif TRI_VECTOR_BYTES == 32
  vw low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  vw high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#else
  vw low = __builtin_shufflevector(a, b, 0, 2);
  vw high = __builtin_shufflevector(a, b, 1, 3);
#endif
  memcpy(out, &low, sizeof low);
  memcpy(out + GROUP / 2, &high, sizeof high);
}

/* Computes the words of BLOCKS blocks of the stream, in the order of the stream. They are identical to those of
 * tri_random_block. */
INLINE void philox(tri_random_key key, uint64_t first_block, uint32_t out[GROUP]) {
  vw block;
  for (int l = 0; l < BLOCKS; l++) block[l] = first_block + (uint64_t)l;
  vw c0 = block, c1 = block >> 32, c2 = key.c2 - (vw){0}, c3 = key.c3 - (vw){0};
  uint32_t k0 = key.k0, k1 = key.k1;
  for (int round = 0; round < 10; round++) {
    vw p0 = multiply_low_halves(c0, 0xD2511F53u - (vw){0});
    vw p1 = multiply_low_halves(c2, 0xCD9E8D57u - (vw){0});
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  store_in_turn(out, (c0 & 0xffffffffu) | c1 << 32, (c2 & 0xffffffffu) | c3 << 32);
}

typedef struct dropout_job {
  tri_random_key key;
  uint64_t first_index;
  uint32_t threshold; /* smallest word that keeps an element */
  float scale;
} dropout_job;

enum { DRAWN = 512 }; /* number of elements whose random words are computed at once */

INLINE void dropout_piece(tri_dtype type, const dropout_job *job, int64_t first, int64_t end, const void *x, void *y) {
  uint32_t words[DRAWN + 2 * GROUP]; /* a piece may begin within a block, and end within a group or a vector */
  for (int64_t from = first; from < end; from += DRAWN) {
    int64_t to = from + DRAWN < end ? from + DRAWN : end;
    uint64_t index = job->first_index + (uint64_t)from;
    int64_t skip = (int64_t)(index % 4);
    for (int64_t w = 0; w < skip + DRAWN; w += GROUP) philox(job->key, index / 4 + (uint64_t)w / 4, words + w);
    FOR_VECTORS(i, count, from, to, {
      vu word;
      memcpy(&word, words + skip + i - from, sizeof word);
      vi kept = word >= job->threshold;
      vf_put(type, y, i, count, (vf)(kept & (vi)(vf_get(type, x, i, count) * job->scale)));
    });
  }
}

/* Applies dropout to rows with row numbers, or to some columns of rows, in pieces. An element of row r uses the word
 * of the stream that it has in a call on whole rows, as row rows[r]. */
static void drop_rows(tri_queue *queue, tri_dtype type, int64_t count, const dropout_job *all,
                      const tri_dropout *options, const int32_t *rows, const void *x, void *y) {
  const int64_t width = options->width, pieces = (width + PIECE - 1) / PIECE, items = count / width * pieces;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t item = 0; item < items; item++) {
    const int64_t row = item / pieces, begin = row * width, first = begin + item % pieces * PIECE;
    dropout_job job = *all;
    job.first_index += (uint64_t)((rows == NULL ? row : rows[row]) * tri_dropout_row(options) - begin);
    BY_TYPE(dropout_piece, &job, first, piece_end(first, begin + width), x, y);
  }
}

static tri_status dropout(tri_queue *queue, tri_dtype type, int64_t count, const tri_dropout *options,
                          const tri_step_values *values, const int32_t *rows, const void *x, void *y) {
  double probability = options->probability, threshold = ceil(probability * 0x1p32);
  if (threshold > (double)UINT32_MAX) return tri_cpu_fill_zero(queue, (size_t)count * tri_dtype_bytes(type), y);
  dropout_job job = {.threshold = (uint32_t)threshold, .scale = (float)(1.0 / (1.0 - probability))};
  job.key = tri_dropout_stream(options, values, &job.first_index);
  if (!tri_dropout_is_flat(options, rows)) {
    drop_rows(queue, type, count, &job, options, rows, x, y);
  } else {
    PARALLEL_PIECES { BY_TYPE(dropout_piece, &job, first, piece_end(first, count), x, y); }
  }
  return TRI_OK;
}

/* ---- rotary embedding -------------------------------------------------------------------------------------------- */

INLINE void rope_row(tri_dtype type, int64_t at, int64_t heads, int64_t head_stride, int64_t head_dim,
                     const float *cosine, const float *sine, float sign, void *x) {
  int64_t half = head_dim / 2;
  for (int64_t h = 0; h < heads; h++, at += head_stride) {
    FOR_VECTORS(d, count, 0, half, {
      vf c = vf_get(TRI_FP32, cosine, d, count);
      vf s = vf_get(TRI_FP32, sine, d, count) * sign;
      vf low = vf_get(type, x, at + d, count);
      vf high = vf_get(type, x, at + half + d, count);
      vf_put(type, x, at + d, count, low * c - high * s);
      vf_put(type, x, at + half + d, count, high * c + low * s);
    });
  }
}

static tri_status rope(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t row_elements, int64_t heads,
                       int64_t head_stride, int64_t head_dim, const int32_t *positions, const void *cosine,
                       const void *sine, bool inverse, void *x) {
  const int64_t live = tri_rows_live(rows);
  float sign = inverse ? -1.0f : 1.0f;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * row_elements > TRI_ALONE)
  for (int64_t r = 0; r < live; r++) {
    int64_t angle = positions[r] * (head_dim / 2);
    BY_TYPE(rope_row, r * row_elements, heads, head_stride, head_dim, (const float *)cosine + angle,
            (const float *)sine + angle, sign, x);
  }
  return TRI_OK;
}

void TRI_KERNEL(table_elements)(tri_device_kernels *table) {
  table->add = add;
  table->scale = scale;
  table->convert = convert;
  table->activation_forward = activation_forward;
  table->activation_backward = activation_backward;
  table->gated_forward = gated_forward;
  table->gated_backward = gated_backward;
  table->weighted_gated_forward = weighted_gated_forward;
  table->weighted_gated_backward = weighted_gated_backward;
  table->dropout = dropout;
  table->rope = rope;
}
