/* `eval` with a corpus of preferences. It computes the metrics that training reports for held-out answers. */
#ifndef TRI_CLI_RUNNING_EVAL_PREFERENCES_H
#define TRI_CLI_RUNNING_EVAL_PREFERENCES_H

#include "comm/comm.h"
#include "data/corpus.h"
#include "engine/model_options.h"

typedef struct tri_eval_preferences {
  const char *model;
  const char *reference; /* folder of the reference model; NULL: none */
  const tri_corpus *corpus;
  const tri_group *group; /* ranks that share the work */
  int64_t tensor;         /* tensor ranks of each replica; 0 or 1: one rank */
  const tri_model_options *options;
  /* `sequence`: tokens of a sequence; 0: those of training or, if these are unknown, 1024, at most the model's
   * positions. `batch`: sequences of a batch; 0: 4. */
  int64_t sequence, batch;
  int64_t limit; /* number of sequences to evaluate, the first of the corpus; 0: all */
  bool json;
} tri_eval_preferences;

/* COLLECTIVE over asked->group. Evaluates the model's objective, and prints the loss, rewards, margins and accuracies.
 * If the model was not trained on preferences, the objective is DPO or KTO with beta 0.1. If the objective needs a
 * reference model and `reference` is NULL, prints only log-probabilities, and logs that. Warns of preferences that are
 * left out because they are too long. Fails with TRI_BAD_USAGE if `sequence` exceeds the model's positions, or if the
 * objective does not use the `reference` that is given. */
tri_status tri_eval_preferences_run(const tri_eval_preferences *asked);

#endif
