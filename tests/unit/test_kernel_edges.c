/* The CPU kernels at the limits of the number formats and of their arguments, on every vector unit of this CPU,
 * compared with libm in double, with results computed by hand, or with the definition of the format. */
#include "base/random.h"
#include "check.h"
#include "device/exact_sum.h"
#include "device/kernels.h"

#include <float.h>
#include <math.h>

#define KERNEL(name, ...) device->kernels->name(device->queue, __VA_ARGS__)

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static const tri_norm *row_of(int64_t width, double eps) {
  static tri_norm norm;
  norm = tri_norm_of_rows(TRI_FP32, tri_all_rows(1), width, eps);
  return &norm;
}

/* Calls a test with a device for each vector unit. */
static void on_every_unit(void (*test)(tri_device *device)) {
  static const char *const names[] = {"cpu:baseline", "cpu:avx2", "cpu:avx512", "cpu:avx512bf16", "reference"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    tri_device *device = NULL;
    if (tri_device_create(names[i], 2, &device) != TRI_OK) {
      print_message("SKIPPED: %s\n", tri_status_message());
      continue;
    }
    test(device);
    tri_device_destroy(device);
  }
}

/* ---- bf16 -------------------------------------------------------------------------------------------------------- */

enum { HALVES = 65536, NUM_LOW = 7 };

static const uint32_t low[NUM_LOW] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};

/* Returns the nearest of the two bf16 numbers around a finite fp32 number, by comparing distances; halfway between
 * them, the even one. */
static uint16_t nearest_bf16(uint32_t bits) {
  uint16_t down = (uint16_t)(bits >> 16), up = (uint16_t)(down + 1);
  double value = (double)float_of(bits), below = (double)float_of((uint32_t)down << 16);
  /* Above the largest number the next one would be 2^128, for which infinity is used. */
  double above = (up & 0x7fff) == 0x7f80 ? copysign(0x1p128, below) : (double)float_of((uint32_t)up << 16);
  double to_below = fabs(value - below), to_above = fabs(above - value);
  if (to_below != to_above) return to_below < to_above ? down : up;
  return down % 2 == 0 ? down : up;
}

static void check_bf16(tri_device *device) {
  static float wide[HALVES * NUM_LOW], back[HALVES];
  static uint16_t narrow[HALVES * NUM_LOW], all[HALVES];
  bool flushes = strstr(device->info.name, "avx512bf16") != NULL; /* subnormal numbers to 0 */
  for (uint32_t i = 0; i < HALVES * NUM_LOW; i++) wide[i] = float_of((i / NUM_LOW) << 16 | low[i % NUM_LOW]);
  CHECK_OK(KERNEL(convert, HALVES * NUM_LOW, TRI_FP32, wide, TRI_BF16, narrow));
  for (uint32_t i = 0; i < HALVES * NUM_LOW; i++) {
    uint32_t bits = bits_of(wide[i]);
    if (isnan(wide[i])) {
      if ((narrow[i] & 0x7f80) != 0x7f80 || (narrow[i] & 0x7f) == 0) {
        fail_msg("%s: NaN %08x became %04x", device->info.name, bits, narrow[i]);
      }
      continue;
    }
    uint16_t expected = isinf(wide[i]) ? (uint16_t)(bits >> 16) : nearest_bf16(bits);
    if (flushes && fabsf(wide[i]) < FLT_MIN && narrow[i] == (expected & 0x8000)) continue;
    if (narrow[i] != expected) fail_msg("%s: %08x became %04x, not %04x", device->info.name, bits, narrow[i], expected);
  }
  for (uint32_t i = 0; i < HALVES; i++) all[i] = (uint16_t)i;
  CHECK_OK(KERNEL(convert, HALVES, TRI_BF16, all, TRI_FP32, back));
  for (uint32_t i = 0; i < HALVES; i++) {
    bool same = bits_of(back[i]) == i << 16;
    /* The reference converts through double, which makes NaNs quiet. */
    if (!same && !(isnan(back[i]) && isnan(float_of(i << 16)))) {
      fail_msg("%s: bf16 %04x became %08x", device->info.name, i, bits_of(back[i]));
    }
  }
}

static void test_bf16(void **state) {
  (void)state;
  on_every_unit(check_bf16);
}

/* The reference computes in double: rounding to fp32 first, and then to bf16, would round twice. */
static void test_bf16_from_double(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("reference", 1, &device));
  const double values[] = {1 + 0x1p-8 + 0x1p-40,      1 + 0x1p-8, 1 + 0x1p-8 - 0x1p-40,
                           -1 - 3 * 0x1p-8 + 0x1p-50, 1e300,      -1e-300};
  const uint16_t expected[] = {0x3f81, 0x3f80, 0x3f80, 0xbf81, 0x7f80, 0x8000};
  uint16_t out[6];
  CHECK_OK(KERNEL(convert, 6, TRI_FP64, values, TRI_BF16, out));
  for (int i = 0; i < 6; i++) assert_int_equal(out[i], expected[i]);
  tri_device_destroy(device);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

enum { GRID = 200003 };

static float grid_x[GRID], grid_y[GRID], grid_one[GRID];

static void make_grid(float from, float to) {
  for (int i = 0; i < GRID; i++) {
    grid_x[i] = from + (to - from) * (float)i / (float)(GRID - 1);
    grid_one[i] = 1.0f;
  }
}

/* If a row's maximum is 0 and its sum is 1, its gradient is exp of the logits, except at the label. */
static void check_exp(tri_device *device) {
  int32_t label = GRID;
  float zero = 0, one = 1;
  const tri_step_values plain = {.loss_scale = 1.0};
  const float whole = 1;
  make_grid(-120.0f, 88.0f);
  CHECK_OK(KERNEL(softmax_gradient, TRI_FP32, 1, GRID, GRID, (tri_logit_form){1, 0}, grid_x, &label, &whole, NULL, 0,
                  &plain, &zero, &one, GRID, grid_y));
  for (int i = 0; i < GRID; i++) {
    double expected = exp((double)grid_x[i]), error = fabs((double)grid_y[i] - expected);
    double room = expected < 1.22e-38 ? 1.22e-38 : 2.5e-7 * expected;
    if (!(error <= room))
      fail_msg("%s: exp(%.9g) is %.9g, not %.9g", device->info.name, grid_x[i], grid_y[i], expected);
  }
}

static void test_exp(void **state) {
  (void)state;
  on_every_unit(check_exp);
}

typedef double plain_function(double x);

static double gelu_tanh(double x) { return x / (1.0 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); }
static double gelu_erf(double x) { return 0.5 * x * erfc(-x / sqrt(2.0)); }
static double relu(double x) { return fmax(x, 0); }
static double silu(double x) { return x / (1.0 + exp(-x)); }
static double quick_gelu(double x) { return x / (1.0 + exp(-1.702 * x)); }
static double relu2(double x) { return fmax(x, 0) * fmax(x, 0); }
/* Returns tanh(log(1 + e)), without cancellation. */
static double mish(double x) {
  const double e = exp(x);
  return x * e * (e + 2) / (e * (e + 2) + 2);
}

/* Compares relative to the result itself, on both sides of zero, because results far on the left are small. */
static void check_grid(const tri_device *device, const char *name, plain_function *function, double tolerance) {
  /* The reference's formula cancels on the left: there it is accurate only to the last bit of 1. */
  double floor = strcmp(device->info.name, "reference") == 0 ? 1e-14 : 1e-36;
  for (int i = 0; i < GRID; i++) {
    double expected = function((double)grid_x[i]);
    if (!(fabs((double)grid_y[i] - expected) <= tolerance * fabs(expected) + floor)) {
      fail_msg("%s: %s(%.9g) is %.9g, not %.9g", device->info.name, name, grid_x[i], grid_y[i], expected);
    }
  }
}

static void check_activations(tri_device *device) {
  static float gate_and_up[2 * GRID];
  make_grid(-9.0f, 9.0f);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_GELU_TANH, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "gelu tanh", gelu_tanh, 3e-5);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_GELU_ERF, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "gelu erf", gelu_erf, 3e-5);
  for (int i = 0; i < GRID; i++) {
    gate_and_up[2 * i] = grid_x[i];
    gate_and_up[2 * i + 1] = 1.0f;
  }
  CHECK_OK(KERNEL(gated_forward, TRI_FP32, TRI_ACTIVATION_SILU, tri_all_rows(GRID), 1, gate_and_up, grid_y));
  check_grid(device, "silu", silu, 1e-6);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_QUICK_GELU, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "quick gelu", quick_gelu, 2e-6);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_RELU2, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "relu2", relu2, 1e-7);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_MISH, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "mish", mish, 1e-6);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_TANH, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "tanh", tanh, 1e-6);
  make_grid(-2.0f, 2.0f);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_GELU_TANH, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "gelu tanh near 0", gelu_tanh, 1e-6);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_GELU_ERF, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "gelu erf near 0", gelu_erf, 1e-6);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_SILU, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "silu near 0", silu, 1e-6);
  CHECK_OK(KERNEL(activation_forward, TRI_FP32, TRI_ACTIVATION_RELU, tri_all_rows(1), GRID, grid_x, grid_y));
  check_grid(device, "relu", relu, 0);
}

static double plain_activation(tri_activation kind, double x) {
  switch (kind) {
    case TRI_ACTIVATION_GELU_TANH: return gelu_tanh(x);
    case TRI_ACTIVATION_GELU_ERF: return gelu_erf(x);
    case TRI_ACTIVATION_SILU: return silu(x);
    case TRI_ACTIVATION_RELU: return relu(x);
    case TRI_ACTIVATION_QUICK_GELU: return quick_gelu(x);
    case TRI_ACTIVATION_RELU2: return relu2(x);
    case TRI_ACTIVATION_MISH: return mish(x);
    case TRI_ACTIVATION_TANH: return tanh(x);
  }
  return NAN;
}

/* Compares all slopes from -9 to 9 with differences, except at 0, where a function may have a kink. */
static void check_slopes(tri_device *device) {
#define KIND(VALUE, ...) TRI_ACTIVATION_##VALUE,
  static const tri_activation kinds[] = {TRI_ACTIVATIONS(KIND)};
  const double h = 1e-5;
  make_grid(-9.0f, 9.0f);
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    CHECK_OK(KERNEL(activation_backward, TRI_FP32, kinds[k], tri_all_rows(1), GRID, grid_x, grid_one, grid_y));
    for (int i = 0; i < GRID; i += 7) {
      const double x = (double)grid_x[i];
      const double expected = (plain_activation(kinds[k], x + h) - plain_activation(kinds[k], x - h)) / (2 * h);
      if (fabs(x) > h && !(fabs((double)grid_y[i] - expected) <= 3e-6 * (1 + fabs(expected)))) {
        fail_msg("%s: the slope of activation %zu at %.9g is %.9g, not %.9g", device->info.name, k, x, grid_y[i],
                 expected);
      }
    }
  }
}

static void test_slopes(void **state) {
  (void)state;
  on_every_unit(check_slopes);
}

static void test_activations(void **state) {
  (void)state;
  on_every_unit(check_activations);
}

/* A NaN of any payload and sign must give a NaN, since bad steps are detected by NaN. */
static void check_nan(tri_device *device) {
  enum { COUNT = 19 };
  static const uint32_t nans[] = {0x7fc00000u, 0xffc00000u, 0x7fc00001u, 0x7fffffffu, 0xffc12345u, 0x7fc000ffu};
  for (size_t n = 0; n < sizeof nans / sizeof nans[0]; n++) {
    for (int at = 0; at < COUNT; at++) {
      float x[COUNT] = {0}, one[COUNT], y[COUNT], mean = 0, rstd = 0, most = 0, sum = 0, at_label = 0;
      int32_t label = 0;
      for (int i = 0; i < COUNT; i++) one[i] = 1.0f;
      x[at] = float_of(nans[n]);
      static const tri_activation kinds[] = {TRI_ACTIVATIONS(KIND)};
      for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        CHECK_OK(KERNEL(activation_forward, TRI_FP32, kinds[k], tri_all_rows(1), COUNT, x, y));
        assert_true(isnan(y[at]));
        if (kinds[k] == TRI_ACTIVATION_RELU) continue; /* its slope at NaN is 1, as in PyTorch */
        CHECK_OK(KERNEL(activation_backward, TRI_FP32, kinds[k], tri_all_rows(1), COUNT, x, one, y));
        assert_true(isnan(y[at]));
      }
      CHECK_OK(KERNEL(layer_norm_forward, row_of(COUNT, 1e-5), x, NULL, NULL, one, NULL, y, &mean, &rstd));
      assert_true(isnan(y[at]) && isnan(y[(at + 1) % COUNT]) && isnan(mean));
      CHECK_OK(KERNEL(softmax_statistics, TRI_FP32, 1, COUNT, COUNT, x, &label, 0, &most, &sum, &at_label));
      assert_true(isnan(sum));
      tri_exact_sum squares = {{0}, 0, 0};
      CHECK_OK(KERNEL(block_squares, TRI_FP32, COUNT, COUNT, x, &squares));
      assert_true(isnan(tri_exact_sum_value(&squares)));
    }
  }
}

static void test_nan(void **state) {
  (void)state;
  on_every_unit(check_nan);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Squares that overflow fp32, and cancellation, which would show the order of summation. */
static void check_sums(tri_device *device) {
  static float values[123457];
  enum { COUNT = sizeof values / sizeof values[0] };
  double sum = 0;
  tri_exact_sum all = {{0}, 0, 0};
  for (int i = 0; i < COUNT; i++) values[i] = i % 2 == 0 ? 1e20f : -1e20f;
  CHECK_OK(KERNEL(block_squares, TRI_FP32, COUNT, COUNT, values, &all));
  double squares = tri_exact_sum_value(&all);
  double expected = (double)COUNT * (double)1e20f * (double)1e20f;
  if (!(fabs(squares - expected) <= 1e-11 * expected))
    fail_msg("%s: %.17g, not %.17g", device->info.name, squares, expected);
  CHECK_OK(KERNEL(sum, TRI_FP32, COUNT, values, &sum, false));
  assert_true(sum == (double)1e20f);
  sum = 0.5e20;
  CHECK_OK(KERNEL(sum, TRI_FP32, COUNT, values, &sum, true));
  assert_true(sum == 0.5e20 + (double)1e20f);
  for (int i = 0; i < COUNT; i++) values[i] = 1e-30f;
  all = (tri_exact_sum){{0}, 0, 0};
  CHECK_OK(KERNEL(block_squares, TRI_FP32, COUNT, 1000, values, &all)); /* the last block is shorter */
  CHECK_OK(KERNEL(exact_add, &(double){0}, &all));
  squares = tri_exact_sum_value(&all);
  assert_true(squares > 1.23e-55 && squares < 1.24e-55);
}

static void test_sums(void **state) {
  (void)state;
  on_every_unit(check_sums);
}

/* ---- scale ------------------------------------------------------------------------------------------------------- */

/* Halves and changes of sign are exact, except for the smallest numbers, which are rounded to even; infinities and
 * zeros do not change. */
static void check_scale(tri_device *device) {
  const float x[] = {1, -3, 0x1.fffffep-126f, 0x1p-149f, 0x1.fffffep127f, INFINITY, -INFINITY, 0.0f, -0.0f};
  const float halves[] = {0.5f, -1.5f, 0x1p-126f, 0, 0x1.fffffep126f, INFINITY, -INFINITY, 0.0f, -0.0f};
  const float minus[] = {-1, 3, -0x1.fffffep-126f, -0x1p-149f, -0x1.fffffep127f, -INFINITY, INFINITY, -0.0f, 0.0f};
  const uint16_t narrow[] = {0x3f81, 0xc001, 0x7f7f, 0xff80, 0x8000},
                 thrice[] = {0x4042, 0xc0c2, 0x7f80, 0xff80, 0x8000};
  enum { COUNT = sizeof x / sizeof x[0], NARROW = sizeof narrow / sizeof narrow[0] };
  float y[COUNT];
  uint16_t out[NARROW];
  CHECK_OK(KERNEL(scale, TRI_FP32, COUNT, 0.5, x, y));
  assert_memory_equal(y, halves, sizeof y);
  memcpy(y, x, sizeof y);
  CHECK_OK(KERNEL(scale, TRI_FP32, COUNT, -1, y, y));
  assert_memory_equal(y, minus, sizeof y);
  CHECK_OK(KERNEL(scale, TRI_BF16, NARROW, 3, narrow, out)); /* ties go to the even one */
  assert_memory_equal(out, thrice, sizeof out);
}

static void test_scale(void **state) {
  (void)state;
  on_every_unit(check_scale);
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* Compares each element with the generator's own function, at first indices of every remainder, also beyond 2^32 and at
 * the end. */
static void check_dropout(tri_device *device) {
  enum { COUNT = 5003 };
  static float x[COUNT], y[COUNT];
  static const uint64_t first[] = {0, 1, 2, 3, 4, 517, 0xffffffffull - 40, 0x123456789abcull, UINT64_MAX - COUNT};
  tri_random_key key = tri_random_stream(77, TRI_RANDOM_DROPOUT, 5 << 16 | 3);
  /* The fourth equals the first element's random number, which is kept. */
  const double probability[] = {0.0, 0.1, 0.5, (double)tri_random_u32(key, 0) * 0x1p-32, 1.0 - 0x1p-33};
  for (int i = 0; i < COUNT; i++) x[i] = i % 7 == 0 ? INFINITY : (float)(i + 1);
  for (size_t f = 0; f < sizeof first / sizeof first[0]; f++) {
    for (int p = 0; p < 5; p++) {
      int kept = 0;
      /* If there is room, two whole sequences of 7 elements come before. */
      int64_t before = first[f] > 14 ? 2 : 0;
      tri_step_values values = {.seed = 77, .step = 5, .first_sample = before};
      tri_dropout options = {probability[p], 3, 7, (int64_t)(first[f] - 7 * (uint64_t)before), 0, 0};
      CHECK_OK(KERNEL(dropout, TRI_FP32, COUNT, &options, &values, NULL, x, y));
      for (int i = 0; i < COUNT; i++) {
        bool keeps = (double)tri_random_u32(key, first[f] + (uint64_t)i) >= probability[p] * 0x1p32;
        float expected = keeps ? (float)((double)x[i] / (1.0 - probability[p])) : 0.0f;
        kept += keeps;
        if (!keeps ? bits_of(y[i]) != 0
                   : !(y[i] == expected || fabsf(y[i] - expected) <= 1.2e-7f * fminf(expected, FLT_MAX))) {
          fail_msg("%s: element %d from %llu is %g, not %g", device->info.name, i, (unsigned long long)first[f], y[i],
                   expected);
        }
      }
      assert_true(fabs(kept - COUNT * (1.0 - probability[p])) <= 5.0 * sqrt(COUNT * 0.25));
    }
  }
}

static void test_dropout(void **state) {
  (void)state;
  on_every_unit(check_dropout);
}

/* Two ranks with rows of three sequences, the first with the outer rows: together they drop what one rank drops, to the
 * bit, for any width. */
static void check_dropout_of_shares(tri_device *device) {
  enum { SEQUENCES = 3, TOKENS = 61, OUTER = 7, WIDEST = 5003 };
  static const int64_t widths[] = {1, 3, 16, 257, WIDEST};
  static float x[SEQUENCES * TOKENS * WIDEST], whole[SEQUENCES * TOKENS * WIDEST], part[SEQUENCES * TOKENS * WIDEST];
  static int32_t rows[SEQUENCES * TOKENS];
  const tri_step_values values = {.seed = 5, .step = 9, .first_sample = 11};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i % 1000 + 1);
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
    const int64_t width = widths[w];
    const tri_dropout options = {0.4, 3, TOKENS * width, 2 * width, width, 0};
    CHECK_OK(KERNEL(dropout, TRI_FP32, SEQUENCES * TOKENS * width, &options, &values, NULL, x, whole));
    for (int rank = 0; rank < 2; rank++) {
      int64_t count = 0;
      for (int32_t r = 0; r < SEQUENCES * TOKENS; r++) {
        const bool outer = r % TOKENS < OUTER || r % TOKENS >= TOKENS - OUTER;
        if (outer == (rank == 0)) rows[count++] = r;
      }
      for (int64_t r = 0; r < count; r++) {
        memcpy(part + r * width, x + rows[r] * width, (size_t)width * sizeof(float));
      }
      CHECK_OK(KERNEL(dropout, TRI_FP32, count * width, &options, &values, rows, part, part));
      for (int64_t r = 0; r < count; r++) {
        assert_memory_equal(part + r * width, whole + rows[r] * width, (size_t)width * sizeof(float));
      }
    }
  }
}

static void test_dropout_of_shares(void **state) {
  (void)state;
  on_every_unit(check_dropout_of_shares);
}

/* ---- rows by their numbers --------------------------------------------------------------------------------------- */

/* Copies of rows with any bits are exact if the type does not change. Only counted rows are written. */
static void check_copy_rows(tri_device *device) {
  enum { ROWS = 5, WIDTH = 9003 };
  static const tri_dtype types[] = {TRI_FP32, TRI_BF16, TRI_INT32};
  static uint32_t from[ROWS * WIDTH], to[(ROWS + 1) * WIDTH];
  static const int32_t taken[ROWS] = {3, 0, 3, 4, 1}, given[ROWS] = {5, 2, 0, 1, 4};
  const tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, 2);
  for (int i = 0; i < ROWS * WIDTH; i++) from[i] = tri_random_u32(key, (uint64_t)i) | (i % 5 == 0 ? 0x7f817f81u : 0);
  for (int32_t live = 0; live <= ROWS; live++) {
    for (int t = 0; t < 3; t++) {
      const size_t row = WIDTH * tri_dtype_bytes(types[t]);
      const tri_row_copy copy = {{ROWS, &live}, WIDTH, types[t], types[t], WIDTH, WIDTH};
      memset(to, 0x5a, sizeof to);
      CHECK_OK(KERNEL(copy_rows, &copy, taken, from, given, to));
      for (int r = 0; r < live; r++) {
        assert_memory_equal((char *)to + given[r] * row, (char *)from + taken[r] * row, row);
        memset((char *)to + given[r] * row, 0x5a, row);
      }
      for (size_t i = 0; i < sizeof to / sizeof *to; i++) assert_int_equal(to[i], 0x5a5a5a5a);
    }
  }
}

static void test_copy_rows(void **state) {
  (void)state;
  on_every_unit(check_copy_rows);
}

/* ---- small results, computed by hand ----------------------------------------------------------------------------- */

/* Ids at both ends of int32 belong to other slices, for any first id; a row may be named many times. */
static void check_embedding(tri_device *device) {
  enum { ROWS = 6, WIDTH = 3 };
  const int32_t ids[ROWS] = {INT32_MIN, 11, INT32_MAX, 10, 11, 12};
  const float table[2 * WIDTH] = {1, 2, 3, 4, 5, 6};
  const float expected[ROWS * WIDTH] = {0, 0, 0, 4, 5, 6, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0};
  float out[ROWS * WIDTH], gradient[2 * WIDTH] = {100, 100, 100, 100, 100, 100};
  CHECK_OK(
      KERNEL(embedding_forward, TRI_FP32, tri_all_rows(ROWS), WIDTH, ids, 10, 2, TRI_FP32, table, NULL, NULL, out));
  assert_memory_equal(out, expected, sizeof out);
  const uint16_t narrow[2 * WIDTH] = {0x3f80, 0x7f80, 0x8081, 0xc000, 0x0000, 0x4080}; /* copied unchanged */
  uint16_t copied[ROWS * WIDTH];
  CHECK_OK(
      KERNEL(embedding_forward, TRI_BF16, tri_all_rows(ROWS), WIDTH, ids, 10, 2, TRI_BF16, narrow, NULL, NULL, copied));
  for (int r = 0; r < ROWS; r++) {
    const uint16_t zeros[WIDTH] = {0}, *row = ids[r] == 10 ? narrow : ids[r] == 11 ? narrow + WIDTH : zeros;
    assert_memory_equal(copied + r * WIDTH, row, sizeof zeros);
  }
  CHECK_OK(KERNEL(embedding_backward, TRI_FP32, tri_all_rows(ROWS), WIDTH, ids, 10, 2, expected, gradient));
  const float sums[2 * WIDTH] = {101, 102, 103, 108, 110, 112};
  assert_memory_equal(gradient, sums, sizeof sums);
}

static void test_embedding(void **state) {
  (void)state;
  on_every_unit(check_embedding);
}

/* Two rows each at 1 and 2, none at 3. */
static void check_positions(tri_device *device) {
  const float gradient[5] = {1, 2, 4, 8, 16};
  const int32_t positions[5] = {1, 2, 0, 1, 2}, others[2] = {2, 0};
  float sums[4] = {NAN, NAN, NAN, NAN};
  CHECK_OK(KERNEL(position_backward, TRI_FP32, tri_all_rows(5), 1, positions, 4, gradient, sums, false));
  assert_true(sums[0] == 4 && sums[1] == 9 && sums[2] == 18 && sums[3] == 0);
  CHECK_OK(KERNEL(position_backward, TRI_FP32, tri_all_rows(2), 1, others, 4, gradient, sums, true));
  assert_true(sums[0] == 6 && sums[1] == 9 && sums[2] == 19 && sums[3] == 0);
  CHECK_OK(KERNEL(position_backward, TRI_FP32, tri_all_rows(0), 1, positions, 4, gradient, sums, false));
  assert_true(sums[0] == 0 && sums[1] == 0 && sums[2] == 0 && sums[3] == 0);
}

/* Rows of one position are added in their order: 2^24 + 1 + 1 differs from 1 + 1 + 2^24. */
static void check_order_of_positions(tri_device *device) {
  if (strcmp(device->info.name, "reference") == 0) return; /* it adds in double */
  enum { ROWS = 12, WIDTH = 2048 };                        /* more elements than one thread processes alone */
  static float gradient[ROWS * WIDTH], sums[3 * WIDTH];
  const int32_t positions[ROWS] = {2, 0, 0, 2, 1, 0, 1, 1, 2, 1, 2, 0};
  for (int i = 0; i < ROWS * WIDTH; i++) gradient[i] = (i / WIDTH * 7 + i) % 5 == 0 ? 0x1p24f : 1.0f;
  CHECK_OK(KERNEL(position_backward, TRI_FP32, tri_all_rows(ROWS), WIDTH, positions, 3, gradient, sums, false));
  for (int i = 0; i < 3 * WIDTH; i++) {
    float expected = 0;
    for (int r = 0; r < ROWS; r++) expected += positions[r] == i / WIDTH ? gradient[r * WIDTH + i % WIDTH] : 0.0f;
    if (sums[i] != expected) fail_msg("%s: element %d is %.9g, not %.9g", device->info.name, i, sums[i], expected);
  }
}

static void test_positions(void **state) {
  (void)state;
  on_every_unit(check_positions);
  on_every_unit(check_order_of_positions);
}

/* A norm that adds a branch gives the bits of `add` followed by a norm, also if it overwrites its inputs. */
static void check_sums_in_norms(tri_device *device) {
  enum { ROWS = 3, WIDTH = 83, COUNT = ROWS * WIDTH };
  static const tri_dtype types[] = {TRI_FP32, TRI_BF16};
  for (int t = 0; t < 2; t++) {
    const tri_norm norm = tri_norm_of_rows(types[t], tri_all_rows(ROWS), WIDTH, 1e-5);
    float wide[2][COUNT], weight[WIDTH], statistics[4][ROWS];
    float x[COUNT], branch[COUNT], sum[2][COUNT] = {{0}}, y[4][COUNT] = {{0}}; /* room enough for either type */
    for (int i = 0; i < COUNT; i++) {
      wide[0][i] = (float)((i * 37) % 101) / 7;
      wide[1][i] = (float)((i * 53) % 89 - 44) / 9;
    }
    for (int i = 0; i < WIDTH; i++) weight[i] = (float)(i % 5) - 1.5f;
    CHECK_OK(KERNEL(convert, COUNT, TRI_FP32, wide[0], types[t], x));
    CHECK_OK(KERNEL(convert, COUNT, TRI_FP32, wide[1], types[t], branch));
    CHECK_OK(KERNEL(add, types[t], norm.rows, WIDTH, x, branch, sum[0]));
    CHECK_OK(KERNEL(layer_norm_forward, &norm, sum[0], NULL, NULL, weight, weight, y[0], statistics[0], statistics[1]));
    CHECK_OK(KERNEL(rms_norm_forward, &norm, sum[0], NULL, NULL, weight, y[1], statistics[2]));
    CHECK_OK(KERNEL(rms_norm_forward, &norm, x, branch, sum[1], weight, y[3], statistics[3]));
    assert_memory_equal(sum[1], sum[0], sizeof sum[0]);
    assert_memory_equal(y[3], y[1], sizeof y[1]);
    assert_memory_equal(statistics[3], statistics[2], sizeof statistics[2]);
    CHECK_OK(KERNEL(layer_norm_forward, &norm, x, branch, x, weight, weight, y[2], statistics[2], statistics[3]));
    assert_memory_equal(x, sum[0], (size_t)COUNT * tri_dtype_bytes(types[t]));
    assert_memory_equal(y[2], y[0], sizeof y[0]);
    assert_memory_equal(statistics[2], statistics[0], 2 * sizeof statistics[0]);
  }
}

static void test_sums_in_norms(void **state) {
  (void)state;
  on_every_unit(check_sums_in_norms);
}

/* An RMS norm with weights around zero (`offset` 1) has the same bits as one whose weights are larger by 1. */
static void check_weights_around_zero(tri_device *device) {
  enum { WIDTH = 83 };
  static const tri_dtype types[] = {TRI_FP32, TRI_BF16};
  for (int t = 0; t < 2; t++) {
    tri_norm norm = tri_norm_of_rows(types[t], tri_all_rows(1), WIDTH, 1e-5);
    float wide[WIDTH], x[WIDTH], weight[2][WIDTH], y[2][WIDTH] = {{0}}, gradient[2][WIDTH] = {{0}}, rstd = 0;
    for (int i = 0; i < WIDTH; i++) {
      wide[i] = (float)((i * 37) % 101) / 7;
      weight[1][i] = (float)(i % 5) / 8 - 0.25f;
      weight[0][i] = weight[1][i] + 1;
    }
    CHECK_OK(KERNEL(convert, WIDTH, TRI_FP32, wide, types[t], x));
    for (int i = 0; i < 2; i++) {
      norm.offset = i;
      CHECK_OK(KERNEL(rms_norm_forward, &norm, x, NULL, NULL, weight[i], y[i], &rstd));
      CHECK_OK(KERNEL(rms_norm_backward_input, &norm, y[0], x, weight[i], &rstd, gradient[i], false));
    }
    assert_memory_equal(y[1], y[0], sizeof y[0]);
    assert_memory_equal(gradient[1], gradient[0], sizeof gradient[0]);
  }
}

static void test_weights_around_zero(void **state) {
  (void)state;
  on_every_unit(check_weights_around_zero);
}

/* (1, 2, 3, 4): mean 2.5, variance 1.25. A quarter turn takes (a, b) to (-b, a). softmax(0, ln 3) is (1/4, 3/4). */
static void check_by_hand(tri_device *device) {
  const float x[4] = {1, 2, 3, 4}, weight[4] = {1, 1, 2, 2}, bias[4] = {0, 0, 0, 10};
  float y[4], mean = 0, rstd = 0;
  CHECK_OK(KERNEL(layer_norm_forward, row_of(4, 0.0), x, NULL, NULL, weight, bias, y, &mean, &rstd));
  double s = 1.0 / sqrt(1.25);
  assert_true(mean == 2.5f && fabs((double)rstd - s) < 1e-7);
  assert_true(fabs((double)y[0] + 1.5 * s) < 3e-7 && fabs((double)y[3] - (3.0 * s + 10.0)) < 2e-6);
  CHECK_OK(KERNEL(rms_norm_forward, row_of(4, 0.0), x, NULL, NULL, weight, y, &rstd));
  assert_true(fabs((double)rstd - 1.0 / sqrt(7.5)) < 1e-7 && fabs((double)y[3] - 8.0 / sqrt(7.5)) < 1e-6);

  /* Two heads of 4 in a row of 10: each is processed by itself, and no other element is written. */
  const float row[10] = {1, 2, 3, 4, NAN, 10, 20, 30, 40, NAN};
  const tri_norm heads = {TRI_FP32, tri_all_rows(1), 2, 4, 10, 5, 9, 5, 0.0, 0};
  float apart[9] = {0}, stretch[2];
  apart[4] = 7;
  CHECK_OK(KERNEL(rms_norm_forward, &heads, row, NULL, NULL, weight, apart, stretch));
  assert_true(apart[4] == 7);
  for (int i = 0; i < 4; i++) assert_true(apart[i] == y[i] && fabsf(apart[5 + i] - y[i]) < 1e-6f);
  assert_true(stretch[0] == rstd && fabs((double)stretch[1] - 0.1 / sqrt(7.5)) < 1e-8);

  float turned[4] = {1, 2, 3, 4};
  const float cosine[4] = {NAN, NAN, 0, 1}, sine[4] = {NAN, NAN, 1, 0};
  const int32_t position = 1;
  CHECK_OK(KERNEL(rope, TRI_FP32, tri_all_rows(1), 4, 1, 4, 4, &position, cosine, sine, false, turned));
  assert_true(turned[0] == -3 && turned[1] == 2 && turned[2] == 1 && turned[3] == 4);
  CHECK_OK(KERNEL(rope, TRI_FP32, tri_all_rows(1), 4, 1, 4, 4, &position, cosine, sine, true, turned));
  assert_memory_equal(turned, x, sizeof x);

  const float logits[2] = {0, logf(3)};
  const int32_t label = 0;
  const float label_weight = 0.5f;
  float maximum = 0, sum = 0, at_label = 9, loss = 0, gradient[2];
  CHECK_OK(KERNEL(softmax_statistics, TRI_FP32, 1, 2, 2, logits, &label, 0, &maximum, &sum, &at_label));
  CHECK_OK(KERNEL(softmax_loss, TRI_FP32, 1, &label, &label_weight, &maximum, &sum, &at_label, &loss));
  CHECK_OK(KERNEL(softmax_gradient, TRI_FP32, 1, 2, 2, (tri_logit_form){1, 0}, logits, &label, &label_weight, NULL, 0,
                  &(tri_step_values){.loss_scale = 2.0}, &maximum, &sum, 2, gradient));
  assert_true(fabs((double)loss - 0.5 * log(4.0)) < 3e-7);
  assert_true(fabs((double)gradient[0] + 0.75) < 5e-7 && fabs((double)gradient[1] - 0.75) < 5e-7);
}

static void test_by_hand(void **state) {
  (void)state;
  on_every_unit(check_by_hand);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void check_memory(tri_device *device) {
  static const size_t sizes[] = {0, 1, 4095, 4096, (1 << 21) + 1, 5 << 20};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    unsigned char *memory = NULL;
    CHECK_OK(tri_device_memory_create(device, sizes[s], (void **)&memory));
    assert_non_null(memory);
    assert_true((uintptr_t)memory % 64 == 0);
    for (size_t i = 0; i < sizes[s]; i++) {
      if (memory[i] != 0) fail_msg("%s: byte %zu is not 0", device->info.name, i);
    }
    assert_true(device->memory_bytes == sizes[s]);
    tri_device_memory_destroy(device, memory, sizes[s]);
  }
  void *untouched = &device;
  CHECK_FAILS(tri_device_memory_create(device, (size_t)1 << 60, &untouched), TRI_OUT_OF_MEMORY, "EiB");
  assert_true(untouched == &device);
  assert_true(device->memory_bytes == 0);
}

static void test_memory(void **state) {
  (void)state;
  on_every_unit(check_memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_bf16_from_double),
      cmocka_unit_test(test_exp),
      cmocka_unit_test(test_activations),
      cmocka_unit_test(test_slopes),
      cmocka_unit_test(test_nan),
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_scale),
      cmocka_unit_test(test_dropout_of_shares),
      cmocka_unit_test(test_copy_rows),
      cmocka_unit_test(test_dropout),
      cmocka_unit_test(test_embedding),
      cmocka_unit_test(test_positions),
      cmocka_unit_test(test_by_hand),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_sums_in_norms),
      cmocka_unit_test(test_weights_around_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
