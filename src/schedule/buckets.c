#include "schedule/buckets.h"

#include "base/count.h"
#include "base/memory.h"
#include "mesh/parts.h"
#include "schedule/bucket_cuts.h"

#include <assert.h>

static int32_t chunk_of(const tri_model_share *share, int64_t layer) {
  for (int64_t c = 0; c < share->num_chunks; c++) {
    if (layer >= share->chunks[c].first && layer < share->chunks[c].end) return (int32_t)c;
  }
  return -1;
}

/* The entries to which other entries are tied: an embedding, and its LoRA factors. */
enum { MOST_TIED = 3 };
typedef struct tied_entries {
  int64_t of[MOST_TIED], count;
} tied_entries;

static tied_entries find_tied(const tri_parameter_table *table) {
  tied_entries found = {.count = 0};
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (table->entries[i].tied_to < 0) continue;
    assert(found.count < MOST_TIED);
    found.of[found.count++] = table->entries[i].tied_to;
  }
  return found;
}

/* Returns whether an entry is one of a tied pair. */
static bool is_tied(const tri_parameter_table *table, const tied_entries *tied, int64_t entry) {
  for (int64_t i = 0; i < tied->count; i++) {
    if (tied->of[i] == entry) return true;
  }
  return table->entries[entry].tied_to >= 0;
}

/* Returns whether an entry opens a new bucket after `bucket`: it belongs to another chunk or domain, begins a layer
 * while the bucket is full, or is one of a tied pair, whose gradients are complete later than those of its
 * neighbours. */
static bool opens(const tri_bucket *bucket, const tri_parameter *entry, int32_t chunk, bool tied, bool full) {
  if (bucket->chunk != chunk || bucket->replicas != entry->placement.replicas || bucket->tied != tied) return true;
  return entry->layer >= bucket->layers.end && full;
}

/* Returns whether buckets hold an entry: trained parameters, and under ZeRO 3 frozen ones as well. */
static bool is_held(const tri_buckets *buckets, const tri_parameter *entry) {
  if (tri_parameter_is_in_arrays(entry)) return true;
  return buckets->holds_frozen && entry->frozen && entry->count > 0 && !entry->alias;
}

static bool has_frozen(const tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (table->entries[i].frozen) return true;
  }
  return false;
}

/* Returns the length of an entry in its array, in elements; in bytes if the entry is coded. */
static int64_t length_of(const tri_parameter *entry) {
  if (!tri_stored_is_coded(entry->stored)) return entry->count;
  return tri_parameter_num_matrices(entry) * tri_parameter_matrix_bytes(entry);
}

/* Returns the size of an entry in elements, to find out when a bucket is full. Coded parameters count by their
 * bytes. */
static int64_t filling(const tri_parameter *entry, int64_t element_bytes) {
  return tri_stored_is_coded(entry->stored) ? length_of(entry) / element_bytes : entry->count;
}

/* Returns the number of elements of a bucket with `filled` elements after `entry` is added to it. The entry is counted
 * with its size on the first rank of the stage, because all ranks must open the next bucket at the same entry: they sum
 * partial gradients of a bucket together. The sizes of shards may differ, so with its own size a bucket could be full
 * on some ranks only. */
static int64_t filled_with(const tri_model_share *share, const tri_parameter *entry, int64_t element_bytes,
                           int64_t filled) {
  const tri_mesh_position first = {.shape = share->position.shape};
  const tri_parameter there = tri_parameter_of_position(entry, &first);
  return (entry->joined ? filled : tri_round_up(filled, TRI_BLOCK_ELEMENTS)) + filling(&there, element_bytes);
}

/* Creates the buckets: sets their entries and layers, and the domains over which gradients are summed. */
static tri_status collect(const tri_layout *layout, const tri_model_share *share, const tri_parameter_table *table,
                          int64_t element_bytes, tri_buckets *out) {
  int64_t enough = layout->bucket_bytes / element_bytes, filled = 0;
  const tied_entries pairs = find_tied(table);
  TRI_TRY(tri_alloc("buckets", (size_t)table->num_entries + 1, sizeof *out->entries, &out->entries));
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (!is_held(out, entry)) continue;
    int32_t chunk = chunk_of(share, entry->layer);
    bool tied = is_tied(table, &pairs, i);
    bool full = tri_round_up(filled, TRI_BLOCK_ELEMENTS) >= enough;
    if (out->count == 0 || opens(&out->entries[out->count - 1], entry, chunk, tied, full)) {
      filled = 0;
      tri_domain replicas = entry->placement.replicas;
      out->entries[out->count++] =
          (tri_bucket){.replicas = replicas,
                       .parts = entry->placement.parts,
                       .ranks = tri_domain_size(&share->position.shape, replicas),
                       .rank = tri_domain_rank(&share->position.shape, &share->position.place, replicas),
                       .first_entry = i,
                       .chunk = chunk,
                       .tied = tied,
                       .experts = entry->placement.has_holders,
                       .layers.first = entry->layer};
    }
    tri_bucket *bucket = &out->entries[out->count - 1];
    filled = filled_with(share, entry, element_bytes, filled);
    bucket->layers.end = entry->layer + 1;
    bucket->end_entry = i + 1;
    bucket->partial = bucket->partial || tri_parameter_is_partial(entry);
  }
  return TRI_OK;
}

/* Sets the ranges of each bucket in the arrays: each begins at the end of the range of the bucket before it, since
 * entries are in the order of the buckets in every array. */
static void measure(const tri_parameter_table *table, tri_buckets *buckets) {
  int64_t trained = 0, frozen[TRI_NUM_STORED] = {0};
  for (int64_t b = 0; b < buckets->count; b++) {
    tri_bucket *bucket = &buckets->entries[b];
    bucket->first = trained;
    for (int s = 0; s < TRI_NUM_STORED; s++) bucket->frozen[s].first = frozen[s];
    for (int64_t i = bucket->first_entry; i < bucket->end_entry; i++) {
      const tri_parameter *entry = &table->entries[i];
      if (!is_held(buckets, entry)) continue;
      *(entry->frozen ? &frozen[entry->stored] : &trained) = entry->offset + length_of(entry);
    }
    trained = bucket->end = tri_round_up(trained, TRI_BLOCK_ELEMENTS);
    for (int s = 0; s < TRI_NUM_STORED; s++)
      frozen[s] = bucket->frozen[s].end = tri_round_up(frozen[s], TRI_BLOCK_ELEMENTS);
  }
}

/* Cuts [first, end) into one part for each of `ranks` ranks, at multiples of TRI_BLOCK_ELEMENTS. Writes the begins of
 * the parts, relative to `first` and divided by `unit`, to begins[ranks + 1]. */
static void cut_range(int64_t first, int64_t end, int64_t ranks, int64_t unit, int64_t *begins) {
  const int64_t blocks = (end - first) / TRI_BLOCK_ELEMENTS;
  for (int64_t r = 0; r <= ranks; r++) begins[r] = tri_part_begin(blocks, ranks, r) * TRI_BLOCK_ELEMENTS / unit;
}

/* Cuts the frozen ranges of a bucket into one part for each replica, and sets the range that this rank keeps: its part
 * if `sharded`, else the whole range. */
static tri_status cut_frozen(tri_bucket *bucket, bool sharded) {
  for (int s = 0; s < TRI_NUM_STORED; s++) {
    tri_frozen_range *range = &bucket->frozen[s];
    const int64_t unit = tri_stored_unit((tri_stored)s);
    TRI_TRY(tri_alloc("buckets", (size_t)bucket->ranks + 1, sizeof *range->begins, &range->begins));
    cut_range(range->first, range->end, bucket->ranks, unit, range->begins);
    range->own_first = sharded ? range->first + range->begins[bucket->rank] * unit : range->first;
    range->own_end = sharded ? range->first + range->begins[bucket->rank + 1] * unit : range->end;
  }
  return TRI_OK;
}

static tri_status cut(const tri_layout *layout, const tri_optimizer_settings *optimizer, const tri_model_share *share,
                      const tri_parameter_table *table, tri_buckets *buckets) {
  const bool sharded = layout->zero > 0, between = sharded && tri_optimizer_has_matrices(optimizer);
  for (int64_t b = 0; b < buckets->count; b++) {
    tri_bucket *bucket = &buckets->entries[b];
    TRI_TRY(tri_alloc("buckets", (size_t)bucket->ranks + 1, sizeof *bucket->begins, &bucket->begins));
    cut_range(bucket->first, bucket->end, bucket->ranks, 1, bucket->begins);
  }
  if (between) TRI_TRY(tri_buckets_cut_at_tensors(optimizer, &share->position.shape, table, buckets));
  for (int64_t b = 0; b < buckets->count; b++) {
    tri_bucket *bucket = &buckets->entries[b];
    bucket->own_first = sharded ? bucket->first + bucket->begins[bucket->rank] : bucket->first;
    bucket->own_end = sharded ? bucket->first + bucket->begins[bucket->rank + 1] : bucket->end;
  }
  return TRI_OK;
}

/* Sets the offsets of a bucket's frozen parameters in the arrays, and the size of buffers to gather them. */
static void place_frozen(tri_bucket *bucket, tri_buckets *buckets) {
  for (int s = 0; s < TRI_NUM_STORED; s++) {
    tri_frozen_range *range = &bucket->frozen[s];
    const int64_t whole = range->end - range->first;
    int64_t *room = &buckets->frozen_buffer_elements[s];
    range->at = buckets->frozen_elements[s];
    buckets->frozen_elements[s] += range->own_end - range->own_first;
    if (bucket->values_sharded && whole > *room) *room = whole;
  }
}

/* Decides which buckets are sharded, sets the offsets of all buckets in the arrays, and sets the sizes of the arrays
 * and of the gather and reduce buffers. */
static tri_status place(const tri_layout *layout, const tri_parameter_table *table, int64_t micro_batches,
                        tri_buckets *buckets) {
  int32_t next_buffer = 0;
  for (int64_t b = 0; b < buckets->count; b++) {
    tri_bucket *bucket = &buckets->entries[b];
    int64_t whole = bucket->end - bucket->first, own = bucket->own_end - bucket->own_first;
    bool replicated = bucket->ranks > 1 && !bucket->tied;
    bucket->values_sharded = replicated && layout->zero > 2;
    bucket->gradients_sharded = replicated && layout->zero > 1 && micro_batches == 1 && whole > 0;
    bucket->values_at = buckets->value_elements;
    bucket->gradients_at = buckets->gradient_elements;
    buckets->value_elements += bucket->values_sharded ? own : whole;
    buckets->gradient_elements += bucket->gradients_sharded ? own : whole;
    if (bucket->values_sharded && whole > buckets->gather_buffer_elements) buckets->gather_buffer_elements = whole;
    if (bucket->gradients_sharded && whole > buckets->reduce_buffer_elements) buckets->reduce_buffer_elements = whole;
    if (bucket->values_sharded || bucket->gradients_sharded) bucket->buffer = next_buffer++ % TRI_BUCKET_BUFFERS;
    if (!buckets->holds_frozen) continue;
    TRI_TRY(cut_frozen(bucket, bucket->values_sharded));
    place_frozen(bucket, buckets);
  }
  buckets->gradient_elements += table->num_gradient_elements - table->num_elements;
  for (int s = 0; s < TRI_NUM_STORED && !buckets->holds_frozen; s++) buckets->frozen_elements[s] = table->num_frozen[s];
  return TRI_OK;
}

const tri_bucket *tri_bucket_of(const tri_buckets *buckets, const tri_parameter_table *table, int64_t entry) {
  if (table->entries[entry].frozen && !buckets->holds_frozen) return NULL;
  for (int64_t b = 0; b < buckets->count; b++) {
    if (entry >= buckets->entries[b].first_entry && entry < buckets->entries[b].end_entry) return &buckets->entries[b];
  }
  return NULL;
}

tri_element_range tri_element_range_within(tri_element_range whole, int64_t first, int64_t count) {
  int64_t begin = whole.first > first ? whole.first : first;
  int64_t end = whole.first + whole.count < first + count ? whole.first + whole.count : first + count;
  if (begin >= end) return (tri_element_range){0, 0, 0};
  return (tri_element_range){begin - first, end - begin, whole.at + begin - whole.first};
}

/* Returns the intersection of [from, from + count) with [first, end), relative to `from`. `at`: offset of element
 * `first` in the array. */
static tri_element_range part_within(int64_t from, int64_t count, int64_t first, int64_t end, int64_t at) {
  int64_t begin = from > first ? from : first;
  int64_t stop = from + count < end ? from + count : end;
  if (begin >= stop) return (tri_element_range){0, 0, 0};
  return (tri_element_range){begin - from, stop - begin, at + begin - first};
}

tri_element_range tri_element_range_of_frozen(const tri_buckets *buckets, const tri_parameter_table *table,
                                              int64_t index, int64_t first, int64_t count) {
  const tri_parameter *entry = &table->entries[index];
  if (entry->alias) return tri_element_range_of_frozen(buckets, table, entry->tied_to, first, count);
  const tri_bucket *bucket = buckets == NULL ? NULL : tri_bucket_of(buckets, table, index);
  if (bucket == NULL) return (tri_element_range){0, count, entry->offset + first};
  const tri_frozen_range *range = &bucket->frozen[entry->stored];
  return part_within(entry->offset + first, count, range->own_first, range->own_end, range->at);
}

tri_element_range tri_element_range_of_values(const tri_buckets *buckets, const tri_parameter_table *table,
                                              int64_t index) {
  const tri_parameter *entry = &table->entries[index];
  if (entry->alias) return tri_element_range_of_values(buckets, table, entry->tied_to);
  if (entry->frozen) return tri_element_range_of_frozen(buckets, table, index, 0, entry->count);
  const tri_bucket *bucket = buckets == NULL ? NULL : tri_bucket_of(buckets, table, index);
  if (bucket == NULL) return (tri_element_range){0, entry->count, entry->offset};
  if (bucket->values_sharded)
    return part_within(entry->offset, entry->count, bucket->own_first, bucket->own_end, bucket->values_at);
  return part_within(entry->offset, entry->count, bucket->first, bucket->end, bucket->values_at);
}

tri_element_range tri_element_range_of_gradients(const tri_buckets *buckets, const tri_parameter_table *table,
                                                 int64_t index) {
  const tri_parameter *entry = &table->entries[index];
  if (entry->frozen) return (tri_element_range){0, 0, 0};
  const tri_bucket *bucket = buckets == NULL || entry->alias ? NULL : tri_bucket_of(buckets, table, index);
  if (entry->alias && buckets != NULL) {
    int64_t from_end =
        table->num_gradient_elements - entry->gradient_offset; /* aliases are the last elements in the gradients of the
                                                                  table, and in those of the buckets */
    return (tri_element_range){0, entry->count, buckets->gradient_elements - from_end};
  }
  if (bucket == NULL) return (tri_element_range){0, entry->count, entry->gradient_offset};
  if (bucket->gradients_sharded)
    return part_within(entry->offset, entry->count, bucket->own_first, bucket->own_end, bucket->gradients_at);
  return part_within(entry->offset, entry->count, bucket->first, bucket->end, bucket->gradients_at);
}

tri_status tri_buckets_create(const tri_layout *layout, const tri_optimizer_settings *optimizer,
                              const tri_model_share *share, const tri_parameter_table *table, int64_t micro_batches,
                              int64_t element_bytes, tri_buckets **out) {
  tri_buckets *buckets = NULL;
  TRI_TRY(tri_alloc("buckets", 1, sizeof *buckets, &buckets));
  buckets->holds_frozen = layout->zero > 2 && has_frozen(table);
  tri_status status = collect(layout, share, table, element_bytes, buckets);
  measure(table, buckets);
  if (status == TRI_OK) status = cut(layout, optimizer, share, table, buckets);
  if (status == TRI_OK) status = place(layout, table, micro_batches, buckets);
  if (status == TRI_OK) *out = buckets;
  if (status != TRI_OK) tri_buckets_destroy(buckets);
  return status;
}

void tri_buckets_destroy(tri_buckets *buckets) {
  if (buckets == NULL) return;
  for (int64_t b = 0; b < buckets->count; b++) {
    tri_free(buckets->entries[b].begins);
    for (int s = 0; s < TRI_NUM_STORED; s++) tri_free(buckets->entries[b].frozen[s].begins);
  }
  tri_free(buckets->entries);
  tri_free(buckets);
}
