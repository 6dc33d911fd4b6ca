/* Attention of one query for each head, as a step of text generation has it, on keys and values where they lie: those
 * of a cache are read once, and packing them would take longer than using them. The softmax is that of
 * attention_forward.h, tile by tile; its sums are made in the order of the keys and, of a score, of the lanes. */
#include "device/cpu/attention.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>

enum { TILE = TRI_ATTENTION_TILE, VECTORS = 4 /* of a row of values at once */ };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* What a head has found so far. */
typedef struct head_state {
  float *q, *out; /* [head_dim], whole vectors: the lanes behind it are 0 */
  float maximum, sum;
} head_state;

INLINE float sum_of_lanes(vf x) {
  for (int by = LANES / 2; by > 0; by /= 2) x += (vf)vi_swap((vi)x, by);
  return x[0];
}

/* scores[i] = q k_i for `count` keys from row `first` on; those behind them are -inf. */
INLINE void score_keys(tri_dtype type, const tri_attention_forward *job, const head_state *s, int64_t kv_head,
                       int64_t first, int64_t count, float *scores) {
  const tri_attention *call = job->call;
  for (int64_t j = 0; j < count; j++) {
    const int64_t key = (first + j) * call->k_row + kv_head * call->k_head;
    vf sum = {0};
    FOR_VECTORS(i, some, 0, call->head_dim,
                { sum += vf_load(TRI_FP32, s->q, i) * vf_get(type, job->k, key + i, some); });
    scores[j] = sum_of_lanes(sum);
  }
  for (int64_t j = count; j < TILE; j++) scores[j] = -INFINITY;
}

/* With a cap c, tanh(scale score / c), for which c stands in the place of the scale. */
static void cap_scores(const tri_attention *call, int64_t count, float *scores) {
  const float factor = (float)(call->scale / call->soft_cap);
  for (int64_t j = 0; j < count; j += LANES) {
    const vf capped = vf_tanh(vf_load(TRI_FP32, scores, j) * factor);
    vf_put(TRI_FP32, scores, j, smaller(LANES, count - j), capped);
  }
}

/* Scores become weights; what there was before is worth the factor that is returned. */
static float softmax_row(const tri_attention *call, head_state *s, float *scores) {
  const float unit = (float)(call->soft_cap > 0 ? call->soft_cap : call->scale), before = s->maximum;
  vf most = vf_splat(before), sum = {0};
  for (int64_t j = 0; j < TILE; j += LANES) most = vf_max(most, vf_load(TRI_FP32, scores, j));
  s->maximum = vf_highest(most);
  for (int64_t j = 0; j < TILE; j += LANES) {
    const vf weight = vf_exp((vf_load(TRI_FP32, scores, j) - s->maximum) * unit);
    vf_store(TRI_FP32, scores, j, weight);
    sum += weight;
  }
  const float factor = vf_exp(vf_splat((before - s->maximum) * unit))[0];
  s->sum = s->sum * factor + sum_of_lanes(sum);
  return factor;
}

/* `vectors` vectors of out, from element `i` on, or `some` elements of one: times the factor, and values added. */
INLINE void add_some(tri_dtype type, const tri_attention_forward *job, const head_state *s, int64_t value,
                     int64_t count, const float *weights, float factor, int64_t i, int64_t vectors, int64_t some) {
  vf out[VECTORS];
  for (int64_t v = 0; v < vectors; v++) out[v] = vf_load(TRI_FP32, s->out, i + v * LANES) * factor;
  for (int64_t j = 0; j < count; j++)
    for (int64_t v = 0; v < vectors; v++)
      out[v] += weights[j] * vf_get(type, job->v, value + j * job->call->v_row + i + v * LANES, some);
  for (int64_t v = 0; v < vectors; v++) vf_store(TRI_FP32, s->out, i + v * LANES, out[v]);
}

INLINE void add_values(tri_dtype type, const tri_attention_forward *job, const head_state *s, int64_t kv_head,
                       int64_t first, int64_t count, const float *weights, float factor) {
  const tri_attention *call = job->call;
  const int64_t value = first * call->v_row + kv_head * call->v_head;
  int64_t done = 0;
  for (; done + VECTORS * LANES <= call->head_dim; done += VECTORS * LANES)
    add_some(type, job, s, value, count, weights, factor, done, VECTORS, LANES);
  FOR_VECTORS(i, some, done, call->head_dim, { add_some(type, job, s, value, count, weights, factor, i, 1, some); });
}

INLINE void attend(tri_dtype type, const tri_attention_forward *job, const tri_attention_slice *slice, int64_t kv_head,
                   head_state *s) {
  const int64_t end = smaller(slice->keys, (int64_t)slice->to + 1);
  for (int64_t at = larger(0, slice->from); at < end; at += TILE) {
    float scores[TILE] __attribute__((aligned(64)));
    const int64_t count = smaller(TILE, end - at);
    score_keys(type, job, s, kv_head, slice->first_key + at, count, scores);
    if (job->call->soft_cap > 0) cap_scores(job->call, count, scores);
    const float factor = softmax_row(job->call, s, scores);
    add_values(type, job, s, kv_head, slice->first_key + at, count, scores, factor);
  }
}

INLINE void widen_row(tri_dtype type, const void *from, int64_t at, int64_t width, float *to) {
  FOR_VECTORS(i, some, 0, width, { vf_store(TRI_FP32, to, i, vf_get(type, from, at + i, some)); });
}

/* A query that sees nothing gets 0. */
static void write_row(tri_dtype type, const head_state *s, int64_t width, void *to, int64_t at) {
  const float factor = s->sum == 0.0f ? 1.0f : 1.0f / s->sum;
  FOR_VECTORS(i, some, 0, width, {
    const vf x = vf_load(TRI_FP32, s->out, i) * factor;
    if (type == TRI_BF16) {
      vf_put(TRI_BF16, to, at + i, some, x);
    } else {
      vf_put(TRI_FP32, to, at + i, some, x);
    }
  });
}

void TRI_KERNEL(attention_step)(const tri_attention_forward *job, int64_t index, int64_t kv_head, void *memory) {
  const tri_attention *call = job->call;
  const tri_attention_slice *slice = &job->slices[index];
  const int64_t group = call->heads / call->kv_heads, padded = (call->head_dim + LANES - 1) / LANES * LANES;
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
    head_state s = {.q = memory, .out = (float *)memory + padded, .maximum = -INFINITY};
    const int64_t query = slice->first_query * call->q_row + head * call->q_head;
    memset(s.out, 0, (size_t)padded * sizeof(float));
    if (call->type == TRI_BF16) {
      widen_row(TRI_BF16, job->q, query, call->head_dim, s.q);
      attend(TRI_BF16, job, slice, kv_head, &s);
    } else {
      widen_row(TRI_FP32, job->q, query, call->head_dim, s.q);
      attend(TRI_FP32, job, slice, kv_head, &s);
    }
    write_row(call->out_type, &s, call->head_dim, job->out, slice->first_query * call->out_row + head * call->out_head);
  }
}
