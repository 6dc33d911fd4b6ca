/* Memory is counted by one way in and one way out: after each kind of object is gone, nothing is held. */
#include "check.h"

#include "base/memory.h"
#include "device/kernels.h"
#include "engine/executor.h"
#include "engine/generator.h"
#include "engine/peak.h"
#include "model/family.h"

static const char *const devices[] = {"reference", "cpu"};

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

/* What an object does between its making and its end, on a device. */
static void use_generator(tri_device *device, tri_dtype type) {
  for (int family = TRI_FAMILY_GPT2; family <= TRI_FAMILY_LLAMA; family++) {
    tri_model model = small_model((tri_family)family);
    tri_generator *generator = NULL;
    const double *logits = NULL;
    size_t before = device->memory_bytes, cache = 2 * 2 * 40 * 16 * tri_dtype_bytes(type);
    CHECK_OK(tri_generator_create(&model, type, 40, device, &generator));
    /* The parameters and the cache of keys and values at least. */
    assert_true(device->memory_bytes >= before + cache + 20 * 16 * tri_dtype_bytes(type));
    CHECK_OK(tri_generator_append(generator, (const int32_t[]){1, 2, 3}, 3, &logits));
    tri_generator_destroy(generator);
    assert_int_equal(device->memory_bytes, before);
  }
}

static void use_cacheless_generator(tri_device *device, tri_dtype type) {
  tri_model model = small_model(TRI_FAMILY_GPT2);
  tri_generator *generator = NULL;
  CHECK_FAILS(tri_generator_create(&model, type, (int64_t)1 << 50, device, &generator), TRI_OUT_OF_MEMORY, "");
  assert_null(generator);
}

static void use_executor(tri_device *device, tri_dtype type) {
  tri_model model = small_model(TRI_FAMILY_GPT2);
  tri_parameter_table *table = NULL;
  tri_op_list *list = NULL;
  tri_executor *executor = NULL;
  const int64_t one_frame = 1;
  CHECK_OK(tri_parameter_table_create(&model, NULL, &table));
  tri_list_request wanted = tri_list_request_whole(&model, TRI_LIST_EVALUATE, 2, 8, type);
  CHECK_OK(tri_model_operations(&model, &wanted, &list));
  tri_memory_request request = {.lists = (const tri_op_list *const *)&list,
                                .num_frames = &one_frame,
                                .num_chunks = 1,
                                .num_values = table->num_elements,
                                .device = &device->description};
  CHECK_OK(tri_executor_create(table, &request, device, NULL, &executor));
  assert_true(device->memory_bytes > 0);
  tri_executor_destroy(executor);
  tri_op_list_destroy(list);
  tri_parameter_table_destroy(table);
}

static void use_peak(tri_device *device, tri_dtype type) {
  double flops = 0;
  size_t peak = device->memory_peak_bytes;
  CHECK_OK(tri_matmul_flops(device, type, 0.01, &flops));
  assert_int_equal(device->memory_peak_bytes, peak); /* what a run reports is the run's */
}

static void test_every_object_gives_back(void **state) {
  (void)state;
  static void (*const uses[])(tri_device *, tri_dtype) = {use_generator, use_cacheless_generator, use_executor,
                                                          use_peak};
  for (size_t i = 0; i < 2 * sizeof uses / sizeof uses[0]; i++) {
    size_t outside = tri_memory_bytes();
    tri_device *device = NULL;
    CHECK_OK(tri_device_create(devices[i % 2], 1, &device));
    uses[i / 2](device, TRI_FP32);
    assert_int_equal(device->memory_bytes, 0);
    tri_device_destroy(device); /* with the kernels that it had made for the object */
    assert_int_equal(tri_memory_bytes(), outside);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_object_gives_back)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
