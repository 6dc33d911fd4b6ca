#include "engine/first_factors.h"

#include "base/memory.h"
#include "checkpoint/base_matrix.h"
#include "checkpoint/principal.h"
#include "device/queue.h"
#include "engine/engine_internal.h"

#include <string.h>

/* What this rank has of a factor or of magnitudes, of which `values` are all, as a file has them, in fp32 or fp64. */
static tri_status set_values(const tri_engine *engine, int64_t number, tri_dtype from, const void *values) {
  const tri_executor *executor = engine->executor;
  const tri_parameter *entry = &engine->parts.table->entries[number];
  const tri_element_range own = tri_element_range_of_values(engine->parts.buckets, engine->parts.table, number);
  const tri_dtype type = tri_stored_type(entry->stored, executor->type);
  const size_t element = tri_dtype_bytes(type);
  const int64_t length = tri_parameter_run_length(entry);
  char *host = NULL;
  if (own.count == 0) return TRI_OK;
  TRI_TRY(tri_alloc("initial values", (size_t)own.count, element, &host));
  for (int64_t i = 0; i < own.count; i++) {
    const int64_t at = own.first + i;
    const double value = tri_wide_get(from, values, tri_parameter_run(entry, at / length) + at % length);
    const uint16_t narrow = tri_bf16_of((float)value);
    if (type == TRI_BF16) {
      memcpy(host + (size_t)i * element, &narrow, element);
    } else {
      tri_wide_set(type, host, i, value);
    }
  }
  char *array = entry->frozen ? tri_executor_frozen(executor, entry->stored) : tri_executor_values(executor);
  tri_queue_at(engine->device->queue, "initial values", -1, NULL);
  tri_status status =
      tri_queue_upload_now(engine->device->queue, array + (size_t)own.at * element, host, (size_t)own.count * element);
  tri_free(host);
  return status;
}

static tri_status set_factor(const tri_engine *engine, int64_t number, const float *values) {
  return set_values(engine, number, TRI_FP32, values);
}

/* Of a part of a matrix on disk: the first part has all of A. */
static tri_status set_factors(const tri_engine *engine, const tri_parameter *entry, const tri_principal *of) {
  if (!tri_parameter_continues(entry)) {
    TRI_TRY(set_factor(engine, entry->factors[0], of->a));
    TRI_TRY(set_factor(engine, entry->firsts[0], of->a));
  }
  TRI_TRY(set_factor(engine, entry->factors[1], of->b));
  return set_factor(engine, entry->firsts[1], of->b);
}

tri_status tri_engine_begin_factors(tri_engine *engine, const tri_checkpoint *base) {
  const tri_parameter_table *table = engine->parts.table;
  const tri_adapter *adapter = &engine->options.model->tuning.adapter;
  tri_principal principal = {0};
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < table->num_entries && status == TRI_OK; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->factor || entry->firsts[0] < 0 || entry->count == 0) continue;
    if (!tri_parameter_continues(entry)) {
      const tri_parameter whole = tri_parameter_on_disk(entry);
      const tri_adapter_pair pair = tri_adapter_pair_of(adapter, entry->name);
      tri_principal_release(&principal);
      status = tri_principal_create(base, &whole, &pair, &principal);
    }
    if (status == TRI_OK) status = set_factors(engine, entry, &principal);
  }
  tri_principal_release(&principal);
  return status;
}

/* Of all parts of a matrix on disk, which follow each other in the table. */
static tri_status set_magnitudes(const tri_engine *engine, const tri_checkpoint *base, int64_t first,
                                 tri_device *quantiser) {
  const tri_parameter_table *table = engine->parts.table;
  const tri_parameter whole = tri_parameter_on_disk(&table->entries[first]);
  const int64_t outputs = whole.shape[whole.in_out ? 1 : 0];
  double *matrix = NULL, *norms = NULL;
  tri_status status = tri_alloc("magnitudes", (size_t)outputs, sizeof *norms, &norms);
  if (status == TRI_OK) status = tri_base_matrix_read(base, &whole, quantiser, &matrix);
  if (status == TRI_OK) tri_base_matrix_norms(&whole, matrix, norms);
  for (int64_t i = first; i < table->num_entries && status == TRI_OK; i++) {
    if (i > first && !tri_parameter_continues(&table->entries[i])) break;
    status = set_values(engine, table->entries[i].magnitude, TRI_FP64, norms);
  }
  tri_free(norms);
  tri_free(matrix);
  return status;
}

tri_status tri_engine_begin_magnitudes(tri_engine *engine, const tri_checkpoint *base) {
  const tri_parameter_table *table = engine->parts.table;
  tri_device *quantiser = NULL;
  tri_status status = tri_base_matrix_quantiser(engine->options.model->tuning.adapter.quantise, &quantiser);
  for (int64_t i = 0; i < table->num_entries && status == TRI_OK; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->factor || entry->magnitude < 0 || entry->count == 0 || tri_parameter_continues(entry)) continue;
    status = set_magnitudes(engine, base, i, quantiser);
  }
  tri_device_destroy(quantiser);
  return status;
}
