/* Checks the `freeze` and `adapter` keys of a model against its parameters: each word and pattern must name something,
 * and something must be trained. */
#include "model/trainable.h"

#include "base/python_pattern.h"
#include "model/model.h"
#include "model/trainable_experts.h"
#include "model/trainable_match.h"

#include <stdio.h>
#include <string.h>

static bool names_something(const tri_parameter_table *table, const tri_trainable_word *pattern) {
  const tri_trainable_words alone = {.words = {*pattern}, .count = 1};
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (!table->entries[i].factor && tri_trainable_num_named(&alone, &table->entries[i]) > 0) return true;
  }
  return false;
}

static tri_status check_patterns(const tri_parameter_table *table, const char *key,
                                 const tri_trainable_words *patterns) {
  for (int64_t i = 0; i < patterns->count; i++) {
    if (names_something(table, &patterns->words[i])) continue;
    return tri_fail(TRI_BAD_CONFIG,
                    "`%s`: %.96s matches no tensor of the model; names look like %.80s, and `trireme inspect` "
                    "lists them",
                    key, patterns->words[i].text, table->entries[table->num_entries / 2].name);
  }
  return TRI_OK;
}

/* Refuses a target that names modules which cannot have factors. */
static tri_status check_target(const tri_parameter_table *table, const char *target) {
  const tri_parameter *other = NULL;
  char name[TRI_PARAMETER_NAME_BYTES], some[400] = "";
  size_t length = 0;
  bool experts = false;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    tri_trainable_name_on_disk(entry, name);
    if (tri_trainable_is_module(target, name) && tri_trainable_may_have_factors(entry)) return TRI_OK;
    if (tri_trainable_is_module(target, name)) other = entry;
    tri_trainable_target_name(entry, name);
    if (tri_trainable_is_of_experts(entry) && tri_trainable_names_experts(target, name)) return TRI_OK;
    experts = experts || tri_trainable_is_of_experts(entry);
    const bool again = entry->layer > 0 && tri_trainable_is_linear(entry); /* the module has the same name as in the
                                                                              first layer */
    if (!tri_trainable_may_have_factors(entry) || entry->factor || again || length > sizeof some - 100) continue;
    const int module = tri_trainable_module_length(name);
    const char *last = name + module;
    while (last > name && last[-1] != '.') last--;
    length += (size_t)snprintf(some + length, sizeof some - length, "%s%.*s", length == 0 ? "" : ", ",
                               (int)(name + module - last), last);
  }
  if (experts && length < sizeof some - 100) {
    snprintf(some + length, sizeof some - length,
             "%smlp.experts.gate_up_proj (experts' gate and up), "
             "mlp.experts.down_proj",
             length == 0 ? "" : ", ");
  }
  if (other != NULL) {
    return tri_fail(TRI_BAD_CONFIG, "`adapter.targets`: %.96s is not a matrix that has factors; choose from %s", target,
                    some);
  }
  return tri_fail(TRI_BAD_CONFIG, "`adapter.targets`: %.96s is not a module of the model; choose from %s", target,
                  some);
}

/* Checks factors of an output projection and an embedding that are tied, and ensure_weight_tying. PEFT shares the
 * factors under the same conditions. */
static tri_status check_ties(const tri_adapter *adapter, const tri_parameter_table *table) {
  const tri_parameter *head = NULL;
  for (int64_t i = 0; i < table->num_entries && head == NULL; i++) {
    if (table->entries[i].tied_to >= 0) head = &table->entries[i];
  }
  if (head == NULL && !adapter->ensure_weight_tying) return TRI_OK;
  if (head == NULL) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`adapter.ensure_weight_tying`: this model's output projection is not tied to its embedding, so "
                    "there is nothing to tie; leave it out");
  }
  const tri_parameter *embedding = &table->entries[head->tied_to];
  const bool of_head = head->factors[0] >= 0, of_embedding = embedding->factors[0] >= 0;
  if (!embedding->frozen && (of_head || of_embedding)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`adapter.targets` names %.80s, which is tied to %.80s, but `adapter.train` trains the two as one "
                    "parameter, and PEFT supports no factors of it; leave one of them out",
                    of_head ? head->name : embedding->name, of_head ? embedding->name : head->name);
  }
  if (!adapter->ensure_weight_tying || !embedding->frozen) return TRI_OK;
  if (!of_embedding || !tri_trainable_names_tied(adapter)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`adapter.ensure_weight_tying`: PEFT ties factors where a target is embed_tokens or lm_head, and "
                    "`adapter.targets` names neither; name lm_head there, or leave the key out");
  }
  const tri_adapter_pair a = tri_adapter_pair_of(adapter, embedding->name),
                         b = tri_adapter_pair_of(adapter, head->name);
  if (a.rank == b.rank && a.alpha == b.alpha) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`adapter.ensure_weight_tying`: %.80s has rank %ld and alpha %g, and %.80s %ld and %g by "
                  "`adapter.rank_pattern` and `adapter.alpha_pattern`; give both the same",
                  embedding->name, (long)a.rank, a.alpha, head->name, (long)b.rank, b.alpha);
}

/* Returns the first parameter with factors that is a matrix of experts or outside of layers; NULL if there is none. */
static const tri_parameter *first_outside(const tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (!entry->factor && entry->factors[0] >= 0 && !tri_trainable_is_linear(entry)) return entry;
  }
  return NULL;
}

/* Refuses PiSSA for experts and for matrices outside of layers. */
static tri_status check_principal(const tri_adapter *adapter, const tri_parameter_table *table) {
  const tri_parameter *entry = tri_adapter_is_principal(adapter) ? first_outside(table) : NULL;
  if (entry == NULL) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "`adapter.init`: pissa is for matrices of layers, and `adapter.targets` names %.80s too; leave "
                  "that out, or use kaiming or gaussian",
                  entry->name);
}

/* Refuses magnitudes of experts, which PEFT does not support either, and of matrices outside of layers. */
static tri_status check_magnitudes(const tri_adapter *adapter, const tri_parameter_table *table) {
  const tri_parameter *entry = adapter->magnitude ? first_outside(table) : NULL;
  if (entry == NULL) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "`adapter.magnitude` (DoRA) is for matrices of layers that all tokens go through, and "
                  "`adapter.targets` names %.80s too; leave one of them out",
                  entry->name);
}

static bool names_experts(const tri_parameter_table *table, const char *target) {
  char name[TRI_PARAMETER_NAME_BYTES];
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->factor || !tri_trainable_is_of_experts(entry)) continue;
    tri_trainable_target_name(entry, name);
    if (tri_trainable_names_experts(target, name)) return true;
  }
  return false;
}

static tri_status check_targets(const tri_model *model, const tri_parameter_table *table) {
  const tri_adapter *adapter = &model->tuning.adapter;
  for (int64_t i = 0; i < adapter->targets.count; i++) {
    const char *target = adapter->targets.words[i].text;
    if (strcmp(target, TRI_TRAINABLE_ALL_LINEAR) == 0) continue;
    TRI_TRY(check_target(table, target));
    if (!tri_trainable_is_for_all(adapter) || names_experts(table, target)) continue;
    return tri_fail(TRI_BAD_CONFIG,
                    "`adapter.targets`: all-linear stands for all but experts, so leave the others out");
  }
  return TRI_OK;
}

static bool names_target(const tri_parameter_table *table, const tri_adapter_patterns *pattern) {
  char module[TRI_PARAMETER_NAME_BYTES];
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->factor || entry->factors[0] < 0) continue;
    char name[TRI_PARAMETER_NAME_BYTES];
    tri_trainable_target_name(entry, name);
    snprintf(module, sizeof module, "%.*s", tri_trainable_module_length(name), name);
    if (tri_trainable_pattern_of(pattern, module) >= 0) return true;
  }
  return false;
}

static tri_status check_adapter_patterns(const tri_parameter_table *table, const char *key,
                                         const tri_adapter_patterns *patterns) {
  const tri_parameter *first = NULL;
  char name[TRI_PARAMETER_NAME_BYTES] = "";
  for (int64_t i = 0; i < table->num_entries && first == NULL; i++) {
    if (table->entries[i].factors[0] >= 0) first = &table->entries[i];
  }
  if (first != NULL) tri_trainable_target_name(first, name);
  for (int64_t i = 0; i < patterns->count && first != NULL; i++) {
    const char *pattern = patterns->entries[i].pattern;
    if (!tri_python_pattern_is_known(pattern)) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`%s`: %.96s is not a regular expression, or not one that is read here: names, \\., \\d, sets, "
                      "groups, | and repeats such as .* are",
                      key, pattern);
    }
    const tri_adapter_patterns alone = {.entries = {patterns->entries[i]}, .count = 1};
    if (names_target(table, &alone)) continue;
    return tri_fail(TRI_BAD_CONFIG,
                    "`%s`: %.96s matches no target; a pattern is for the end of a module's name, such as %.*s", key,
                    pattern, tri_trainable_module_length(name), name);
  }
  return TRI_OK;
}

/* Checks ranks against the shorter sides of their matrices: rank_pattern for each matrix, adapter.rank for the others.
 */
static tri_status check_ranks(const tri_model *model, const tri_parameter_table *table) {
  const tri_adapter *adapter = &model->tuning.adapter;
  const tri_parameter *smallest = NULL;
  int64_t least = 0, rows = 0, columns = 0;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->factor || entry->factors[0] < 0) continue;
    const tri_parameter whole = tri_parameter_on_disk(entry);
    char name[TRI_PARAMETER_NAME_BYTES];
    tri_trainable_target_name(entry, name);
    const tri_adapter_pair pair = tri_adapter_pair_of(adapter, name);
    const int64_t side = whole.shape[0] < whole.shape[1] ? whole.shape[0] : whole.shape[1];
    if (pair.rank_from >= 0 && pair.rank > side) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`adapter.rank_pattern`: %ld of %.96s is above the rank of %.80s, a matrix of %ld x %ld; use at "
                      "most %ld",
                      (long)pair.rank, adapter->rank_pattern.entries[pair.rank_from].pattern, entry->name,
                      (long)whole.shape[0], (long)whole.shape[1], (long)side);
    }
    if (pair.rank_from >= 0 || (smallest != NULL && side >= least)) continue;
    smallest = entry, least = side, rows = whole.shape[0], columns = whole.shape[1];
  }
  if (smallest == NULL || adapter->rank <= least) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`adapter.rank` %ld is above that of %.80s, a matrix of %ld x %ld; use at most %ld",
                  (long)adapter->rank, smallest->name, (long)rows, (long)columns, (long)least);
}

static tri_status check_something_trained(const tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (!table->entries[i].frozen) return TRI_OK;
  }
  return tri_fail(TRI_BAD_CONFIG, "`freeze` leaves nothing to train; leave some pattern out");
}

/* Refuses patterns that name only the output projection of a tied model, because it is trained or frozen with the
 * embedding. */
static tri_status check_tied_patterns(const tri_parameter_table *table, const char *key,
                                      const tri_trainable_words *patterns) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *head = &table->entries[i];
    if (head->tied_to < 0 || head->factor || tri_trainable_num_named(patterns, head) == 0) continue;
    const tri_parameter *embedding = &table->entries[head->tied_to];
    if (tri_trainable_num_named(patterns, embedding) > 0) continue;
    return tri_fail(TRI_BAD_CONFIG, "`%s` matches %.80s, which is tied to %.80s; name the latter, which includes both",
                    key, head->name, embedding->name);
  }
  return TRI_OK;
}

static tri_status check_table(const tri_model *model, const tri_parameter_table *table) {
  const tri_trainable *tuning = &model->tuning;
  TRI_TRY(check_patterns(table, "freeze", &tuning->freeze));
  TRI_TRY(check_tied_patterns(table, "freeze", &tuning->freeze));
  if (!tri_trainable_has_adapter(tuning)) return check_something_trained(table);
  TRI_TRY(check_patterns(table, "adapter.train", &tuning->adapter.train));
  TRI_TRY(check_tied_patterns(table, "adapter.train", &tuning->adapter.train));
  TRI_TRY(check_targets(model, table));
  TRI_TRY(check_principal(&tuning->adapter, table));
  TRI_TRY(check_magnitudes(&tuning->adapter, table));
  TRI_TRY(check_ties(&tuning->adapter, table));
  TRI_TRY(check_adapter_patterns(table, "adapter.rank_pattern", &tuning->adapter.rank_pattern));
  TRI_TRY(check_adapter_patterns(table, "adapter.alpha_pattern", &tuning->adapter.alpha_pattern));
  TRI_TRY(tri_trainable_check_experts(&tuning->adapter, table));
  return check_ranks(model, table);
}

static tri_status check_words(const tri_trainable *tuning) {
  const tri_adapter *adapter = &tuning->adapter;
  const bool scaled = adapter->alpha > 0 && adapter->alpha != 1; /* 1: not given */
  const bool says_more = !tri_trainable_is_for_all(adapter) || adapter->train.count > 0 ||
                         tri_trainable_is_quantised(tuning) || scaled || adapter->dropout > 0 || adapter->magnitude ||
                         adapter->scaling != TRI_SCALING_LORA || adapter->init != TRI_ADAPTER_KAIMING ||
                         adapter->rank_pattern.count > 0 || adapter->alpha_pattern.count > 0 ||
                         adapter->ensure_weight_tying;
  if (!tri_trainable_has_adapter(tuning) && says_more) {
    return tri_fail(TRI_BAD_CONFIG, "`adapter.rank` is 0, so the run has no adapter; set a rank, for example 16");
  }
  if (tri_adapter_is_principal(adapter) && tri_trainable_is_quantised(tuning)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`adapter.init`: pissa is not supported for a base in four bits, because its singular vectors are "
                    "unknown; leave `adapter.quantise` out, or use kaiming or gaussian");
  }
  if (tri_adapter_is_principal(adapter) && adapter->magnitude) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`adapter.magnitude` is not supported with `adapter.init: pissa`, because its factors begin as "
                    "parts of the base; leave one of them out");
  }
  if (!tri_trainable_has_adapter(tuning) || tuning->freeze.count == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`freeze` is not for runs with an adapter, where everything is frozen that `adapter.train` does not "
                  "name; leave it out");
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
