/* The tensors of a model by their names in a checkpoint, and the tensors of a checkpoint that its model does not have.
 */
#ifndef TRI_CHECKPOINT_TENSOR_LIST_H
#define TRI_CHECKPOINT_TENSOR_LIST_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

/* The tensors of a model. There may be many: one for each matrix of each expert. */
typedef struct tri_tensor_list {
  tri_parameter *tensors; /* [count]: the model's tensors; after them follow tied tensors and the matrices of stacks,
                             which are only needed for `names` */
  int64_t count;
  const char **names; /* [num_names], sorted: each name twice, as it is and without the base model's prefix, which is
                         the part before the first dot */
  int64_t num_names;
} tri_tensor_list;

/* Creates the list of a complete table, which must outlive it. Release with tri_tensor_list_release, which also accepts
 * {0}. */
tri_status tri_tensor_list_create(const tri_parameter_table *table, tri_tensor_list *out);
void tri_tensor_list_release(tri_tensor_list *list);

/* Returns whether a tensor of that name is one of the model's, a buffer that follows from the configuration (masks,
 * rotary frequencies), or an optimizer state with a suffix of checkpoint.h. */
bool tri_tensor_list_knows(const tri_tensor_list *list, const char *name);

/* Weights of a checkpoint that its model does not have. */
typedef struct tri_left_out {
  int64_t count;
  const char *first; /* name of the first one, owned by the checkpoint; NULL if count is 0 */
} tri_left_out;

/* LOCAL. Finds the weights of a checkpoint that its model does not have. */
tri_status tri_checkpoint_find_left_out(const tri_checkpoint *from, const tri_model *model, tri_left_out *out);

#endif
