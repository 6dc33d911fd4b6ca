/* Gradient descent with momentum, as torch.optim.SGD: weight decay is added to the gradient. */
#include "optimizers/run.h"

static const tri_config_key keys[] = {
    {TRI_CONFIG_KEY(tri_sgd_settings, momentum, TRI_CONFIG_DOUBLE), .fallback = "0.9",
     .range = {.low = 0, .high = 1, .open_high = true}, .help = "momentum"},
    {TRI_CONFIG_KEY(tri_sgd_settings, nesterov, TRI_CONFIG_BOOL), .fallback = "false", .help = "Nesterov's momentum"},
};
const tri_config_table tri_sgd_keys = TRI_CONFIG_TABLE("run file", keys);

static tri_status sgd_update(const tri_update_run *run, const tri_update_call *call) {
  const tri_sgd_settings *settings = &call->settings->sgd;
  const tri_sgd options = {.momentum = settings->momentum,
                           .nesterov = settings->nesterov,
                           .weight_decay = call->weight_decay,
                           .lr_scale = call->lr_scale};
  TRI_KERNEL_CALL(run->queue, sgd, call->type, call->count, &options, run->values, run->value, run->gradient,
                  run->states[0], run->narrow);
  return TRI_OK;
}

const tri_optimizer tri_optimizer_sgd = {
    .name = "sgd",
    .takes = TRI_ALL_GROUPS,
    .unit = TRI_UNIT_ELEMENTS,
    .num_states = 1,
    .states = {{.suffix = ".momentum_buffer", .with_sign = true}},
    .update = sgd_update,
};
