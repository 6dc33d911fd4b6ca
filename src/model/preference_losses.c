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

static unsigned traits_of(tri_preference_loss loss) {
  switch (loss) {
    case TRI_PREFERENCE_DPO:
    case TRI_PREFERENCE_HINGE:
    case TRI_PREFERENCE_APO_ZERO:
    case TRI_PREFERENCE_APO_DOWN:
    case TRI_PREFERENCE_NCA_PAIR:
    case TRI_PREFERENCE_BCO_PAIR:
    case TRI_PREFERENCE_SPPO_HARD:
    case TRI_PREFERENCE_APO_ZERO_UNPAIRED: return 0;
    case TRI_PREFERENCE_IPO:
    case TRI_PREFERENCE_SIGMOID_NORM: return AVERAGED;
    case TRI_PREFERENCE_ROBUST:
    case TRI_PREFERENCE_CPO: return SMOOTHED;
    case TRI_PREFERENCE_SIMPO: return SMOOTHED | GAMMA | AVERAGED | AVERAGED_REWARDS;
    case TRI_PREFERENCE_ORPO: return AVERAGED | AVERAGED_REWARDS;
    case TRI_PREFERENCE_EXO_PAIR: return SMOOTHED | NEEDS_SMOOTHING;
    case TRI_PREFERENCE_DISCOPOP: return TAU;
    case TRI_PREFERENCE_KTO: return KL;
  }
  return 0;
}

#define ROW(VALUE, word, is_paired, has_reference) {.name = #word, .paired = is_paired, .reference = has_reference},

tri_preference_rules tri_preference_rules_of(tri_preference_loss loss) {
  static const tri_preference_rules rows[] = {TRI_PREFERENCE_LOSSES(ROW)};
  const unsigned traits = traits_of(loss);
  tri_preference_rules rules = rows[loss];
  rules.label_smoothing = (traits & SMOOTHED) != 0;
  rules.needs_label_smoothing = (traits & NEEDS_SMOOTHING) != 0;
  rules.simpo_gamma = (traits & GAMMA) != 0;
  rules.discopop_tau = (traits & TAU) != 0;
  rules.kl = (traits & KL) != 0;
  rules.averaged = (traits & AVERAGED) != 0;
  rules.averaged_rewards = (traits & AVERAGED_REWARDS) != 0;
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
