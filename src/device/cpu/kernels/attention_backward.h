/* Attention backward: the weights are recomputed tile by tile from the log-sum-exp of the forward (Dao et al., 2022):
 *
 *   p = exp(scale q k^T - log_sum_exp);  delta = sum over d of out * gradient_out
 *   gradient_v += p^T gradient_out;   ds = scale p * (gradient_out v^T - delta)
 *   gradient_q += ds k;               gradient_k += ds^T q
 *
 * With a soft cap c, p = exp(c t - log_sum_exp) with t = tanh(scale q k^T / c), and ds is also multiplied by 1 - t^2.
 *
 * There are two algorithms. backward_whole gives one thread a key/value head of a slice or, if slices share keys, of
 * all slices. It computes p and ds once, in five GEMMs per tile. backward_keys and backward_queries have a task for
 * each tile of keys and for each tile of queries, with seven GEMMs per tile, for calls with fewer heads than threads.
 * Both add the tiles to a gradient in the same order (heads, then queries; keys for q), so their results are identical.
 */
#ifndef TRI_DEVICE_CPU_KERNELS_ATTENTION_BACKWARD_H
#define TRI_DEVICE_CPU_KERNELS_ATTENTION_BACKWARD_H

#include "device/cpu/kernels/attention_pack.h"

/* A tile of queries: rows of q and of the gradient of out. */
typedef struct query_tile {
  int64_t first, count;
  cell *q_rows, *q_stacked, *o_rows, *o_stacked; /* packed tiles (attention_pack.h) of q and of the gradient of out;
                                                    without TRI_PAIRS the stacked tiles are the tiles of rows */
  const float *log_sum_exp, *delta;
} query_tile;

typedef struct key_tile {
  int64_t first, count;
  cell *k_rows; /* packed rows, from which columns are made: first of the values, then of the keys */
  cell *k_columns, *v_columns, *k_stacked; /* packed tiles of k and v; without TRI_PAIRS, k_stacked is k_rows */
} key_tile;

/* The weights of a pair of tiles, and their gradients. Each is stored in three forms: [TILE, TILE] floats as computed;
 * [TILE, TILE / CELL_ELEMENTS] cells along keys; and [TILE / CELL_ELEMENTS, TILE] cells along queries. Without
 * TRI_PAIRS the three share memory. */
typedef struct weights_tile {
  float *weights, *gradients;
  cell *gradients_along_keys, *weights_along_queries, *gradients_along_queries;
} weights_tile;

typedef struct backward_scratch {
  query_tile queries; /* all queries if `whole`, else one tile */
  key_tile keys;
  weights_tile pair;
  float *gradient_q;              /* [queries or TILE, padded(D)] */
  float *gradient_k, *gradient_v; /* [keys or TILE, padded(D)]: all keys if heads or slices share them */
} backward_scratch;

static size_t backward_scratch_make(const tri_attention *call, bool whole, void *memory, backward_scratch *out) {
  scratch from = {memory, 0};
  const int64_t width = call->head_dim;
  const int64_t queries = whole ? divide_up(call->most_queries, TILE) * TILE : TILE;
  int64_t keys = TILE;
  if (whole && call->shares_keys) {
    keys = divide_up(call->key_rows, TILE) * TILE + TILE; /* a tile may begin at any row */
  } else if (whole && call->heads > call->kv_heads) {
    keys = divide_up(call->most_keys, TILE) * TILE;
  }
  out->queries.q_rows = allocate_scratch_part(&from, rows_bytes(queries, width));
  out->queries.o_rows = allocate_scratch_part(&from, rows_bytes(queries, width));
  out->keys.k_rows = allocate_scratch_part(&from, rows_bytes(TILE, width));
  out->keys.k_columns = allocate_scratch_part(&from, columns_bytes(width));
  out->keys.v_columns = allocate_scratch_part(&from, columns_bytes(width));
  out->pair.weights = allocate_scratch_part(&from, TILE * TILE * 4);
  out->pair.gradients = allocate_scratch_part(&from, TILE * TILE * 4);
#if TRI_PAIRS
  out->queries.q_stacked = allocate_scratch_part(&from, stacked_bytes(queries, width));
  out->queries.o_stacked = allocate_scratch_part(&from, stacked_bytes(queries, width));
  out->keys.k_stacked = allocate_scratch_part(&from, stacked_bytes(TILE, width));
  out->pair.gradients_along_keys = allocate_scratch_part(&from, TILE * TILE * 2);
  out->pair.weights_along_queries = allocate_scratch_part(&from, TILE * TILE * 2);
  out->pair.gradients_along_queries = allocate_scratch_part(&from, TILE * TILE * 2);
#else
  out->queries.q_stacked = out->queries.q_rows;
  out->queries.o_stacked = out->queries.o_rows;
  out->keys.k_stacked = out->keys.k_rows;
  out->pair.weights_along_queries = out->pair.weights;
  out->pair.gradients_along_keys = out->pair.gradients_along_queries = out->pair.gradients;
#endif
  out->gradient_q = allocate_scratch_part(&from, queries * padded(width) * 4);
  out->gradient_k = allocate_scratch_part(&from, keys * padded(width) * 4);
  out->gradient_v = allocate_scratch_part(&from, keys * padded(width) * 4);
  return from.used;
}

/* Returns the tile of `whole` that begins at its query number `first`. */
static query_tile tile_of(const tri_attention *call, const query_tile *whole, int64_t first) {
  const int64_t rows = first * row_cells(call->head_dim), stacked = first / CELL_ELEMENTS * padded(call->head_dim);
  return (query_tile){.first = whole->first + first,
                      .count = smaller(TILE, whole->count - first),
                      .q_rows = whole->q_rows + rows,
                      .q_stacked = whole->q_stacked + stacked,
                      .o_rows = whole->o_rows + rows,
                      .o_stacked = whole->o_stacked + stacked,
                      .log_sum_exp = whole->log_sum_exp + first,
                      .delta = whole->delta + first};
}

static void pack_queries(const tri_attention_backward *job, int64_t head, int64_t first, int64_t count,
                         query_tile *to) {
  const tri_attention *call = job->call;
  const int64_t statistics = head * call->query_rows + first;
  head_rows q = rows_of(call, job->q, call->q_row, call->q_head, first, head, count);
  head_rows o = rows_of(call, job->gradient_out, call->out_row, call->out_head, first, head, count);
  pack_rows(&q, to->q_rows);
  pack_rows(&o, to->o_rows);
#if TRI_PAIRS
  pack_stacked(&q, to->q_stacked);
  pack_stacked(&o, to->o_stacked);
#endif
  to->first = first;
  to->count = count;
  to->log_sum_exp = job->log_sum_exp + statistics;
  to->delta = job->delta + statistics;
}

static void pack_keys(const tri_attention_backward *job, int64_t kv_head, int64_t first, int64_t count, key_tile *to) {
  const tri_attention *call = job->call;
  to->first = first;
  to->count = count;
  head_rows k = rows_of(call, job->k, call->k_row, call->k_head, first, kv_head, count);
  head_rows v = rows_of(call, job->v, call->v_row, call->v_head, first, kv_head, count);
  pack_rows(&v, to->k_rows);
  pack_columns(to->k_rows, to->count, call->head_dim, to->v_columns);
  pack_rows(&k, to->k_rows);
  pack_columns(to->k_rows, to->count, call->head_dim, to->k_columns);
#if TRI_PAIRS
  pack_stacked(&k, to->k_stacked);
#endif
}

/* Returns the band of the keys of tile k to which the queries of tile q attend. */
INLINE band band_between(const tri_attention_slice *slice, const query_tile *q, const key_tile *k) {
  return band_of(slice, q->first, k->first);
}

/* Returns whether any query of tile q attends to any key of tile k. */
INLINE bool sees(const tri_attention_slice *slice, const query_tile *q, const key_tile *k) {
  const band of = band_between(slice, q, k);
  return q->count - 1 + of.high >= 0 && of.low < k->count;
}

/* Replaces, in place, scores by weights, and gradients of weights by gradients of scores. Masked elements become zeros.
 */
INLINE void weigh(const tri_attention *call, band of, const query_tile *q, const key_tile *k, const weights_tile *pair,
                  const bool capped) {
  const float scale = (float)call->scale, scale_2 = (float)(unit_of(call) * LOG2_E);
  for (int64_t i = 0; i < q->count; i++) {
    const key_run seen = keys_seen(of, i, i, k->count);
    const vf reference = vf_splat((float)(q->log_sum_exp[i] * LOG2_E)), delta = vf_splat(q->delta[i]);
    float *weight = pair->weights + i * TILE, *gradient = pair->gradients + i * TILE;
    int64_t at = 0;
    for (; at + LANES <= seen.begin; at += LANES) {
      vf_store(TRI_FP32, weight, at, (vf){0});
      vf_store(TRI_FP32, gradient, at, (vf){0});
    }
    for (; at < seen.end; at += LANES) {
      const vf score = vf_load(TRI_FP32, weight, at);
      vf p = vf_exp2(score * scale_2 - reference);
      vf g = p * (vf_load(TRI_FP32, gradient, at) - delta) * scale;
      if (capped) g *= 1.0f - score * score;
      if (at < seen.begin || at + LANES > seen.end) {
        const vi visible = lanes_between(seen.begin - at, seen.end - at);
        p = vf_select(visible, p, (vf){0});
        g = vf_select(visible, g, (vf){0});
      }
      vf_store(TRI_FP32, weight, at, p);
      vf_store(TRI_FP32, gradient, at, g);
    }
    for (; at < TILE; at += LANES) {
      vf_store(TRI_FP32, weight, at, (vf){0});
      vf_store(TRI_FP32, gradient, at, (vf){0});
    }
  }
}

static void weigh_plain(const tri_attention *call, band of, const query_tile *q, const key_tile *k,
                        const weights_tile *pair) {
  weigh(call, of, q, k, pair, false);
}

static void weigh_capped(const tri_attention *call, band of, const query_tile *q, const key_tile *k,
                         const weights_tile *pair) {
  cap_scores(call, pair->weights, 0, q->count, k->count, of);
  weigh(call, of, q, k, pair, true);
}

#if TRI_PAIRS
/* Stores a row of cells along queries, made of two rows of floats. */
INLINE void stack(cell *to, vf even, vf odd) {
  static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi16(_mm512_loadu_si512(order), both));
}

static void narrow(const query_tile *q, const weights_tile *pair) {
  for (int64_t i = 0; i < q->count; i += 2) {
    const bool odd = i + 1 < q->count;
    for (int64_t v = 0; v < TILE; v += LANES) {
      const float *weight = pair->weights + i * TILE + v, *gradient = pair->gradients + i * TILE + v;
      vf g0 = vf_load(TRI_FP32, gradient, 0), g1 = odd ? vf_load(TRI_FP32, gradient, TILE) : (vf){0};
      stack(pair->weights_along_queries + i / 2 * TILE + v, vf_load(TRI_FP32, weight, 0),
            odd ? vf_load(TRI_FP32, weight, TILE) : (vf){0});
      stack(pair->gradients_along_queries + i / 2 * TILE + v, g0, g1);
      cell *row = pair->gradients_along_keys + (i * TILE + v) / 2;
      _mm256_storeu_si256((__m256i *)row, (__m256i)_mm512_cvtneps_pbh((__m512)g0));
      if (odd) _mm256_storeu_si256((__m256i *)(row + TILE / 2), (__m256i)_mm512_cvtneps_pbh((__m512)g1));
    }
  }
}
#endif

/* Clears the gradient of scores that are certain: a query with one key gives it weight 1 for any score, so the score's
 * gradient is 0, and rounding must not change that. */
static void clear_certain(const tri_attention *call, const tri_attention_slice *slice, const query_tile *q,
                          const key_tile *k, const weights_tile *pair) {
  const band of = {slice->from, slice->to};
  if (call->merge || call->shares_queries) return; /* the query may have keys in other slices */
  for (int64_t i = 0; i < q->count; i++) {
    const int64_t row = q->first + i - slice->first_query;
    const key_run seen = keys_seen(of, row, row, slice->keys);
    const int64_t column = seen.begin - (k->first - slice->first_key);
    if (seen.end - seen.begin != 1 || column < 0 || column >= k->count) continue;
    pair->gradients[i * TILE + column] = 0.0f;
  }
}

static void compute_weights(const tri_attention *call, const tri_attention_slice *slice, const query_tile *q,
                            const key_tile *k, const weights_tile *pair) {
  product scores = {.a = q->q_rows,
                    .a_row = row_cells(call->head_dim),
                    .a_step = 1,
                    .b = k->k_columns,
                    .b_step = TILE,
                    .c = pair->weights,
                    .c_row = TILE,
                    .rows = q->count,
                    .columns = k->count,
                    .depth = call->head_dim,
                    .trim = TRIM_COLUMNS,
                    .band = band_between(slice, q, k)};
  multiply(&scores);
  scores.a = q->o_rows;
  scores.b = k->v_columns;
  scores.c = pair->gradients;
  multiply(&scores);
  (call->soft_cap > 0 ? weigh_capped : weigh_plain)(call, scores.band, q, k, pair);
  clear_certain(call, slice, q, k, pair);
#if TRI_PAIRS
  narrow(q, pair);
#endif
}

static void add_to_keys(const tri_attention *call, band of, const query_tile *q, const key_tile *k,
                        const weights_tile *pair, float *gradient_k, float *gradient_v) {
  const int64_t pitch = padded(call->head_dim);
  product sum = {.a = pair->weights_along_queries,
                 .a_row = 1,
                 .a_step = TILE,
                 .b = q->o_stacked,
                 .b_step = pitch,
                 .c = gradient_v,
                 .c_row = pitch,
                 .rows = k->count,
                 .columns = call->head_dim,
                 .depth = q->count,
                 .accumulate = true,
                 .trim = TRIM_DEPTH_QUERIES,
                 .band = of};
  multiply(&sum);
  sum.a = pair->gradients_along_queries;
  sum.b = q->q_stacked;
  sum.c = gradient_k;
  multiply(&sum);
}

static void add_to_queries(const tri_attention *call, band of, const query_tile *q, const key_tile *k,
                           const weights_tile *pair, float *gradient_q) {
  const int64_t pitch = padded(call->head_dim);
  multiply(&(product){.a = pair->gradients_along_keys,
                      .a_row = TILE / CELL_ELEMENTS,
                      .a_step = 1,
                      .b = k->k_stacked,
                      .b_step = pitch,
                      .c = gradient_q,
                      .c_row = pitch,
                      .rows = q->count,
                      .columns = call->head_dim,
                      .depth = k->count,
                      .accumulate = true,
                      .trim = TRIM_DEPTH_KEYS,
                      .band = of});
}

static void write_gradient(const tri_attention *call, void *gradient, int64_t row_stride, int64_t head_stride,
                           int64_t head, int64_t first, int64_t count, float *from) {
  const tri_dtype type = call->gradient_type;
  for (int64_t i = 0; i < count; i++, from += padded(call->head_dim)) {
    const int64_t at = (first + i) * row_stride + head * head_stride;
    void *row = element_to_write(gradient, type, at);
    fetch_to_write(gradient, type, at + AHEAD * row_stride, call->head_dim);
    if (call->accumulate) row_add(from, type, row, call->head_dim);
    row_write(row, type, from, 1.0f, call->head_dim);
  }
}

static void write_keys(const tri_attention_backward *job, int64_t kv_head, int64_t first, int64_t count,
                       float *gradient_k, float *gradient_v) {
  const tri_attention *call = job->call;
  write_gradient(call, job->gradient_k, call->k_row, call->k_head, kv_head, first, count, gradient_k);
  write_gradient(call, job->gradient_v, call->v_row, call->v_head, kv_head, first, count, gradient_v);
}

static size_t backward_scratch_bytes(const tri_attention *call, bool whole) {
  backward_scratch unused;
  return backward_scratch_make(call, whole, NULL, &unused);
}

static void delta(const tri_attention_backward *job, int64_t head, int64_t first, int64_t count) {
  const tri_attention *call = job->call;
  enum { SUMS = 16 };
  for (int64_t row = first; row < first + count; row++) {
    const int64_t at = row * call->out_row + head * call->out_head;
    float sum[SUMS] = {0}, out[SUMS] = {0}, gradient[SUMS] = {0};
    int64_t d = 0;
    fetch(job->out, call->out_type, at + AHEAD * call->out_row, call->head_dim);
    fetch(job->gradient_out, call->type, at + AHEAD * call->out_row, call->head_dim);
    for (; d + SUMS <= call->head_dim; d += SUMS) {
      row_read(out, call->out_type, element(job->out, call->out_type, at + d), SUMS);
      row_read(gradient, call->type, element(job->gradient_out, call->type, at + d), SUMS);
      for (int64_t i = 0; i < SUMS; i++) sum[i] += out[i] * gradient[i];
    }
    if (d < call->head_dim) {
      const int64_t rest = call->head_dim - d;
      row_read(out, call->out_type, element(job->out, call->out_type, at + d), rest);
      row_read(gradient, call->type, element(job->gradient_out, call->type, at + d), rest);
      for (int64_t i = 0; i < rest; i++) sum[i] += out[i] * gradient[i];
    }
    for (int half = SUMS / 2; half > 0; half /= 2)
      for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    job->delta[head * call->query_rows + row] = sum[0];
  }
}

/* Computes all tiles of a slice for a head; the heads that share a key/value head add to the same gradients. The
 * slice's keys begin at the first row of gradient_k and gradient_v. */
static void backward_slice(const tri_attention_backward *job, const tri_attention_slice *slice, int64_t head,
                           backward_scratch *s, float *gradient_k, float *gradient_v) {
  const tri_attention *call = job->call;
  const int64_t pitch = padded(call->head_dim), kv_head = head / (call->heads / call->kv_heads);
  pack_queries(job, head, slice->first_query, slice->queries, &s->queries);
  memset(s->gradient_q, 0, (size_t)(slice->queries * pitch) * sizeof(float));
  for (int64_t first = 0; first < slice->keys; first += TILE) {
    pack_keys(job, kv_head, slice->first_key + first, smaller(TILE, slice->keys - first), &s->keys);
    for (int64_t query = 0; query < slice->queries; query += TILE) {
      query_tile q = tile_of(call, &s->queries, query);
      const band of = band_between(slice, &q, &s->keys);
      if (!sees(slice, &q, &s->keys)) continue;
      compute_weights(call, slice, &q, &s->keys, &s->pair);
      add_to_keys(call, of, &q, &s->keys, &s->pair, gradient_k + first * pitch, gradient_v + first * pitch);
      add_to_queries(call, of, &q, &s->keys, &s->pair, s->gradient_q + query * pitch);
    }
  }
  write_gradient(call, job->gradient_q, call->q_row, call->q_head, head, slice->first_query, slice->queries,
                 s->gradient_q);
}

static void backward_shared(const tri_attention_backward *job, int64_t kv_head, void *memory) {
  const tri_attention *call = job->call;
  const int64_t group = call->heads / call->kv_heads, pitch = padded(call->head_dim);
  backward_scratch s;
  backward_scratch_make(call, true, memory, &s);
  memset(s.gradient_k, 0, (size_t)((call->key_rows + TILE) * pitch) * sizeof(float));
  memset(s.gradient_v, 0, (size_t)((call->key_rows + TILE) * pitch) * sizeof(float));
  for (const tri_attention_slice *slice = job->slices; slice < job->slices + job->num_slices; slice++) {
    if (slice->queries == 0 || slice->keys == 0) continue;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
      backward_slice(job, slice, head, &s, s.gradient_k + slice->first_key * pitch,
                     s.gradient_v + slice->first_key * pitch);
    }
  }
  write_keys(job, kv_head, 0, call->key_rows, s.gradient_k, s.gradient_v);
}

static void backward_whole(const tri_attention_backward *job, int64_t index, int64_t kv_head, void *memory) {
  const tri_attention *call = job->call;
  const tri_attention_slice *slice = &job->slices[index];
  const int64_t group = call->heads / call->kv_heads, pitch = padded(call->head_dim);
  backward_scratch s;
  backward_scratch_make(call, true, memory, &s);
  for (int64_t member = 0; member < group; member++) {
    const int64_t head = kv_head * group + member;
    pack_queries(job, head, slice->first_query, slice->queries, &s.queries);
    memset(s.gradient_q, 0, (size_t)(slice->queries * pitch) * sizeof(float));
    for (int64_t first = 0; first < slice->keys; first += TILE) {
      float *gradient_k = s.gradient_k + (group > 1 ? first * pitch : 0);
      float *gradient_v = s.gradient_v + (group > 1 ? first * pitch : 0);
      pack_keys(job, kv_head, slice->first_key + first, smaller(TILE, slice->keys - first), &s.keys);
      if (member == 0) memset(gradient_k, 0, (size_t)(TILE * pitch) * sizeof(float));
      if (member == 0) memset(gradient_v, 0, (size_t)(TILE * pitch) * sizeof(float));
      for (int64_t query = 0; query < slice->queries; query += TILE) {
        query_tile q = tile_of(call, &s.queries, query);
        const band of = band_between(slice, &q, &s.keys);
        if (!sees(slice, &q, &s.keys)) continue;
        compute_weights(call, slice, &q, &s.keys, &s.pair);
        add_to_keys(call, of, &q, &s.keys, &s.pair, gradient_k, gradient_v);
        add_to_queries(call, of, &q, &s.keys, &s.pair, s.gradient_q + query * pitch);
      }
      if (member == group - 1) write_keys(job, kv_head, s.keys.first, s.keys.count, gradient_k, gradient_v);
    }
    write_gradient(call, job->gradient_q, call->q_row, call->q_head, head, slice->first_query, slice->queries,
                   s.gradient_q);
  }
}

/* Returns the number of rows of [first, first + count) that are in [from, from + length), and sets the first of
 * them. */
INLINE int64_t common_rows(int64_t from, int64_t length, int64_t first, int64_t count, int64_t *begin) {
  *begin = clamp(from, first, first + count);
  return clamp(from + length, *begin, first + count) - *begin;
}

static void backward_keys(const tri_attention_backward *job, int64_t begin, int64_t end, int64_t kv_head, int64_t first,
                          int64_t count, void *memory) {
  const tri_attention *call = job->call;
  const int64_t group = call->heads / call->kv_heads, pitch = padded(call->head_dim);
  backward_scratch s;
  backward_scratch_make(call, false, memory, &s);
  memset(s.gradient_k, 0, (size_t)(TILE * pitch) * sizeof(float));
  memset(s.gradient_v, 0, (size_t)(TILE * pitch) * sizeof(float));
  for (const tri_attention_slice *slice = job->slices + begin; slice < job->slices + end; slice++) {
    int64_t key = 0, keys = common_rows(slice->first_key, slice->keys, first, count, &key);
    float *gradient_k = s.gradient_k + (key - first) * pitch, *gradient_v = s.gradient_v + (key - first) * pitch;
    if (keys == 0 || slice->queries == 0) continue;
    pack_keys(job, kv_head, key, keys, &s.keys);
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
      for (int64_t query = 0; query < slice->queries; query += TILE) {
        query_tile q = {.first = slice->first_query + query, .count = smaller(TILE, slice->queries - query)};
        if (!sees(slice, &q, &s.keys)) continue;
        pack_queries(job, head, q.first, q.count, &s.queries);
        compute_weights(call, slice, &s.queries, &s.keys, &s.pair);
        add_to_keys(call, band_between(slice, &q, &s.keys), &s.queries, &s.keys, &s.pair, gradient_k, gradient_v);
      }
    }
  }
  write_keys(job, kv_head, first, count, s.gradient_k, s.gradient_v);
}

static void backward_queries(const tri_attention_backward *job, int64_t begin, int64_t end, int64_t head, int64_t first,
                             int64_t count, void *memory) {
  const tri_attention *call = job->call;
  const int64_t kv_head = head / (call->heads / call->kv_heads), pitch = padded(call->head_dim);
  backward_scratch s;
  backward_scratch_make(call, false, memory, &s);
  memset(s.gradient_q, 0, (size_t)(TILE * pitch) * sizeof(float));
  for (const tri_attention_slice *slice = job->slices + begin; slice < job->slices + end; slice++) {
    int64_t query = 0, queries = common_rows(slice->first_query, slice->queries, first, count, &query);
    float *gradient_q = s.gradient_q + (query - first) * pitch;
    if (queries == 0) continue;
    pack_queries(job, head, query, queries, &s.queries);
    for (int64_t key = 0; key < slice->keys; key += TILE) {
      const key_tile k = {.first = slice->first_key + key, .count = smaller(TILE, slice->keys - key)};
      if (!sees(slice, &s.queries, &k)) continue;
      pack_keys(job, kv_head, k.first, k.count, &s.keys);
      compute_weights(call, slice, &s.queries, &s.keys, &s.pair);
      add_to_queries(call, band_between(slice, &s.queries, &k), &s.queries, &s.keys, &s.pair, gradient_q);
    }
  }
  write_gradient(call, job->gradient_q, call->q_row, call->q_head, head, first, count, s.gradient_q);
}

#endif
