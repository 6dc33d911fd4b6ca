#include "tune/trial.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/memory.h"
#include "base/system.h"
#include "plan/bounds.h"
#include "tune/short_run.h"
#include "tune/study_objective.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { POINTS_TIMED = 24 };

struct tri_attempt {
  const tri_study *study;
  tri_trial_plan plan;
  char folder[TRI_PATH_BYTES], log[TRI_PATH_BYTES];
  tri_child process;
  double begin_s;
  tri_trial simulated; /* result of a simulated trial, which has no process */
};

static void fail_trial(tri_trial *trial, const char *reason) {
  trial->state = TRI_TRIAL_FAILED;
  snprintf(trial->reason, sizeof trial->reason, "%s", reason);
}

/* ---- simulated --------------------------------------------------------------------------------------------------- */

static tri_status trial_simulate(const tri_study *study, const tri_trial_plan *plan, tri_trial *trial) {
  tri_prediction prediction;
  tri_simulation_request request = tri_study_request(study, plan);
  TRI_TRY(tri_simulate(&request, &prediction));
  trial->memory = prediction.memory.peak / tri_system_room(&study->system, &study->cluster);
  if (!prediction.fits) {
    fail_trial(trial, "out of memory");
    return TRI_OK;
  }
  trial->state = TRI_TRIAL_DONE;
  trial->value = tri_study_value(study, plan, prediction.step_s);
  trial->node_s = prediction.step_s * (double)(study->trial.warmup + study->trial.steps) * tri_study_nodes(study, plan);
  return TRI_OK;
}

tri_status tri_trial_expect(const tri_study *study, const tri_point *points, int64_t count, double *values) {
  for (int64_t i = 0; i < count; i++) {
    tri_trial trial = {.point = points[i]};
    tri_trial_plan plan;
    values[i] = 0;
    if (tri_point_plan(study, &points[i], &plan) != TRI_OK) continue;
    TRI_TRY(trial_simulate(study, &plan, &trial));
    if (trial.state == TRI_TRIAL_DONE) values[i] = trial.value;
  }
  return TRI_OK;
}

static tri_status bound_points(const tri_study *study, tri_bounds *bounds, const tri_point *points, int64_t count,
                               double *values) {
  for (int64_t i = 0; i < count; i++) {
    tri_trial_plan plan;
    tri_bound bound;
    values[i] = 0;
    if (tri_point_plan(study, &points[i], &plan) != TRI_OK) continue;
    tri_bounds_of_step(bounds, plan.global_batch, &plan.optimizer);
    TRI_TRY(tri_bounds_of(bounds, &plan.layout, &bound));
    if (bound.bytes <= tri_system_room(&study->system, &study->cluster))
      values[i] = tri_study_value(study, &plan, bound.step_s);
  }
  return TRI_OK;
}

tri_status tri_trial_bound(const tri_study *study, const tri_point *points, int64_t count, double *values) {
  const tri_search_request request = {.model = &study->model,
                                      .cluster = &study->cluster,
                                      .system = &study->system,
                                      .sequence = study->sequence,
                                      .precision = study->precision,
                                      .expert_imbalance = study->expert_imbalance};
  tri_bounds *bounds = NULL;
  TRI_TRY(tri_bounds_create(&request, &bounds));
  tri_status status = bound_points(study, bounds, points, count, values);
  tri_bounds_destroy(bounds);
  return status;
}

tri_status tri_trial_seconds(const tri_study *study, const tri_point *points, int64_t count, double *out) {
  int64_t looked_at = 0;
  double begin_s = tri_clock_s();
  for (int64_t i = 0; i < count; i++) {
    double value;
    if (!tri_suggest_is_sampled(i, count, POINTS_TIMED)) continue;
    TRI_TRY(tri_trial_expect(study, &points[i], 1, &value));
    looked_at++;
  }
  *out = looked_at == 0 ? 0 : (tri_clock_s() - begin_s) * (double)count / (double)looked_at;
  return TRI_OK;
}

/* ---- real -------------------------------------------------------------------------------------------------------- */

/* Returns the memory limit of a rank in bytes. If the study sets none, returns the rank's share of this machine's
 * memory. */
static double limit_bytes(const tri_study *study, const tri_trial_plan *plan) {
  double given = (double)tri_short_run_limits(study, 0).memory_bytes;
  if (given > 0) return given;
  double here = (double)plan->devices / tri_study_nodes(study, plan);
  return (double)tri_system_memory_of_node() / here;
}

/* Reads the run file with the settings of a plan. */
static tri_status read_run(const tri_study *study, const tri_trial_plan *plan, tri_run_config *out) {
  char settings[sizeof plan->settings], *rest = NULL;
  const char *overrides[TRI_KNOBS];
  int64_t count = 0;
  memcpy(settings, plan->settings, sizeof settings);
  for (char *word = strtok_r(settings, " ", &rest); word != NULL && count < TRI_KNOBS;
       word = strtok_r(NULL, " ", &rest)) {
    overrides[count++] = word;
  }
  return tri_run_config_load(study->run, overrides, count, out);
}

/* Returns the memory that the memory plan computes for the fullest rank, as a fraction of limit_bytes; 0 if it is not
 * known. The number does not depend on the outcome of the trial. */
static double memory_share(const tri_study *study, const tri_trial_plan *plan) {
  tri_simulation_request request = tri_study_request(study, plan);
  tri_run_config *run = NULL;
  tri_memory_parts memory;
  const double limit = limit_bytes(study, plan);
  if (limit <= 0) return 0;
  tri_status status = TRI_OK;
  if (strstr(plan->settings, "model.") != NULL || strstr(plan->settings, "adapter.") != NULL) {
    status = tri_alloc("a run's configuration", 1, sizeof *run, &run);
    if (status == TRI_OK) status = read_run(study, plan, run);
    request.model = &run->model;
  }
  if (status == TRI_OK) status = tri_predict_fullest(&request, INFINITY, NULL, &memory);
  tri_free(run);
  return status == TRI_OK ? memory.peak / limit : 0;
}

static bool goes_by_loss(const tri_attempt *a) { return tri_objective_is_of_loss(a->study->objective); }
static bool has_target(const tri_attempt *a) { return a->study->objective == TRI_OBJECTIVE_TIME_TO_LOSS; }

/* Sets the keys for training. A trial of speed has no warm-up and no evaluation; a trial of a loss trains as its run
 * file says. */
static void set_learning(const tri_attempt *a, tri_short_run *run) {
  if (goes_by_loss(a)) {
    tri_short_run_learn(run, &a->plan);
    if (!has_target(a)) /* the run is only evaluated at its end */
      tri_short_run_set(run, "evaluation.every", "%ld", (long)tri_study_trial_steps(a->study));
    return;
  }
  tri_short_run_set(run, "optimizer.warmup", "0"); /* the run file's warm-up may be longer than the trial */
  tri_short_run_set(run, "data.validation", "%s", "");
}

static tri_status write_command(const tri_attempt *a, tri_short_run **out) {
  const tri_study *study = a->study;
  tri_short_run *run = NULL;
  TRI_TRY(tri_short_run_create(study, a->plan.devices, a->folder, "never", &run));
  tri_short_run_plan(run, study, &a->plan);
  set_learning(a, run);
  tri_short_run_set(run, "checkpoint.every", "0");
  tri_short_run_set(run, "checkpoint.at_end", "false");
  if (study->trial.random_tokens) { /* random tokens are not divided into documents */
    tri_short_run_set(run, "data.train", "%s/../" TRI_RANDOM_TOKENS, a->folder);
    tri_short_run_set(run, "data.documents", "joined");
    tri_short_run_set(run, "data.packing", "windows");
  }
  *out = run;
  return TRI_OK;
}

static tri_status start_real(tri_attempt *a, int part) {
  tri_short_run *run = NULL;
  tri_process_limits limits = tri_short_run_limits(a->study, part);
  TRI_TRY(tri_directory_create(a->folder));
  TRI_TRY(tri_path_join(a->log, a->folder, "log.txt"));
  TRI_TRY(write_command(a, &run));
  tri_status status = tri_process_start(run->line, a->log, &limits, &a->process);
  tri_free(run);
  return status;
}

double tri_attempt_value(const tri_attempt *a, int64_t *steps) {
  double step_s = tri_short_run_step_s(a->folder, a->study->trial.warmup, steps);
  return *steps > 0 ? tri_study_value(a->study, &a->plan, step_s) : 0;
}

/* Sets the result of an ended process from its loss after the last step. `good`: whether the process has succeeded. */
static void judge_by_last_loss(const tri_attempt *a, bool good, tri_trial *trial) {
  const double loss = good ? tri_short_run_loss(a->study->objective, a->folder, tri_study_trial_steps(a->study)) : NAN;
  if (!isfinite(loss)) {
    fail_trial(trial, "the loss is not a number");
    if (!good) tri_short_run_reason(&a->process, a->log, trial->reason, sizeof trial->reason);
    return;
  }
  trial->state = TRI_TRIAL_DONE;
  trial->memory = fmin(memory_share(a->study, &a->plan), 1);
  trial->value = -loss;
}

/* Sets the result of an ended process from the time to the target loss; if there is no target, from the loss at the
 * end. `good`: whether the process succeeded. */
static void judge_by_loss(const tri_attempt *a, bool good, tri_trial *trial) {
  const tri_study *study = a->study;
  if (!has_target(a)) {
    judge_by_last_loss(a, good, trial);
    return;
  }
  const tri_way_to_loss way = tri_short_run_way_to_loss(a->folder, study->trial.target_loss);
  if (!way.reached && (!good || !isfinite(way.loss))) {
    fail_trial(trial, good ? "out of time before the first evaluation" : "");
    if (!good) tri_short_run_reason(&a->process, a->log, trial->reason, sizeof trial->reason);
    return;
  }
  trial->state = TRI_TRIAL_DONE;
  trial->memory = fmin(memory_share(study, &a->plan), 1);
  trial->value = tri_study_value_of_loss(study, way.reached, way.seconds, way.loss);
  if (way.reached) {
    snprintf(trial->reason, sizeof trial->reason, "reached in %.2f s, at step %ld", way.seconds, (long)way.step);
    return;
  }
  snprintf(trial->reason, sizeof trial->reason, "not reached: the loss is %.17g at step %ld", way.loss, (long)way.step);
}

/* Sets the result of a trial whose process has ended. `early`: whether it was stopped because it was slow. */
static void judge(tri_attempt *a, bool early, tri_trial *trial) {
  int64_t steps = 0;
  double value = tri_attempt_value(a, &steps), share = memory_share(a->study, &a->plan);
  bool good = WIFEXITED(a->process.result) && WEXITSTATUS(a->process.result) == 0;
  if (goes_by_loss(a)) {
    judge_by_loss(a, good, trial);
    return;
  }
  if ((good || early) && steps > 0) {
    trial->state = TRI_TRIAL_DONE;
    trial->early = early;
    trial->value = value;
    trial->memory = fmin(share, 1); /* at most 1, since the trial did fit into the memory */
    if (early) {
      snprintf(trial->reason, sizeof trial->reason, "stopped early after %ld step%s: in the worse half, and slower",
               (long)steps, TRI_PLURAL(steps));
    }
    return;
  }
  trial->state = TRI_TRIAL_FAILED;
  tri_short_run_reason(&a->process, a->log, trial->reason, sizeof trial->reason);
  if (strncmp(trial->reason, "out of memory", 13) == 0)
    trial->memory = share > 1 ? share : 0; /* 0 if the memory plan does not explain the failure */
}

/* ---- the object -------------------------------------------------------------------------------------------------- */

tri_status tri_attempt_start(const tri_study *study, const tri_trial_plan *plan, const char *folder, int part,
                             tri_attempt **out) {
  tri_attempt *a = NULL;
  TRI_TRY(tri_alloc("a trial", 1, sizeof *a, &a));
  a->study = study;
  a->plan = *plan;
  a->begin_s = tri_clock_s();
  snprintf(a->folder, sizeof a->folder, "%s", folder);
  tri_status status = !tri_study_is_real(study) ? trial_simulate(study, plan, &a->simulated) : start_real(a, part);
  if (status == TRI_OK) *out = a;
  if (status != TRI_OK) tri_attempt_destroy(a);
  return status;
}

void tri_attempt_destroy(tri_attempt *a) {
  if (a == NULL) return;
  if (a->process.id > 0) tri_child_stop(&a->process);
  if (tri_study_is_real(a->study)) (void)tri_directory_remove(a->folder); /* failures are ignored */
  tri_free(a);
}

bool tri_attempt_lacks_file(const tri_attempt *a) {
  return tri_study_is_real(a->study) && tri_short_run_lacks_file(&a->process);
}

static void trial_measure(const tri_attempt *a, tri_trial *trial) {
  trial->seconds = tri_clock_s() - a->begin_s;
  if (tri_study_is_real(a->study)) trial->node_s = trial->seconds * tri_study_nodes(a->study, &a->plan);
}

void tri_attempt_stop_early(tri_attempt *a, tri_trial *trial) {
  tri_child_stop(&a->process);
  a->process.id = 0;
  judge(a, true, trial);
  trial_measure(a, trial);
}

/* Returns whether the trial has reached its target. Further steps would add no information. */
static bool is_at_target(const tri_attempt *a) {
  return has_target(a) && tri_short_run_way_to_loss(a->folder, a->study->trial.target_loss).reached;
}

bool tri_attempt_ended(tri_attempt *a, tri_trial *trial) {
  if (a->process.id == 0) {
    a->simulated.number = trial->number;
    a->simulated.point = trial->point;
    *trial = a->simulated;
  } else if (tri_child_ended(&a->process)) {
    a->process.id = 0;
    judge(a, false, trial);
  } else if (is_at_target(a)) {
    tri_child_stop(&a->process);
    a->process.id = 0;
    judge_by_loss(a, true, trial);
  } else if (tri_clock_s() - a->begin_s > 60 * a->study->trial.minutes) {
    tri_child_stop(&a->process);
    a->process.id = 0;
    if (has_target(a)) judge_by_loss(a, true, trial);
    if (!has_target(a)) fail_trial(trial, "out of time");
  } else {
    return false;
  }
  trial_measure(a, trial);
  return true;
}
