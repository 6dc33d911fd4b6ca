#include "weights/weights.h"

#include "base/memory.h"
#include "device/queue.h"

#include <string.h>

static char *element_at(const tri_weights *weights, char *array, int64_t index) {
  return array + (size_t)index * tri_dtype_bytes(tri_dtype_wide(weights->type));
}

void *tri_weights_bucket_values(const tri_weights *weights, const tri_bucket *bucket) {
  int64_t first = bucket->buffer * (weights->buckets == NULL ? 0 : weights->buckets->gather_buffer_elements);
  if (bucket->values_sharded) return element_at(weights, weights->memory + weights->plan.gather_buffers, first);
  return element_at(weights, tri_weights_values(weights), bucket->values_at);
}

void *tri_weights_bucket_gradients(const tri_weights *weights, const tri_bucket *bucket) {
  int64_t first = bucket->buffer * (weights->buckets == NULL ? 0 : weights->buckets->reduce_buffer_elements);
  if (bucket->gradients_sharded) return element_at(weights, weights->training.reduce_buffers, first);
  return element_at(weights, weights->training.gradients, bucket->gradients_at);
}

void *tri_weights_own_values(const tri_weights *weights, const tri_bucket *bucket) {
  int64_t into = bucket->values_sharded ? 0 : bucket->own_first - bucket->first;
  return element_at(weights, tri_weights_values(weights), bucket->values_at + into);
}

void *tri_weights_own_gradients(const tri_weights *weights, const tri_bucket *bucket) {
  int64_t into = bucket->gradients_sharded ? 0 : bucket->own_first - bucket->first;
  return element_at(weights, weights->training.gradients, bucket->gradients_at + into);
}

char *tri_weights_frozen(const tri_weights *weights, tri_stored stored) {
  return weights->memory + weights->plan.frozen[stored];
}

void *tri_weights_own_frozen(const tri_weights *weights, const tri_bucket *bucket, tri_stored stored) {
  const tri_frozen_range *range = &bucket->frozen[stored];
  return tri_weights_frozen(weights, stored) + (size_t)range->at * tri_stored_bytes(stored, weights->type);
}

void *tri_weights_bucket_frozen(const tri_weights *weights, const tri_bucket *bucket, tri_stored stored) {
  const int64_t slot = bucket->buffer * weights->buckets->frozen_buffer_elements[stored];
  if (!bucket->values_sharded) return tri_weights_own_frozen(weights, bucket, stored);
  return weights->memory + weights->plan.frozen_buffers[stored] +
         (size_t)slot * tri_stored_bytes(stored, weights->type);
}

/* Returns the address of a whole frozen parameter. */
static void *frozen_value(const tri_weights *weights, int64_t index) {
  const tri_parameter *entry = &weights->table->entries[index];
  const size_t element = tri_stored_bytes(entry->stored, weights->type);
  const int64_t held = entry->alias ? entry->tied_to : index;
  const tri_bucket *bucket = weights->buckets == NULL ? NULL : tri_bucket_of(weights->buckets, weights->table, held);
  if (bucket == NULL) return tri_weights_frozen(weights, entry->stored) + (size_t)entry->offset * element;
  const int64_t into = entry->offset - bucket->frozen[entry->stored].first;
  return (char *)tri_weights_bucket_frozen(weights, bucket, entry->stored) + (size_t)into * element;
}

/* Sets the addresses of a frozen parameter. In weights that are trained, a vector gets the memory `sink` as its
 * gradient, which is not read: a kernel may compute this gradient together with that of a trained parameter. */
static void resolve_frozen(const tri_weights *weights, int64_t index, tri_run_parameter *out) {
  const tri_parameter *entry = &weights->table->entries[index];
  out->value = frozen_value(weights, index);
  if (weights->copies != NULL && entry->num_dims == 1) out->gradient = weights->training.sink;
  if (!tri_stored_is_coded(entry->stored)) return;
  out->matrices = tri_parameter_num_matrices(entry);
  if (tri_parameter_in_blocks(entry, &out->blocks)) {
    out->in_out = entry->in_out;
  } else {
    out->cut = tri_parameter_cut(entry);
  }
}

/* Sets the addresses at which operations find a parameter, in the whole values and gradients of its bucket. If the
 * bucket is sharded, these are in a gather or reduce buffer. Parameters of other stages have no memory on this rank. */
static void resolve_parameter(tri_weights *weights, int64_t index) {
  const tri_parameter_table *table = weights->table;
  const tri_parameter *entry = &table->entries[index];
  tri_run_parameter *parameter = &weights->parameters[index];
  size_t element = tri_dtype_bytes(tri_dtype_wide(weights->type));
  const tri_bucket *bucket = weights->buckets == NULL ? NULL : tri_bucket_of(weights->buckets, table, index);
  if (entry->count == 0) return;
  if (entry->frozen) {
    resolve_frozen(weights, index, parameter);
    return;
  }
  if (bucket != NULL) {
    size_t into = (size_t)(entry->offset - bucket->first) * element;
    parameter->value = (char *)tri_weights_bucket_values(weights, bucket) + into;
    parameter->gradient = (char *)tri_weights_bucket_gradients(weights, bucket) + into;
    return;
  }
  int64_t value = tri_element_range_of_values(weights->buckets, table, index).at;
  int64_t gradient = tri_element_range_of_gradients(weights->buckets, table, index).at;
  parameter->value = element_at(weights, tri_weights_values(weights), value);
  if (weights->copies != NULL) parameter->gradient = element_at(weights, weights->training.gradients, gradient);
}

static void resolve_parameters(tri_weights *weights) {
  for (int64_t i = 0; i < weights->table->num_entries; i++) resolve_parameter(weights, i);
  for (int64_t i = 0; i < weights->table->num_entries && weights->copies != NULL; i++) {
    const tri_parameter *entry = &weights->table->entries[i];
    weights->parameters[i].copy = &weights->copies[entry->alias ? entry->tied_to : i];
  }
}

tri_dtype tri_weights_type(const tri_weights *weights, const tri_parameter *entry) {
  return entry->frozen ? tri_stored_type(entry->stored, weights->type) : tri_dtype_wide(weights->type);
}

static bool can_share(const tri_weights *weights, const tri_weights *from, int64_t index) {
  const tri_parameter *entry = &weights->table->entries[index], *other = &from->table->entries[index];
  const tri_bucket *bucket = from->buckets == NULL ? NULL : tri_bucket_of(from->buckets, from->table, index);
  const bool coded = tri_stored_is_coded(entry->stored) || tri_stored_is_coded(other->stored);
  if (coded && entry->stored != other->stored) return false;
  if (bucket != NULL && bucket->values_sharded) return false;
  /* One GEMM reads a joined parameter and the one before it, but in `from` these two are not adjacent in memory, for
   * example because only one of them is frozen. */
  if (entry->joined && !other->joined) return false;
  return entry->count == other->count && tri_weights_type(weights, entry) == tri_weights_type(from, other);
}

bool tri_weights_can_share(const tri_weights *weights, const tri_weights *from) {
  bool can = weights->type == from->type && weights->table->num_entries == from->table->num_entries;
  for (int64_t i = 0; can && i < weights->table->num_entries; i++) can = can_share(weights, from, i);
  return can;
}

void tri_weights_share(tri_weights *weights, const tri_weights *from) {
  weights->shared = from;
  weights->device = from->device;
  for (int64_t i = 0; i < weights->table->num_entries; i++) {
    const tri_run_parameter *other = &from->parameters[i];
    weights->parameters[i] = (tri_run_parameter){.value = other->value,
                                                 .matrices = other->matrices,
                                                 .cut = other->cut,
                                                 .blocks = other->blocks,
                                                 .in_out = other->in_out};
  }
}

int64_t tri_weights_version(const tri_weights *weights) {
  return weights->shared == NULL ? weights->version : weights->shared->version;
}

void tri_weights_changed(tri_weights *weights) {
  for (int64_t i = 0; i < weights->table->num_entries; i++) weights->parameters[i].packed = false;
  tri_weights_set_version(weights, weights->version + 1);
}

void tri_weights_set_version(tri_weights *weights, int64_t version) {
  weights->version = version;
  for (int64_t i = 0; weights->copies != NULL && i < weights->table->num_entries; i++) weights->copies[i].written = 0;
}

/* Searches backwards for the copy that has the elements: the parameter's own, or the copy of the first of the
 * parameters that it is joined to (tri_parameter_joined). */
void *tri_weights_copy_to_write(tri_weights *weights, int64_t index, int64_t first, int64_t count) {
  const tri_parameter *entries = weights->table->entries;
  for (int64_t i = index;; i--) {
    tri_run_copy *copy = weights->parameters[i].copy;
    int64_t into = entries[index].offset - entries[i].offset + first;
    if (copy != NULL && into + count <= copy->count) {
      copy->written += count;
      return (char *)copy->values + (size_t)into * tri_dtype_bytes(weights->type);
    }
    if (!entries[i].joined) return NULL;
  }
}

void *tri_weights_values(const tri_weights *weights) { return weights->memory + weights->plan.values; }

void *tri_weights_gradients(const tri_weights *weights) { return weights->training.gradients; }

/* Returns the address of the first element that the call updates; `own`: this rank's shard of the call's bucket. */
static char *of_call(const tri_weights *weights, const tri_update_call *call, void *own) {
  const tri_bucket *bucket = &weights->buckets->entries[call->bucket];
  const int64_t into = weights->table->entries[call->entry].offset + call->first - bucket->own_first;
  return (char *)own + (size_t)into * tri_dtype_bytes(tri_dtype_wide(weights->type));
}

void *tri_weights_call_values(const tri_weights *weights, const tri_update_call *call) {
  return of_call(weights, call, tri_weights_own_values(weights, &weights->buckets->entries[call->bucket]));
}

void *tri_weights_call_gradients(const tri_weights *weights, const tri_update_call *call) {
  return of_call(weights, call, tri_weights_own_gradients(weights, &weights->buckets->entries[call->bucket]));
}

void *tri_weights_state(const tri_weights *weights, const tri_update_call *call, int64_t state) {
  return weights->training.states + call->states[state];
}

tri_status tri_weights_set(const tri_weights *weights, int64_t index, tri_dtype from, const void *values) {
  const tri_parameter *entry = &weights->table->entries[index];
  const tri_element_range own = tri_element_range_of_values(weights->buckets, weights->table, index);
  const tri_dtype type = tri_weights_type(weights, entry);
  const size_t element = tri_dtype_bytes(type);
  const int64_t length = tri_parameter_run_length(entry);
  char *host = NULL;
  if (own.count == 0) return TRI_OK;
  TRI_TRY(tri_alloc("values of a parameter", (size_t)own.count, element, &host));
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
  char *array = entry->frozen ? tri_weights_frozen(weights, entry->stored) : tri_weights_values(weights);
  tri_queue_at(weights->device->queue, "values of a parameter", -1, NULL);
  const tri_status status =
      tri_queue_upload_now(weights->device->queue, array + (size_t)own.at * element, host, (size_t)own.count * element);
  tri_free(host);
  return status;
}

tri_status tri_weights_create(const tri_parameter_table *table, const tri_buckets *buckets, tri_dtype type,
                              tri_weights **out) {
  tri_weights *weights = NULL;
  TRI_TRY(tri_alloc("weights", 1, sizeof *weights, &weights));
  *weights = (tri_weights){.table = table, .buckets = buckets, .type = type};
  tri_status status =
      tri_alloc("parameters", (size_t)table->num_entries, sizeof *weights->parameters, &weights->parameters);
  if (status == TRI_OK) *out = weights;
  if (status != TRI_OK) tri_weights_destroy(weights);
  return status;
}

tri_status tri_weights_allocate(tri_weights *weights, const tri_weights_plan *plan, tri_device *device) {
  void *memory = NULL;
  if (weights->device != NULL) return TRI_OK;
  TRI_TRY(tri_device_memory_create(device, plan->bytes, &memory));
  weights->device = device;
  weights->plan = *plan;
  weights->memory = memory;
  resolve_parameters(weights);
  return TRI_OK;
}

tri_status tri_weights_train(tri_weights *weights, const tri_weights_training *training) {
  const size_t entries = (size_t)weights->table->num_entries;
  TRI_TRY(tri_alloc("copies of parameters", entries, sizeof *weights->copies, &weights->copies));
  weights->training = *training;
  resolve_parameters(weights);
  return TRI_OK;
}

void tri_weights_destroy(tri_weights *weights) {
  if (weights == NULL) return;
  if (weights->memory != NULL) {
    tri_queue_drain(weights->device->queue); /* queued work reads and writes the values */
    tri_device_memory_destroy(weights->device, weights->memory, weights->plan.bytes);
  }
  tri_free(weights->copies);
  tri_free(weights->parameters);
  tri_free(weights);
}
