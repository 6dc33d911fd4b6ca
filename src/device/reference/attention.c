/* Attention, plainly: every query by itself, in double. Nothing here is larger than one row of scores or than the
 * gradients of one key/value head, which are summed in double before they are stored once. */
#include "device/reference/attention.h"

#include "base/status.h"

#include <math.h>
#include <string.h>

static double get(tri_dtype type, const void *base, int64_t index) {
  switch (type) {
    case TRI_FP64: return ((const double *)base)[index];
    case TRI_FP32: return (double)((const float *)base)[index];
    case TRI_BF16: {
      uint32_t bits = (uint32_t)((const uint16_t *)base)[index] << 16;
      float value;
      memcpy(&value, &bits, sizeof value);
      return (double)value;
    }
    case TRI_INT32: break; /* no activations */
  }
  return NAN;
}

/* To nearest even in one step: rounding to float on the way would round twice, so that step keeps a sticky last bit. */
static uint16_t bf16_of(double value) {
  float nearest = (float)value;
  uint32_t bits;
  memcpy(&bits, &nearest, sizeof bits);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40);
  if (!isinf(nearest) && (double)nearest != value) {
    if (fabs((double)nearest) > fabs(value)) bits--;
    bits |= 1;
  }
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void set(tri_dtype type, void *base, int64_t index, double value) {
  switch (type) {
    case TRI_FP64: ((double *)base)[index] = value; return;
    case TRI_FP32: ((float *)base)[index] = (float)value; return;
    case TRI_BF16: ((uint16_t *)base)[index] = bf16_of(value); return;
    case TRI_INT32: return; /* no activations */
  }
}

static int64_t index_q(const tri_attention *c, int64_t b, int64_t h, int64_t t) {
  return b * c->q_batch + t * c->q_position + h * c->head_dim;
}
static int64_t index_k(const tri_attention *c, int64_t b, int64_t g, int64_t t) {
  return b * c->k_batch + t * c->k_position + g * c->head_dim;
}
static int64_t index_v(const tri_attention *c, int64_t b, int64_t g, int64_t t) {
  return b * c->v_batch + t * c->v_position + g * c->head_dim;
}
static int64_t index_out(const tri_attention *c, int64_t b, int64_t h, int64_t t) {
  return ((b * c->queries + t) * c->heads + h) * c->head_dim;
}
static int64_t index_statistic(const tri_attention *c, int64_t b, int64_t h, int64_t t) {
  return (b * c->heads + h) * c->queries + t;
}

static tri_status check(const tri_attention *c) {
  if (c->batch >= 0 && c->queries >= 0 && c->queries <= c->keys && c->head_dim > 0 && c->kv_heads > 0 && c->heads > 0 &&
      c->heads % c->kv_heads == 0)
    return TRI_OK;
  return tri_fail(TRI_INTERNAL,
                  "attention of %lld queries on %lld keys with %lld heads on %lld makes no sense: it needs queries <= "
                  "keys and heads a multiple of kv_heads",
                  (long long)c->queries, (long long)c->keys, (long long)c->heads, (long long)c->kv_heads);
}

/* Two rows over the keys; in the backward also the gradients of a query and of all keys and values of a head. */
tri_status tri_reference_attention_workspace(const tri_device_description *of, const tri_attention *call,
                                             size_t *bytes) {
  (void)of;
  TRI_TRY(check(call));
  *bytes = (size_t)(2 * call->keys + call->head_dim + 2 * call->keys * call->head_dim) * sizeof(double);
  return TRI_OK;
}

/* The scaled scores of a query with the keys 0 .. seen - 1. */
static void score(const tri_attention *c, const void *q, const void *k, int64_t b, int64_t h, int64_t t, int64_t seen,
                  double *scores) {
  const int64_t g = h / (c->heads / c->kv_heads);
  for (int64_t j = 0; j < seen; j++) {
    double sum = 0;
    for (int64_t d = 0; d < c->head_dim; d++)
      sum += get(c->type, q, index_q(c, b, h, t) + d) * get(c->type, k, index_k(c, b, g, j) + d);
    scores[j] = c->scale * sum;
  }
}

static void forward_row(const tri_attention *c, const void *q, const void *k, const void *v, void *out,
                        void *log_sum_exp, double *scores, int64_t b, int64_t h, int64_t t) {
  const int64_t g = h / (c->heads / c->kv_heads), seen = c->keys - c->queries + t + 1;
  score(c, q, k, b, h, t, seen, scores);
  double maximum = scores[0], sum = 0;
  for (int64_t j = 1; j < seen; j++)
    if (!(scores[j] <= maximum)) maximum = scores[j]; /* so that not-a-number wins */
  for (int64_t j = 0; j < seen; j++) sum += scores[j] = exp(scores[j] - maximum);
  for (int64_t d = 0; d < c->head_dim; d++) {
    double x = 0;
    for (int64_t j = 0; j < seen; j++) x += scores[j] / sum * get(c->type, v, index_v(c, b, g, j) + d);
    set(c->type, out, index_out(c, b, h, t) + d, x);
  }
  if (log_sum_exp) set(tri_dtype_wide(c->type), log_sum_exp, index_statistic(c, b, h, t), maximum + log(sum));
}

tri_status tri_reference_attention_forward(tri_queue *queue, const tri_attention *call, const void *q, const void *k,
                                           const void *v, void *out, void *log_sum_exp, void *workspace) {
  (void)queue;
  TRI_TRY(check(call));
  for (int64_t b = 0; b < call->batch; b++)
    for (int64_t h = 0; h < call->heads; h++)
      for (int64_t t = 0; t < call->queries; t++) forward_row(call, q, k, v, out, log_sum_exp, workspace, b, h, t);
  return TRI_OK;
}

typedef struct backward {
  const tri_attention *call;
  const void *q, *k, *v, *out, *log_sum_exp, *gradient_out;
  double *weights, *gradients;     /* [keys]: of the scores */
  double *gradient_q;              /* [D] */
  double *gradient_k, *gradient_v; /* [keys, D] */
} backward;

/* One query's share of the gradients: gradient_q is written, gradient_k and gradient_v are added to. */
static void backward_row(const backward *x, int64_t b, int64_t h, int64_t t) {
  const tri_attention *c = x->call;
  const int64_t g = h / (c->heads / c->kv_heads), seen = c->keys - c->queries + t + 1, row = index_out(c, b, h, t);
  double log_sum_exp = get(tri_dtype_wide(c->type), x->log_sum_exp, index_statistic(c, b, h, t)), delta = 0;
  score(c, x->q, x->k, b, h, t, seen, x->weights);
  for (int64_t d = 0; d < c->head_dim; d++)
    delta += get(c->type, x->out, row + d) * get(c->type, x->gradient_out, row + d);
  for (int64_t j = 0; j < seen; j++) {
    double sum = 0;
    for (int64_t d = 0; d < c->head_dim; d++)
      sum += get(c->type, x->gradient_out, row + d) * get(c->type, x->v, index_v(c, b, g, j) + d);
    x->weights[j] = exp(x->weights[j] - log_sum_exp);
    x->gradients[j] = x->weights[j] * (sum - delta) * c->scale;
  }
  for (int64_t d = 0; d < c->head_dim; d++) x->gradient_q[d] = 0;
  for (int64_t j = 0; j < seen; j++) {
    for (int64_t d = 0; d < c->head_dim; d++) {
      x->gradient_q[d] += x->gradients[j] * get(c->type, x->k, index_k(c, b, g, j) + d);
      x->gradient_k[j * c->head_dim + d] += x->gradients[j] * get(c->type, x->q, index_q(c, b, h, t) + d);
      x->gradient_v[j * c->head_dim + d] += x->weights[j] * get(c->type, x->gradient_out, row + d);
    }
  }
}

tri_status tri_reference_attention_backward(tri_queue *queue, const tri_attention *call, const void *q, const void *k,
                                            const void *v, const void *out, const void *log_sum_exp,
                                            const void *gradient_out, void *gradient_q, void *gradient_k,
                                            void *gradient_v, void *workspace) {
  (void)queue;
  TRI_TRY(check(call));
  const int64_t keys = call->keys, width = call->head_dim, group = call->heads / call->kv_heads;
  backward x = {call, q, k, v, out, log_sum_exp, gradient_out, workspace, NULL, NULL, NULL, NULL};
  x.gradients = x.weights + keys;
  x.gradient_k = x.gradients + keys;
  x.gradient_v = x.gradient_k + keys * width;
  x.gradient_q = x.gradient_v + keys * width;
  for (int64_t b = 0; b < call->batch; b++) {
    for (int64_t g = 0; g < call->kv_heads; g++) {
      memset(x.gradient_k, 0, (size_t)(2 * keys * width) * sizeof(double));
      for (int64_t h = g * group; h < (g + 1) * group; h++) {
        for (int64_t t = 0; t < call->queries; t++) {
          backward_row(&x, b, h, t);
          for (int64_t d = 0; d < width; d++) set(call->type, gradient_q, index_q(call, b, h, t) + d, x.gradient_q[d]);
        }
      }
      for (int64_t j = 0; j < keys; j++) {
        for (int64_t d = 0; d < width; d++) {
          set(call->type, gradient_k, index_k(call, b, g, j) + d, x.gradient_k[j * width + d]);
          set(call->type, gradient_v, index_v(call, b, g, j) + d, x.gradient_v[j * width + d]);
        }
      }
    }
  }
  return TRI_OK;
}
