#include "schedule/buckets.h"

#include "base/memory.h"
#include "base/parts.h"

static int32_t chunk_of(const tri_model_share *share, int64_t layer) {
  for (int64_t c = 0; c < share->num_chunks; c++) {
    if (layer >= share->chunks[c].first && layer < share->chunks[c].end) return (int32_t)c;
  }
  return -1;
}

/* The parameter that another is tied to; -1 where there is no such pair. */
static int64_t tied_entry(const tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (table->entries[i].tied_to >= 0) return table->entries[i].tied_to;
  }
  return -1;
}

/* Whether an entry opens a new bucket behind `bucket`: another chunk or domain, a new layer where the bucket is full,
 * or one of a tied pair, which has a bucket of its own since it is complete later than its neighbours. */
static bool opens(const tri_bucket *bucket, const tri_parameter *entry, int32_t chunk, bool tied, int64_t enough) {
  if (bucket->chunk != chunk || bucket->replicas != entry->placement.replicas || bucket->tied != tied) return true;
  return entry->layer >= bucket->layers.end && entry->offset - bucket->first >= enough;
}

static tri_status collect(const tri_layout *layout, const tri_model_share *share, const tri_parameter_table *table,
                          int64_t element_bytes, tri_buckets *out) {
  int64_t enough = layout->bucket_bytes / element_bytes, shared = tied_entry(table);
  TRI_TRY(tri_alloc("buckets", (size_t)table->num_entries + 1, sizeof *out->entries, &out->entries));
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->count == 0 || entry->alias) continue;
    int32_t chunk = chunk_of(share, entry->layer);
    bool tied = entry->tied_to >= 0 || i == shared;
    if (out->count == 0 || opens(&out->entries[out->count - 1], entry, chunk, tied, enough)) {
      if (out->count > 0) out->entries[out->count - 1].end = entry->offset;
      tri_domain replicas = entry->placement.replicas;
      out->entries[out->count++] =
          (tri_bucket){.first = entry->offset,
                       .replicas = replicas,
                       .ranks = tri_domain_size(&share->seat.shape, replicas),
                       .rank = tri_domain_rank(&share->seat.shape, &share->seat.place, replicas),
                       .first_entry = i,
                       .chunk = chunk,
                       .tied = tied,
                       .layers.first = entry->layer};
    }
    tri_bucket *bucket = &out->entries[out->count - 1];
    bucket->layers.end = entry->layer + 1;
    bucket->end_entry = i + 1;
    bucket->end = table->num_elements;
    bucket->partial = bucket->partial || entry->partial_gradient;
  }
  return TRI_OK;
}

/* Whole blocks, as evenly as they go. */
static tri_status cut(const tri_layout *layout, tri_buckets *buckets) {
  for (int64_t b = 0; b < buckets->count; b++) {
    tri_bucket *bucket = &buckets->entries[b];
    int64_t blocks = (bucket->end - bucket->first) / TRI_BLOCK_ELEMENTS;
    TRI_TRY(tri_alloc("buckets", (size_t)bucket->ranks + 1, sizeof *bucket->begins, &bucket->begins));
    for (int64_t r = 0; r <= bucket->ranks; r++) {
      bucket->begins[r] = tri_part_begin(blocks, bucket->ranks, r) * TRI_BLOCK_ELEMENTS;
    }
    bool sharded = layout->zero > 0;
    bucket->own_first = sharded ? bucket->first + bucket->begins[bucket->rank] : bucket->first;
    bucket->own_end = sharded ? bucket->first + bucket->begins[bucket->rank + 1] : bucket->end;
    bucket->state = buckets->state_elements;
    buckets->state_elements += bucket->own_end - bucket->own_first;
  }
  return TRI_OK;
}

/* Where everything lies in the arrays. */
static void place(const tri_layout *layout, const tri_parameter_table *table, int64_t micro_batches,
                  tri_buckets *buckets) {
  int32_t next_slot = 0;
  for (int64_t b = 0; b < buckets->count; b++) {
    tri_bucket *bucket = &buckets->entries[b];
    int64_t whole = bucket->end - bucket->first, own = bucket->own_end - bucket->own_first;
    bool may = bucket->ranks > 1 && !bucket->tied;
    bucket->values_sharded = may && layout->zero > 2;
    bucket->gradients_sharded = may && layout->zero > 1 && micro_batches == 1;
    bucket->values_at = buckets->value_elements;
    bucket->gradients_at = buckets->gradient_elements;
    buckets->value_elements += bucket->values_sharded ? own : whole;
    buckets->gradient_elements += bucket->gradients_sharded ? own : whole;
    if (bucket->values_sharded && whole > buckets->value_slot_elements) buckets->value_slot_elements = whole;
    if (bucket->gradients_sharded && whole > buckets->gradient_slot_elements) buckets->gradient_slot_elements = whole;
    if (bucket->values_sharded || bucket->gradients_sharded) bucket->slot = next_slot++ % TRI_BUCKET_SLOTS;
  }
  buckets->gradient_elements += table->num_gradient_elements - table->num_elements;
}

const tri_bucket *tri_bucket_of(const tri_buckets *buckets, int64_t entry) {
  for (int64_t b = 0; b < buckets->count; b++) {
    if (entry >= buckets->entries[b].first_entry && entry < buckets->entries[b].end_entry) return &buckets->entries[b];
  }
  return NULL;
}

/* The part of an entry within [first, end), which lies at `at`. */
static tri_stretch part_within(const tri_parameter *entry, int64_t first, int64_t end, int64_t at) {
  int64_t begin = entry->offset > first ? entry->offset : first;
  int64_t stop = entry->offset + entry->count < end ? entry->offset + entry->count : end;
  if (begin >= stop) return (tri_stretch){0, 0, 0};
  return (tri_stretch){begin - entry->offset, stop - begin, at + begin - first};
}

tri_stretch tri_stretch_of_values(const tri_buckets *buckets, const tri_parameter_table *table, int64_t index) {
  const tri_parameter *entry = &table->entries[index];
  if (entry->alias) return tri_stretch_of_values(buckets, table, entry->tied_to);
  const tri_bucket *bucket = buckets == NULL ? NULL : tri_bucket_of(buckets, index);
  if (bucket == NULL) return (tri_stretch){0, entry->count, entry->offset};
  if (bucket->values_sharded) return part_within(entry, bucket->own_first, bucket->own_end, bucket->values_at);
  return part_within(entry, bucket->first, bucket->end, bucket->values_at);
}

tri_stretch tri_stretch_of_gradients(const tri_buckets *buckets, const tri_parameter_table *table, int64_t index) {
  const tri_parameter *entry = &table->entries[index];
  const tri_bucket *bucket = buckets == NULL || entry->alias ? NULL : tri_bucket_of(buckets, index);
  if (entry->alias && buckets != NULL) {
    int64_t behind = table->num_gradient_elements - entry->gradient_offset; /* the last in either array */
    return (tri_stretch){0, entry->count, buckets->gradient_elements - behind};
  }
  if (bucket == NULL) return (tri_stretch){0, entry->count, entry->gradient_offset};
  if (bucket->gradients_sharded) return part_within(entry, bucket->own_first, bucket->own_end, bucket->gradients_at);
  return part_within(entry, bucket->first, bucket->end, bucket->gradients_at);
}

tri_stretch tri_stretch_of_moments(const tri_buckets *buckets, const tri_parameter_table *table, int64_t index) {
  const tri_parameter *entry = &table->entries[index];
  const tri_bucket *bucket = buckets == NULL || entry->alias ? NULL : tri_bucket_of(buckets, index);
  if (bucket == NULL) return (tri_stretch){0, entry->count, entry->offset};
  return part_within(entry, bucket->own_first, bucket->own_end, bucket->state);
}

tri_status tri_buckets_create(const tri_layout *layout, const tri_model_share *share, const tri_parameter_table *table,
                              int64_t micro_batches, int64_t element_bytes, tri_buckets **out) {
  tri_buckets *buckets = NULL;
  TRI_TRY(tri_alloc("buckets", 1, sizeof *buckets, &buckets));
  tri_status status = collect(layout, share, table, element_bytes, buckets);
  if (status == TRI_OK) status = cut(layout, buckets);
  if (status == TRI_OK) place(layout, table, micro_batches, buckets);
  if (status != TRI_OK) {
    tri_buckets_destroy(buckets);
    return status;
  }
  *out = buckets;
  return TRI_OK;
}

void tri_buckets_destroy(tri_buckets *buckets) {
  if (buckets == NULL) return;
  for (int64_t b = 0; b < buckets->count; b++) tri_free(buckets->entries[b].begins);
  tri_free(buckets->entries);
  tri_free(buckets);
}
