/* The executor alone, with a list of operations and its memory. A pass over a list has the same bits in any pieces, in
 * any frame, and with kept or recomputed activations. Gradients agree with finite differences. An executor that does
 * not fit into memory fails. */
#include "check.h"
#include "engine/executor.h"
#include "model/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, SEQUENCE = 6, VOCABULARY = 23, FRAMES = 2, CHECKED = 40 };

/* A list of training in double precision on the reference device. */
typedef struct bench {
  tri_model model;
  tri_device *device;
  tri_parameter_table *table;
  tri_op_list *list;
  tri_weights *weights;
  tri_executor *executor;
} bench;

static tri_model tiny_model(tri_family family) {
  tri_model model = {.name = "tiny",
                     .family = family,
                     .num_layers = 2,
                     .hidden_size = 12,
                     .num_heads = 2,
                     .num_kv_heads = family == TRI_FAMILY_LLAMA ? 1 : 2,
                     .ffn_size = 20,
                     .vocab_size = VOCABULARY,
                     .max_sequence = SEQUENCE,
                     .norm_eps = 1e-5,
                     .init_std = 0.02,
                     .rope_theta = 10000,
                     .rope_scaling.factor = 1,
                     .tied = family == TRI_FAMILY_GPT2};
  CHECK_OK(tri_model_complete(&model));
  return model;
}

static tri_memory_request request_of(const bench *b, const int64_t *frames) {
  return (tri_memory_request){.lists = (const tri_op_list *const *)&b->list,
                              .num_frames = frames,
                              .num_chunks = 1,
                              .num_values = b->table->num_elements,
                              .num_gradients = b->table->num_gradient_elements,
                              .num_batches = FRAMES,
                              .training = true,
                              .split_backward = true,
                              .device = &b->device->description};
}

/* Any numbers, but the same in each call. */
static double number_of(int64_t i) { return 0.3 * sin(12.9898 * (double)i + 0.5); }

static void fill_batch(const bench *b, int64_t number) {
  for (int64_t row = 0; row < BATCH; row++) {
    tri_sample sample = tri_executor_sequence(b->executor, row);
    for (int64_t t = 0; t < SEQUENCE; t++) {
      int64_t at = (number * BATCH + row) * SEQUENCE + t;
      sample.ids[t] = (int32_t)(at * 7 % VOCABULARY);
      sample.labels[t] = t == 2 ? -1 : (int32_t)((at + 1) * 7 % VOCABULARY);
      sample.weights[t] = t == 4 ? 0.5F : 1;
    }
  }
  CHECK_OK(tri_executor_make_batch(b->executor, number));
  CHECK_OK(tri_executor_upload_batch(b->executor, number));
}

static void bench_create(tri_family family, tri_recompute recompute, bench *b) {
  const int64_t frames = FRAMES;
  *b = (bench){.model = tiny_model(family)};
  CHECK_OK(tri_device_create("reference", 1, &b->device));
  CHECK_OK(tri_parameter_table_create(&b->model, NULL, &b->table));
  tri_list_request wanted = tri_list_request_whole(&b->model, TRI_LIST_TRAIN, BATCH, SEQUENCE, TRI_FP64);
  wanted.recompute = (tri_recompute_choice){.what = recompute, .every = 1};
  CHECK_OK(tri_model_operations(&b->model, &wanted, &b->list));
  tri_memory_request request = request_of(b, &frames);
  CHECK_OK(tri_weights_create(b->table, NULL, TRI_FP64, &b->weights));
  CHECK_OK(tri_executor_create(b->weights, &request, b->device, NULL, &b->executor));
  double *values = tri_weights_values(b->executor->weights);
  for (int64_t i = 0; i < b->table->num_elements; i++) {
    assert_true(values[i] == 0); /* parameters begin as zeros */
    values[i] = number_of(i);
  }
  for (int64_t number = 0; number < FRAMES; number++) fill_batch(b, number);
  *tri_executor_step_values(b->executor) = (tri_step_values){.loss_scale = 1};
  CHECK_OK(tri_executor_prepare(b->executor));
}

static void bench_destroy(bench *b) {
  tri_executor_destroy(b->executor);
  tri_weights_destroy(b->weights);
  tri_op_list_destroy(b->list);
  tri_parameter_table_destroy(b->table);
  tri_device_destroy(b->device);
}

static tri_run run_of(const bench *b, int64_t frame) {
  tri_run run = tri_executor_run(b->executor, 0, frame);
  run.training = true;
  run.batch = BATCH;
  run.sequence = SEQUENCE;
  run.values = tri_executor_step_values(b->executor);
  run.loss_sum = &tri_executor_step_results(b->executor)->loss;
  tri_executor_set_batch(b->executor, frame, &run);
  return run;
}

static double loss_of(const bench *b) {
  const tri_step_results *results = NULL;
  CHECK_OK(tri_executor_read_results(b->executor, &results));
  return results->loss;
}

/* Runs the forward in two pieces, or in one if the cut is at an end. */
static double forward(const bench *b, int64_t frame, int64_t cut) {
  tri_run run = run_of(b, frame);
  CHECK_OK(tri_executor_clear_results(b->executor));
  if (cut > 0) CHECK_OK(tri_executor_forward_some(b->executor, 0, 0, cut, &run));
  if (cut < b->list->num_calls) {
    CHECK_OK(tri_executor_forward_some(b->executor, 0, cut, b->list->num_calls, &run));
  }
  return loss_of(b);
}

static void begin_gradients(const bench *b) {
  CHECK_OK(tri_executor_reset_step(b->executor, true));
  for (int64_t i = 0; i < b->table->num_entries; i++) b->executor->weights->parameters[i].gradient_written = false;
}

static void backward(const bench *b, int64_t frame, tri_backward what) {
  tri_run run = run_of(b, frame);
  CHECK_OK(tri_executor_backward(b->executor, &what, &run));
}

static void backward_whole(const bench *b, int64_t frame) {
  backward(b, frame, (tri_backward){.end_call = b->list->num_calls, .inputs = true, .weights = true});
}

/* Returns a copy of the current gradients. The caller frees it. */
static double *gradients_of(const bench *b) {
  (void)loss_of(b); /* waits for queued work */
  size_t bytes = (size_t)b->table->num_gradient_elements * sizeof(double);
  double *copy = malloc(bytes);
  assert_non_null(copy);
  memcpy(copy, tri_weights_gradients(b->executor->weights), bytes);
  return copy;
}

static void check_gradients(const bench *b, const double *expected) {
  double *now = gradients_of(b);
  assert_memory_equal(now, expected, (size_t)b->table->num_gradient_elements * sizeof(double));
  free(now);
}

/* Returns the gradients of a whole pass in frame 0. Free them. */
static double *whole_gradients(const bench *b) {
  begin_gradients(b);
  (void)forward(b, 0, 0);
  backward_whole(b, 0);
  return gradients_of(b);
}

static const tri_family families[] = {TRI_FAMILY_GPT2, TRI_FAMILY_LLAMA};
enum { NUM_FAMILIES = sizeof families / sizeof families[0] };

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Returns the gradient of an element of the values: the sum of its owner's and of its aliases', which are separate
 * arrays. */
static double gradient_at(const bench *b, const double *gradients, int64_t at) {
  double sum = 0;
  for (int64_t i = 0; i < b->table->num_entries; i++) {
    const tri_parameter *entry = &b->table->entries[i];
    if (at < entry->offset || at >= entry->offset + entry->count) continue;
    sum += gradients[entry->gradient_offset + at - entry->offset];
  }
  return sum;
}

static void test_finite_differences(void **state) {
  (void)state;
  for (int f = 0; f < NUM_FAMILIES; f++) {
    bench b;
    bench_create(families[f], TRI_RECOMPUTE_NONE, &b);
    double *gradients = whole_gradients(&b), *values = tri_weights_values(b.executor->weights);
    for (int64_t i = 0; i < CHECKED; i++) {
      int64_t at = i * 7919 % b.table->num_elements;
      const double kept = values[at], distance = 1e-6;
      values[at] = kept + distance;
      CHECK_OK(tri_executor_prepare(b.executor));
      double above = forward(&b, 0, 0);
      values[at] = kept - distance;
      CHECK_OK(tri_executor_prepare(b.executor));
      double below = forward(&b, 0, 0);
      values[at] = kept;
      double expected = (above - below) / (2 * distance), gradient = gradient_at(&b, gradients, at);
      if (!(fabs(gradient - expected) <= 1e-7 * (1 + fabs(expected)))) {
        fail_msg("family %d, element %ld: %.12g, by differences %.12g", f, (long)at, gradient, expected);
      }
    }
    free(gradients);
    bench_destroy(&b);
  }
}

/* A sum that is fused into the next call is computed at once if a piece ends before that call. */
static void test_forward_in_pieces(void **state) {
  (void)state;
  for (int f = 0; f < NUM_FAMILIES; f++) {
    bench b;
    bench_create(families[f], TRI_RECOMPUTE_NONE, &b);
    const double whole = forward(&b, 0, 0);
    assert_true(whole > 0);
    for (int64_t cut = 1; cut <= b.list->num_calls; cut++) {
      double loss = forward(&b, 0, cut);
      assert_memory_equal(&loss, &whole, sizeof whole);
    }
    bench_destroy(&b);
  }
}

/* Cuts between layers, as between the stages of a pipeline; and runs first the gradients of inputs, then those of
 * weights. */
static void test_backward_in_pieces(void **state) {
  (void)state;
  for (int f = 0; f < NUM_FAMILIES; f++) {
    bench b;
    bench_create(families[f], TRI_RECOMPUTE_NONE, &b);
    double *expected = whole_gradients(&b);
    const int64_t calls = b.list->num_calls;
    for (int64_t cut = 1; cut < calls; cut++) {
      if (tri_op_list_layer(b.list, cut).first != cut) continue;
      begin_gradients(&b);
      (void)forward(&b, 0, 0);
      backward(&b, 0, (tri_backward){.first_call = cut, .end_call = calls, .inputs = true, .weights = true});
      backward(&b, 0, (tri_backward){.end_call = cut, .inputs = true, .weights = true});
      check_gradients(&b, expected);
    }
    begin_gradients(&b);
    (void)forward(&b, 0, 0);
    backward(&b, 0, (tri_backward){.end_call = calls, .inputs = true});
    backward(&b, 0, (tri_backward){.end_call = calls, .weights = true});
    check_gradients(&b, expected);
    free(expected);
    bench_destroy(&b);
  }
}

static void test_recomputation(void **state) {
  (void)state;
  static const tri_recompute kinds[] = {TRI_RECOMPUTE_SELECTIVE, TRI_RECOMPUTE_FULL};
  for (int f = 0; f < NUM_FAMILIES; f++) {
    bench kept;
    bench_create(families[f], TRI_RECOMPUTE_NONE, &kept);
    double *expected = whole_gradients(&kept);
    for (int k = 0; k < 2; k++) {
      bench b;
      bench_create(families[f], kinds[k], &b);
      assert_true(b.executor->plan->chunks[0].frame_bytes < kept.executor->plan->chunks[0].frame_bytes);
      double *gradients = whole_gradients(&b);
      assert_memory_equal(gradients, expected, (size_t)b.table->num_gradient_elements * sizeof(double));
      free(gradients);
      bench_destroy(&b);
    }
    free(expected);
    bench_destroy(&kept);
  }
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* Two micro-batches in flight: each backward uses the activations of its own forward, in either order; gradients are
 * added in the order of the backwards. */
static void test_frames(void **state) {
  (void)state;
  bench b;
  bench_create(TRI_FAMILY_GPT2, TRI_RECOMPUTE_NONE, &b);
  const double first = forward(&b, 0, 0), second = forward(&b, 1, 0);
  assert_true(first != second);
  begin_gradients(&b);
  (void)forward(&b, 0, 0);
  backward_whole(&b, 0);
  (void)forward(&b, 1, 0);
  backward_whole(&b, 1);
  double *expected = gradients_of(&b);
  begin_gradients(&b);
  (void)forward(&b, 0, 0);
  (void)forward(&b, 1, 0);
  backward_whole(&b, 0);
  backward_whole(&b, 1);
  check_gradients(&b, expected);
  free(expected);
  bench_destroy(&b);
}

/* The slots of a forward are in its frame or in the transient memory, and do not overlap other frames, parameters,
 * gradients or batches. */
static void test_slots_lie_apart(void **state) {
  (void)state;
  bench b;
  bench_create(TRI_FAMILY_LLAMA, TRI_RECOMPUTE_NONE, &b);
  const tri_memory_plan *plan = b.executor->plan;
  const char *arena = b.executor->arena;
  for (int64_t frame = 0; frame < FRAMES; frame++) {
    tri_run run = tri_executor_run(b.executor, 0, frame);
    for (int64_t s = 0; s < b.list->num_slots; s++) {
      const char *at = run.slots[s];
      if (at == NULL) continue;
      assert_int_equal((size_t)(at - arena) % 64, 0);
      size_t from = (size_t)(at - arena), bytes = (size_t)tri_shape_bytes(&b.list->slots[s].shape);
      size_t frame_at = plan->chunks[0].frames + (size_t)frame * plan->chunks[0].frame_bytes;
      bool in_frame = from >= frame_at && from + bytes <= frame_at + plan->chunks[0].frame_bytes;
      bool in_transient = from >= plan->transient && from + bytes <= plan->transient + plan->transient_bytes;
      assert_true(in_frame != in_transient);
      assert_true(!b.list->slots[s].kept || in_frame);
    }
  }
  bench_destroy(&b);
}

/* ---- too large for the memory ------------------------------------------------------------------------------------ */

static void test_too_large(void **state) {
  (void)state;
  const int64_t frames = (int64_t)1 << 40;
  bench b;
  bench_create(TRI_FAMILY_GPT2, TRI_RECOMPUTE_NONE, &b);
  tri_weights *weights = NULL;
  tri_executor *executor = NULL;
  tri_memory_request request = request_of(&b, &frames);
  const size_t before = b.device->memory_bytes;
  CHECK_OK(tri_weights_create(b.table, NULL, TRI_FP64, &weights));
  CHECK_FAILS(tri_executor_create(weights, &request, b.device, NULL, &executor), TRI_OUT_OF_MEMORY, "");
  tri_weights_destroy(weights);
  assert_null(executor);
  assert_int_equal(b.device->memory_bytes, before);
  bench_destroy(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_finite_differences),
      cmocka_unit_test(test_forward_in_pieces),
      cmocka_unit_test(test_backward_in_pieces),
      cmocka_unit_test(test_recomputation),
      cmocka_unit_test(test_frames),
      cmocka_unit_test(test_slots_lie_apart),
      cmocka_unit_test(test_too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
