/* Training options for planning without a run file: the trained parameters, the optimizer and the objective. They
 * have those keys of a run file that affect the computation and the memory of a step. */
#ifndef TRI_PLAN_TRAINING_OPTIONS_H
#define TRI_PLAN_TRAINING_OPTIONS_H

#include "config/config.h"
#include "model/model.h"
#include "model/objective_config.h"
#include "optimizers/optimizer.h"

typedef struct tri_training_options {
  tri_trainable tuning;
  tri_optimizer_settings optimizer;
  tri_objective_config objective;
} tri_training_options;

/* Tables of these keys: of all options, and of the sections `adapter` and `optimizer`. All have the offsets of
 * tri_training_options. */
extern const tri_config_table tri_training_options_table, tri_training_options_adapter_table,
    tri_training_options_optimizer_table;

/* Reads options such as "adapter.rank=16". Later options override earlier ones. Keys without an option have their
 * defaults. */
tri_status tri_training_options_parse(const char *const *options, int64_t count, tri_training_options *out);

/* Sets model->tuning, and checks it together with the settings of the optimizer. The model must be complete
 * (tri_model_complete). An error message begins with the key of the run file. */
tri_status tri_training_options_apply(const tri_training_options *trained, tri_model *model);

#endif
