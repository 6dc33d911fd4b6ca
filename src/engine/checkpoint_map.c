#include "engine/checkpoint_map.h"

#include "base/memory.h"
#include "engine/checkpoint_conversions.h"
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

/* A row: a kind of tensor in the optimizer's files, with one tensor for each tensor of a parameter. */
typedef struct kept_row {
  const char *suffix;
  /* NULL: the trained values, of an optimizer that saves other values as the weight (tri_optimizer.evaluated). */
  const tri_optimizer_state *state;
  int64_t number; /* number of the state in an update call */
} kept_row;

enum { KEPT_ROWS = TRI_UPDATE_STATES + 1, OWNERS = TRI_STATE_OF_RUN + 1 };

/* Lists the optimizer's tensors of one owner that belong to a parameter. Returns their number. */
static int64_t rows_of(const tri_optimizer_settings *settings, const tri_parameter *parameter, tri_state_owner owner,
                       kept_row rows[KEPT_ROWS]) {
  const tri_optimizer *optimizer = tri_optimizer_of(settings, parameter);
  int64_t count = 0;
  for (int64_t s = 0; optimizer != NULL && s < tri_optimizer_num_states(settings, optimizer); s++) {
    const tri_optimizer_state *state = tri_optimizer_state_at(settings, optimizer, s);
    if (state->owner != owner || tri_optimizer_state_shape(settings, state, parameter).num_dims == 0) continue;
    rows[count++] = (kept_row){state->suffix, state, s};
  }
  if (optimizer != NULL && optimizer->trained != NULL && owner == TRI_STATE_OF_OPTIMIZER) {
    rows[count++] = (kept_row){optimizer->trained, NULL, -1};
  }
  return count;
}

/* Returns whether a map of this use lists a table's entry. A checkpoint of a model with an adapter has the trained
 * parameters; the other parameters are those of the base, which is not copied. */
static bool is_listed(const tri_parameter_table *table, const tri_parameter *entry, tri_checkpoint_map_use use) {
  if (!table->has_factors) return true;
  switch (use) {
    case TRI_CHECKPOINT_MAP_SAVE:
    case TRI_CHECKPOINT_MAP_LOAD: return !entry->frozen;
    case TRI_CHECKPOINT_MAP_MOVE:
    case TRI_CHECKPOINT_MAP_MOVE_TRAINED: return !entry->frozen || entry->first;
    case TRI_CHECKPOINT_MAP_LOAD_FACTORS: return entry->factor && !entry->first;
    case TRI_CHECKPOINT_MAP_LOAD_BASE: break;
  }
  return !entry->factor;
}

/* Returns whether an entry's matrices are one tensor in a checkpoint; each matrix still has optimizer states of its
 * own. */
static bool is_stacked(const tri_parameter *entry) {
  switch (entry->stacked.as) {
    case TRI_STACKING_NONE: return false;
    case TRI_STACKING_ROWS:
    case TRI_STACKING_COLUMNS: break;
  }
  return true;
}

/* Returns the number of an entry's tensors that a map of this use lists. A tied pair counts once. */
static int64_t num_listed(const tri_parameter_table *table, const tri_parameter *entry, tri_checkpoint_map_use use) {
  return entry->tied_to < 0 && is_listed(table, entry, use) ? tri_parameter_num_tensors(entry) : 0;
}

static tri_status allocate_lists(const tri_parameter_table *table, const tri_optimizer_settings *settings,
                                 tri_checkpoint_map *map) {
  size_t weights = 0, kept = 0;
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *parameter = &table->entries[e];
    size_t tensors = parameter->tied_to >= 0 ? 0 : (size_t)tri_parameter_num_tensors(parameter);
    weights += tensors;
    for (int owner = 0; owner < OWNERS; owner++) {
      kept_row rows[KEPT_ROWS];
      kept += (size_t)rows_of(settings, parameter, (tri_state_owner)owner, rows) * tensors;
    }
  }
  TRI_TRY(tri_alloc("a checkpoint's list", weights, sizeof *map->weights, &map->weights));
  TRI_TRY(tri_alloc("a checkpoint's list", weights, sizeof *map->parts, &map->parts));
  TRI_TRY(tri_alloc("a checkpoint's list", weights, sizeof *map->pieces, &map->pieces));
  TRI_TRY(tri_alloc("a checkpoint's list", kept, sizeof *map->optimizer, &map->optimizer));
  TRI_TRY(tri_alloc("a checkpoint's list", kept, sizeof *map->states, &map->states));
  return tri_alloc("a checkpoint's list", kept, sizeof *map->names, &map->names);
}

/* Adds the tensor that a row has for one matrix. If a tensor on disk has several parts (such as q, k and v), each part
 * has a tensor of its own in the optimizer's files, unless the optimizer joins parts. */
static void add_of_matrix(const tri_optimizer_settings *settings, const tri_parameter *tensor, const kept_row *row,
                          tri_dtype wide, tri_checkpoint_map *map) {
  const bool by_part = tensor->within.part != NULL && !tri_optimizer_of(settings, tensor)->joins_parts;
  const int64_t i = map->num_optimizer++;
  snprintf(map->names[i], sizeof map->names[i], "%s%s%s%s", tensor->name, by_part ? "." : "",
           by_part ? tensor->within.part : "", row->suffix);
  tri_parameter alone = *tensor;
  alone.within = (tri_rows_within){.rows = 0};
  alone.stacked = (tri_stacked){.as = TRI_STACKING_NONE};
  map->optimizer[i] = tensor_of(&alone, map->names[i], wide);
  map->states[i] = row->state;
  if (row->state == NULL) return;
  const tri_state_shape shape = tri_optimizer_state_shape(settings, row->state, tensor);
  map->optimizer[i].num_dims = (int)shape.num_dims;
  for (int64_t d = 0; d < shape.num_dims; d++) map->optimizer[i].shape[d] = shape.dims[d];
}

/* Adds the tensor that a row has for one weight. It has the shape of the weight. */
static void add_of_weight(const tri_checkpoint_tensor *weight, const kept_row *row, tri_dtype wide,
                          tri_checkpoint_map *map) {
  const int64_t i = map->num_optimizer++;
  snprintf(map->names[i], sizeof map->names[i], "%s%s", weight->name, row->suffix);
  map->optimizer[i] = *weight;
  map->optimizer[i].name = map->names[i];
  map->optimizer[i].type = wide;
  map->states[i] = row->state;
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

/* Returns the type in which values are read. Values that are then quantised to 4 bits are read in the wide type. */
static tri_dtype read_type(tri_stored stored, tri_dtype precision) {
  return tri_stored_is_coded(stored) ? tri_dtype_wide(precision) : tri_stored_type(stored, precision);
}

/* The first tensors of an entry, by their numbers (tri_checkpoint_slice.tensor). */
typedef struct tensor_numbers {
  int64_t weight;
  int64_t kept[OWNERS]; /* number of the first tensor of each owner's rows */
  int64_t piece;        /* index of the entry's first matrix in map->pieces, if its matrices are one tensor */
} tensor_numbers;

/* Lists an entry's weights. If its matrices are stacked in one tensor, lists the matrices as pieces, too. */
static void list_weights(const tri_parameter *entry, int64_t tensors, tri_dtype precision, tri_checkpoint_map *map) {
  int64_t first = 0;
  for (int64_t t = 0; t < tensors; t++) {
    const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    if (is_stacked(entry)) map->pieces[map->num_pieces++] = tensor;
    if (tri_parameter_continues(&tensor)) continue;
    const int64_t i = map->num_weights++;
    map->parts[i] = tensor;
    map->weights[i] = tensor_of(&map->parts[i], is_stacked(entry) ? entry->name : map->parts[i].name,
                                read_type(entry->stored, precision));
  }
}

/* Lists the tensors of all rows that an owner has for an entry. `weight`: number of the entry's first weight. */
static void list_kept(const tri_optimizer_settings *settings, const tri_parameter *entry, int64_t tensors,
                      tri_state_owner owner, tri_dtype wide, int64_t weight, tri_checkpoint_map *map) {
  kept_row rows[KEPT_ROWS];
  const int64_t num_rows = rows_of(settings, entry, owner, rows);
  int64_t first = 0;
  for (int64_t t = 0; t < tensors; t++) {
    const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    for (int64_t r = 0; r < num_rows; r++) {
      switch (owner) {
        case TRI_STATE_OF_OPTIMIZER: add_of_matrix(settings, &tensor, &rows[r], wide, map); break;
        case TRI_STATE_OF_RUN:
          if (tri_parameter_continues(&tensor)) break;
          add_of_weight(&map->weights[is_stacked(entry) ? weight : weight + t], &rows[r], wide, map);
          break;
      }
    }
  }
}

/* Lists all weights, then the states of optimizers, then the states of the run. numbers: [entries of the table]. */
static tri_status list_tensors(const tri_parameter_table *table, const tri_engine_options *options,
                               tri_checkpoint_map_use use, tensor_numbers *numbers, tri_checkpoint_map *map) {
  const tri_dtype wide = tri_dtype_wide(options->precision);
  TRI_TRY(allocate_lists(table, options->optimizer, map));
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    const bool continues = tri_parameter_continues(entry);
    numbers[e].weight = continues ? numbers[e - 1].weight : map->num_weights;
    numbers[e].piece = map->num_pieces;
    list_weights(entry, num_listed(table, entry, use), options->precision, map);
  }
  for (int owner = 0; owner < OWNERS; owner++) {
    if (owner == TRI_STATE_OF_RUN) map->first_of_run = map->num_optimizer;
    for (int64_t e = 0; e < table->num_entries; e++) {
      const tri_parameter *entry = &table->entries[e];
      const bool continues = owner == TRI_STATE_OF_RUN && tri_parameter_continues(entry);
      numbers[e].kept[owner] = continues ? numbers[e - 1].kept[owner] : map->num_weights + map->num_optimizer;
      list_kept(options->optimizer, entry, num_listed(table, entry, use), (tri_state_owner)owner, wide,
                numbers[e].weight, map);
    }
  }
  for (int64_t e = 0; e < table->num_entries; e++) {
    if (table->entries[e].tied_to >= 0) numbers[e] = numbers[table->entries[e].tied_to];
  }
  return TRI_OK;
}

const tri_checkpoint_tensor *tri_checkpoint_map_tensor(const tri_checkpoint_map *map, int64_t number) {
  return number < map->num_weights ? &map->weights[number] : &map->optimizer[number - map->num_weights];
}

/* ---- slices of a rank -------------------------------------------------------------------------------------------- */

/* Returns the part of a range that this rank saves, if the replicas divide the range among themselves. */
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

/* Returns the range of a state with a shape of its own that this rank saves. All ranks with shards of the tensor have
 * the whole state, and the first of them saves it. Without ZeRO, this rank and its replicas save a part each. */
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
    case TRI_CHECKPOINT_MAP_SAVE:
    case TRI_CHECKPOINT_MAP_MOVE:
    case TRI_CHECKPOINT_MAP_MOVE_TRAINED: return true;
    case TRI_CHECKPOINT_MAP_LOAD:
    case TRI_CHECKPOINT_MAP_LOAD_FACTORS:
    case TRI_CHECKPOINT_MAP_LOAD_BASE: return false;
  }
  return false;
}

typedef struct lister {
  tri_engine *engine;
  tri_checkpoint_map *map;
  holder h;
  bool saves;
  bool trained; /* whether the map's weights are the trained values even if the optimizer saves other values */
  tensor_numbers numbers; /* numbers of the tensors of the entry that is being added */
} lister;

/* The tensors of an entry's weights, or of one of its rows. */
typedef struct row_tensors {
  int64_t first, stride; /* number of the first tensor; difference between the numbers of two successive tensors */
  bool by_matrix;        /* whether there is a tensor for each matrix; false: for each weight */
} row_tensors;

/* Returns matrix t of an entry as a part of a tensor in a checkpoint. If the entry has only one matrix, returns the
 * entry itself, because map->parts has only one entry of a tied pair, and this rank may hold only the other one. */
static const tri_parameter *part_of(const lister *l, const tri_parameter *entry, int64_t t) {
  if (is_stacked(entry)) return &l->map->pieces[l->numbers.piece + t];
  return tri_parameter_num_tensors(entry) > 1 ? &l->map->parts[l->numbers.weight + t] : entry;
}

static int64_t number_of(const row_tensors *to, const tri_parameter *entry, int64_t t) {
  return is_stacked(entry) && !to->by_matrix ? to->first : to->first + to->stride * t;
}

static row_tensors weights_of(const lister *l) { return (row_tensors){l->numbers.weight, 1, false}; }

/* Adds a slice of tensor number `tensor`: elements of the range, with element range.at of `array` as its first one. */
static void add(tri_checkpoint_map *map, int64_t tensor, const tri_parameter *part, bool own_tensor,
                tri_element_range range, void *array, size_t element, const tri_checkpoint_memory *memory) {
  if (range.count == 0) return;
  char *data = (char *)array + (size_t)range.at * element;
  map->slices[map->num_slices++] =
      (tri_checkpoint_slice){tensor, part, own_tensor, range.first, range.count, data, memory};
}

static const tri_checkpoint_memory *staged_memory(lister *l, const tri_update_call *call, int64_t state) {
  tri_staged_slice *s = &l->map->staged[l->map->num_staged++];
  tri_staged_slice_set_up(l->engine, call, state, s);
  return &s->memory;
}

/* The address of the elements of an update call, and the functions that access them (NULL: the host can access
 * them). */
typedef struct source {
  char *data;
  const tri_checkpoint_memory *memory;
} source;

static source source_of_state(lister *l, const tri_update_call *call, int64_t state) {
  const tri_executor *executor = l->engine->executor;
  const bool wide = tri_update_is_wide(call, state);
  if (wide) return (source){tri_weights_state(executor->weights, call, state), tri_executor_memory(executor)};
  return (source){tri_weights_call_gradients(l->engine->executor->weights, call), staged_memory(l, call, state)};
}

/* Adds a slice for each tensor of the entry that an update call updates, with the call's elements at `from`. */
static void add_of_call(lister *l, const tri_update_call *call, source from, row_tensors to) {
  const tri_parameter *entry = &l->h.table->entries[call->entry];
  const size_t element = tri_dtype_bytes(tri_dtype_wide(call->type));
  const tri_element_range whole =
      l->saves ? saved_of_call(&l->h, call) : (tri_element_range){call->first, call->count, 0};
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    int64_t first = 0;
    const int64_t count = tri_parameter_tensor(entry, t, &first).count;
    add(l->map, number_of(&to, entry, t), part_of(l, entry, t), to.by_matrix,
        tri_element_range_within(whole, first, count), from.data, element, from.memory);
  }
}

/* Adds a slice of a state with a shape of its own, for the tensor that the call updates. */
static void add_own_shape(lister *l, const tri_update_call *call, int64_t state, row_tensors to) {
  const tri_parameter *entry = &l->h.table->entries[call->entry];
  const source from = source_of_state(l, call, state);
  const tri_element_range all = {0, tri_update_state_count(call, state), 0};
  const tri_element_range own = l->saves ? saved_of_own_shape(&l->h, call, state) : all;
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    int64_t first = 0;
    const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    if (tensor.count == 0 || first != call->first) continue;
    add(l->map, number_of(&to, entry, t), NULL, to.by_matrix, own, from.data,
        tri_dtype_bytes(tri_dtype_wide(call->type)), from.memory);
  }
}

static void add_state(lister *l, const tri_update_call *call, int64_t state, row_tensors to) {
  if (tri_update_has_own_shape(call, state)) {
    add_own_shape(l, call, state, to);
  } else {
    add_of_call(l, call, source_of_state(l, call, state), to);
  }
}

/* Adds the matrices of an entry in 4 bits. All of them use the same scratch memory, so they are loaded one after the
 * other, and each one as a whole. */
static void add_quantised(lister *l, int64_t e) {
  const tri_parameter *entry = &l->h.table->entries[e];
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    tri_checkpoint_map *map = l->map;
    int64_t first = 0;
    const int64_t count = tri_parameter_tensor(entry, t, &first).count;
    if (count == 0) continue;
    tri_quantised *matrix = &map->quantised[map->num_quantised++];
    tri_quantised_set_up(l->engine->executor, e, first / count, matrix);
    add(map, l->numbers.weight + t, NULL, false, (tri_element_range){0, matrix->cut.total, 0}, matrix->wide,
        tri_dtype_bytes(matrix->type), &matrix->memory);
  }
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
    tri_alternating_slice *a = &l->map->alternating[l->map->num_alternating++];
    const int64_t before = ((first - entry->first_member) * kinds + kind) * count;
    tri_alternating_slice_set_up(l->engine, a);
    a->part = l->map->pieces[l->numbers.piece + first * kinds + kind];
    a->part.stacked.together = n;
    a->part.count = n * count;
    a->first = array + (size_t)(values.at + before - values.first) * element;
    a->count = count;
    a->distance = kinds * count;
    a->element = element;
    add(l->map, tensor, &a->part, false, (tri_element_range){0, n * count, 0}, a->first, element, &a->memory);
  }
}

/* Adds slices of the values of an entry, which are stored in their array without conversion. */
static void add_values(lister *l, const tri_parameter *entry, row_tensors to) {
  const tri_executor *executor = l->engine->executor;
  const int64_t e = entry - l->h.table->entries;
  const tri_element_range values =
      l->saves ? saved_values(&l->h, e) : tri_element_range_of_values(l->h.buckets, l->h.table, e);
  const size_t element = tri_dtype_bytes(tri_stored_type(entry->stored, executor->type));
  void *array =
      entry->frozen ? tri_weights_frozen(executor->weights, entry->stored) : tri_weights_values(executor->weights);
  int64_t first_member = 0, end_member = 0;
  if (!to.by_matrix) find_alternating(l, entry, values, &first_member, &end_member);
  add_alternating(l, entry, values, first_member, end_member, to.first, array, element);
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    int64_t first = 0;
    if (end_member > 0 && t / entry->kinds >= first_member && t / entry->kinds < end_member) continue;
    const int64_t count = tri_parameter_tensor(entry, t, &first).count;
    add(l->map, number_of(&to, entry, t), part_of(l, entry, t), to.by_matrix,
        tri_element_range_within(values, first, count), array, element, tri_executor_memory(executor));
  }
}

/* Adds the slices of an entry on this rank, tensor by tensor. */
static void add_entry(lister *l, int64_t e) {
  const tri_parameter *entry = &l->h.table->entries[e];
  const tri_updates *updates = l->engine->parts.updates;
  const tri_optimizer *optimizer = tri_optimizer_of(l->engine->options.optimizer, entry);
  const bool makes_weights = l->saves && !l->trained && optimizer != NULL && optimizer->trained != NULL;
  row_tensors to[KEPT_ROWS * OWNERS];
  kept_row rows[KEPT_ROWS * OWNERS];
  int64_t num_rows = 0;
  if (entry->stored == TRI_STORED_NF4) {
    add_quantised(l, e);
    return;
  }
  for (int owner = 0; owner < OWNERS; owner++) {
    const int64_t count = rows_of(l->engine->options.optimizer, entry, (tri_state_owner)owner, rows + num_rows);
    for (int64_t r = 0; r < count; r++) {
      to[num_rows++] = (row_tensors){l->numbers.kept[owner] + r, count, owner == TRI_STATE_OF_OPTIMIZER};
    }
  }
  if (!makes_weights) add_values(l, entry, weights_of(l));
  for (int64_t r = 0; r < num_rows; r++) {
    if (rows[r].state == NULL) add_values(l, entry, to[r]);
  }
  for (int64_t c = updates->first_call[e]; optimizer != NULL && c < updates->first_call[e + 1]; c++) {
    const tri_update_call *call = &updates->calls[c];
    for (int64_t r = 0; r < num_rows; r++) {
      if (rows[r].state != NULL) add_state(l, call, rows[r].number, to[r]);
    }
    if (!makes_weights) continue;
    const source made = {tri_weights_call_gradients(l->engine->executor->weights, call), staged_memory(l, call, -1)};
    add_of_call(l, call, made, weights_of(l));
  }
}

/* Allocates the lists of slices for an upper bound: each call of an optimizer has at most one slice of each of its
 * tensors, and of each state. */
static tri_status allocate_slices(const tri_engine *engine, tri_checkpoint_map *map) {
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
  TRI_TRY(tri_alloc("a checkpoint's list", TRI_PARAMETER_KINDS * (size_t)table->num_entries, sizeof *map->alternating,
                    &map->alternating));
  const size_t staged = (size_t)(updates->count * (TRI_UPDATE_STATES + 1));
  TRI_TRY(tri_alloc("a checkpoint's list", most, sizeof *map->slices, &map->slices));
  TRI_TRY(tri_alloc("a checkpoint's list", quantised, sizeof *map->quantised, &map->quantised));
  return tri_alloc("a checkpoint's list", staged, sizeof *map->staged, &map->staged);
}

static tri_status list_slices(tri_engine *engine, tri_checkpoint_map_use use, const tensor_numbers *numbers,
                              tri_checkpoint_map *map) {
  const tri_parameter_table *table = engine->parts.table;
  const tri_mesh *mesh = engine->options.mesh;
  lister l = {.engine = engine,
              .map = map,
              .h = {engine->options.layout, engine->parts.buckets, table, {mesh->shape, mesh->place}},
              .saves = is_to_save(use),
              .trained = use == TRI_CHECKPOINT_MAP_MOVE_TRAINED};
  TRI_TRY(allocate_slices(engine, map));
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    if (l.saves ? !is_saved(entry) : entry->count == 0 || entry->alias) continue;
    if (!is_listed(table, entry, use)) continue;
    l.numbers = numbers[e];
    add_entry(&l, e);
  }
  return TRI_OK;
}

tri_status tri_checkpoint_map_create(tri_engine *engine, tri_checkpoint_map_use use, tri_checkpoint_map *out) {
  tri_checkpoint_map map = {.elsewhere = use == TRI_CHECKPOINT_MAP_LOAD_FACTORS || use == TRI_CHECKPOINT_MAP_LOAD_BASE};
  const tri_parameter_table *table = engine->parts.table;
  tensor_numbers *numbers = NULL;
  TRI_TRY(tri_alloc("a checkpoint's list", (size_t)table->num_entries, sizeof *numbers, &numbers));
  tri_status status = list_tensors(table, &engine->options, use, numbers, &map);
  if (status == TRI_OK) status = list_slices(engine, use, numbers, &map);
  tri_free(numbers);
  if (status != TRI_OK) {
    tri_checkpoint_map_release(&map);
    return status;
  }
  *out = map;
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
    for (int64_t s = 0; s < tri_update_num_states(call); s++) {
      if (!tri_update_is_wide(call, s)) return true;
    }
  }
  return false;
}

void tri_checkpoint_map_release(tri_checkpoint_map *map) {
  tri_free(map->quantised);
  tri_free(map->staged);
  tri_free(map->slices);
  tri_free(map->names);
  tri_free(map->states);
  tri_free(map->alternating);
  tri_free(map->pieces);
  tri_free(map->parts);
  tri_free(map->optimizer);
  tri_free(map->weights);
  *map = (tri_checkpoint_map){0};
}

size_t tri_checkpoint_map_slice_bytes(const tri_checkpoint_map *map, const tri_checkpoint_slice *slice) {
  return (size_t)slice->count * tri_dtype_bytes(tri_checkpoint_map_tensor(map, slice->tensor)->type);
}

static tri_status download(tri_engine *engine, const tri_checkpoint_slice *slice, char *to_host, size_t bytes) {
  if (tri_checkpoint_converts(slice)) return slice->memory->read(slice->memory->context, to_host, slice->data, bytes);
  return tri_queue_download(engine->device->queue, to_host, slice->data, bytes);
}

tri_status tri_checkpoint_map_download(tri_engine *engine, const tri_checkpoint_map *map, char *to_host) {
  tri_queue *queue = engine->executor->device->queue;
  tri_queue_at(queue, "state", -1, "copying it");
  for (int64_t i = 0; i < map->num_slices; i++) {
    size_t bytes = tri_checkpoint_map_slice_bytes(map, &map->slices[i]);
    TRI_TRY(download(engine, &map->slices[i], to_host, bytes));
    to_host += bytes;
  }
  return tri_queue_finish(queue);
}

tri_status tri_checkpoint_map_upload(tri_engine *engine, const tri_checkpoint_map *map, const char *from_host) {
  tri_queue *queue = engine->executor->device->queue;
  tri_queue_at(queue, "state", -1, "taking it up");
  for (int64_t i = 0; i < map->num_slices; i++) {
    size_t bytes = tri_checkpoint_map_slice_bytes(map, &map->slices[i]);
    const tri_checkpoint_slice *slice = &map->slices[i];
    if (tri_checkpoint_converts(slice)) {
      TRI_TRY(slice->memory->write(slice->memory->context, slice->data, from_host, bytes));
    } else {
      TRI_TRY(tri_queue_upload(queue, slice->data, from_host, bytes));
    }
    from_host += bytes;
  }
  return tri_checkpoint_map_written(engine);
}

size_t tri_checkpoint_map_bytes(const tri_checkpoint_map *map) {
  size_t bytes = 0;
  for (int64_t i = 0; i < map->num_slices; i++) bytes += tri_checkpoint_map_slice_bytes(map, &map->slices[i]);
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
    if (!is_saved(entry) || !is_listed(parts->table, entry, TRI_CHECKPOINT_MAP_SAVE)) continue;
    const bool has_trained = optimizer != NULL && optimizer->trained != NULL;
    const size_t element = tri_dtype_bytes(tri_stored_type(entry->stored, options->precision));
    /* The weight or the trained values, which have the same number of elements. */
    bytes += (size_t)saved_values(&h, e).count * element;
    for (int64_t c = parts->updates->first_call[e]; c < parts->updates->first_call[e + 1]; c++) {
      const tri_update_call *call = &parts->updates->calls[c];
      for (int64_t s = 0; s < tri_update_num_states(call); s++) {
        bytes += (size_t)saved_of_state(&h, call, s).count * wide;
      }
      if (has_trained) bytes += (size_t)saved_of_call(&h, call).count * wide;
    }
  }
  return bytes;
}
