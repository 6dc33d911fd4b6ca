/* Attention in its plain form: one query at a time, in double. No array is larger than one row of scores or the
 * gradients of one key/value head, which are summed in double before they are stored once. */
#include "device/reference/reference.h"

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
    case TRI_INT32: break; /* not an activation type */
  }
  return NAN;
}

/* Returns the nearest bf16 number; ties are rounded to even. The double is first rounded to a float with a sticky last
 * bit, since rounding to nearest twice may give a different result. */
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
    case TRI_INT32: return; /* not an activation type */
  }
}

static int64_t index_q(const tri_attention *c, int64_t h, int64_t row) { return row * c->q_row + h * c->q_head; }
static int64_t index_k(const tri_attention *c, int64_t g, int64_t row) { return row * c->k_row + g * c->k_head; }
static int64_t index_v(const tri_attention *c, int64_t g, int64_t row) { return row * c->v_row + g * c->v_head; }
static int64_t index_out(const tri_attention *c, int64_t h, int64_t row) { return row * c->out_row + h * c->out_head; }
static int64_t index_statistic(const tri_attention *c, int64_t h, int64_t row) { return h * c->query_rows + row; }

/* Returns the number of the slice's keys that a row of q attends to; *first is the first of them. */
static int64_t seen_by(const tri_attention_slice *s, int64_t row, int64_t *first) {
  int64_t i = row - s->first_query;
  if (i < 0 || i >= s->queries || s->keys == 0) return 0;
  int64_t begin = i + s->from < 0 ? 0 : i + s->from, end = i + s->to >= s->keys ? s->keys : i + s->to + 1;
  *first = begin;
  return end < begin ? 0 : end - begin;
}

typedef struct forward {
  const tri_attention *call;
  const void *q, *k, *v;
  void *out, *log_sum_exp;
} forward;

/* ---- plain attention --------------------------------------------------------------------------------------------- */

/* Computes a query's output and log_sum_exp, in four passes over the keys that it attends to. scores: room for all
 * keys. */
static void plain_row(const forward *x, const tri_attention_slice *slice, int64_t h, int64_t row, double *scores) {
  const tri_attention *c = x->call;
  const int64_t g = h / (c->heads / c->kv_heads); /* key/value head */
  int64_t first = 0;
  const int64_t keys = seen_by(slice, row, &first);
  double maximum = -INFINITY, sum = 0;
  first += slice->first_key;

  /* pass 1: the query times each key, and the maximum of these scores, so that NaN wins */
  for (int64_t j = 0; j < keys; j++) {
    double product = 0;
    for (int64_t d = 0; d < c->head_dim; d++)
      product += get(c->type, x->q, index_q(c, h, row) + d) * get(c->type, x->k, index_k(c, g, first + j) + d);
    scores[j] = c->scale * product;
    if (j == 0 || !(scores[j] <= maximum)) maximum = scores[j];
  }

  /* pass 2: exponentials, of differences from the maximum so that none overflows, and their sum */
  for (int64_t j = 0; j < keys; j++) {
    scores[j] = exp(scores[j] - maximum);
    sum += scores[j];
  }

  /* pass 3: normalise */
  for (int64_t j = 0; j < keys; j++) scores[j] /= sum;

  /* pass 4: the mean of the values, weighted by these probabilities */
  for (int64_t d = 0; d < c->head_dim; d++) {
    double value = 0;
    for (int64_t j = 0; j < keys; j++) value += scores[j] * get(c->type, x->v, index_v(c, g, first + j) + d);
    set(c->out_type, x->out, index_out(c, h, row) + d, value);
  }
  if (x->log_sum_exp) {
    const double log_sum = keys == 0 ? -INFINITY : maximum + log(sum);
    set(tri_dtype_wide(c->type), x->log_sum_exp, index_statistic(c, h, row), log_sum);
  }
}

/* ---- parts of a call --------------------------------------------------------------------------------------------- */

static bool shares(const tri_attention *c) { return c->shares_queries || c->shares_keys; }

/* A part of a call that shares no rows with the others: a slice, or, if slices share rows, all of them. */
typedef struct part {
  const tri_attention_slice *slices;
  int64_t num_slices;
  int64_t first_query, queries, first_key, keys; /* ranges that contain all rows of the slices */
} part;

static int64_t num_parts(const tri_attention *c, int64_t live) { return shares(c) ? 1 : live; }

static part part_of(const tri_attention *c, const tri_attention_slice *slices, int64_t live, int64_t i) {
  if (shares(c)) return (part){slices, live, 0, c->query_rows, 0, c->key_rows};
  const tri_attention_slice *s = &slices[i];
  if (s->queries == 0 || s->keys == 0) return (part){0};
  return (part){s, 1, s->first_query, s->queries, s->first_key, s->keys};
}

/* Scratch memory for one query and the keys of a part. `gradient_*` is used in the backward only, and `keys` only if
 * slices share rows. */
typedef struct scratch {
  double *scores, *gradients;      /* [keys] */
  double *gradient_k, *gradient_v; /* [keys, D] */
  double *gradient_q;              /* [D] */
  int64_t *keys;                   /* [keys], indices of the keys; NULL: consecutive keys from `first` on */
  int64_t first;
  const int32_t *pages; /* pages of the keys' rows; NULL: rows are consecutive */
} scratch;

/* Returns the number of keys that a row of q attends to, and lists them in s->keys, in the order of the slices; if
 * s->keys is NULL, sets s->first. */
static int64_t find_keys(const part *p, int64_t row, scratch *s) {
  int64_t count = 0;
  for (int64_t i = 0; i < p->num_slices; i++) {
    int64_t first = 0, seen = seen_by(&p->slices[i], row, &first);
    s->first = p->slices[i].first_key + first;
    for (int64_t j = 0; j < seen && s->keys != NULL; j++) s->keys[count + j] = s->first + j;
    count += seen;
  }
  return count;
}

static int64_t key_of(const scratch *s, int64_t j) {
  const int64_t row = s->keys != NULL ? s->keys[j] : s->first + j;
  if (s->pages == NULL) return row;
  return (int64_t)s->pages[row / TRI_PAGE_ROWS] * TRI_PAGE_ROWS + row % TRI_PAGE_ROWS;
}

static int64_t most_keys(const tri_attention *c) { return shares(c) ? c->key_rows : c->most_keys; }

tri_status tri_reference_attention_workspace(const tri_device_description *of, const tri_attention *call,
                                             size_t *bytes) {
  (void)of;
  TRI_TRY(tri_attention_check(call));
  const int64_t keys = most_keys(call);
  *bytes = (size_t)(2 * keys + call->head_dim + 2 * keys * call->head_dim) * sizeof(double);
  if (shares(call)) *bytes += (size_t)keys * sizeof(int64_t);
  return TRI_OK;
}

static scratch scratch_of(const tri_attention *c, void *workspace) {
  scratch s = {.scores = workspace};
  s.gradients = s.scores + most_keys(c);
  s.gradient_k = s.gradients + most_keys(c);
  s.gradient_v = s.gradient_k + most_keys(c) * c->head_dim;
  s.gradient_q = s.gradient_v + most_keys(c) * c->head_dim;
  if (shares(c)) s.keys = (int64_t *)(void *)(s.gradient_q + c->head_dim);
  return s;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Return the score of a dot product of q and k; and, from the score, its derivative with respect to the product. */
static double score_of(const tri_attention *c, double product) {
  if (c->soft_cap == 0) return c->scale * product;
  return c->soft_cap * tanh(c->scale * product / c->soft_cap);
}

static double slope_of(const tri_attention *c, double score) {
  const double of_cap = c->soft_cap == 0 ? 0 : score / c->soft_cap;
  return c->scale * (1 - of_cap * of_cap);
}

/* Computes the scores of a query with the `count` keys in the scratch. */
static void score(const tri_attention *c, const void *q, const void *k, int64_t h, int64_t row, int64_t count,
                  const scratch *s) {
  const int64_t g = h / (c->heads / c->kv_heads);
  for (int64_t j = 0; j < count; j++) {
    double sum = 0;
    for (int64_t d = 0; d < c->head_dim; d++)
      sum += get(c->type, q, index_q(c, h, row) + d) * get(c->type, k, index_k(c, g, key_of(s, j)) + d);
    s->scores[j] = score_of(c, sum);
  }
}

static double log_sum_exp_of(const forward *x, int64_t h, int64_t row) {
  return get(tri_dtype_wide(x->call->type), x->log_sum_exp, index_statistic(x->call, h, row));
}

/* Computes one query's output and log_sum_exp; with call->merge, merges them with the results of earlier calls. */
static void forward_row(const forward *x, const part *p, scratch *s, int64_t h, int64_t row) {
  const tri_attention *c = x->call;
  const int64_t g = h / (c->heads / c->kv_heads), seen = find_keys(p, row, s), at = index_out(c, h, row);
  if (seen == 0) return; /* the output is that of clear_out; with `merge`, it does not change */
  score(c, x->q, x->k, h, row, seen, s);
  double before = c->merge ? log_sum_exp_of(x, h, row) : -INFINITY;
  double maximum = s->scores[0], sum = 0;
  for (int64_t j = 1; j < seen; j++)
    if (!(s->scores[j] <= maximum)) maximum = s->scores[j]; /* this form of the comparison lets NaN win */
  if (before > maximum) maximum = before;
  for (int64_t j = 0; j < seen; j++) sum += s->scores[j] = exp(s->scores[j] - maximum);
  double weight = c->merge ? exp(before - maximum) : 0;
  sum += weight;
  for (int64_t d = 0; d < c->head_dim; d++) {
    double value = 0;
    for (int64_t j = 0; j < seen; j++)
      value += s->scores[j] / sum * get(c->type, x->v, index_v(c, g, key_of(s, j)) + d);
    if (c->merge) value += weight / sum * get(c->out_type, x->out, at + d);
    set(c->out_type, x->out, at + d, value);
  }
  if (x->log_sum_exp) set(tri_dtype_wide(c->type), x->log_sum_exp, index_statistic(c, h, row), maximum + log(sum));
}

/* Sets the output of all queries to 0 and log_sum_exp to -infinity, the results of a query without keys. */
static void clear_out(const forward *x) {
  const tri_attention *c = x->call;
  for (int64_t h = 0; h < c->heads; h++) {
    for (int64_t row = 0; row < c->query_rows; row++) {
      for (int64_t d = 0; d < c->head_dim; d++) set(c->out_type, x->out, index_out(c, h, row) + d, 0);
      if (x->log_sum_exp) set(tri_dtype_wide(c->type), x->log_sum_exp, index_statistic(c, h, row), -INFINITY);
    }
  }
}

/* Returns whether a call is attention in its plain form. */
static bool is_plain(const tri_attention *c, const scratch *s) {
  return !shares(c) && !c->merge && c->soft_cap == 0 && s->pages == NULL;
}

static tri_status run_forward(const forward *x, const tri_attention_slice *slices, scratch *s) {
  const tri_attention *call = x->call;
  int64_t live = 0;
  TRI_TRY(tri_attention_slices_check(call, slices, &live));
  if (!call->merge) clear_out(x);
  for (int64_t i = 0; i < num_parts(call, live); i++) {
    const part p = part_of(call, slices, live, i);
    for (int64_t h = 0; h < call->heads; h++)
      for (int64_t t = 0; t < p.queries; t++) {
        if (is_plain(call, s)) {
          plain_row(x, p.slices, h, p.first_query + t, s->scores);
        } else {
          forward_row(x, &p, s, h, p.first_query + t);
        }
      }
  }
  return TRI_OK;
}

tri_status tri_reference_attention_forward(tri_queue *queue, const tri_attention *call,
                                           const tri_attention_slice *slices, const void *q, const void *k,
                                           const void *v, void *out, void *log_sum_exp, void *workspace) {
  (void)queue;
  const forward x = {call, q, k, v, out, log_sum_exp};
  scratch s = scratch_of(call, workspace);
  return run_forward(&x, slices, &s);
}

/* ---- pages: consecutive rows of all heads ------------------------------------------------------------------------ */

tri_status tri_reference_append_keys(tri_queue *queue, const tri_attention *call, const int32_t *cache_rows,
                                     const void *k, const void *v, void *keys, void *values) {
  const int64_t width = call->kv_heads * call->head_dim;
  (void)queue;
  for (int64_t r = 0; r < call->query_rows; r++) {
    for (int64_t g = 0; g < call->kv_heads; g++) {
      const int64_t to = cache_rows[r] * width + g * call->head_dim;
      for (int64_t d = 0; d < call->head_dim; d++) {
        set(call->type, keys, to + d, get(call->type, k, index_k(call, g, r) + d));
        set(call->type, values, to + d, get(call->type, v, index_v(call, g, r) + d));
      }
    }
  }
  return TRI_OK;
}

tri_status tri_reference_attention_pages(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                         const int32_t *pages, const void *q, const void *keys, const void *values,
                                         void *out, void *workspace) {
  tri_attention dense = *call;
  (void)queue;
  dense.k_row = dense.v_row = call->kv_heads * call->head_dim;
  dense.k_head = dense.v_head = call->head_dim;
  dense.merge = false;
  const forward x = {&dense, q, keys, values, out, NULL};
  scratch s = scratch_of(&dense, workspace);
  s.pages = pages;
  return run_forward(&x, slices, &s);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

typedef struct backward {
  const tri_attention *call;
  const void *q, *k, *v, *out, *log_sum_exp, *gradient_out;
  void *gradient_q, *gradient_k, *gradient_v;
} backward;

/* Computes one query's part of the gradients: writes s->gradient_q, adds to gradient_k and gradient_v. */
static void backward_row(const backward *x, const part *p, scratch *s, int64_t h, int64_t row) {
  const tri_attention *c = x->call;
  const int64_t g = h / (c->heads / c->kv_heads), seen = find_keys(p, row, s), at = index_out(c, h, row);
  double log_sum_exp = get(tri_dtype_wide(c->type), x->log_sum_exp, index_statistic(c, h, row)), delta = 0;
  score(c, x->q, x->k, h, row, seen, s);
  for (int64_t d = 0; d < c->head_dim; d++)
    delta += get(c->out_type, x->out, at + d) * get(c->type, x->gradient_out, at + d);
  for (int64_t j = 0; j < seen; j++) {
    double sum = 0;
    for (int64_t d = 0; d < c->head_dim; d++)
      sum += get(c->type, x->gradient_out, at + d) * get(c->type, x->v, index_v(c, g, key_of(s, j)) + d);
    const double slope = slope_of(c, s->scores[j]);
    s->scores[j] = exp(s->scores[j] - log_sum_exp);
    s->gradients[j] = s->scores[j] * (sum - delta) * slope;
  }
  for (int64_t d = 0; d < c->head_dim; d++) s->gradient_q[d] = 0;
  for (int64_t j = 0; j < seen; j++) {
    const int64_t key = (key_of(s, j) - p->first_key) * c->head_dim;
    for (int64_t d = 0; d < c->head_dim; d++) {
      s->gradient_q[d] += s->gradients[j] * get(c->type, x->k, index_k(c, g, key_of(s, j)) + d);
      s->gradient_k[key + d] += s->gradients[j] * get(c->type, x->q, index_q(c, h, row) + d);
      s->gradient_v[key + d] += s->scores[j] * get(c->type, x->gradient_out, at + d);
    }
  }
}

static void store_gradient_row(const tri_attention *c, void *gradient, int64_t at, const double *values) {
  for (int64_t d = 0; d < c->head_dim; d++) {
    double before = c->accumulate ? get(c->gradient_type, gradient, at + d) : 0;
    set(c->gradient_type, gradient, at + d, c->accumulate ? before + values[d] : values[d]);
  }
}

/* Computes the gradients of a key/value head, and of the query heads that share it. */
static void backward_head(const backward *x, const part *p, scratch *s, int64_t g) {
  const tri_attention *c = x->call;
  const int64_t width = c->head_dim, group = c->heads / c->kv_heads;
  for (int64_t i = 0; i < p->keys * width; i++) s->gradient_k[i] = s->gradient_v[i] = 0;
  for (int64_t h = g * group; h < (g + 1) * group; h++) {
    for (int64_t t = 0; t < p->queries; t++) {
      backward_row(x, p, s, h, p->first_query + t);
      store_gradient_row(c, x->gradient_q, index_q(c, h, p->first_query + t), s->gradient_q);
    }
  }
  for (int64_t j = 0; j < p->keys; j++) {
    store_gradient_row(c, x->gradient_k, index_k(c, g, p->first_key + j), s->gradient_k + j * width);
    store_gradient_row(c, x->gradient_v, index_v(c, g, p->first_key + j), s->gradient_v + j * width);
  }
}

/* Sets all gradients to 0, for rows that are in no slice. */
static void clear_gradients(const backward *x) {
  const tri_attention *c = x->call;
  for (int64_t h = 0; h < c->heads; h++)
    for (int64_t row = 0; row < c->query_rows; row++)
      for (int64_t d = 0; d < c->head_dim; d++) set(c->gradient_type, x->gradient_q, index_q(c, h, row) + d, 0);
  for (int64_t g = 0; g < c->kv_heads; g++) {
    for (int64_t row = 0; row < c->key_rows; row++) {
      for (int64_t d = 0; d < c->head_dim; d++) {
        set(c->gradient_type, x->gradient_k, index_k(c, g, row) + d, 0);
        set(c->gradient_type, x->gradient_v, index_v(c, g, row) + d, 0);
      }
    }
  }
}

tri_status tri_reference_attention_backward(tri_queue *queue, const tri_attention *call,
                                            const tri_attention_slice *slices, const void *q, const void *k,
                                            const void *v, const void *out, const void *log_sum_exp,
                                            const void *gradient_out, void *gradient_q, void *gradient_k,
                                            void *gradient_v, void *workspace) {
  (void)queue;
  int64_t live = 0;
  TRI_TRY(tri_attention_slices_check(call, slices, &live));
  const backward x = {call, q, k, v, out, log_sum_exp, gradient_out, gradient_q, gradient_k, gradient_v};
  scratch s = scratch_of(call, workspace);
  if (!call->accumulate) clear_gradients(&x);
  for (int64_t i = 0; i < num_parts(call, live); i++) {
    const part p = part_of(call, slices, live, i);
    for (int64_t g = 0; g < call->kv_heads; g++) backward_head(&x, &p, &s, g);
  }
  return TRI_OK;
}
