/* Fira (Chen et al. 2024): GaLore, plus the gradient's component outside of the projection, scaled as Adam scales the
 * component inside (low_rank.c). */
#include "optimizers/low_rank.h"

const tri_config_table tri_fira_keys = {.noun = "run file", .keys = tri_low_rank_keys, .num_keys = TRI_LOW_RANK_KEYS};

static tri_status fira_check(const tri_optimizer_settings *settings) {
  return tri_low_rank_check(&settings->fira, "fira");
}

static tri_status fira_check_model(const tri_optimizer_settings *settings, const tri_parameter_table *table) {
  return tri_low_rank_check_model(settings, &settings->fira, &tri_optimizer_fira, table);
}

static tri_state_shape fira_projection_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  return tri_low_rank_projection_shape(&settings->fira, tensor);
}

static tri_state_shape fira_moment_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  return tri_low_rank_moment_shape(&settings->fira, tensor);
}

static tri_state_shape fira_norm_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  (void)settings;
  return tri_low_rank_norm_shape(tensor);
}

static tri_status fira_workspace(const tri_update_call *call, const tri_device_description *device, size_t *bytes) {
  return tri_low_rank_workspace(&call->settings->fira, true, call, device, bytes);
}

static tri_status fira_update(const tri_update_run *run, const tri_update_call *call) {
  return tri_low_rank_update(&call->settings->fira, true, run, call);
}

static int fira_costs(const tri_update_call *call, tri_cost out[TRI_OPTIMIZER_COSTS]) {
  return tri_low_rank_costs(&call->settings->fira, true, call, out);
}

static double fira_work(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  return tri_low_rank_work(&settings->fira, tensor);
}

const tri_optimizer tri_optimizer_fira = {
    .name = "fira",
    .takes = 1u << TRI_GROUP_MATRICES,
    .unit = TRI_UNIT_MATRIX,
    .num_states = 4,
    .states = {[TRI_LOW_RANK_PROJECTION] = {.suffix = ".projection", .with_sign = true, .shape = fira_projection_shape},
               [TRI_LOW_RANK_MOMENT1] = {.suffix = ".exp_avg", .with_sign = true, .shape = fira_moment_shape},
               [TRI_LOW_RANK_MOMENT2] = {.suffix = ".exp_avg_sq", .shape = fira_moment_shape},
               [TRI_LOW_RANK_NORM] = {.suffix = ".rest_norm", .shape = fira_norm_shape}},
    .check = fira_check,
    .check_model = fira_check_model,
    .workspace = fira_workspace,
    .update = fira_update,
    .costs = fira_costs,
    .work = fira_work,
};
