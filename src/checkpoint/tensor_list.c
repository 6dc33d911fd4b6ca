#include "checkpoint/tensor_list.h"

#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/peft.h"
#include "model/module_names.h"
#include "optimizers/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether a tensor may be ignored: a mask or frequencies, which follow from the configuration, or a moment of
 * Adam or a master copy. */
static bool may_be_left(const char *name) {
  static const char *const endings[] = {".attn.bias",           ".attn.masked_bias",      ".rotary_emb.inv_freq",
                                        ".attention.bias",      ".attention.masked_bias", TRI_CHECKPOINT_MOMENT1,
                                        TRI_CHECKPOINT_MOMENT2, TRI_CHECKPOINT_MASTER};
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    if (tri_ends_with(name, endings[i])) return true;
  }
  return false;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_tensors(const tri_parameter_table *table, bool tied, int64_t *count, tri_parameter *out) {
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    int64_t first = 0;
    if ((entry->tied_to >= 0) != tied) continue;
    for (int64_t t = 0; t < tri_parameter_num_tensors(entry) && !tri_parameter_continues(entry); t++) {
      const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
      if (!tri_parameter_continues(&tensor)) out[(*count)++] = tri_parameter_on_disk(&tensor);
    }
  }
}

/* Adds the matrices of stacks that are one tensor on disk, because optimizer states have the names of matrices. */
static void add_matrices(const tri_parameter_table *table, int64_t *count, tri_parameter *out) {
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    int64_t first = 0;
    if (entry->stacked.members == 0) continue;
    for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++)
      out[(*count)++] = tri_parameter_tensor(entry, t, &first);
  }
}

static void add_names(tri_tensor_list *list, int64_t count) {
  for (int64_t t = 0; t < count; t++) {
    const char *name = list->tensors[t].name, *dot = strchr(name, '.');
    list->names[list->num_names++] = name;
    if (dot != NULL) list->names[list->num_names++] = dot + 1;
  }
  qsort(list->names, (size_t)list->num_names, sizeof *list->names, compare_names);
}

tri_status tri_tensor_list_create(const tri_parameter_table *table, tri_tensor_list *out) {
  size_t all = 0;
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    all += (size_t)tri_parameter_num_tensors(entry) + (entry->stacked.members > 0 ? 1 : 0);
  }
  TRI_TRY(tri_alloc("the tensors of a model", all, sizeof *out->tensors, &out->tensors));
  TRI_TRY(tri_alloc("the tensors of a model", 2 * all, sizeof *out->names, &out->names));
  int64_t count = 0;
  add_tensors(table, false, &count, out->tensors);
  out->count = count;
  add_tensors(table, true, &count, out->tensors);
  add_matrices(table, &count, out->tensors);
  add_names(out, count);
  return TRI_OK;
}

void tri_tensor_list_release(tri_tensor_list *list) {
  tri_free(list->names);
  tri_free(list->tensors);
}

/* The list's names include the tied output projection, because the file of a tied model may have it as well. */
bool tri_tensor_list_knows(const tri_tensor_list *list, const char *name) {
  return bsearch(&name, list->names, (size_t)list->num_names, sizeof *list->names, compare_names) != NULL ||
         may_be_left(name);
}

/* ---- optimizer states -------------------------------------------------------------------------------------------- */

/* Returns whether a name is, for the suffix ".exp_avg", "NAME.exp_avg", or "NAME.PART.exp_avg" for a part of a tensor,
 * with a NAME of the model. Returns false if `suffix` is NULL. */
static bool is_of(const tri_tensor_list *list, const char *name, const char *suffix) {
  char own[TRI_PARAMETER_NAME_BYTES + 64];
  const size_t length = strlen(name);
  if (suffix == NULL || !tri_ends_with(name, suffix) || length >= sizeof own) return false;
  snprintf(own, sizeof own, "%.*s", (int)(length - strlen(suffix)), name);
  if (tri_tensor_list_knows(list, own)) return true;
  char *dot = strrchr(own, '.');
  if (dot == NULL) return false;
  *dot = '\0';
  return tri_tensor_list_knows(list, own);
}

/* Returns whether a tensor is a state of any optimizer, or a state that runs add (tri_run_states), such as an average.
 */
static bool is_kept(const tri_tensor_list *list, const char *name) {
#define OPTIMIZER(VALUE, NAME) &tri_optimizer_##NAME,
  static const tri_optimizer *const all[] = {TRI_OPTIMIZERS(OPTIMIZER)};
#undef OPTIMIZER
  bool found = false;
  for (int s = 0; s < TRI_NUM_RUN_STATES; s++) found = found || is_of(list, name, tri_run_states[s]->suffix);
  for (size_t i = 0; i < sizeof all / sizeof all[0] && !found; i++) {
    found = is_of(list, name, all[i]->trained);
    for (int64_t s = 0; s < all[i]->num_states; s++) found = found || is_of(list, name, all[i]->states[s].suffix);
  }
  return found;
}

/* ---- tensors that are not in the model --------------------------------------------------------------------------- */

/* Returns whether a name in an adapter, which may have the module's name, is in the list. */
static bool knows_module(const tri_tensor_list *list, const char *name) {
  char module[TRI_PARAMETER_NAME_BYTES];
  for (int64_t i = 0; i < list->num_names; i++) {
    if (!tri_module_names_differ(list->names[i])) continue;
    tri_module_names(list->names[i], module, sizeof module);
    if (strcmp(module, name) == 0) return true;
  }
  return false;
}

static void list_left_out(const tri_checkpoint *from, const tri_tensor_list *list, tri_left_out *out) {
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(from); i++) {
    const tri_checkpoint_entry entry = tri_checkpoint_get_entry(from, i);
    const char *name = tri_peft_own_name(entry.tensor->name);
    if (entry.tensor->bytes == 0 || tri_tensor_list_knows(list, name) || is_kept(list, name)) continue;
    if (tri_checkpoint_is_adapter(from) && knows_module(list, name)) continue;
    if (out->count++ == 0) out->first = entry.tensor->name;
  }
}

tri_status tri_checkpoint_find_left_out(const tri_checkpoint *from, const tri_model *model, tri_left_out *out) {
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  *out = (tri_left_out){0};
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  if (status == TRI_OK) list_left_out(from, &list, out);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}
