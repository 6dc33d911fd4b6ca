/* Training objectives: the end of a list with a loss. */
#ifndef TRI_MODEL_OBJECTIVE_H
#define TRI_MODEL_OBJECTIVE_H

#include "model/model.h"
#include "ops/list.h"
#include "ops/ops.h"

/* One objective; tri_list_request.objective selects it. */
typedef struct tri_train_objective {
  const char *name;
  /* Appends the calls after the hidden states [rows, hidden_size] of the last layer. `head_weight` is the output
   * projection's parameter, `logits` what is applied to its products. The last call must make the loss
   * (tri_op.makes_loss): it computes a number for each label, and adds their sum, each times the label's weight, to the
   * run. Its gradient is that of the sum divided by the sum of weights of the global batch
   * (tri_step_values.loss_scale). */
  tri_status (*append)(const tri_model *model, tri_op_list *list, tri_logits logits, int32_t hidden,
                       int32_t head_weight);
} tri_train_objective;

/* Minus the logarithm of the label's probability. */
extern const tri_train_objective tri_objective_cross_entropy;

/* Appends an objective (NULL: cross entropy), and checks that its last call makes the loss. TRI_UNSUPPORTED if the list
 * needs the loss of each label (TRI_LIST_SCORE) and the objective does not have it. */
tri_status tri_objective_append(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                                tri_logits logits, int32_t hidden, int32_t head_weight);

#endif
