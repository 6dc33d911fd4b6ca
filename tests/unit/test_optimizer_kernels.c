/* Kernels of optimizers on the CPU, with every vector unit: they have the same bits on any number of threads.
 * kernel_check compares their results with the reference device (tests/gpu/cases_optimizer.c). States of 8 bits are
 * compared with bitsandbytes. */
#include "base/dynamic_map.h"
#include "base/random.h"
#include "bitsandbytes_codes.h"
#include "device/exact_sum.h"
#include "typed_array.h"
#include "vector_units.h"

#define KERNEL(name, ...) device->kernels->name(device->queue, __VA_ARGS__)

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* More elements than one thread processes alone, and not a multiple of a vector or block. */
enum { ROWS = 201, COLUMNS = 487, COUNT = ROWS * COLUMNS, ARRAYS = 4 };

static const tri_step_values values = {.lr = 0.1, .gradient_scale = 0.5, .average = 0.25, .update = 7};

/* Parameter, gradient and two states; `narrow`: arrays of the type of activations. */
typedef struct arrays {
  typed_array wide[ARRAYS], narrow[2], scales;
  uint8_t *codes;
} arrays;

static void fill(const typed_array *x, uint64_t stream) {
  const tri_random_key key = tri_random_stream(5, TRI_RANDOM_TEST, stream);
  for (int64_t i = 0; i < x->count; i++) typed_put(x, i, fabs(tri_random_normal(key, (uint64_t)i)) - (i % 3 == 0));
}

static arrays make(tri_dtype type) {
  arrays x;
  for (int i = 0; i < ARRAYS; i++) x.wide[i] = typed_make(tri_dtype_wide(type), COUNT);
  for (int i = 0; i < 2; i++) x.narrow[i] = typed_make(type, (int64_t)COLUMNS * COLUMNS);
  x.codes = calloc(COUNT, 1);
  x.scales = typed_make(TRI_FP32, COUNT);
  assert_non_null(x.codes);
  return x;
}

static void begin(const arrays *x) {
  for (int i = 0; i < ARRAYS; i++) fill(&x->wide[i], (uint64_t)i);
  for (int i = 0; i < 2; i++) fill(&x->narrow[i], 9 + (uint64_t)i);
  for (int64_t i = 0; i < COUNT; i++) {
    if (typed_get(&x->wide[3], i) < 0) typed_put(&x->wide[3], i, 0); /* a second moment */
  }
}

static void destroy(arrays *x) {
  for (int i = 0; i < ARRAYS; i++) free(x->wide[i].data);
  for (int i = 0; i < 2; i++) free(x->narrow[i].data);
  free(x->codes);
  free(x->scales.data);
}

typedef tri_status call(tri_device *device, tri_dtype type, const arrays *x);

#define WIDE(i) x->wide[i].data
#define COPY x->narrow[1].data

static tri_status lion(tri_device *device, tri_dtype type, const arrays *x) {
  return KERNEL(lion, type, COUNT, &(tri_lion){0.9, 0.99, 0.1, 1}, &values, WIDE(0), WIDE(1), WIDE(2), COPY);
}
static tri_status sgd(tri_device *device, tri_dtype type, const arrays *x) {
  return KERNEL(sgd, type, COUNT, &(tri_sgd){0.9, 0.1, 1, true}, &values, WIDE(0), WIDE(1), WIDE(2), COPY);
}
static tri_status schedule_free(tri_device *device, tri_dtype type, const arrays *x) {
  const tri_adamw options = {0.9, 0.95, 1e-8, 0.1, 1};
  return KERNEL(schedule_free, type, COUNT, &options, &values, WIDE(0), WIDE(1), WIDE(2), WIDE(3), COPY);
}
static tri_status lerp(tri_device *device, tri_dtype type, const arrays *x) {
  return KERNEL(lerp, type, COUNT, 0.3, WIDE(0), WIDE(1), WIDE(1));
}
static tri_status momentum(tri_device *device, tri_dtype type, const arrays *x) {
  return KERNEL(momentum, type, COUNT, &(tri_momentum){0.95, true}, &values, WIDE(1), WIDE(2), WIDE(1));
}
static tri_status normalise(tri_device *device, tri_dtype type, const arrays *x) {
  const tri_matrix_copy turned = {ROWS, COLUMNS, COLUMNS, 1, ROWS}, straight = {ROWS, COLUMNS, COLUMNS, COLUMNS, 1};
  tri_exact_sum squares = {0};
  tri_exact_sum_add(&squares, 17);
  TRI_TRY(KERNEL(matrix_normalise, type, &turned, WIDE(0), &squares, 1e-7, x->narrow[0].data));
  return KERNEL(matrix_normalise, type, &straight, WIDE(0), &squares, 1e-7, x->narrow[1].data);
}
static tri_status polynomial(tri_device *device, tri_dtype type, const arrays *x) {
  const tri_matrix_polynomial options = {COLUMNS, {3.4445, -4.7750, 2.0315}};
  return KERNEL(matrix_polynomial, type, &options, x->narrow[0].data, x->narrow[1].data, x->narrow[1].data);
}
static tri_status step(tri_device *device, tri_dtype type, const arrays *x) {
  const tri_matrix_step turned = {ROWS, COLUMNS, COLUMNS, 1, ROWS, 0.1, 1, 2};
  return KERNEL(matrix_step, type, &turned, &values, x->narrow[0].data, WIDE(0), COPY);
}
static tri_status quantise(tri_device *device, tri_dtype type, const arrays *x) {
  TRI_TRY(KERNEL(quantise_blocks, type, COUNT, true, WIDE(0), x->codes, x->scales.data));
  return KERNEL(dequantise_blocks, type, COUNT, true, x->codes, x->scales.data, WIDE(1));
}

static const struct {
  const char *name;
  call *run;
} calls[] = {{"lion", lion},
             {"sgd", sgd},
             {"schedule_free", schedule_free},
             {"lerp", lerp},
             {"momentum", momentum},
             {"matrix_normalise", normalise},
             {"matrix_polynomial", polynomial},
             {"matrix_step", step},
             {"quantise_blocks", quantise}};

static bool same(const typed_array *a, const typed_array *b) {
  return memcmp(a->data, b->data, (size_t)a->count * tri_dtype_bytes(a->type)) == 0;
}

static void check_threads(tri_device *device, tri_dtype type, size_t number) {
  arrays first = make(type), other = make(type);
  device->description.threads = 1;
  begin(&first);
  CHECK_OK(calls[number].run(device, type, &first));
  for (int threads = 2; threads < 6; threads += 3) {
    bool equal = true;
    device->description.threads = threads;
    begin(&other);
    CHECK_OK(calls[number].run(device, type, &other));
    for (int i = 0; i < ARRAYS; i++) equal &= same(&first.wide[i], &other.wide[i]);
    for (int i = 0; i < 2; i++) equal &= same(&first.narrow[i], &other.narrow[i]);
    equal &= memcmp(first.codes, other.codes, COUNT) == 0;
    equal &= same(&first.scales, &other.scales);
    if (!equal) fail_msg("%s on %s has other bits on %d threads", calls[number].name, device->info.name, threads);
  }
  destroy(&first);
  destroy(&other);
}

/* ---- beside bitsandbytes ----------------------------------------------------------------------------------------- */

/* Returns test value i, of six magnitudes. */
static float given(int64_t i, bool with_sign) {
  static const double sizes[] = {1.0, 0.1, 0.01, 0.001, 0.0001, 0.00001};
  const uint32_t word = (uint32_t)((uint64_t)(i + 1) * 2654435761u);
  const float value = (float)((word / 0x1p31 - 1) * sizes[i % 6]);
  return with_sign ? value : fabsf(value);
}

static int digit(char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; }

static void check_codes(tri_device *device, bool with_sign) {
  const char *text = with_sign ? bitsandbytes_signed : bitsandbytes_unsigned;
  const float *wanted = with_sign ? bitsandbytes_signed_scales : bitsandbytes_unsigned_scales;
  uint8_t codes[BITSANDBYTES_COUNT];
  float in[BITSANDBYTES_COUNT], scales[BITSANDBYTES_BLOCKS];
  for (int64_t i = 0; i < BITSANDBYTES_COUNT; i++) in[i] = given(i, with_sign);
  CHECK_OK(KERNEL(quantise_blocks, TRI_FP32, BITSANDBYTES_COUNT, with_sign, in, codes, scales));
  for (int i = 0; i < BITSANDBYTES_COUNT; i++)
    assert_int_equal(codes[i], digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
  assert_memory_equal(scales, wanted, sizeof scales);
}

/* Numbers around the middles between two codes, compared with the definition: the nearest code, and the even one of
 * two. */
static void check_middles(tri_device *device, bool with_sign) {
  enum { EACH = 5, TRIED = EACH * (TRI_DYNAMIC_CODES - 1) };
  float in[TRI_QUANTISED_BLOCK], scale;
  uint8_t codes[TRI_QUANTISED_BLOCK];
  for (int first = 0; first < TRIED; first += TRI_QUANTISED_BLOCK - 1) {
    const int some = TRIED - first < TRI_QUANTISED_BLOCK - 1 ? TRIED - first : TRI_QUANTISED_BLOCK - 1;
    in[0] = 1;
    for (int i = 0; i < some; i++) {
      const int code = (first + i) / EACH, place = (first + i) % EACH;
      const float low = tri_dynamic_number(with_sign, code), high = tri_dynamic_number(with_sign, code + 1);
      const float middle = tri_dynamic_middle(with_sign, code);
      const float all[EACH] = {low, nextafterf(middle, -1), middle, nextafterf(middle, 1), high};
      in[1 + i] = all[place];
    }
    CHECK_OK(KERNEL(quantise_blocks, TRI_FP32, some + 1, with_sign, in, codes, &scale));
    for (int i = 0; i < some; i++) {
      const int code = (first + i) / EACH, place = (first + i) % EACH;
      const int wanted[EACH] = {code, code, code + code % 2, code + 1, code + 1};
      if (codes[1 + i] != wanted[place])
        fail_msg("%.9g becomes %d and not %d", (double)in[1 + i], codes[1 + i], wanted[place]);
    }
  }
}

/* Values that were dequantised are quantised to the same codes, for any scale, if the largest one is positive: no code
 * is -1. */
static void check_again(tri_device *device, bool with_sign) {
  enum { SCALES = 250 };
  static uint8_t codes[SCALES * TRI_QUANTISED_BLOCK], again[SCALES * TRI_QUANTISED_BLOCK];
  static float scales[SCALES], scales_again[SCALES], numbers[SCALES * TRI_QUANTISED_BLOCK];
  const tri_random_key key = tri_random_stream(6, TRI_RANDOM_TEST, 1);
  for (int s = 0; s < SCALES; s++) {
    scales[s] = ldexpf(1 + (float)(tri_random_u32(key, (uint64_t)s) >> 9) * 0x1p-23f, s - 126);
    for (int i = 0; i < TRI_QUANTISED_BLOCK; i++) codes[s * TRI_QUANTISED_BLOCK + i] = (uint8_t)i;
  }
  const int64_t count = SCALES * TRI_QUANTISED_BLOCK;
  CHECK_OK(KERNEL(dequantise_blocks, TRI_FP32, count, with_sign, codes, scales, numbers));
  CHECK_OK(KERNEL(quantise_blocks, TRI_FP32, count, with_sign, numbers, again, scales_again));
  assert_memory_equal(scales, scales_again, sizeof scales);
  assert_memory_equal(codes, again, sizeof codes);
}

/* Zeroed memory is a state of zeros; values that are not finite remain so. */
static void check_odd_blocks(tri_device *device) {
  static const float largest[] = {0, 0x1p-127f, INFINITY, NAN};
  for (int l = 0; l < 4; l++) {
    float in[300] = {0}, scales[2];
    uint8_t codes[300];
    in[17] = largest[l];
    in[299] = 1;
    CHECK_OK(KERNEL(quantise_blocks, TRI_FP32, 300, true, in, codes, scales));
    for (int i = 0; i < 256; i++) assert_int_equal(codes[i], 0);
    for (int i = 256; i < 299; i++) assert_int_equal(codes[i], 127);
    assert_int_equal(codes[299], 255);
    assert_true(l < 2 ? scales[0] == 0 : !isfinite(scales[0]));
    CHECK_OK(KERNEL(dequantise_blocks, TRI_FP32, 300, true, codes, scales, in));
    for (int i = 0; i < 256; i++) assert_true(l < 2 ? in[i] == 0 : !isfinite(in[i]));
    assert_true(in[298] == 0 && in[299] == 1);
  }
}

static void check_quantised(tri_device *device) {
  for (int with_sign = 0; with_sign < 2; with_sign++) {
    check_codes(device, with_sign == 1);
    check_middles(device, with_sign == 1);
    check_again(device, with_sign == 1);
  }
  check_odd_blocks(device);
}

static void test_reference(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("reference", 1, &device));
  check_quantised(device);
  tri_device_destroy(device);
}

static void test_unit(const char *name) {
  tri_device *device = NULL;
  if (tri_device_create(name, 1, &device) != TRI_OK) {
    print_message("SKIPPED: %s\n", tri_status_message());
    skip();
  }
  for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
    check_threads(device, TRI_FP32, c);
    check_threads(device, TRI_BF16, c);
  }
  check_quantised(device);
  tri_device_destroy(device);
}

VECTOR_UNIT_TESTS(test_unit)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), VECTOR_UNIT_ENTRIES};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
