/* A loop of fused multiply-adds on independent registers. To keep two pipes of latency four busy takes eight chains;
 * twelve leave room, and with the two operands still fit the sixteen registers of AVX2. The operands come from
 * volatile memory and the result goes there, so that nothing can be computed beforehand or left out. */
#include "device/cpu/fma_peak.h"

#include "base/clock.h"

#include <omp.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { CHAINS = 12, ROUNDS = 4096 };

typedef struct unit {
  double (*run)(int64_t times); /* ROUNDS * times rounds over the chains; returns the flops done */
} unit;

static volatile float operand_scale = 0.9999f, operand_step = 1e-4f;
static volatile float sink;

#define UNROLL _Pragma("GCC unroll 12")

/* One function for a vector unit: its attribute, vector type, lanes' flops in one operation, and how to broadcast,
 * multiply-add and read a lane. */
#define DEFINE_UNIT(name, attribute, vector, flops, broadcast, multiply_add, first_lane)                               \
  attribute static double name(int64_t times) {                                                                        \
    vector scale = broadcast(operand_scale), step = broadcast(operand_step), chains[CHAINS];                           \
    UNROLL for (int c = 0; c < CHAINS; c++) chains[c] = broadcast((float)c);                                           \
    for (int64_t i = 0; i < times * ROUNDS; i++) {                                                                     \
      UNROLL for (int c = 0; c < CHAINS; c++) chains[c] = multiply_add(chains[c], scale, step);                        \
    }                                                                                                                  \
    UNROLL for (int c = 1; c < CHAINS; c++) chains[0] = multiply_add(chains[0], scale, chains[c]);                     \
    sink = first_lane(chains[0]);                                                                                      \
    return (double)(flops)*CHAINS * ROUNDS * (double)times;                                                            \
  }

#if defined(__x86_64__)
#define TARGET(features) __attribute__((target(features)))

#define SSE_MULTIPLY_ADD(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
DEFINE_UNIT(run_sse, , __m128, 8, _mm_set1_ps, SSE_MULTIPLY_ADD, _mm_cvtss_f32)

DEFINE_UNIT(run_avx2, TARGET("avx2,fma"), __m256, 16, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)

DEFINE_UNIT(run_avx512, TARGET("avx512f"), __m512, 32, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)

/* Each lane adds two products: a += b0 * c0 + b1 * c1. Here the chain is the accumulator. */
#define BF16_MULTIPLY_ADD(a, b, c) _mm512_dpbf16_ps(a, (__m512bh)(b), (__m512bh)(c))
DEFINE_UNIT(run_avx512_bf16, TARGET("avx512f,avx512bf16"), __m512, 64, _mm512_set1_ps, BF16_MULTIPLY_ADD,
            _mm512_cvtss_f32)

static unit choose_unit(tri_dtype type) {
  if (type == TRI_BF16 && __builtin_cpu_supports("avx512bf16")) return (unit){run_avx512_bf16};
  if (__builtin_cpu_supports("avx512f")) return (unit){run_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return (unit){run_avx2};
  return (unit){run_sse};
}
#elif defined(__aarch64__)
#define NEON_MULTIPLY_ADD(a, b, c) vfmaq_f32(c, a, b)
#define NEON_FIRST_LANE(a) vgetq_lane_f32(a, 0)
DEFINE_UNIT(run_neon, , float32x4_t, 8, vdupq_n_f32, NEON_MULTIPLY_ADD, NEON_FIRST_LANE)

static unit choose_unit(tri_dtype type) {
  (void)type;
  return (unit){run_neon};
}
#else
#define SCALAR_BROADCAST(a) (a)
#define SCALAR_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
DEFINE_UNIT(run_scalar, , float, 2, SCALAR_BROADCAST, SCALAR_MULTIPLY_ADD, SCALAR_BROADCAST)

static unit choose_unit(tri_dtype type) {
  (void)type;
  return (unit){run_scalar};
}
#endif

/* One stretch on all threads: FLOP/s from the first start to the last end. */
static double run_stretch(unit u, int threads, int64_t times) {
  double flops = 0, start_s = tri_clock_s();
#pragma omp parallel num_threads(threads) reduction(+ : flops)
  flops += u.run(times);
  return flops / (tri_clock_s() - start_s);
}

/* How often to run for a stretch of that length, from the fastest of a few short tries: on a busy machine one try may
 * have waited for its turn. */
static int64_t times_for(unit u, double stretch_s) {
  enum { TRIES = 5, TIMES = 8 };
  double least_s = 1;
  for (int i = 0; i < TRIES; i++) {
    double start_s = tri_clock_s();
    u.run(TIMES);
    double took_s = tri_clock_s() - start_s;
    if (took_s < least_s) least_s = took_s;
  }
  return (int64_t)(TIMES * stretch_s / (least_s + 1e-9)) + 1;
}

static double best_stretch(unit u, int threads) {
  enum { STRETCHES = 8 };
  int64_t times = times_for(u, 0.01);
  double best = 0;
  for (int i = 0; i < STRETCHES; i++) {
    double rate = run_stretch(u, threads, times);
    if (rate > best) best = rate;
  }
  return best;
}

double tri_cpu_fma_peak(int threads, tri_dtype type) {
  double plain = best_stretch(choose_unit(TRI_FP32), threads);
  if (type == TRI_FP64) return plain / 2; /* half as many lanes */
  if (type != TRI_BF16) return plain;
  /* Some processors have a bf16 unit that is slower than converting to fp32. */
  double dot = best_stretch(choose_unit(TRI_BF16), threads);
  return dot > plain ? dot : plain;
}
