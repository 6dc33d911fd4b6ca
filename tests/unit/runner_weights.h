/* Writes weights into a tri_runner. Each is a function of its index among all weights of the model, as in the parameter
 * table of training. */
#ifndef TRI_TEST_RUNNER_WEIGHTS_H
#define TRI_TEST_RUNNER_WEIGHTS_H

#include "base/memory.h"
#include "generation/runner.h"

typedef double (*runner_weight)(const void *context, int64_t number);

static inline void write_weight(tri_dtype type, void *to, int64_t i, double value) {
  switch (type) {
    case TRI_FP64: ((double *)to)[i] = value; return;
    case TRI_FP32: ((float *)to)[i] = (float)value; return;
    case TRI_BF16: ((uint16_t *)to)[i] = tri_bf16_of((float)value); return;
    case TRI_INT32: return;
  }
}

static inline tri_status write_entry(tri_executor *executor, int64_t entry, int64_t first, runner_weight weight,
                                     const void *context) {
  const tri_parameter *parameter = &executor->weights->table->entries[entry];
  const tri_dtype type = tri_stored_type(parameter->stored, executor->type);
  const size_t bytes = (size_t)parameter->count * tri_dtype_bytes(type);
  void *values = NULL;
  TRI_TRY(tri_alloc("weights", bytes, 1, &values));
  for (int64_t i = 0; i < parameter->count; i++) write_weight(type, values, i, weight(context, first + i));
  const tri_status status =
      tri_queue_upload_now(executor->device->queue, executor->weights->parameters[entry].value, values, bytes);
  tri_free(values);
  return status;
}

static inline tri_status write_runner_weights(tri_runner *runner, const tri_model *model, runner_weight weight,
                                              const void *context) {
  tri_executor *executor = tri_runner_executor(runner);
  tri_parameter_table *trained = NULL;
  TRI_TRY(tri_parameter_table_create(model, NULL, &trained));
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < trained->num_entries && status == TRI_OK; i++) {
    if (!trained->entries[i].alias) status = write_entry(executor, i, trained->entries[i].offset, weight, context);
  }
  tri_parameter_table_destroy(trained);
  tri_weights_changed(executor->weights);
  return status;
}

#endif
