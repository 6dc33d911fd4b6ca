/* Creates parameter tables: lists the tensors of a model's blocks, applies `freeze` and `adapter`, and lays the
 * entries out. */
#include "model/family.h"
#include "model/parameters.h"
#include "model/trainable.h"

#include "base/memory.h"

static tri_status create(const tri_model *model, const tri_model_share *share, const tri_model_share *only,
                         tri_parameter_table **out) {
  tri_parameter_table *table = NULL;
  TRI_TRY(tri_alloc("the parameter table", 1, sizeof *table, &table));
  table->only = only;
  tri_status status = tri_blocks_parameters(model, table);
  if (status == TRI_OK) status = tri_trainable_apply(model, table);
  if (status != TRI_OK) {
    tri_parameter_table_destroy(table);
    return status;
  }
  tri_parameter_table_lay_out(table, share);
  table->only = NULL;
  *out = table;
  return TRI_OK;
}

tri_status tri_parameter_table_create(const tri_model *model, const tri_model_share *share, tri_parameter_table **out) {
  return create(model, share, NULL, out);
}

tri_status tri_parameter_table_create_at(const tri_model *model, const tri_mesh_position *position,
                                         tri_parameter_table **out) {
  const tri_layer_range all = {-1, INT64_MAX};
  const tri_model_share share = {.position = *position, .chunks = &all, .num_chunks = 1};
  return create(model, &share, NULL, out);
}

tri_status tri_parameter_table_create_own(const tri_model *model, const tri_model_share *share,
                                          tri_parameter_table **out) {
  return create(model, share, share, out);
}

double tri_model_num_parameters(const tri_model *model) {
  tri_parameter_table *table = NULL;
  if (tri_parameter_table_create(model, NULL, &table) != TRI_OK) return 0;
  double count = (double)table->num_values;
  tri_parameter_table_destroy(table);
  return count;
}
