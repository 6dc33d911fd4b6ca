/* All memory of a device is counted: after an object of any kind is destroyed, the count is what it was before. */
#include "check.h"

#include "base/memory.h"
#include "device/kernels.h"
#include "engine/executor.h"
#include "engine/peak.h"
#include "generation/runner.h"
#include "model/family.h"

#include <math.h>

static const char *const devices[] = {"reference", "cpu", "guarded"};
enum { NUM_DEVICES = sizeof devices / sizeof devices[0] };

static tri_model small_model(tri_family family) {
  tri_model model = {.name = "small",
                     .family = family,
                     .num_layers = 2,
                     .hidden_size = 16,
                     .num_heads = 2,
                     .ffn_size = 32,
                     .vocab_size = 20,
                     .max_sequence = 40,
                     .norm_eps = 1e-5,
                     .init_std = 0.02,
                     .rope_theta = 10000,
                     .rope_scaling.factor = 1,
                     .attention_bias = family == TRI_FAMILY_GPT2,
                     .tied = true};
  CHECK_OK(tri_model_complete(&model));
  return model;
}

/* Creates, uses and destroys a generator. */
static void use_generator(tri_device *device, tri_dtype type) {
  for (int family = TRI_FAMILY_GPT2; family <= TRI_FAMILY_LLAMA; family++) {
    tri_model model = small_model((tri_family)family);
    tri_runner *runner = NULL;
    const void *logits = NULL;
    const tri_runner_sizes sizes = tri_runner_sizes_for(1, 40);
    size_t before = device->memory_bytes, cache = 2 * 2 * TRI_PAGE_ROWS * 16 * tri_dtype_bytes(type);
    tri_runner_need need;
    CHECK_OK(tri_runner_plan(&model, type, &sizes, false, 1, device, &need));
    CHECK_OK(tri_runner_create(&model, type, &sizes, NULL, NULL, (tri_lent_memory){0}, device, &runner));
    assert_int_equal(device->memory_bytes, before + need.device_bytes); /* as planned, to the byte */
    assert_int_equal(need.cache_bytes, cache);
    /* The parameters and the cache of keys and values at least. */
    assert_true(device->memory_bytes >= before + cache + 20 * 16 * tri_dtype_bytes(type));
    CHECK_OK(tri_runner_begin(runner));
    CHECK_OK(tri_runner_add(
        runner,
        &(tri_runner_rows){.ids = (const int32_t[]){1, 2, 3}, .count = 3, .pages = (const int32_t[]){0}, .logits = 1}));
    CHECK_OK(tri_runner_run(runner));
    CHECK_OK(tri_runner_logits(runner, 0, 1, &logits));
    tri_runner_destroy(runner);
    assert_int_equal(device->memory_bytes, before);
  }
}

static void use_cacheless_generator(tri_device *device, tri_dtype type) {
  tri_model model = small_model(TRI_FAMILY_GPT2);
  tri_runner *runner = NULL;
  tri_runner_sizes sizes = tri_runner_sizes_for(1, 40);
  sizes.pages = (int64_t)1 << 24;
  CHECK_FAILS(tri_runner_create(&model, type, &sizes, NULL, NULL, (tri_lent_memory){0}, device, &runner),
              TRI_OUT_OF_MEMORY, "");
  assert_null(runner);
}

/* A small model's list of operations with memory under it. */
typedef struct small {
  tri_model model;
  tri_parameter_table *table;
  tri_op_list *list;
  tri_weights *weights;
  tri_executor *executor;
} small;

/* The optimizer has a state of one number. */
static const tri_updates states = {.state_bytes = sizeof(double)};

static void create_small(tri_device *device, tri_dtype type, bool training, small *out) {
  const int64_t one_frame = 1;
  out->model = small_model(TRI_FAMILY_GPT2);
  CHECK_OK(tri_parameter_table_create(&out->model, NULL, &out->table));
  tri_list_request wanted =
      tri_list_request_whole(&out->model, training ? TRI_LIST_TRAIN : TRI_LIST_EVALUATE, 2, 8, type);
  CHECK_OK(tri_model_operations(&out->model, &wanted, &out->list));
  tri_memory_request request = {.lists = (const tri_op_list *const *)&out->list,
                                .num_frames = &one_frame,
                                .num_chunks = 1,
                                .num_values = out->table->num_elements,
                                .num_gradients = training ? out->table->num_gradient_elements : 0,
                                .updates = training ? &states : NULL,
                                .training = training,
                                .device = &device->description};
  CHECK_OK(tri_weights_create(out->table, NULL, type, &out->weights));
  CHECK_OK(tri_executor_create(out->weights, &request, device, NULL, &out->executor));
}

static void destroy_small(const small *s) {
  tri_executor_destroy(s->executor);
  tri_weights_destroy(s->weights);
  tri_op_list_destroy(s->list);
  tri_parameter_table_destroy(s->table);
}

static void use_executor(tri_device *device, tri_dtype type) {
  small s;
  create_small(device, type, false, &s);
  assert_true(device->memory_bytes > 0);
  destroy_small(&s);
}

static void use_peak(tri_device *device, tri_dtype type) {
  double flops = 0;
  size_t peak = device->memory_peak_bytes;
  CHECK_OK(tri_matmul_flops(device, type, 0.01, &flops));
  assert_int_equal(device->memory_peak_bytes, peak); /* the peak of a run is not affected */
}

static void test_every_object_gives_back(void **state) {
  (void)state;
  static void (*const uses[])(tri_device *, tri_dtype) = {use_generator, use_cacheless_generator, use_executor,
                                                          use_peak};
  for (size_t i = 0; i < NUM_DEVICES * sizeof uses / sizeof uses[0]; i++) {
    size_t outside = tri_memory_bytes();
    tri_device *device = NULL;
    CHECK_OK(tri_device_create(devices[i % NUM_DEVICES], 1, &device));
    uses[i / NUM_DEVICES](device, TRI_FP32);
    assert_int_equal(device->memory_bytes, 0);
    tri_device_destroy(device); /* with the kernels that it compiled for the object */
    assert_int_equal(tri_memory_bytes(), outside);
  }
}

/* A micro-batch finds no values of the previous one: activations that it has not written are NaN. */
static void test_an_instruction_inherits_nothing(void **state) {
  (void)state;
  tri_device *device = NULL;
  small s;
  CHECK_OK(tri_device_create("guarded", 1, &device));
  create_small(device, TRI_FP64, false, &s);
  CHECK_OK(tri_executor_prepare(s.executor));
  tri_run run = tri_executor_run(s.executor, 0, 0);
  for (int64_t slot = 0; slot < s.list->num_slots; slot++) {
    double left = 1, parameter = 1;
    if (run.slots[slot] == NULL) continue;
    CHECK_OK(tri_queue_upload_now(device->queue, run.slots[slot], &left, sizeof left));
    CHECK_OK(tri_queue_upload_now(device->queue, tri_weights_values(s.executor->weights), &left, sizeof left));
    CHECK_OK(tri_executor_forward_some(s.executor, 0, 0, 0, &run)); /* of no operation yet */
    CHECK_OK(tri_queue_download_now(device->queue, &left, run.slots[slot], sizeof left));
    CHECK_OK(
        tri_queue_download_now(device->queue, &parameter, tri_weights_values(s.executor->weights), sizeof parameter));
    assert_true(isnan(left));
    assert_true(parameter == 1);
  }
  destroy_small(&s);
  tri_device_destroy(device);
}

static double after_forgetting(const small *s, void *memory) {
  double value = 1;
  CHECK_OK(tri_queue_upload_now(s->executor->device->queue, memory, &value, sizeof value));
  CHECK_OK(tri_executor_reset_step(s->executor, true));
  CHECK_OK(tri_queue_download_now(s->executor->device->queue, &value, memory, sizeof value));
  return value;
}

/* Gradients of the previous step are not reused either; the optimizer's states are kept over all steps. */
static void test_a_step_inherits_no_gradients(void **state) {
  (void)state;
  tri_device *device = NULL;
  small s;
  CHECK_OK(tri_device_create("guarded", 1, &device));
  create_small(device, TRI_FP64, true, &s);
  assert_true(isnan(after_forgetting(&s, tri_weights_gradients(s.executor->weights))));
  assert_true(after_forgetting(&s, tri_weights_values(s.executor->weights)) == 1);
  assert_true(after_forgetting(&s, s.executor->arena + s.executor->plan->states) == 1);
  destroy_small(&s);
  tri_device_destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_object_gives_back),
                                     cmocka_unit_test(test_an_instruction_inherits_nothing),
                                     cmocka_unit_test(test_a_step_inherits_no_gradients)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
