/* GaLore (Zhao et al. 2024) and Fira (Chen et al. 2024): Adam on what a gradient is in the space of its own first
 * singular vectors. */
#ifndef TRI_OPTIMIZERS_LOW_RANK_H
#define TRI_OPTIMIZERS_LOW_RANK_H

#include "optimizers/run.h"

/* States of both, in this order, and Fira's own. */
enum { TRI_LOW_RANK_PROJECTION, TRI_LOW_RANK_MOMENT1, TRI_LOW_RANK_MOMENT2, TRI_LOW_RANK_NORM };

/* Numbers of vectors, and with the `rank` of settings: whether they are given. `name` is the section's. */
tri_status tri_low_rank_check(const tri_low_rank_settings *settings, const char *name);
/* Whether no matrix of `optimizer` has a side that is shorter than the rank. */
tri_status tri_low_rank_check_model(const tri_optimizer_settings *settings, const tri_low_rank_settings *own,
                                    const tri_optimizer *optimizer, const tri_parameter_table *table);

/* The vectors of each matrix of a tensor, its moments, and a number. */
tri_state_shape tri_low_rank_projection_shape(const tri_low_rank_settings *settings, const tri_parameter *tensor);
tri_state_shape tri_low_rank_moment_shape(const tri_low_rank_settings *settings, const tri_parameter *tensor);
tri_state_shape tri_low_rank_norm_shape(const tri_parameter *tensor);

/* As the functions of tri_optimizer. `whole`: with what lies outside of the space (Fira). */
tri_status tri_low_rank_workspace(const tri_low_rank_settings *settings, bool whole, const tri_update_call *call,
                                  const tri_device_description *device, size_t *bytes);
tri_status tri_low_rank_update(const tri_low_rank_settings *settings, bool whole, const tri_update_run *run,
                               const tri_update_call *call);
int tri_low_rank_costs(const tri_low_rank_settings *settings, bool whole, const tri_update_call *call,
                       tri_cost out[TRI_OPTIMIZER_COSTS]);
double tri_low_rank_work(const tri_low_rank_settings *settings, const tri_parameter *tensor);

/* The keys of a section of one. */
enum { TRI_LOW_RANK_KEYS = 3 };
extern const tri_config_key tri_low_rank_keys[TRI_LOW_RANK_KEYS];

#endif
