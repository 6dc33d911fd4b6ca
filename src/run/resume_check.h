/* Compares a checkpoint or Hugging Face weights with the run that loads them: every setting of the model that changes
 * its function, the tokenizer, the corpora, the optimizers, the trained parameters and the base. A difference is
 * refused by its key, with both values, unless the run names the key in `allow_change`. The key's row decides about the
 * consequence of a difference (tri_config_key.change). */
#ifndef TRI_RUN_RESUME_CHECK_H
#define TRI_RUN_RESUME_CHECK_H

#include "run/identity.h"

typedef enum tri_resume_kind {
  TRI_RESUME_RUN,     /* newest checkpoint of this output, which must be this run's */
  TRI_RESUME_BRANCH,  /* a named checkpoint to resume from */
  TRI_RESUME_WEIGHTS, /* weights with which a new run begins; the corpus may differ */
} tri_resume_kind;

/* LOCAL. Compares a checkpoint or a Hugging Face folder with the run. Fails with TRI_BAD_CONFIG if a key that changes
 * the function differs and `allow_change` does not name it, if the checkpoint is of another run (TRI_RESUME_RUN), or if
 * the run has made all of its steps and a key with TRI_CHANGE_LEARNING differs, other than the number of steps and keys
 * of evaluations; the message names all such keys. Fails with TRI_BAD_FILE if the tensors of a Hugging Face folder
 * contradict its config.json. Other differences are logged. */
tri_status tri_resume_check(const tri_identity *identity, const tri_run_config *config,
                            const tri_checkpoint *checkpoint, tri_resume_kind how);

/* LOCAL. Returns the number of the sample with which a run continues after a checkpoint. It is the sample after the
 * last one read, whatever the batch size. If the length of samples has changed (`allow_change`), it is the sample after
 * the same number of tokens. */
int64_t tri_resume_next_sample(const tri_run_config *config, const tri_checkpoint_state *state);

/* LOCAL. Sets `out` to the first key (objective, metric, validation data) with a change that makes validation losses
 * (or rewards) before and after the checkpoint incomparable; "" if they are comparable. identity NULL: the validation
 * corpora are not compared. */
enum { TRI_RESUME_KEY_BYTES = 64 };
void tri_resume_other_measure(const tri_identity *identity, const tri_run_config *config,
                              const tri_checkpoint_state *state, char out[TRI_RESUME_KEY_BYTES]);

/* LOCAL. Returns whether the checkpoint's optimizer states belong to the run's optimizers; false for a folder without a
 * state. */
bool tri_resume_same_optimizer(const tri_run_config *config, const tri_checkpoint *checkpoint);

#endif
