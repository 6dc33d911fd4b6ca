#include "plan/training_options.h"

#include "model/trainable_config.h"
#include "optimizers/keys.h"

#include <stddef.h>

#define SECTION(NAME, TABLE) .name = NAME, .type = TRI_CONFIG_SECTION, .table = TABLE
static const tri_config_key adapter_keys[] = {TRI_ADAPTER_ROWS(tri_training_options, tuning.adapter)};
const tri_config_table tri_training_options_adapter_table = TRI_CONFIG_TABLE("adapter", adapter_keys);

static const tri_config_key optimizer_keys[] = {TRI_OPTIMIZER_NAME_ROW(tri_training_options, optimizer),
                                                TRI_OPTIMIZER_STATE_ROWS(tri_training_options, optimizer)};
const tri_config_table tri_training_options_optimizer_table = TRI_CONFIG_TABLE("optimizer", optimizer_keys);

static const tri_config_key trained_keys[] = {
    TRI_FREEZE_ROW(tri_training_options, tuning.freeze),
    {SECTION("adapter", &tri_training_options_adapter_table), .help = "trained factors"},
    {SECTION("optimizer", &tri_training_options_optimizer_table), .help = "how parameters are updated"},
    TRI_AVERAGE_ROW(tri_training_options, optimizer),
    {SECTION("objective", &tri_objective_table), .offset = offsetof(tri_training_options, objective),
     .expand = tri_objective_expand, .help = "the loss to train with"},
};
const tri_config_table tri_training_options_table = TRI_CONFIG_TABLE("list of training options", trained_keys);

/* Fails with TRI_UNSUPPORTED for objectives whose time is not predicted. */
static tri_status check_objective(const tri_objective_config *objective) {
  switch (tri_objective_kind_of(objective)) {
    case TRI_OBJECTIVE_OF_TEXT:
    case TRI_OBJECTIVE_OF_PREFERENCES: return TRI_OK;
    case TRI_OBJECTIVE_OF_ROLLOUTS: break;
  }
  return tri_fail(
      TRI_UNSUPPORTED,
      "--set objective.name=%s: the time of rollouts is not predicted; leave it out, and the plan is that of "
      "the training step on as many sequences",
      tri_objective_config_name(objective));
}

tri_status tri_training_options_parse(const char *const *options, int64_t count, tri_training_options *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  tri_training_options trained = {.optimizer = *tri_optimizer_settings_default()};
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_make(tree, &(tri_yaml){.source = "--set"}, NULL, &root);
  for (int64_t i = 0; i < count && status == TRI_OK; i++) {
    status = tri_config_set(&tri_training_options_table, tree, root, options[i]);
  }
  tri_objective_config_begin(&trained.objective);
  if (status == TRI_OK) status = tri_config_read(&tri_training_options_table, tree, root, &trained);
  if (status == TRI_OK) status = tri_objective_config_finish(&trained.objective);
  if (status == TRI_OK) status = check_objective(&trained.objective);
  tri_yaml_destroy(tree);
  if (status == TRI_OK) *out = trained;
  return status;
}

tri_status tri_training_options_apply(const tri_training_options *trained, tri_model *model) {
  model->tuning = trained->tuning;
  tri_adapter_finish(&model->tuning.adapter);
  TRI_TRY(tri_trainable_check(model));
  TRI_TRY(tri_optimizer_settings_check(&trained->optimizer));
  return tri_optimizer_settings_check_model(&trained->optimizer, model);
}
