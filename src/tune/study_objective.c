#include "tune/study_objective.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

TRI_CONFIG_WORDS(objectives, tri_objective, TRI_OBJECTIVES)

const char *tri_objective_unit(tri_objective objective) {
  switch (objective) {
    case TRI_OBJECTIVE_TFLOPS: return "TFLOP/s a device, recomputed products counted";
    case TRI_OBJECTIVE_TOKENS: return "tokens/s";
    case TRI_OBJECTIVE_COST: return "tokens a device-second";
    case TRI_OBJECTIVE_TIME_TO_LOSS: return "1 + times an hour that the target loss is reached; below 1 target / loss";
    case TRI_OBJECTIVE_VALIDATION_LOSS: return "validation loss, lower is better";
    case TRI_OBJECTIVE_VALIDATION_ACCURACY: return "1 - validation accuracy, lower is better";
  }
  return "";
}

const char *tri_objective_loss_name(tri_objective objective) {
  switch (objective) {
    case TRI_OBJECTIVE_VALIDATION_ACCURACY: return "1 - validation accuracy";
    case TRI_OBJECTIVE_TFLOPS:
    case TRI_OBJECTIVE_TOKENS:
    case TRI_OBJECTIVE_COST:
    case TRI_OBJECTIVE_TIME_TO_LOSS:
    case TRI_OBJECTIVE_VALIDATION_LOSS: break;
  }
  return "validation loss";
}

bool tri_objective_is_last_loss(tri_objective objective) {
  return objective == TRI_OBJECTIVE_VALIDATION_LOSS || objective == TRI_OBJECTIVE_VALIDATION_ACCURACY;
}

bool tri_objective_is_of_loss(tri_objective objective) {
  switch (objective) {
    case TRI_OBJECTIVE_TIME_TO_LOSS:
    case TRI_OBJECTIVE_VALIDATION_LOSS:
    case TRI_OBJECTIVE_VALIDATION_ACCURACY: return true;
    case TRI_OBJECTIVE_TFLOPS:
    case TRI_OBJECTIVE_TOKENS:
    case TRI_OBJECTIVE_COST: break;
  }
  return false;
}

double tri_objective_shown(tri_objective objective, double value) {
  switch (objective) {
    case TRI_OBJECTIVE_VALIDATION_LOSS:
    case TRI_OBJECTIVE_VALIDATION_ACCURACY: return -value;
    case TRI_OBJECTIVE_TFLOPS:
    case TRI_OBJECTIVE_TOKENS:
    case TRI_OBJECTIVE_COST:
    case TRI_OBJECTIVE_TIME_TO_LOSS: break;
  }
  return value;
}

bool tri_objective_is_setting(const char *name) {
  static const char *const sections[] = {"optimizer.", "adapter.", "objective.", "model."};
  if (strcmp(name, "optimizer.name") == 0 || strcmp(name, "optimizer.state") == 0) return false;
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    if (strncmp(name, sections[i], strlen(sections[i])) == 0) return true;
  }
  return false;
}

/* ---- checks of the file ------------------------------------------------------------------------------------------ */

static const tri_yaml *find(const tri_yaml *mapping, const char *key) {
  return mapping != NULL && mapping->kind == TRI_YAML_MAPPING ? tri_yaml_find(mapping, key) : NULL;
}

/* Returns the node whose line messages about a parameter give: the node with the name of the parameter's entry in
 * `space`. If there is no such entry, returns the node of `space`, or the root. */
static const tri_yaml *entry_of(const tri_yaml *root, const char *name) {
  const tri_yaml *space = find(root, "space");
  for (const tri_yaml *entry = space == NULL ? NULL : space->first; entry != NULL; entry = entry->next) {
    const tri_yaml *own = find(entry, "name");
    if (own != NULL && own->kind == TRI_YAML_SCALAR && strcmp(own->text, name) == 0) return own;
  }
  return space == NULL ? root : space;
}

static tri_status refuse(const tri_yaml *root, const char *name, const char *reason) {
  char subject[64];
  snprintf(subject, sizeof subject, "`space`: `%s`", name);
  return tri_yaml_fail(entry_of(root, name), subject, " %s", reason);
}

tri_status tri_objective_check_space(const char *source, const tri_yaml *root) {
  const tri_yaml *objective = find(root, "objective"), *space = find(root, "space");
  tri_objective is = TRI_OBJECTIVE_TFLOPS;
  if (objective == NULL || objective->kind != TRI_YAML_SCALAR || !objectives_find(objective->text, &is)) return TRI_OK;
  if (!tri_objective_is_of_loss(is)) return TRI_OK;
  if (space == NULL) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`space` is missing from %s; add the values to try, for example `space: [{name: optimizer.lr, "
                    "values: 1e-4 1e-3 1e-2}]`",
                    source);
  }
  if (space->kind != TRI_YAML_LIST || space->first != NULL) return TRI_OK;
  return tri_yaml_fail(space, "`space`",
                       " must have at least 1 entry, for example [{name: optimizer.lr, values: 1e-4 1e-3 1e-2}]");
}

tri_status tri_objective_add_line(tri_status status, const tri_yaml *root) {
  static const char before[] = "`space`: `";
  char name[64], message[1500];
  snprintf(message, sizeof message, "%s", tri_status_message());
  if (strncmp(message, before, sizeof before - 1) != 0) return status;
  const char *begin = message + sizeof before - 1;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(begin, "`"), begin);
  return tri_fail(status, "%s (line %d)", message, entry_of(root, name)->line);
}

static bool is_of_optimizer(const char *name) { return strncmp(name, "optimizer.", 10) == 0; }

/* Returns whether a parameter has an effect on the loss after a given number of steps. */
static bool changes_loss(const char *name) {
  return is_of_optimizer(name) || tri_objective_is_setting(name) || strcmp(name, "accumulation") == 0;
}

/* Returns whether `name` is a key of run files. Sets `meant` to the nearest key; to "" if there is none. */
static bool is_key(const char *name, char meant[128]) {
  if (!tri_config_meant(tri_run_config_table(), name, meant, 128)) meant[0] = '\0';
  return strcmp(meant, name) == 0;
}

static tri_status check_parameter(const tri_study *study, const tri_yaml *root, const char *name) {
  const bool of_loss = tri_objective_is_of_loss(study->objective);
  char meant[128], reason[256];
  if (strcmp(name, "optimizer.steps") == 0 || strcmp(name, "optimizer.epochs") == 0)
    return refuse(root, name, "cannot be varied; `trial.steps` sets the length of a trial");
  if (strncmp(name, "objective.", 10) == 0 && of_loss && study->objective != TRI_OBJECTIVE_VALIDATION_ACCURACY) {
    return refuse(root, name,
                  "changes the loss itself, so that losses of trials do not compare; take `objective: "
                  "validation_accuracy`");
  }
  const bool known = is_key(name, meant);
  if (!known && is_of_optimizer(meant) && strcmp(name, "state") != 0 && strcmp(name, "name") != 0) {
    snprintf(reason, sizeof reason, "is not a parameter; did you mean `%s`?%s", meant,
             of_loss ? "" : " It needs `objective: validation_loss` or `time_to_loss`");
    return refuse(root, name, reason);
  }
  if (tri_objective_is_setting(name) && !is_of_optimizer(name) && !of_loss) {
    return refuse(root, name,
                  "can only be varied with an objective of a loss: `objective: validation_loss`, `validation_accuracy` "
                  "or `time_to_loss`");
  }
  if (tri_objective_is_setting(name) && known && !of_loss) {
    return refuse(root, name,
                  "does not change the speed, which is this study's objective (of the optimizer's keys optimizer.name, "
                  "optimizer.state do); vary it with `objective: validation_loss` or `time_to_loss`");
  }
  if (!tri_objective_is_last_loss(study->objective) || changes_loss(name)) return TRI_OK;
  snprintf(reason, sizeof reason, "%s%s", known ? "cannot be varied by a study" : "does not change the validation loss",
           strcmp(name, "micro_batch") == 0 ? "; `optimizer.global_batch` does"
                                            : "; vary a key of the optimizer, such as `optimizer.lr`");
  return refuse(root, name, reason);
}

static tri_status check_space(const tri_study *study, const tri_yaml *root) {
  for (int64_t k = 0; k < study->space.num_knobs; k++)
    TRI_TRY(check_parameter(study, root, study->space.knobs[k].name));
  return TRI_OK;
}

/* Fails with TRI_BAD_CONFIG if a key of `trial` or of the study is given that this objective or this method does not
 * read. */
static tri_status check_unused(const tri_study *study, const tri_yaml *root) {
  const struct {
    const char *section, *key, *reason;
    bool unused;
  } rows[] = {
      {"trial", "warmup", "is for objectives of speed: of a loss all `trial.steps` count; leave it out",
       tri_objective_is_last_loss(study->objective) && study->trial.warmup != 0},
      {"trial", "worse", "is for objectives of speed; `method: halving` ends trials with a high loss early",
       tri_objective_is_last_loss(study->objective)},
      {NULL, "known", "is for objectives of speed: a recipe is a layout, which does not change the loss",
       tri_objective_is_last_loss(study->objective) && study->num_known > 0},
      {NULL, "minutes",
       "is not supported with `method: halving`, because it takes a known number of steps; set `trials`",
       study->search.method == TRI_METHOD_HALVING && study->minutes > 0},
      {NULL, "node_hours",
       "is not supported with `method: halving`, because it takes a known number of steps; set `trials`",
       study->search.method == TRI_METHOD_HALVING && study->node_hours > 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char subject[64];
    const tri_yaml *node = find(rows[i].section == NULL ? root : find(root, rows[i].section), rows[i].key);
    if (node == NULL || !rows[i].unused) continue;
    snprintf(subject, sizeof subject, "`%s%s%s`", rows[i].section == NULL ? "" : rows[i].section,
             rows[i].section == NULL ? "" : ".", rows[i].key);
    return tri_yaml_fail(node, subject, " %s", rows[i].reason);
  }
  return TRI_OK;
}

/* Fails with TRI_BAD_CONFIG unless target_loss is given for objective time_to_loss, and only for it. */
static tri_status check_target(const tri_study *study) {
  const bool wanted = study->objective == TRI_OBJECTIVE_TIME_TO_LOSS;
  if ((study->trial.target_loss != 0) == wanted) return TRI_OK;
  if (!wanted) return tri_fail(TRI_BAD_CONFIG, "`trial.target_loss` is for `objective: time_to_loss`; leave it out");
  return tri_fail(TRI_BAD_CONFIG,
                  "`trial.target_loss` is missing; `objective: time_to_loss` needs the validation loss to reach, for "
                  "example `target_loss: 3.2`");
}

/* Sets the defaults of a trial of a validation loss or accuracy: it is a whole run, with the steps of the run file and
 * without a time limit. */
static void complete_trial(tri_study *study, const tri_yaml *root) {
  const tri_yaml *trial = find(root, "trial");
  if (!tri_objective_is_last_loss(study->objective) || study->search.method == TRI_METHOD_POPULATION) return;
  if (find(trial, "steps") == NULL) study->trial.steps = 0;
  if (find(trial, "warmup") == NULL) study->trial.warmup = 0;
  if (find(trial, "minutes") == NULL) study->trial.minutes = INFINITY;
}

/* Fails with TRI_BAD_CONFIG if the reader of run files does not accept a value of a parameter. */
static tri_status check_setting(const tri_study *study, const tri_knob *knob, int64_t v, tri_run_config *scratch) {
  char text[80], steps[64], why[1024];
  const char *const overrides[] = {steps, text}; /* the run has as many steps as a trial */
  snprintf(steps, sizeof steps, "optimizer.steps=%lld", (long long)tri_study_trial_steps(study));
  snprintf(text, sizeof text, "%s=%s", knob->name, knob->words[v]);
  if (tri_run_config_load(study->run, overrides, 2, scratch) == TRI_OK) return TRI_OK;
  snprintf(why, sizeof why, "%s", tri_status_message());
  return tri_fail(TRI_BAD_CONFIG, "`space`: `%s` cannot be %s: %s", knob->name, knob->words[v], why);
}

static bool has_pairs(const tri_objective_config *objective) {
  return tri_objective_is_preference(objective) &&
         tri_preference_rules_of(tri_objective_preference_loss(objective)).paired;
}

tri_status tri_objective_check_run(const tri_study *study, const tri_run_config *config, tri_run_config *scratch) {
  const bool to_target = study->objective == TRI_OBJECTIVE_TIME_TO_LOSS;
  if (!tri_objective_is_of_loss(study->objective)) return TRI_OK;
  if (config->data.validation[0] == '\0') {
    return tri_fail(TRI_BAD_CONFIG, "`objective` needs a validation loss: %s has no data.validation", study->run);
  }
  if (to_target && config->evaluation.every == 0) {
    return tri_fail(TRI_BAD_CONFIG, "`objective` time_to_loss needs a validation loss: evaluation.every of %s is 0",
                    study->run);
  }
  if (study->objective == TRI_OBJECTIVE_VALIDATION_ACCURACY && !has_pairs(&config->objective)) {
    return tri_fail(TRI_BAD_CONFIG, "`objective` validation_accuracy is for preference pairs, and %s has none",
                    study->run);
  }
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    const bool checked = tri_objective_is_setting(knob->name) || is_of_optimizer(knob->name);
    for (int64_t v = 0; v < knob->count && checked; v++) TRI_TRY(check_setting(study, knob, v, scratch));
  }
  return TRI_OK;
}

tri_status tri_objective_set_steps(tri_study *study, int64_t steps) {
  enum { FEWEST_STEPS = 8 };
  if (!tri_objective_is_last_loss(study->objective)) return TRI_OK;
  if (study->trial.steps == 0) study->trial.steps = steps;
  if (study->trial.steps == 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`trial.steps` is missing, and %s has optimizer.epochs instead of steps; add the steps of a trial, "
                    "for example `trial: {steps: 1500}`",
                    study->run);
  }
  if (study->search.method != TRI_METHOD_HALVING || study->trial.steps >= FEWEST_STEPS) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`method: halving` needs trials of at least %d steps; these have %lld", FEWEST_STEPS,
                  (long long)study->trial.steps);
}

tri_status tri_objective_check(tri_study *study, const tri_yaml *root) {
  const char *name = objectives_word(study->objective);
  complete_trial(study, root);
  if (study->search.method == TRI_METHOD_HALVING && !tri_objective_is_last_loss(study->objective))
    return tri_fail(TRI_BAD_CONFIG,
                    "`method: halving` needs `objective: validation_loss` or `validation_accuracy`, not %s", name);
  if (tri_objective_is_of_loss(study->objective)) {
    if (!tri_study_is_real(study)) {
      return tri_fail(TRI_BAD_CONFIG, "`objective` %s needs a `run`: a simulated trial learns nothing", name);
    }
    if (study->search.method == TRI_METHOD_POPULATION) {
      return tri_fail(TRI_BAD_CONFIG, "`objective` %s is not for `method: pbt`, which uses the loss itself", name);
    }
  }
  TRI_TRY(check_target(study));
  if (tri_objective_is_of_loss(study->objective) && study->trial.random_tokens) {
    return tri_fail(TRI_BAD_CONFIG, "`trial.random_tokens`: nothing can be learnt from them, and `objective` is %s",
                    name);
  }
  TRI_TRY(check_unused(study, root));
  if (study->search.method == TRI_METHOD_POPULATION) return TRI_OK;
  return check_space(study, root);
}
