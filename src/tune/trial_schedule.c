#include "tune/trial_schedule.h"

#include "base/log.h"
#include "base/memory.h"
#include "files/shell_word.h"
#include "tune/halving.h"
#include "tune/study_objective.h"

#include <math.h>
#include <string.h>

static bool is_population(const tri_study *study) { return study->search.method == TRI_METHOD_POPULATION; }
static bool is_halving(const tri_study *study) { return study->search.method == TRI_METHOD_HALVING; }

int64_t tri_trial_schedule_steps(const tri_study *study) {
  return is_population(study) ? study->population.rounds * study->population.steps : tri_study_trial_steps(study);
}

/* Returns the first step after which trials are compared and some of them end; INT64_MAX if all trials are trained to
 * their end. */
static int64_t first_comparison(const tri_study *study) {
  if (is_population(study)) return study->population.steps;
  return is_halving(study) ? tri_halving_last_step(study, 1) : INT64_MAX;
}

/* Returns the larger of `longest` and the largest value of a parameter times `unit`, if the space has the parameter. */
static double longest_of(const tri_study *study, const char *name, double unit, double longest) {
  const int64_t k = tri_space_find(&study->space, name, strlen(name));
  for (int64_t v = 0; k >= 0 && v < study->space.knobs[k].count; v++) {
    longest = fmax(longest, unit * study->space.knobs[k].numbers[v]);
  }
  return longest;
}

/* Returns the longest warm-up that any trial may have, because the warm-up may be a parameter of the space. */
static int64_t longest_warmup(const tri_study *study) {
  const double steps = (double)tri_trial_schedule_steps(study);
  const double longest = longest_of(study, "optimizer.warmup", 1, (double)study->warmup);
  return (int64_t)ceil(longest_of(study, "optimizer.warmup_ratio", steps, longest));
}

static tri_status check_first_comparison(const tri_study *study) {
  const int64_t warmup = longest_warmup(study), step = first_comparison(study);
  if (warmup < step) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "the trials are first compared after step %lld, within the warm-up of %lld steps, where the highest "
                  "rate always leads; give them more steps (%s), or shorten optimizer.warmup of %s",
                  (long long)step, (long long)warmup, is_population(study) ? "population.steps" : "trial.steps",
                  study->run);
}

static tri_status set_warmup(tri_study *study) {
  char steps[64];
  const char *const overrides[] = {steps};
  tri_run_config *trial = NULL;
  snprintf(steps, sizeof steps, "optimizer.steps=%lld", (long long)tri_trial_schedule_steps(study));
  TRI_TRY(tri_alloc("a run's configuration", 1, sizeof *trial, &trial));
  const tri_status status = tri_run_config_load(study->run, overrides, 1, trial);
  if (status == TRI_OK) study->warmup = trial->optimizer.warmup;
  tri_free(trial);
  return status;
}

/* Fails with TRI_UNSUPPORTED for a run with rollouts, whose steps a study cannot time. */
static tri_status check_run_kind(const tri_study *study, const tri_run_config *run) {
  if (run->data.prompts[0] == '\0') return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s has objective.name grpo, and a study times steps on a given batch; name a run on text or on "
                  "preferences with the same model",
                  study->run);
}

tri_status tri_trial_schedule_read(tri_study *study, const tri_run_config *run) {
  TRI_TRY(check_run_kind(study, run));
  study->warmup = study->run_warmup = run->optimizer.warmup;
  study->run_steps = run->optimizer.steps;
  if (!tri_objective_is_of_loss(study->objective) && !is_population(study)) return TRI_OK;
  TRI_TRY(set_warmup(study));
  return check_first_comparison(study);
}

void tri_trial_schedule_announce(const tri_study *study) {
  const int64_t steps = tri_trial_schedule_steps(study);
  char of_run[64] = "";
  if (!tri_study_is_real(study) || (!tri_objective_is_of_loss(study->objective) && !is_population(study))) return;
  if (steps == study->run_steps && study->warmup == study->run_warmup) return;
  if (study->run_steps > 0) snprintf(of_run, sizeof of_run, " of the run's %lld", (long long)study->run_steps);
  tri_log("trials have %lld%s steps, with a warm-up of %lld (the run's is %lld)", (long long)steps, of_run,
          (long long)study->warmup, (long long)study->run_warmup);
}

/* Prints that a value is the highest of the space, or the lowest if `is_high` is false. */
static void print_end(const char *name, double value, bool is_high, FILE *to) {
  fprintf(to, "\n%s %g is the %s value of the space: try %s ones too\n", name, value, is_high ? "highest" : "lowest",
          is_high ? "higher" : "lower");
}

static void print_ends(const tri_study *study, const tri_point *point, FILE *to) {
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    const double value = knob->numbers[point->at[k]];
    double low = value, high = value;
    if (knob->is_category || knob->count < 2 || !tri_objective_is_setting(knob->name)) continue;
    for (int64_t v = 0; v < knob->count; v++) {
      low = fmin(low, knob->numbers[v]);
      high = fmax(high, knob->numbers[v]);
    }
    if (value == high || (value == low && low > 0)) print_end(knob->name, value, value == high, to);
  }
}

void tri_trial_schedule_print_range_ends(const tri_study *study, const double *values, FILE *to) {
  enum { NEAR_PERCENT = 1 };
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    const double near = 1 + NEAR_PERCENT / 100.0;
    if (values[k] * near >= knob->high) {
      print_end(knob->name, values[k], true, to);
    } else if (values[k] <= knob->low * near) {
      print_end(knob->name, values[k], false, to);
    }
  }
}

static void print_settings(const tri_study *study, const tri_point *point, FILE *to) {
  char word[TRI_SHELL_WORD_BYTES];
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    tri_trial_plan plan;
    if (tri_objective_is_setting(knob->name) || strncmp(knob->name, "optimizer.", 10) == 0) {
      fprintf(to, " --set %s=%s", knob->name, tri_shell_word(knob->words[point->at[k]], word));
    } else if (strcmp(knob->name, "accumulation") == 0 && tri_point_plan(study, point, &plan) == TRI_OK) {
      fprintf(to, " --set optimizer.global_batch=%ld", (long)plan.global_batch);
    }
  }
}

void tri_trial_schedule_print_use(const tri_study *study, const tri_point *point, FILE *to) {
  char word[TRI_SHELL_WORD_BYTES];
  fprintf(to, "\nto use it: trireme train %s", tri_shell_word(study->run, word));
  print_settings(study, point, to);
  fprintf(to, "\n");
  print_ends(study, point, to);
}
