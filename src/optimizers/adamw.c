/* AdamW (Loshchilov and Hutter 2019), as torch.optim.AdamW. */
#include "optimizers/run.h"

static tri_status adamw_update(const tri_update_run *run, const tri_update_call *call) {
  const tri_adamw options = tri_update_adamw(call);
  TRI_KERNEL_CALL(run->queue, adamw, call->type, call->count, &options, run->values, run->value, run->gradient,
                  run->states[0], run->states[1], run->narrow);
  return TRI_OK;
}

const tri_optimizer tri_optimizer_adamw = {
    .name = "adamw",
    .takes = TRI_ALL_GROUPS,
    .unit = TRI_UNIT_ELEMENTS,
    .num_states = 2,
    .states = {{.suffix = ".exp_avg", .with_sign = true}, {.suffix = ".exp_avg_sq"}},
    .update = adamw_update,
};
