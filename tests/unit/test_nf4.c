/* Weights in 4 bits: compared with bitsandbytes, and with the definition at the edges of the codes; equal bits on all
 * vector units, with any number of threads, and in any range. */
#include "base/dynamic_map.h"
#include "base/random.h"
#include "bitsandbytes_nf4.h"
#include "device/nf4.h"
#include "model/parameters.h"
#include "typed_array.h"
#include "vector_units.h"

#define KERNEL(name, ...) device->kernels->name(device->queue, __VA_ARGS__)

static void *make_kept(int64_t count) {
  void *kept = calloc(tri_nf4_bytes(count), 1);
  assert_non_null(kept);
  return kept;
}

static float float_at(const void *kept, size_t offset) {
  float x;
  memcpy(&x, (const char *)kept + offset, sizeof x);
  return x;
}

/* Returns the quantised values. Free them. */
static void *quantised(tri_device *device, int64_t count, const float *values) {
  void *kept = make_kept(count);
  CHECK_OK(KERNEL(quantise_nf4, TRI_FP32, count, values, kept));
  return kept;
}

static void dequantised(tri_device *device, tri_dtype type, int64_t first, int64_t count, int64_t total,
                        const void *kept, void *values) {
  const tri_nf4_cut whole = tri_nf4_whole(total);
  CHECK_OK(KERNEL(dequantise_nf4, type, &whole, first, count, kept, values));
}

/* ---- beside bitsandbytes ----------------------------------------------------------------------------------------- */

/* Returns test value i: blocks of seven magnitudes. */
static float given(int64_t i) {
  const uint32_t word = (uint32_t)((uint64_t)(i + 1) * 2654435761u);
  const double u = word / 0x1p31 - 1, size = 1.0 + (double)(i / 64 % 7);
  return (float)(u * u * u * 0.02 * size);
}

static unsigned digit(char c) { return (unsigned)(c >= 'a' ? c - 'a' + 10 : c - '0'); }
static unsigned byte_of(const char *text, int64_t i) { return digit(text[2 * i]) * 16 + digit(text[2 * i + 1]); }

static void check_stored(tri_device *device) {
  const tri_nf4_layout at = tri_nf4_layout_of(NF4_COUNT);
  float values[NF4_COUNT];
  uint16_t again[NF4_COUNT];
  for (int64_t i = 0; i < NF4_COUNT; i++) values[i] = given(i);
  uint8_t *kept = quantised(device, NF4_COUNT, values);
  for (int64_t i = 0; i < (NF4_COUNT + 1) / 2; i++) assert_int_equal(kept[i], byte_of(nf4_codes, i));
  for (int64_t b = 0; b < NF4_BLOCKS; b++) assert_int_equal(kept[at.largest + (size_t)b], byte_of(nf4_largest, b));
  assert_true(float_at(kept, at.scales) == nf4_scale && float_at(kept, at.offset) == nf4_offset);
  dequantised(device, TRI_BF16, 0, NF4_COUNT, NF4_COUNT, kept, again);
  for (int64_t i = 0; i < NF4_COUNT; i++)
    assert_int_equal(again[i], byte_of(nf4_values, 2 * i) << 8 | byte_of(nf4_values, 2 * i + 1));
  free(kept);
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* Quantises all numbers, the middles between two of them, and the neighbours of the middles, and compares with the
 * definition. */
static void check_middles(tri_device *device) {
  enum { TRIED = 3 * (TRI_NF4_CODES - 1) };
  float values[TRI_NF4_BLOCK] = {1};
  for (int32_t c = 0; c < TRI_NF4_CODES - 1; c++) {
    const float middle = tri_nf4_middle(c);
    values[1 + 3 * c] = nextafterf(middle, -1);
    values[2 + 3 * c] = middle;
    values[3 + 3 * c] = nextafterf(middle, 1);
  }
  for (int32_t c = 0; c < TRI_NF4_CODES; c++) values[1 + TRIED + c] = tri_nf4_number(c);
  uint8_t *kept = quantised(device, TRI_NF4_BLOCK, values);
  for (int i = 0; i < TRI_NF4_BLOCK; i++) {
    const int code = i % 2 == 0 ? kept[i / 2] >> 4 : kept[i / 2] & 15;
    int wanted = TRI_NF4_ZERO;
    if (i == 0) wanted = TRI_NF4_CODES - 1;
    if (i > 0 && i <= TRIED) wanted = (i - 1) / 3 + ((i - 1) % 3 == 2 ? 1 : 0);
    if (i > TRIED && i <= TRIED + TRI_NF4_CODES) wanted = i - TRIED - 1;
    if (code != wanted) fail_msg("%.9g becomes %d and not %d", (double)values[i], code, wanted);
  }
  free(kept);
}

enum { EDGES = 256 * TRI_NF4_BLOCK + 77 }; /* one scale of scales, and a part of a second */

/* Quantises and dequantises values[0 .. EDGES - 1]. */
static void round_trip(tri_device *device, const float *values, float *again) {
  void *kept = quantised(device, EDGES, values);
  dequantised(device, TRI_FP32, 0, EDGES, EDGES, kept, again);
  free(kept);
}

/* Zeros remain zeros, alone and in a block with other values; values of one magnitude do not change. */
static void check_zeros(tri_device *device, float *values, float *again) {
  for (int64_t i = 0; i < EDGES; i++) values[i] = 0;
  round_trip(device, values, again);
  for (int64_t i = 0; i < EDGES; i++) assert_true(again[i] == 0);
  for (int64_t i = 640; i < EDGES; i++) values[i] = i % 3 == 0 ? 0.25F : -0.25F;
  for (int64_t i = 16384; i < EDGES; i++) values[i] = 0;
  round_trip(device, values, again);
  for (int64_t i = 0; i < EDGES; i++) assert_true(values[i] != 0 || again[i] == 0);
  for (int64_t i = 0; i < EDGES; i++) values[i] = i % 3 == 0 ? 0.1F : -0.1F;
  round_trip(device, values, again);
  assert_memory_equal(values, again, EDGES * sizeof *values);
}

/* A value far larger than all others has a small error; the errors of the others are a fraction of the mean and of the
 * scale. */
static void check_huge(tri_device *device, float *values, float *again) {
  for (int64_t i = 0; i < EDGES; i++) values[i] = given(i);
  values[100] = -1e30F;
  round_trip(device, values, again);
  assert_true(fabs((double)again[100] / -1e30 - 1) < 0.01);
  for (int64_t i = 0; i < EDGES; i++) assert_true(i == 100 || fabsf(again[i]) < 0.01e30F);
  for (int64_t i = 16384; i < EDGES; i++) assert_true(fabsf(again[i]) < 1e28F);
}

/* A value that is not finite makes the mean NaN or infinite, and so all values NaN. */
static void check_not_finite(tri_device *device, float *values, float *again) {
  static const float wrong[] = {NAN, INFINITY, -INFINITY};
  for (int w = 0; w < 3; w++) {
    for (int64_t i = 0; i < EDGES; i++) values[i] = given(i);
    values[EDGES - 1] = wrong[w];
    round_trip(device, values, again);
    for (int64_t i = 0; i < EDGES; i++) assert_true(isnan(again[i]));
  }
}

/* ---- stretches --------------------------------------------------------------------------------------------------- */

/* Dequantises ranges of every length up to three blocks, and longer ones than a thread processes alone. They equal the
 * same range of the whole array, and no byte after them is written. */
static void check_ranges(tri_device *device, tri_dtype type, const float *values) {
  const size_t size = tri_dtype_bytes(type);
  char *whole = calloc(EDGES, size), *part = calloc(EDGES + 1, size);
  assert_true(whole != NULL && part != NULL);
  void *kept = quantised(device, EDGES, values);
  dequantised(device, type, 0, EDGES, EDGES, kept, whole);
  for (int64_t count = 0; count < EDGES; count += count < 3 * TRI_NF4_BLOCK ? 1 : 4099) {
    const int64_t last = (EDGES - count) / TRI_NF4_BLOCK * TRI_NF4_BLOCK, first = count % 2 == 0 ? last : last / 2;
    const int64_t begin = first / TRI_NF4_BLOCK * TRI_NF4_BLOCK;
    memset(part, 0x5a, (EDGES + 1) * size);
    dequantised(device, type, begin, count, EDGES, kept, part);
    assert_memory_equal(part, whole + (size_t)begin * size, (size_t)count * size);
    for (size_t b = 0; b < size; b++) assert_int_equal(part[(size_t)count * size + b], 0x5a);
  }
  free(kept);
  free(part);
  free(whole);
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

/* Compares each element of a cut with the same element of the whole. */
static void check_cut(tri_device *device, tri_dtype type, const tri_nf4_cut *cut, const void *kept, const char *whole) {
  const size_t size = tri_dtype_bytes(type);
  char *own = calloc(tri_nf4_layout_of_cut(cut).bytes, 1);
  char *part = calloc((size_t)(cut->rows * cut->width), size);
  assert_true(own != NULL && part != NULL);
  CHECK_OK(KERNEL(cut_nf4, cut, kept, own));
  CHECK_OK(KERNEL(dequantise_nf4, type, cut, 0, cut->rows * cut->width, own, part));
  for (int64_t r = 0; r < cut->rows; r++) {
    assert_memory_equal(part + (size_t)(r * cut->width) * size, whole + (size_t)tri_nf4_row_begin(*cut, r) * size,
                        (size_t)cut->width * size);
  }
  free(part);
  free(own);
}

/* Checks the parts of a matrix that 1 to 4 ranks split, by rows and by columns, in one or three segments; and the parts
 * of a tensor that has three of every four rows of the array. */
static void check_split(tri_device *device, tri_dtype type, int64_t rows, int64_t columns, const void *kept,
                        const char *whole) {
  for (int dim = 0; dim < 2; dim++) {
    for (int64_t ranks = 1; ranks <= 4; ranks++) {
      for (int64_t rank = 0; rank < ranks; rank++) {
        tri_parameter p = {
            .num_dims = 2, .shape = {rows, columns}, .split = tri_split_elements(dim, dim ? columns : rows)};
        p = tri_parameter_of_rank(&p, ranks, rank);
        tri_nf4_cut cut = tri_parameter_cut(&p);
        assert_int_equal(cut.rows * cut.width, p.count);
        check_cut(device, type, &cut, kept, whole);
        p.split.segments = 3;
        p.split.units /= 3;
        p = tri_parameter_of_rank(&p, ranks, rank);
        cut = tri_parameter_cut(&p);
        check_cut(device, type, &cut, kept, whole);
        if (dim == 1) continue;
        p.shape[0] = rows / 4 * 3;
        p.split = tri_split_elements(0, p.shape[0]);
        p.within = (tri_rows_within){.rows = rows, .first = rank % 2, .block = 3, .stride = 4, .part = "q"};
        p = tri_parameter_of_rank(&p, ranks, rank);
        cut = tri_parameter_cut(&p);
        for (int64_t i = 0; i < cut.rows; i++) assert_int_equal(tri_nf4_row_begin(cut, i), tri_parameter_run(&p, i));
        check_cut(device, type, &cut, kept, whole);
      }
    }
  }
}

static void check_cuts(tri_device *device, tri_dtype type) {
  static const int64_t shapes[][2] = {{12, 12}, {24, 96}, {96, 129}, {132, 192}, {768, 384}};
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    const int64_t rows = shapes[s][0], columns = shapes[s][1], count = rows * columns;
    float *values = calloc((size_t)count, sizeof *values);
    char *whole = calloc((size_t)count, tri_dtype_bytes(type));
    assert_true(values != NULL && whole != NULL);
    for (int64_t i = 0; i < count; i++) values[i] = given(i);
    void *kept = quantised(device, count, values);
    dequantised(device, type, 0, count, count, kept, whole);
    check_split(device, type, rows, columns, kept, whole);
    free(kept);
    free(whole);
    free(values);
  }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static void check_device(tri_device *device) {
  float *values = calloc(EDGES, sizeof *values), *again = calloc(EDGES, sizeof *again);
  assert_true(values != NULL && again != NULL);
  check_stored(device);
  check_middles(device);
  check_zeros(device, values, again);
  check_huge(device, values, again);
  check_not_finite(device, values, again);
  for (int64_t i = 0; i < EDGES; i++) values[i] = given(i);
  check_ranges(device, TRI_FP32, values);
  check_ranges(device, TRI_BF16, values);
  check_cuts(device, TRI_FP32);
  check_cuts(device, TRI_BF16);
  free(again);
  free(values);
}

static void check_threads(tri_device *device) {
  enum { COUNT = 20 * TRI_NF4_BLOCK * TRI_NF4_GROUP + 33 };
  const size_t bytes = tri_nf4_bytes(COUNT);
  float *values = calloc(COUNT, sizeof *values);
  uint16_t *first = calloc(COUNT, sizeof *first), *other = calloc(COUNT, sizeof *other);
  assert_true(values != NULL && first != NULL && other != NULL);
  for (int64_t i = 0; i < COUNT; i++) values[i] = given(i);
  device->description.threads = 1;
  void *kept = quantised(device, COUNT, values);
  dequantised(device, TRI_BF16, 0, COUNT, COUNT, kept, first);
  for (int threads = 2; threads < 6; threads++) {
    device->description.threads = threads;
    void *again = quantised(device, COUNT, values);
    assert_memory_equal(kept, again, bytes);
    dequantised(device, TRI_BF16, 0, COUNT, COUNT, again, other);
    assert_memory_equal(first, other, COUNT * sizeof *first);
    free(again);
  }
  free(kept);
  free(other);
  free(first);
  free(values);
}

static void test_reference(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("reference", 1, &device));
  check_device(device);
  tri_device_destroy(device);
}

static void test_unit(const char *name) {
  tri_device *device = NULL;
  if (tri_device_create(name, 1, &device) != TRI_OK) {
    print_message("SKIPPED: %s\n", tri_status_message());
    skip();
  }
  check_device(device);
  check_threads(device);
  tri_device_destroy(device);
}

VECTOR_UNIT_TESTS(test_unit)

/* 4 bits for each element, 8 for each block of 64, and an fp32 number for each 16384: 4.127 bits for each element. */
static void test_bytes(void **state) {
  (void)state;
  assert_int_equal(tri_nf4_bytes(1 << 24), (1 << 23) + (1 << 18) + 4 * 1024 + 4);
  assert_int_equal(tri_nf4_bytes(1), 64 + 64 + 4 + 4);
  assert_true(tri_nf4_bytes(INT64_MAX) > (size_t)1 << 61);
}

/* No rank stores more than the first, which plans use; and a share of whole blocks takes the bytes of its elements. */
static void test_bytes_of_cuts(void **state) {
  static const int64_t units[] = {1, 2, 5, 16, 32, 48, 64, 80, 128}, others[] = {1, 7, 64, 96, 200};
  (void)state;
  for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
    for (int64_t i = 0; i < 5 * 2 * 2 * 12; i++) {
      const int dim = (int)(i % 2);
      const int64_t segments = i / 2 % 2 == 0 ? 1 : 3, count = i / 4 % 12 + 4, length = units[u] * count * segments;
      const int64_t other = others[i / 48];
      tri_parameter p = {.num_dims = 2,
                         .shape = {dim == 0 ? length : other, dim == 0 ? other : length},
                         .split = tri_split_heads(dim, segments, count)};
      for (int64_t ranks = 1; ranks <= 8; ranks++) {
        const tri_parameter first = tri_parameter_of_rank(&p, ranks, 0);
        const int64_t most = tri_parameter_matrix_bytes(&first);
        for (int64_t rank = 1; rank < ranks; rank++) {
          const tri_parameter part = tri_parameter_of_rank(&p, ranks, rank);
          assert_in_range(tri_parameter_matrix_bytes(&part), 0, most);
        }
      }
    }
  }
  tri_parameter p = {.num_dims = 2, .shape = {256, 1024}, .split = tri_split_elements(1, 1024)};
  p = tri_parameter_of_rank(&p, 4, 3);
  assert_int_equal(tri_parameter_matrix_bytes(&p), 256 * 4 * 33 + 16 * 4 + 64);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_bytes_of_cuts),
                                     cmocka_unit_test(test_reference), VECTOR_UNIT_ENTRIES};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
