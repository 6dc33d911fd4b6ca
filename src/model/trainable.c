#include "model/trainable.h"

#include "base/memory.h"
#include "model/model.h"
#include "model/parameters.h"
#include "model/trainable_experts.h"
#include "model/trainable_match.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool tri_trainable_has_adapter(const tri_trainable *tuning) { return tuning->adapter.rank > 0; }

bool tri_adapter_is_principal(const tri_adapter *adapter) {
  switch (adapter->init) {
    case TRI_ADAPTER_KAIMING:
    case TRI_ADAPTER_GAUSSIAN: return false;
    case TRI_ADAPTER_PISSA: break;
  }
  return adapter->rank > 0;
}

void tri_trainable_freeze_all(tri_trainable *tuning) {
  *tuning = (tri_trainable){.freeze = {.words = {{"*"}}, .count = 1}, .blocks = tuning->blocks};
}

bool tri_trainable_is_full(const tri_trainable *tuning) {
  return tuning->freeze.count == 0 && !tri_trainable_has_adapter(tuning);
}

/* Returns whether one of the words may distinguish layers by their numbers. */
static bool tells_layers(const tri_trainable_words *words) {
  for (int64_t i = 0; i < words->count; i++) {
    if (strpbrk(words->words[i].text, "0123456789?[") != NULL) return true;
  }
  return false;
}

/* Returns whether patterns may distinguish layers by their numbers. In a regular expression a dot may match a digit. */
static bool distinguish_layers(const tri_adapter_patterns *patterns) {
  for (int64_t i = 0; i < patterns->count; i++) {
    if (strpbrk(patterns->entries[i].pattern, "0123456789.?*+[\\{") != NULL) return true;
  }
  return false;
}

bool tri_trainable_distinguishes_layers(const tri_trainable *tuning) {
  if (!tri_trainable_has_adapter(tuning)) return tells_layers(&tuning->freeze);
  if (distinguish_layers(&tuning->adapter.rank_pattern) || distinguish_layers(&tuning->adapter.alpha_pattern))
    return true;
  return tells_layers(&tuning->adapter.targets) || tells_layers(&tuning->adapter.train);
}

static double scale_of(tri_scaling scaling, double alpha, double rank) {
  switch (scaling) {
    case TRI_SCALING_LORA: break;
    case TRI_SCALING_RSLORA: return alpha / sqrt(rank);
  }
  return alpha / rank;
}

tri_adapter_pair tri_adapter_pair_of(const tri_adapter *adapter, const char *name) {
  char module[TRI_PARAMETER_NAME_BYTES];
  snprintf(module, sizeof module, "%.*s", tri_trainable_module_length(name), name);
  const int64_t of_rank = tri_trainable_pattern_of(&adapter->rank_pattern, module);
  const int64_t of_alpha = tri_trainable_pattern_of(&adapter->alpha_pattern, module);
  tri_adapter_pair out = {adapter->rank, adapter->alpha, 0, of_rank};
  if (of_rank >= 0) out.rank = adapter->rank_pattern.entries[of_rank].rank;
  if (of_alpha >= 0) out.alpha = adapter->alpha_pattern.entries[of_alpha].alpha;
  out.scale = scale_of(adapter->scaling, out.alpha, (double)out.rank);
  return out;
}

void tri_trainable_describe(const tri_trainable_words *words, char *out, size_t out_bytes) {
  size_t length = 0;
  out[0] = '\0';
  for (int64_t i = 0; i < words->count && length < out_bytes; i++) {
    length += (size_t)snprintf(out + length, out_bytes - length, "%s%s", i == 0 ? "" : ", ", words->words[i].text);
  }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Returns whether a parameter is a matrix that GEMMs read, or the embedding of tokens. The embedding of positions is
 * never split. */
static bool is_read_by_rows(const tri_parameter *entry) {
  switch (entry->part) {
    case TRI_PART_ATTENTION:
    case TRI_PART_MLP:
    case TRI_PART_HEAD: return true;
    case TRI_PART_EMBEDDING: return entry->split.dim >= 0;
    case TRI_PART_NORM:
    case TRI_PART_ROUTER: break;
  }
  return false;
}

/* Returns how a matrix is stored if it could be in blocks. `logits`: whether logits are computed with it. */
static tri_stored in_blocks(tri_block_storage blocks, const tri_parameter *entry, bool logits) {
  if (entry->shape[entry->in_out ? 0 : 1] % TRI_BLOCK_INPUTS != 0) return TRI_STORED_BF16;
  switch (blocks) {
    case TRI_IN_BLOCKS_NONE: break;
    case TRI_IN_BLOCKS_Q8_0: return TRI_STORED_Q8_0;
    case TRI_IN_BLOCKS_Q4_0: return logits ? TRI_STORED_Q8_0 : TRI_STORED_Q4_0;
  }
  return TRI_STORED_NARROW;
}

/* Returns the stored type of a frozen parameter: blocks for matrices and the embedding of tokens, if the model has
 * them; 4 bits for matrices of layers, if the adapter quantises them; the activations' type for other matrices and the
 * embedding of tokens; the wide type for norms, routers and the embedding of positions, which is never split. `tied`:
 * whether the model ties its embeddings. */
static tri_stored stored_of(const tri_trainable *tuning, bool tied, const tri_parameter *entry) {
  if (entry->num_dims < 2) return TRI_STORED_WIDE;
  if (tuning->blocks != TRI_IN_BLOCKS_NONE && is_read_by_rows(entry))
    return in_blocks(tuning->blocks, entry,
                     entry->part == TRI_PART_HEAD || (tied && entry->part == TRI_PART_EMBEDDING));
  if (tri_trainable_is_quantised(tuning) && tri_trainable_can_quantise(entry)) return TRI_STORED_NF4;
  return is_read_by_rows(entry) ? TRI_STORED_NARROW : TRI_STORED_WIDE;
}

bool tri_trainable_is_read_narrow(const tri_parameter *entry) {
  if (entry->num_dims < 2 || entry->factor) return false;
  switch (entry->part) {
    case TRI_PART_ATTENTION:
    case TRI_PART_MLP:
    case TRI_PART_HEAD: return true;
    case TRI_PART_EMBEDDING: /* rows are added in the wide type */
    case TRI_PART_NORM:
    case TRI_PART_ROUTER: break;
  }
  return false;
}

/* Returns the key whose patterns are in use: with an adapter `adapter.train` (trained parameters), else `freeze`
 * (frozen parameters). */
static const char *key_of(const tri_trainable *tuning) {
  return tri_trainable_has_adapter(tuning) ? "adapter.train" : "freeze";
}

static tri_status mark_entry(const tri_trainable *tuning, tri_parameter *entry) {
  const bool adapted = tri_trainable_has_adapter(tuning);
  const int64_t named = tri_trainable_num_named(adapted ? &tuning->adapter.train : &tuning->freeze, entry);
  entry->frozen = (named > 0) != adapted;
  if (named == 0 || named == tri_parameter_num_tensors(entry)) return TRI_OK;
  return tri_fail(
      TRI_BAD_CONFIG,
      "`%s` matches %ld of the %ld matrices of %.80s, which are multiplied as one; match all of them or none",
      key_of(tuning), (long)named, (long)tri_parameter_num_tensors(entry), entry->name);
}

/* Separates joined matrices if one is trained and the other not, because they are in different arrays (ops/linear.c).
 * Parts of one tensor have one name, so they are both trained or both frozen. */
static void part_mixed(const tri_parameter *before, tri_parameter *entry) {
  if (before->frozen != entry->frozen) entry->joined = false;
}

static tri_status mark_frozen(const tri_trainable *tuning, bool tied, tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    tri_parameter *entry = &table->entries[i];
    if (entry->tied_to < 0) TRI_TRY(mark_entry(tuning, entry));
    if (entry->tied_to >= 0) entry->frozen = table->entries[entry->tied_to].frozen;
    entry->stored = entry->frozen ? stored_of(tuning, tied, entry) : TRI_STORED_WIDE;
    if (i > 0) part_mixed(&table->entries[i - 1], entry);
  }
  return TRI_OK;
}

/* Splits dimension `dim` of a factor like dimension `from` of its matrix. If the matrix is split along its other
 * dimension, the factor is whole, and each rank has the part of the factor's gradient that comes from its shard of the
 * other factor. */
static void split_like(const tri_parameter *matrix, int from, int dim, tri_parameter *factor) {
  factor->split = tri_split_none();
  factor->by_heads = matrix->split.dim >= 0 && matrix->split.dim != from;
  if (matrix->split.dim != from) return;
  factor->split = matrix->split;
  factor->split.dim = dim;
}

/* Sets the initial values of a token table's factors: A is zero, for any `init`, as in PEFT; for matrices of layers B
 * is zero. */
static void begin_of_table(int which, tri_parameter *factor) {
  factor->init = which == 0 ? TRI_INIT_ZERO : TRI_INIT_NORMAL;
  factor->std = 1;
}

/* Sets the initial values of A: Kaiming with a = sqrt(5), or normal with the deviation 1 / rank. PiSSA's values are set
 * when the base is read. */
static void begin_a(tri_adapter_init init, tri_parameter *factor) {
  switch (init) {
    case TRI_ADAPTER_KAIMING:
      factor->init = TRI_INIT_UNIFORM;
      factor->std = 1 / sqrt(3.0 * (double)factor->shape[1]);
      return;
    case TRI_ADAPTER_GAUSSIAN:
      factor->init = TRI_INIT_NORMAL;
      factor->std = 1 / (double)factor->shape[0];
      return;
    case TRI_ADAPTER_PISSA: factor->init = TRI_INIT_ZERO; return;
  }
}

static tri_parameter factor_of(const tri_adapter *adapter, const tri_parameter *matrix, int which) {
  const int in = tri_trainable_is_in_out(matrix) ? 0 : 1, out = 1 - in;
  char name[TRI_PARAMETER_NAME_BYTES];
  tri_trainable_target_name(matrix, name);
  const tri_adapter_pair pair = tri_adapter_pair_of(adapter, name);
  tri_parameter factor = *matrix;
  factor.shape[0] = which == 0 ? pair.rank : matrix->shape[out];
  factor.shape[1] = which == 0 ? matrix->shape[in] : pair.rank;
  factor.scale = pair.scale;
  factor.init = TRI_INIT_ZERO;
  if (which == 0) begin_a(adapter->init, &factor);
  if (tri_trainable_is_table(matrix)) begin_of_table(which, &factor);
  factor.in_out = factor.frozen = factor.joined = false;
  factor.stored = TRI_STORED_WIDE;
  factor.factor = true;
  if (which == 0) factor.within = (tri_rows_within){.rows = 0};
  split_like(matrix, which == 0 ? in : out, 1 - which, &factor);
  factor.tied_to = -1;
  tri_trainable_factor_name(matrix, "AB"[which], factor.name, sizeof factor.name);
  if (tri_trainable_is_of_experts(matrix)) tri_trainable_stack_factor(adapter, matrix, which, &factor);
  return factor;
}

/* Returns the magnitudes of a matrix's outputs. */
static tri_parameter magnitude_of(const tri_parameter *matrix) {
  const int out = matrix->in_out ? 1 : 0;
  tri_parameter magnitude = *matrix;
  magnitude.num_dims = 1;
  magnitude.shape[0] = matrix->shape[out];
  magnitude.shape[1] = 1;
  magnitude.init = TRI_INIT_ONE; /* replaced when the base is read */
  magnitude.in_out = magnitude.frozen = false;
  magnitude.joined = tri_parameter_continues(matrix);
  magnitude.stored = TRI_STORED_WIDE;
  magnitude.factor = true;
  split_like(matrix, out, 0, &magnitude);
  snprintf(magnitude.name, sizeof magnitude.name, "%.*s." TRI_MAGNITUDE_NAME, tri_trainable_module_length(matrix->name),
           matrix->name);
  return magnitude;
}

static void add_magnitudes(const tri_adapter *adapter, int64_t first, int64_t end, tri_parameter *to, int64_t *count) {
  for (int64_t i = first; i < end; i++) {
    if (to[i].factor || !tri_trainable_is_target(adapter, &to[i])) continue;
    to[*count] = magnitude_of(&to[i]);
    to[i].magnitude = (int32_t)(*count)++;
  }
}

/* Returns the initial value of a factor as a frozen parameter: A0 in the type that GEMMs read, B0 in the wide type. */
static tri_parameter first_of(const tri_adapter *adapter, const tri_parameter *matrix, int which) {
  tri_parameter first = factor_of(adapter, matrix, which);
  first.first = first.frozen = true;
  first.stored = which == 0 ? TRI_STORED_NARROW : TRI_STORED_WIDE;
  snprintf(first.name, sizeof first.name, "%.*s.lora_%c0.weight", tri_trainable_module_length(matrix->name),
           matrix->name, "AB"[which]);
  return first;
}

/* Adds the factors of the family's matrices [first, end), which one GEMM uses: all As, which are joined as well, then
 * all Bs. Parts of one tensor share an A, and have parts of a B. If `firsts`, adds the initial values of the factors
 * instead. */
static void add_factors(const tri_adapter *adapter, bool firsts, int64_t first, int64_t end, tri_parameter *to,
                        int64_t *count) {
  for (int which = 0; which < 2; which++) {
    bool joined = false;
    for (int64_t i = first; i < end; i++) {
      int32_t *number = firsts ? to[i].firsts : to[i].factors;
      if (to[i].factor || !tri_trainable_is_target(adapter, &to[i])) continue;
      if (which == 0 && tri_parameter_continues(&to[i])) {
        number[which] = (firsts ? to[i - 1].firsts : to[i - 1].factors)[which];
        continue;
      }
      tri_parameter *factor = &to[*count];
      *factor = firsts ? first_of(adapter, &to[i], which) : factor_of(adapter, &to[i], which);
      factor->joined = joined || tri_parameter_continues(factor);
      joined = which == 0;
      number[which] = (int32_t)(*count)++;
    }
  }
}

/* Adds the output projection's factors, which are the embedding's, transposed: its A is the embedding's B and vice
 * versa. */
static void add_twins(tri_parameter *head, tri_parameter *to, int64_t *count) {
  for (int which = 0; which < 2; which++) {
    const int32_t of = to[head->tied_to].factors[which];
    tri_parameter *twin = &to[*count];
    *twin = to[of];
    twin->part = TRI_PART_HEAD;
    twin->layer = head->layer;
    twin->in_out = true;
    twin->tied_to = of;
    tri_trainable_factor_name(head, "BA"[which], twin -> name, sizeof twin->name);
    head->factors[1 - which] = (int32_t)(*count)++;
  }
}

/* Adds the shared factors of an embedding and an output projection. */
static void add_tied(const tri_adapter *adapter, tri_parameter *entry, tri_parameter *to, int64_t *count) {
  if (entry->tied_to >= 0) {
    add_twins(entry, to, count);
    return;
  }
  for (int which = 0; which < 2; which++) {
    to[*count] = factor_of(adapter, entry, which);
    entry->factors[which] = (int32_t)(*count)++;
  }
}

/* Inserts factors, their initial values for PiSSA, and magnitudes after their matrices, so that the parameters of a
 * layer are adjacent. */
static tri_status insert_factors(const tri_adapter *adapter, tri_parameter_table *table) {
  const int64_t before = table->num_entries;
  tri_parameter *entries = NULL;
  const bool ties = tri_trainable_ties_factors(adapter, table);
  int64_t count = 0;
  TRI_TRY(tri_alloc("the parameter table", 6 * (size_t)before, sizeof *entries, &entries));
  for (int64_t i = 0, first = 0; i < before; i++) {
    if (!table->entries[i].joined) first = count;
    entries[count++] = table->entries[i];
    if (i + 1 < before && table->entries[i + 1].joined) continue;
    const int64_t end = count;
    if (ties && !tri_trainable_is_linear(&entries[first]) && tri_trainable_may_have_factors(&entries[first])) {
      add_tied(adapter, &entries[first], entries, &count);
      continue;
    }
    add_factors(adapter, false, first, end, entries, &count);
    if (tri_adapter_is_principal(adapter)) add_factors(adapter, true, first, end, entries, &count);
    if (adapter->magnitude) add_magnitudes(adapter, first, end, entries, &count);
  }
  tri_free(table->entries);
  table->entries = entries;
  table->num_entries = count;
  table->has_factors = true;
  return TRI_OK;
}

tri_status tri_trainable_apply(const tri_model *model, tri_parameter_table *table) {
  const tri_trainable *tuning = &model->tuning;
  for (int64_t i = 0; i < table->num_entries; i++) {
    tri_parameter *entry = &table->entries[i];
    entry->factors[0] = entry->factors[1] = entry->firsts[0] = entry->firsts[1] = entry->magnitude = -1;
  }
  if (tri_trainable_is_full(tuning)) return TRI_OK;
  TRI_TRY(mark_frozen(tuning, model->tied, table));
  return tri_trainable_has_adapter(tuning) ? insert_factors(&tuning->adapter, table) : TRI_OK;
}

int64_t tri_trainable_lowest_of(const tri_parameter_table *table) {
  int64_t lowest = INT64_MAX;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (!entry->frozen && entry->layer < lowest) lowest = entry->layer;
  }
  return lowest;
}

tri_status tri_trainable_lowest_layer(const tri_model *model, int64_t *out) {
  tri_parameter_table *table = NULL;
  *out = -1;
  if (tri_trainable_is_full(&model->tuning)) return TRI_OK;
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  *out = tri_trainable_lowest_of(table);
  tri_parameter_table_destroy(table);
  return TRI_OK;
}
