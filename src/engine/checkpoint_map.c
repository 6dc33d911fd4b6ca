#include "engine/checkpoint_map.h"

#include "base/memory.h"
#include "engine/engine_internal.h"
#include "mesh/parts.h"
#include "optimizers/run.h"

#include <stdio.h>
#include <string.h>

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static tri_checkpoint_tensor tensor_of(const tri_parameter *parameter, const char *name, tri_dtype wide) {
  const tri_parameter whole = tri_parameter_on_disk(parameter);
  tri_checkpoint_tensor tensor = {.name = name, .type = wide, .num_dims = whole.num_dims};
  for (int d = 0; d < whole.num_dims; d++) tensor.shape[d] = whole.shape[d];
  return tensor;
}

static bool has_state(const tri_optimizer_settings *settings, const tri_optimizer *optimizer,
                      const tri_parameter *parameter, int64_t state) {
  const tri_state_shape shape = tri_optimizer_state_shape(settings, optimizer, parameter, state);
  return shape.num_dims > 0;
}

/* Returns the number of states before number `end` that a parameter has. */
static int64_t states_before(const tri_optimizer_settings *settings, const tri_optimizer *optimizer,
                             const tri_parameter *parameter, int64_t end) {
  int64_t count = 0;
  for (int64_t s = 0; s < end; s++) count += has_state(settings, optimizer, parameter, s);
  return count;
}

/* Returns the number of tensors that the optimizer keeps for each tensor of a parameter: its states, and the trained
 * point if it saves another one. */
static int64_t kept_of(const tri_optimizer_settings *settings, const tri_parameter *parameter) {
  const tri_optimizer *optimizer = tri_optimizer_of(settings, parameter);
  if (optimizer == NULL) return 0;
  return states_before(settings, optimizer, parameter, optimizer->num_states) + (optimizer->trained == NULL ? 0 : 1);
}

/* Returns whether a table's entry is in the list. A checkpoint of an adapted model has the trained parameters; the
 * others are those of the base, which is not copied. */
static bool is_listed(const tri_parameter_table *table, const tri_parameter *entry, tri_checkpoint_map_use use) {
  if (!table->has_factors) return true;
  switch (use) {
    case TRI_SHARDS_SAVE:
    case TRI_SHARDS_LOAD: return !entry->frozen;
    case TRI_SHARDS_LOAD_FACTORS: return entry->factor && !entry->first;
    case TRI_SHARDS_LOAD_BASE: break;
  }
  return !entry->factor;
}

/* Returns whether its average over the run is kept. Parts of one tensor agree, since they are frozen together. */
static bool is_averaged(const tri_optimizer_settings *settings, const tri_parameter *parameter) {
  return tri_average_is_kept(settings) && tri_optimizer_of(settings, parameter) != NULL;
}

/* Returns whether its matrices are one tensor in a checkpoint; each matrix still has optimizer states of its own. */
static bool is_stacked(const tri_parameter *entry) {
  switch (entry->stacked.as) {
    case TRI_STACKING_NONE: return false;
    case TRI_STACKING_ROWS:
    case TRI_STACKING_COLUMNS: break;
  }
  return true;
}

/* Returns the number of its matrices in a checkpoint; a tied pair counts once. */
static int64_t num_listed(const tri_parameter_table *table, const tri_parameter *entry, tri_checkpoint_map_use use) {
  return entry->tied_to < 0 && is_listed(table, entry, use) ? tri_parameter_num_tensors(entry) : 0;
}

static tri_status allocate_lists(const tri_parameter_table *table, const tri_optimizer_settings *settings,
                                 tri_checkpoint_map *shards) {
  size_t weights = 0, kept = 0;
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *parameter = &table->entries[e];
    size_t tensors = parameter->tied_to >= 0 ? 0 : (size_t)tri_parameter_num_tensors(parameter);
    weights += tensors;
    kept += (size_t)(kept_of(settings, parameter) + is_averaged(settings, parameter)) * tensors;
  }
  TRI_TRY(tri_alloc("a checkpoint's list", weights, sizeof *shards->weights, &shards->weights));
  TRI_TRY(tri_alloc("a checkpoint's list", weights, sizeof *shards->parts, &shards->parts));
  TRI_TRY(tri_alloc("a checkpoint's list", weights, sizeof *shards->pieces, &shards->pieces));
  TRI_TRY(tri_alloc("a checkpoint's list", weights, sizeof *shards->averages, &shards->averages));
  TRI_TRY(tri_alloc("a checkpoint's list", kept, sizeof *shards->optimizer, &shards->optimizer));
  return tri_alloc("a checkpoint's list", kept, sizeof *shards->names, &shards->names);
}

/* Adds a state's tensor: one for each part of a tensor on disk, unless the optimizer joins parts. */
static tri_checkpoint_tensor *add_kept(tri_checkpoint_map *shards, const tri_optimizer *optimizer,
                                       const tri_parameter *tensor, const char *suffix, tri_dtype wide) {
  const bool by_part = tensor->within.part != NULL && !optimizer->joins_parts;
  int64_t i = shards->num_optimizer++;
  if (!by_part) snprintf(shards->names[i], sizeof shards->names[i], "%s%s", tensor->name, suffix);
  if (by_part) {
    snprintf(shards->names[i], sizeof shards->names[i], "%s.%s%s", tensor->name, tensor->within.part, suffix);
  }
  tri_parameter alone = *tensor;
  alone.within = (tri_rows_within){.rows = 0};
  alone.stacked = (tri_stacked){.as = TRI_STACKING_NONE};
  shards->optimizer[i] = tensor_of(&alone, shards->names[i], wide);
  return &shards->optimizer[i];
}

tri_status tri_checkpoint_map_check_joined(const tri_engine *engine, const tri_checkpoint *checkpoint) {
  const tri_parameter_table *table = engine->parts.table;
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    const tri_optimizer *optimizer = tri_optimizer_of(engine->options.optimizer, entry);
    if (optimizer == NULL || !optimizer->joins_parts || entry->within.part == NULL) continue;
    for (int64_t s = 0; s < optimizer->num_states; s++) {
      char former[sizeof *((tri_checkpoint_map *)NULL)->names];
      snprintf(former, sizeof former, "%s.%s%s", entry->name, entry->within.part, optimizer->states[s].suffix);
      if (!tri_checkpoint_has(checkpoint, former)) continue;
      return tri_fail(TRI_BAD_FILE,
                      "%s has %s's state `%s`, of a part of a tensor; now `%s` is one tensor to it, as it is to "
                      "torch.optim, and the states of its parts are of no use: begin a new run with `init: %s`",
                      tri_checkpoint_path(checkpoint), optimizer->name, former, entry->name,
                      tri_checkpoint_path(checkpoint));
    }
  }
  return TRI_OK;
}

static void add_all_kept(tri_checkpoint_map *shards, const tri_optimizer_settings *settings,
                         const tri_optimizer *optimizer, const tri_parameter *tensor, tri_dtype wide) {
  for (int64_t s = 0; s < optimizer->num_states; s++) {
    if (!has_state(settings, optimizer, tensor, s)) continue;
    const tri_state_shape shape = tri_optimizer_state_shape(settings, optimizer, tensor, s);
    tri_checkpoint_tensor *state = add_kept(shards, optimizer, tensor, optimizer->states[s].suffix, wide);
    state->num_dims = (int)shape.num_dims;
    for (int64_t d = 0; d < shape.num_dims; d++) state->shape[d] = shape.dims[d];
  }
  if (optimizer->trained != NULL) add_kept(shards, optimizer, tensor, optimizer->trained, wide);
}

/* Adds the averages, with the weights' names and shapes on disk, after all states. */
static void list_averages(const tri_optimizer_settings *settings, tri_dtype wide, tri_checkpoint_map *shards) {
  shards->num_kept = shards->num_optimizer;
  for (int64_t w = 0; w < shards->num_weights; w++) {
    const tri_parameter *part = &shards->parts[w];
    shards->averages[w] = -1;
    if (!is_averaged(settings, part)) continue;
    const int64_t i = shards->num_optimizer++;
    snprintf(shards->names[i], sizeof shards->names[i], "%s%s", shards->weights[w].name, TRI_CHECKPOINT_AVERAGE);
    shards->optimizer[i] = tensor_of(part, shards->names[i], wide);
    shards->averages[w] = shards->num_weights + i;
  }
}

/* Returns the type in which values are read; those to be quantised to 4 bits are read wide. */
static tri_dtype read_type(tri_stored stored, tri_dtype precision) {
  switch (stored) {
    case TRI_STORED_WIDE:
    case TRI_STORED_NARROW: return tri_stored_type(stored, precision);
    case TRI_STORED_NF4: break;
  }
  return tri_dtype_wide(precision);
}

static tri_status list_tensors(const tri_parameter_table *table, const tri_engine_options *options,
                               tri_checkpoint_map_use use, tri_checkpoint_map *shards) {
  const tri_optimizer_settings *settings = options->optimizer;
  const tri_dtype wide = tri_dtype_wide(options->precision);
  TRI_TRY(allocate_lists(table, settings, shards));
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *parameter = &table->entries[e];
    const tri_optimizer *optimizer = tri_optimizer_of(settings, parameter);
    int64_t tensors = num_listed(table, parameter, use), first = 0;
    for (int64_t t = 0; t < tensors; t++) {
      const tri_parameter tensor = tri_parameter_tensor(parameter, t, &first);
      if (is_stacked(parameter)) shards->pieces[shards->num_pieces++] = tensor;
      if (!tri_parameter_continues(&tensor)) {
        int64_t i = shards->num_weights++;
        const tri_parameter *part = &shards->parts[i];
        shards->parts[i] = tensor;
        shards->weights[i] = tensor_of(part, is_stacked(parameter) ? parameter->name : part->name,
                                       read_type(parameter->stored, options->precision));
      }
      if (optimizer != NULL) add_all_kept(shards, settings, optimizer, &tensor, wide);
    }
  }
  list_averages(settings, wide, shards);
  return TRI_OK;
}

const tri_checkpoint_tensor *tri_checkpoint_map_tensor(const tri_checkpoint_map *shards, int64_t number) {
  return number < shards->num_weights ? &shards->weights[number] : &shards->optimizer[number - shards->num_weights];
}

/* ---- staged slices
 *
 * States that are not stored wide, and the point that an averaging optimizer saves, are converted while they are read
 * or written: one at a time, in the memory of this rank's gradients, which is unused between steps (tri_engine.staged).
 * Values written there are converted back into the state before another one is staged, and at the end. */

struct tri_checkpoint_map_staged {
  tri_checkpoint_memory memory;
  tri_engine *engine;
  const tri_update_call *call;
  int64_t state; /* -1: the point that is saved */
};

static tri_status make_staged(const tri_checkpoint_map_staged *s) {
  tri_engine *engine = s->engine;
  const tri_update_call *call = s->call;
  char *to = tri_executor_call_gradients(engine->executor, call);
  if (s->state >= 0) {
    return tri_update_widen(engine->device->queue, call, s->state, tri_executor_state(engine->executor, call, s->state),
                            to);
  }
  TRI_KERNEL_CALL(engine->device->queue, lerp, call->type, call->count, call->optimizer->evaluated(call->settings),
                  tri_executor_call_values(engine->executor, call), tri_executor_state(engine->executor, call, 0), to);
  return TRI_OK;
}

static tri_status narrow_staged(tri_engine *engine) {
  const tri_checkpoint_map_staged *s = engine->staged;
  if (s == NULL || !engine->staged_written) return TRI_OK;
  engine->staged_written = false;
  return tri_update_narrow(engine->device->queue, s->call, s->state,
                           tri_executor_call_gradients(engine->executor, s->call),
                           tri_executor_state(engine->executor, s->call, s->state));
}

static tri_status stage(const tri_checkpoint_map_staged *s) {
  tri_engine *engine = s->engine;
  if (engine->staged == s) return TRI_OK;
  TRI_TRY(narrow_staged(engine));
  engine->staged = s;
  TRI_TRY(make_staged(s));
  return tri_queue_finish(engine->device->queue);
}

static tri_status staged_read(void *context, void *to_host, const void *from, size_t bytes) {
  const tri_checkpoint_map_staged *s = context;
  const tri_checkpoint_memory *real = tri_executor_memory(s->engine->executor);
  TRI_TRY(stage(s));
  if (real != NULL) return real->read(real->context, to_host, from, bytes);
  memcpy(to_host, from, bytes);
  return TRI_OK;
}

static tri_status staged_write(void *context, void *to, const void *from_host, size_t bytes) {
  const tri_checkpoint_map_staged *s = context;
  const tri_checkpoint_memory *real = tri_executor_memory(s->engine->executor);
  TRI_TRY(stage(s));
  s->engine->staged_written = true;
  if (real != NULL) return real->write(real->context, to, from_host, bytes);
  memcpy(to, from_host, bytes);
  return TRI_OK;
}

tri_status tri_checkpoint_map_written(tri_engine *engine) {
  TRI_TRY(narrow_staged(engine));
  engine->staged = NULL;
  return tri_queue_finish(engine->device->queue);
}

/* ---- slices of a rank -------------------------------------------------------------------------------------------- */

/* Returns the share of a range that this rank saves; replicas share it. */
static tri_element_range divide(tri_element_range whole, const tri_mesh_position *position, tri_domain replicas) {
  int64_t first, count;
  tri_part_of(whole.count, tri_domain_size(&position->shape, replicas),
              tri_domain_rank(&position->shape, &position->place, replicas), &first, &count);
  return (tri_element_range){whole.first + first, count, whole.at + first};
}

/* Context for the ranges of values and states that a rank saves. */
typedef struct holder {
  const tri_layout *layout;
  const tri_buckets *buckets;
  const tri_parameter_table *table;
  tri_mesh_position position;
} holder;

static tri_element_range saved_values(const holder *h, int64_t entry) {
  tri_element_range range = tri_element_range_of_values(h->buckets, h->table, entry);
  const tri_bucket *bucket = tri_bucket_of(h->buckets, h->table, entry);
  bool sharded = bucket != NULL && bucket->values_sharded;
  return sharded ? range : divide(range, &h->position, h->table->entries[entry].placement.replicas);
}

/* Returns the range of a call's elements that this rank saves; `at` counts from the call's first element. */
static tri_element_range saved_of_call(const holder *h, const tri_update_call *call) {
  const tri_element_range range = {call->first, call->count, 0};
  return h->layout->zero > 0 ? range : divide(range, &h->position, h->table->entries[call->entry].placement.replicas);
}

/* Returns the range to save of a state with a shape of its own. All ranks with shards of the tensor have it; the first
 * saves it. */
static tri_element_range saved_of_own_shape(const holder *h, const tri_update_call *call, int64_t state) {
  const tri_parameter_placement *placed = &h->table->entries[call->entry].placement;
  const tri_element_range all = {0, tri_update_state_count(call, state), 0};
  if (tri_domain_rank(&h->position.shape, &h->position.place, placed->parts) > 0) return (tri_element_range){0};
  return h->layout->zero > 0 ? all : divide(all, &h->position, placed->replicas);
}

static tri_element_range saved_of_state(const holder *h, const tri_update_call *call, int64_t state) {
  return tri_update_has_own_shape(call, state) ? saved_of_own_shape(h, call, state) : saved_of_call(h, call);
}

static bool is_saved(const tri_parameter *entry) { return entry->count > 0 && entry->counted && entry->tied_to < 0; }

static bool is_to_save(tri_checkpoint_map_use use) {
  switch (use) {
    case TRI_SHARDS_SAVE: return true;
    case TRI_SHARDS_LOAD:
    case TRI_SHARDS_LOAD_FACTORS:
    case TRI_SHARDS_LOAD_BASE: return false;
  }
  return false;
}

typedef struct lister {
  tri_engine *engine;
  tri_checkpoint_map *shards;
  holder h;
  bool saves;
  int64_t weight, kept; /* numbers of the entry's first tensors, among the weights and among the optimizer's */
  int64_t piece;        /* index of the first of its matrices, if they are one tensor */
} lister;

/* Returns matrix t of an entry as a part of a tensor in a checkpoint. A tied entry shares the other one's tensor, but
 * may be the one that this rank holds. */
static const tri_parameter *part_of(const lister *l, const tri_parameter *entry, int64_t t) {
  if (is_stacked(entry)) return &l->shards->pieces[l->piece + t];
  return tri_parameter_num_tensors(entry) > 1 ? &l->shards->parts[l->weight + t] : entry;
}

/* Returns the number of its tensor, if the first one has number `first` and the next ones follow at distance `stride`.
 */
static int64_t number_of(const lister *l, const tri_parameter *entry, int64_t first, int64_t stride, int64_t t) {
  const bool apart = first >= l->shards->num_weights && first < l->shards->num_weights + l->shards->num_kept;
  return is_stacked(entry) && !apart ? first : first + stride * t;
}

static void add(tri_checkpoint_map *shards, int64_t tensor, const tri_parameter *part, tri_element_range range,
                void *array, size_t element, const tri_checkpoint_memory *memory) {
  if (range.count == 0) return;
  char *data = (char *)array + (size_t)range.at * element;
  const bool apart = tensor >= shards->num_weights && tensor < shards->num_weights + shards->num_kept;
  shards->slices[shards->num_slices++] =
      (tri_checkpoint_slice){tensor, part, apart, range.first, range.count, data, memory};
}

static const tri_checkpoint_memory *staged_memory(lister *l, const tri_update_call *call, int64_t state) {
  tri_checkpoint_map_staged *s = &l->shards->staged[l->shards->num_staged++];
  *s = (tri_checkpoint_map_staged){{s, staged_read, staged_write, NULL}, l->engine, call, state};
  return &s->memory;
}

/* Address of a call's elements, and how to access them. */
typedef struct source {
  char *data;
  const tri_checkpoint_memory *memory;
} source;

static source source_of_state(lister *l, const tri_update_call *call, int64_t state) {
  const tri_executor *executor = l->engine->executor;
  const bool wide = tri_update_is_wide(call, state);
  if (wide) return (source){tri_executor_state(executor, call, state), tri_executor_memory(executor)};
  return (source){tri_executor_call_gradients(l->engine->executor, call), staged_memory(l, call, state)};
}

/* Adds slices of a call's elements, from a source, for the tensors of its entry: number `first_tensor` and every
 * `stride`-th after it. */
static void add_of_call(lister *l, const tri_update_call *call, source from, int64_t first_tensor, int64_t stride) {
  const tri_parameter *entry = &l->h.table->entries[call->entry];
  const size_t element = tri_dtype_bytes(tri_dtype_wide(call->type));
  const tri_element_range whole =
      l->saves ? saved_of_call(&l->h, call) : (tri_element_range){call->first, call->count, 0};
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    int64_t first = 0;
    const int64_t count = tri_parameter_tensor(entry, t, &first).count;
    add(l->shards, number_of(l, entry, first_tensor, stride, t), part_of(l, entry, t),
        tri_element_range_within(whole, first, count), from.data, element, from.memory);
  }
}

/* Adds a slice of a state with a shape of its own, for the tensor that the call updates. */
static void add_own_shape(lister *l, const tri_update_call *call, int64_t state, int64_t first_tensor, int64_t stride) {
  const tri_parameter *entry = &l->h.table->entries[call->entry];
  const source from = source_of_state(l, call, state);
  const tri_element_range all = {0, tri_update_state_count(call, state), 0};
  const tri_element_range own = l->saves ? saved_of_own_shape(&l->h, call, state) : all;
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    int64_t first = 0;
    const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    if (tensor.count == 0 || first != call->first) continue;
    add(l->shards, first_tensor + stride * t, NULL, own, from.data, tri_dtype_bytes(tri_dtype_wide(call->type)),
        from.memory);
  }
}

static void add_state(lister *l, const tri_update_call *call, int64_t state, int64_t first_tensor, int64_t stride) {
  if (tri_update_has_own_shape(call, state)) {
    add_own_shape(l, call, state, first_tensor, stride);
  } else {
    add_of_call(l, call, source_of_state(l, call, state), first_tensor, stride);
  }
}

/* Adds matrices in 4 bits. All use the same scratch memory, and each is read whole. */
static void add_quantised(lister *l, int64_t e) {
  const tri_parameter *entry = &l->h.table->entries[e];
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    tri_checkpoint_map *shards = l->shards;
    int64_t first = 0;
    const int64_t count = tri_parameter_tensor(entry, t, &first).count;
    if (count == 0) continue;
    tri_quantised *matrix = &shards->quantised[shards->num_quantised++];
    tri_quantised_set_up(l->engine->executor, e, first / count, matrix);
    add(shards, l->weight + t, NULL, (tri_element_range){0, matrix->cut.total, 0}, matrix->wide,
        tri_dtype_bytes(matrix->type), &matrix->memory);
  }
}

/* Reads or writes elements [first, first + count) of the alternating order: the elements of each of the n members are
 * transferred at once, from or to every n-th element of the host's. */
static tri_status pass_alternating(const tri_checkpoint_map_alternating *a, int64_t first, int64_t count, char *to_host,
                                   const char *from_host) {
  const tri_checkpoint_memory *real = tri_executor_memory(a->engine->executor);
  const int64_t n = a->part.stacked.together;
  char *own = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("members of a stack", (size_t)(count / n + 2), a->element, &own));
  for (int64_t m = 0; m < n && status == TRI_OK; m++) {
    const int64_t begin = first <= m ? 0 : (first - m + n - 1) / n;
    const int64_t end = first + count <= m ? 0 : (first + count - m + n - 1) / n;
    const size_t bytes = end > begin ? (size_t)(end - begin) * a->element : 0;
    char *at = a->first + (size_t)(m * a->distance + begin) * a->element;
    if (bytes == 0) continue;
    if (to_host != NULL && real != NULL) status = real->read(real->context, own, at, bytes);
    if (to_host != NULL && real == NULL) memcpy(own, at, bytes);
    for (int64_t i = begin; i < end && status == TRI_OK; i++) {
      const size_t there = (size_t)(i * n + m - first) * a->element, here = (size_t)(i - begin) * a->element;
      if (to_host != NULL) memcpy(to_host + there, own + here, a->element);
      if (to_host == NULL) memcpy(own + here, from_host + there, a->element);
    }
    if (to_host == NULL && real != NULL && status == TRI_OK) status = real->write(real->context, at, own, bytes);
    if (to_host == NULL && real == NULL) memcpy(at, own, bytes);
  }
  tri_free(own);
  return status;
}

/* Addresses of a slice count from the first member, as if all elements were there in the alternating order. */
static tri_status alternating_read(void *context, void *to_host, const void *from, size_t bytes) {
  const tri_checkpoint_map_alternating *a = context;
  const int64_t first = ((const char *)from - a->first) / (int64_t)a->element;
  return pass_alternating(a, first, (int64_t)(bytes / a->element), to_host, NULL);
}

static tri_status alternating_write(void *context, void *to, const void *from_host, size_t bytes) {
  const tri_checkpoint_map_alternating *a = context;
  const int64_t first = ((const char *)to - a->first) / (int64_t)a->element;
  return pass_alternating(a, first, (int64_t)(bytes / a->element), NULL, from_host);
}

/* Finds the members [*first, *end) of an entry that this rank saves whole and whose elements alternate in the file. */
static void find_alternating(const lister *l, const tri_parameter *entry, tri_element_range values, int64_t *first,
                             int64_t *end) {
  *first = *end = 0;
  switch (entry->stacked.as) {
    case TRI_STACKING_NONE:
    case TRI_STACKING_ROWS: return;
    case TRI_STACKING_COLUMNS: break;
  }
  const int64_t member = entry->local[0] * entry->local[1] * entry->stacked.kinds;
  if (!l->saves || member == 0) return;
  const int64_t begin = (values.first + member - 1) / member, stop = (values.first + values.count) / member;
  if (stop - begin < 2) return;
  *first = entry->first_member + begin;
  *end = entry->first_member + stop;
}

static void add_alternating(lister *l, const tri_parameter *entry, tri_element_range values, int64_t first, int64_t end,
                            int64_t tensor, char *array, size_t element) {
  const int64_t count = entry->local[0] * entry->local[1], kinds = entry->stacked.kinds, n = end - first;
  for (int64_t kind = 0; kind < kinds && n > 0; kind++) {
    tri_checkpoint_map_alternating *a = &l->shards->alternating[l->shards->num_alternating++];
    const int64_t before = ((first - entry->first_member) * kinds + kind) * count;
    *a =
        (tri_checkpoint_map_alternating){.memory = {a, alternating_read, alternating_write, NULL}, .engine = l->engine};
    a->part = l->shards->pieces[l->piece + first * kinds + kind];
    a->part.stacked.together = n;
    a->part.count = n * count;
    a->first = array + (size_t)(values.at + before - values.first) * element;
    a->count = count;
    a->distance = kinds * count;
    a->element = element;
    add(l->shards, tensor, &a->part, (tri_element_range){0, n * count, 0}, a->first, element, &a->memory);
  }
}

/* Adds slices of values that are stored in their array as they are. */
static void add_values(lister *l, const tri_parameter *entry, tri_element_range values, int64_t first_tensor,
                       int64_t stride) {
  const tri_executor *executor = l->engine->executor;
  const size_t element = tri_dtype_bytes(tri_stored_type(entry->stored, executor->type));
  void *array = entry->frozen ? tri_executor_frozen(executor, entry->stored) : tri_executor_values(executor);
  int64_t first_member = 0, end_member = 0;
  if (first_tensor == l->weight) find_alternating(l, entry, values, &first_member, &end_member);
  add_alternating(l, entry, values, first_member, end_member, first_tensor, array, element);
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    int64_t first = 0;
    if (end_member > 0 && t / entry->kinds >= first_member && t / entry->kinds < end_member) continue;
    const int64_t count = tri_parameter_tensor(entry, t, &first).count;
    add(l->shards, number_of(l, entry, first_tensor, stride, t), part_of(l, entry, t),
        tri_element_range_within(values, first, count), array, element, tri_executor_memory(executor));
  }
}

/* Adds the slices of an entry on this rank, tensor by tensor. */
static void add_entry(lister *l, int64_t e) {
  const tri_parameter *entry = &l->h.table->entries[e];
  const tri_updates *updates = l->engine->parts.updates;
  const tri_optimizer_settings *settings = l->engine->options.optimizer;
  const tri_optimizer *optimizer = tri_optimizer_of(settings, entry);
  const int64_t stride = kept_of(settings, entry);
  const bool averages = optimizer != NULL && optimizer->trained != NULL;
  const tri_element_range values =
      l->saves ? saved_values(&l->h, e) : tri_element_range_of_values(l->h.buckets, l->h.table, e);
  if (entry->stored == TRI_STORED_NF4) {
    add_quantised(l, e);
    return;
  }
  if (!averages || !l->saves) add_values(l, entry, values, l->weight, 1);
  if (averages) add_values(l, entry, values, l->kept + stride - 1, stride);
  for (int64_t c = updates->first_call[e]; optimizer != NULL && c < updates->first_call[e + 1]; c++) {
    const tri_update_call *call = &updates->calls[c];
    for (int64_t s = 0; s < optimizer->num_states; s++) {
      if (!has_state(settings, optimizer, entry, s)) continue;
      add_state(l, call, s, l->kept + states_before(settings, optimizer, entry, s), stride);
    }
    if (is_averaged(settings, entry)) {
      const int64_t s = optimizer->num_states;
      add_of_call(l, call, source_of_state(l, call, s), l->shards->averages[l->weight], 1);
    }
    if (!averages || !l->saves) continue;
    const source saved = {tri_executor_call_gradients(l->engine->executor, call), staged_memory(l, call, -1)};
    add_of_call(l, call, saved, l->weight, 1);
  }
}

/* Numbers of each entry's first tensors. */
typedef struct tensor_numbers {
  int64_t weight, kept, piece;
} tensor_numbers;

static void number_tensors(const tri_parameter_table *table, const tri_optimizer_settings *settings,
                           tri_checkpoint_map_use use, int64_t num_weights, tensor_numbers *out) {
  tensor_numbers next = {0, num_weights, 0};
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    out[e] = entry->tied_to >= 0 ? out[entry->tied_to] : next;
    if (tri_parameter_continues(entry)) {
      out[e].weight = out[e - 1].weight;
    } else {
      const int64_t listed = num_listed(table, entry, use);
      next.weight += is_stacked(entry) && listed > 0 ? 1 : listed;
      if (is_stacked(entry)) next.piece += listed;
    }
    next.kept += kept_of(settings, entry) * num_listed(table, entry, use);
  }
}

/* Allocates for the upper bound: each call of an optimizer has at most one slice of each of its tensors, and of each
 * state. */
static tri_status allocate_slices(const tri_engine *engine, tri_checkpoint_map *shards) {
  const tri_updates *updates = engine->parts.updates;
  const tri_parameter_table *table = engine->parts.table;
  size_t most = 0, quantised = 0;
  for (int64_t e = 0; e < table->num_entries; e++) {
    const int64_t calls = updates->first_call[e + 1] - updates->first_call[e];
    if (table->entries[e].stored == TRI_STORED_NF4) {
      quantised += (size_t)tri_parameter_num_matrices(&table->entries[e]);
    }
    const int64_t each = TRI_UPDATE_STATES + 1;
    most += (size_t)(tri_parameter_num_tensors(&table->entries[e]) * (2 + each * calls));
  }
  TRI_TRY(tri_alloc("a checkpoint's list", TRI_PARAMETER_KINDS * (size_t)table->num_entries,
                    sizeof *shards->alternating, &shards->alternating));
  const size_t staged = (size_t)(updates->count * (TRI_UPDATE_STATES + 1));
  TRI_TRY(tri_alloc("a checkpoint's list", most, sizeof *shards->slices, &shards->slices));
  TRI_TRY(tri_alloc("a checkpoint's list", quantised, sizeof *shards->quantised, &shards->quantised));
  return tri_alloc("a checkpoint's list", staged, sizeof *shards->staged, &shards->staged);
}

static tri_status list_slices(tri_engine *engine, tri_checkpoint_map_use use, tri_checkpoint_map *shards) {
  const tri_parameter_table *table = engine->parts.table;
  const tri_mesh *mesh = engine->options.mesh;
  lister l = {.engine = engine,
              .shards = shards,
              .h = {engine->options.layout, engine->parts.buckets, table, {mesh->shape, mesh->place}},
              .saves = is_to_save(use)};
  tensor_numbers *numbers = NULL;
  TRI_TRY(tri_alloc("a checkpoint's list", (size_t)table->num_entries, sizeof *numbers, &numbers));
  tri_status status = allocate_slices(engine, shards);
  if (status == TRI_OK) number_tensors(table, engine->options.optimizer, use, shards->num_weights, numbers);
  for (int64_t e = 0; e < table->num_entries && status == TRI_OK; e++) {
    const tri_parameter *entry = &table->entries[e];
    if (l.saves ? !is_saved(entry) : entry->count == 0 || entry->alias) continue;
    if (!is_listed(table, entry, use)) continue;
    l.weight = numbers[e].weight;
    l.kept = numbers[e].kept;
    l.piece = numbers[e].piece;
    add_entry(&l, e);
  }
  tri_free(numbers);
  return status;
}

tri_status tri_checkpoint_map_create(tri_engine *engine, tri_checkpoint_map_use use, tri_checkpoint_map *out) {
  tri_checkpoint_map shards = {.elsewhere = use == TRI_SHARDS_LOAD_FACTORS || use == TRI_SHARDS_LOAD_BASE};
  const tri_engine_options *options = &engine->options;
  tri_status status = list_tensors(engine->parts.table, options, use, &shards);
  if (status == TRI_OK) status = list_slices(engine, use, &shards);
  if (status != TRI_OK) {
    tri_checkpoint_map_release(&shards);
    return status;
  }
  *out = shards;
  return TRI_OK;
}

bool tri_checkpoint_map_keep_narrow(const tri_engine *engine) {
  const tri_updates *updates = engine->parts.updates;
  const tri_parameter_table *table = engine->parts.table;
  const tri_dtype type = engine->options.precision;
  for (int64_t e = 0; e < table->num_entries; e++) {
    if (tri_stored_type(table->entries[e].stored, type) != tri_dtype_wide(type)) return true;
  }
  for (int64_t i = 0; i < updates->count; i++) {
    const tri_update_call *call = &updates->calls[i];
    for (int64_t s = 0; call->optimizer != NULL && s < call->optimizer->num_states; s++) {
      if (!tri_update_is_wide(call, s)) return true;
    }
  }
  return false;
}

void tri_checkpoint_map_release(tri_checkpoint_map *shards) {
  tri_free(shards->quantised);
  tri_free(shards->staged);
  tri_free(shards->slices);
  tri_free(shards->names);
  tri_free(shards->averages);
  tri_free(shards->alternating);
  tri_free(shards->pieces);
  tri_free(shards->parts);
  tri_free(shards->optimizer);
  tri_free(shards->weights);
  *shards = (tri_checkpoint_map){0};
}

size_t tri_checkpoint_map_slice_bytes(const tri_checkpoint_map *shards, const tri_checkpoint_slice *slice) {
  return (size_t)slice->count * tri_dtype_bytes(tri_checkpoint_map_tensor(shards, slice->tensor)->type);
}

/* Returns whether a slice is converted or reordered when it is saved. */
static bool is_made(const tri_checkpoint_slice *slice) {
  return slice->memory != NULL && (slice->memory->read == staged_read || slice->memory->read == alternating_read);
}

static tri_status download(tri_engine *engine, const tri_checkpoint_slice *slice, char *to_host, size_t bytes) {
  if (is_made(slice)) return slice->memory->read(slice->memory->context, to_host, slice->data, bytes);
  return tri_queue_download(engine->device->queue, to_host, slice->data, bytes);
}

tri_status tri_checkpoint_map_download(tri_engine *engine, const tri_checkpoint_map *shards, char *to_host) {
  tri_queue *queue = engine->executor->device->queue;
  tri_queue_at(queue, "state", -1, "copying it");
  for (int64_t i = 0; i < shards->num_slices; i++) {
    size_t bytes = tri_checkpoint_map_slice_bytes(shards, &shards->slices[i]);
    TRI_TRY(download(engine, &shards->slices[i], to_host, bytes));
    to_host += bytes;
  }
  return tri_queue_finish(queue);
}

tri_status tri_checkpoint_map_upload(tri_engine *engine, const tri_checkpoint_map *shards, const char *from_host) {
  tri_queue *queue = engine->executor->device->queue;
  tri_queue_at(queue, "state", -1, "taking it up");
  for (int64_t i = 0; i < shards->num_slices; i++) {
    size_t bytes = tri_checkpoint_map_slice_bytes(shards, &shards->slices[i]);
    const tri_checkpoint_slice *slice = &shards->slices[i];
    if (is_made(slice)) {
      TRI_TRY(slice->memory->write(slice->memory->context, slice->data, from_host, bytes));
    } else {
      TRI_TRY(tri_queue_upload(queue, slice->data, from_host, bytes));
    }
    from_host += bytes;
  }
  return tri_checkpoint_map_written(engine);
}

size_t tri_checkpoint_map_bytes(const tri_checkpoint_map *shards) {
  size_t bytes = 0;
  for (int64_t i = 0; i < shards->num_slices; i++) bytes += tri_checkpoint_map_slice_bytes(shards, &shards->slices[i]);
  return bytes;
}

size_t tri_checkpoint_map_planned_bytes(const tri_engine_options *options, const tri_parts *parts,
                                        const tri_mesh_coordinates *place) {
  const holder h = {options->layout, parts->buckets, parts->table, {tri_layout_mesh(options->layout), *place}};
  const tri_optimizer_settings *settings =
      options->optimizer != NULL ? options->optimizer : tri_optimizer_settings_default();
  size_t bytes = 0, wide = tri_dtype_bytes(tri_dtype_wide(options->precision));
  for (int64_t e = 0; e < parts->table->num_entries; e++) {
    const tri_parameter *entry = &parts->table->entries[e];
    const tri_optimizer *optimizer = tri_optimizer_of(settings, entry);
    if (!is_saved(entry) || !is_listed(parts->table, entry, TRI_SHARDS_SAVE)) continue;
    const bool averages = optimizer != NULL && optimizer->trained != NULL;
    const size_t element = tri_dtype_bytes(tri_stored_type(entry->stored, options->precision));
    bytes += (size_t)saved_values(&h, e).count * element; /* or the trained point */
    for (int64_t c = parts->updates->first_call[e]; c < parts->updates->first_call[e + 1]; c++) {
      const tri_update_call *call = &parts->updates->calls[c];
      for (int64_t s = 0; optimizer != NULL && s < tri_update_num_states(call); s++) {
        bytes += (size_t)saved_of_state(&h, call, s).count * wide;
      }
      if (averages) bytes += (size_t)saved_of_call(&h, call).count * wide;
    }
  }
  return bytes;
}
