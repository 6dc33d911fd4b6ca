/* AdamW for GPUs, on the emulator, compared with the reference device on the same inputs. */
#include "gpu_array.h"

enum { PARAMETER, MOMENT1, MOMENT2, OUTPUTS };

/* Offset from an aligned address, in elements, of the copy of the parameter in the activations' type; NO_COPY: no copy
 * is written. */
enum { NO_COPY = -1 };

typedef struct problem {
  tri_dtype type;
  int64_t count, update;
  size_t misaligned;
  double weight_decay;
  int copy;
} problem;

static tri_dtype wide_of(const problem *p) { return tri_dtype_wide(p->type); }

/* Rounds to nearest even, as numpy does in tests/oracle. */
static uint16_t bf16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The copy has the parameter's bits, rounded once. */
static void check_copy(gpu_bench *b, const problem *p, const void *copy, const unsigned char *parameter) {
  uint16_t *got = gpu_bytes((size_t)p->count * sizeof *got);
  gpu_get(b, copy, got);
  for (int64_t i = 0; i < p->count; i++) {
    const uint16_t expected = bf16_of((float)gpu_load(TRI_FP32, parameter, i));
    if (got[i] != expected)
      fail_msg("the copy's element %ld of %ld is %04x, not %04x", (long)i, (long)p->count, got[i], expected);
  }
  free(got);
}

/* Returns the three arrays, one after the other. */
static unsigned char *run_adamw(gpu_bench *b, const problem *p) {
  const tri_adamw options = {
      .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = p->weight_decay, .lr_scale = 0.5};
  const tri_step_values values = {.lr = 3e-3, .gradient_scale = 0.3, .loss_scale = NAN, .update = p->update};
  const size_t element = tri_dtype_bytes(wide_of(p)), bytes = (size_t)p->count * element;
  void *arrays[OUTPUTS + 1];
  b->misaligned = 0;
  const tri_step_values *step = gpu_put(b, &values, sizeof values, sizeof values);
  b->misaligned = p->misaligned;
  for (int i = 0; i < OUTPUTS + 1; i++) {
    void *host = gpu_values(wide_of(p), p->count, 1, (uint64_t)i);
    for (int64_t j = 0; i == MOMENT2 && j < p->count; j++)
      gpu_store(wide_of(p), host, j, j % 7 == 0 ? 0 : fabs(gpu_load(wide_of(p), host, j)));
    arrays[i] = gpu_put(b, host, bytes, element);
    free(host);
  }
  void *copy = NULL;
  if (p->copy != NO_COPY) {
    void *nobody = gpu_values(p->type, p->count, NAN, 9);
    b->misaligned = (size_t)p->copy;
    copy = gpu_put(b, nobody, (size_t)p->count * tri_dtype_bytes(p->type), tri_dtype_bytes(p->type));
    free(nobody);
  }
  CHECK_OK(b->device->kernels->adamw(b->device->queue, p->type, p->count, &options, step, arrays[PARAMETER],
                                     arrays[OUTPUTS], arrays[MOMENT1], arrays[MOMENT2], copy));
  unsigned char *out = gpu_bytes(bytes * OUTPUTS);
  for (int i = 0; i < OUTPUTS; i++) gpu_get(b, arrays[i], out + (size_t)i * bytes);
  if (copy != NULL) check_copy(b, p, copy, out);
  gpu_clear(b);
  return out;
}

/* Checks the devices, and returns the results of the first. */
static unsigned char *check(gpu_benches *all, const problem *p, int devices) {
  const size_t bytes = (size_t)p->count * tri_dtype_bytes(wide_of(p));
  unsigned char *expected = run_adamw(&all->reference, p), *first = run_adamw(&all->each[0], p);
  for (int i = 0; i < OUTPUTS; i++) {
    const double difference =
        gpu_difference(wide_of(p), p->count, first + (size_t)i * bytes, expected + (size_t)i * bytes);
    if (!(difference <= gpu_tolerance(wide_of(p))))
      fail_msg("array %d of %ld, %s, update %ld, differs by %g", i, (long)p->count, tri_dtype_name(p->type),
               (long)p->update, difference);
  }
  for (int d = 1; d < devices; d++) {
    unsigned char *other = run_adamw(&all->each[d], p);
    if (memcmp(other, first, bytes * OUTPUTS) != 0)
      fail_msg("%s has other bits: %ld, %s", gpu_devices[d], (long)p->count, tri_dtype_name(p->type));
    free(other);
  }
  free(expected);
  return first;
}

static void test_adamw(void **state) {
  static const int64_t counts[] = {0, 1, 3, 4, 255, 1000, 4099}, updates[] = {1, 2, 1000, 1000000};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    for (int t = 0; t < GPU_TYPES; t++) {
      for (size_t u = 0; u < sizeof updates / sizeof *updates; u++) {
        const problem p = {gpu_types[t], counts[c], updates[u], 0, u % 2 == 0 ? 0.1 : 0, NO_COPY};
        free(check(*state, &p, u == 0 ? GPU_DEVICES : 2));
      }
    }
  }
}

/* The bits of an element do not depend on the alignment of the arrays or on the number of other elements. */
static void test_same_bits(void **state) {
  const problem many = {TRI_FP32, 4200003, 5, 0, 0.1, NO_COPY}, few = {TRI_FP32, 1001, 5, 1, 0.1, NO_COPY};
  unsigned char *of_many = check(*state, &many, 2), *of_few = check(*state, &few, 2);
  for (int i = 0; i < OUTPUTS; i++)
    assert_memory_equal(of_many + (size_t)i * 4200003 * sizeof(float), of_few + (size_t)i * 1001 * sizeof(float),
                        1001 * sizeof(float));
  free(of_many);
  free(of_few);
}

/* A copy is the parameter rounded once, for any alignment of both, and does not change the bits of the update. */
static void test_copy(void **state) {
  static const int64_t counts[] = {0, 1, 3, 4, 5, 255, 1001, 4099};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    for (int misaligned = 0; misaligned < 2; misaligned++) {
      const problem without = {TRI_BF16, counts[c], 2, (size_t)misaligned, 0.1, NO_COPY};
      unsigned char *alone = check(*state, &without, 1);
      for (int copy = 0; copy < 5; copy++) {
        const problem with = {TRI_BF16, counts[c], 2, (size_t)misaligned, 0.1, copy};
        unsigned char *beside = check(*state, &with, copy < 2 ? GPU_DEVICES : 2);
        assert_memory_equal(alone, beside, (size_t)counts[c] * sizeof(float) * OUTPUTS);
        free(beside);
      }
      free(alone);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_adamw),
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_copy),
  };
  return cmocka_run_group_tests(tests, gpu_benches_create, gpu_benches_destroy);
}
