/* Schedule-free AdamW (Defazio et al. 2024): gradients are taken at a point y between the fast iterate z and the
 * average x of all z. The parameters are y while the run trains, and x for evaluation and saving: x = y + (1 - 1 /
 * beta1) (z - y). */
#include "optimizers/run.h"

#include <math.h>

static const tri_config_key keys[] = {
    {TRI_CONFIG_KEY(tri_schedule_free_settings, r, TRI_CONFIG_DOUBLE), .fallback = "0.0",
     .range = {.low = 0, .high = 100},
     .help = "later updates weigh more in the average: by their number to this power"},
    {TRI_CONFIG_KEY(tri_schedule_free_settings, weight_lr_power, TRI_CONFIG_DOUBLE), .fallback = "2.0",
     .range = {.low = 0, .high = 100}, .help = "updates weigh in the average by the highest rate so far to this power"},
};
const tri_config_table tri_schedule_free_keys = TRI_CONFIG_TABLE("run file", keys);

static tri_status schedule_free_check(const tri_optimizer_settings *settings) {
  if (settings->betas[0] > 0) return TRI_OK;
  return tri_fail(
      TRI_BAD_CONFIG,
      "`optimizer.betas` [0, ...]: schedule_free finds the point to evaluate by dividing by the first; give "
      "it 0.9");
}

static tri_status schedule_free_update(const tri_update_run *run, const tri_update_call *call) {
  const tri_adamw options = tri_update_adamw(call);
  TRI_KERNEL_CALL(run->queue, schedule_free, call->type, call->count, &options, run->values, run->value, run->gradient,
                  run->states[0], run->states[1], run->narrow);
  return TRI_OK;
}

static double schedule_free_evaluated(const tri_optimizer_settings *settings) { return 1.0 - 1.0 / settings->betas[0]; }

static double schedule_free_weight(const tri_optimizer_settings *settings, int64_t update, double highest_lr) {
  return pow((double)update, settings->schedule_free.r) * pow(highest_lr, settings->schedule_free.weight_lr_power);
}

const tri_optimizer tri_optimizer_schedule_free = {
    .name = "schedule_free",
    .takes = TRI_ALL_GROUPS,
    .unit = TRI_UNIT_ELEMENTS,
    .num_states = 2,
    .states = {{.suffix = ".z", .with_sign = true, .as_value = true}, {.suffix = ".exp_avg_sq"}},
    .check = schedule_free_check,
    .update = schedule_free_update,
    .evaluated = schedule_free_evaluated,
    .weight = schedule_free_weight,
    .trained = ".y",
};
