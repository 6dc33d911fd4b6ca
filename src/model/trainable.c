#include "model/trainable.h"

#include "base/memory.h"
#include "model/model.h"
#include "model/parameters.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- questions --------------------------------------------------------------------------------------------------- */

bool tri_trainable_has_adapter(const tri_trainable *tuning) { return tuning->adapter.rank > 0; }

bool tri_trainable_is_full(const tri_trainable *tuning) {
  return tuning->freeze.count == 0 && !tri_trainable_has_adapter(tuning);
}

/* Layers differ by the numbers in their names. */
static bool tells_layers(const tri_trainable_words *words) {
  for (int64_t i = 0; i < words->count; i++) {
    if (strpbrk(words->words[i].text, "0123456789?[") != NULL) return true;
  }
  return false;
}

bool tri_trainable_tells_layers(const tri_trainable *tuning) {
  if (!tri_trainable_has_adapter(tuning)) return tells_layers(&tuning->freeze);
  return tells_layers(&tuning->adapter.targets) || tells_layers(&tuning->adapter.train);
}

double tri_adapter_scale(const tri_adapter *adapter) { return adapter->alpha / (double)adapter->rank; }

void tri_trainable_describe(const tri_trainable_words *words, char *out, size_t out_bytes) {
  size_t length = 0;
  out[0] = '\0';
  for (int64_t i = 0; i < words->count && length < out_bytes; i++) {
    length += (size_t)snprintf(out + length, out_bytes - length, "%s%s", i == 0 ? "" : ", ", words->words[i].text);
  }
}

static bool matches(const tri_trainable_words *patterns, const char *name) {
  for (int64_t i = 0; i < patterns->count; i++) {
    if (fnmatch(patterns->words[i].text, name, 0) == 0) return true;
  }
  return false;
}

/* Of a stack all members go together. */
static void name_on_disk(const tri_parameter *entry, char out[TRI_PARAMETER_NAME_BYTES]) {
  int64_t first = 0;
  const tri_parameter tensor = tri_parameter_tensor(entry, 0, &first);
  memcpy(out, tensor.name, TRI_PARAMETER_NAME_BYTES);
}

bool tri_trainable_can_quantise(const tri_parameter *entry) {
  if (entry->num_dims < 2) return false;
  switch (entry->part) {
    case TRI_PART_ATTENTION:
    case TRI_PART_MLP: return true;
    case TRI_PART_EMBEDDING:
    case TRI_PART_NORM:
    case TRI_PART_HEAD:
    case TRI_PART_ROUTER: break;
  }
  return false;
}

/* A matrix of a layer that every token meets. */
static bool is_linear(const tri_parameter *entry) {
  return tri_trainable_can_quantise(entry) && !entry->placement.has_holders;
}

static bool is_quantised(const tri_trainable *tuning) {
  switch (tuning->adapter.quantise) {
    case TRI_QUANTISE_NONE: return false;
    case TRI_QUANTISE_NF4: break;
  }
  return true;
}

/* "model.layers.0.self_attn.q_proj" of "model.layers.0.self_attn.q_proj.weight"; returns its length. */
static int module_length(const char *name) {
  const char *end = strrchr(name, '.');
  return end == NULL ? (int)strlen(name) : (int)(end - name);
}

/* Whether a target is the end of a module's name, from a dot on. */
static bool is_module(const char *target, const char *name) {
  const size_t length = (size_t)module_length(name), own = strlen(target);
  if (own > length || strncmp(name + length - own, target, own) != 0) return false;
  return own == length || name[length - own - 1] == '.';
}

static bool is_for_all(const tri_adapter *adapter) {
  return adapter->targets.count == 0 || strcmp(adapter->targets.words[0].text, TRI_TRAINABLE_ALL_LINEAR) == 0;
}

static bool is_target(const tri_adapter *adapter, const tri_parameter *entry) {
  if (!is_linear(entry)) return false;
  if (is_for_all(adapter)) return true;
  for (int64_t i = 0; i < adapter->targets.count; i++) {
    if (is_module(adapter->targets.words[i].text, entry->name)) return true;
  }
  return false;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* What products read, and the rows of tokens, in the activations' type; those of positions, which no rank has a part
 * of, are added wide. */
static tri_stored stored_of(const tri_trainable *tuning, const tri_parameter *entry) {
  if (entry->num_dims < 2) return TRI_STORED_WIDE;
  if (is_quantised(tuning) && tri_trainable_can_quantise(entry)) return TRI_STORED_NF4;
  switch (entry->part) {
    case TRI_PART_ATTENTION:
    case TRI_PART_MLP:
    case TRI_PART_HEAD: return TRI_STORED_NARROW;
    case TRI_PART_EMBEDDING: return entry->split.dim >= 0 ? TRI_STORED_NARROW : TRI_STORED_WIDE;
    case TRI_PART_NORM:
    case TRI_PART_ROUTER: break;
  }
  return TRI_STORED_WIDE;
}

/* How many of an entry's tensors on disk some pattern names. */
static int64_t num_named(const tri_trainable_words *patterns, const tri_parameter *entry) {
  int64_t count = 0, first = 0;
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry) && patterns->count > 0; t++) {
    const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    count += matches(patterns, tensor.name);
  }
  return count;
}

/* The key whose patterns say what is frozen, or what is not. */
static const char *key_of(const tri_trainable *tuning) {
  return tri_trainable_has_adapter(tuning) ? "adapter.train" : "freeze";
}

static tri_status mark_entry(const tri_trainable *tuning, tri_parameter *entry) {
  const bool adapted = tri_trainable_has_adapter(tuning);
  const int64_t named = num_named(adapted ? &tuning->adapter.train : &tuning->freeze, entry);
  entry->frozen = (named > 0) != adapted;
  if (named == 0 || named == tri_parameter_num_tensors(entry)) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`%s` names %ld of the %ld matrices of %.80s, which are one in a product; name all of them or none",
                  key_of(tuning), (long)named, (long)tri_parameter_num_tensors(entry), entry->name);
}

/* Matrices that are one in a product have one gradient. */
static tri_status check_joined(const tri_parameter *before, const tri_parameter *entry, const tri_trainable *tuning) {
  if (!entry->joined || before->frozen == entry->frozen) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`%s` tells %.80s from %.80s, which are one matrix of a product; name both or neither",
                  key_of(tuning), before->name, entry->name);
}

static tri_status mark_frozen(const tri_trainable *tuning, tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    tri_parameter *entry = &table->entries[i];
    if (entry->tied_to < 0) TRI_TRY(mark_entry(tuning, entry));
    if (entry->tied_to >= 0) entry->frozen = table->entries[entry->tied_to].frozen;
    entry->stored = entry->frozen ? stored_of(tuning, entry) : TRI_STORED_WIDE;
    if (i > 0) TRI_TRY(check_joined(&table->entries[i - 1], entry, tuning));
  }
  return TRI_OK;
}

/* The split of a matrix's inputs or outputs as one of dimension `dim` of a factor; else the factor is whole, and each
 * rank of its parts has its gradient of what it has of the other. */
static void split_like(const tri_parameter *matrix, int from, int dim, tri_parameter *factor) {
  factor->split = tri_split_none();
  factor->by_heads = matrix->split.dim >= 0 && matrix->split.dim != from;
  if (matrix->split.dim != from) return;
  factor->split = matrix->split;
  factor->split.dim = dim;
}

static tri_parameter factor_of(const tri_adapter *adapter, const tri_parameter *matrix, int which) {
  const int in = matrix->in_out ? 0 : 1, out = 1 - in;
  tri_parameter factor = *matrix;
  factor.shape[0] = which == 0 ? adapter->rank : matrix->shape[out];
  factor.shape[1] = which == 0 ? matrix->shape[in] : adapter->rank;
  factor.init = which == 0 ? TRI_INIT_UNIFORM : TRI_INIT_ZERO;
  factor.std = 1 / sqrt(3.0 * (double)matrix->shape[in]); /* Kaiming's with a = sqrt(5), as torch.nn.Linear's */
  factor.in_out = factor.frozen = factor.joined = false;
  factor.stored = TRI_STORED_WIDE;
  factor.factor = true;
  if (which == 0) factor.within = (tri_rows_within){.rows = 0};
  split_like(matrix, which == 0 ? in : out, 1 - which, &factor);
  snprintf(factor.name, sizeof factor.name, "%.*s.lora_%c.weight", module_length(matrix->name), matrix->name,
           "AB"[which]);
  return factor;
}

/* Of matrices [first, end) of the family's, which are one in a product: all As, which are one too, then all Bs. Parts
 * of a tensor have one A, and parts of a B. */
static void add_factors(const tri_adapter *adapter, int64_t first, int64_t end, tri_parameter *to, int64_t *count) {
  for (int which = 0; which < 2; which++) {
    bool joined = false;
    for (int64_t i = first; i < end; i++) {
      if (to[i].factor || !is_target(adapter, &to[i])) continue;
      if (which == 0 && tri_parameter_continues(&to[i])) {
        to[i].factors[which] = to[i - 1].factors[which];
        continue;
      }
      tri_parameter *factor = &to[*count];
      *factor = factor_of(adapter, &to[i], which);
      factor->joined = joined || tri_parameter_continues(factor);
      joined = which == 0;
      to[i].factors[which] = (int32_t)(*count)++;
    }
  }
}

/* Factors lie behind their matrices, so that a layer's parameters are neighbours. */
static tri_status insert_factors(const tri_adapter *adapter, tri_parameter_table *table) {
  const int64_t before = table->num_entries;
  tri_parameter *entries = NULL;
  int64_t count = 0;
  TRI_TRY(tri_alloc("the parameter table", 3 * (size_t)before, sizeof *entries, &entries));
  for (int64_t i = 0, first = 0; i < before; i++) {
    if (!table->entries[i].joined) first = count;
    entries[count++] = table->entries[i];
    if (i + 1 == before || !table->entries[i + 1].joined) add_factors(adapter, first, count, entries, &count);
  }
  tri_free(table->entries);
  table->entries = entries;
  table->num_entries = count;
  table->has_factors = true;
  return TRI_OK;
}

tri_status tri_trainable_apply(const tri_model *model, tri_parameter_table *table) {
  const tri_trainable *tuning = &model->tuning;
  for (int64_t i = 0; i < table->num_entries; i++) table->entries[i].factors[0] = table->entries[i].factors[1] = -1;
  if (tri_trainable_is_full(tuning)) return TRI_OK;
  TRI_TRY(mark_frozen(tuning, table));
  return tri_trainable_has_adapter(tuning) ? insert_factors(&tuning->adapter, table) : TRI_OK;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bool names_something(const tri_parameter_table *table, const tri_trainable_word *pattern) {
  const tri_trainable_words alone = {.words = {*pattern}, .count = 1};
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (!table->entries[i].factor && num_named(&alone, &table->entries[i]) > 0) return true;
  }
  return false;
}

static tri_status check_patterns(const tri_parameter_table *table, const char *key,
                                 const tri_trainable_words *patterns) {
  for (int64_t i = 0; i < patterns->count; i++) {
    if (names_something(table, &patterns->words[i])) continue;
    return tri_fail(TRI_BAD_CONFIG,
                    "`%s`: %.96s is the name of no tensor of the model; names are such as %.80s, and `trireme inspect` "
                    "lists them",
                    key, patterns->words[i].text, table->entries[table->num_entries / 2].name);
  }
  return TRI_OK;
}

/* Modules that a target names and that have no factors. */
static tri_status check_target(const tri_parameter_table *table, const char *target) {
  const tri_parameter *other = NULL;
  char name[TRI_PARAMETER_NAME_BYTES], some[400] = "";
  size_t length = 0;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    name_on_disk(entry, name);
    if (is_module(target, name) && is_linear(entry)) return TRI_OK;
    if (is_module(target, name)) other = entry;
    if (!is_linear(entry) || entry->factor || entry->layer > 0 || length > sizeof some - 100) continue;
    const int module = module_length(name);
    const char *last = name + module;
    while (last > name && last[-1] != '.') last--;
    length += (size_t)snprintf(some + length, sizeof some - length, "%s%.*s", length == 0 ? "" : ", ",
                               (int)(name + module - last), last);
  }
  if (other != NULL) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`adapter.targets`: %.96s is not a matrix of a layer that all tokens meet; choose from %s", target,
                    some);
  }
  return tri_fail(TRI_BAD_CONFIG, "`adapter.targets`: %.96s is not a module of the model; choose from %s", target,
                  some);
}

static tri_status check_targets(const tri_model *model, const tri_parameter_table *table) {
  const tri_adapter *adapter = &model->tuning.adapter;
  for (int64_t i = 0; i < adapter->targets.count; i++) {
    const char *target = adapter->targets.words[i].text;
    if (strcmp(target, TRI_TRAINABLE_ALL_LINEAR) != 0) {
      TRI_TRY(check_target(table, target));
    } else if (adapter->targets.count > 1) {
      return tri_fail(TRI_BAD_CONFIG, "`adapter.targets`: all-linear stands for all, so leave the others out");
    }
  }
  return TRI_OK;
}

/* The matrix that bounds the rank: of all that get factors the one with the shortest side. */
static tri_status check_ranks(const tri_model *model, const tri_parameter_table *table) {
  const int64_t rank = model->tuning.adapter.rank;
  const tri_parameter *smallest = NULL;
  int64_t least = 0, rows = 0, columns = 0;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    const tri_parameter whole = tri_parameter_on_disk(entry);
    const int64_t side = whole.shape[0] < whole.shape[1] ? whole.shape[0] : whole.shape[1];
    if (entry->factors[0] < 0 || (smallest != NULL && side >= least)) continue;
    smallest = entry, least = side, rows = whole.shape[0], columns = whole.shape[1];
  }
  if (smallest == NULL || rank <= least) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`adapter.rank` %ld is above that of %.80s, a matrix of %ld x %ld; use at most %ld",
                  (long)rank, smallest->name, (long)rows, (long)columns, (long)least);
}

static tri_status check_something_trained(const tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (!table->entries[i].frozen) return TRI_OK;
  }
  return tri_fail(TRI_BAD_CONFIG, "`freeze` leaves nothing to train; leave some pattern out");
}

/* Codes are of whole tensors, as they are on disk. */
static tri_status check_quantised(const tri_model *model, const tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries && is_quantised(&model->tuning); i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->within.rows == 0 || entry->factor) continue;
    return tri_fail(
        TRI_BAD_CONFIG,
        "`adapter.quantise` nf4 is not there for %s, of whose %.80s several matrices are parts; leave it out",
        tri_family_name(model->family), entry->name);
  }
  return TRI_OK;
}

static tri_status check_table(const tri_model *model, const tri_parameter_table *table) {
  const tri_trainable *tuning = &model->tuning;
  TRI_TRY(check_patterns(table, "freeze", &tuning->freeze));
  if (!tri_trainable_has_adapter(tuning)) return check_something_trained(table);
  TRI_TRY(check_patterns(table, "adapter.train", &tuning->adapter.train));
  TRI_TRY(check_targets(model, table));
  TRI_TRY(check_quantised(model, table));
  return check_ranks(model, table);
}

static tri_status check_words(const tri_trainable *tuning) {
  const tri_adapter *adapter = &tuning->adapter;
  const bool scaled = adapter->alpha > 0 && adapter->alpha != 1; /* 1: not given */
  const bool says_more =
      !is_for_all(adapter) || adapter->train.count > 0 || is_quantised(tuning) || scaled || adapter->dropout > 0;
  if (!tri_trainable_has_adapter(tuning) && says_more) {
    return tri_fail(TRI_BAD_CONFIG, "`adapter.rank` is 0, so there is no adapter; give it a rank, for example 16");
  }
  if (!tri_trainable_has_adapter(tuning) || tuning->freeze.count == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`freeze` goes without `adapter`: with one, all else is frozen, but for what `adapter.train` names");
}

tri_status tri_trainable_check(const tri_model *model) {
  tri_parameter_table *table = NULL;
  TRI_TRY(check_words(&model->tuning));
  if (tri_trainable_is_full(&model->tuning)) return TRI_OK;
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  tri_status status = check_table(model, table);
  tri_parameter_table_destroy(table);
  return status;
}
