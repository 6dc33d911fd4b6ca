#include "engine/initialise.h"

#include "base/loop_threads.h"
#include "base/memory.h"
#include "base/random.h"
#include "device/queue.h"

#include <math.h>
#include <string.h>

enum { CHUNK_ELEMENTS = 1 << 16 };

static double value_of(const tri_parameter *parameter, tri_random_key key, int64_t index) {
  switch (parameter->init) {
    case TRI_INIT_ZERO: return 0.0;
    case TRI_INIT_ONE: return 1.0;
    case TRI_INIT_NORMAL: return parameter->std * tri_random_normal(key, (uint64_t)index);
    case TRI_INIT_UNIFORM: return parameter->std * sqrt(12.0) * (tri_random_uniform(key, (uint64_t)index) - 0.5);
  }
  return 0.0;
}

/* Computes `count` local elements from `first` on. `before`: number of elements in the earlier tensors of the
 * parameter, which the global index of an element includes. */
static void fill_chunk(const tri_parameter *tensor, tri_random_key key, int64_t before, int64_t first, int64_t count,
                       tri_dtype wide, void *host) {
  int64_t length = tri_parameter_run_length(tensor);
#pragma omp parallel for schedule(static) num_threads(tri_loop_threads())
  for (int64_t i = 0; i < count; i++) {
    int64_t at = first + i;
    double value = value_of(tensor, key, before + tri_parameter_run(tensor, at / length) + at % length);
    tri_wide_set(wide, host, i, value);
  }
}

typedef struct filling {
  tri_device *device;
  tri_dtype wide, kept; /* types in which values are computed, and in which they are stored */
  char *host, *values;
} filling;

/* Converts fp32 values to bf16 in place, in ascending order, so that no value is overwritten before it is read. */
static void make_narrow(char *host, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float value;
    memcpy(&value, host + 4 * i, sizeof value);
    const uint16_t narrow = tri_bf16_of(value);
    memcpy(host + 2 * i, &narrow, sizeof narrow);
  }
}

/* Writes this rank's elements of one tensor of a parameter. `own`: range of the parameter's elements that this rank
 * stores. */
static tri_status fill_tensor(const filling *f, const tri_parameter *parameter, int64_t number, tri_random_key key,
                              tri_element_range own) {
  size_t element = tri_dtype_bytes(f->kept);
  int64_t of_tensor = 0;
  const tri_parameter tensor = tri_parameter_tensor(parameter, number, &of_tensor);
  const int64_t before = number * tri_parameter_global_count(&tensor);
  const tri_element_range part = tri_element_range_within(own, of_tensor, tensor.count);
  for (int64_t done_count = 0; done_count < part.count; done_count += CHUNK_ELEMENTS) {
    int64_t count = part.count - done_count < CHUNK_ELEMENTS ? part.count - done_count : CHUNK_ELEMENTS;
    fill_chunk(&tensor, key, before, part.first + done_count, count, f->wide, f->host);
    if (f->kept != f->wide) make_narrow(f->host, count);
    char *to = f->values + (size_t)(part.at + done_count) * element;
    TRI_TRY(tri_queue_upload_now(f->device->queue, to, f->host, (size_t)count * element));
  }
  return TRI_OK;
}

tri_status tri_initialise(tri_device *device, const tri_parameter_table *table, const tri_buckets *buckets,
                          uint64_t seed, tri_dtype type, const tri_value_arrays *arrays) {
  filling f = {.device = device, .wide = tri_dtype_wide(type)};
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("initial values", CHUNK_ELEMENTS, tri_dtype_bytes(f.wide), &f.host));
  for (int64_t p = 0; p < table->num_entries; p++) {
    const tri_parameter *parameter = &table->entries[p];
    if (parameter->alias || tri_stored_is_coded(parameter->stored)) continue;
    int64_t stream = parameter->tied_to >= 0 ? parameter->tied_to : p;
    tri_random_key key = tri_random_stream(seed, TRI_RANDOM_INIT, (uint64_t)stream);
    tri_queue_at(device->queue, "initial values", -1, NULL);
    tri_element_range own = tri_element_range_of_values(buckets, table, p);
    f.kept = tri_stored_type(parameter->stored, type);
    f.values = parameter->frozen ? arrays->frozen[parameter->stored] : arrays->trained;
    for (int64_t t = 0; t < tri_parameter_num_tensors(parameter) && own.count > 0; t++) {
      TRI_TRY_GOTO(fill_tensor(&f, parameter, t, key, own), done);
    }
  }
done:
  tri_free(f.host);
  return status;
}
