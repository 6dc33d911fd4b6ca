#include "optimizers/optimizer.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

#define ROW(VALUE, name) {#name, TRI_OPTIMIZER_##VALUE},
const tri_config_word tri_optimizer_words[] = {TRI_OPTIMIZERS(ROW){NULL, 0}};
static const tri_config_word group_words[] = {{"auto", TRI_OPTIMIZER_AUTO}, TRI_OPTIMIZERS(ROW){NULL, 0}};
#undef ROW

const tri_config_word tri_state_storage_words[] = {
    {"fp32", TRI_STATE_WIDE}, {"bf16", TRI_STATE_BF16}, {"int8", TRI_STATE_INT8}, {NULL, 0}};

const tri_optimizer *tri_optimizer_named(tri_optimizer_name name) {
#define TABLE(VALUE, name)                                                                                             \
  case TRI_OPTIMIZER_##VALUE: return &tri_optimizer_##name;
  switch (name) { TRI_OPTIMIZERS(TABLE) }
#undef TABLE
  return NULL;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

#define KEY(NAME, TYPE) TRI_CONFIG_KEY(tri_group_settings, NAME, TYPE)
#define GROUP_KEYS(decay)                                                                                              \
  {                                                                                                                    \
    {KEY(name, TRI_CONFIG_CHOICE), .words = group_words, .fallback = "auto",                                           \
     .help = "the optimizer of this group; auto: optimizer.name if that takes it, else adamw"},                        \
        {KEY(lr_scale, TRI_CONFIG_DOUBLE), .fallback = "1.0", .range = {.low = 0, .high = 1e9},                        \
         .help = "its learning rate is optimizer.lr times this"},                                                      \
    {                                                                                                                  \
      KEY(weight_decay_scale, TRI_CONFIG_DOUBLE), .fallback = decay, .range = {.low = 0, .high = 1e9},                 \
                                                  .help = "its weight decay is optimizer.weight_decay times this"      \
    }                                                                                                                  \
  }
static const tri_config_key decayed_keys[] = GROUP_KEYS("1.0"), vector_keys[] = GROUP_KEYS("0.0");

const tri_config_table tri_group_keys = TRI_CONFIG_TABLE("run file", decayed_keys),
                       tri_vector_group_keys = TRI_CONFIG_TABLE("run file", vector_keys);

const tri_optimizer_settings *tri_optimizer_settings_default(void) {
#define GROUP(decay)                                                                                                   \
  { TRI_OPTIMIZER_AUTO, 1.0, decay }
  static const tri_optimizer_settings settings = {.name = TRI_OPTIMIZER_ADAMW,
                                                  .betas = {0.9, 0.95},
                                                  .eps = 1e-8,
                                                  .weight_decay = 0.1,
                                                  .state = TRI_STATE_WIDE,
                                                  .muon = {0.95, true, TRI_MUON_MOONLIGHT, 5},
                                                  .schedule_free = {0.0, 2.0},
                                                  .sgd = {0.9, false},
                                                  .adafactor = {-0.8, {0, 1e-3}, 1.0},
                                                  .galore = {0, 200, 0.25},
                                                  .fira = {0, 200, 0.25},
                                                  .average = {.every = 0, .decay = 0.999},
                                                  .groups = {GROUP(1.0), GROUP(1.0), GROUP(1.0), GROUP(0.0)}};
#undef GROUP
  return &settings;
}

/* ---- optimizer of a group ---------------------------------------------------------------------------------------- */

static bool takes(const tri_optimizer *optimizer, tri_parameter_group group) {
  return (optimizer->takes >> (unsigned)group & 1u) != 0;
}

const tri_optimizer *tri_optimizer_of_group(const tri_optimizer_settings *settings, tri_parameter_group group) {
  const int own = settings->groups[group].name;
  const tri_optimizer *common = tri_optimizer_named(settings->name);
  if (own != TRI_OPTIMIZER_AUTO) return tri_optimizer_named((tri_optimizer_name)own);
  return takes(common, group) ? common : &tri_optimizer_adamw;
}

const tri_optimizer *tri_optimizer_of(const tri_optimizer_settings *settings, const tri_parameter *parameter) {
  if (!tri_parameter_has_gradient(parameter)) return NULL;
  return tri_optimizer_of_group(settings, tri_parameter_group_of(parameter));
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

#define RUN_STATE(VALUE, name) &tri_##name##_state,
const tri_optimizer_state *const tri_run_states[TRI_NUM_RUN_STATES] = {TRI_RUN_STATES(RUN_STATE)};
#undef RUN_STATE

/* Returns the number of the optimizer's states plus the number of states below `end` that the run keeps
 * (tri_run_state). */
static int64_t states_before(const tri_optimizer_settings *settings, const tri_optimizer *optimizer,
                             tri_run_state end) {
  int64_t number = optimizer->num_states;
  for (int r = 0; r < TRI_NUM_RUN_STATES && r < (int)end; r++) number += tri_run_states[r]->is_kept(settings);
  return number;
}

int64_t tri_optimizer_num_states(const tri_optimizer_settings *settings, const tri_optimizer *optimizer) {
  return states_before(settings, optimizer, TRI_NUM_RUN_STATES);
}

const tri_optimizer_state *tri_optimizer_state_at(const tri_optimizer_settings *settings,
                                                  const tri_optimizer *optimizer, int64_t state) {
  int64_t number = optimizer->num_states;
  if (state < number) return &optimizer->states[state];
  for (int r = 0; r < TRI_NUM_RUN_STATES; r++) {
    if (tri_run_states[r]->is_kept(settings) && number++ == state) return tri_run_states[r];
  }
  return NULL;
}

int64_t tri_update_num_states(const tri_update_call *call) {
  return call->optimizer == NULL ? 0 : tri_optimizer_num_states(call->settings, call->optimizer);
}

const tri_optimizer_state *tri_update_state(const tri_update_call *call, int64_t state) {
  return tri_optimizer_state_at(call->settings, call->optimizer, state);
}

int64_t tri_update_run_state(const tri_update_call *call, tri_run_state state) {
  return states_before(call->settings, call->optimizer, state);
}

tri_state_shape tri_optimizer_state_shape(const tri_optimizer_settings *settings, const tri_optimizer_state *state,
                                          const tri_parameter *tensor) {
  tri_state_shape shape = {.num_dims = tensor->num_dims};
  tri_parameter alone = *tensor;
  alone.stacked = (tri_stacked){.as = TRI_STACKING_NONE}; /* a tensor of a stack is a matrix by itself */
  if (state->shape != NULL) return state->shape(settings, &alone);
  for (int d = 0; d < tensor->num_dims; d++) shape.dims[d] = tensor->shape[d];
  return shape;
}

int64_t tri_state_shape_count(const tri_state_shape *shape) {
  int64_t count = shape->num_dims > 0 ? 1 : 0;
  for (int64_t d = 0; d < shape->num_dims; d++) count *= shape->dims[d];
  return count;
}

bool tri_optimizer_has_matrices(const tri_optimizer_settings *settings) {
  for (int g = 0; g < TRI_NUM_GROUPS; g++) {
    switch (tri_optimizer_of_group(settings, (tri_parameter_group)g)->unit) {
      case TRI_UNIT_MATRIX: return true;
      case TRI_UNIT_ELEMENTS: break;
    }
  }
  return false;
}

const tri_optimizer *tri_optimizer_that_averages(const tri_optimizer_settings *settings) {
  for (int g = 0; g < TRI_NUM_GROUPS; g++) {
    const tri_optimizer *optimizer = tri_optimizer_of_group(settings, (tri_parameter_group)g);
    if (optimizer->evaluated != NULL) return optimizer;
  }
  return NULL;
}

tri_status tri_optimizer_settings_check(const tri_optimizer_settings *settings) {
  for (int g = 0; g < TRI_NUM_GROUPS; g++) {
    const tri_parameter_group group = (tri_parameter_group)g;
    const tri_optimizer *optimizer = tri_optimizer_of_group(settings, group);
    if (!takes(optimizer, group)) {
      return tri_fail(TRI_BAD_CONFIG, "`optimizer.%s.name` %s: %s is for matrices alone; use auto, or adamw",
                      tri_parameter_group_name(group), optimizer->name, optimizer->name);
    }
    if (optimizer->check != NULL) TRI_TRY(optimizer->check(settings));
  }
  return tri_average_check(settings, tri_optimizer_that_averages(settings));
}

static bool asks_of_the_model(const tri_optimizer_settings *settings) {
  for (int g = 0; g < TRI_NUM_GROUPS; g++) {
    if (tri_optimizer_of_group(settings, (tri_parameter_group)g)->check_model != NULL) return true;
  }
  return false;
}

tri_status tri_optimizer_settings_check_model(const tri_optimizer_settings *settings, const tri_model *model) {
  tri_parameter_table *table = NULL;
  tri_status status = TRI_OK;
  if (!asks_of_the_model(settings)) return TRI_OK;
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  for (int g = 0; g < TRI_NUM_GROUPS && status == TRI_OK; g++) {
    const tri_optimizer *optimizer = tri_optimizer_of_group(settings, (tri_parameter_group)g);
    if (optimizer->check_model != NULL) status = optimizer->check_model(settings, table);
  }
  tri_parameter_table_destroy(table);
  return status;
}
