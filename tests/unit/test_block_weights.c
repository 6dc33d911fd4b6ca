/* Weights in blocks of 32: quantised values are those of GGUF's blocks, products are near sums in double, and the bits
 * of a row depend neither on other rows nor on groups or threads. On the reference device and all vector units. */
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "device/device.h"
#include "device/kernels.h"
#include "gguf/blocks.h"
#include "vector_units.h"

#include <math.h>
#include <stdlib.h>

#define KERNEL(name, ...) device->kernels->name(device->queue, __VA_ARGS__)

enum { GUARD = 0x5a, TYPES = 2, SHAPES = 6 };
static const tri_block_type types[TYPES] = {TRI_BLOCKS_Q8_0, TRI_BLOCKS_Q4_0};
static const char *const names[TYPES] = {"Q8_0", "Q4_0"};
static const int64_t shapes[SHAPES][2] = {{32, 1}, {64, 16}, {96, 17}, {576, 40}, {1024, 33}, {256, 260}}; /* in, out */

static float given(int64_t i) {
  const uint32_t word = (uint32_t)((uint64_t)(i + 1) * 2654435761u);
  const double u = word / 0x1p31 - 1;
  return (float)(u * u * u * (1.0 + (double)(i / 32 % 5)));
}

static void *make(size_t bytes) {
  void *out = malloc(bytes + 64);
  assert_non_null(out);
  memset(out, GUARD, bytes + 64);
  return out;
}

static void check_guard(const void *array, size_t bytes) {
  for (size_t i = 0; i < 64; i++) assert_int_equal(((const uint8_t *)array)[bytes + i], GUARD);
}

/* Returns the matrix of values [out, in] or, if in_out, [in, out], in blocks, quantised in pieces. Free it. */
static void *packed(tri_device *device, const tri_block_matrix *m, bool in_out, const float *values) {
  const size_t bytes = tri_block_matrix_bytes(m);
  void *kept = make(bytes);
  const int64_t step = in_out ? TRI_BLOCK_INPUTS : 2 * TRI_BLOCK_OUTPUTS, end = in_out ? m->in : m->out;
  for (int64_t first = 0; first < end; first += step) {
    const int64_t some = end - first < step ? end - first : step;
    tri_block_part part = {.first_out = first, .outputs = some, .inputs = m->in, .out_stride = m->in, .in_stride = 1};
    if (in_out)
      part =
          (tri_block_part){.first_in = first, .inputs = some, .outputs = m->out, .in_stride = m->out, .out_stride = 1};
    CHECK_OK(KERNEL(pack_blocks, TRI_FP32, m, &part, values + first * (in_out ? m->out : m->in), kept));
  }
  check_guard(kept, bytes);
  return kept;
}

/* Quantises and dequantises the values [out, in] as blocks of a GGUF file. */
static void through_gguf(const char *name, const tri_block_matrix *m, const float *values, float *out) {
  const tri_gguf_type *type = tri_gguf_type_named(name);
  const int64_t blocks = m->in * m->out / type->elements;
  void *file = make((size_t)(blocks * type->bytes));
  CHECK_OK(tri_gguf_encode(type, blocks, values, file));
  CHECK_OK(tri_gguf_decode(type, "a test", blocks, file, out));
  free(file);
}

/* Dequantises parts of all sizes, and compares them with `wanted` [out, in]. */
static void check_parts(tri_device *device, const tri_block_matrix *m, const void *kept, const float *wanted) {
  for (int64_t n = 0; n < 12; n++) {
    tri_block_part part = {.first_out = n * 7 % m->out, .first_in = n * 11 % m->in, .in_stride = 1};
    part.outputs = n == 0 ? m->out : 1 + n * 5 % (m->out - part.first_out);
    part.inputs = n == 0 ? m->in : 1 + n * 13 % (m->in - part.first_in);
    part.out_stride = part.inputs;
    const size_t bytes = (size_t)(part.outputs * part.inputs) * sizeof(float);
    float *found = make(bytes);
    CHECK_OK(KERNEL(unpack_blocks, TRI_FP32, m, &part, kept, found));
    check_guard(found, bytes);
    for (int64_t o = 0; o < part.outputs; o++)
      for (int64_t i = 0; i < part.inputs; i++)
        assert_true(found[o * part.inputs + i] == wanted[(part.first_out + o) * m->in + part.first_in + i]);
    free(found);
  }
}

static void check_embedding(tri_device *device, const tri_block_matrix *m, const void *kept, const float *wanted) {
  const int32_t ids[] = {3, 0, (int32_t)m->out + 2, 3, 1}, positions[] = {0, 1, 1, 0, 1};
  const int64_t rows = sizeof ids / sizeof *ids;
  const size_t bytes = (size_t)(rows * m->in) * sizeof(float);
  float *found = make(bytes), *table = make((size_t)(2 * m->in) * sizeof(float));
  for (int64_t i = 0; i < 2 * m->in; i++) table[i] = given(i + 5);
  for (int with = 0; with < 2; with++) {
    CHECK_OK(
        KERNEL(embedding_blocks, TRI_FP32, tri_all_rows(rows), m, ids, 2, kept, positions, with ? table : NULL, found));
    check_guard(found, bytes);
    for (int64_t r = 0; r < rows; r++) {
      const int64_t id = ids[r] - 2;
      for (int64_t i = 0; i < m->in; i++) {
        const float own = id >= 0 && id < m->out ? wanted[id * m->in + i] : 0;
        assert_true(found[r * m->in + i] == own + (with ? table[positions[r] * m->in + i] : 0));
      }
    }
  }
  free(table);
  free(found);
}

/* Compares a product with the sum in double. The error is at most that of a sum in fp32 of the magnitudes. */
static void check_sums(const tri_block_product *p, const float *a, const float *w, const float *bias, const float *c) {
  for (int64_t r = 0; r < p->rows; r++) {
    for (int64_t o = 0; o < p->matrix.out; o++) {
      double sum = bias == NULL ? 0 : (double)bias[o], size = fabs(sum);
      for (int64_t i = 0; i < p->matrix.in; i++) {
        const double term = (double)a[r * p->lda + i] * (double)w[o * p->matrix.in + i];
        sum += term;
        size += fabs(term);
      }
      const double found = (double)c[r * p->ldc + o];
      if (!(fabs(found - sum) <= 4e-6 * size)) fail_msg("row %d, output %d: %g, not %g", (int)r, (int)o, found, sum);
    }
  }
}

static void check_products(tri_device *device, const tri_block_matrix *m, const void *kept, const float *w) {
  enum { MOST = 21, GAP = 3 };
  tri_block_product p = {.matrix = *m, .rows = MOST, .lda = m->in + GAP, .ldc = m->out + GAP};
  const size_t bytes = (size_t)(MOST * p.ldc) * sizeof(float);
  float *a = make((size_t)(MOST * p.lda) * sizeof(float)), *bias = make((size_t)m->out * sizeof(float));
  float *all = make(bytes), *some = make(bytes);
  for (int64_t i = 0; i < MOST * p.lda; i++) a[i] = given(i * 3 + 1);
  for (int64_t i = 0; i < m->out; i++) bias[i] = given(i + 7);
  for (int with = 0; with < 2; with++) {
    p.rows = MOST;
    CHECK_OK(KERNEL(block_matmul, TRI_FP32, &p, NULL, a, kept, with ? bias : NULL, all));
    check_guard(all, bytes);
    check_sums(&p, a, w, with ? bias : NULL, all);
    for (p.rows = 1; p.rows < MOST; p.rows++) { /* the last rows alone */
      const int64_t first = MOST - p.rows;
      memset(some, GUARD, bytes);
      CHECK_OK(KERNEL(block_matmul, TRI_FP32, &p, NULL, a + first * p.lda, kept, with ? bias : NULL, some));
      for (int64_t r = 0; r < p.rows; r++) {
        assert_memory_equal(some + r * p.ldc, all + (first + r) * p.ldc, (size_t)m->out * sizeof(float));
        for (size_t gap = 0; gap < GAP * sizeof(float); gap++) /* columns beyond the outputs are not written */
          assert_int_equal(((uint8_t *)(some + r * p.ldc + m->out))[gap], GUARD);
      }
    }
  }
  free(some);
  free(all);
  free(bias);
  free(a);
}

/* Multiplies rows of groups by three copies of a matrix: each row has the bits that it has alone. */
static void check_groups(tri_device *device, const tri_block_matrix *m, const void *kept) {
  enum { GROUPS = 3, ROWS = 11 };
  const int32_t begins[GROUPS + 1] = {0, 2, 2, ROWS - 1};
  const size_t one = tri_block_matrix_bytes(m), bytes = ROWS * (size_t)m->out * sizeof(float);
  char *all = make(GROUPS * one);
  float *a = make(ROWS * (size_t)m->in * sizeof(float)), *c = make(bytes), *alone = make(bytes);
  tri_block_product p = {
      .matrix = *m, .rows = ROWS, .lda = m->in, .ldc = m->out, .groups = GROUPS, .stride = (int64_t)one};
  for (int g = 0; g < GROUPS; g++) memcpy(all + (size_t)g * one, kept, one);
  for (int64_t i = 0; i < ROWS * m->in; i++) a[i] = given(i + 2);
  CHECK_OK(KERNEL(block_matmul, TRI_FP32, &p, begins, a, all, NULL, c));
  p.groups = 0;
  CHECK_OK(KERNEL(block_matmul, TRI_FP32, &p, NULL, a, kept, NULL, alone));
  assert_memory_equal(c, alone, (ROWS - 1) * (size_t)m->out * sizeof(float));
  for (size_t i = 0; i < (size_t)m->out * sizeof(float); i++) /* the row after the last group is not written */
    assert_int_equal(((uint8_t *)(c + (ROWS - 1) * m->out))[i], GUARD);
  free(alone);
  free(c);
  free(a);
  free(all);
}

static void check_matrix(tri_device *device, int type, int64_t in, int64_t out) {
  const tri_block_matrix m = {.type = types[type], .in = in, .out = out};
  const size_t count = (size_t)(in * out);
  float *values = make(count * sizeof(float)), *turned = make(count * sizeof(float)), *w = make(count * sizeof(float));
  for (int64_t o = 0; o < out; o++)
    for (int64_t i = 0; i < in; i++) turned[i * out + o] = values[o * in + i] = o == 1 ? 0 : given(o * in + i);
  void *kept = packed(device, &m, false, values), *other = packed(device, &m, true, turned);
  assert_memory_equal(kept, other, tri_block_matrix_bytes(&m));
  through_gguf(names[type], &m, values, w);
  check_parts(device, &m, kept, w);
  check_embedding(device, &m, kept, w);
  check_products(device, &m, kept, w);
  check_groups(device, &m, kept);
  free(other);
  free(kept);
  free(w);
  free(turned);
  free(values);
}

static void check_all(const char *name) {
  for (int threads = 1; threads <= 3; threads += 2) {
    tri_device *device = NULL;
    if (tri_device_create(name, threads, &device) == TRI_UNSUPPORTED) skip();
    assert_non_null(device);
    for (int type = 0; type < TYPES; type++)
      for (int s = 0; s < SHAPES; s++) check_matrix(device, type, shapes[s][0], shapes[s][1]);
    tri_device_destroy(device);
  }
}

/* The bits of a product do not depend on the number of threads. */
static void check_threads(const char *name) {
  const tri_block_matrix m = {.type = TRI_BLOCKS_Q8_0, .in = 256, .out = 800};
  const tri_block_product p = {.matrix = m, .rows = 5, .lda = m.in, .ldc = m.out};
  const size_t bytes = (size_t)(p.rows * m.out) * sizeof(float);
  float *values = make((size_t)(m.in * m.out) * sizeof(float)), *c[2] = {make(bytes), make(bytes)};
  for (int64_t i = 0; i < m.in * m.out; i++) values[i] = given(i);
  for (int n = 0; n < 2; n++) {
    tri_device *device = NULL;
    if (tri_device_create(name, n == 0 ? 1 : 4, &device) == TRI_UNSUPPORTED) skip();
    void *kept = packed(device, &m, false, values);
    CHECK_OK(KERNEL(block_matmul, TRI_FP32, &p, NULL, values, kept, NULL, c[n]));
    free(kept);
    tri_device_destroy(device);
  }
  assert_memory_equal(c[0], c[1], bytes);
  free(c[1]);
  free(c[0]);
  free(values);
}

static void check_unit(const char *name) {
  check_all(name);
  check_threads(name);
}

static void test_reference(void **state) {
  (void)state;
  check_all("reference");
}

VECTOR_UNIT_TESTS(check_unit)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), VECTOR_UNIT_ENTRIES};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
