/* A model whose adapter is kept beside its base. The adapter's settings decide which tensors the model has; every one
 * of them must be in the adapter's folder, and every tensor of the folder must be one of them. */
#include "checkpoint/merged.h"
#include "model/parameters.h"
#include "model/trainable.h"

/* Returns whether a parameter's tensors are read from the adapter's folder. */
static bool is_of_adapter(const tri_parameter *entry) {
  return entry->tied_to < 0 && !entry->first && (entry->factor || !entry->frozen);
}

/* Counts the tensors of the table that are the adapter's; fails if the folder does not have one of them. */
static tri_status count_tensors(const tri_checkpoint *adapter, const tri_parameter_table *table, int64_t *count) {
  *count = 0;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    for (int64_t t = 0, first = 0; is_of_adapter(entry) && t < tri_parameter_num_tensors(entry); t++) {
      const tri_parameter tensor = tri_parameter_tensor(entry, t, &first), on_disk = tri_parameter_on_disk(&tensor);
      if (tri_parameter_continues(&tensor)) continue;
      if (!tri_checkpoint_has(adapter, on_disk.name)) {
        return tri_fail(TRI_UNSUPPORTED,
                        "%s has no tensor `%s`, which its adapter_config.json describes; leave --unmerged out to add "
                        "the adapter's factors to the base",
                        tri_checkpoint_path(adapter), on_disk.name);
      }
      (*count)++;
    }
  }
  return TRI_OK;
}

tri_status tri_merged_keep_factors(const tri_merged *merged, tri_model *model) {
  tri_parameter_table *table = NULL;
  int64_t count = 0;
  if (merged->adapter == NULL) return TRI_OK;
  model->tuning = (tri_trainable){.adapter = *merged->adapter};
  model->tuning.adapter.dropout = 0;
  TRI_TRY(tri_trainable_check(model));
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  const tri_status status = count_tensors(merged->named, table, &count);
  tri_parameter_table_destroy(table);
  TRI_TRY(status);
  if (count == tri_checkpoint_num_tensors(merged->named)) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s has %ld tensors, and its adapter_config.json describes %ld; leave --unmerged out to add the "
                  "adapter's factors to the base",
                  tri_checkpoint_path(merged->named), (long)tri_checkpoint_num_tensors(merged->named), (long)count);
}
