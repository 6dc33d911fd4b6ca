/* Settings of rollouts: how completions are sampled from the policy that is trained. */
#ifndef TRI_ROLLOUT_SETTINGS_H
#define TRI_ROLLOUT_SETTINGS_H

#include <stdint.h>

enum { TRI_ROLLOUT_STOPS = 8, TRI_ROLLOUT_STOP_BYTES = 64, TRI_MOST_REWARDS = 16 };

typedef struct tri_rollout_stop {
  char text[TRI_ROLLOUT_STOP_BYTES];
} tri_rollout_stop;

typedef struct tri_rollout_settings {
  int64_t prompts;               /* groups of a batch: prompts whose completions are trained together */
  int64_t num_generations;       /* completions of a group */
  int64_t max_completion_length; /* largest number of tokens of a completion */
  double temperature;
  int64_t slots;  /* largest number of sequences that a replica runs at the same time */
  int64_t tensor; /* ranks of a replica */
  int64_t cache;  /* bytes of keys and values on each rank; 0: enough for all slots */
  struct {
    double low, high; /* a group is trained on only if its mean reward is above `low` and below `high` */
  } filter;
  int64_t max_filtered; /* largest number of groups of a batch that are replaced because `filter` has dropped them; if
                           more are dropped, the batch has fewer groups, and the run ends if it has none */
  double validation_temperature; /* temperature of the completions of held-out prompts */
  /* Candidates and penalty of the completions of held-out prompts, as in tri_sampling. */
  int64_t validation_top_k;
  double validation_top_p, validation_min_p, validation_repetition_penalty;
  double max_failed;          /* largest share of a batch's completions that commands may leave without an answer */
  double max_logp_difference; /* mean difference between the log-probabilities of sampling and of training above which
                                 the run stops; 0: a limit that depends on the precision */
  int64_t log;                /* number of groups of each batch whose texts are written to rollouts.jsonl */
  tri_rollout_stop stops[TRI_ROLLOUT_STOPS]; /* [num_stops], strings that end a completion */
  int64_t num_stops;
} tri_rollout_settings;

/* Magnitude of the bounds of `filter` that drop no group (the defaults). */
#define TRI_ROLLOUT_NO_LIMIT 1e30

#endif
