#include "engine/initialise.h"

#include "base/memory.h"
#include "base/random.h"
#include "device/queue.h"

enum { CHUNK_ELEMENTS = 1 << 16 };

static double value_of(const tri_parameter *parameter, tri_random_key key, int64_t index) {
  switch (parameter->init) {
    case TRI_INIT_ZERO: return 0.0;
    case TRI_INIT_ONE: return 1.0;
    case TRI_INIT_NORMAL: return parameter->std * tri_random_normal(key, (uint64_t)index);
  }
  return 0.0;
}

/* `count` local elements from `first` on, each by its global index. */
static void fill_chunk(const tri_parameter *parameter, tri_random_key key, int64_t first, int64_t count, tri_dtype wide,
                       void *host) {
  int64_t length = tri_parameter_run_length(parameter);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; i++) {
    int64_t at = first + i;
    double value = value_of(parameter, key, tri_parameter_run(parameter, at / length) + at % length);
    tri_wide_set(wide, host, i, value);
  }
}

tri_status tri_initialise(tri_device *device, const tri_parameter_table *table, const tri_buckets *buckets,
                          uint64_t seed, tri_dtype wide, void *values) {
  size_t element = tri_dtype_bytes(wide);
  char *host = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("initial values", CHUNK_ELEMENTS, element, &host));
  for (int64_t p = 0; p < table->num_entries; p++) {
    const tri_parameter *parameter = &table->entries[p];
    if (parameter->alias) continue;
    int64_t stream = parameter->tied_to >= 0 ? parameter->tied_to : p;
    tri_random_key key = tri_random_stream(seed, TRI_RANDOM_INIT, (uint64_t)stream);
    tri_queue_at(device->queue, "initial values", -1, NULL);
    tri_stretch own = tri_stretch_of_values(buckets, table, p);
    for (int64_t done_count = 0; done_count < own.count; done_count += CHUNK_ELEMENTS) {
      int64_t count = own.count - done_count < CHUNK_ELEMENTS ? own.count - done_count : CHUNK_ELEMENTS;
      fill_chunk(parameter, key, own.first + done_count, count, wide, host);
      char *to = (char *)values + (size_t)(own.at + done_count) * element;
      TRI_TRY_GOTO(tri_queue_upload_now(device->queue, to, host, (size_t)count * element), done);
    }
  }
done:
  tri_free(host);
  return status;
}
