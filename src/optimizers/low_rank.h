/* GaLore (Zhao et al. 2024) and Fira (Chen et al. 2024): Adam on the gradient, projected on the gradient's first
 * singular vectors. */
#ifndef TRI_OPTIMIZERS_LOW_RANK_H
#define TRI_OPTIMIZERS_LOW_RANK_H

#include "optimizers/run.h"

/* Indices of the states of GaLore and Fira. Only Fira has TRI_LOW_RANK_NORM. */
enum { TRI_LOW_RANK_PROJECTION, TRI_LOW_RANK_MOMENT1, TRI_LOW_RANK_MOMENT2, TRI_LOW_RANK_NORM };

/* Checks that `rank`, the number of vectors, is given. `name` is the name of the section. */
tri_status tri_low_rank_check(const tri_low_rank_settings *settings, const char *name);
/* Checks that no matrix that `optimizer` updates has a side shorter than the rank. */
tri_status tri_low_rank_check_model(const tri_optimizer_settings *settings, const tri_low_rank_settings *own,
                                    const tri_optimizer *optimizer, const tri_parameter_table *table);

/* Returns the shape of TRI_LOW_RANK_PROJECTION: [rank, shorter side] for each matrix of a tensor. */
tri_state_shape tri_low_rank_projection_shape(const tri_low_rank_settings *settings, const tri_parameter *tensor);
/* Returns the shape of both moments: the shape of a matrix, with the rank in place of the shorter side. */
tri_state_shape tri_low_rank_moment_shape(const tri_low_rank_settings *settings, const tri_parameter *tensor);
/* Returns the shape of TRI_LOW_RANK_NORM: one number for each matrix of a tensor. */
tri_state_shape tri_low_rank_norm_shape(const tri_parameter *tensor);

/* Implement the functions `workspace`, `update`, `costs` and `work` of tri_optimizer. `whole`: the update also uses the
 * gradient's component outside of the projection (Fira). */
tri_status tri_low_rank_workspace(const tri_low_rank_settings *settings, bool whole, const tri_update_call *call,
                                  const tri_device_description *device, size_t *bytes);
tri_status tri_low_rank_update(const tri_low_rank_settings *settings, bool whole, const tri_update_run *run,
                               const tri_update_call *call);
int tri_low_rank_costs(const tri_low_rank_settings *settings, bool whole, const tri_update_call *call,
                       tri_cost out[TRI_OPTIMIZER_COSTS]);
double tri_low_rank_work(const tri_low_rank_settings *settings, const tri_parameter *tensor);

/* Keys of the section of GaLore or of Fira. */
enum { TRI_LOW_RANK_KEYS = 3 };
extern const tri_config_key tri_low_rank_keys[TRI_LOW_RANK_KEYS];

#endif
