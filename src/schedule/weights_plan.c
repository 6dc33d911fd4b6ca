#include "schedule/weights_plan.h"

#include "base/count.h"
#include "device/nf4.h"
#include "schedule/memory_plan.h"

static size_t reserve(size_t *end, int64_t elements, int64_t times, size_t element) {
  const size_t offset = *end, count = tri_bytes_times((size_t)elements, (size_t)times);
  *end = tri_bytes_plus(offset, tri_padded_bytes(tri_bytes_times(count, element)));
  return offset;
}

tri_weights_plan tri_weights_plan_make(const tri_buckets *buckets, int64_t num_values,
                                       const int64_t num_frozen[TRI_NUM_STORED], tri_dtype type) {
  const size_t wide = tri_dtype_bytes(tri_dtype_wide(type));
  tri_weights_plan plan = {.bytes = 0};
  plan.values = reserve(&plan.bytes, num_values, 1, wide);
  plan.gather_buffers =
      reserve(&plan.bytes, buckets == NULL ? 0 : buckets->gather_buffer_elements, TRI_BUCKET_BUFFERS, wide);
  for (int kept = 0; kept < TRI_NUM_STORED; kept++) {
    const int64_t elements = buckets == NULL ? 0 : buckets->frozen_buffer_elements[kept];
    plan.frozen_buffers[kept] =
        reserve(&plan.bytes, elements, TRI_BUCKET_BUFFERS, tri_stored_bytes((tri_stored)kept, type));
  }
  for (int kept = 0; kept < TRI_NUM_STORED; kept++)
    plan.frozen[kept] = reserve(&plan.bytes, num_frozen[kept], 1, tri_stored_bytes((tri_stored)kept, type));
  return plan;
}

size_t tri_weights_load_bytes(const tri_parameter_table *table, const tri_buckets *buckets, tri_dtype type) {
  size_t most = 0;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    tri_block_matrix blocks;
    if (!tri_stored_is_coded(entry->stored) || entry->count == 0) continue;
    if (tri_parameter_in_blocks(entry, &blocks)) {
      const size_t bytes = (size_t)tri_block_strip(&blocks, entry->in_out) * tri_dtype_bytes(tri_dtype_wide(type));
      if (bytes > most) most = bytes;
      continue;
    }
    const tri_bucket *bucket = buckets == NULL ? NULL : tri_bucket_of(buckets, table, i);
    const tri_nf4_cut cut = tri_parameter_cut(entry);
    const bool keeps_all = bucket == NULL || !bucket->values_sharded;
    const tri_nf4_scratch scratch = tri_nf4_scratch_of(&cut, tri_dtype_bytes(tri_dtype_wide(type)), keeps_all);
    if (scratch.bytes > most) most = scratch.bytes;
  }
  return most;
}
