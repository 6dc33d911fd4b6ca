/* Finds the fastest algorithm of a GEMM by timing. Operands are random: on zeros a GPU draws less power and runs faster
 * than in a real run. */
#include "device/gpu/gemm.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

/* Each candidate is timed in PASSES passes, alternating with the others; its fastest pass counts. A pass runs the GEMM
 * as often as PASS_S seconds allow, but LEAST_ROUNDS to MOST_ROUNDS times. */
enum { PASSES = 3, LEAST_ROUNDS = 2, MOST_ROUNDS = 64, PATTERN_BYTES = 1 << 18 };
static const double PASS_S = 0.01;

typedef struct operand {
  void *memory;
  size_t bytes;
} operand;

typedef struct trial {
  tri_device *device;
  tri_matmul matmul; /* `product` as a tri_matmul */
  const tri_gpu_gemm *product;
  const tri_gpu_gemm_choice *choice;
  operand a, b, c, bias, workspace;
  bool refused; /* whether the library does not support the choice */
} trial;

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static void fill_pattern(tri_dtype type, char *pattern) {
  const size_t element = tri_dtype_bytes(type), count = PATTERN_BYTES / element;
  const tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, 0);
  for (size_t i = 0; i < count; i++) {
    const double value = 2 * tri_random_uniform(key, i) - 1;
    const float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    const uint16_t high = (uint16_t)(bits >> 16);
    switch (type) {
      case TRI_FP64: memcpy(pattern + i * element, &value, sizeof value); break;
      case TRI_FP32: memcpy(pattern + i * element, &narrow, sizeof narrow); break;
      case TRI_BF16: memcpy(pattern + i * element, &high, sizeof high); break;
      case TRI_INT32: break;
    }
  }
}

/* Fills the operand with copies of the pattern: each copy doubles the filled part. */
static tri_status repeat_pattern(tri_queue *queue, const operand *to, const char *pattern) {
  size_t filled = to->bytes < PATTERN_BYTES ? to->bytes : PATTERN_BYTES;
  TRI_TRY(tri_queue_upload(queue, to->memory, pattern, filled));
  while (filled < to->bytes) {
    const size_t more = to->bytes - filled < filled ? to->bytes - filled : filled;
    TRI_TRY(tri_queue_move(queue, (char *)to->memory + filled, to->memory, more));
    filled += more;
  }
  return tri_queue_finish(queue);
}

static tri_status operand_create(tri_device *device, tri_dtype type, int64_t elements, operand *out) {
  const size_t bytes = (size_t)elements * tri_dtype_bytes(type);
  char *pattern = NULL;
  if (bytes == 0) return TRI_OK;
  TRI_TRY(tri_device_memory_create(device, bytes, &out->memory));
  out->bytes = bytes;
  TRI_TRY(tri_alloc("random numbers", PATTERN_BYTES, 1, &pattern));
  fill_pattern(type, pattern);
  tri_status status = repeat_pattern(device->queue, out, pattern);
  tri_free(pattern);
  return status;
}

static tri_status trial_create(trial *t) {
  const tri_gpu_gemm *p = t->product;
  TRI_TRY(operand_create(t->device, p->in, (p->a_transposed ? p->k : p->m) * p->lda, &t->a));
  TRI_TRY(operand_create(t->device, p->in, (p->b_transposed ? p->n : p->k) * p->ldb, &t->b));
  TRI_TRY(operand_create(t->device, p->out, p->m * p->ldc, &t->c));
  TRI_TRY(operand_create(t->device, tri_dtype_wide(p->in), p->bias ? p->n : 0, &t->bias));
  const tri_device_description *plan = &tri_description_accelerator;
  TRI_TRY(plan->matmul_workspace(plan, &t->matmul, &t->workspace.bytes));
  const size_t wanted = t->workspace.bytes;
  t->workspace.bytes = 0;
  TRI_TRY(tri_device_memory_create(t->device, wanted, &t->workspace.memory));
  t->workspace.bytes = wanted;
  return TRI_OK;
}

static void trial_destroy(trial *t) {
  const operand *all[] = {&t->a, &t->b, &t->c, &t->bias, &t->workspace};
  tri_queue_drain(t->device->queue);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    tri_device_memory_destroy(t->device, all[i]->memory, all[i]->bytes);
  }
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

static tri_status multiply(tri_queue *queue, void *context, int round) {
  (void)round;
  trial *t = context;
  tri_gpu_gemm_call call = {
      .product = t->product, .a = t->a.memory, .b = t->b.memory, .bias = t->bias.memory, .c = t->c.memory};
  tri_status status = tri_gpu_gemm_run(queue, &t->matmul, t->choice, &call, t->workspace.memory);
  t->refused = call.refused;
  return status;
}

static tri_status time_once(trial *t, const tri_gpu_gemm_choice *choice, int rounds, double *seconds) {
  t->choice = choice;
  TRI_TRY(tri_device_time(t->device->queue, multiply, t, rounds, seconds));
  *seconds /= rounds;
  return TRI_OK;
}

static int rounds_for(double seconds) {
  if (seconds * MOST_ROUNDS <= PASS_S) return MOST_ROUNDS;
  const int rounds = (int)(PASS_S / seconds);
  return rounds < LEAST_ROUNDS ? LEAST_ROUNDS : rounds;
}

/* Times all candidates except those that the library refuses. *best: the index of the fastest, or 0 if the library
 * refuses all of them. */
static tri_status run_trial(trial *t, const tri_gpu_gemm_choice *candidates, int count, int *best) {
  double least[TRI_GPU_MOST_ALGORITHMS];
  int rounds[TRI_GPU_MOST_ALGORITHMS];
  for (int i = 0; i < count; i++) { /* warm-up: loads code, raises clocks */
    t->choice = &candidates[i];
    rounds[i] = 0;
    least[i] = INFINITY;
    tri_status status = multiply(t->device->queue, t, 0);
    if (t->refused) continue;
    TRI_TRY(status);
    TRI_TRY(time_once(t, &candidates[i], 1, &least[i]));
    rounds[i] = rounds_for(least[i]);
  }
  for (int pass = 0; pass < PASSES; pass++) {
    for (int i = 0; i < count; i++) {
      double seconds = 0;
      if (rounds[i] == 0) continue;
      TRI_TRY(time_once(t, &candidates[i], rounds[i], &seconds));
      if (pass == 0 || seconds < least[i]) least[i] = seconds;
    }
  }
  *best = 0;
  for (int i = 1; i < count; i++) *best = least[i] < least[*best] ? i : *best;
  return TRI_OK;
}

tri_status tri_gpu_gemm_fastest(tri_device *device, const tri_gpu_gemm *product, const tri_gpu_gemm_choice *candidates,
                                int count, int *best) {
  trial t = {.device = device, .product = product, .matmul = tri_gpu_gemm_matmul(product)};
  tri_status status = trial_create(&t);
  if (status == TRI_OK) status = run_trial(&t, candidates, count, best);
  trial_destroy(&t);
  return status;
}
