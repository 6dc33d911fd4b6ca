/* Names of the two tensors that a tied model shares: the output projection and the embedding. */
#include "checkpoint/ties.h"

#include <stdio.h>

const tri_parameter *tri_ties_head(const tri_parameter_table *table) {
  for (int64_t e = 0; e < table->num_entries; e++) {
    if (table->entries[e].tied_to >= 0) return &table->entries[e];
  }
  return NULL;
}

bool tri_ties_names(const tri_model *model, char head[TRI_PARAMETER_NAME_BYTES],
                    char embedding[TRI_PARAMETER_NAME_BYTES]) {
  tri_parameter_table *table = NULL;
  if (!model->tied || tri_parameter_table_create(model, NULL, &table) != TRI_OK) return false;
  const tri_parameter *tied = tri_ties_head(table);
  if (tied != NULL) {
    snprintf(head, TRI_PARAMETER_NAME_BYTES, "%s", tied->name);
    snprintf(embedding, TRI_PARAMETER_NAME_BYTES, "%s", table->entries[tied->tied_to].name);
  }
  tri_parameter_table_destroy(table);
  return tied != NULL;
}
