#include "engine/shards.h"

#include "base/memory.h"
#include "base/parts.h"

#include <stdio.h>
#include <string.h>

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static tri_checkpoint_tensor tensor_of(const tri_parameter *parameter, const char *name, tri_dtype wide) {
  tri_checkpoint_tensor tensor = {.name = name, .type = wide, .num_dims = parameter->num_dims};
  for (int d = 0; d < parameter->num_dims; d++) tensor.shape[d] = parameter->shape[d];
  return tensor;
}

/* Those of a tied pair are one tensor. */
static tri_status list_tensors(const tri_parameter_table *table, tri_dtype wide, tri_shards *shards) {
  size_t n = (size_t)table->num_entries;
  TRI_TRY(tri_alloc("a checkpoint's list", n, sizeof *shards->weights, &shards->weights));
  TRI_TRY(tri_alloc("a checkpoint's list", 2 * n, sizeof *shards->optimizer, &shards->optimizer));
  TRI_TRY(tri_alloc("a checkpoint's list", 2 * n, sizeof *shards->names, &shards->names));
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *parameter = &table->entries[e];
    if (parameter->tied_to >= 0) continue;
    int64_t i = shards->num_weights++;
    char *name1 = shards->names[2 * i], *name2 = shards->names[2 * i + 1];
    snprintf(name1, sizeof shards->names[0], "%s%s", parameter->name, TRI_CHECKPOINT_MOMENT1);
    snprintf(name2, sizeof shards->names[0], "%s%s", parameter->name, TRI_CHECKPOINT_MOMENT2);
    shards->weights[i] = tensor_of(parameter, parameter->name, wide);
    shards->optimizer[2 * i] = tensor_of(parameter, name1, wide);
    shards->optimizer[2 * i + 1] = tensor_of(parameter, name2, wide);
  }
  return TRI_OK;
}

const tri_checkpoint_tensor *tri_shards_tensor(const tri_shards *shards, int64_t number) {
  return number < shards->num_weights ? &shards->weights[number] : &shards->optimizer[number - shards->num_weights];
}

/* ---- what a rank holds ------------------------------------------------------------------------------------------- */

/* Where replicas hold the same, each saves a part of it. */
static tri_stretch divide(tri_stretch whole, const tri_mesh_seat *seat, tri_domain replicas) {
  int64_t first, count;
  tri_part_of(whole.count, tri_domain_size(&seat->shape, replicas),
              tri_domain_rank(&seat->shape, &seat->place, replicas), &first, &count);
  return (tri_stretch){whole.first + first, count, whole.at + first};
}

/* Stretches of values and of moments that a rank saves. */
typedef struct holder {
  const tri_layout *layout;
  const tri_buckets *buckets;
  const tri_parameter_table *table;
  tri_mesh_seat seat;
} holder;

static tri_stretch saved_values(const holder *h, int64_t entry) {
  tri_stretch stretch = tri_stretch_of_values(h->buckets, h->table, entry);
  const tri_bucket *bucket = tri_bucket_of(h->buckets, entry);
  bool sharded = bucket != NULL && bucket->values_sharded;
  return sharded ? stretch : divide(stretch, &h->seat, h->table->entries[entry].placement.replicas);
}

static tri_stretch saved_moments(const holder *h, int64_t entry) {
  tri_stretch stretch = tri_stretch_of_moments(h->buckets, h->table, entry);
  return h->layout->zero > 0 ? stretch : divide(stretch, &h->seat, h->table->entries[entry].placement.replicas);
}

static bool is_saved(const tri_parameter *entry) { return entry->count > 0 && entry->counted && entry->tied_to < 0; }

static void add(tri_shards *shards, int64_t tensor, const tri_parameter *part, tri_stretch stretch, void *array,
                size_t element, const tri_checkpoint_memory *memory) {
  if (stretch.count == 0) return;
  char *data = (char *)array + (size_t)stretch.at * element;
  shards->slices[shards->num_slices++] =
      (tri_checkpoint_slice){tensor, part, stretch.first, stretch.count, data, memory};
}

static bool is_to_save(tri_shards_use use) {
  switch (use) {
    case TRI_SHARDS_SAVE: return true;
    case TRI_SHARDS_LOAD: return false;
  }
  return false;
}

static tri_status list_slices(tri_engine *engine, tri_shards_use use, tri_shards *shards) {
  const tri_executor *executor = tri_engine_executor(engine);
  const tri_parameter_table *table = tri_engine_parameters(engine);
  const tri_layout *layout = tri_engine_get_options(engine)->layout;
  const tri_mesh *mesh = tri_engine_mesh(engine);
  const holder h = {layout, tri_engine_buckets(engine), table, {mesh->shape, mesh->place}};
  size_t element = tri_dtype_bytes(tri_dtype_wide(tri_engine_get_options(engine)->precision));
  const tri_checkpoint_memory *memory = tri_executor_memory(executor);
  int64_t *number = NULL;
  TRI_TRY(tri_alloc("a checkpoint's list", (size_t)table->num_entries, sizeof *number, &number));
  tri_status status =
      tri_alloc("a checkpoint's list", 3 * (size_t)table->num_entries, sizeof *shards->slices, &shards->slices);
  for (int64_t e = 0, n = 0; e < table->num_entries && status == TRI_OK; e++) {
    const tri_parameter *entry = &table->entries[e];
    number[e] = entry->tied_to >= 0 ? number[entry->tied_to] : n++;
    bool saves = is_to_save(use);
    if (saves ? !is_saved(entry) : entry->count == 0 || entry->alias) continue;
    int64_t moments = shards->num_weights + 2 * number[e];
    tri_stretch of_values = saves ? saved_values(&h, e) : tri_stretch_of_values(h.buckets, table, e);
    tri_stretch of_moments = saves ? saved_moments(&h, e) : tri_stretch_of_moments(h.buckets, table, e);
    add(shards, number[e], entry, of_values, tri_executor_values(executor), element, memory);
    add(shards, moments, entry, of_moments, tri_executor_moment1(executor), element, memory);
    add(shards, moments + 1, entry, of_moments, tri_executor_moment2(executor), element, memory);
  }
  tri_free(number);
  return status;
}

tri_status tri_shards_create(tri_engine *engine, tri_shards_use use, tri_shards *out) {
  tri_shards shards = {0};
  tri_dtype wide = tri_dtype_wide(tri_engine_get_options(engine)->precision);
  tri_status status = list_tensors(tri_engine_parameters(engine), wide, &shards);
  if (status == TRI_OK) status = list_slices(engine, use, &shards);
  if (status != TRI_OK) {
    tri_shards_release(&shards);
    return status;
  }
  *out = shards;
  return TRI_OK;
}

void tri_shards_release(tri_shards *shards) {
  tri_free(shards->slices);
  tri_free(shards->names);
  tri_free(shards->optimizer);
  tri_free(shards->weights);
  *shards = (tri_shards){0};
}

size_t tri_shards_slice_bytes(const tri_shards *shards, const tri_checkpoint_slice *slice) {
  return (size_t)slice->count * tri_dtype_bytes(tri_shards_tensor(shards, slice->tensor)->type);
}

tri_status tri_shards_download(tri_engine *engine, const tri_shards *shards, char *to_host) {
  tri_queue *queue = tri_engine_executor(engine)->device->queue;
  tri_queue_at(queue, "state", -1, "copying it");
  for (int64_t i = 0; i < shards->num_slices; i++) {
    size_t bytes = tri_shards_slice_bytes(shards, &shards->slices[i]);
    TRI_TRY(tri_queue_download(queue, to_host, shards->slices[i].data, bytes));
    to_host += bytes;
  }
  return tri_queue_finish(queue);
}

tri_status tri_shards_upload(tri_engine *engine, const tri_shards *shards, const char *from_host) {
  tri_queue *queue = tri_engine_executor(engine)->device->queue;
  tri_queue_at(queue, "state", -1, "taking it up");
  for (int64_t i = 0; i < shards->num_slices; i++) {
    size_t bytes = tri_shards_slice_bytes(shards, &shards->slices[i]);
    TRI_TRY(tri_queue_upload(queue, shards->slices[i].data, from_host, bytes));
    from_host += bytes;
  }
  return tri_queue_finish(queue);
}

size_t tri_shards_bytes(const tri_shards *shards) {
  size_t bytes = 0;
  for (int64_t i = 0; i < shards->num_slices; i++) bytes += tri_shards_slice_bytes(shards, &shards->slices[i]);
  return bytes;
}

size_t tri_shards_planned_bytes(const tri_engine_options *options, const tri_parts *parts,
                                const tri_mesh_place *place) {
  const holder h = {options->layout, parts->buckets, parts->table, {tri_layout_mesh(options->layout), *place}};
  int64_t elements = 0;
  for (int64_t e = 0; e < parts->table->num_entries; e++) {
    if (!is_saved(&parts->table->entries[e])) continue;
    elements += saved_values(&h, e).count + 2 * saved_moments(&h, e).count;
  }
  return (size_t)elements * tri_dtype_bytes(tri_dtype_wide(options->precision));
}
