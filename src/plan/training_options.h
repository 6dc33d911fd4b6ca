/* What a run trains and what makes its updates, without the run: keys that decide about what a step computes and what
 * it keeps in memory, with the names that they have in a run file. */
#ifndef TRI_PLAN_TRAINING_OPTIONS_H
#define TRI_PLAN_TRAINING_OPTIONS_H

#include "config/config.h"
#include "model/model.h"
#include "optimizers/optimizer.h"

typedef struct tri_training_options {
  tri_trainable tuning;
  tri_optimizer_settings optimizer;
} tri_training_options;

/* `freeze`, and the sections `adapter` and `optimizer`, which are tables of their own: offsets into
 * tri_training_options. */
extern const tri_config_table tri_training_options_table, tri_training_options_adapter_table,
    tri_training_options_optimizer_table;

/* From options such as "adapter.rank=16", laid one over the other; what they do not say has its default. */
tri_status tri_training_options_parse(const char *const *options, int64_t count, tri_training_options *out);

/* Makes a complete model one of which that is trained: whether it can be. Messages begin with the run file's key. */
tri_status tri_training_options_apply(const tri_training_options *trained, tri_model *model);

#endif
