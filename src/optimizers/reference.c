/* The reference of a KL penalty (objective.beta with grpo): one more state of each parameter that is updated, with the
 * parameter's value at the beginning of the run. No update changes it. The engine puts it in the place of the trained
 * values while it computes the reference's log-probabilities (engine/averaging.c).
 *
 * As a state of the run the reference is divided among replicas like other states (ZeRO 1 and up), and is saved with
 * the run, so that a run resumes even if the folder that it began with has changed. */
#include "optimizers/optimizer.h"

const tri_optimizer_state tri_reference_state = {.suffix = ".reference",
                                                 .owner = TRI_STATE_OF_RUN,
                                                 .with_sign = true,
                                                 .as_value = true,
                                                 .as_read = true,
                                                 .is_kept = tri_reference_is_kept};

bool tri_reference_is_kept(const tri_optimizer_settings *settings) { return settings->reference; }
