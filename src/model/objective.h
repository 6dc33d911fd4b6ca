/* What a run learns: how a list ends that has a loss. */
#ifndef TRI_MODEL_OBJECTIVE_H
#define TRI_MODEL_OBJECTIVE_H

#include "model/model.h"
#include "ops/list.h"
#include "ops/ops.h"

/* One file each; what trains or scores is told which (tri_list_request.objective). */
typedef struct tri_train_objective {
  const char *name;
  /* Appends what comes behind the hidden states [rows, hidden_size] of the last layer; `head_weight` is the output
   * projection's parameter, and `logits` what is made of its products. The last call is the one that makes the loss
   * (tri_op.makes_loss): it returns a number for each label, and leaves their sum, each times the label's weight, in
   * the run. Its gradient is that of the sum divided by all weights of the global batch (tri_step_values.loss_scale).
   */
  tri_status (*append)(const tri_model *model, tri_op_list *list, tri_logits logits, int32_t hidden,
                       int32_t head_weight);
} tri_train_objective;

/* -log of the label's probability. */
extern const tri_train_objective tri_objective_cross_entropy;

/* Appends an objective, and sees to it that it ends as it must; NULL is cross entropy. */
tri_status tri_objective_append(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                                tri_logits logits, int32_t hidden, int32_t head_weight);

#endif
