/* The tensors that a model has, by the names of a checkpoint, and those of a checkpoint that it has not. */
#ifndef TRI_CHECKPOINT_TENSOR_LIST_H
#define TRI_CHECKPOINT_TENSOR_LIST_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

/* The tensors of a model. There may be many: one for each matrix of each expert. */
typedef struct tri_tensor_list {
  tri_parameter *tensors;
  int64_t count;      /* without those that are tied, which lie behind them */
  const char **names; /* [num_names], in order: with and without the base model's prefix */
  int64_t num_names;
} tri_tensor_list;

/* Of a complete table, which must outlive the list. Release with tri_tensor_list_release, which also takes what is all
 * zero. */
tri_status tri_tensor_list_create(const tri_parameter_table *table, tri_tensor_list *out);
void tri_tensor_list_release(tri_tensor_list *list);

/* Whether a tensor of that name is of the model, or one that is kept beside it: what follows from the configuration,
 * and what an optimizer keeps. */
bool tri_tensor_list_knows(const tri_tensor_list *list, const char *name);

/* Of the weights of a checkpoint, those that a model has no place for: how many, and the first one's name, which is the
 * checkpoint's (NULL: there is none). LOCAL. */
typedef struct tri_left_out {
  int64_t count;
  const char *first;
} tri_left_out;

tri_status tri_checkpoint_find_left_out(const tri_checkpoint *from, const tri_model *model, tri_left_out *out);

#endif
