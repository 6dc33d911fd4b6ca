#include "model/preference_losses.h"

enum {
  SMOOTHED = 1,
  NEEDS_SMOOTHING = 2,
  GAMMA = 4,
  TAU = 8,
  KL = 16,
  AVERAGED = 32,
  AVERAGED_REWARDS = 64,
};

/* Of the losses that are not here, nothing of it is true. */
static const unsigned traits[] = {
    [TRI_PREFERENCE_IPO] = AVERAGED,
    [TRI_PREFERENCE_ROBUST] = SMOOTHED,
    [TRI_PREFERENCE_SIGMOID_NORM] = AVERAGED,
    [TRI_PREFERENCE_SIMPO] = SMOOTHED | GAMMA | AVERAGED | AVERAGED_REWARDS,
    [TRI_PREFERENCE_CPO] = SMOOTHED,
    [TRI_PREFERENCE_ORPO] = AVERAGED | AVERAGED_REWARDS,
    [TRI_PREFERENCE_EXO_PAIR] = SMOOTHED | NEEDS_SMOOTHING,
    [TRI_PREFERENCE_DISCOPOP] = TAU,
    [TRI_PREFERENCE_KTO] = KL,
    [TRI_PREFERENCE_APO_ZERO_UNPAIRED] = 0,
};

#define ROW(VALUE, word, is_paired, has_reference)                                                                     \
  [TRI_PREFERENCE_##VALUE] = {.name = #word, .paired = is_paired != 0, .reference = has_reference != 0},

tri_preference_rules tri_preference_rules_of(tri_preference_loss loss) {
  static const tri_preference_rules rows[] = {TRI_PREFERENCE_LOSSES(ROW)};
  tri_preference_rules rules = rows[loss];
  rules.label_smoothing = (traits[loss] & SMOOTHED) != 0;
  rules.needs_label_smoothing = (traits[loss] & NEEDS_SMOOTHING) != 0;
  rules.simpo_gamma = (traits[loss] & GAMMA) != 0;
  rules.discopop_tau = (traits[loss] & TAU) != 0;
  rules.kl = (traits[loss] & KL) != 0;
  rules.averaged = (traits[loss] & AVERAGED) != 0;
  rules.averaged_rewards = (traits[loss] & AVERAGED_REWARDS) != 0;
  return rules;
}

double tri_preference_logp(const tri_preference_settings *settings, const tri_completion_sums *sums) {
  const bool averaged = tri_preference_rules_of((tri_preference_loss)settings->loss).averaged_rewards;
  return averaged ? sums->logp / tri_preference_labels(sums) : sums->logp;
}

double tri_preference_reward(const tri_preference_settings *settings, const tri_completion_sums *sums) {
  const bool reference = tri_preference_rules_of((tri_preference_loss)settings->loss).reference;
  return settings->beta * (tri_preference_logp(settings, sums) - (reference ? sums->reference : 0.0));
}
