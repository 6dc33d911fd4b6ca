#include "model/objective.h"

#include "ops/ops.h"

static tri_status append_cross_entropy(const tri_model *model, tri_op_list *list, tri_logits logits, int32_t hidden,
                                       int32_t head_weight) {
  TRI_TRY(tri_op_enter_tensor(list, hidden, &hidden));
  return tri_op_cross_entropy(list, model->hidden_size, model->vocab_size, logits, hidden, head_weight);
}

const tri_train_objective tri_objective_cross_entropy = {.name = "cross_entropy", .append = append_cross_entropy};

tri_status tri_objective_append(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                                tri_logits logits, int32_t hidden, int32_t head_weight) {
  if (objective == NULL) objective = &tri_objective_cross_entropy;
  TRI_TRY(objective->append(model, list, logits, hidden, head_weight));
  const tri_op_call *last = list->num_calls > 0 ? &list->calls[list->num_calls - 1] : NULL;
  if (last != NULL && last->op->makes_loss && (!list->scores || last->outputs[0] >= 0)) return TRI_OK;
  if (last != NULL && last->op->makes_loss) {
    return tri_fail(TRI_UNSUPPORTED, "the objective %s has no loss for each label", objective->name);
  }
  return tri_fail_internal("the objective %s does not end in the operation that makes the loss", objective->name);
}
