/* Attention: the reference compared with a plain softmax over all positions, and every vector unit of the CPU device
 * compared with the reference. q, k and v are interleaved in rows, as in training, with guard bytes around every
 * buffer; outputs are poisoned before. One, two and three threads give the same bits. */
#include "base/random.h"
#include "check.h"
#include "device/kernels.h"
#include "vector_units.h"

#include <math.h>
#include <stdlib.h>

enum { GUARD = 64 };

typedef struct shape {
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  double scale;    /* of q: large ones overflow exp without its maximum */
  double soft_cap; /* of scores, or 0 */
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},
    {2, 3, 3, 4, 4, 8, 1, 0},
    {1, 17, 17, 4, 1, 17, 1, 0},
    {2, 63, 63, 6, 2, 64, 1, 0},
    {1, 64, 64, 1, 1, 64, 1, 0},
    {1, 65, 65, 2, 1, 80, 1, 0},
    {1, 129, 129, 2, 2, 64, 1, 0},
    {1, 257, 257, 1, 1, 33, 1, 0},
    {2, 31, 31, 3, 3, 128, 1, 0},
    {1, 70, 70, 8, 2, 16, 60, 0},
    {3, 2, 2, 2, 2, 256, 1, 0},
    {1, 200, 200, 2, 1, 7, 1, 0},
    {1, 1, 40, 4, 2, 64, 1, 0},
    {2, 5, 133, 2, 2, 32, 1, 0},
    {1, 64, 300, 3, 1, 64, 1, 0},
    /* With soft caps: about as large as the scores, far above them (Gemma 2's 50), and far below; with a cache; with
     * most scores at the cap. */
    {2, 63, 63, 6, 2, 64, 1, 1.5},
    {1, 129, 129, 2, 1, 33, 1, 50},
    {1, 65, 65, 2, 1, 80, 1, 0.02},
    {1, 1, 40, 4, 2, 64, 1, 2},
    {2, 5, 133, 2, 2, 256, 1, 50},
    {1, 70, 70, 8, 2, 16, 60, 30},
};
enum { NUM_SHAPES = sizeof shapes / sizeof shapes[0] };

typedef struct block {
  unsigned char *memory;
  size_t bytes;
} block;

static block block_of(int64_t count, tri_dtype type) {
  block b = {.bytes = (size_t)count * tri_dtype_bytes(type)};
  b.memory = malloc(b.bytes + 2 * GUARD);
  memset(b.memory, 0xA5, b.bytes + 2 * GUARD);
  memset(b.memory + GUARD, 0xFF, b.bytes); /* NaN in every type */
  return b;
}
static void *at(const block *b) { return b->memory + GUARD; }

static void release(block *b) {
  for (int i = 0; i < GUARD; i++) {
    if (b->memory[i] != 0xA5 || b->memory[GUARD + b->bytes + (size_t)i] != 0xA5) fail_msg("wrote outside a buffer");
  }
  free(b->memory);
}

static double load(tri_dtype type, const void *data, int64_t i) {
  if (type == TRI_FP64) return ((const double *)data)[i];
  if (type == TRI_FP32) return (double)((const float *)data)[i];
  uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static void store(tri_dtype type, void *data, int64_t i, double value) {
  if (type == TRI_FP64) {
    ((double *)data)[i] = value;
  } else if (type == TRI_FP32) {
    ((float *)data)[i] = (float)value;
  } else {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    ((uint16_t *)data)[i] = (uint16_t)(bits >> 16); /* all devices read the rounded value */
  }
}

static int64_t row_of(const shape *s) { return (s->heads + 2 * s->kv_heads) * s->head_dim + 3; }

static tri_attention call_of(const shape *s, tri_dtype type) {
  int64_t row = row_of(s);
  return (tri_attention){.type = type,
                         .out_type = type,
                         .gradient_type = type,
                         .heads = s->heads,
                         .kv_heads = s->kv_heads,
                         .head_dim = s->head_dim,
                         .scale = 1 / sqrt((double)s->head_dim),
                         .soft_cap = s->soft_cap,
                         .query_rows = s->batch * s->queries,
                         .key_rows = s->batch * s->keys,
                         .q_row = row,
                         .q_head = s->head_dim,
                         .k_row = row,
                         .k_head = s->head_dim,
                         .v_row = row,
                         .v_head = s->head_dim,
                         .out_row = s->heads * s->head_dim,
                         .out_head = s->head_dim,
                         .num_slices = s->batch,
                         .most_queries = s->queries,
                         .most_keys = s->keys};
}

static tri_attention_slice slice_of(const shape *s, int64_t batch) {
  return tri_slice_causal(batch * s->queries, s->queries, batch * s->keys, s->keys);
}

/* Inputs and results of one run; gradients only if queries == keys. */
typedef struct bench {
  shape s;
  tri_dtype type, wide;
  block rows, out, log_sum_exp, gradient_out, gradient_rows;
} bench;

static bench bench_of(shape s, tri_dtype type) {
  bench b = {.s = s, .type = type, .wide = tri_dtype_wide(type)};
  int64_t rows = s.batch * s.keys * row_of(&s), out = s.batch * s.queries * s.heads * s.head_dim;
  b.rows = block_of(rows, type);
  b.out = block_of(out, type);
  b.log_sum_exp = block_of(s.batch * s.heads * s.queries, b.wide);
  b.gradient_out = block_of(out, type);
  b.gradient_rows = block_of(rows, type);
  tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, 8);
  for (int64_t i = 0; i < rows; i++) {
    double scale = i % row_of(&s) < s.heads * s.head_dim ? s.scale : 1.0;
    store(type, at(&b.rows), i, (double)(float)(scale * tri_random_normal(key, (uint64_t)i)));
  }
  for (int64_t i = 0; i < out; i++) {
    store(type, at(&b.gradient_out), i, (double)(float)tri_random_normal(key, (uint64_t)(i + (1 << 24))));
  }
  return b;
}

static void bench_release(bench *b) {
  release(&b->rows);
  release(&b->out);
  release(&b->log_sum_exp);
  release(&b->gradient_out);
  release(&b->gradient_rows);
}

static void run(tri_device *device, bench *b) {
  tri_attention call = call_of(&b->s, b->type);
  tri_attention_slice slices[3];
  for (int64_t i = 0; i < b->s.batch; i++) slices[i] = slice_of(&b->s, i);
  size_t element = tri_dtype_bytes(b->type), bytes = 0;
  size_t k = (size_t)(b->s.heads * b->s.head_dim) * element;
  size_t v = k + (size_t)(b->s.kv_heads * b->s.head_dim) * element;
  char *rows = at(&b->rows), *gradient = at(&b->gradient_rows);
  char *queries = rows; /* the last query attends to all keys; the rows of the queries do not matter here */
  CHECK_OK(device->description.attention_workspace(&device->description, &call, &bytes));
  block workspace = block_of((int64_t)bytes / 4 + 16, TRI_FP32);
  CHECK_OK(device->kernels->attention_forward(device->queue, &call, slices, queries, rows + k, rows + v, at(&b->out),
                                              at(&b->log_sum_exp), at(&workspace)));
  if (b->s.queries == b->s.keys) {
    CHECK_OK(device->kernels->attention_backward(device->queue, &call, slices, rows, rows + k, rows + v, at(&b->out),
                                                 at(&b->log_sum_exp), at(&b->gradient_out), gradient, gradient + k,
                                                 gradient + v, at(&workspace)));
  }
  release(&workspace);
}

/* ---- the reference against all scores at once -------------------------------------------------------------------- */

typedef struct plain {
  const bench *b;
  int64_t batch, head;
} plain;

static double element(const plain *p, int64_t row, int64_t offset, int64_t d) {
  return load(p->b->type, at(&p->b->rows), row * row_of(&p->b->s) + offset + d);
}

/* Computes the softmax weights of one query over its keys. */
static void weights_of(const plain *p, int64_t query, double *weights) {
  const shape *s = &p->b->s;
  int64_t seen = s->keys - s->queries + query + 1, kv = p->head / (s->heads / s->kv_heads);
  double most = -INFINITY, total = 0;
  for (int64_t j = 0; j < seen; j++) {
    double score = 0;
    for (int64_t d = 0; d < s->head_dim; d++) {
      score += element(p, p->batch * s->queries + query, p->head * s->head_dim, d) *
               element(p, p->batch * s->keys + j, (s->heads + kv) * s->head_dim, d);
    }
    weights[j] = score / sqrt((double)s->head_dim);
    if (s->soft_cap > 0) weights[j] = s->soft_cap * tanh(weights[j] / s->soft_cap);
    most = fmax(most, weights[j]);
  }
  for (int64_t j = 0; j < seen; j++) total += weights[j] = exp(weights[j] - most);
  for (int64_t j = 0; j < seen; j++) weights[j] /= total;
}

/* Returns the sum over queries and components of gradient_out * out, for one batch entry and head. */
static double plain_loss(const plain *p) {
  const shape *s = &p->b->s;
  int64_t kv = p->head / (s->heads / s->kv_heads);
  double weights[512], loss = 0;
  for (int64_t i = 0; i < s->queries; i++) {
    weights_of(p, i, weights);
    for (int64_t d = 0; d < s->head_dim; d++) {
      double out = 0;
      for (int64_t j = 0; j < s->keys - s->queries + i + 1; j++) {
        out += weights[j] * element(p, p->batch * s->keys + j, (s->heads + s->kv_heads + kv) * s->head_dim, d);
      }
      int64_t index = ((p->batch * s->queries + i) * s->heads + p->head) * s->head_dim + d;
      double got = load(p->b->type, at(&p->b->out), index);
      assert_true(fabs(got - out) <= 1e-12 * (1 + fabs(out)));
      loss += load(p->b->type, at(&p->b->gradient_out), index) * out;
    }
  }
  return loss;
}

static double whole_loss(const bench *b) {
  double loss = 0;
  for (int64_t batch = 0; batch < b->s.batch; batch++) {
    for (int64_t head = 0; head < b->s.heads; head++) loss += plain_loss(&(plain){b, batch, head});
  }
  return loss;
}

static void test_reference(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("reference", 1, &device));
  for (int i = 0; i < NUM_SHAPES; i++) {
    bench b = bench_of(shapes[i], TRI_FP64);
    run(device, &b);
    whole_loss(&b); /* checks every output */
    bench_release(&b);
  }
  /* Compares the gradients of a small problem with difference quotients of every input. */
  bench b = bench_of((shape){2, 4, 4, 4, 2, 3, 1, 0}, TRI_FP64);
  run(device, &b);
  double *rows = at(&b.rows), *gradient = at(&b.gradient_rows);
  double *found = malloc(b.gradient_rows.bytes);
  memcpy(found, gradient, b.gradient_rows.bytes);
  for (int64_t e = 0; e < (int64_t)(b.rows.bytes / sizeof(double)); e++) {
    if (e % row_of(&b.s) >= row_of(&b.s) - 3) continue; /* between rows */
    double kept = rows[e], loss[2];
    for (int side = 0; side < 2; side++) {
      rows[e] = kept + (side == 0 ? 1e-5 : -1e-5);
      run(device, &b);
      loss[side] = whole_loss(&b);
    }
    rows[e] = kept;
    assert_true(fabs(found[e] - (loss[0] - loss[1]) / 2e-5) < 1e-8);
  }
  free(found);
  bench_release(&b);
  tri_device_destroy(device);
}

/* ---- the CPU against the reference ------------------------------------------------------------------------------- */

static void compare(const char *what, const bench *b, const block *got, const block *expected, tri_dtype type,
                    double limit) {
  double error = 0, size = 0;
  int64_t row = row_of(&b->s);
  for (int64_t i = 0; i < (int64_t)(got->bytes / tri_dtype_bytes(type)); i++) {
    if (got == &b->gradient_rows && i % row >= row - 3) continue; /* nothing is written between rows */
    double x = load(type, at(got), i), y = load(type, at(expected), i);
    error += (x - y) * (x - y);
    size += y * y;
  }
  /* A single position has weight 1, and its q and k have zero gradients, so the error must be exactly 0. */
  if (!(sqrt(error) <= limit * sqrt(size) + 1e-30)) {
    fail_msg("%s at B %d, %d of %d, H %d/%d, D %d, cap %g, %s: off by %.3g of %.3g", what, (int)b->s.batch,
             (int)b->s.queries, (int)b->s.keys, (int)b->s.heads, (int)b->s.kv_heads, (int)b->s.head_dim, b->s.soft_cap,
             tri_dtype_name(b->type), sqrt(error), sqrt(size));
  }
}

static void run_shape(tri_device *device, tri_device *reference, shape s, tri_dtype type) {
  double limit = type == TRI_BF16 ? 1e-2 : s.scale > 1 ? 2e-5 : 2e-6;
  bench expected = bench_of(s, type);
  run(reference, &expected);
  bench first = {0};
  for (int threads = 1; threads <= 3; threads++) {
    bench b = bench_of(s, type);
    device->description.threads = threads;
    run(device, &b);
    compare("out", &b, &b.out, &expected.out, type, limit);
    compare("log_sum_exp", &b, &b.log_sum_exp, &expected.log_sum_exp, b.wide, limit);
    if (s.queries == s.keys) compare("gradients", &b, &b.gradient_rows, &expected.gradient_rows, type, limit);
    if (threads == 1) {
      first = b;
      continue;
    }
    assert_memory_equal(at(&b.out), at(&first.out), b.out.bytes);
    assert_memory_equal(at(&b.gradient_rows), at(&first.gradient_rows), b.gradient_rows.bytes);
    bench_release(&b);
  }
  bench_release(&first);
  bench_release(&expected);
}

static void check_shapes(const char *name) {
  tri_device *device = NULL, *reference = NULL;
  if (tri_device_create(name, 1, &device) != TRI_OK) {
    print_message("SKIPPED: %s\n", tri_status_message());
    skip();
  }
  CHECK_OK(tri_device_create("reference", 1, &reference));
  for (int i = 0; i < NUM_SHAPES; i++) {
    run_shape(device, reference, shapes[i], TRI_FP32);
    run_shape(device, reference, shapes[i], TRI_BF16);
  }
  tri_device_destroy(reference);
  tri_device_destroy(device);
}

/* Checks capped scores to the last places: a query with one key has the capped score as its log_sum_exp. Scores have
 * all sizes, both signs, 0 and NaN. */
static void check_caps(const char *name) {
  enum { ROWS = 4001 };
  static float q[ROWS], k[ROWS], v[ROWS], out[ROWS], found[ROWS];
  static tri_attention_slice slices[ROWS];
  tri_device *device = NULL;
  size_t bytes = 0;
  if (tri_device_create(name, 1, &device) != TRI_OK) skip();
  for (int i = 0; i < ROWS; i++) {
    k[i] = v[i] = 1;
    q[i] = i % 2 == 0 ? ldexpf(1, i / 40 - 60) : -1e-3f * (float)i * (1 + (float)i / ROWS);
    q[i] *= 1 + 0.7f * (float)i / ROWS;
    slices[i] = tri_slice_full(i, 1, i, 1);
  }
  q[7] = NAN;
  q[8] = 0;
  q[9] = INFINITY;
  q[10] = -INFINITY;
  tri_attention call = call_of(&(shape){1, ROWS, ROWS, 1, 1, 1, 1, 0.5}, TRI_FP32);
  call.q_row = call.k_row = call.v_row = call.out_row = 1;
  call.num_slices = ROWS;
  call.scale = 0.25;
  CHECK_OK(device->description.attention_workspace(&device->description, &call, &bytes));
  block workspace = block_of((int64_t)bytes / 4 + 16, TRI_FP32);
  CHECK_OK(device->kernels->attention_forward(device->queue, &call, slices, q, k, v, out, found, at(&workspace)));
  for (int i = 0; i < ROWS; i++) {
    const double expected = 0.5 * tanh(0.25 * (double)q[i] / 0.5);
    if (i == 7 ? !isnan(found[i]) : !(fabs((double)found[i] - expected) <= 3.0 / (1 << 23) * fabs(expected)))
      fail_msg("%g, capped, is %.9g, not %.9g", (double)q[i], (double)found[i], expected);
  }
  release(&workspace);
  tri_device_destroy(device);
}

static void run_device(const char *name) {
  check_shapes(name);
  check_caps(name);
}

VECTOR_UNIT_TESTS(run_device)

/* For any length of the sequence, the scratch memory of a thread is a few tiles and one head's rows. */
static void test_workspace(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("cpu", 2, &device));
  size_t bytes[2] = {0};
  for (int i = 0; i < 2; i++) {
    shape s = {1, i == 0 ? 4096 : 8192, i == 0 ? 4096 : 8192, 12, 12, 64, 1, 0};
    tri_attention call = call_of(&s, TRI_FP32);
    CHECK_OK(device->description.attention_workspace(&device->description, &call, &bytes[i]));
  }
  assert_true(bytes[1] <= 2 * bytes[0]); /* a T x T matrix would take four times as much */
  tri_attention call = call_of(&shapes[0], TRI_FP64);
  CHECK_FAILS(device->description.attention_workspace(&device->description, &call, &bytes[0]), TRI_UNSUPPORTED,
              "device: reference");
  tri_device_destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference),
      cmocka_unit_test(test_workspace),
      VECTOR_UNIT_ENTRIES,
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
