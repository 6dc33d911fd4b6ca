#include "model/policy_config.h"

#include <string.h>

const tri_config_word tri_loss_type_words[] = {{"dapo", TRI_LOSS_TYPE_DAPO},
                                               {"grpo", TRI_LOSS_TYPE_GRPO},
                                               {"dr_grpo", TRI_LOSS_TYPE_DR_GRPO},
                                               {"cispo", TRI_LOSS_TYPE_CISPO},
                                               {NULL, 0}};
const tri_config_word tri_ratio_level_words[] = {
    {"token", TRI_RATIO_TOKEN}, {"sequence", TRI_RATIO_SEQUENCE}, {NULL, 0}};
const tri_config_word tri_scale_rewards_words[] = {
    {"group", TRI_SCALE_BY_GROUP}, {"batch", TRI_SCALE_BY_BATCH}, {"none", TRI_SCALE_NONE}, {NULL, 0}};
const tri_config_word tri_baseline_words[] = {
    {"group", TRI_BASELINE_GROUP}, {"leave_one_out", TRI_BASELINE_LEAVE_ONE_OUT}, {NULL, 0}};

static const tri_config_word modes[] = {
    {"token_mask", TRI_POLICY_TOKEN_MASK},       {"token_truncate", TRI_POLICY_TOKEN_TRUNCATE},
    {"sequence_mask", TRI_POLICY_SEQUENCE_MASK}, {"sequence_truncate", TRI_POLICY_SEQUENCE_TRUNCATE},
    {"none", TRI_POLICY_IMPORTANCE_NONE},        {NULL, 0}};

/* Offsets are into tri_policy_config.importance, whose first member is `mode`. */
#define OF_IMPORTANCE(MEMBER) (offsetof(tri_policy_config, importance.MEMBER) - offsetof(tri_policy_config, importance))
static const tri_config_key importance_keys[] = {
    {.name = "mode",
     .type = TRI_CONFIG_CHOICE,
     .offset = OF_IMPORTANCE(mode),
     .words = modes,
     .fallback = "token_mask",
     .help =
         "the ratio of a token or of a whole completion is limited to [min, max] (truncate), or its labels are left "
         "out if it is outside (mask); none: no correction"},
    {.name = "min",
     .type = TRI_CONFIG_DOUBLE,
     .offset = OF_IMPORTANCE(min),
     .fallback = "0.5",
     .range = {.low = 0, .high = TRI_CONFIG_MOST},
     .help = "smallest ratio"},
    {.name = "max",
     .type = TRI_CONFIG_DOUBLE,
     .offset = OF_IMPORTANCE(max),
     .fallback = "5.0",
     .range = {.low = 0, .high = TRI_CONFIG_MOST, .open_low = true},
     .help = "largest ratio"},
};
const tri_config_table tri_importance_table = TRI_CONFIG_TABLE("importance_sampling", importance_keys);

const tri_policy_config tri_policy_usual = {.loss_type = TRI_LOSS_TYPE_DAPO,
                                            .epsilon = 0.2,
                                            .importance = {TRI_POLICY_TOKEN_MASK, 0.5, 5.0},
                                            .num_iterations = 1,
                                            .mini_batches = 1};

/* ---- recipes ----------------------------------------------------------------------------------------------------- */

enum { RECIPE_KEYS = 4 };

typedef struct recipe_key {
  const char *key, *value;
} recipe_key;

typedef struct recipe {
  const char *name;
  recipe_key keys[RECIPE_KEYS];
} recipe;

static const recipe recipes[] = {
    {"rloo", {{"baseline", "leave_one_out"}, {"scale_rewards", "none"}}},
    {"dr_grpo", {{"loss_type", "dr_grpo"}, {"scale_rewards", "none"}}},
    {"gspo",
     {{"importance_sampling_level", "sequence"},
      {"loss_type", "grpo"},
      {"epsilon", "3.0e-4"},
      {"epsilon_high", "4.0e-4"}}},
    {"dapo", {{"loss_type", "dapo"}, {"epsilon_high", "0.28"}}},
    {"reinforce_pp", {{"baseline", "group"}, {"scale_rewards", "batch"}}},
    {"icepop", {{"loss_type", "dapo"}}}, /* the mask of IcePop is the default importance_sampling */
};

static tri_status lay_under(tri_yaml_tree *tree, tri_yaml *objective, const char *key, const char *value) {
  tri_yaml *node = NULL;
  if (tri_yaml_find(objective, key) != NULL) return TRI_OK;
  TRI_TRY(tri_yaml_make(tree, objective, value, &node));
  return tri_yaml_put(tree, objective, key, node);
}

tri_status tri_policy_lay_recipe(tri_yaml_tree *tree, tri_yaml *objective) {
  const tri_yaml *name = tri_yaml_find(objective, "recipe");
  if (name == NULL || (name->kind == TRI_YAML_SCALAR && name->text[0] == '\0')) return TRI_OK;
  for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
    if (name->kind != TRI_YAML_SCALAR || strcmp(name->text, recipes[i].name) != 0) continue;
    TRI_TRY(lay_under(tree, objective, "name", "grpo"));
    for (int k = 0; k < RECIPE_KEYS && recipes[i].keys[k].key != NULL; k++)
      TRI_TRY(lay_under(tree, objective, recipes[i].keys[k].key, recipes[i].keys[k].value));
    tri_yaml_remove(objective, "recipe");
    return TRI_OK;
  }
  return tri_yaml_fail(name, "`objective.recipe`",
                       " is not a recipe: write rloo, dr_grpo, gspo, dapo, reinforce_pp or "
                       "icepop");
}

/* ---- the loss ---------------------------------------------------------------------------------------------------- */

static tri_policy_objective objective_of(tri_loss_type type) {
  switch (type) {
    case TRI_LOSS_TYPE_CISPO: return TRI_POLICY_CISPO;
    case TRI_LOSS_TYPE_DAPO:
    case TRI_LOSS_TYPE_GRPO:
    case TRI_LOSS_TYPE_DR_GRPO: break;
  }
  return TRI_POLICY_CLIPPED;
}

static bool is_of_sequences(tri_ratio_level level) {
  switch (level) {
    case TRI_RATIO_TOKEN: return false;
    case TRI_RATIO_SEQUENCE: break;
  }
  return true;
}

tri_status tri_policy_config_check(const tri_policy_config *c) {
  if (objective_of(c->loss_type) == TRI_POLICY_CISPO && c->epsilon_high <= 1) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "`objective.epsilon_high` must be above 1 with loss_type cispo, because it is the largest ratio; try "
        "5.0");
  }
  if (c->importance.min > c->importance.max) {
    return tri_fail(TRI_BAD_CONFIG, "`objective.importance_sampling.min` %g is above max %g", c->importance.min,
                    c->importance.max);
  }
  return TRI_OK;
}

tri_policy_settings tri_policy_config_settings(const tri_policy_config *c, double beta) {
  return (tri_policy_settings){
      .objective = (int32_t)objective_of(c->loss_type),
      .importance = (int32_t)c->importance.mode,
      .by_sequence = is_of_sequences(c->level),
      .has_old = tri_policy_has_old(c),
      .epsilon = c->epsilon,
      .epsilon_high = c->epsilon_high == 0 ? c->epsilon : c->epsilon_high,
      .delta = c->delta == 0 ? TRI_POLICY_NO_LIMIT : c->delta,
      .beta = beta,
      .importance_min = c->importance.min,
      .importance_max = c->importance.max,
      .off_policy_limit = c->off_policy_limit == 0 ? TRI_POLICY_NO_LIMIT : c->off_policy_limit,
      .entropy_coef = c->entropy_coef,
  };
}
