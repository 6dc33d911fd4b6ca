/* The settings of each loss of preferences, and the definition of its rewards. device/preference.h has the formulas. */
#ifndef TRI_MODEL_PREFERENCE_LOSSES_H
#define TRI_MODEL_PREFERENCE_LOSSES_H

#include "device/preference.h"

#include <stdbool.h>

/* TRL 1.16's defaults of beta, and of settings that only some losses have. */
#define TRI_PREFERENCE_BETA 0.1
#define TRI_PREFERENCE_LABEL_SMOOTHING 0.0
#define TRI_PREFERENCE_SIMPO_GAMMA 0.5
#define TRI_PREFERENCE_DISCOPOP_TAU 0.05
#define TRI_PREFERENCE_WEIGHT                                                                                          \
  1.0 /* both the weight of desirable completions and the weight of undesirable completions */

/* The comment of a bool member describes a loss for which the member is true. */
typedef struct tri_preference_rules {
  const char *name; /* name in run files                                                                  */
  bool paired;      /* the loss is of pairs of a chosen and a rejected completion; false: of single completions, each
                       desirable or undesirable */
  bool reference;   /* the loss uses log probabilities of the reference model                                   */
  bool label_smoothing; /* the loss has label_smoothing, in [0, 1/2)                                                */
  bool needs_label_smoothing; /* label_smoothing must be above 0: the loss is infinite for 0                        */
  bool simpo_gamma;      /* the loss has simpo_gamma                                                                 */
  bool discopop_tau;     /* the loss has discopop_tau                                                                */
  bool kl;               /* the loss uses the KL of the batch's mismatched completions                               */
  bool averaged;         /* the loss uses means over labels, not sums                                                */
  bool averaged_rewards; /* the metrics rewards/ and logps/ also use means over labels, not sums               */
} tri_preference_rules;

/* Labels with a weight in the cross entropy: none, labels of chosen answers, or labels of chosen answers and their
 * prompts. */
typedef enum tri_preference_weights {
  TRI_PREFERENCE_WEIGHTS_NONE,
  TRI_PREFERENCE_WEIGHTS_ANSWERS,
  TRI_PREFERENCE_WEIGHTS_TEXTS,
} tri_preference_weights;

tri_preference_rules tri_preference_rules_of(tri_preference_loss loss);

/* Returns the reward of one completion, for the metrics rewards/: beta times the difference between tri_preference_logp
 * and the reference's log probability, or beta times tri_preference_logp for a loss without reference. */
double tri_preference_reward(const tri_preference_settings *settings, const tri_completion_sums *sums);
/* Returns the log probability of one completion, for the metrics logps/: a mean over labels if the loss has
 * averaged_rewards, else a sum. */
double tri_preference_logp(const tri_preference_settings *settings, const tri_completion_sums *sums);

#endif
