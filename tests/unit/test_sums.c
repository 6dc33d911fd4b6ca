/* Sums in the order of the terms, compared with loops that add one element at a time. */
#include "base/random.h"
#include "check.h"
#include "comm/sums.h"

#include <math.h>
#include <stdio.h>

enum { MOST_TERMS = 9, MOST_COUNT = 3100 };

static const int64_t counts[] = {0, 1, 2, 3, 15, 16, 17, 1023, 1024, 1025, 2048, 3100};

static uint16_t bf16_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float of_bf16(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double value_of(int term, int64_t i) {
  tri_random_key key = tri_random_stream(7, TRI_RANDOM_TEST, (uint64_t)term);
  return tri_random_normal(key, (uint64_t)i) * (double)(1 << (i % 7));
}

static double get(tri_dtype type, const void *array, int64_t i) {
  return type == TRI_FP64   ? ((const double *)array)[i]
         : type == TRI_FP32 ? ((const float *)array)[i]
                            : of_bf16(((const uint16_t *)array)[i]);
}

static void put(tri_dtype type, void *array, int64_t i, double value) {
  if (type == TRI_FP64) ((double *)array)[i] = value;
  if (type == TRI_FP32) ((float *)array)[i] = (float)value;
  if (type == TRI_BF16) ((uint16_t *)array)[i] = bf16_of((float)value);
}

static double arrays[MOST_TERMS + 1][MOST_COUNT], before[MOST_TERMS][MOST_COUNT];

static double add(tri_dtype wide, double a, double b) {
  return wide == TRI_FP64 ? a + b : (double)((float)a + (float)b);
}

/* `out` is the index of the output: one of the terms, or the last array, which is not a term. */
static void check(tri_combine combine, tri_dtype from, tri_dtype to, int terms, int64_t count, int out) {
  const void *x[MOST_TERMS];
  for (int k = 0; k < terms; k++) {
    x[k] = arrays[k];
    for (int64_t i = 0; i < count; i++) put(from, arrays[k], i, value_of(k, i));
    memcpy(before[k], arrays[k], sizeof before[k]);
  }
  combine(terms, x, count, arrays[out]);
  tri_dtype wide = from == TRI_FP64 ? TRI_FP64 : TRI_FP32;
  for (int64_t i = 0; i < count; i++) {
    double want = get(from, before[0], i);
    for (int k = 1; k < terms; k++) want = add(wide, want, get(from, before[k], i));
    double cell;
    memset(&cell, 0, sizeof cell);
    put(to, &cell, 0, want);
    double have = get(to, arrays[out], i);
    if (have != get(to, &cell, 0)) fail_msg("%d terms, out %d, element %d: %g, not %g", terms, out, (int)i, have, want);
  }
}

static void sums_in_order(void **state) {
  (void)state;
  static const tri_dtype types[] = {TRI_FP32, TRI_FP64, TRI_BF16};
  for (int terms = 1; terms <= MOST_TERMS; terms++) {
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
      for (int t = 0; t < 3; t++) {
        const tri_sum *sum = tri_sum_of(types[t]);
        tri_dtype partial = types[t] == TRI_BF16 ? TRI_FP32 : types[t];
        for (int out = 0; out <= terms; out++) {
          check(sum->values, types[t], types[t], terms, counts[c], out == terms ? MOST_TERMS : out);
        }
        check(sum->to_partial, types[t], partial, terms, counts[c], MOST_TERMS);
        check(sum->partials, partial, types[t], terms, counts[c], MOST_TERMS);
        assert_int_equal(sum->bytes, tri_dtype_bytes(types[t]));
        assert_int_equal(sum->partial_bytes, tri_dtype_bytes(partial));
      }
    }
  }
  assert_null(tri_sum_of(TRI_INT32));
}

/* Halfway between two numbers the even one is chosen. Sums in bf16 would lose the small terms. */
static void bf16_is_rounded_once(void **state) {
  (void)state;
  uint16_t one = bf16_of(1);
  uint16_t half_step = bf16_of(0x1p-8F);
  uint16_t odd = bf16_of(1 + 0x1p-7F);
  uint16_t out = 0;
  const tri_sum *sum = tri_sum_of(TRI_BF16);
  sum->values(2, (const void *[]){&one, &half_step}, 1, &out);
  assert_int_equal(out, one);
  sum->values(2, (const void *[]){&odd, &half_step}, 1, &out);
  assert_int_equal(out, bf16_of(1 + 0x1p-6F));
  sum->values(3, (const void *[]){&one, &half_step, &half_step}, 1, &out);
  assert_int_equal(out, odd);
  uint16_t most = 0x7f7f, infinite = 0x7f80, nothing = 0x7fff;
  sum->values(2, (const void *[]){&most, &most}, 1, &out);
  assert_int_equal(out, infinite);
  sum->values(2, (const void *[]){&nothing, &one}, 1, &out);
  assert_true(isnan(of_bf16(out)));
}

static void the_largest(void **state) {
  (void)state;
  float a[3] = {1, -2, NAN}, b[3] = {0, -1, 5}, c[3] = {-3, -INFINITY, 9}, out[3];
  tri_maximum_of(TRI_FP32)->values(3, (const void *[]){a, b, c}, 3, out);
  assert_true(out[0] == 1 && out[1] == -1 && isnan(out[2]));
  tri_maximum_of(TRI_FP32)->values(3, (const void *[]){c, b, a}, 3, out);
  assert_true(out[0] == 1 && out[1] == -1 && isnan(out[2]));
  double d = -1, e = -2, larger;
  tri_maximum_of(TRI_FP64)->values(2, (const void *[]){&e, &d}, 1, &larger);
  assert_true(larger == -1);
  uint16_t f = bf16_of(3), g = bf16_of(-4), h;
  tri_maximum_of(TRI_BF16)->values(2, (const void *[]){&g, &f}, 1, &h);
  assert_int_equal(h, f);
  assert_null(tri_maximum_of(TRI_INT32));
}

static void whole_numbers(void **state) {
  (void)state;
  int64_t a[2] = {INT64_MAX, -5}, b[2] = {1, 7}, c[2] = {-1, (int64_t)1 << 60}, out[2];
  tri_sum_int64()->values(3, (const void *[]){a, b, c}, 2, out);
  assert_true(out[0] == INT64_MAX && out[1] == ((int64_t)1 << 60) + 2);
  assert_int_equal(tri_sum_none(2)->bytes, 2);
  assert_null(tri_sum_none(4)->values);
  assert_null(tri_sum_none(3));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_in_order),
      cmocka_unit_test(bf16_is_rounded_once),
      cmocka_unit_test(the_largest),
      cmocka_unit_test(whole_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
