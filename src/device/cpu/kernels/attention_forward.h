/* Attention forward: for a tile of queries, over the tiles of its keys,
 *
 *   s = q k^T;   m' = max(m, max over keys of s);   p = exp(scale (s - m'));   a = exp(scale (m - m'))
 *   l = a l + sum over keys of p;   o = a o + p v
 *
 * and at the end out = o / l and log_sum_exp = scale m + log l. With a soft cap c, s = tanh(scale q k^T / c) and c
 * replaces the scale from there on. This is the online softmax of Milakov and Gimelshein (2018) as FlashAttention uses
 * it (Dao et al., 2022). Only one tile of s exists at a time. l is kept as a vector of partial sums, one for each lane.
 * Exponentials are powers of two of scores times scale / ln 2. */
#ifndef TRI_DEVICE_CPU_KERNELS_ATTENTION_FORWARD_H
#define TRI_DEVICE_CPU_KERNELS_ATTENTION_FORWARD_H

#include "device/cpu/kernels/attention_pack.h"

typedef struct forward_scratch {
  cell *keys;    /* keys of a slice, or of one tile if slices share queries; each tile is stored as columns */
  cell *values;  /* values, stacked (attention_pack.h) */
  cell *rows;    /* keys of one tile, as rows, before they are transposed */
  cell *queries; /* queries of one tile, as rows */
  float *scores; /* [TILE, TILE] */
  cell *weights; /* [TILE, TILE / CELL_ELEMENTS] cells along keys; the scores' own memory without TRI_PAIRS */
  float *out;    /* [TILE, padded(D)] */
  float *maximum, *new_maximum, *factor; /* [TILE] */
  float *sum;                            /* [TILE, LANES] */
} forward_scratch;

static size_t forward_scratch_make(const tri_attention *call, void *memory, forward_scratch *out) {
  scratch from = {memory, 0};
  const int64_t width = call->head_dim, keys = call->shares_queries ? TILE : call->most_keys;
  out->keys = allocate_scratch_part(&from, divide_up(keys, TILE) * columns_bytes(width));
  out->values = allocate_scratch_part(&from, stacked_bytes(keys, width));
  out->rows = allocate_scratch_part(&from, rows_bytes(TILE, width));
  out->queries = allocate_scratch_part(&from, rows_bytes(TILE, width));
  out->scores = allocate_scratch_part(&from, TILE * TILE * 4);
#if TRI_PAIRS
  out->weights = allocate_scratch_part(&from, TILE * TILE * 2);
#else
  out->weights = out->scores;
#endif
  out->out = allocate_scratch_part(&from, TILE * padded(width) * 4);
  out->maximum = allocate_scratch_part(&from, TILE * 4);
  out->new_maximum = allocate_scratch_part(&from, TILE * 4);
  out->factor = allocate_scratch_part(&from, TILE * 4);
  out->sum = allocate_scratch_part(&from, TILE * LANES * 4);
  return from.used;
}

/* Packs `count` keys and values of a head from row `first` on, into tile number `tile` and the following ones. */
static void pack_keys_values(const tri_attention_forward *job, int64_t kv_head, int64_t first, int64_t count,
                             int64_t tile, const forward_scratch *to) {
  const tri_attention *call = job->call;
  const int64_t tile_cells = columns_bytes(call->head_dim) / 4;
  for (int64_t j = 0; j * TILE < count; j++) {
    int64_t keys = smaller(TILE, count - j * TILE);
    head_rows k = rows_of(call, job->k, call->k_row, call->k_head, first + j * TILE, kv_head, keys);
    head_rows v = rows_of(call, job->v, call->v_row, call->v_head, first + j * TILE, kv_head, keys);
    pack_rows(&k, to->rows);
    pack_columns(to->rows, keys, call->head_dim, to->keys + (tile + j) * tile_cells);
    pack_stacked(&v, to->values + (tile + j) * (TILE / CELL_ELEMENTS) * padded(call->head_dim));
  }
}

/* Computes the new maximum of each of `rows` rows from `from` on: the larger of the old maximum and the row's unmasked
 * scores. Masked scores in the same vectors become -inf. */
static void find_maxima(const forward_scratch *s, int64_t from, int64_t rows, int64_t keys, band of) {
  for (int64_t i = from; i < from + rows; i++) {
    const key_run seen = keys_seen(of, i - from, i - from, keys);
    float *score = s->scores + i * TILE;
    vf most = vf_splat(s->maximum[i]);
    for (int64_t at = seen.begin / LANES * LANES; at < seen.end; at += LANES) {
      vf some = vf_load(TRI_FP32, score, at);
      if (at < seen.begin || at + LANES > seen.end) {
        some = vf_select(lanes_between(seen.begin - at, seen.end - at), some, vf_splat(-INFINITY));
        vf_store(TRI_FP32, score, at, some);
      }
      most = vf_select(most > some, most, some);
    }
    s->new_maximum[i] = vf_highest_by_halves(most);
  }
}

/* Stores the weights of LANES keys as LANES / CELL_ELEMENTS cells. */
INLINE void weights_store(cell *to, vf x) {
#if TRI_PAIRS
  _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
  vf_store(TRI_FP32, to, 0, x);
#endif
}

/* Replaces the scores of `rows` rows from `from` on by weights, and updates maximum, factor and sum. The tile's other
 * rows do not change. */
static void softmax_rows(const forward_scratch *s, float scale_2, int64_t from, int64_t rows, int64_t keys, band of) {
  find_maxima(s, from, rows, keys, of);
  for (int64_t i = 0; i < TILE; i += LANES) {
    vf old = vf_load(TRI_FP32, s->maximum, i), new = vf_load(TRI_FP32, s->new_maximum, i);
    vf_store(TRI_FP32, s->factor, i, vf_select(old == new, vf_splat(1.0f), vf_exp2((old - new) * scale_2)));
    vf_store(TRI_FP32, s->maximum, i, new);
  }
  for (int64_t i = from; i < from + rows; i++) {
    const key_run seen = keys_seen(of, i - from, i - from, keys);
    const int64_t begin = seen.begin / LANES, end = divide_up(seen.end, LANES);
    const float *score = s->scores + i * TILE;
    cell *weight = s->weights + i * (TILE / CELL_ELEMENTS);
    const vf reference = vf_splat(s->maximum[i] * scale_2);
    vf sum = vf_load(TRI_FP32, s->sum + i * LANES, 0) * s->factor[i];
    for (int64_t v = 0; v < begin; v++) weights_store(weight + v * (LANES / CELL_ELEMENTS), (vf){0});
    for (int64_t v = begin; v < end; v++) {
      vf p = vf_exp2(vf_load(TRI_FP32, score + v * LANES, 0) * scale_2 - reference);
      sum += p;
      weights_store(weight + v * (LANES / CELL_ELEMENTS), p);
    }
    for (int64_t v = end; v < TILE / LANES; v++) weights_store(weight + v * (LANES / CELL_ELEMENTS), (vf){0});
    vf_store(TRI_FP32, s->sum + i * LANES, 0, sum);
  }
}

/* Packs a tile of queries and initialises its state: empty, or, if the call merges, from the results of previous
 * calls. */
static void begin_rows(const tri_attention_forward *job, const forward_scratch *s, int64_t head, int64_t first,
                       int64_t rows) {
  const tri_attention *call = job->call;
  const int64_t pitch = padded(call->head_dim);
  head_rows q = rows_of(call, job->q, call->q_row, call->q_head, first, head, rows);
  pack_rows(&q, s->queries);
  for (int64_t i = 0; i < TILE; i++) s->maximum[i] = s->new_maximum[i] = -INFINITY;
  memset(s->sum, 0, sizeof(float) * TILE * LANES);
  if (!call->merge) return;
  memset(s->out, 0, (size_t)(TILE * pitch) * sizeof(float));
  for (int64_t i = 0; i < rows; i++) {
    float log_sum_exp = job->log_sum_exp[head * call->query_rows + first + i];
    if (log_sum_exp == -INFINITY) continue;
    int64_t at = (first + i) * call->out_row + head * call->out_head;
    s->maximum[i] = s->new_maximum[i] = (float)((double)log_sum_exp / unit_of(call));
    s->sum[i * LANES] = 1.0f;
    row_read(s->out + i * pitch, call->out_type, element(job->out, call->out_type, at), call->head_dim);
  }
}

/* Adds the terms of some packed keys and values to `rows` rows of the tile, from row `from` on. `fresh`: whether `out`
 * is still empty. */
static void attend(const tri_attention *call, const forward_scratch *s, int64_t from, int64_t rows, const cell *keys,
                   const cell *values, int64_t num_keys, band of, bool fresh) {
  const int64_t width = call->head_dim, pitch = padded(width);
  multiply(&(product){.a = s->queries + from * row_cells(width),
                      .a_row = row_cells(width),
                      .a_step = 1,
                      .b = keys,
                      .b_step = TILE,
                      .c = s->scores + from * TILE,
                      .c_row = TILE,
                      .rows = rows,
                      .columns = num_keys,
                      .depth = width,
                      .trim = TRIM_COLUMNS,
                      .band = of});
  if (call->soft_cap > 0) cap_scores(call, s->scores, from, rows, num_keys, of);
  softmax_rows(s, (float)(unit_of(call) * LOG2_E), from, rows, num_keys, of);
  multiply(&(product){.a = s->weights + from * (TILE / CELL_ELEMENTS),
                      .a_row = TILE / CELL_ELEMENTS,
                      .a_step = 1,
                      .b = values,
                      .b_step = pitch,
                      .c = s->out + from * pitch,
                      .c_row = pitch,
                      .rows = rows,
                      .columns = width,
                      .depth = num_keys,
                      .row_scale = fresh ? NULL : s->factor + from,
                      .trim = TRIM_DEPTH_KEYS,
                      .band = of});
}

/* Returns whether a row has no keys in this call, so that it keeps the result of previous calls. */
static bool as_before(const tri_attention_forward *job, const forward_scratch *s, int64_t i, float sum,
                      int64_t statistic) {
  if (!job->call->merge || sum != 1.0f) return false;
  return s->maximum[i] == (float)((double)job->log_sum_exp[statistic] / unit_of(job->call));
}

static void end_rows(const tri_attention_forward *job, const forward_scratch *s, int64_t head, int64_t first,
                     int64_t rows) {
  const tri_attention *call = job->call;
  const int64_t pitch = padded(call->head_dim);
  for (int64_t i = 0; i < rows; i++) {
    float sum = vf_sum(vf_load(TRI_FP32, s->sum + i * LANES, 0));
    float factor = 1.0f / sum, log_sum_exp = (float)((double)s->maximum[i] * unit_of(call) + log((double)sum));
    if (sum == 0.0f) { /* the row has no keys */
      memset(s->out + i * pitch, 0, (size_t)pitch * sizeof(float));
      factor = 1.0f;
      log_sum_exp = -INFINITY;
    }
    int64_t at = (first + i) * call->out_row + head * call->out_head, statistic = head * call->query_rows + first + i;
    if (as_before(job, s, i, sum, statistic)) continue;
    fetch_to_write(job->out, call->out_type, at + AHEAD * call->out_row, call->head_dim);
    row_write(element_to_write(job->out, call->out_type, at), call->out_type, s->out + i * pitch, factor,
              call->head_dim);
    if (job->log_sum_exp) job->log_sum_exp[statistic] = log_sum_exp;
  }
}

static size_t forward_scratch_bytes(const tri_attention *call) {
  forward_scratch unused;
  return forward_scratch_make(call, NULL, &unused);
}

/* Returns the range of keys to which queries [first, first + count) of a slice attend. The begin of the range is
 * rounded down to the begin of a tile. */
static key_run seen_of(const tri_attention_slice *slice, int64_t first, int64_t count) {
  key_run seen = keys_seen((band){slice->from, slice->to}, first, first + count - 1, slice->keys);
  seen.begin = seen.begin / TILE * TILE;
  return seen;
}

static void forward(const tri_attention_forward *job, int64_t index, int64_t kv_head, int64_t first, int64_t count,
                    void *memory) {
  const tri_attention *call = job->call;
  const tri_attention_slice *slice = &job->slices[index];
  const int64_t tiles = divide_up(slice->queries, TILE), group = call->heads / call->kv_heads;
  const int64_t columns = columns_bytes(call->head_dim) / 4;
  const int64_t stacked = TILE / CELL_ELEMENTS * padded(call->head_dim);
  key_run all = {INT64_MAX, 0};
  for (int64_t unit = first; unit < first + count; unit++) {
    const int64_t at = unit % tiles * TILE;
    const key_run here = seen_of(slice, at, smaller(TILE, slice->queries - at));
    if (here.begin == here.end) continue;
    all.begin = smaller(all.begin, here.begin);
    if (here.end > all.end) all.end = here.end;
  }
  forward_scratch s;
  forward_scratch_make(call, memory, &s);
  if (all.begin < all.end) {
    pack_keys_values(job, kv_head, slice->first_key + all.begin, all.end - all.begin, all.begin / TILE, &s);
  }
  for (int64_t unit = first; unit < first + count; unit++) {
    const int64_t head = kv_head * group + unit / tiles, at = unit % tiles * TILE;
    const int64_t row = slice->first_query + at, rows = smaller(TILE, slice->queries - at);
    begin_rows(job, &s, head, row, rows);
    const key_run seen = seen_of(slice, at, rows);
    for (int64_t key = seen.begin; key < seen.end; key += TILE) {
      attend(call, &s, 0, rows, s.keys + key / TILE * columns, s.values + key / TILE * stacked,
             smaller(TILE, seen.end - key), band_of(slice, row, slice->first_key + key),
             key == seen.begin && !call->merge);
    }
    end_rows(job, &s, head, row, rows);
  }
}

/* Computes a tile of rows of q through all slices. Keys are packed again for each tile of queries, because each slice
 * cuts them in tiles differently. */
static void forward_rows(const tri_attention_forward *job, int64_t head, int64_t first, int64_t rows, void *memory) {
  const tri_attention *call = job->call;
  forward_scratch s;
  forward_scratch_make(call, memory, &s);
  begin_rows(job, &s, head, first, rows);
  if (!call->merge) memset(s.out, 0, (size_t)(TILE * padded(call->head_dim)) * sizeof(float));
  for (int64_t i = 0; i < job->num_slices; i++) {
    const tri_attention_slice *slice = &job->slices[i];
    const int64_t begin = clamp(slice->first_query, first, first + rows);
    const int64_t end = clamp((int64_t)slice->first_query + slice->queries, first, first + rows);
    if (begin >= end) continue;
    const key_run seen = seen_of(slice, begin - slice->first_query, end - begin);
    for (int64_t j = seen.begin; j < seen.end; j += TILE) {
      const int64_t key = slice->first_key + j, keys = smaller(TILE, seen.end - j);
      pack_keys_values(job, head / (call->heads / call->kv_heads), key, keys, 0, &s);
      attend(call, &s, begin - first, end - begin, s.keys, s.values, keys, band_of(slice, begin, key), false);
    }
  }
  end_rows(job, &s, head, first, rows);
}

#endif
