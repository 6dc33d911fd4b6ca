#include "schedule/updates.h"

#include "base/count.h"
#include "base/memory.h"

/* Returns how many of the elements first .. end - 1 of the flat arrays this rank updates in a bucket. Sets *from to
 * the first of these elements, relative to `first`. */
static int64_t owned(const tri_bucket *bucket, int64_t first, int64_t end, int64_t *from) {
  const int64_t begin = first > bucket->own_first ? first : bucket->own_first;
  const int64_t stop = end < bucket->own_end ? end : bucket->own_end;
  *from = begin - first;
  return stop > begin ? stop - begin : 0;
}

typedef struct maker {
  const tri_parameter_table *table;
  const tri_buckets *buckets;
  tri_update_call like; /* members that are equal in all calls */
  tri_updates *list;
  int64_t room;
} maker;

static void place_states(tri_update_call *call, size_t *end) {
  for (int64_t s = 0; s < tri_update_num_states(call); s++) {
    call->states[s] = *end;
    *end = tri_bytes_plus(*end, tri_bytes_in_lines(tri_update_state_bytes(call, s)));
  }
}

/* Returns the number of entries, from `entry` on, that are the parts of one tensor on disk; 0 if the tensor begins
 * with an earlier entry. */
static int64_t parts_from(const tri_parameter_table *table, int64_t entry) {
  int64_t end = entry + 1;
  if (tri_parameter_continues(&table->entries[entry])) return 0;
  while (end < table->num_entries && tri_parameter_continues(&table->entries[end])) end++;
  return end - entry;
}

/* Adds a call for the elements [first, first + count) of an entry. */
static tri_status add_call(maker *m, const tri_parameter *tensor, int64_t entry, int64_t first, int64_t count) {
  tri_updates *list = m->list;
  const tri_parameter *whole = &m->table->entries[entry];
  const tri_group_settings *group = &m->like.settings->groups[tri_parameter_group_of(whole)];
  if (count == 0) return TRI_OK;
  TRI_TRY(tri_grow("updates", sizeof *list->calls, list->count, &m->room, &list->calls));
  tri_update_call *call = &list->calls[list->count++];
  *call = m->like;
  call->optimizer = tri_optimizer_of(m->like.settings, whole);
  call->tensor = *tensor;
  call->num_parts = 1;
  if (call->optimizer != NULL && call->optimizer->joins_parts && whole->within.rows > 0) {
    call->parts = whole;
    call->num_parts = parts_from(m->table, entry);
  }
  call->entry = entry;
  call->first = first;
  call->count = count;
  call->lr_scale = group->lr_scale;
  call->weight_decay = m->like.settings->weight_decay * group->weight_decay_scale;
  place_states(call, &list->state_bytes);
  return TRI_OK;
}

/* Adds the calls of an entry, one for each tensor, since buckets are cut between tensors. */
static tri_status add_tensors(maker *m, const tri_bucket *bucket, int64_t index) {
  const tri_parameter *entry = &m->table->entries[index];
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    int64_t first = 0, from = 0;
    tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    tensor.stacked = (tri_stacked){.as = TRI_STACKING_NONE}; /* the update sees a single matrix, however it is saved */
    const int64_t begin = entry->offset + first;
    const int64_t count = owned(bucket, begin, begin + tensor.count, &from);
    TRI_TRY(add_call(m, &tensor, index, first + from, count));
  }
  return TRI_OK;
}

static tri_status add_entry(maker *m, const tri_bucket *bucket, int64_t index) {
  const tri_parameter *entry = &m->table->entries[index];
  const tri_optimizer *optimizer = tri_optimizer_of(m->like.settings, entry);
  int64_t from = 0;
  if (!tri_parameter_is_in_arrays(entry)) return TRI_OK;
  m->like.bucket = bucket - m->buckets->entries;
  if (optimizer != NULL) {
    switch (optimizer->unit) {
      case TRI_UNIT_MATRIX: return add_tensors(m, bucket, index);
      case TRI_UNIT_ELEMENTS: break;
    }
  }
  const int64_t count = owned(bucket, entry->offset, entry->offset + entry->count, &from);
  return add_call(m, entry, index, from, count);
}

/* Fills the list bucket by bucket. Entries of a bucket are adjacent, and so are buckets. */
static tri_status fill_update_list(maker *m) {
  int64_t next = 0;
  for (int64_t b = 0; b < m->buckets->count; b++) {
    const tri_bucket *bucket = &m->buckets->entries[b];
    for (int64_t i = bucket->first_entry; i < bucket->end_entry; i++) {
      while (next <= i) m->list->first_call[next++] = m->list->count;
      TRI_TRY(add_entry(m, bucket, i));
    }
  }
  while (next <= m->table->num_entries) m->list->first_call[next++] = m->list->count;
  return TRI_OK;
}

tri_status tri_updates_create(const tri_optimizer_settings *settings, const tri_mesh_position *position, tri_dtype type,
                              const tri_parameter_table *table, const tri_buckets *buckets, tri_updates **out) {
  tri_updates *list = NULL;
  TRI_TRY(tri_alloc("updates", 1, sizeof *list, &list));
  maker m = {table, buckets, {.settings = settings, .position = *position, .type = type}, list, 0};
  tri_status status = tri_alloc("updates", (size_t)table->num_entries + 1, sizeof *list->first_call, &list->first_call);
  if (status == TRI_OK) status = fill_update_list(&m);
  if (status == TRI_OK) *out = list;
  if (status != TRI_OK) tri_updates_destroy(list);
  return status;
}

void tri_updates_destroy(tri_updates *updates) {
  if (updates == NULL) return;
  tri_free(updates->first_call);
  tri_free(updates->calls);
  tri_free(updates);
}

tri_status tri_updates_workspace(const tri_updates *updates, const tri_device_description *device, size_t *bytes) {
  *bytes = 0;
  for (int64_t i = 0; i < updates->count; i++) {
    size_t own = 0;
    TRI_TRY(tri_update_workspace(&updates->calls[i], device, &own));
    if (own > *bytes) *bytes = own;
  }
  return TRI_OK;
}
