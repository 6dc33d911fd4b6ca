/* Attention forward: for a tile of queries, over the tiles of keys that it sees,
 *
 *   s = q k^T;   m' = max(m, max over keys of s);   p = exp(scale (s - m'));   a = exp(scale (m - m'))
 *   l = a l + sum over keys of p;   o = a o + p v
 *
 * and at the end out = o / l and log_sum_exp = scale m + log l: the online softmax of Milakov and Gimelshein (2018) as
 * FlashAttention uses it (Dao et al., 2022). Only one tile of s exists at a time. l is kept as a vector of partial
 * sums, one for each lane. Exponentials are powers of two of scores times scale / ln 2. */
#ifndef TRI_DEVICE_CPU_KERNELS_ATTENTION_FORWARD_H
#define TRI_DEVICE_CPU_KERNELS_ATTENTION_FORWARD_H

#include "device/cpu/kernels/attention_pack.h"
#include "device/cpu/kernels/attention_product.h"

typedef struct forward_scratch {
  cell *keys;    /* per tile: columns */
  cell *values;  /* stacked           */
  cell *rows;    /* rows of one tile  */
  cell *queries; /* rows of one tile  */
  float *scores; /* [TILE, TILE]      */
  cell *weights; /* [TILE, TILE / CELL_ELEMENTS] cells along keys; the scores' own memory without TRI_PAIRS */
  float *out;    /* [TILE, padded(D)] */
  float *maximum, *new_maximum, *factor; /* [TILE] */
  float *sum;                            /* [TILE, LANES] */
} forward_scratch;

static size_t forward_scratch_make(const tri_attention *call, void *memory, forward_scratch *out) {
  scratch from = {memory, 0};
  const int64_t width = call->head_dim, tiles = divide_up(call->keys, TILE);
  out->keys = take(&from, tiles * columns_bytes(width));
  out->values = take(&from, stacked_bytes(call->keys, width));
  out->rows = take(&from, rows_bytes(TILE, width));
  out->queries = take(&from, rows_bytes(TILE, width));
  out->scores = take(&from, TILE * TILE * 4);
#if TRI_PAIRS
  out->weights = take(&from, TILE * TILE * 2);
#else
  out->weights = out->scores;
#endif
  out->out = take(&from, TILE * padded(width) * 4);
  out->maximum = take(&from, TILE * 4);
  out->new_maximum = take(&from, TILE * 4);
  out->factor = take(&from, TILE * 4);
  out->sum = take(&from, TILE * LANES * 4);
  return from.used;
}

/* Packs the first `count` keys and values of a head. */
static void pack_keys_values(const tri_attention_forward *job, int64_t batch, int64_t kv_head, int64_t count,
                             const forward_scratch *to) {
  const tri_attention *call = job->call;
  const int64_t tile_cells = columns_bytes(call->head_dim) / 4;
  for (int64_t j = 0; j * TILE < count; j++) {
    int64_t keys = smaller(TILE, count - j * TILE);
    head_rows k = rows_of(call, job->k, call->k_batch, call->k_position, batch, j * TILE, kv_head, keys);
    head_rows v = rows_of(call, job->v, call->v_batch, call->v_position, batch, j * TILE, kv_head, keys);
    pack_rows(&k, to->rows);
    pack_columns(to->rows, keys, call->head_dim, to->keys + j * tile_cells);
    pack_stacked(&v, to->values + j * (TILE / CELL_ELEMENTS) * padded(call->head_dim));
  }
}

/* Of each row: the greatest of the old maximum and its visible scores. Hidden scores in the last vector become -inf. */
static void find_maxima(const forward_scratch *s, int64_t rows, int64_t keys, int64_t shift) {
  for (int64_t i = 0; i < rows; i++) {
    int64_t visible = clamp(i + shift + 1, 0, keys), whole = visible / LANES, rest = visible % LANES;
    float *score = s->scores + i * TILE;
    floats most = splat(s->maximum[i]);
    for (int64_t v = 0; v < whole; v++) most = larger_floats(most, load(score + v * LANES));
    if (rest > 0) {
      floats last = select_floats(lanes_below(rest), load(score + whole * LANES), splat(-INFINITY));
      store(score + whole * LANES, last);
      most = larger_floats(most, last);
    }
    s->new_maximum[i] = highest(most);
  }
}

/* The weights of two or LANES keys, as cells. */
INLINE void weights_store(cell *to, floats x) {
#if TRI_PAIRS
  _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
  store(to, x);
#endif
}

/* Turns scores into weights and brings maximum, factor and sum up to date. */
static void soften(const forward_scratch *s, float scale_2, int64_t rows, int64_t keys, int64_t shift) {
  find_maxima(s, rows, keys, shift);
  for (int64_t i = 0; i < TILE; i += LANES) {
    floats old = load(s->maximum + i), new = load(s->new_maximum + i);
    store(s->factor + i, select_floats(old == new, splat(1.0f), exp2_floats((old - new) * scale_2)));
    store(s->maximum + i, new);
  }
  for (int64_t i = 0; i < rows; i++) {
    int64_t visible = clamp(i + shift + 1, 0, keys), vectors = divide_up(visible, LANES);
    const float *score = s->scores + i * TILE;
    cell *weight = s->weights + i * (TILE / CELL_ELEMENTS);
    const floats reference = splat(s->maximum[i] * scale_2);
    floats sum = load(s->sum + i * LANES) * s->factor[i];
    for (int64_t v = 0; v < vectors; v++) {
      floats p = exp2_floats(load(score + v * LANES) * scale_2 - reference);
      sum += p;
      weights_store(weight + v * (LANES / CELL_ELEMENTS), p);
    }
    for (int64_t v = vectors; v < TILE / LANES; v++) weights_store(weight + v * (LANES / CELL_ELEMENTS), (floats){0});
    store(s->sum + i * LANES, sum);
  }
}

static void forward_tile(const tri_attention_forward *job, const forward_scratch *s, int64_t batch, int64_t head,
                         int64_t first) {
  const tri_attention *call = job->call;
  const int64_t width = call->head_dim, pitch = padded(width), rows = smaller(TILE, call->queries - first);
  const int64_t seen_by_first = first + call->keys - call->queries + 1, seen = seen_by_first + rows - 1;
  head_rows q = rows_of(call, job->q, call->q_batch, call->q_position, batch, first, head, rows);
  pack_rows(&q, s->queries);
  for (int64_t i = 0; i < TILE; i++) s->maximum[i] = s->new_maximum[i] = -INFINITY;
  memset(s->sum, 0, sizeof(float) * TILE * LANES);

  for (int64_t j = 0; j * TILE < seen; j++) {
    const int64_t keys = smaller(TILE, seen - j * TILE), shift = seen_by_first - 1 - j * TILE;
    multiply(&(product){.a = s->queries,
                        .a_row = row_cells(width),
                        .a_step = 1,
                        .b = s->keys + j * (columns_bytes(width) / 4),
                        .b_step = TILE,
                        .c = s->scores,
                        .c_row = TILE,
                        .rows = rows,
                        .columns = keys,
                        .depth = width,
                        .trim = TRIM_COLUMNS,
                        .shift = shift});
    soften(s, (float)(call->scale * LOG2_E), rows, keys, shift);
    multiply(&(product){.a = s->weights,
                        .a_row = TILE / CELL_ELEMENTS,
                        .a_step = 1,
                        .b = s->values + j * (TILE / CELL_ELEMENTS) * pitch,
                        .b_step = pitch,
                        .c = s->out,
                        .c_row = pitch,
                        .rows = rows,
                        .columns = width,
                        .depth = keys,
                        .row_scale = j == 0 ? NULL : s->factor,
                        .trim = TRIM_DEPTH_END,
                        .shift = shift});
  }

  for (int64_t i = 0; i < rows; i++) {
    float sum = sum_lanes(load(s->sum + i * LANES));
    int64_t row = ((batch * call->queries + first + i) * call->heads + head) * width;
    row_write(element_to_write(job->out, call->type, row), call->type, s->out + i * pitch, 1.0f / sum, width);
    if (job->log_sum_exp)
      job->log_sum_exp[(batch * call->heads + head) * call->queries + first + i] =
          (float)((double)s->maximum[i] * call->scale + log((double)sum));
  }
}

static size_t forward_scratch_bytes(const tri_attention *call) {
  forward_scratch unused;
  return forward_scratch_make(call, NULL, &unused);
}

static void forward(const tri_attention_forward *job, int64_t batch, int64_t kv_head, int64_t first, int64_t count,
                    void *memory) {
  const tri_attention *call = job->call;
  const int64_t tiles = divide_up(call->queries, TILE), group = call->heads / call->kv_heads;
  int64_t seen = 0;
  for (int64_t unit = first; unit < first + count; unit++) {
    int64_t after = smaller(call->queries, (unit % tiles + 1) * TILE);
    if (after + call->keys - call->queries > seen) seen = after + call->keys - call->queries;
  }
  forward_scratch s;
  forward_scratch_make(call, memory, &s);
  pack_keys_values(job, batch, kv_head, seen, &s);
  for (int64_t unit = first; unit < first + count; unit++)
    forward_tile(job, &s, batch, kv_head * group + unit / tiles, unit % tiles * TILE);
}

#endif
