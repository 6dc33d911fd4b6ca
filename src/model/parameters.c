#include "model/parameters.h"

#include "base/count.h"
#include "base/memory.h"
#include "device/nf4.h"
#include "mesh/parts.h"

#include <stdio.h>
#include <string.h>

/* ---- facts ------------------------------------------------------------------------------------------------------- */

tri_parameter_placement tri_parameter_placed_dense(void) {
  return (tri_parameter_placement){.parts = TRI_DOMAIN_TENSOR, .replicas = TRI_DOMAIN_REPLICAS};
}

tri_parameter_placement tri_parameter_placed_experts(void) {
  return (tri_parameter_placement){.parts = TRI_DOMAIN_EXPERT_TENSOR,
                                   .replicas = TRI_DOMAIN_EXPERT_REPLICAS,
                                   .has_holders = true,
                                   .holders = TRI_DOMAIN_EXPERT_HOLDERS};
}

tri_split tri_split_none(void) { return (tri_split){.dim = -1, .segments = 1, .units = 1}; }

tri_split tri_split_elements(int dim, int64_t length) { return (tri_split){dim, 1, length}; }

tri_split tri_split_heads(int dim, int64_t segments, int64_t heads) { return (tri_split){dim, segments, heads}; }

tri_parameter tri_parameter_norm(int64_t width, tri_init init) {
  return (tri_parameter){.num_dims = 1,
                         .shape = {width, 1},
                         .placement = tri_parameter_placed_dense(),
                         .split = tri_split_none(),
                         .part = TRI_PART_NORM,
                         .init = init};
}

tri_parameter tri_parameter_head_norm(int64_t width) {
  tri_parameter entry = tri_parameter_norm(width, TRI_INIT_ONE);
  entry.by_heads = true;
  return entry;
}

tri_parameter tri_parameter_bias(tri_part part, int64_t width, tri_split split) {
  return (tri_parameter){
      .num_dims = 1, .shape = {width, 1}, .placement = tri_parameter_placed_dense(), .split = split, .part = part};
}

tri_parameter tri_parameter_matrix(tri_part part, int64_t rows, int64_t columns, tri_split split, double std) {
  return (tri_parameter){.num_dims = 2,
                         .shape = {rows, columns},
                         .placement = tri_parameter_placed_dense(),
                         .split = split,
                         .part = part,
                         .init = TRI_INIT_NORMAL,
                         .std = std};
}

tri_parameter tri_parameter_joined(tri_parameter parameter) {
  parameter.joined = true;
  return parameter;
}

tri_parameter tri_parameter_within(tri_parameter parameter, tri_rows_within within) {
  parameter.within = within;
  parameter.joined = parameter.joined || within.first > 0;
  return parameter;
}

tri_parameter tri_parameter_experts(int64_t experts, int64_t kinds, int64_t rows, int64_t columns, int split_dim,
                                    double std) {
  const tri_split split = tri_split_elements(split_dim, split_dim == 0 ? rows : columns);
  tri_parameter parameter = tri_parameter_matrix(TRI_PART_MLP, rows, columns, split, std);
  parameter.placement = tri_parameter_placed_experts();
  parameter.stack = experts;
  parameter.kinds = kinds;
  return parameter;
}

tri_parameter tri_parameter_balance(int64_t experts) {
  tri_parameter parameter = tri_parameter_bias(TRI_PART_ROUTER, experts, tri_split_none());
  parameter.rule = TRI_RULE_BALANCE;
  return parameter;
}

/* Writes `name` with its first %ld replaced by `number`: "transformer.h.%ld.ln_1.weight" and "3" become
 * "transformer.h.3.ln_1.weight". Cuts a name that is too long. A search of layouts names millions of parameters, so
 * this does not use printf. */
static void write_name(const char *name, const char *number, char out[TRI_PARAMETER_NAME_BYTES]) {
  char *at = out, *const last = out + TRI_PARAMETER_NAME_BYTES - 1;
  const char *const place = strstr(name, "%ld");
  for (const char *from = name; from != place && *from != '\0' && at < last; from++) *at++ = *from;
  if (place != NULL) {
    for (const char *from = number; *from != '\0' && at < last; from++) *at++ = *from;
    for (const char *from = place + 3; *from != '\0' && at < last; from++) *at++ = *from;
  }
  *at = '\0';
}

/* Replaces the first %ld of a name. */
static void insert_number(char name[TRI_PARAMETER_NAME_BYTES], const char *number) {
  char before[TRI_PARAMETER_NAME_BYTES];
  memcpy(before, name, sizeof before);
  write_name(before, number, name);
}

static void set_name(tri_parameter *entry, const char *name, int64_t layer) {
  char number[24], *at = number + sizeof number - 1;
  int64_t left = layer < 0 ? 0 : layer; /* the names of the embeddings (layer -1) have no number */
  *at = '\0';
  do *--at = (char)('0' + left % 10);
  while ((left /= 10) > 0);
  write_name(name, at, entry->name);
}

tri_status tri_parameter_table_add(tri_parameter_table *table, const char *name, int64_t layer,
                                   tri_parameter parameter) {
  int64_t n = table->num_entries;
  if (n == 0 || (n >= 16 && (n & (n - 1)) == 0)) {
    TRI_TRY(tri_realloc("the parameter table", n == 0 ? 16 : (size_t)n * 2, sizeof *table->entries, &table->entries));
  }
  tri_parameter *entry = &table->entries[n];
  *entry = parameter;
  set_name(entry, name, layer);
  entry->layer = layer;
  entry->tied_to = -1;
  table->num_entries = n + 1;
  return TRI_OK;
}

tri_status tri_parameter_table_add_stack(tri_parameter_table *table, const char *const names[], int64_t layer,
                                         tri_parameter parameter) {
  for (int64_t kind = 0; kind < parameter.kinds; kind++) parameter.names[kind] = names[kind];
  TRI_TRY(tri_parameter_table_add(table, names[0], layer, parameter));
  insert_number(table->entries[table->num_entries - 1].name, "*");
  return TRI_OK;
}

tri_status tri_parameter_table_add_tied(tri_parameter_table *table, const char *name, int64_t layer) {
  tri_parameter twin = table->entries[0];
  twin.part = TRI_PART_HEAD;
  TRI_TRY(tri_parameter_table_add(table, name, layer, twin));
  table->entries[table->num_entries - 1].tied_to = 0;
  return TRI_OK;
}

/* ---- a rank's part ----------------------------------------------------------------------------------------------- */

void tri_split_units(int64_t units, int64_t ranks, int64_t rank, int64_t *first, int64_t *count) {
  if (units < ranks) { /* units are replicated: of 4 ranks, ranks 0 and 1 hold the first of 2 units */
    *first = rank * units / ranks;
    *count = 1;
    return;
  }
  tri_part_of(units, ranks, rank, first, count);
}

int64_t tri_parameter_num_tensors(const tri_parameter *parameter) {
  return tri_larger(1, parameter->stack) * tri_larger(1, parameter->kinds);
}

int64_t tri_parameter_global_count(const tri_parameter *parameter) {
  return tri_parameter_num_tensors(parameter) * parameter->shape[0] * parameter->shape[1];
}

static bool holds_layer(const tri_model_share *share, int64_t layer) {
  for (int64_t i = 0; i < share->num_chunks; i++) {
    if (layer >= share->chunks[i].first && layer < share->chunks[i].end) return true;
  }
  return false;
}

bool tri_parameter_table_lacks(const tri_parameter_table *table, int64_t layer) {
  return table->only != NULL && !holds_layer(table->only, layer);
}

/* Sets the local part of an entry to that of a rank among the `ranks` of entry->placement.parts. */
static void cut(tri_parameter *entry, int64_t ranks, int64_t rank) {
  const tri_split *split = &entry->split;
  entry->local[0] = entry->shape[0];
  entry->local[1] = entry->shape[1];
  entry->first_unit = 0;
  entry->num_units = split->units;
  entry->even = split->units < ranks || split->units % ranks == 0;
  entry->counted = rank == 0;
  if (split->dim >= 0) {
    int64_t unit = entry->shape[split->dim] / split->segments / split->units, before = -1, count = 0;
    tri_split_units(split->units, ranks, rank, &entry->first_unit, &entry->num_units);
    entry->local[split->dim] = split->segments * entry->num_units * unit;
    if (rank > 0) tri_split_units(split->units, ranks, rank - 1, &before, &count);
    entry->counted = entry->num_units > 0 && before != entry->first_unit;
  }
  entry->first_member = 0;
  entry->num_members = tri_larger(1, entry->stack);
  entry->count = entry->local[0] * entry->local[1] * tri_parameter_num_tensors(entry);
}

/* Sets the local part of an entry to that of the rank at a mesh position. */
static void cut_at(tri_parameter *entry, const tri_mesh_position *position) {
  const tri_parameter_placement *placed = &entry->placement;
  cut(entry, tri_domain_size(&position->shape, placed->parts),
      tri_domain_rank(&position->shape, &position->place, placed->parts));
  if (!placed->has_holders) return;
  int64_t holders = tri_domain_size(&position->shape, placed->holders);
  int64_t holder = tri_domain_rank(&position->shape, &position->place, placed->holders), all = entry->num_members;
  tri_part_of(all, holders, holder, &entry->first_member, &entry->num_members);
  entry->count = entry->count / all * entry->num_members;
}

tri_parameter tri_parameter_of_rank(const tri_parameter *parameter, int64_t ranks, int64_t rank) {
  tri_parameter entry = *parameter;
  cut(&entry, ranks, rank);
  return entry;
}

tri_parameter tri_parameter_of_position(const tri_parameter *parameter, const tri_mesh_position *position) {
  tri_parameter entry = *parameter;
  cut_at(&entry, position);
  return entry;
}

tri_parameter tri_parameter_tensor(const tri_parameter *parameter, int64_t i, int64_t *first) {
  tri_parameter tensor = *parameter;
  char number[24];
  *first = 0;
  if (parameter->names[0] == NULL) return tensor;
  const int64_t kinds = tri_larger(1, parameter->kinds), member = i / kinds - parameter->first_member;
  const int64_t count = parameter->local[0] * parameter->local[1];
  const bool holds = parameter->count > 0 && member >= 0 && member < parameter->num_members;
  set_name(&tensor, parameter->names[i % kinds], parameter->layer);
  snprintf(number, sizeof number, "%ld", (long)(i / kinds));
  insert_number(tensor.name, number);
  tensor.stack = tensor.kinds = tensor.num_members = 1;
  tensor.stacked.members = tri_larger(1, parameter->stack);
  tensor.stacked.kinds = kinds;
  tensor.stacked.number = i;
  tensor.stacked.name = parameter->name;
  tensor.first_member = 0;
  for (int kind = 0; kind < TRI_PARAMETER_KINDS; kind++) tensor.names[kind] = NULL;
  tensor.count = holds ? count : 0;
  if (holds) *first = (member * kinds + i % kinds) * count;
  return tensor;
}

bool tri_parameter_has_gradient(const tri_parameter *parameter) {
  if (parameter->frozen) return false;
  switch (parameter->rule) {
    case TRI_RULE_OPTIMIZER: return true;
    case TRI_RULE_BALANCE: return false;
  }
  return true;
}

/* Returns whether each rank of `parts` computes a parameter's gradient from only some of the rows. That is so for norms
 * if rows are split between the layers (sequence_parallel), and for routers. */
static bool sees_slices(const tri_parameter *entry, const tri_model_share *share) {
  switch (entry->part) {
    case TRI_PART_NORM: return share->sequence_parallel;
    case TRI_PART_ROUTER: return true;
    case TRI_PART_EMBEDDING:
    case TRI_PART_ATTENTION:
    case TRI_PART_MLP:
    case TRI_PART_HEAD: return false;
  }
  return false;
}

static tri_holding holding_over_parts(const tri_parameter *entry, const tri_model_share *share) {
  const int64_t ranks = tri_domain_size(&share->position.shape, entry->placement.parts);
  const bool is_split = entry->split.dim >= 0;
  if (ranks == 1) return TRI_HOLDING_COPIES;
  if (is_split && entry->split.units < ranks) return TRI_HOLDING_PARTIAL;
  if (entry->by_heads || sees_slices(entry, share)) return TRI_HOLDING_PARTIAL;
  /* COPIES also holds for the bias after a row-parallel GEMM: one rank adds it, but all ranks have its gradient. */
  return is_split ? TRI_HOLDING_SPLIT : TRI_HOLDING_COPIES;
}

bool tri_parameter_is_partial(const tri_parameter *entry) {
  if (!tri_parameter_has_gradient(entry)) return false;
  switch (entry->over_parts) {
    case TRI_HOLDING_SPLIT:
    case TRI_HOLDING_COPIES: return false;
    case TRI_HOLDING_PARTIAL: break;
  }
  return true;
}

static void set_slice(tri_parameter *entry, const tri_model_share *share) {
  cut_at(entry, &share->position);
  entry->over_parts = holding_over_parts(entry, share);
  if (!holds_layer(share, entry->layer)) entry->count = 0;
}

int64_t tri_parameter_num_matrices(const tri_parameter *parameter) {
  return parameter->count == 0 ? 0 : parameter->count / (parameter->local[0] * parameter->local[1]);
}

int64_t tri_parameter_matrix_bytes(const tri_parameter *parameter) {
  tri_block_matrix blocks;
  if (tri_parameter_in_blocks(parameter, &blocks)) return (int64_t)tri_bytes_in_lines(tri_block_matrix_bytes(&blocks));
  const tri_nf4_cut cut = tri_parameter_cut(parameter);
  return (int64_t)tri_bytes_in_lines(tri_nf4_layout_of_cut(&cut).bytes);
}

bool tri_parameter_in_blocks(const tri_parameter *parameter, tri_block_matrix *out) {
  if (!tri_stored_in_blocks(parameter->stored, &out->type)) return false;
  out->in = parameter->local[parameter->in_out ? 0 : 1];
  out->out = parameter->local[parameter->in_out ? 1 : 0];
  return true;
}

/* Rounds *end, a number of bytes in the array of coded entries, up to a multiple of TRI_BLOCK_ELEMENTS, sets the
 * offset of such an entry to *end, and advances *end. */
static void place_bytes(tri_parameter *entry, int64_t *end) {
  *end = tri_round_up(*end, TRI_BLOCK_ELEMENTS);
  entry->offset = *end;
  *end +=
      (int64_t)tri_bytes_times((size_t)tri_parameter_num_matrices(entry), (size_t)tri_parameter_matrix_bytes(entry));
}

/* Sets the offset of an entry in its array, and in the array of gradients, to *end, and advances *end. If the entry is
 * not joined, first rounds *end up to a block. */
static void place(tri_parameter *entry, int64_t *end) {
  if (!entry->joined) *end = tri_round_up(*end, TRI_BLOCK_ELEMENTS);
  entry->offset = entry->gradient_offset = *end;
  *end += entry->count;
}

/* Places the gradients of aliases, which are separate from those of their targets. */
static void place_gradients_of_aliases(tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    tri_parameter *entry = &table->entries[i];
    if (!entry->alias || entry->frozen) continue;
    entry->gradient_offset = table->num_gradient_elements;
    table->num_gradient_elements += tri_round_up(entry->count, TRI_BLOCK_ELEMENTS);
  }
}

void tri_parameter_table_lay_out(tri_parameter_table *table, const tri_model_share *share) {
  const tri_layer_range all = {-1, INT64_MAX};
  const tri_model_share whole = {.position = tri_mesh_position_alone(), .chunks = &all, .num_chunks = 1};
  int64_t end = 0;
  if (share == NULL) share = &whole;
  for (int64_t i = 0; i < table->num_entries; i++) {
    tri_parameter *entry = &table->entries[i];
    set_slice(entry, share);
    entry->alias = entry->tied_to >= 0 && entry->count > 0 && table->entries[entry->tied_to].count > 0;
    if (entry->tied_to < 0 && !entry->first) table->num_values += tri_parameter_global_count(entry);
    if (entry->tied_to >= 0) entry->counted = false;
    if (entry->alias) {
      entry->offset = table->entries[entry->tied_to].offset;
    } else if (tri_stored_is_coded(entry->stored)) {
      place_bytes(entry, &table->num_frozen[entry->stored]);
    } else {
      place(entry, entry->frozen ? &table->num_frozen[entry->stored] : &end);
    }
  }
  table->num_elements = table->num_gradient_elements = tri_round_up(end, TRI_BLOCK_ELEMENTS);
  for (int s = 0; s < TRI_NUM_STORED; s++)
    table->num_frozen[s] = tri_round_up(table->num_frozen[s], TRI_BLOCK_ELEMENTS);
  place_gradients_of_aliases(table);
}

static bool is_stacked(const tri_parameter *parameter) {
  switch (parameter->stacked.as) {
    case TRI_STACKING_NONE: return false;
    case TRI_STACKING_ROWS:
    case TRI_STACKING_COLUMNS: break;
  }
  return true;
}

bool tri_parameter_continues(const tri_parameter *parameter) {
  return parameter->within.first > 0 || (is_stacked(parameter) && parameter->stacked.number > 0);
}

static tri_parameter stacked_on_disk(const tri_parameter *matrix) {
  const tri_stacked *stacked = &matrix->stacked;
  tri_parameter whole = *matrix;
  if (stacked->name != NULL) snprintf(whole.name, sizeof whole.name, "%s", stacked->name);
  whole.shape[0] *= stacked->kinds;
  switch (stacked->as) {
    case TRI_STACKING_NONE: break;
    case TRI_STACKING_ROWS: whole.shape[0] *= stacked->members; break;
    case TRI_STACKING_COLUMNS: whole.shape[1] *= stacked->members; break;
  }
  whole.stack = whole.kinds = 1;
  for (int kind = 0; kind < TRI_PARAMETER_KINDS; kind++) whole.names[kind] = NULL;
  whole.stacked = (tri_stacked){.as = TRI_STACKING_NONE};
  return whole;
}

tri_parameter tri_parameter_on_disk(const tri_parameter *tensor) {
  tri_parameter whole = *tensor;
  if (is_stacked(tensor)) return stacked_on_disk(tensor);
  if (tensor->within.rows == 0) return whole;
  whole.shape[0] = tensor->within.rows;
  whole.within = (tri_rows_within){.rows = 0};
  whole.joined = false;
  return whole;
}

/* Returns whether some adjacent rows of a tensor are not adjacent on disk. */
static bool is_interleaved(const tri_parameter *tensor) {
  return tensor->within.rows > 0 && tensor->within.block < tensor->shape[0];
}

/* Returns the number of rows of a unit. They are adjacent on disk even if units are not. */
static int64_t unit_rows(const tri_parameter *tensor) {
  return tensor->split.dim == 0 ? tensor->shape[0] / tensor->split.units : tensor->within.block;
}

int64_t tri_parameter_run_length(const tri_parameter *tensor) {
  if (tensor->count == 0) return 0;
  switch (tensor->stacked.as) {
    case TRI_STACKING_NONE:
    case TRI_STACKING_ROWS: break;
    case TRI_STACKING_COLUMNS: return tri_larger(1, tensor->stacked.together);
  }
  if (is_interleaved(tensor)) return unit_rows(tensor) * tensor->shape[1];
  if (tensor->local[0] == tensor->shape[0] && tensor->local[1] == tensor->shape[1]) return tensor->count;
  return tensor->local[0] * tensor->local[1] / tensor->split.segments / (tensor->split.dim == 1 ? tensor->local[0] : 1);
}

/* Returns the element of the tensor on disk at which run i begins, for a tensor that is not part of a larger one. */
static int64_t run_of_whole(const tri_parameter *tensor, int64_t i) {
  const tri_split *split = &tensor->split;
  if (split->dim < 0) return 0;
  int64_t segment_length = tensor->shape[split->dim] / split->segments;
  int64_t first = tensor->first_unit * (segment_length / split->units);
  bool whole = tensor->num_units == split->units;
  if (split->dim == 0) return whole ? 0 : (i * segment_length + first) * tensor->shape[1];
  if (whole) return 0;
  return i / split->segments * tensor->shape[1] + i % split->segments * segment_length + first;
}

/* Returns the global element of run i of a matrix whose columns alternate with those of other members. */
static int64_t run_of_columns(const tri_parameter *tensor, int64_t i) {
  const tri_stacked *stacked = &tensor->stacked;
  const int64_t columns = tensor->shape[1], cut = tensor->split.dim == 0 ? tensor->first_unit : 0;
  const int64_t member = stacked->number / stacked->kinds, kind = stacked->number % stacked->kinds;
  const int64_t row = kind * tensor->shape[0] + cut * (tensor->shape[0] / tensor->split.units) + i / columns;
  return (row * columns + i % columns) * stacked->members + member;
}

int64_t tri_parameter_run(const tri_parameter *tensor, int64_t i) {
  const tri_rows_within *within = &tensor->within;
  switch (tensor->stacked.as) {
    case TRI_STACKING_NONE: break;
    case TRI_STACKING_ROWS:
      return tensor->stacked.number * tensor->shape[0] * tensor->shape[1] + run_of_whole(tensor, i);
    case TRI_STACKING_COLUMNS: return run_of_columns(tensor, i);
  }
  if (within->rows == 0) return run_of_whole(tensor, i);
  if (!is_interleaved(tensor)) return within->first * tensor->shape[1] + run_of_whole(tensor, i);
  const int64_t row = (tensor->first_unit + i) * unit_rows(tensor);
  return (within->first + row / within->block * within->stride + row % within->block) * tensor->shape[1];
}

/* Returns the distance of two consecutive runs of a split tensor that is not in a stack, in elements. */
static int64_t segment_pitch(const tri_parameter *tensor) {
  const tri_split *split = &tensor->split;
  return tensor->shape[split->dim] / split->segments * (split->dim == 0 ? tensor->shape[1] : 1);
}

/* Returns a common divisor of the begins and lengths of the runs of all ranks, without the distance of segments. */
static int64_t run_unit(const tri_parameter *tensor) {
  const tri_split *split = &tensor->split;
  if (split->dim < 0) return tensor->shape[0] * tensor->shape[1];
  const int64_t unit = tensor->shape[split->dim] / split->segments / split->units;
  return (tensor->even ? tensor->num_units : 1) * unit * (split->dim == 0 ? tensor->shape[1] : 1);
}

/* Computes the number of blocks of a row from widths and from values that are equal on all ranks, so that no rank has
 * more blocks than the first. */
tri_nf4_cut tri_parameter_cut(const tri_parameter *parameter) {
  const tri_rows_within *within = &parameter->within;
  const int64_t columns = parameter->shape[1];
  tri_parameter matrix = *parameter;
  matrix.count = matrix.local[0] * matrix.local[1];
  const tri_parameter whole = tri_parameter_on_disk(&matrix);
  tri_nf4_cut cut = {.total = whole.shape[0] * columns, .rows = 1, .width = tri_parameter_run_length(&matrix)};
  int64_t unit = run_unit(&matrix);
  if (cut.width == cut.total || cut.width == 0) return tri_nf4_whole(matrix.count);
  cut.rows = matrix.count / cut.width;
  cut.first = tri_parameter_run(&matrix, 0);
  if (cut.rows > 1 && !is_interleaved(&matrix)) cut.pitch = tri_parameter_run(&matrix, 1) - cut.first;
  if (is_interleaved(&matrix)) {
    unit = unit_rows(&matrix) * columns;
    cut.pitch = unit;
    cut.every = within->block / unit_rows(&matrix);
    cut.phase = matrix.first_unit % cut.every;
    cut.extra = (within->stride - within->block) * columns;
  }
  const int64_t between = is_interleaved(&matrix) || matrix.split.dim < 0 ? 0 : segment_pitch(&matrix);
  const bool whole_blocks = (unit | cut.extra | between | within->first * columns) % TRI_NF4_BLOCK == 0;
  cut.row_blocks = whole_blocks ? cut.width / TRI_NF4_BLOCK : tri_nf4_blocks_touched(cut.width);
  return cut;
}

void tri_parameter_table_destroy(tri_parameter_table *table) {
  if (table == NULL) return;
  tri_free(table->entries);
  tri_free(table);
}

const char *tri_part_name(tri_part part) {
  switch (part) {
    case TRI_PART_EMBEDDING: return "embedding";
    case TRI_PART_ATTENTION: return "attention";
    case TRI_PART_MLP: return "mlp";
    case TRI_PART_NORM: return "norm";
    case TRI_PART_HEAD: return "head";
    case TRI_PART_ROUTER: return "router";
  }
  return "?";
}

tri_parameter_group tri_parameter_group_of(const tri_parameter *parameter) {
  if (parameter->num_dims < 2) return TRI_GROUP_VECTORS;
  switch (parameter->part) {
    case TRI_PART_EMBEDDING:
    case TRI_PART_HEAD: return TRI_GROUP_EMBEDDINGS;
    case TRI_PART_ROUTER: return TRI_GROUP_ROUTERS;
    case TRI_PART_ATTENTION:
    case TRI_PART_MLP:
    case TRI_PART_NORM: break;
  }
  return TRI_GROUP_MATRICES;
}

const char *tri_parameter_group_name(tri_parameter_group group) {
#define GROUP_NAME(VALUE, name)                                                                                        \
  case TRI_GROUP_##VALUE: return #name;
  switch (group) { TRI_PARAMETER_GROUPS(GROUP_NAME) }
#undef GROUP_NAME
  return "?";
}
