/* Panels and transposes of bf16 beside plain loops, for every vector unit: random shapes, widths, strides and types,
 * with ties, infinities and NaN. */
#include "device/cpu/reorder.h"

#include "check.h"
#include "vector_units.h"

#include <math.h>
#include <stdlib.h>

enum { CASES = 300, MOST = 150, CANARY = 0x5a5a };

static const struct {
  const char *name;
  tri_pack_panels pack;
  tri_transpose transpose;
} units[] = {
    {"cpu:baseline", tri_cpu_pack_panels_baseline, tri_cpu_transpose_baseline},
#if defined(__x86_64__)
    {"cpu:avx2", tri_cpu_pack_panels_avx2, tri_cpu_transpose_avx2},
    {"cpu:avx512", tri_cpu_pack_panels_avx512, tri_cpu_transpose_avx512},
    {"cpu:avx512bf16", tri_cpu_pack_panels_avx512bf16, tri_cpu_transpose_avx512bf16},
#endif
};

static uint32_t draw_state;

static uint32_t draw_bits(void) {
  draw_state ^= draw_state << 13;
  draw_state ^= draw_state >> 17;
  return draw_state ^= draw_state << 5;
}

static int64_t draw_to(int64_t most) { return 1 + (int64_t)(draw_bits() % (uint32_t)most); }

/* Returns the bits of a number in fp32: any, or one that is halfway between two of bf16. Numbers below 2^-126 become 0.
 */
static uint32_t draw_number(void) {
  static const uint32_t special[] = {0x7f800000, 0xff800000, 0x7fc00001, 0xff812345, 0, 0x80000000, 0x7f7fffff};
  uint32_t bits = draw_bits();
  if (bits % 16 == 0) return special[bits / 16 % (sizeof special / sizeof *special)];
  if (bits % 16 < 4) bits = (bits & 0xffff0000) | 0x8000;
  return (bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits;
}

static uint16_t round_number(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Returns element [row, column] of the matrix of the job in bf16. */
static uint16_t element(const tri_cpu_panels *job, int64_t k, int64_t n) {
  const int64_t i = job->b_transposed ? n * job->ldb + k : k * job->ldb + n;
  return job->b_type == TRI_BF16 ? ((const uint16_t *)job->b)[i] : round_number(((const uint32_t *)job->b)[i]);
}

static void check_panels(tri_pack_panels pack) {
  static const int64_t widths[] = {16, 32, 48, 64};
  tri_cpu_panels job = {.n = draw_to(MOST),
                        .k = draw_to(MOST),
                        .width = widths[draw_bits() % 4],
                        .depth = draw_bits() % 2 ? 2 : 32,
                        .b_type = draw_bits() % 2 ? TRI_BF16 : TRI_FP32,
                        .b_transposed = draw_bits() % 2};
  if (draw_bits() % 8 == 0) job.n = 16 * TRI_MOST_PANEL; /* above the size from which threads share the work */
  const int64_t rows = job.b_transposed ? job.n : job.k, columns = job.b_transposed ? job.k : job.n;
  job.ldb = columns + (int64_t)(draw_bits() % 3);
  const int64_t held = (rows - 1) * job.ldb + columns, count = tri_panels_elements(&job),
                deep = tri_round_up(job.k, job.depth);
  const size_t size = tri_dtype_bytes(job.b_type);
  char *b = malloc((size_t)held * size);
  uint16_t *panels = malloc((size_t)(count + 1) * 2);
  for (int64_t i = 0; i < held; i++) {
    const uint32_t bits = draw_number();
    const uint16_t high = round_number(bits);
    memcpy(b + (size_t)i * size, job.b_type == TRI_BF16 ? (const void *)&high : (const void *)&bits, size);
  }
  job.b = b;
  job.panels = panels;
  panels[count] = CANARY;
  pack(2, &job);
  assert_int_equal(panels[count], CANARY);
  for (int64_t i = 0; i < count; i++) {
    const int64_t panel = i / (job.width * deep), in = i % (job.width * deep),
                  n = panel * job.width + in / 2 % job.width;
    const int64_t k = in / (2 * job.width) * 2 + in % 2;
    const uint16_t expected = n < job.n && k < job.k ? element(&job, k, n) : 0;
    if (panels[i] != expected)
      fail_msg("n %ld k %ld width %ld depth %ld type %d transposed %d: [%ld, %ld] is %04x, not %04x", (long)job.n,
               (long)job.k, (long)job.width, (long)job.depth, job.b_type, job.b_transposed, (long)k, (long)n, panels[i],
               expected);
  }
  free(panels);
  free(b);
}

static void check_transpose(tri_transpose transpose) {
  tri_cpu_transpose job = {.rows = draw_to(MOST), .columns = draw_to(MOST)};
  if (draw_bits() % 8 == 0) job.rows = 512;
  job.from_ld = job.columns + (int64_t)(draw_bits() % 3);
  job.to_ld = job.rows + (int64_t)(draw_bits() % 3);
  const int64_t held = (job.rows - 1) * job.from_ld + job.columns, out = (job.columns - 1) * job.to_ld + job.rows;
  uint16_t *from = malloc((size_t)held * 2), *to = malloc((size_t)(out + 1) * 2);
  for (int64_t i = 0; i < held; i++) from[i] = (uint16_t)draw_bits();
  for (int64_t i = 0; i <= out; i++) to[i] = CANARY;
  job.from = from;
  job.to = to;
  transpose(2, &job);
  for (int64_t i = 0; i <= out; i++) {
    const int64_t column = i / job.to_ld, row = i % job.to_ld;
    assert_int_equal(to[i], row < job.rows && i < out ? from[row * job.from_ld + column] : CANARY);
  }
  free(to);
  free(from);
}

static bool is_supported(const char *name) {
#if defined(__x86_64__)
  if (strcmp(name, "cpu:avx2") == 0) return __builtin_cpu_supports("avx2");
  if (strcmp(name, "cpu:avx512") == 0)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
  if (strcmp(name, "cpu:avx512bf16") == 0) return __builtin_cpu_supports("avx512bf16");
#endif
  return strcmp(name, "cpu:baseline") == 0;
}

static void check_unit(const char *name) {
  if (!is_supported(name)) skip();
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(units[i].name, name) != 0) continue;
    draw_state = 7;
    for (int turn = 0; turn < CASES; turn++) {
      check_panels(units[i].pack);
      check_transpose(units[i].transpose);
    }
  }
}

VECTOR_UNIT_TESTS(check_unit)

int main(void) {
  const struct CMUnitTest tests[] = {VECTOR_UNIT_ENTRIES};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
