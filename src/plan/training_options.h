/* The trained parameters, the optimizer and the objective, for planning without a run file: the keys that influence
 * computation and memory of a step, with their names in a run file. */
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

/* Tables of the keys: one for all options, and those of the sections `adapter` and `optimizer`. Offsets are into
 * tri_training_options. */
extern const tri_config_table tri_training_options_table, tri_training_options_adapter_table,
    tri_training_options_optimizer_table;

/* Reads options such as "adapter.rank=16"; later ones override earlier ones, other keys have their defaults. */
tri_status tri_training_options_parse(const char *const *options, int64_t count, tri_training_options *out);

/* Sets `tuning` of a complete model, and checks it and the optimizer's settings. Messages begin with the run file's
 * key. */
tri_status tri_training_options_apply(const tri_training_options *trained, tri_model *model);

#endif
