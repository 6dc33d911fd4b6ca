/* Keys of `objective` for reinforcement learning: the settings of GRPO and its relatives, under TRL's names. */
#ifndef TRI_MODEL_POLICY_CONFIG_H
#define TRI_MODEL_POLICY_CONFIG_H

#include "config/config.h"
#include "device/policy.h"

/* The normaliser of a label, by which the label's loss is multiplied. The label is one of the |i| counted labels of
 * completion i, in a batch of N completions. */
typedef enum tri_loss_type {
  TRI_LOSS_TYPE_DAPO,    /* 1 / counted labels of the batch */
  TRI_LOSS_TYPE_GRPO,    /* 1 / (N |i|) */
  TRI_LOSS_TYPE_DR_GRPO, /* 1 / (N max_completion_length) */
  TRI_LOSS_TYPE_CISPO    /* as dapo, with CISPO's objective */
} tri_loss_type;

typedef enum tri_ratio_level { TRI_RATIO_TOKEN, TRI_RATIO_SEQUENCE } tri_ratio_level;
typedef enum tri_scale_rewards { TRI_SCALE_BY_GROUP, TRI_SCALE_BY_BATCH, TRI_SCALE_NONE } tri_scale_rewards;
typedef enum tri_baseline { TRI_BASELINE_GROUP, TRI_BASELINE_LEAVE_ONE_OUT } tri_baseline;

typedef struct tri_policy_config {
  char recipe[16]; /* "" after reading: the keys that the recipe stands for are set in its place */
  tri_loss_type loss_type;
  tri_ratio_level level;
  tri_scale_rewards scale_rewards;
  tri_baseline baseline;
  double epsilon,
      epsilon_high; /* the ratio is clipped to [1 - epsilon, 1 + epsilon_high]; epsilon_high 0: equal to epsilon */
  double delta;     /* upper bound of the ratio for negative advantages; 0: no bound */
  struct {
    tri_policy_importance mode;
    double min, max;
  } importance;
  double off_policy_limit; /* off_policy_mask_threshold; 0: no limit */
  bool mask_truncated_completions;
  double entropy_coef;
  int64_t num_iterations, mini_batches;
} tri_policy_config;

extern const tri_config_table tri_importance_table;
extern const tri_config_word tri_loss_type_words[], tri_ratio_level_words[], tri_scale_rewards_words[],
    tri_baseline_words[];

#define TRI_POLICY_CHOICE_(STRUCT, MEMBER, NAME, WORDS)                                                                \
  .name = NAME, .type = TRI_CONFIG_CHOICE, .offset = offsetof(STRUCT, MEMBER), .words = WORDS
#define TRI_POLICY_NUMBER_(STRUCT, MEMBER, NAME)                                                                       \
  .name = NAME, .type = TRI_CONFIG_DOUBLE, .offset = offsetof(STRUCT, MEMBER)

/* Rows for the table of a struct. `POLICY`: the tri_policy_config in STRUCT. */
#define TRI_POLICY_ROWS(STRUCT, POLICY)                                                                                \
  {.name = "recipe",                                                                                                   \
   .type = TRI_CONFIG_STRING,                                                                                          \
   .offset = offsetof(STRUCT, POLICY.recipe),                                                                          \
   .bytes = sizeof(((STRUCT *)0)->POLICY.recipe),                                                                      \
   .fallback = "",                                                                                                     \
   .help = "grpo: defaults of other keys: rloo, dr_grpo, gspo, dapo, reinforce_pp or icepop; empty: none"},            \
      {TRI_POLICY_CHOICE_(STRUCT, POLICY.loss_type, "loss_type", tri_loss_type_words), .fallback = "dapo",             \
       .help =                                                                                                         \
           "grpo: how labels are weighted: dapo (all labels of the batch are equal), grpo (all completions are "       \
           "equal), dr_grpo (by the longest possible completion); or cispo, which clips the ratio's weight"},          \
      {TRI_POLICY_NUMBER_(STRUCT, POLICY.epsilon, "epsilon"), .fallback = "0.2",                                       \
       .range = {.low = 0, .high = 1, .open_high = true}, .help = "grpo: ratios below 1 - epsilon are clipped"},       \
      {TRI_POLICY_NUMBER_(STRUCT, POLICY.epsilon_high, "epsilon_high"), .derived = "epsilon", .optional = true,        \
       .range = {.low = 0, .high = TRI_CONFIG_MOST, .open_low = true},                                                 \
       .help = "grpo: ratios above 1 + epsilon_high are clipped; cispo: the largest ratio"},                           \
      {TRI_POLICY_NUMBER_(STRUCT, POLICY.delta, "delta"), .derived = "none", .optional = true,                         \
       .range = {.low = 1, .high = TRI_CONFIG_MOST, .open_low = true},                                                 \
       .help = "grpo: upper bound of the ratio for negative advantages (two-sided clipping)"},                         \
      {TRI_POLICY_CHOICE_(STRUCT, POLICY.level, "importance_sampling_level", tri_ratio_level_words),                   \
       .fallback = "token", .help = "grpo: the ratio is that of a token, or of a whole sequence (GSPO)"},              \
      {TRI_POLICY_CHOICE_(STRUCT, POLICY.scale_rewards, "scale_rewards", tri_scale_rewards_words),                     \
       .fallback = "group",                                                                                            \
       .help =                                                                                                         \
           "grpo: advantages are divided by the standard deviation of the group's rewards, of the batch's, or "        \
           "by none"},                                                                                                 \
      {TRI_POLICY_CHOICE_(STRUCT, POLICY.baseline, "baseline", tri_baseline_words), .fallback = "group",               \
       .help =                                                                                                         \
           "grpo: baseline of a reward: the mean reward of its group, or of the rest of the "                          \
           "group (leave_one_out, RLOO)"},                                                                             \
      {.name = "importance_sampling",                                                                                  \
       .type = TRI_CONFIG_SECTION,                                                                                     \
       .offset = offsetof(STRUCT, POLICY.importance),                                                                  \
       .table = &tri_importance_table,                                                                                 \
       .help = "grpo: correction for the difference between sampling and training probabilities"},                     \
      {TRI_POLICY_NUMBER_(STRUCT, POLICY.off_policy_limit, "off_policy_mask_threshold"), .derived = "none",            \
       .optional = true, .range = {.low = 0, .high = TRI_CONFIG_MOST, .open_low = true},                               \
       .help =                                                                                                         \
           "grpo: completions with a negative advantage are left out if their mean difference of "                     \
           "log-probabilities is above this"},                                                                         \
      {.name = "mask_truncated_completions",                                                                           \
       .type = TRI_CONFIG_BOOL,                                                                                        \
       .offset = offsetof(STRUCT, POLICY.mask_truncated_completions),                                                  \
       .fallback = "false",                                                                                            \
       .help = "grpo: leave completions that reached max_completion_length out of the loss"},                          \
      {TRI_POLICY_NUMBER_(STRUCT, POLICY.entropy_coef, "entropy_coef"), .fallback = "0.0",                             \
       .range = {.low = 0, .high = TRI_CONFIG_MOST}, .help = "grpo: factor of the entropy bonus"},                     \
      {.name = "num_iterations",                                                                                       \
       .type = TRI_CONFIG_INT,                                                                                         \
       .offset = offsetof(STRUCT, POLICY.num_iterations),                                                              \
       .range = {.low = 1, .high = 1 << 20},                                                                           \
       .fallback = "1",                                                                                                \
       .help = "grpo: number of times that each batch of completions is trained on"},                                  \
  {                                                                                                                    \
    .name = "mini_batches", .type = TRI_CONFIG_INT, .offset = offsetof(STRUCT, POLICY.mini_batches),                   \
    .range = {.low = 1, .high = 1 << 20}, .fallback = "1",                                                             \
    .help = "grpo: number of updates on a batch of completions, each on a part of it"                                  \
  }

/* The default of every key. */
extern const tri_policy_config tri_policy_usual;

/* Replaces `recipe` in the mapping of an objective by `name: grpo` and the keys for which the recipe stands. Keys that
 * the mapping already has are not changed. Fails with TRI_BAD_CONFIG for an unknown recipe; the message lists all
 * recipes. */
tri_status tri_policy_lay_recipe(tri_yaml_tree *tree, tri_yaml *objective);

/* Checks combinations of the keys of a grpo objective. Messages begin with the key. */
tri_status tri_policy_config_check(const tri_policy_config *config);

/* Returns the settings of the loss. */
tri_policy_settings tri_policy_config_settings(const tri_policy_config *config, double beta);

/* Returns whether a batch has more than one update, so that its log-probabilities before the first one are needed. */
static inline bool tri_policy_has_old(const tri_policy_config *config) {
  return config->num_iterations * config->mini_batches > 1;
}

#endif
