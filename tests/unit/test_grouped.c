/* Rows in groups: sorting of rows by their expert, products of each group with its own matrix, sums of returned rows,
 * and gated activations with a weight. Compared with plain loops in double. Also the guarantees about bits: a row's
 * result does not depend on its position or on the other rows, and a group's sum does not depend on the group's
 * position. */
#include "base/random.h"
#include "check.h"
#include "device/cpu/matmul.h"
#include "device/cpu/matmul_plan.h"
#include "device/kernels.h"
#include "draws.h"
#include "sanitized.h"
#include "typed_array.h"
#include "vector_units.h"

#include <stdio.h>

#define KERNEL(device, name, ...) CHECK_OK((device)->kernels->name((device)->queue, __VA_ARGS__))

/* Returns a CPU device that computes bf16 products in one way. */
static tri_device *cpu_with(int threads, tri_cpu_bf16 bf16, bool pack_fp32) {
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("cpu", threads, &device));
  tri_cpu_matmul_state_of(&device->description)->options.bf16 = bf16;
  tri_cpu_matmul_state_of(&device->description)->options.pack_fp32 = pack_fp32;
  return device;
}

static draws begin_draws(uint64_t stream) { return (draws){tri_random_stream(11, TRI_RANDOM_TEST, stream), 0}; }

/* Returns values between -2 and 2; with few_bits, bf16 represents them exactly. */
static typed_array draw_array(tri_dtype type, int64_t count, bool few_bits, uint64_t stream) {
  typed_array x = typed_make(type, count);
  draws d = begin_draws(stream);
  for (int64_t i = 0; i < count; i++) {
    const double value = (double)pick(&d, -(1 << 24), 1 << 24) * 0x1p-23;
    typed_put(&x, i, few_bits ? trunc(value * 64) / 64 : value);
  }
  return x;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

enum { MOST_GROUPS = 70 };

typedef struct problem {
  tri_device *device;
  tri_grouped_matmul call;
  int64_t rows; /* number of rows; the capacity of the call is larger */
  int32_t begins[MOST_GROUPS + 1];
  typed_array a, b, c, before;
  char text[160];
} problem;

typedef struct shape {
  int64_t groups, n, k; /* for a gradient, k is its m */
  int64_t rows[MOST_GROUPS];
} shape;

static const shape shapes[] = {
    {4, 48, 64, {5, 0, 33, 1}},
    {1, 3, 2, {1}},
    {3, 65, 31, {0, 0, 0}},
    {3, 96, 32, {0, 257, 64}},
    {2, 33, 70, {700, 31}},
    {5, 160, 96, {63, 65, 128, 127, 129}},
    {MOST_GROUPS, 32, 64, {20, 19, 21, 3, 1, 0, 40, 20, 20, 20, 64, 1, 1, 1, 2, 30, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
};
enum { NUM_SHAPES = sizeof shapes / sizeof *shapes };

typedef struct variant {
  tri_dtype a, b, c;
  bool b_transposed, accumulate, packed;
  int64_t gap; /* elements between rows */
} variant;

static const char *describe(problem *x) {
  const tri_matmul *p = &x->call.product;
  snprintf(x->text, sizeof x->text, "%s: %lld groups, %lld x %lld x %lld, %s %s %s%s%s%s%s, gap %lld",
           x->device->info.name, (long long)x->call.groups, (long long)p->m, (long long)p->n, (long long)p->k,
           tri_dtype_name(p->a_type), tri_dtype_name(p->b_type), tri_dtype_name(p->c_type),
           p->a_transposed ? ", gradient" : "", p->b_transposed ? ", b^T" : "", p->accumulate ? ", accumulated" : "",
           p->b_packed ? ", packed" : "", (long long)(p->ldc - p->n));
  return x->text;
}

/* Sets the elements from index `from` on, those of unused rows, to NaN. */
static void blot(const typed_array *x, int64_t from) {
  for (int64_t i = from; i < x->count; i++) typed_put(x, i, NAN);
}

/* The problem sets the rows of a. The matrices depend on the group, so that a group has the same matrix at any
 * position. */
static void problem_begin(problem *x, tri_device *device, bool gradient, const shape *s, const variant *v) {
  enum { ROOM = 9 };
  *x = (problem){.device = device};
  for (int64_t g = 0; g < s->groups; g++) x->begins[g + 1] = (int32_t)(x->rows += s->rows[g]);
  x->rows = x->begins[s->groups];
  tri_matmul *p = &x->call.product;
  *p = (tri_matmul){.m = gradient ? s->k : x->rows + ROOM,
                    .n = s->n,
                    .k = gradient ? x->rows + ROOM : s->k,
                    .a_type = v->a,
                    .b_type = v->b,
                    .c_type = v->c,
                    .a_transposed = gradient,
                    .b_transposed = v->b_transposed,
                    .accumulate = v->accumulate};
  p->lda = s->k + v->gap;
  p->ldb = (p->b_transposed ? p->k : p->n) + v->gap;
  p->ldc = p->n + v->gap;
  x->call.groups = s->groups;
  x->call.stride = (gradient ? p->m * p->ldc : (p->b_transposed ? p->n : p->k) * p->ldb) + v->gap;
  const int64_t all = x->rows + ROOM, matrices = s->groups * x->call.stride;
  x->a = draw_array(p->a_type, all * p->lda, false, 1);
  x->b = draw_array(p->b_type, gradient ? all * p->ldb : matrices, p->b_type != p->a_type, 2);
  x->c = p->accumulate ? draw_array(p->c_type, gradient ? matrices : all * p->ldc, false, 3)
                       : typed_make(p->c_type, gradient ? matrices : all * p->ldc);
  blot(&x->a, x->rows * p->lda);
  if (gradient) blot(&x->b, x->rows * p->ldb);
  x->before = typed_make(p->c_type, x->c.count);
  memcpy(x->before.data, x->c.data, (size_t)x->c.count * tri_dtype_bytes(p->c_type));
}

static void problem_end(problem *x) {
  free(x->a.data);
  free(x->b.data);
  free(x->c.data);
  free(x->before.data);
}

/* Packs each group's matrix in the device's layout. Returns NULL if the device has no such layout. */
static void *pack(const problem *x, tri_grouped_matmul *call) {
  size_t bytes = 0;
  const tri_device_description *of = &x->device->description;
  CHECK_OK(of->matmul_packed(of, &call->product, &bytes));
  if (bytes == 0) return NULL;
  const size_t stride = (bytes + 63) / 64 * 64;
  char *packed = aligned_alloc(64, stride * (size_t)call->groups);
  assert_non_null(packed);
  for (int64_t g = 0; g < call->groups; g++) {
    KERNEL(x->device, matmul_pack, &call->product, call->product.b_type, typed_at(&x->b, g * call->stride),
           packed + (size_t)g * stride);
  }
  call->product.b_packed = true;
  call->stride = (int64_t)stride;
  return packed;
}

/* Returns false if the product should be packed and the device does not pack. */
static bool multiply_into(problem *x, bool packed, void *c) {
  size_t bytes = 0;
  tri_grouped_matmul call = x->call;
  const tri_device_description *of = &x->device->description;
  void *own = packed ? pack(x, &call) : NULL;
  if (packed && own == NULL) return false;
  CHECK_OK(of->grouped_workspace(of, &call, &bytes));
  void *workspace = aligned_alloc(64, (bytes + 64) / 64 * 64);
  assert_non_null(workspace);
  memset(workspace, 0xff, bytes);
  KERNEL(x->device, grouped_matmul, &call, x->begins, x->a.data, packed ? own : x->b.data, c, workspace);
  free(workspace);
  free(own);
  return true;
}

static void check_element(problem *x, int64_t at, double sum, double magnitude, double terms) {
  const tri_matmul *p = &x->call.product;
  if (p->accumulate) sum += typed_get(&x->before, at);
  /* A device may round an fp32 b to bf16 if a is bf16; these values are exact in bf16. */
  const double allowed = 4 * typed_rounding(tri_dtype_wide(p->a_type)) * sqrt(terms) * (magnitude + fabs(sum)) +
                         typed_rounding(p->c_type) * fabs(sum);
  if (fabs(typed_get(&x->c, at) - sum) <= allowed) return;
  fail_msg("%s: element %lld is %.9g, not %.9g within %.2g", describe(x), (long long)at, typed_get(&x->c, at), sum,
           allowed);
}

static void check_product(problem *x, int64_t g) {
  const tri_matmul *p = &x->call.product;
  for (int64_t r = x->begins[g]; r < x->begins[g + 1]; r++) {
    for (int64_t j = 0; j < p->n; j++) {
      double sum = 0, magnitude = 0;
      for (int64_t l = 0; l < p->k; l++) {
        const int64_t at = g * x->call.stride + (p->b_transposed ? j * p->ldb + l : l * p->ldb + j);
        const double term = typed_get(&x->a, r * p->lda + l) * typed_get(&x->b, at);
        sum += term;
        magnitude += fabs(term);
      }
      check_element(x, r * p->ldc + j, sum, magnitude, (double)p->k);
    }
  }
}

static void check_gradient(problem *x, int64_t g) {
  const tri_matmul *p = &x->call.product;
  for (int64_t i = 0; i < p->m; i++) {
    for (int64_t j = 0; j < p->n; j++) {
      double sum = 0, magnitude = 0;
      for (int64_t r = x->begins[g]; r < x->begins[g + 1]; r++) {
        const double term = typed_get(&x->a, r * p->lda + i) * typed_get(&x->b, r * p->ldb + j);
        sum += term;
        magnitude += fabs(term);
      }
      check_element(x, g * x->call.stride + i * p->ldc + j, sum, magnitude,
                    1 + (double)(x->begins[g + 1] - x->begins[g]));
    }
  }
}

/* Checks that gaps between rows and between matrices, and unused rows, are unchanged. */
static void check_gaps(problem *x) {
  const tri_matmul *p = &x->call.product;
  const size_t bytes = tri_dtype_bytes(p->c_type);
  for (int64_t at = 0; at < x->c.count; at++) {
    const int64_t within = p->a_transposed ? at % x->call.stride : at;
    const int64_t rows = p->a_transposed ? p->m : x->rows;
    if (within % p->ldc < p->n && within / p->ldc < rows) continue;
    if (memcmp(typed_at(&x->c, at), typed_at(&x->before, at), bytes) != 0) {
      fail_msg("%s: element %lld was written", describe(x), (long long)at);
    }
  }
}

static void check_values(problem *x) {
  for (int64_t g = 0; g < x->call.groups; g++) {
    if (x->call.product.a_transposed) {
      check_gradient(x, g);
    } else {
      check_product(x, g);
    }
  }
  check_gaps(x);
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static void copy_row(const typed_array *from, int64_t from_row, const typed_array *to, int64_t to_row, int64_t ld) {
  memcpy(typed_at(to, to_row * ld), typed_at(from, from_row * ld), (size_t)ld * tri_dtype_bytes(to->type));
}

static void check_same(problem *x, const typed_array *c, int64_t at, int64_t own, int64_t count, const char *what) {
  if (memcmp(typed_at(c, at), typed_at(&x->c, own), (size_t)count * tri_dtype_bytes(c->type)) == 0) return;
  fail_msg("%s: other bits, %s, at element %lld", describe(x), what, (long long)own);
}

/* Computes group g's first `rows` rows alone, and compares with the results among other groups. For a gradient, `rows`
 * is the whole group. */
static void check_alone(problem *x, const problem *all, int64_t g, int64_t rows, bool packed) {
  const tri_matmul *p = &all->call.product;
  const int64_t first = all->begins[g], stride = all->call.stride;
  problem one = *all;
  one.call.groups = 1;
  *(p->a_transposed ? &one.call.product.k : &one.call.product.m) = rows;
  one.begins[0] = 0;
  one.begins[1] = (int32_t)rows;
  one.a.data = typed_at(&all->a, first * p->lda);
  one.b.data = typed_at(&all->b, p->a_transposed ? first * p->ldb : g * stride);
  typed_array c = typed_make(all->c.type, all->c.count);
  memcpy(c.data, all->before.data, (size_t)c.count * tri_dtype_bytes(c.type));
  const int64_t own = p->a_transposed ? g * stride : first * p->ldc;
  assert_true(multiply_into(&one, packed, typed_at(&c, own)));
  for (int64_t i = 0; i < (p->a_transposed ? p->m : rows); i++) {
    check_same(x, &c, own + i * p->ldc, own + i * p->ldc, p->n, "alone");
  }
  free(c.data);
}

/* Reverses the rows of each group, with an additional row at the beginning of the first group. */
static void check_turned(problem *x, bool packed) {
  const tri_matmul *p = &x->call.product;
  problem turned = *x;
  turned.a = typed_make(x->a.type, x->a.count);
  turned.c = typed_make(x->c.type, x->c.count);
  memcpy(turned.c.data, x->c.data, (size_t)x->c.count * tri_dtype_bytes(x->c.type));
  memcpy(turned.a.data, x->a.data, (size_t)x->a.count * tri_dtype_bytes(x->a.type));
  for (int64_t g = 1; g <= x->call.groups; g++) turned.begins[g]++;
  for (int64_t g = 0; g < x->call.groups; g++) {
    for (int64_t r = x->begins[g]; r < x->begins[g + 1]; r++) {
      copy_row(&x->a, r, &turned.a, x->begins[g] + x->begins[g + 1] - r, p->lda);
      copy_row(&x->before, r, &turned.c, x->begins[g] + x->begins[g + 1] - r, p->ldc);
    }
  }
  assert_true(multiply_into(&turned, packed, turned.c.data));
  for (int64_t g = 0; g < x->call.groups; g++) {
    for (int64_t r = x->begins[g]; r < x->begins[g + 1]; r++) {
      check_same(x, &turned.c, (x->begins[g] + x->begins[g + 1] - r) * p->ldc, r * p->ldc, p->n, "in another place");
    }
  }
  free(turned.a.data);
  free(turned.c.data);
}

static void check_bits(problem *x, bool packed) {
  const bool gradient = x->call.product.a_transposed;
  for (int64_t g = 0; g < x->call.groups; g += 1 + x->call.groups / 8) {
    const int64_t rows = x->begins[g + 1] - x->begins[g];
    check_alone(x, x, g, rows, packed);
    if (!gradient && rows > 1) check_alone(x, x, g, 1, packed);
    if (!gradient && rows > 40) check_alone(x, x, g, rows / 2 + 3, packed);
  }
  if (!gradient) check_turned(x, packed);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void check_shape(tri_device *device, bool gradient, const shape *s, const variant *v) {
  problem own, *x = &own;
  problem_begin(x, device, gradient, s, v);
  if (multiply_into(x, v->packed, x->c.data)) {
    check_values(x);
    check_bits(x, v->packed);
  }
  problem_end(x);
}

static void check_products(tri_device *device, tri_dtype type) {
  const tri_dtype wide = tri_dtype_wide(type);
  for (int i = 0; i < NUM_SHAPES; i++) {
    for (int bits = SANITIZED ? i % 5 : 0; bits < 16; bits += SANITIZED ? 5 : 1) {
      const bool transposed = (bits & 1) != 0, accumulate = (bits & 2) != 0, packed = (bits & 4) != 0;
      const int64_t gap = (bits & 8) != 0 ? 5 : 0;
      check_shape(device, false, &shapes[i], &(variant){type, type, type, transposed, accumulate, packed, gap});
      if (wide != type) {
        check_shape(device, false, &shapes[i], &(variant){type, type, wide, transposed, accumulate, packed, gap});
      }
      if (!packed)
        check_shape(device, false, &shapes[i], &(variant){type, wide, type, transposed, accumulate, false, gap});
      if (transposed || packed) continue;
      check_shape(device, true, &shapes[i], &(variant){type, type, wide, false, accumulate, false, gap});
    }
  }
}

/* ---- sorting ----------------------------------------------------------------------------------------------------- */

static void check_sorted(tri_device *device, int64_t capacity, int64_t live, int64_t chosen, int64_t experts_count,
                         bool some_none) {
  const int32_t count = (int32_t)live;
  const int64_t pairs = live * chosen, room = capacity * chosen;
  typed_array experts = typed_make(TRI_INT32, room), begins = typed_make(TRI_INT32, experts_count + 2);
  typed_array order = typed_make(TRI_INT32, room), sources = typed_make(TRI_INT32, room);
  typed_array places = typed_make(TRI_INT32, room);
  draws d = begin_draws((uint64_t)(live * 100 + chosen));
  for (int64_t i = 0; i < room; i++) {
    typed_put(&experts, i, (double)pick(&d, some_none ? -1 : 0, experts_count - (some_none ? 0 : 1)));
  }
  KERNEL(device, group_rows, (tri_rows){capacity, &count}, chosen, experts_count, experts.data, begins.data, order.data,
         sources.data, places.data);
  int64_t place = 0;
  for (int64_t e = 0; e <= experts_count; e++) {
    assert_int_equal(((int32_t *)begins.data)[e], place);
    for (int64_t i = 0; i < pairs; i++) {
      const int32_t own = ((int32_t *)experts.data)[i];
      const bool none = own < 0 || own >= experts_count;
      if (e == experts_count ? !none : own != e) continue;
      assert_int_equal(((int32_t *)order.data)[place], i);
      assert_int_equal(((int32_t *)sources.data)[place], i / chosen);
      assert_int_equal(((int32_t *)places.data)[i], none ? -1 : place);
      place++;
    }
  }
  assert_true(typed_untouched(&begins, experts_count + 1, experts_count + 2));
  assert_true(typed_untouched(&order, pairs, room) && typed_untouched(&sources, pairs, room));
  assert_true(typed_untouched(&places, pairs, room));
  typed_array *all[] = {&experts, &begins, &order, &sources, &places};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

static void check_sorting(tri_device *device) {
  check_sorted(device, 5, 5, 2, 3, false);
  check_sorted(device, 40, 33, 1, 1, false);
  check_sorted(device, 40, 0, 2, 7, false);
  check_sorted(device, 300, 299, 8, 128, false);
  check_sorted(device, 300, 299, 8, 128, true);
  check_sorted(device, 3000, 2500, 6, 16, true);
  check_sorted(device, 20, 20, 64, 1024, true);
}

/* ---- sums of rows ------------------------------------------------------------------------------------------------ */

static void check_sums(tri_device *device, tri_dtype type, int64_t terms, int64_t width, bool accumulate) {
  enum { CAPACITY = 90, LIVE = 77 };
  const int32_t count = LIVE;
  typed_array in = draw_array(type, LIVE * terms * width, true, 4), places = typed_make(TRI_INT32, CAPACITY * terms);
  typed_array out = accumulate ? draw_array(type, CAPACITY * width, true, 5) : typed_make(type, CAPACITY * width);
  typed_array before = typed_make(type, out.count);
  draws d = begin_draws((uint64_t)terms);
  memcpy(before.data, out.data, (size_t)out.count * tri_dtype_bytes(type));
  for (int64_t i = 0; i < CAPACITY * terms; i++) {
    typed_put(&places, i, i < LIVE * terms ? (double)pick(&d, -1, LIVE * terms - 1) : 1e6);
  }
  for (int64_t j = 0; j < terms; j++) typed_put(&places, j, -1); /* a sum without terms */
  KERNEL(device, sum_rows, type, (tri_rows){CAPACITY, &count}, terms, width, places.data, in.data, out.data,
         accumulate);
  for (int64_t i = 0; i < LIVE * width; i++) {
    double sum = accumulate ? typed_get(&before, i) : 0;
    for (int64_t j = 0; j < terms; j++) {
      const int64_t place = (int64_t)typed_get(&places, i / width * terms + j);
      if (place >= 0) sum += typed_get(&in, place * width + i % width);
    }
    const double got = typed_get(&out, i);
    if (!(fabs(got - sum) <= typed_rounding(type) * (fabs(sum) + 1e-3))) {
      fail_msg("%s, %s: a sum of %lld rows is %.9g, not %.9g", device->info.name, tri_dtype_name(type),
               (long long)terms, got, sum);
    }
  }
  assert_memory_equal(typed_at(&out, LIVE * width), typed_at(&before, LIVE * width),
                      (size_t)((CAPACITY - LIVE) * width) * tri_dtype_bytes(type));
  free(in.data);
  free(places.data);
  free(out.data);
  free(before.data);
}

/* ---- gated activations ------------------------------------------------------------------------------------------- */

static double activation(tri_activation kind, double x) {
  switch (kind) {
    case TRI_ACTIVATION_GELU_TANH: return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case TRI_ACTIVATION_GELU_ERF: return 0.5 * x * erfc(-x / sqrt(2));
    case TRI_ACTIVATION_SILU: return x / (1 + exp(-x));
    case TRI_ACTIVATION_RELU: return fmax(x, 0);
    case TRI_ACTIVATION_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case TRI_ACTIVATION_RELU2: return fmax(x, 0) * fmax(x, 0);
    case TRI_ACTIVATION_MISH: return x * tanh(log1p(exp(x)));
    case TRI_ACTIVATION_TANH: return tanh(x);
  }
  return NAN;
}

static double gated(tri_activation kind, double gate, double up, double weight) {
  return weight * activation(kind, gate) * up;
}

static void check_near(double got, double expected, double tolerance, const char *what) {
  if (!(fabs(got - expected) <= tolerance)) fail_msg("%s is %.9g, not %.9g", what, got, expected);
}

static void check_gated(tri_device *device, tri_dtype type, tri_activation kind, int64_t width) {
  enum { CAPACITY = 40, LIVE = 37 };
  const int32_t count = LIVE;
  const tri_rows rows = {CAPACITY, &count};
  const tri_dtype wide = tri_dtype_wide(type);
  const double rounding = typed_rounding(type) + (wide == TRI_FP64 ? 1e-12 : 1e-6), h = 1e-5;
  typed_array x = draw_array(type, CAPACITY * 2 * width, true, 6), dy = draw_array(type, CAPACITY * width, true, 7);
  typed_array weights = draw_array(wide, CAPACITY, true, 8), dw = typed_make(wide, CAPACITY);
  typed_array y = typed_make(type, CAPACITY * width), dx = typed_make(type, CAPACITY * 2 * width);
  KERNEL(device, weighted_gated_forward, type, kind, rows, width, x.data, weights.data, y.data);
  KERNEL(device, weighted_gated_backward, type, kind, rows, width, x.data, weights.data, dy.data, dx.data, dw.data);
  for (int64_t r = 0; r < LIVE; r++) {
    double sum = 0;
    const double w = typed_get(&weights, r);
    for (int64_t c = 0; c < width; c++) {
      const int64_t at = r * 2 * width + c;
      const double gate = typed_get(&x, at), up = typed_get(&x, at + width), slope = typed_get(&dy, r * width + c);
      const double by_gate = slope * (gated(kind, gate + h, up, w) - gated(kind, gate - h, up, w)) / (2 * h);
      check_near(typed_get(&y, r * width + c), gated(kind, gate, up, w), 8 * rounding, "y");
      const bool bends =
          (kind == TRI_ACTIVATION_RELU || kind == TRI_ACTIVATION_RELU2) && fabs(gate) <= h; /* a kink at 0 */
      if (!bends) check_near(typed_get(&dx, at), by_gate, 32 * rounding + 1e-8, "the gradient of a gate");
      check_near(typed_get(&dx, at + width), slope * gated(kind, gate, 1, w), 16 * rounding, "the gradient of up");
      sum += slope * gated(kind, gate, up, 1);
    }
    check_near(typed_get(&dw, r), sum, (wide == TRI_FP64 ? 1e-12 : 2e-6) * (double)(10 + width), "a weight's gradient");
  }
  assert_true(typed_untouched(&y, LIVE * width, CAPACITY * width) && typed_untouched(&dw, LIVE, CAPACITY));
  assert_true(typed_untouched(&dx, LIVE * 2 * width, CAPACITY * 2 * width));
  typed_array *all[] = {&x, &dy, &weights, &dw, &y, &dx};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static void check_rows(tri_device *device, tri_dtype type) {
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    check_sums(device, type, 1, 3, accumulate);
    check_sums(device, type, 2, 384, accumulate);
    check_sums(device, type, 8, 77, accumulate);
  }
  check_gated(device, type, TRI_ACTIVATION_SILU, 1);
  check_gated(device, type, TRI_ACTIVATION_SILU, 256);
#define CHECK(VALUE, ...) check_gated(device, type, TRI_ACTIVATION_##VALUE, 101);
  TRI_ACTIVATIONS(CHECK)
}

static void test_reference(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("reference", 1, &device));
  check_products(device, TRI_FP64);
  check_products(device, TRI_BF16);
  check_rows(device, TRI_FP64);
  check_rows(device, TRI_BF16);
  check_sorting(device);
  tri_device_destroy(device);
}

static void check_unit(const char *name) {
  tri_device *device = NULL;
  if (tri_device_create(name, 2, &device) != TRI_OK) {
    print_message("SKIPPED: %s\n", tri_status_message());
    skip();
  }
  check_rows(device, TRI_FP32);
  check_rows(device, TRI_BF16);
  check_sorting(device);
  tri_device_destroy(device);
}

VECTOR_UNIT_TESTS(check_unit)

/* ---- the CPU's two ways of a product ----------------------------------------------------------------------------- */

static void test_fp32(void **state) {
  (void)state;
  for (int packed = 0; packed < 2; packed++) {
    tri_device *device = cpu_with(2, TRI_CPU_BF16_WIDENED, packed != 0);
    check_products(device, TRI_FP32);
    tri_device_destroy(device);
  }
}

static void test_bf16_widened(void **state) {
  (void)state;
  tri_device *device = cpu_with(2, TRI_CPU_BF16_WIDENED, false);
  check_products(device, TRI_BF16);
  tri_device_destroy(device);
}

static void test_bf16_native(void **state) {
  (void)state;
  double ratio = 0;
  bool native = false;
  tri_device *device = cpu_with(2, TRI_CPU_BF16_MEASURED, false);
  CHECK_OK(tri_cpu_matmul_bf16(tri_cpu_matmul_state_of(&device->description), &native, &ratio));
  tri_cpu_matmul_state_of(&device->description)->options.bf16 = TRI_CPU_BF16_NATIVE;
  if (ratio > 0) check_products(device, TRI_BF16);
  tri_device_destroy(device);
  if (ratio > 0) return;
  print_message("SKIPPED: oneDNN has no bf16 kernels for this CPU\n");
  skip();
}

/* ---- deep products, and many threads ----------------------------------------------------------------------------- */

/* Products and gradients whose order of summation could most easily change: depths that are split in parts, more rows
 * than a part, different numbers of threads. */
static void check_deep(tri_dtype type, tri_dtype to, bool gradient, const shape *s) {
  typed_array before = {0};
  for (int threads = 1; threads <= 3; threads += 2) {
    problem own, *x = &own;
    tri_device *device = cpu_with(threads, TRI_CPU_BF16_MEASURED, false);
    problem_begin(x, device, gradient, s, &(variant){type, type, to, !gradient, false, false, 0});
    assert_true(multiply_into(x, false, x->c.data));
    check_bits(x, false);
    if (before.data != NULL) check_same(x, &before, 0, 0, x->c.count, "on other threads");
    free(before.data);
    before = typed_make(x->c.type, x->c.count);
    memcpy(before.data, x->c.data, (size_t)x->c.count * tri_dtype_bytes(x->c.type));
    problem_end(x);
    tri_device_destroy(device);
  }
  free(before.data);
}

static void test_deep(void **state) {
  (void)state;
  enum { WIDTH = SANITIZED ? 70 : 768 };
  static const shape deep = {3, WIDTH, 2048, {150, 37, 1}}, deeper = {2, WIDTH, 5000, {70, 3}};
  static const shape long_groups = {3, 130, 300, {1500, 1, 700}};
  const tri_dtype types[] = {TRI_FP32, TRI_BF16};
  for (int t = 0; t < 2; t++) {
    check_deep(types[t], types[t], false, &deep);
    check_deep(types[t], TRI_FP32, false, &deep);
    check_deep(types[t], TRI_FP32, false, &deeper);
    check_deep(types[t], TRI_FP32, true, &long_groups);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference),   VECTOR_UNIT_ENTRIES,         cmocka_unit_test(test_fp32),
      cmocka_unit_test(test_bf16_native), cmocka_unit_test(test_deep), cmocka_unit_test(test_bf16_widened),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
