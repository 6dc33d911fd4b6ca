#include "model/parameters.h"

#include "base/memory.h"
#include "model/family.h"

#include <stdio.h>
#include <string.h>

/* Parameters begin on a cache line, unless joined to the one before. */
enum { ALIGN_ELEMENTS = 16 };

tri_parameter tri_parameter_norm(int64_t width, tri_init init) {
  return (tri_parameter){.num_dims = 1, .shape = {width}, .split_dim = -1, .part = TRI_PART_NORM, .init = init};
}

tri_parameter tri_parameter_bias(tri_part part, int64_t width, int split_dim) {
  return (tri_parameter){.num_dims = 1, .shape = {width}, .split_dim = split_dim, .part = part};
}

tri_parameter tri_parameter_matrix(tri_part part, int64_t rows, int64_t columns, int split_dim, double std) {
  return (tri_parameter){.num_dims = 2,
                         .shape = {rows, columns},
                         .split_dim = split_dim,
                         .part = part,
                         .init = TRI_INIT_NORMAL,
                         .std = std};
}

tri_parameter tri_parameter_joined(tri_parameter parameter) {
  parameter.joined = true;
  return parameter;
}

/* "transformer.h.%ld.ln_1.weight" and 3 to "transformer.h.3.ln_1.weight". */
static void set_name(tri_parameter *entry, const char *name, int64_t layer) {
  const char *number = strstr(name, "%ld");
  if (number == NULL) {
    snprintf(entry->name, sizeof entry->name, "%s", name);
  } else {
    snprintf(entry->name, sizeof entry->name, "%.*s%ld%s", (int)(number - name), name, (long)layer, number + 3);
  }
}

tri_status tri_parameter_table_add(tri_parameter_table *table, const char *name, int64_t layer, tri_parameter parameter,
                                   int32_t *out) {
  int64_t n = table->num_entries;
  if (n == 0 || (n >= 16 && (n & (n - 1)) == 0)) {
    TRI_TRY(tri_realloc("the parameter table", n == 0 ? 16 : (size_t)n * 2, sizeof *table->entries, &table->entries));
  }
  tri_parameter *entry = &table->entries[n];
  *entry = parameter;
  set_name(entry, name, layer);
  entry->layer = layer;
  entry->count = entry->shape[0] * (entry->num_dims > 1 ? entry->shape[1] : 1);
  entry->decay = entry->num_dims > 1;
  int64_t end = n == 0 ? 0 : table->entries[n - 1].offset + table->entries[n - 1].count;
  entry->offset = entry->joined ? end : (end + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
  table->num_elements = (entry->offset + entry->count + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
  table->num_values += entry->count;
  table->num_entries = n + 1;
  if (out != NULL) *out = (int32_t)n;
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
