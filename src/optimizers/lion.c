/* Lion (Chen et al. 2023): steps by the sign of an average of gradients; one state. */
#include "optimizers/run.h"

static tri_status lion_update(const tri_update_run *run, const tri_update_call *call) {
  const tri_optimizer_settings *settings = call->settings;
  const tri_lion options = {.beta1 = settings->betas[0],
                            .beta2 = settings->betas[1],
                            .weight_decay = call->weight_decay,
                            .lr_scale = call->lr_scale};
  TRI_KERNEL_CALL(run->queue, lion, call->type, call->count, &options, run->values, run->value, run->gradient,
                  run->states[0], run->narrow);
  return TRI_OK;
}

const tri_optimizer tri_optimizer_lion = {
    .name = "lion",
    .takes = TRI_ALL_GROUPS,
    .unit = TRI_UNIT_ELEMENTS,
    .num_states = 1,
    .states = {{.suffix = ".exp_avg", .with_sign = true}},
    .update = lion_update,
};
