#include "model/objective_config.h"

#include <stddef.h>
#include <string.h>

/* Names of objectives: ours, which config.yaml has, and TRL's as aliases. */
#define PREFERENCE_WORD(VALUE, name, ...) {#name, (int)TRI_OBJECTIVE_FIRST_PREFERENCE + (int)TRI_PREFERENCE_##VALUE},
static const tri_config_word names[] = {
    {"cross_entropy", TRI_OBJECTIVE_CROSS_ENTROPY},
    {"grpo", TRI_OBJECTIVE_GRPO},
    TRI_PREFERENCE_LOSSES(PREFERENCE_WORD){"sigmoid", (int)TRI_OBJECTIVE_FIRST_PREFERENCE + (int)TRI_PREFERENCE_DPO},
    {NULL, 0}};
#undef PREFERENCE_WORD

#define NUMBER(NAME) .name = #NAME, .type = TRI_CONFIG_DOUBLE, .offset = offsetof(tri_objective_config, NAME)
#define NOT_NEGATIVE .range = {.low = 0, .high = TRI_CONFIG_MOST}

static const tri_config_key keys[] = {
    {TRI_CONFIG_KEY(tri_objective_config, name, TRI_CONFIG_CHOICE), .words = names, .fallback = "cross_entropy",
     .help =
         "cross_entropy, the next token; grpo, reinforcement learning with rewards; or a loss of preferences: of pairs "
         "dpo (sigmoid), ipo, hinge, robust, "
         "sigmoid_norm, apo_zero, apo_down, simpo, cpo, orpo, exo_pair, nca_pair, bco_pair, sppo_hard, discopop; of "
         "answers with labels kto, apo_zero_unpaired"},
    {NUMBER(beta), .derived = "0.1; with grpo 0.0", NOT_NEGATIVE,
     .help =
         "of preferences: how strongly the model is held to the reference, or the scale of the margin; grpo: factor "
         "of the KL divergence from the reference, 0 for none"},
    {NUMBER(label_smoothing), .fallback = "0.0", .range = {.low = 0, .high = 0.5, .open_high = true},
     .help = "robust, cpo, simpo, exo_pair: the probability that a pair's answers are the wrong way round"},
    {NUMBER(simpo_gamma), .fallback = "0.5", NOT_NEGATIVE, .help = "simpo: the margin that is aimed at"},
    {NUMBER(discopop_tau), .fallback = "0.05", .range = {.low = 0, .high = TRI_CONFIG_MOST, .open_low = true},
     .help = "discopop: temperature of the mixture of its two losses"},
    {NUMBER(cpo_alpha), .fallback = "1.0", NOT_NEGATIVE,
     .help = "cpo, simpo: weight of the cross entropy of chosen answers; 0: none"},
    {NUMBER(sft_weight), .fallback = "0.0", NOT_NEGATIVE,
     .help = "other losses of pairs: weight of the cross entropy of chosen answers that is added"},
    {NUMBER(desirable_weight), .fallback = "1.0", NOT_NEGATIVE,
     .help = "kto, apo_zero_unpaired: weight of the losses of desirable answers"},
    {NUMBER(undesirable_weight), .fallback = "1.0", NOT_NEGATIVE, .help = "the same of undesirable ones"},
    {TRI_CONFIG_KEY(tri_objective_config, allow_dropout, TRI_CONFIG_BOOL), .fallback = "false",
     .help = "allow dropout above 0 with a loss of preferences, although it makes log-probabilities noisy"},
    TRI_POLICY_ROWS(tri_objective_config, policy),
};

const tri_config_table tri_objective_table = TRI_CONFIG_TABLE("objective", keys);

tri_status tri_objective_expand(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping) {
  tri_yaml *value = NULL;
  TRI_TRY(tri_yaml_make(tree, name, NULL, out_mapping));
  TRI_TRY(tri_yaml_make(tree, name, name->text, &value));
  return tri_yaml_put(tree, *out_mapping, "name", value);
}

tri_preference_loss tri_objective_preference_loss(const tri_objective_config *config) {
  return (tri_preference_loss)(config->name - (int)TRI_OBJECTIVE_FIRST_PREFERENCE);
}

const char *tri_objective_config_name(const tri_objective_config *config) {
  for (const tri_config_word *word = names; word->name != NULL; word++) {
    if (word->value == config->name) return word->name;
  }
  return "";
}

static bool is_loss(const tri_objective_config *config, tri_preference_loss loss) {
  return tri_objective_is_preference(config) && tri_objective_preference_loss(config) == loss;
}

static bool has_cpo_alpha(const tri_objective_config *config) {
  return is_loss(config, TRI_PREFERENCE_CPO) || is_loss(config, TRI_PREFERENCE_SIMPO);
}

/* A key that only some objectives have: whether its value was changed, and whether the chosen objective has it. */
typedef struct misplaced {
  const char *key, *goes_with;
  bool changed, known;
} misplaced;

/* Returns the first key of grpo whose value is not its default; NULL if there is none. */
static const char *changed_policy_key(const tri_objective_config *c) {
  const tri_policy_config *p = &c->policy, *usual = &tri_policy_usual;
  if (p->loss_type != usual->loss_type) return "loss_type";
  if (p->epsilon != usual->epsilon) return "epsilon";
  if (p->epsilon_high != usual->epsilon_high) return "epsilon_high";
  if (p->delta != usual->delta) return "delta";
  if (p->level != usual->level) return "importance_sampling_level";
  if (p->scale_rewards != usual->scale_rewards) return "scale_rewards";
  if (p->baseline != usual->baseline) return "baseline";
  if (p->importance.mode != usual->importance.mode || p->importance.min != usual->importance.min ||
      p->importance.max != usual->importance.max)
    return "importance_sampling";
  if (p->off_policy_limit != usual->off_policy_limit) return "off_policy_mask_threshold";
  if (p->mask_truncated_completions) return "mask_truncated_completions";
  if (p->entropy_coef != usual->entropy_coef) return "entropy_coef";
  if (p->num_iterations != usual->num_iterations) return "num_iterations";
  return p->mini_batches != usual->mini_batches ? "mini_batches" : NULL;
}

static tri_status check_keys(const tri_objective_config *c) {
  const bool preference = tri_objective_is_preference(c);
  const tri_preference_rules rules =
      preference ? tri_preference_rules_of(tri_objective_preference_loss(c)) : (tri_preference_rules){0};
  const bool single = preference && !rules.paired;
  const misplaced all[] = {
      {"beta", "a loss of preferences and with grpo", c->beta != TRI_PREFERENCE_BETA,
       preference || c->name == TRI_OBJECTIVE_GRPO},
      {changed_policy_key(c), "grpo", changed_policy_key(c) != NULL, c->name == TRI_OBJECTIVE_GRPO},
      {"label_smoothing", "robust, cpo, simpo and exo_pair", c->label_smoothing != TRI_PREFERENCE_LABEL_SMOOTHING,
       rules.label_smoothing},
      {"simpo_gamma", "simpo", c->simpo_gamma != TRI_PREFERENCE_SIMPO_GAMMA, rules.simpo_gamma},
      {"discopop_tau", "discopop", c->discopop_tau != TRI_PREFERENCE_DISCOPOP_TAU, rules.discopop_tau},
      {"cpo_alpha", "cpo and simpo; other losses of pairs have sft_weight", c->cpo_alpha != 1, has_cpo_alpha(c)},
      {"sft_weight", "losses of pairs but cpo and simpo, which have cpo_alpha, and orpo, which has its own",
       c->sft_weight != 0, preference && rules.paired && !has_cpo_alpha(c) && !is_loss(c, TRI_PREFERENCE_ORPO)},
      {"desirable_weight", "kto and apo_zero_unpaired", c->desirable_weight != TRI_PREFERENCE_WEIGHT, single},
      {"undesirable_weight", "kto and apo_zero_unpaired", c->undesirable_weight != TRI_PREFERENCE_WEIGHT, single},
      {"allow_dropout", "a loss of preferences", c->allow_dropout, preference},
  };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (!all[i].changed || all[i].known) continue;
    return tri_fail(TRI_BAD_CONFIG, "`objective.%s` goes with %s, and objective.name is %s; leave it out", all[i].key,
                    all[i].goes_with, tri_objective_config_name(c));
  }
  if (preference && c->beta == 0) {
    return tri_fail(TRI_BAD_CONFIG, "`objective.beta` is 0, and with %s it must be above 0; try 0.1",
                    tri_objective_config_name(c));
  }
  if (rules.needs_label_smoothing && c->label_smoothing == 0) {
    return tri_fail(TRI_BAD_CONFIG, "`objective.label_smoothing` must be above 0 with %s; try 0.001",
                    tri_objective_config_name(c));
  }
  if (single && c->desirable_weight == 0 && c->undesirable_weight == 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`objective.desirable_weight` and objective.undesirable_weight are both 0: nothing is learned");
  }
  return TRI_OK;
}

static double cross_entropy_weight(const tri_objective_config *config) {
  if (has_cpo_alpha(config)) return config->cpo_alpha;
  return is_loss(config, TRI_PREFERENCE_ORPO) ? 1 : config->sft_weight;
}

tri_preference_weights tri_objective_config_weights(const tri_objective_config *config) {
  if (cross_entropy_weight(config) == 0) return TRI_PREFERENCE_WEIGHTS_NONE;
  return is_loss(config, TRI_PREFERENCE_ORPO) ? TRI_PREFERENCE_WEIGHTS_TEXTS : TRI_PREFERENCE_WEIGHTS_ANSWERS;
}

void tri_objective_config_set_temperature(tri_objective_config *config, double temperature) {
  const tri_policy_settings settings = tri_policy_config_settings(&config->policy, config->beta);
  config->trained = tri_objective_policy(&settings, temperature);
}

static double usual_beta(const tri_objective_config *config) {
  switch (tri_objective_kind_of(config)) {
    case TRI_OBJECTIVE_OF_ROLLOUTS: return 0;
    case TRI_OBJECTIVE_OF_TEXT:
    case TRI_OBJECTIVE_OF_PREFERENCES: break;
  }
  return TRI_PREFERENCE_BETA;
}

tri_status tri_objective_config_finish(tri_objective_config *config) {
  if (config->beta < 0) config->beta = usual_beta(config);
  TRI_TRY(check_keys(config));
  config->trained = tri_objective_cross_entropy;
  if (config->name == TRI_OBJECTIVE_GRPO) {
    tri_objective_config_set_temperature(config, 1);
    return tri_policy_config_check(&config->policy);
  }
  if (!tri_objective_is_preference(config)) return TRI_OK;
  const tri_preference_settings settings = {.loss = (int32_t)tri_objective_preference_loss(config),
                                            .beta = config->beta,
                                            .label_smoothing = config->label_smoothing,
                                            .simpo_gamma = config->simpo_gamma,
                                            .desirable_weight = config->desirable_weight,
                                            .undesirable_weight = config->undesirable_weight,
                                            .discopop_tau = config->discopop_tau};
  config->trained = tri_objective_preference(&settings, cross_entropy_weight(config));
  return TRI_OK;
}
