/* Training objectives: the loss of a batch, and the end of a list with a loss.
 *
 * The gradient of a label's logits is a factor times (p - onehot), and the objective determines the factor. It may be a
 * function of whole completions and of values that are stored with the labels (columns of a batch); then the loss
 * operation evaluates its formula between the statistics of the logits and their gradient (device/completions.h). */
#ifndef TRI_MODEL_OBJECTIVE_H
#define TRI_MODEL_OBJECTIVE_H

#include "model/model.h"
#include "ops/list.h"
#include "ops/ops.h"

/* An objective: cross entropy, a loss of preferences (device/preference.h) or a policy-gradient loss (device/policy.h).
 * tri_list_request.objective selects it. */
typedef struct tri_train_objective tri_train_objective;
struct tri_train_objective {
  const char *name;
  unsigned columns;   /* columns of a sample besides those that every objective has (TRI_COLUMN_BIT) */
  double label_scale; /* factor of the cross entropy's weighted mean over the labels of the global batch */
  /* The loss of preferences is a mean over the pairs of the global batch, or over its completions if they are not
   * paired; a policy-gradient loss is a sum over labels, each with its normaliser. */
  tri_label_loss loss;
  double temperature; /* divides the logits of a policy-gradient loss, as in sampling; 0 counts as 1 */
  /* Appends the calls after the hidden states [rows, hidden_size] of the last layer. `head_weight`: the output
   * projection's parameter; `logits`: scale and cap of its outputs. The last call must make the loss
   * (tri_op.makes_loss): it adds the loss of the labels to the run. For cross entropy this is the weighted sum over
   * labels, and the gradient is that of the sum times tri_step_values.loss_scale; with completions, loss and gradient
   * are scaled by both scales of the step (loss_scale, segment_scale). */
  tri_status (*append)(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                       tri_logits logits, int32_t hidden, int32_t head_weight);
};

/* Minus the logarithm of the label's probability. */
extern const tri_train_objective tri_objective_cross_entropy;

/* Returns a loss of completions (device/preference.h), plus `cross_entropy` times the mean cross entropy of labels with
 * a weight. */
tri_train_objective tri_objective_preference(const tri_preference_settings *preference, double cross_entropy);

/* Returns a policy-gradient loss (device/policy.h) of completions that were sampled at this temperature. */
tri_train_objective tri_objective_policy(const tri_policy_settings *policy, double temperature);

/* Returns whether labels belong to completions (NULL: cross entropy, they do not). */
bool tri_objective_has_completions(const tri_train_objective *objective);

/* Returns the columns of a batch of an objective (NULL: cross entropy), including those of every objective. */
unsigned tri_objective_columns(const tri_train_objective *objective);

/* Appends an objective (NULL: cross entropy), and checks that its last call makes the loss. Fails with TRI_UNSUPPORTED
 * if the list needs the loss of each label (TRI_LIST_SCORE) and the objective does not have it. */
tri_status tri_objective_append(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                                tri_logits logits, int32_t hidden, int32_t head_weight);

#endif
