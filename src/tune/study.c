#include "tune/study.h"

#include "base/count.h"
#include "base/memory.h"
#include "checkpoint/model_source.h"
#include "config/nearest_word.h"
#include "files/file.h"
#include "model/trainable_config.h"
#include "run/run_config.h"
#include "schedule/layout_config.h"
#include "tune/study_objective.h"
#include "tune/study_values.h"
#include "tune/trial_schedule.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---------------------------------------------------------------------------------------------------- */

TRI_CONFIG_WORDS(objectives, tri_objective, TRI_OBJECTIVES)
#define METHODS(X)                                                                                                     \
  X("auto", TRI_METHOD_AUTO)                                                                                           \
  X("gaussian", TRI_METHOD_GAUSSIAN)                                                                                   \
  X("random", TRI_METHOD_RANDOM)                                                                                       \
  X("grid", TRI_METHOD_GRID)                                                                                           \
  X("exhaustive", TRI_METHOD_EXHAUSTIVE)                                                                               \
  X("pbt", TRI_METHOD_POPULATION)                                                                                      \
  X("halving", TRI_METHOD_HALVING)
TRI_CONFIG_WORDS(methods, tri_method, METHODS)
#define PRIORS(X)                                                                                                      \
  X("planner", TRI_PRIOR_PLANNER)                                                                                      \
  X("none", TRI_PRIOR_NONE)
TRI_CONFIG_WORDS(priors, tri_prior, PRIORS)

#define KEY TRI_CONFIG_KEY
#define AT(NAME, MEMBER, TYPE) .name = NAME, .type = TYPE, .offset = offsetof(tri_study, MEMBER)
#define ENTRIES(NAME, MEMBER, ENTRY, COUNT)                                                                            \
  AT(NAME, MEMBER, TRI_CONFIG_LIST), .bytes = sizeof(ENTRY), .count = offsetof(tri_study, COUNT)
#define ROOM(STRUCT, NAME) .bytes = sizeof(((STRUCT *)0)->NAME)
#define TEXT(STRUCT, NAME) KEY(STRUCT, NAME, TRI_CONFIG_STRING), ROOM(STRUCT, NAME)

enum { MOST_COUNTED = 1 << 24 }; /* maximum number of devices, of nodes, or of sequences of a step */

static const tri_config_key trial_keys[] = {
    {AT("warmup", trial.warmup, TRI_CONFIG_INT), .range = {.low = 0, .high = 10000}, .fallback = "2",
     .help = "steps before those that count"},
    {AT("steps", trial.steps, TRI_CONFIG_INT), .range = {.low = 1, .high = MOST_COUNTED}, .fallback = "5",
     .help = "steps that count; objective: validation_loss: those of a trial, by default the run file's"},
    {AT("minutes", trial.minutes, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e6, .open_low = true},
     .fallback = "20.0", .help = "after which a trial has failed; objective: validation_loss: by default no limit"},
    {AT("worse", trial.worse, TRI_CONFIG_DOUBLE), .range = {.low = 1, .high = 1e6}, .fallback = "1.25",
     .help = "a trial is stopped at a quarter or half of its steps if it is in the worse half and this many times "
             "slower than the best one there"},
    {AT("memory_gib", trial.memory_gib, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e6}, .fallback = "0.0",
     .help = "memory that each of its ranks may use; 0: its share of the node"},
    {AT("target_loss", trial.target_loss, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e6}, .fallback = "0.0",
     .help = "objective: time_to_loss: the validation loss to reach, within the steps and minutes of a trial"},
    {AT("random_tokens", trial.random_tokens, TRI_CONFIG_BOOL), .fallback = "false",
     .help = "on tokens drawn at random rather than the run file's text: as fast, and nothing to prepare"},
};
static const tri_config_table trial_table = TRI_CONFIG_TABLE("trial", trial_keys);

static const tri_config_key recipe_keys[] = {
    {TEXT(tri_recipe, name), .example = "the paper's", .help = "name in reports"},
    {TEXT(tri_recipe, layout), .example = "tensor=4,pipeline=16", .help = "as simulate takes it"},
    {KEY(tri_recipe, devices, TRI_CONFIG_INT), .range = {.low = 0, .high = MOST_COUNTED}, .fallback = "0",
     .help = "0: the study's"},
    {KEY(tri_recipe, global_batch, TRI_CONFIG_INT), .range = {.low = 0, .high = MOST_COUNTED}, .fallback = "0",
     .help = "0: the study's"},
};
static const tri_config_table recipe_table = TRI_CONFIG_TABLE("recipe", recipe_keys);

static const tri_config_key population_keys[] = {
    {AT("members", population.members, TRI_CONFIG_INT), .range = {.low = 2, .high = 1000}, .fallback = "8",
     .help = "runs that are trained side by side"},
    {AT("rounds", population.rounds, TRI_CONFIG_INT), .range = {.low = 1, .high = 1000}, .fallback = "5",
     .help = "stretches of each, between which members compare"},
    {AT("steps", population.steps, TRI_CONFIG_INT), .range = {.low = 1, .high = MOST_COUNTED}, .fallback = "50",
     .help = "steps of a stretch"},
    {AT("share", population.share, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 0.5, .open_low = true},
     .fallback = "0.25",
     .help =
         "fraction of members that are replaced in a round: the worst continue from the weights of one of the best"},
    {AT("factor", population.factor, TRI_CONFIG_DOUBLE), .range = {.low = 1, .high = 10, .open_low = true},
     .fallback = "1.25", .help = "factor by which a parameter taken from another member is increased or reduced"},
};
static const tri_config_table population_table = TRI_CONFIG_TABLE("population", population_keys);

#define NAMED(NAME, MEMBER) AT(NAME, MEMBER, TRI_CONFIG_STRING), ROOM(tri_study, MEMBER)
#define PLACED(NAME, MEMBER) AT(NAME, MEMBER, TRI_CONFIG_PATH), ROOM(tri_study, MEMBER)
static const tri_config_key study_keys[] = {
    {TEXT(tri_study, name), .example = "frontier-175b", .help = "name in reports"},
    {PLACED("model", model_name), .fallback = "",
     .help = "a preset, a file or a folder that holds a model; by default the run file's"},
    {PLACED("cluster", cluster_name), .fallback = "",
     .help = "a preset or file; with real trials optional, for the prior"},
    {PLACED("system", system_name), .fallback = "trireme", .help = "the training system that is simulated"},
    {NAMED("precision", precision_name), .fallback = "bf16", .help = "bf16, fp32 or fp64"},
    {PLACED("run", run), .fallback = "", .help = "a run file: trials are real; without one they are simulated"},
    {KEY(tri_study, devices, TRI_CONFIG_INT), .range = {.low = 0, .high = MOST_COUNTED}, .fallback = "0",
     .help = "devices or ranks, where `nodes` is not a parameter"},
    {KEY(tri_study, global_batch, TRI_CONFIG_INT), .range = {.low = 0, .high = MOST_COUNTED}, .fallback = "0",
     .help = "sequences a step, where `accumulation` is not a parameter"},
    {KEY(tri_study, sequence, TRI_CONFIG_INT), .range = {.low = 0, .high = 1 << 30}, .fallback = "0",
     .help = "tokens of one; 0: the model's max_sequence, where that is 8192 or less"},
    {KEY(tri_study, expert_imbalance, TRI_CONFIG_DOUBLE), .range = {.low = 1, .high = TRI_ROUTER_EXPERTS},
     .fallback = "1.0",
     .help = "rows of the busiest rank's experts, as a multiple of those under perfect balance; as --expert-imbalance "
             "of simulate"},
    TRI_FREEZE_ROW(tri_study, trained.tuning.freeze),
    {AT("adapter", trained, TRI_CONFIG_SECTION), .table = &tri_training_options_adapter_table,
     .help = "as in a run file; simulated trials, as `freeze` and `optimizer`"},
    {AT("optimizer", trained, TRI_CONFIG_SECTION), .table = &tri_training_options_optimizer_table,
     .help = "as in a run file: name, state, groups, and each optimizer's own"},
    {KEY(tri_study, objective, TRI_CONFIG_CHOICE), .words = objectives, .fallback = "tflops",
     .help =
         "the value to optimize; cost: tokens per device-second; time_to_loss: the time until trial.target_loss is "
         "reached; validation_loss: the loss after the steps of a trial; validation_accuracy: of held-out preference "
         "pairs"},
    {AT("method", search.method, TRI_CONFIG_CHOICE), .words = methods, .fallback = "auto",
     .help = "how points are chosen; auto: all points if they can be simulated within exhaustive_seconds and neither "
             "trials nor node_hours is given, else gaussian; halving, for a validation loss: all points, and the worse "
             "half of them stops after an eighth, a quarter and a half of the steps"},
    {KEY(tri_study, exhaustive_seconds, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e6}, .fallback = "30.0",
     .help = "seconds of simulation that method: auto spends on trying all points; 0: never"},
    {KEY(tri_study, prior, TRI_CONFIG_CHOICE), .words = priors, .fallback = "planner",
     .help = "whether gaussian begins with the planner's predictions for the points on the cluster"},
    {AT("trials", search.trials, TRI_CONFIG_INT), .range = {.low = 0, .high = 100000}, .fallback = "0",
     .help = "the budget; 0: 64, or all where all are tried"},
    {AT("initial", search.initial, TRI_CONFIG_INT), .range = {.low = 1, .high = 1000}, .fallback = "8",
     .help = "trials at random before the model chooses"},
    {KEY(tri_study, minutes, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e6}, .fallback = "0.0",
     .help = "the budget of time; 0: none"},
    {KEY(tri_study, node_hours, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e9}, .fallback = "0.0",
     .help =
         "the budget in node-hours of all trials, for simulated trials the hours that real ones would take; 0: none"},
    {KEY(tri_study, parallel, TRI_CONFIG_INT), .range = {.low = 1, .high = 256}, .fallback = "1",
     .help = "real trials at once; each has its part of the cores"},
    {AT("seed", search.seed, TRI_CONFIG_SEED), .fallback = "1", .help = "seed of all random choices"},
    {.name = "trial", .type = TRI_CONFIG_SECTION, .table = &trial_table, .help = "a real trial"},
    {.name = "population", .type = TRI_CONFIG_SECTION, .table = &population_table, .help = "method: pbt"},
    {ENTRIES("known", known, tri_recipe, num_known), .table = &recipe_table, .range = {.low = 0, .high = TRI_RECIPES},
     .fallback = "", .help = "recipes to compare with"},
    {ENTRIES("space", space.knobs, tri_knob, space.num_knobs), .table = &tri_knob_table,
     .range = {.low = 1, .high = TRI_KNOBS}, .example = "[{name: tensor, values: 1 2 4 8}]",
     .help = "parameters that are varied"},
    {ENTRIES("constraints", space.rules, tri_rule, space.num_rules), .table = &tri_rule_table,
     .range = {.low = 0, .high = TRI_RULES}, .fallback = "", .help = "constraints that points must satisfy"},
};
static const tri_config_table study_table = TRI_CONFIG_TABLE("study file", study_keys);

const tri_config_table *tri_study_table(void) { return &study_table; }

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static const tri_config_key *layout_key(const char *name) {
  for (size_t i = 0; i < tri_layout_table.num_keys; i++) {
    if (strcmp(tri_layout_table.keys[i].name, name) == 0) return &tri_layout_table.keys[i];
  }
  return NULL;
}

/* Choices of the optimizer that can be parameters of a space, with their offsets in the optimizer's settings. */
static const struct {
  const char *name;
  const tri_config_word *words;
  size_t offset;
} optimizer_knobs[] = {
    {"optimizer.name", tri_optimizer_words, offsetof(tri_optimizer_settings, name)},
    {"optimizer.state", tri_state_storage_words, offsetof(tri_optimizer_settings, state)},
};
enum { OPTIMIZER_KNOBS = sizeof optimizer_knobs / sizeof *optimizer_knobs };

/* Returns the index of a parameter in optimizer_knobs; -1 if it is not one of them. */
static int optimizer_knob(const char *name) {
  for (int i = 0; i < OPTIMIZER_KNOBS; i++) {
    if (strcmp(optimizer_knobs[i].name, name) == 0) return i;
  }
  return -1;
}

const char *tri_study_optimizer_word(const char *knob, const tri_optimizer_settings *settings) {
  const int i = optimizer_knob(knob);
  if (i < 0) return NULL;
  const int value = *(const int *)((const char *)settings + optimizer_knobs[i].offset);
  for (const tri_config_word *word = optimizer_knobs[i].words; word->name != NULL; word++) {
    if (word->value == value) return word->name;
  }
  return NULL;
}

static tri_status find_choice(int at, const char *word, tri_optimizer_settings *settings) {
  char all[256] = "";
  int *value = (int *)((char *)settings + optimizer_knobs[at].offset);
  if (tri_config_find_word(optimizer_knobs[at].words, word, value)) return TRI_OK;
  for (const tri_config_word *other = optimizer_knobs[at].words; other->name != NULL; other++) {
    const size_t held = strlen(all);
    snprintf(all + held, sizeof all - held, "%s%s", held == 0 ? "" : ", ", other->name);
  }
  return tri_fail(TRI_BAD_CONFIG, "it is one of %s", all);
}

static tri_status set_optimizer(const tri_study *study, int at, const char *word, tri_optimizer_settings *settings) {
  TRI_TRY(find_choice(at, word, settings));
  TRI_TRY(tri_optimizer_settings_check(settings));
  return tri_optimizer_settings_check_model(settings, &study->model);
}

static tri_status unknown_knob(const char *name) {
  enum { MOST_KNOBS = 64 };
  const char *names[MOST_KNOBS] = {"nodes", "accumulation"};
  char all[600] = "";
  size_t count = 2;
  for (size_t i = 0; i < tri_layout_table.num_keys && count < MOST_KNOBS; i++)
    names[count++] = tri_layout_table.keys[i].name;
  for (int i = 0; i < OPTIMIZER_KNOBS && count < MOST_KNOBS; i++) names[count++] = optimizer_knobs[i].name;
  for (size_t i = 0; i < count; i++) {
    const size_t held = strlen(all);
    snprintf(all + held, sizeof all - held, "%s%s", i == 0 ? "" : ", ", names[i]);
  }
  const char *meant = tri_nearest_word(name, names, count);
  char guess[96] = "; there";
  if (meant != NULL) snprintf(guess, sizeof guess, "; did you mean `%s`? There", meant);
  return tri_fail(TRI_BAD_CONFIG,
                  "`space`: `%s` is not a parameter%s are %s; and with objective: time_to_loss, validation_loss or "
                  "validation_accuracy any optimizer.KEY, model.KEY, adapter.KEY and objective.KEY",
                  name, guess, all);
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

/* Adds the keys of the run file's layout that are not parameters, except `data`, which follows from the devices. */
static void add_rest(const tri_study *study, char *text, size_t bytes) {
  char word[TRI_LAYOUT_WORD_BYTES];
  for (const char *at = study->layout; tri_layout_next_word(&at, word);) {
    size_t name = strcspn(word, "="), held = strlen(text);
    bool data = name == 4 && strncmp(word, "data", 4) == 0;
    if (data || tri_space_find(&study->space, word, name) >= 0) continue;
    snprintf(text + held, bytes - held, "%s%s", held == 0 ? "" : ",", word);
  }
}

static tri_status devices_of_nodes(const tri_study *study, int64_t nodes, int64_t *out) {
  int64_t each = study->cluster.node_devices;
  if (tri_count_times(nodes, each, out) && *out <= MOST_COUNTED) return TRI_OK;
  return tri_fail(TRI_BAD_LAYOUT, "%lld nodes of %lld devices are more than the %d that can be", (long long)nodes,
                  (long long)each, MOST_COUNTED);
}

static tri_status batch_of(const tri_study *study, const tri_trial_plan *plan, int64_t accumulation, int64_t *out) {
  const tri_layout *layout = &plan->layout;
  int64_t others = INT64_MAX;
  (void)tri_count_product((int64_t[]){layout->tensor, layout->pipeline, layout->context}, 3, &others);
  int64_t data = layout->data > 0 ? layout->data : plan->devices / others;
  if (data < 1) data = 1;
  bool counted = tri_count_product((int64_t[]){accumulation, layout->micro_batch, data}, 3, out);
  int64_t tokens = 0;
  if (counted && *out <= MOST_COUNTED && tri_count_times(*out, study->sequence, &tokens)) return TRI_OK;
  return tri_fail(
      TRI_BAD_LAYOUT,
      "accumulation %lld x micro_batch %lld x data %lld is a larger global batch than the %d sequences that "
      "can be",
      (long long)accumulation, (long long)layout->micro_batch, (long long)data, MOST_COUNTED);
}

static tri_status plan_of(const tri_study *study, const tri_point *point, tri_trial_plan *out) {
  char text[(int)TRI_POINT_TEXT_BYTES + (int)TRI_LAYOUT_TEXT_BYTES] = "";
  size_t held = 0;
  tri_trial_plan plan = {
      .devices = study->devices, .global_batch = study->global_batch, .optimizer = study->trained.optimizer};
  int64_t accumulation = 0;
  bool recomputes = false;
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    double number = knob->numbers[point->at[k]]; /* nodes, accumulation: up to MOST_COUNTED (check_values) */
    if (strcmp(knob->name, "nodes") == 0) {
      TRI_TRY(devices_of_nodes(study, (int64_t)number, &plan.devices));
    } else if (strcmp(knob->name, "accumulation") == 0) {
      accumulation = (int64_t)number;
    } else if (optimizer_knob(knob->name) >= 0) {
      TRI_TRY(set_optimizer(study, optimizer_knob(knob->name), knob->words[point->at[k]], &plan.optimizer));
    } else if (tri_objective_is_setting(knob->name)) {
      const size_t kept = strlen(plan.settings);
      snprintf(plan.settings + kept, sizeof plan.settings - kept, "%s=%s ", knob->name, knob->words[point->at[k]]);
    } else {
      int added = snprintf(text + held, sizeof text - held, "%s%s=%s", held == 0 ? "" : ",", knob->name,
                           knob->words[point->at[k]]);
      held += added > 0 && held + (size_t)added < sizeof text ? (size_t)added : 0;
      recomputes = recomputes || strcmp(knob->name, "recompute") == 0;
    }
  }
  add_rest(study, text, sizeof text);
  TRI_TRY(tri_layout_parse(text, &plan.layout));
  TRI_TRY(tri_system_settle(&study->system, text, &plan.layout));
  /* Systems that recompute whole layers are measured with full recomputation, unless the space varies it. */
  if (!recomputes && study->system.whole_recompute) plan.layout.recompute = TRI_RECOMPUTE_FULL;
  if (accumulation > 0) TRI_TRY(batch_of(study, &plan, accumulation, &plan.global_batch));
  TRI_TRY(tri_layout_resolve(&plan.layout, &study->model, study->sequence, plan.global_batch, plan.devices));
  *out = plan;
  return TRI_OK;
}

tri_status tri_point_plan(const tri_study *study, const tri_point *point, tri_trial_plan *out) {
  tri_status status = plan_of(study, point, out);
  if (status == TRI_BAD_CONFIG) return TRI_BAD_LAYOUT; /* a refused key, too, is a bad combination */
  return status;
}

tri_status tri_recipe_plan(const tri_study *study, const tri_recipe *recipe, tri_trial_plan *out) {
  tri_trial_plan plan = {.devices = recipe->devices > 0 ? recipe->devices : study->devices,
                         .global_batch = recipe->global_batch > 0 ? recipe->global_batch : study->global_batch,
                         .optimizer = study->trained.optimizer};
  TRI_TRY(tri_layout_parse(recipe->layout, &plan.layout));
  TRI_TRY(tri_system_settle(&study->system, recipe->layout, &plan.layout));
  bool recomputes = strstr(recipe->layout, "recompute") != NULL;
  if (!recomputes && study->system.whole_recompute) plan.layout.recompute = TRI_RECOMPUTE_FULL;
  TRI_TRY(tri_layout_resolve(&plan.layout, &study->model, study->sequence, plan.global_batch, plan.devices));
  *out = plan;
  return TRI_OK;
}

tri_simulation_request tri_study_request(const tri_study *study, const tri_trial_plan *plan) {
  const tri_train_objective *objective = &study->trained.objective.trained; /* not set without a run file */
  return (tri_simulation_request){.model = &study->model,
                                  .layout = &plan->layout,
                                  .cluster = &study->cluster,
                                  .system = &study->system,
                                  .global_batch = plan->global_batch,
                                  .sequence = study->sequence,
                                  .assumed_sequence = study->assumed_sequence,
                                  .precision = study->precision,
                                  .optimizer = &plan->optimizer,
                                  .objective = objective->append == NULL ? NULL : objective,
                                  .expert_imbalance = study->expert_imbalance};
}

double tri_study_value(const tri_study *study, const tri_trial_plan *plan, double step_s) {
  tri_simulation_request request = tri_study_request(study, plan);
  double tokens = (double)plan->global_batch * (double)study->sequence / step_s;
  switch (study->objective) {
    case TRI_OBJECTIVE_TFLOPS: return tri_step_hardware_flops(&request) / step_s / (double)plan->devices / 1e12;
    case TRI_OBJECTIVE_TOKENS: return tokens;
    case TRI_OBJECTIVE_COST: return tokens / (double)plan->devices;
    case TRI_OBJECTIVE_TIME_TO_LOSS:
    case TRI_OBJECTIVE_VALIDATION_LOSS:
    case TRI_OBJECTIVE_VALIDATION_ACCURACY: break;
  }
  return 0;
}

/* Returns the value of a run under the objective of AlgoPerf (Dahl et al. 2023): a fixed target within a fixed budget.
 * Any run that reaches the target is better than any run that does not. */
double tri_study_value_of_loss(const tri_study *study, bool reached, double seconds, double loss) {
  if (reached) return 1 + 3600 / fmax(seconds, 1e-9);
  return fmin(study->trial.target_loss / loss, 1);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static bool counts_devices(const char *name) { return strcmp(name, "nodes") == 0 || strcmp(name, "accumulation") == 0; }

static tri_status check_names(const tri_study *study) {
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const char *name = study->space.knobs[k].name;
    const bool setting = tri_objective_is_setting(name) && tri_objective_is_of_loss(study->objective);
    const tri_config_key *layout = layout_key(name);
    if (layout != NULL && layout->type == TRI_CONFIG_COUNTS) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`space`: `%s` is a list, not a parameter; give it in the run file that `run:` names, under "
                      "`layout:`",
                      name);
    }
    if (counts_devices(name) || setting || optimizer_knob(name) >= 0 || layout != NULL) continue;
    return unknown_knob(name);
  }
  return TRI_OK;
}

/* Fails if a value is not possible by itself. The message says which values are possible. */
static tri_status check_value(const tri_study *study, const tri_knob *knob, int64_t v) {
  char text[80];
  tri_layout layout;
  tri_optimizer_settings settings = study->trained.optimizer;
  const int chosen = optimizer_knob(knob->name);
  const double number = knob->numbers[v];
  const bool whole = !knob->is_category && number >= 1 && number <= MOST_COUNTED && number == floor(number);
  if (chosen >= 0) {
    TRI_TRY(find_choice(chosen, knob->words[v], &settings));
    return tri_optimizer_settings_check(&settings);
  }
  if (!counts_devices(knob->name)) {
    snprintf(text, sizeof text, "%s=%s", knob->name, knob->words[v]);
    return tri_layout_parse(text, &layout);
  }
  return whole ? TRI_OK : tri_fail(TRI_BAD_CONFIG, "it is a whole number from 1 to %d", MOST_COUNTED);
}

static tri_status check_values(const tri_study *study) {
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    for (int64_t v = 0; v < knob->count && !tri_objective_is_setting(knob->name); v++) {
      char why[512];
      if (check_value(study, knob, v) == TRI_OK) continue;
      const char *said = tri_status_message(), *prefix = "--layout: "; /* the option was not given here */
      if (strncmp(said, prefix, strlen(prefix)) == 0) said += strlen(prefix);
      snprintf(why, sizeof why, "%s", said);
      return tri_fail(TRI_BAD_CONFIG, "`space`: `%s` cannot be %s: %s", knob->name, knob->words[v], why);
    }
  }
  return TRI_OK;
}

double tri_study_nodes(const tri_study *study, const tri_trial_plan *plan) {
  double node = study->cluster.node_devices > 0 ? (double)study->cluster.node_devices : (double)plan->devices;
  return ceil((double)plan->devices / node);
}

tri_status tri_study_points(const tri_study *study, tri_point **out, int64_t *count) {
  tri_point *points = NULL;
  int64_t all = 0, legal = 0;
  tri_trial_plan plan;
  char why[512] = "no point satisfies the constraints";
  TRI_TRY(tri_space_points(&study->space, &points, &all));
  for (int64_t i = 0; i < all; i++) { /* only points that are valid layouts are tried */
    if (tri_point_plan(study, &points[i], &plan) == TRI_OK) {
      points[legal++] = points[i];
    } else if (i == 0) {
      snprintf(why, sizeof why, "the first of %lld points: %s", (long long)all, tri_status_message());
    }
  }
  if (legal == 0) {
    tri_free(points);
    return tri_fail(TRI_BAD_LAYOUT, "the space of %s has no valid point; %s", study->name, why);
  }
  *out = points;
  *count = legal;
  return TRI_OK;
}

static tri_status precision_of(tri_study *study) {
  static const tri_dtype precisions[] = {TRI_BF16, TRI_FP32, TRI_FP64};
  for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++) {
    if (strcmp(study->precision_name, tri_dtype_name(precisions[i])) != 0) continue;
    study->precision = precisions[i];
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_CONFIG, "`precision` must be one of bf16, fp32, fp64, not `%s`", study->precision_name);
}

/* Reads from the run file what all trials share, and the sequence and the batch unless the study sets them. */
static tri_status read_run_file(tri_study *study) {
  tri_run_config *config = NULL;
  TRI_TRY(tri_alloc("runs' configurations", 2, sizeof *config, &config));
  tri_status status = tri_run_config_load(study->run, NULL, 0, config);
  if (status == TRI_OK) status = tri_objective_set_steps(study, config->optimizer.steps);
  if (status == TRI_OK) status = tri_objective_check_run(study, config, config + 1);
  if (status == TRI_OK) status = tri_trial_schedule_read(study, config);
  if (status == TRI_OK) {
    study->model = config->model;
    study->trained = (tri_training_options){
        .tuning = config->model.tuning, .optimizer = config->optimizer.settings, .objective = config->objective};
    study->precision = config->precision;
    tri_layout_text(&config->layout, study->layout, sizeof study->layout);
    if (study->sequence == 0) study->sequence = config->data.sequence;
    if (study->global_batch == 0) study->global_batch = config->optimizer.global_batch;
    if (study->devices == 0) study->devices = 1;
  }
  tri_free(config);
  return status;
}

/* Fails with TRI_BAD_CONFIG unless every point and every known recipe has a number of devices and a batch, which the
 * study, a parameter or the recipe sets. A parameter `nodes` needs a cluster. */
static tri_status check_given(const tri_study *study) {
  if (study->search.method == TRI_METHOD_POPULATION) return TRI_OK;
  bool nodes = tri_space_find(&study->space, "nodes", 5) >= 0;
  bool accumulation = tri_space_find(&study->space, "accumulation", 12) >= 0;
  if (study->devices == 0 && !nodes) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`devices` is missing; add `devices:`, for example `devices: 16`, or vary `nodes` in `space`");
  }
  if (study->global_batch == 0 && !accumulation) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`global_batch` is missing; add `global_batch:`, for example `global_batch: 640`, "
                    "or vary `accumulation` in `space`");
  }
  if (nodes && (study->cluster_name[0] == '\0' || tri_study_calibrates(study))) {
    return tri_fail(TRI_BAD_CONFIG, "`space`: `nodes` needs a `cluster`, which sets the number of devices of a node");
  }
  for (int64_t r = 0; r < study->num_known; r++) {
    const tri_recipe *recipe = &study->known[r];
    bool devices = study->devices > 0 || recipe->devices > 0,
         batch = study->global_batch > 0 || recipe->global_batch > 0;
    if (devices && batch) continue;
    return tri_fail(TRI_BAD_CONFIG, "`known`: `%s` needs `%s`, which the study does not set", recipe->name,
                    devices ? "global_batch" : "devices");
  }
  return TRI_OK;
}

static tri_status complete(tri_study *study, int64_t ranks) {
  if (ranks > 0 && !tri_study_is_real(study)) {
    return tri_fail(TRI_BAD_USAGE, "-n is for real trials; this study's are simulated: set `devices`");
  }
  if (ranks > 0) study->devices = ranks;
  TRI_TRY(precision_of(study));
  TRI_TRY(tri_system_load(study->system_name, &study->system));
  if (tri_study_is_real(study)) TRI_TRY(read_run_file(study));
  if (study->model_name[0] == '\0' && !tri_study_is_real(study))
    return tri_fail(TRI_BAD_CONFIG, "`model` is missing; add `model:`, for example `model: frontier-175b`");
  if (study->model_name[0] != '\0') TRI_TRY(tri_model_source_load(study->model_name, &study->model));
  TRI_TRY(tri_training_options_apply(&study->trained, &study->model));
  TRI_TRY(check_given(study));
  if (study->expert_imbalance > 1 && study->model.num_experts == 0) {
    return tri_fail(TRI_BAD_CONFIG, "`expert_imbalance` is for models with experts, and %s has none; leave it out",
                    study->model.name);
  }
  study->assumed_sequence = study->sequence == 0;
  if (study->assumed_sequence) {
    TRI_TRY(tri_model_assume_sequence(&study->model, TRI_BAD_CONFIG, "add `sequence:`, for example `sequence: 4096`",
                                      &study->sequence));
  }
  if (study->cluster_name[0] != '\0' && !tri_study_calibrates(study)) {
    TRI_TRY(tri_cluster_load(study->cluster_name, &study->cluster));
  } else if (!tri_study_is_real(study)) {
    return tri_fail(TRI_BAD_CONFIG, "`cluster` is missing; simulated trials need one, real trials a `run`");
  }
  study->space.devices = (double)study->devices;
  study->space.node_devices = (double)(study->cluster.node_devices > 0 ? study->cluster.node_devices : study->devices);
  if (study->search.method == TRI_METHOD_POPULATION) return TRI_OK;
  tri_point *points = NULL;
  int64_t count = 0;
  tri_status status = tri_study_points(study, &points, &count);
  tri_free(points);
  return status;
}

bool tri_study_calibrates(const tri_study *study) {
  return tri_study_is_real(study) && strcmp(study->cluster_name, "calibrate") == 0;
}

tri_status tri_study_set_method(tri_study *study, const char *name) {
  if (methods_find(name, &study->search.method)) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "--method is `%s`; it can be auto, gaussian, random, grid, exhaustive, pbt or halving",
                  name);
}

/* Parameters that population-based training can vary: they may change in the middle of a run. */
static const char *const population_knobs[] = {"lr", "min_lr", "weight_decay", "clip"};

static tri_status check_population(const tri_study *study) {
  if (!tri_study_is_real(study)) return tri_fail(TRI_BAD_CONFIG, "`method: pbt` needs a `run`: it trains");
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    bool known = false;
    for (int i = 0; i < 4; i++) known = known || strcmp(knob->name, population_knobs[i]) == 0;
    if (!known) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`space`: `%s` cannot change in the middle of a run; pbt varies lr, min_lr, "
                      "weight_decay and clip",
                      knob->name);
    }
    if (knob->high > knob->low && knob->low > 0 && knob->values[0] == '\0') continue;
    return tri_fail(TRI_BAD_CONFIG, "`space`: with pbt `%s` needs `low` and `high`, 0 < low < high", knob->name);
  }
  return TRI_OK;
}

static tri_status check_space(tri_study *study, const tri_yaml *root) {
  TRI_TRY(tri_objective_check(study, root));
  if (study->search.method == TRI_METHOD_POPULATION) return check_population(study);
  TRI_TRY(check_names(study));
  tri_status status = tri_space_complete(&study->space);
  if (status == TRI_OK) status = check_values(study);
  return status == TRI_OK ? TRI_OK : tri_objective_add_line(status, root);
}

/* Fails with TRI_BAD_CONFIG if a run file was given in place of a study file. */
static tri_status check_is_study(const tri_yaml *root) {
  if (root->kind != TRI_YAML_MAPPING || tri_yaml_find(root, "data") == NULL || tri_yaml_find(root, "space") != NULL) {
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_CONFIG, "%s is a run file, not a study; a study names it as `run: %s` (docs/tuning.md)",
                  root->source, root->source);
}

tri_status tri_study_read(const char *source, const char *text, size_t bytes, tri_study *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_parse(tree, source, false, text, bytes, &root);
  if (status == TRI_OK) status = check_is_study(root);
  if (status == TRI_OK) status = tri_study_join_values(tree, root);
  if (status == TRI_OK) status = tri_objective_check_space(source, root);
  if (status == TRI_OK) status = tri_config_read(&study_table, tree, root, out);
  out->text = NULL;
  if (status == TRI_OK) status = check_space(out, root);
  tri_yaml_destroy(tree);
  return status;
}

void tri_study_release(tri_study *study) {
  tri_free(study->text);
  study->text = NULL;
}

tri_status tri_study_load(const char *path, int64_t ranks, tri_study *out) {
  char *text = NULL, message[1500];
  size_t bytes = 0;
  TRI_TRY(tri_yaml_look_for(path));
  TRI_TRY(tri_file_read(path, TRI_STUDY_TEXT_BYTES - 1, &text, &bytes));
  tri_status status = tri_study_read(path, text, bytes, out);
  if (status == TRI_OK) status = complete(out, ranks);
  if (status == TRI_OK) {
    out->text = text;
    return TRI_OK;
  }
  tri_free(text);
  if (status == TRI_OUT_OF_MEMORY) return status;
  snprintf(message, sizeof message, "%s", tri_status_message());
  return strstr(message, path) != NULL ? status : tri_fail(status, "%s: %s", path, message);
}
