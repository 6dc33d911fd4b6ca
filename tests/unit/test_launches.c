/* Launches of every kernel, compared with the limits of the chips that it is compiled for: blocks, threads, shared
 * memory, bytes of arguments. The emulator is intercepted (the linker's --wrap) in all problems of kernel_check, with
 * warps of 32 or 64, depending on the seed; calls with the sizes of large models are launched with both, but not run.
 * */
#include "check.h"

#include "base/sanitizer.h"
#include "device/emulated/emulator.h"
#include "device/gpu/kernel_list.h"
#include "device/kernels.h"

#include "checker.h"
#include "chips.h"
#include "share.h"

#include <stdio.h>
#include <sys/mman.h>

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

#define DECLARE(name, threads)                                                                                         \
  extern void tri_emulated_##name##_64_w32(const void *);                                                              \
  extern void tri_emulated_##name##_64_w64(const void *);                                                              \
  extern void tri_emulated_##name##_32_w32(const void *);                                                              \
  extern void tri_emulated_##name##_32_w64(const void *);                                                              \
  extern void tri_emulated_##name##_16_w32(const void *);                                                              \
  extern void tri_emulated_##name##_16_w64(const void *);
TRI_GPU_KERNELS(DECLARE)

typedef struct kernel_facts {
  const char *name;
  uint32_t threads;
  size_t argument_bytes, argument_alignment;
  tri_emulator_kernel *variants[2][3]; /* by warp and type */
} kernel_facts;

#define FACTS(name, threads)                                                                                           \
  {#name,                                                                                                              \
   threads,                                                                                                            \
   sizeof(name##_arguments),                                                                                           \
   _Alignof(name##_arguments),                                                                                         \
   {{tri_emulated_##name##_64_w32, tri_emulated_##name##_32_w32, tri_emulated_##name##_16_w32},                        \
    {tri_emulated_##name##_64_w64, tri_emulated_##name##_32_w64, tri_emulated_##name##_16_w64}}},
static const kernel_facts all_facts[] = {TRI_GPU_KERNELS(FACTS)};

static const kernel_facts *facts_of(tri_emulator_kernel *kernel, int *warp) {
  for (int i = 0; i < TRI_GPU_NUM_KERNELS; i++) {
    for (int w = 0; w < 2; w++) {
      for (int t = 0; t < 3; t++) {
        if (all_facts[i].variants[w][t] != kernel) continue;
        *warp = 32 << w;
        return &all_facts[i];
      }
    }
  }
  return NULL;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* A launch, with the parameters that a driver gets. */
typedef struct wanted {
  uint32_t grid[3], threads;
  size_t declared_bytes, asked_bytes, argument_bytes, argument_alignment;
} wanted;

/* Returns the limit that a launch exceeds, or NULL. */
static const char *refusal(const chip *c, const wanted *w) {
  if (w->threads == 0 || w->threads > c->block_threads || w->threads % (uint32_t)c->warp != 0) return "threads";
  if (w->grid[0] == 0 || w->grid[0] > c->grid_x || (uint64_t)w->grid[0] * w->threads > c->grid_threads) return "blocks";
  if (w->grid[1] == 0 || w->grid[1] > c->grid_yz || w->grid[2] == 0 || w->grid[2] > c->grid_yz) return "blocks";
  if (w->declared_bytes > c->shared_declared) return "declared shared memory";
  if (w->declared_bytes + w->asked_bytes > c->shared_bytes) return "shared memory";
  if (w->argument_bytes > c->argument_bytes) return "bytes of arguments";
  return w->argument_alignment > 16 ? "alignment of arguments" : NULL;
}

static void test_the_limits_refuse(void **state) {
  (void)state;
  static const wanted good = {{1, 1, 1}, 1024, 48 << 10, 16 << 10, 4096, 8};
  wanted bad[] = {good, good, good, good, good, good, good, good};
  bad[0].threads = 1088;
  bad[1].threads = 0;
  bad[2].grid[0] = 1u << 31;
  bad[3].grid[1] = 65536;
  bad[4].grid[2] = 0;
  bad[5].declared_bytes = (64 << 10) + 1;
  bad[6].asked_bytes = 228 << 10;
  bad[7].argument_bytes = 4100;
  for (int c = 0; c < NUM_CHIPS; c++) {
    assert_null(refusal(&chips[c], &good));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_non_null(refusal(&chips[c], &bad[i]));
  }
  const wanted warps = {{1, 1, 1}, 96, 0, 0, 8, 8}, many = {{1u << 26, 1, 1}, 64, 0, 0, 8, 8},
               shared = {{1, 1, 1}, 256, 0, 100 << 10, 8, 8};
  assert_null(refusal(&chips[0], &warps));
  assert_string_equal(refusal(&chips[3], &warps), "threads");
  assert_null(refusal(&chips[0], &many));
  assert_string_equal(refusal(&chips[3], &many), "blocks");
  assert_null(refusal(&chips[0], &shared));
  assert_string_equal(refusal(&chips[3], &shared), "shared memory");
}

static void test_kernels_as_they_are_listed(void **state) {
  (void)state;
  for (int i = 0; i < TRI_GPU_NUM_KERNELS; i++) {
    const kernel_facts *k = &all_facts[i];
    const wanted w = {{1, 1, 1}, k->threads, 0, 0, k->argument_bytes, k->argument_alignment};
    if (k->threads % 64 != 0) fail_msg("%s has %u threads, no multiple of 64", k->name, k->threads);
    for (int c = 0; c < NUM_CHIPS; c++) {
      const char *text = refusal(&chips[c], &w);
      if (text != NULL) fail_msg("%s: %s of %s", chips[c].architecture, text, k->name);
    }
  }
}

/* ---- listening --------------------------------------------------------------------------------------------------- */

enum { MOST_PIECES = 64 };

static struct {
  bool runs;        /* whether launched kernels are run */
  int64_t launches; /* so far */
  const void *places[MOST_PIECES];
  size_t declared_bytes; /* shared memory of the current launch */
  int num_places;
} ear;

tri_status __real_tri_emulator_run(tri_emulator *emulator, const tri_emulator_launch *launch);
void *__real_tri_emulator_shared(const void *place, size_t bytes);
tri_status __wrap_tri_emulator_run(tri_emulator *emulator, const tri_emulator_launch *launch);
void *__wrap_tri_emulator_shared(const void *place, size_t bytes);

void *__wrap_tri_emulator_shared(const void *place, size_t bytes) {
  int i = 0;
  while (i < ear.num_places && ear.places[i] != place) i++;
  if (i == ear.num_places && i < MOST_PIECES) {
    ear.places[ear.num_places++] = place;
    ear.declared_bytes += (bytes + 15) / 16 * 16;
  }
  return __real_tri_emulator_shared(place, bytes);
}

tri_status __wrap_tri_emulator_run(tri_emulator *emulator, const tri_emulator_launch *launch) {
  int warp = 0;
  const kernel_facts *k = facts_of(launch->kernel, &warp);
  ear.num_places = 0;
  ear.declared_bytes = 0;
  ear.launches++;
  if (ear.runs) TRI_TRY(__real_tri_emulator_run(emulator, launch));
  if (k == NULL) return tri_fail(TRI_INTERNAL, "a kernel of no list was launched");
  for (int c = 0; c < NUM_CHIPS; c++) {
    const wanted w = {{launch->grid[0], launch->grid[1], launch->grid[2]},
                      launch->threads,
                      ear.declared_bytes,
                      launch->shared_bytes,
                      k->argument_bytes,
                      k->argument_alignment};
    const char *text = chips[c].warp == warp ? refusal(&chips[c], &w) : NULL;
    if (text == NULL) continue;
    return tri_fail(TRI_INTERNAL,
                    "%s of %u x %u x %u blocks of %u threads, %zu and %zu bytes of shared memory: %s has no such %s",
                    k->name, w.grid[0], w.grid[1], w.grid[2], w.threads, w.declared_bytes, w.asked_bytes,
                    chips[c].architecture, text);
  }
  return TRI_OK;
}

/* ---- over kernel_check's problems -------------------------------------------------------------------------------- */

#if !TRI_ADDRESS_SANITIZER /* with it, only kernel_check runs these problems */
static tri_status open_by_name(const void *which, tri_device **out) { return tri_device_create(which, 1, out); }

static void check_problems(const char *device) {
  static const tri_dtype types[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  checker c = {.open = open_by_name, .which = device, .seed = 1, .quick = true};
  ear.runs = true;
  ear.launches = 0;
  CHECK_OK(checker_open(&c));
  for (const kernel_cases *k = all_kernels; k->name != NULL; k++) {
    for (int t = 0; t < 3; t++) {
      kernel_result result;
      CHECK_OK(checker_run(&c, k, types[t], &result));
      if (result.failures > 0) fail_msg("%s: %s", k->name, result.first);
    }
  }
  checker_close(&c);
  assert_in_range(ear.launches, 1000, INT64_MAX);
}

/* Each seed tests one of the two warp sizes; kernel_check runs the same problems with both. */
static void test_problems(void **state) {
  (void)state;
  if (in_share(0, 2)) check_problems("emulated:warp=32");
  if (in_share(1, 2)) check_problems("emulated:warp=64");
}

#endif

/* ---- large models ------------------------------------------------------------------------------------------------ */

/* Tokens of a micro-batch, and the model: GPT-2 1.5B, a 1B Llama, and one with a long sequence. */
typedef struct model {
  int64_t rows, width, inner, vocabulary, sequence, heads, kv_heads, head_dim;
} model;

static const model models[] = {{64 << 10, 1600, 6400, 50257, 1024, 25, 25, 64},
                               {32 << 10, 2048, 8192, 128256, 4096, 32, 8, 64},
                               {1 << 20, 4096, 14336, 128256, 1 << 20, 32, 8, 128}};

/* Launches are not run, so the contents of memory do not matter. */
static tri_status launch_rows(tri_device *device, tri_dtype type, const model *m, char *x) {
  tri_queue *q = device->queue;
  const tri_rows rows = tri_all_rows(m->rows);
  const tri_norm norm = tri_norm_of_rows(type, rows, m->width, 1e-5);
  const tri_norm heads = {
      type,        rows, m->heads, m->head_dim, 3 * m->heads * m->head_dim, m->head_dim, 3 * m->heads * m->head_dim,
      m->head_dim, 1e-5, 0};
  const tri_dtype other = type == TRI_BF16 ? TRI_FP32 : TRI_BF16; /* a conversion to its own type is a copy */
  TRI_KERNEL_CALL(q, add, type, rows, m->inner, x, x, x);
  TRI_KERNEL_CALL(q, scale, type, m->rows * m->inner, 0.5, x, x);
  TRI_KERNEL_CALL(q, convert, m->rows * m->inner, type, x, other, x);
  TRI_KERNEL_CALL(q, convert, m->vocabulary * m->width, other, x, type, x);
  TRI_KERNEL_CALL(q, column_sum, type, rows, m->inner, m->inner, x, x, true);
  TRI_KERNEL_CALL(q, embedding_forward, type, rows, m->width, (const int32_t *)(void *)x, 0, m->vocabulary, type, x,
                  (const int32_t *)(void *)x, x, x);
  TRI_KERNEL_CALL(q, embedding_backward, type, rows, m->width, (const int32_t *)(void *)x, 0, m->vocabulary, x, x);
  TRI_KERNEL_CALL(q, position_backward, type, rows, m->width, (const int32_t *)(void *)x, m->sequence, x, x, true);
  TRI_KERNEL_CALL(q, layer_norm_forward, &norm, x, x, x, x, x, x, x, x);
  TRI_KERNEL_CALL(q, layer_norm_backward_input, &norm, x, x, x, x, x, x, true);
  TRI_KERNEL_CALL(q, layer_norm_backward_weight, &norm, x, x, x, x, x, x, true);
  TRI_KERNEL_CALL(q, rms_norm_forward, &heads, x, NULL, NULL, x, x, x);
  TRI_KERNEL_CALL(q, rms_norm_backward_input, &heads, x, x, x, x, x, true);
  TRI_KERNEL_CALL(q, rms_norm_backward_weight, &heads, x, x, x, x, true);
  TRI_KERNEL_CALL(q, activation_forward, type, TRI_ACTIVATION_GELU_TANH, rows, m->inner, x, x);
  TRI_KERNEL_CALL(q, activation_backward, type, TRI_ACTIVATION_GELU_TANH, rows, m->inner, x, x, x);
  TRI_KERNEL_CALL(q, gated_forward, type, TRI_ACTIVATION_SILU, rows, m->inner, x, x);
  TRI_KERNEL_CALL(q, gated_backward, type, TRI_ACTIVATION_SILU, rows, m->inner, x, x, x);
  TRI_KERNEL_CALL(q, dropout, type, m->rows * m->width, &(tri_dropout){0.1, 3, m->sequence * m->width, 0, m->width, 0},
                  (const tri_step_values *)(void *)x, (const int32_t *)(void *)x, x, x);
  TRI_KERNEL_CALL(q, copy_rows, &(tri_row_copy){rows, m->inner, type, other, m->inner, m->inner},
                  (const int32_t *)(void *)x, x, NULL, x);
  TRI_KERNEL_CALL(q, rope, type, rows, (m->heads + 2 * m->kv_heads) * m->head_dim, m->heads + m->kv_heads, m->head_dim,
                  m->head_dim, (const int32_t *)(void *)x, x, x, false, x);
  return TRI_OK;
}

static tri_status launch_rest(tri_device *device, tri_dtype type, const model *m, char *x) {
  tri_queue *q = device->queue;
  const int32_t *labels = (const int32_t *)(void *)x;
  const float *weights = (const float *)(void *)x;
  const tri_step_values *values = (const tri_step_values *)(void *)x;
  const int64_t parameters = m->vocabulary * m->width;
  const tri_dtype wide = tri_dtype_wide(type);
  TRI_KERNEL_CALL(q, softmax_statistics, type, m->rows, m->vocabulary, m->vocabulary, x, labels, 0, x, x, x);
  TRI_KERNEL_CALL(q, softmax_rescale, type, m->rows, x, x, x);
  TRI_KERNEL_CALL(q, softmax_loss, type, m->rows, labels, weights, x, x, x, x);
  TRI_KERNEL_CALL(q, softmax_gradient, type, m->rows, m->vocabulary, m->vocabulary, (tri_logit_form){1, 0}, x, labels,
                  weights, NULL, 0, values, x, x, m->vocabulary, x);
  TRI_KERNEL_CALL(q, adamw, type, parameters, &(tri_adamw){0.9, 0.95, 1e-8, 0.1, 1}, values, x, x, x, x, x);
  TRI_KERNEL_CALL(q, block_squares, type, parameters, 256, x, (tri_exact_sum *)(void *)x);
  TRI_KERNEL_CALL(q, sum, type, m->rows, x, (double *)(void *)x, true);
  for (int form = 0; form < 4; form++) {
    tri_matmul p = {.m = form == 2 ? m->width : m->rows,
                    .n = form == 3 ? m->vocabulary : m->inner,
                    .k = form == 2 ? m->rows : m->width,
                    .a_type = type,
                    .b_type = type,
                    .c_type = form > 1 ? wide : type};
    p.a_transposed = form == 2;
    p.b_transposed = form % 2 == 1;
    p.lda = p.a_transposed ? p.m : p.k;
    p.ldb = p.b_transposed ? p.k : p.n;
    p.ldc = p.n;
    TRI_KERNEL_CALL(q, matmul, &p, x, x, x, x, x);
  }
  return TRI_OK;
}

static tri_status launch_attention(tri_device *device, tri_dtype type, const model *m, char *x) {
  const int64_t row = (m->heads + 2 * m->kv_heads) * m->head_dim;
  tri_attention call = {.type = type,
                        .out_type = type,
                        .gradient_type = type,
                        .heads = m->heads,
                        .kv_heads = m->kv_heads,
                        .head_dim = m->head_dim,
                        .scale = 0.125,
                        .query_rows = m->rows,
                        .key_rows = m->rows,
                        .q_row = row,
                        .q_head = m->head_dim,
                        .k_row = row,
                        .k_head = m->head_dim,
                        .v_row = row,
                        .v_head = m->head_dim,
                        .out_row = m->heads * m->head_dim,
                        .out_head = m->head_dim,
                        .num_slices = m->rows / m->sequence,
                        .most_queries = m->sequence,
                        .most_keys = m->sequence};
  for (int shared = 0; shared < 2; shared++) { /* and lists of many short slices, as for windows */
    const tri_attention_slice *slices = (const tri_attention_slice *)(void *)x;
    call.shares_queries = call.shares_keys = shared == 1;
    if (shared == 1) call.num_slices = m->rows;
    TRI_KERNEL_CALL(device->queue, attention_forward, &call, slices, x, x, x, x, x, x);
    TRI_KERNEL_CALL(device->queue, attention_backward, &call, slices, x, x, x, x, x, x, x, x, x, x);
  }
  return TRI_OK;
}

/* Launches a layer of as many experts as routers support. */
static tri_status launch_experts(tri_device *device, tri_dtype type, const model *m, char *x) {
  enum { CHOSEN = 8 };
  tri_queue *q = device->queue;
  int32_t *numbers = (int32_t *)(void *)x;
  double *loss = (double *)(void *)x;
  const tri_step_values *values = (const tri_step_values *)(void *)x;
  const tri_rows rows = tri_all_rows(m->rows), pairs = tri_all_rows(m->rows * CHOSEN);
  const tri_router router = {TRI_ROUTER_EXPERTS, CHOSEN, 32, 8, 2, 2.5, TRI_ROUTER_SIGMOID, false, true};
  const int64_t sequences = m->rows / m->sequence;
  TRI_KERNEL_CALL(q, router_forward, type, rows, &router, numbers, x, x, numbers, x);
  TRI_KERNEL_CALL(q, router_backward, type, rows, &router, x, numbers, x, x, x, 0, m->sequence, 0.1, values, x);
  TRI_KERNEL_CALL(q, router_loads, type, rows, &router, x, numbers, 0, m->sequence, sequences, x);
  TRI_KERNEL_CALL(q, router_balance, type, &router, sequences, 0.1, values, x, x, loss);
  TRI_KERNEL_CALL(q, router_z_loss, type, rows, &router, 0.1, values, x, numbers, loss);
  TRI_KERNEL_CALL(q, router_count, type, tri_all_rows(m->rows / 2), &router, numbers, x, (int64_t *)(void *)x);
  TRI_KERNEL_CALL(q, group_rows, rows, CHOSEN, 256, numbers, numbers, numbers, numbers, numbers);
  TRI_KERNEL_CALL(q, sum_rows, type, rows, CHOSEN, m->width, numbers, x, x, true);
  TRI_KERNEL_CALL(q, weighted_gated_forward, type, TRI_ACTIVATION_SILU, pairs, m->inner / 8, x, x, x);
  TRI_KERNEL_CALL(q, weighted_gated_backward, type, TRI_ACTIVATION_SILU, pairs, m->inner / 8, x, x, x, x, x);
  for (int gradient = 0; gradient < 2; gradient++) {
    const int64_t in = m->width, out = m->inner / 4, all = pairs.capacity;
    tri_grouped_matmul call = {{.m = all, .n = out, .k = in, .lda = in, .ldb = out, .ldc = out}, 256, in * out};
    call.product.a_type = call.product.b_type = call.product.c_type = type;
    call.product.a_transposed = gradient == 1;
    if (gradient == 1) call.product.m = in, call.product.k = all;
    TRI_KERNEL_CALL(q, grouped_matmul, &call, numbers, x, x, x, x);
  }
  return TRI_OK;
}

static void check_models(const char *name) {
  static const tri_dtype types[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  const size_t bytes = (size_t)1 << 42; /* only addresses, enough for the largest array here: kernels run in pieces */
  tri_device *device = NULL;
  void *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(memory != MAP_FAILED);
  ear.runs = false;
  ear.launches = 0;
  CHECK_OK(tri_device_create(name, 1, &device));
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    for (int t = 0; t < 3; t++) {
      CHECK_OK(launch_rows(device, types[t], &models[i], memory));
      CHECK_OK(launch_rest(device, types[t], &models[i], memory));
      CHECK_OK(launch_attention(device, types[t], &models[i], memory));
      CHECK_OK(launch_experts(device, types[t], &models[i], memory));
      CHECK_OK(tri_queue_finish(device->queue));
    }
  }
  assert_in_range(ear.launches, 9 * 30, INT64_MAX);
  tri_device_destroy(device);
  munmap(memory, bytes);
}

static void test_large_models_warp_32(void **state) {
  (void)state;
  check_models("emulated:warp=32");
}

static void test_large_models_warp_64(void **state) {
  (void)state;
  check_models("emulated:warp=64");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_limits_refuse),
    cmocka_unit_test(test_kernels_as_they_are_listed),
#if !TRI_ADDRESS_SANITIZER
    cmocka_unit_test(test_problems),
#endif
    cmocka_unit_test(test_large_models_warp_32),
    cmocka_unit_test(test_large_models_warp_64),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
