/* GaLore (Zhao et al. 2024): Adam on the gradient projected on its first singular vectors (low_rank.c). */
#include "optimizers/low_rank.h"

const tri_config_table tri_galore_keys = {.noun = "run file", .keys = tri_low_rank_keys, .num_keys = TRI_LOW_RANK_KEYS};

static tri_status galore_check(const tri_optimizer_settings *settings) {
  return tri_low_rank_check(&settings->galore, "galore");
}

static tri_status galore_check_model(const tri_optimizer_settings *settings, const tri_parameter_table *table) {
  return tri_low_rank_check_model(settings, &settings->galore, &tri_optimizer_galore, table);
}

static tri_state_shape galore_projection_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  return tri_low_rank_projection_shape(&settings->galore, tensor);
}

static tri_state_shape galore_moment_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  return tri_low_rank_moment_shape(&settings->galore, tensor);
}

static tri_status galore_workspace(const tri_update_call *call, const tri_device_description *device, size_t *bytes) {
  return tri_low_rank_workspace(&call->settings->galore, false, call, device, bytes);
}

static tri_status galore_update(const tri_update_run *run, const tri_update_call *call) {
  return tri_low_rank_update(&call->settings->galore, false, run, call);
}

static int galore_costs(const tri_update_call *call, tri_cost out[TRI_OPTIMIZER_COSTS]) {
  return tri_low_rank_costs(&call->settings->galore, false, call, out);
}

static double galore_work(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  return tri_low_rank_work(&settings->galore, tensor);
}

const tri_optimizer tri_optimizer_galore = {
    .name = "galore",
    .takes = 1u << TRI_GROUP_MATRICES,
    .unit = TRI_UNIT_MATRIX,
    .num_states = 3,
    .states = {[TRI_LOW_RANK_PROJECTION] = {.suffix = ".projection",
                                            .with_sign = true,
                                            .shape = galore_projection_shape},
               [TRI_LOW_RANK_MOMENT1] = {.suffix = ".exp_avg", .with_sign = true, .shape = galore_moment_shape},
               [TRI_LOW_RANK_MOMENT2] = {.suffix = ".exp_avg_sq", .shape = galore_moment_shape}},
    .check = galore_check,
    .check_model = galore_check_model,
    .workspace = galore_workspace,
    .update = galore_update,
    .costs = galore_costs,
    .work = galore_work,
};
