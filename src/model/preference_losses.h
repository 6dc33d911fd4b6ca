/* What each loss of preferences takes, and in what its rewards are told. device/preference.h has the formulas. */
#ifndef TRI_MODEL_PREFERENCE_LOSSES_H
#define TRI_MODEL_PREFERENCE_LOSSES_H

#include "device/preference.h"

#include <stdbool.h>

/* TRL 1.16's defaults: of beta for every loss, and of what only some take. */
#define TRI_PREFERENCE_BETA 0.1
#define TRI_PREFERENCE_LABEL_SMOOTHING 0.0
#define TRI_PREFERENCE_SIMPO_GAMMA 0.5
#define TRI_PREFERENCE_DISCOPOP_TAU 0.05
#define TRI_PREFERENCE_WEIGHT 1.0 /* of desirable and of undesirable completions */

typedef struct tri_preference_rules {
  const char *name;           /* in run files                                                                       */
  bool paired;                /* a loss of a chosen and a rejected completion, not of one that is desirable or not  */
  bool reference;             /* it uses log probabilities of the reference model                                   */
  bool label_smoothing;       /* it takes label_smoothing, in [0, 1/2) ...                                          */
  bool needs_label_smoothing; /* ... and is infinite for 0                                                          */
  bool simpo_gamma;           /* it takes simpo_gamma                                                               */
  bool discopop_tau;          /* it takes discopop_tau                                                              */
  bool kl;                    /* it takes the KL of the batch's mismatched completions                              */
  bool averaged;              /* it is of means over labels, not of sums                                            */
  bool averaged_rewards;      /* and so are the metrics rewards/ and logps/, which else are of sums                 */
} tri_preference_rules;

/* Labels that have a weight in the cross entropy: none, those of chosen answers, or all of chosen answers and of their
 * prompts. */
typedef enum tri_preference_weights {
  TRI_PREFERENCE_WEIGHTS_NONE,
  TRI_PREFERENCE_WEIGHTS_ANSWERS,
  TRI_PREFERENCE_WEIGHTS_TEXTS,
} tri_preference_weights;

tri_preference_rules tri_preference_rules_of(tri_preference_loss loss);

/* What the metrics rewards/ and logps/ are means of, for one completion. */
double tri_preference_reward(const tri_preference_settings *settings, const tri_completion_sums *sums);
double tri_preference_logp(const tri_preference_settings *settings, const tri_completion_sums *sums);

#endif
