/* The section `objective` of a run file. */
#ifndef TRI_MODEL_OBJECTIVE_CONFIG_H
#define TRI_MODEL_OBJECTIVE_CONFIG_H

#include "config/config.h"
#include "model/objective.h"
#include "model/policy_config.h"
#include "model/preference_losses.h"

/* Cross entropy of the next token; reinforcement learning; or a loss of preferences, as TRI_OBJECTIVE_FIRST_PREFERENCE
 * + its tri_preference_loss. */
typedef enum tri_objective_name {
  TRI_OBJECTIVE_CROSS_ENTROPY,
  TRI_OBJECTIVE_GRPO,
  TRI_OBJECTIVE_FIRST_PREFERENCE
} tri_objective_name;

/* Kinds of data that objectives learn from. */
typedef enum tri_objective_kind {
  TRI_OBJECTIVE_OF_TEXT,
  TRI_OBJECTIVE_OF_PREFERENCES,
  TRI_OBJECTIVE_OF_ROLLOUTS /* completions that the model samples during the run */
} tri_objective_kind;

typedef struct tri_objective_config {
  int name;    /* a tri_objective_name, or TRI_OBJECTIVE_FIRST_PREFERENCE + a tri_preference_loss */
  double beta; /* negative: not given, until tri_objective_config_finish */
  double label_smoothing, simpo_gamma, discopop_tau;
  double cpo_alpha, sft_weight; /* factors of the cross entropy of chosen answers: cpo_alpha for cpo and simpo,
                                   sft_weight for other losses of pairs */
  double desirable_weight, undesirable_weight;
  bool allow_dropout;
  tri_policy_config policy;    /* keys of grpo */
  tri_train_objective trained; /* objective for the engine, set by tri_objective_config_finish */
} tri_objective_config;

/* The section's keys; offsets into tri_objective_config. */
extern const tri_config_table tri_objective_table;

/* Makes the mapping of the section from a name in its place, as in `objective: dpo`. */
tri_status tri_objective_expand(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping);

static inline tri_objective_kind tri_objective_kind_of(const tri_objective_config *config) {
  if (config->name == TRI_OBJECTIVE_GRPO) return TRI_OBJECTIVE_OF_ROLLOUTS;
  return config->name >= TRI_OBJECTIVE_FIRST_PREFERENCE ? TRI_OBJECTIVE_OF_PREFERENCES : TRI_OBJECTIVE_OF_TEXT;
}
/* Returns whether the objective is a loss of preferences. */
static inline bool tri_objective_is_preference(const tri_objective_config *config) {
  switch (tri_objective_kind_of(config)) {
    case TRI_OBJECTIVE_OF_TEXT:
    case TRI_OBJECTIVE_OF_ROLLOUTS: return false;
    case TRI_OBJECTIVE_OF_PREFERENCES: break;
  }
  return true;
}
/* Returns the loss of an objective for which tri_objective_is_preference returns true. */
tri_preference_loss tri_objective_preference_loss(const tri_objective_config *config);

/* Returns the name of the objective in run files. */
const char *tri_objective_config_name(const tri_objective_config *config);

/* Marks the keys whose defaults depend on the objective. Must be called before the keys are read. */
static inline void tri_objective_config_begin(tri_objective_config *config) { config->beta = -1; }

/* Sets `trained`, and defaults that depend on the objective. Must be called after the keys are read. Fails with
 * TRI_BAD_CONFIG for a key that the objective does not have, and for values that it cannot use. */
tri_status tri_objective_config_finish(tri_objective_config *config);

/* Sets `trained` of a grpo objective, for completions that are sampled at `temperature`. */
void tri_objective_config_set_temperature(tri_objective_config *config, double temperature);

/* Returns which labels have a weight in the cross entropy of a loss of preferences. */
tri_preference_weights tri_objective_config_weights(const tri_objective_config *config);

#endif
