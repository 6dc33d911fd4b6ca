/* Attention problems for tests: random numbers in the layouts that the program uses, in double and in the device's
 * type, with guards around every buffer and NaN in every gap, and a naive attention with whole T x T matrices. */
#ifndef TRI_TEST_ATTENTION_PROBLEM_H
#define TRI_TEST_ATTENTION_PROBLEM_H

#include "base/random.h"
#include "base/sanitizer.h"
#include "device/kernels.h"
#include "device/reference/reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above first */
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- guarded buffers --------------------------------------------------------------------------------------------- */

enum { GUARD_BYTES = 192, GUARD = 0xa5, POISON = 0xff }; /* bytes of POISON are NaN in every type */

typedef struct buffer {
  unsigned char *memory;
  size_t bytes;
  void *data;
} buffer;

/* Under the address sanitizer even reading a guard is an error. */
#if TRI_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#define GUARD_FORBID(start) ASAN_POISON_MEMORY_REGION(start, GUARD_BYTES)
#define GUARD_ALLOW(start) ASAN_UNPOISON_MEMORY_REGION(start, GUARD_BYTES)
#else
#define GUARD_FORBID(start) ((void)(start))
#define GUARD_ALLOW(start) ((void)(start))
#endif

static inline buffer buffer_make(size_t bytes) {
  buffer b = {.bytes = bytes};
  b.memory = aligned_alloc(64, (bytes + 2 * GUARD_BYTES + 63) / 64 * 64);
  assert_non_null(b.memory);
  b.data = b.memory + GUARD_BYTES;
  memset(b.memory, GUARD, bytes + 2 * GUARD_BYTES);
  memset(b.data, POISON, bytes);
  GUARD_FORBID(b.memory);
  GUARD_FORBID(b.memory + GUARD_BYTES + bytes);
  return b;
}

/* Fails if a guard was written. */
static inline void buffer_free(buffer *b) {
  GUARD_ALLOW(b->memory);
  GUARD_ALLOW(b->memory + GUARD_BYTES + b->bytes);
  for (size_t i = 0; i < GUARD_BYTES; i++) {
    if (b->memory[i] != GUARD) fail_msg("wrote %zu bytes before a buffer", GUARD_BYTES - i);
    if (b->memory[GUARD_BYTES + b->bytes + i] != GUARD) fail_msg("wrote %zu bytes after a buffer", i);
  }
  free(b->memory);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static inline double number_get(tri_dtype type, const void *data, int64_t i) {
  if (type == TRI_FP64) return ((const double *)data)[i];
  if (type == TRI_FP32) return (double)((const float *)data)[i];
  uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

/* Writes values that the type can hold exactly. */
static inline void number_set(tri_dtype type, void *data, int64_t i, double value) {
  float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  if (type == TRI_FP64) ((double *)data)[i] = value;
  if (type == TRI_FP32) ((float *)data)[i] = narrow;
  if (type == TRI_BF16) ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
}

/* Standard normal numbers that bf16 holds exactly, so that every type computes with the same ones. */
static inline double random_number(uint64_t stream, int64_t i, double size) {
  float x = (float)(size * tri_random_normal(tri_random_stream(7, TRI_RANDOM_TEST, stream), (uint64_t)i));
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits &= 0xffff0000u;
  memcpy(&x, &bits, sizeof x);
  return (double)x;
}

/* ---- problems ---------------------------------------------------------------------------------------------------- */

typedef struct shape {
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  double size;            /* of q and k                */
  double scale, soft_cap; /* 0: scale 1 / sqrt(D), no cap */
} shape;

/* If queries == keys, q, k and v are in one buffer, whose rows have the heads of q, of k, of v, and a gap. Else q has
 * its own buffer, and k and v are in a cache. Offsets and counts are in elements. */
typedef struct problem {
  tri_attention call;
  int64_t q_elements, kv_elements;
  int64_t k_offset, v_offset; /* in kv, q's is 0 */
  bool shared;                /* kv is q          */
  tri_attention_slice slices[4];
} problem;

enum { GAP = 3 };

static inline problem problem_make(const shape *s, tri_dtype type) {
  const int64_t wide = s->heads * s->head_dim, narrow = s->kv_heads * s->head_dim;
  problem p = {.call = {.type = type,
                        .out_type = type,
                        .gradient_type = type,
                        .heads = s->heads,
                        .kv_heads = s->kv_heads,
                        .head_dim = s->head_dim,
                        .scale = s->scale > 0 ? s->scale : 1 / sqrt((double)s->head_dim),
                        .soft_cap = s->soft_cap,
                        .query_rows = s->batch * s->queries,
                        .key_rows = s->batch * s->keys,
                        .q_head = s->head_dim,
                        .k_head = s->head_dim,
                        .v_head = s->head_dim,
                        .out_row = wide,
                        .out_head = s->head_dim,
                        .num_slices = s->batch,
                        .most_queries = s->queries,
                        .most_keys = s->keys}};
  tri_attention *c = &p.call;
  p.shared = s->queries == s->keys;
  c->q_row = p.shared ? wide + 2 * narrow + GAP : wide + GAP;
  c->k_row = c->v_row = p.shared ? c->q_row : 2 * narrow + GAP;
  p.k_offset = p.shared ? wide : 0;
  p.v_offset = p.k_offset + narrow;
  p.q_elements = c->query_rows * c->q_row;
  p.kv_elements = p.shared ? p.q_elements : c->key_rows * c->k_row;
  for (int64_t b = 0; b < s->batch; b++) {
    p.slices[b] = tri_slice_causal(b * s->queries, s->queries, b * s->keys, s->keys);
  }
  return p;
}

/* The tensors of a call, with filled inputs and poisoned outputs. */
typedef struct tensors {
  problem problem;
  buffer q_buffer, kv_buffer, gradient_q_buffer, gradient_kv_buffer; /* kv: empty where shared */
  buffer out, log_sum_exp, gradient_out;
  void *q, *k, *v, *gradient_q, *gradient_k, *gradient_v;
} tensors;

static inline void *at(tri_dtype type, void *data, int64_t i) {
  return (char *)data + i * (int64_t)tri_dtype_bytes(type);
}

static inline void fill(tri_dtype type, void *data, int64_t rows, int64_t stride, int64_t width, uint64_t stream,
                        double size) {
  for (int64_t r = 0, i = 0; r < rows; r++)
    for (int64_t d = 0; d < width; d++, i++) number_set(type, data, r * stride + d, random_number(stream, i, size));
}

static inline tensors tensors_make(const shape *s, tri_dtype type) {
  tensors x = {.problem = problem_make(s, type)};
  const problem *p = &x.problem;
  const tri_attention *c = &p->call;
  const size_t bytes = tri_dtype_bytes(type), wide_bytes = tri_dtype_bytes(tri_dtype_wide(type));
  const int64_t rows = s->batch * s->queries * s->heads, narrow = s->kv_heads * s->head_dim;
  x.q_buffer = buffer_make((size_t)p->q_elements * bytes);
  x.gradient_q_buffer = buffer_make((size_t)p->q_elements * bytes);
  x.kv_buffer = buffer_make(p->shared ? 0 : (size_t)p->kv_elements * bytes);
  x.gradient_kv_buffer = buffer_make(p->shared ? 0 : (size_t)p->kv_elements * bytes);
  x.out = buffer_make((size_t)(rows * s->head_dim) * bytes);
  x.gradient_out = buffer_make((size_t)(rows * s->head_dim) * bytes);
  x.log_sum_exp = buffer_make((size_t)rows * wide_bytes);
  void *kv = p->shared ? x.q_buffer.data : x.kv_buffer.data;
  void *gradient_kv = p->shared ? x.gradient_q_buffer.data : x.gradient_kv_buffer.data;
  x.q = x.q_buffer.data;
  x.k = at(type, kv, p->k_offset);
  x.v = at(type, kv, p->v_offset);
  x.gradient_q = x.gradient_q_buffer.data;
  x.gradient_k = at(type, gradient_kv, p->k_offset);
  x.gradient_v = at(type, gradient_kv, p->v_offset);
  fill(type, x.q, c->query_rows, c->q_row, s->heads * s->head_dim, 1, s->size);
  fill(type, x.k, c->key_rows, c->k_row, narrow, 2, s->size);
  fill(type, x.v, c->key_rows, c->v_row, narrow, 3, 1);
  fill(type, x.gradient_out.data, rows, s->head_dim, s->head_dim, 4, 1);
  return x;
}

static inline void tensors_free(tensors *x) {
  buffer_free(&x->q_buffer);
  buffer_free(&x->kv_buffer);
  buffer_free(&x->gradient_q_buffer);
  buffer_free(&x->gradient_kv_buffer);
  buffer_free(&x->out);
  buffer_free(&x->log_sum_exp);
  buffer_free(&x->gradient_out);
}

/* ---- results, dense and in double -------------------------------------------------------------------------------- */

typedef enum part { OUT, LOG_SUM_EXP, GRADIENT_Q, GRADIENT_K, GRADIENT_V, PARTS } part;
static const char *const part_names[PARTS] = {"out", "log_sum_exp", "gradient of q", "gradient of k", "gradient of v"};

typedef struct results {
  int64_t count[PARTS];
  double *values[PARTS]; /* [B, T, heads, D], and [H, B, T] of log_sum_exp */
} results;

static inline results results_make(const shape *s) {
  const int64_t q = s->batch * s->queries * s->heads * s->head_dim, k = s->batch * s->keys * s->kv_heads * s->head_dim;
  results r = {.count = {q, s->batch * s->queries * s->heads, q, k, k}};
  for (int i = 0; i < PARTS; i++) {
    r.values[i] = calloc((size_t)r.count[i], sizeof(double));
    assert_non_null(r.values[i]);
  }
  return r;
}

static inline void results_free(results *r) {
  for (int i = 0; i < PARTS; i++) free(r->values[i]);
}

static inline void gather(double *to, tri_dtype type, const void *data, int64_t rows, int64_t stride, int64_t width) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t d = 0; d < width; d++) *to++ = number_get(type, data, r * stride + d);
}

static inline results results_of(const shape *s, const tensors *x) {
  results r = results_make(s);
  const tri_attention *c = &x->problem.call;
  const int64_t wide = s->heads * s->head_dim, narrow = s->kv_heads * s->head_dim;
  gather(r.values[OUT], c->type, x->out.data, 1, 0, r.count[OUT]);
  gather(r.values[LOG_SUM_EXP], tri_dtype_wide(c->type), x->log_sum_exp.data, 1, 0, r.count[LOG_SUM_EXP]);
  gather(r.values[GRADIENT_Q], c->type, x->gradient_q, c->query_rows, c->q_row, wide);
  gather(r.values[GRADIENT_K], c->type, x->gradient_k, c->key_rows, c->k_row, narrow);
  gather(r.values[GRADIENT_V], c->type, x->gradient_v, c->key_rows, c->v_row, narrow);
  return r;
}

/* Fails unless |a - b| <= tolerance * |b| by norm. Fails if a value is NaN. */
static inline void assert_near(const char *who, const shape *s, part what, const results *a, const results *b,
                               double tolerance) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < a->count[what]; i++) {
    double d = a->values[what][i] - b->values[what][i];
    difference += d * d;
    norm += b->values[what][i] * b->values[what][i];
  }
  /* The gradient of scores over a single key is exactly zero; the error may then be a tenth of the tolerance per
   * element. */
  double limit = tolerance * (sqrt(norm) + 0.1 * sqrt((double)a->count[what]));
  if (!(sqrt(difference) <= limit))
    fail_msg("%s: %s is off by %.3g of %.3g (limit %.3g) at B %d Tq %d Tk %d H %d/%d D %d size %g", who,
             part_names[what], sqrt(difference), sqrt(norm), limit, (int)s->batch, (int)s->queries, (int)s->keys,
             (int)s->heads, (int)s->kv_heads, (int)s->head_dim, s->size);
}

/* Fails if a byte of the gradient buffers has changed that belongs to no gradient. */
static inline void assert_gaps_untouched(const tensors *x) {
  const problem *p = &x->problem;
  const tri_attention *c = &p->call;
  const int64_t bytes = (int64_t)tri_dtype_bytes(c->type);
  const int64_t wide = c->heads * c->head_dim, narrow = 2 * c->kv_heads * c->head_dim;
  const int64_t used_q = p->shared ? wide + narrow : wide;
  for (int which = 0; which < (p->shared ? 1 : 2); which++) {
    const unsigned char *data = which == 0 ? x->gradient_q_buffer.data : x->gradient_kv_buffer.data;
    const int64_t stride = which == 0 ? c->q_row : c->k_row, used = which == 0 ? used_q : narrow;
    const int64_t rows = which == 0 ? c->query_rows : c->key_rows;
    for (int64_t i = 0; i < rows * stride * bytes; i++) {
      bool gap = i / bytes % stride >= used;
      if (gap && data[i] != POISON) fail_msg("wrote into the gap at element %lld", (long long)(i / bytes));
    }
  }
}

/* ---- the reference device ---------------------------------------------------------------------------------------- */

static inline void reference_forward(const tensors *x) {
  const tri_attention *c = &x->problem.call;
  size_t bytes = 0;
  assert_int_equal(tri_reference_attention_workspace(NULL, c, &bytes), TRI_OK);
  buffer workspace = buffer_make(bytes);
  assert_int_equal(tri_reference_attention_forward(NULL, c, x->problem.slices, x->q, x->k, x->v, x->out.data,
                                                   x->log_sum_exp.data, workspace.data),
                   TRI_OK);
  buffer_free(&workspace);
}

static inline void reference_backward(const tensors *x) {
  const tri_attention *c = &x->problem.call;
  size_t bytes = 0;
  assert_int_equal(tri_reference_attention_workspace(NULL, c, &bytes), TRI_OK);
  buffer workspace = buffer_make(bytes);
  assert_int_equal(tri_reference_attention_backward(NULL, c, x->problem.slices, x->q, x->k, x->v, x->out.data,
                                                    x->log_sum_exp.data, x->gradient_out.data, x->gradient_q,
                                                    x->gradient_k, x->gradient_v, workspace.data),
                   TRI_OK);
  buffer_free(&workspace);
}

#endif
