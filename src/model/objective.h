/* Training objectives. An objective defines the loss of a batch, and the calls at the end of a list that compute it.
 *
 * The gradient of a label's logits is a factor times (p - onehot), and the objective determines the factor. The factor
 * may depend on whole completions and on values that are stored with the labels (columns of a batch); then the loss
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
  unsigned
      columns; /* columns that this objective needs besides those that every objective has, as bits (TRI_COLUMN_BIT) */
  double label_scale; /* factor of the cross entropy, which is a weighted mean over the labels of the global batch */
  /* Loss of completions. A loss of preferences is a mean over the pairs of the global batch, or over its completions if
   * they are not paired. A policy-gradient loss is a sum over labels, each multiplied by its normaliser
   * (device/policy.h). */
  tri_label_loss loss;
  double temperature; /* temperature of sampling, by which a policy-gradient loss divides the logits; 0 counts as 1 */
  /* Appends the calls that follow the last layer. `hidden`: slot of its output [rows, hidden_size]; `head_weight`:
   * number of the output projection's parameter; `logits`: scale and cap of the logits. The last call must make the
   * loss (tri_op.makes_loss): it adds the loss of the labels to the results of the step. For cross entropy this is the
   * weighted sum over labels, and the gradient is that of the sum times tri_step_values.loss_scale. With completions,
   * loss and gradient are scaled by both scales of the step (loss_scale, segment_scale). */
  tri_status (*append)(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                       tri_logits logits, int32_t hidden, int32_t head_weight);
};

/* Cross entropy: the loss of a label is minus the logarithm of its probability. */
extern const tri_train_objective tri_objective_cross_entropy;

/* Returns the objective of a loss of preferences (device/preference.h), plus `cross_entropy` times the mean cross
 * entropy of the labels that have a weight in it. */
tri_train_objective tri_objective_preference(const tri_preference_settings *preference, double cross_entropy);

/* Returns the objective of a policy-gradient loss (device/policy.h), for completions that were sampled at this
 * temperature. */
tri_train_objective tri_objective_policy(const tri_policy_settings *policy, double temperature);

/* Returns whether labels belong to completions. NULL means cross entropy, whose labels do not. */
bool tri_objective_has_completions(const tri_train_objective *objective);

/* Returns the columns that a batch needs, as bits, including those that every objective has. NULL: cross entropy. */
unsigned tri_objective_columns(const tri_train_objective *objective);

/* Appends the calls of an objective (NULL: cross entropy) and checks that the last one makes the loss. Fails with
 * TRI_UNSUPPORTED if the list needs the loss of each label (TRI_LIST_SCORE) and the objective does not have it. */
tri_status tri_objective_append(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                                tri_logits logits, int32_t hidden, int32_t head_weight);

#endif
