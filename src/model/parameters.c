#include "model/parameters.h"

#include "base/memory.h"
#include "model/family.h"

/* Parameters begin on a cache line, unless joined to the one before. */
enum { ALIGN_ELEMENTS = 16 };

tri_status tri_parameter_table_add(tri_parameter_table *table, const tri_parameter *parameter, int32_t *out) {
  int64_t n = table->num_entries;
  if (n == 0 || (n >= 16 && (n & (n - 1)) == 0)) {
    TRI_TRY(tri_realloc("the parameter table", n == 0 ? 16 : (size_t)n * 2, sizeof *table->entries, &table->entries));
  }
  tri_parameter *entry = &table->entries[n];
  *entry = *parameter;
  entry->count = entry->shape[0] * (entry->num_dims > 1 ? entry->shape[1] : 1);
  entry->decay = entry->num_dims > 1;
  int64_t end = n == 0 ? 0 : table->entries[n - 1].offset + table->entries[n - 1].count;
  entry->offset = entry->joined ? end : (end + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
  table->num_elements = (entry->offset + entry->count + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
  table->num_values += entry->count;
  table->num_entries = n + 1;
  *out = (int32_t)n;
  return TRI_OK;
}

tri_status tri_parameter_table_create(const tri_model *model, tri_parameter_table **out) {
  tri_parameter_table *table = NULL;
  TRI_TRY(tri_alloc("the parameter table", 1, sizeof *table, &table));
  tri_status status = tri_family_of(model)->parameters(model, table);
  if (status != TRI_OK) {
    tri_parameter_table_destroy(table);
    return status;
  }
  *out = table;
  return TRI_OK;
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
  }
  return "?";
}
