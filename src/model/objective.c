#include "model/objective.h"

#include "mesh/batch_columns.h"
#include "ops/ops.h"

static tri_status append_loss(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                              tri_logits logits, int32_t hidden, int32_t head_weight) {
  const double temperature = objective->temperature > 0 ? objective->temperature : 1;
  logits.scale /= temperature;
  logits.soft_cap /= temperature; /* cap tanh(x / cap), divided by the temperature, has the same form */
  TRI_TRY(tri_op_enter_tensor(list, hidden, &hidden));
  return tri_op_cross_entropy(list, model->hidden_size, model->vocab_size, logits, &objective->loss, hidden,
                              head_weight);
}

const tri_train_objective tri_objective_cross_entropy = {
    .name = "cross_entropy", .label_scale = 1, .append = append_loss};

#define NAME_OF(VALUE, name, ...) [TRI_PREFERENCE_##VALUE] = #name,
static const char *const names[] = {TRI_PREFERENCE_LOSSES(NAME_OF)};
#undef NAME_OF
#define READS_REFERENCE(VALUE, name, paired, reference) [TRI_PREFERENCE_##VALUE] = (reference) != 0,
static const bool reads_reference[] = {TRI_PREFERENCE_LOSSES(READS_REFERENCE)};
#undef READS_REFERENCE

tri_train_objective tri_objective_preference(const tri_preference_settings *preference, double cross_entropy) {
  const unsigned reference = reads_reference[preference->loss] ? TRI_COLUMN_BIT(reference) : 0;
  return (tri_train_objective){.name = names[preference->loss],
                               .columns = TRI_COLUMN_BIT(segments) | reference,
                               .label_scale = cross_entropy,
                               .loss = {.kind = TRI_LABEL_LOSS_PREFERENCE, .preference = *preference},
                               .append = append_loss};
}

tri_train_objective tri_objective_policy(const tri_policy_settings *policy, double temperature) {
  const unsigned old = policy->has_old ? TRI_COLUMN_BIT(old) : 0;
  const unsigned reference = policy->beta > 0 ? TRI_COLUMN_BIT(reference) : 0;
  return (tri_train_objective){.name = "policy",
                               .columns = TRI_COLUMN_BIT(segments) | TRI_COLUMN_BIT(advantage) |
                                          TRI_COLUMN_BIT(normaliser) | TRI_COLUMN_BIT(behaviour) | old | reference,
                               .label_scale = 1, /* the entropy bonus is a mean over labels */
                               .loss = {.kind = TRI_LABEL_LOSS_POLICY, .policy = *policy},
                               .temperature = temperature,
                               .append = append_loss};
}

bool tri_objective_has_completions(const tri_train_objective *objective) {
  if (objective == NULL) return false;
  switch (objective->loss.kind) {
    case TRI_LABEL_LOSS_CROSS_ENTROPY: return false;
    case TRI_LABEL_LOSS_PREFERENCE:
    case TRI_LABEL_LOSS_POLICY: break;
  }
  return true;
}

unsigned tri_objective_columns(const tri_train_objective *objective) {
  return TRI_COLUMNS_ALWAYS | (objective == NULL ? 0 : objective->columns);
}

tri_status tri_objective_append(const tri_train_objective *objective, const tri_model *model, tri_op_list *list,
                                tri_logits logits, int32_t hidden, int32_t head_weight) {
  if (objective == NULL) objective = &tri_objective_cross_entropy;
  TRI_TRY(objective->append(objective, model, list, logits, hidden, head_weight));
  const tri_op_call *last = list->num_calls > 0 ? &list->calls[list->num_calls - 1] : NULL;
  if (last != NULL && last->op->makes_loss && (!list->scores || last->outputs[0] >= 0)) return TRI_OK;
  if (last != NULL && last->op->makes_loss) {
    return tri_fail(TRI_UNSUPPORTED, "the objective %s has no loss for each label", objective->name);
  }
  return tri_fail_internal("the objective %s does not end in the operation that makes the loss", objective->name);
}
