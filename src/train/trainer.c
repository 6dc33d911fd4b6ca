/* Runs a whole training run: opens its data, engine and output, runs the loop, and writes its results. */
#include "train/trainer.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "comm/agreement.h"
#include "device/gemm_choices.h"
#include "engine/rank_device.h"
#include "files/json_kind.h"
#include "model/family.h"
#include "train/dry_run.h"
#include "train/reward_trial.h"
#include "train/rollout_ranks.h"
#include "train/run_facts.h"
#include "train/train_internal.h"

#include <math.h>
#include <stdio.h>

static tri_status run_loop(tri_training *t) {
  TRI_TRY(tri_training_measure_peak(t));
  tri_training_announce(t);
  TRI_TRY(tri_training_watch(t));
  TRI_TRY(tri_first_rank_status(&t->mesh.world, tri_training_is_rank0(t) ? tri_training_remove_summary(t) : TRI_OK));
  tri_stop_defer("interrupted twice, so it ends at once; the same command resumes from the newest checkpoint");
  tri_status status = tri_train_loop_run(t);
  tri_log_progress_end();
  tri_timing_warn_unwritten(&t->timing, t->progress.step);
  bool together = status == TRI_OK || status == TRI_INTERRUPTED || status == TRI_DIVERGED;
  /* Snapshots are kept if the run may be resumed from them: after bad steps, or after an interruption without a
   * checkpoint at the end. */
  bool over = status == TRI_OK || (status == TRI_INTERRUPTED && t->config->checkpoint.at_end);
  if (over && t->progress.bad_in_row == 0) tri_training_drop_snapshots(t);
  if (!together) return tri_training_name_failure(t, status);
  if (!tri_training_is_rank0(t) || status == TRI_DIVERGED) return status;
  tri_saved_error ending = {TRI_OK, ""};
  tri_error_save(&ending, status);
  TRI_TRY(tri_training_write_summary(t));
  if (status == TRI_OK) tri_training_announce_end(t);
  return tri_saved_error_restore(&ending);
}

static tri_status open_and_run(tri_training *t, const char *resume) {
  TRI_TRY(tri_training_open(t, resume));
  return tri_training_is_over(t) ? tri_training_finish_ended(t) : run_loop(t);
}

static void print_objective_key(void *to, const tri_config_difference *difference) {
  fprintf(to, ", %s: %s", difference->key, difference->right);
}

/* Prints the name of the objective, and the keys of grpo that are not the defaults, such as those of
 * objective.recipe. */
static void print_objective(const tri_objective_config *objective, FILE *to) {
  tri_objective_config usual = *objective;
  usual.policy = tri_policy_usual;
  fprintf(to, "objective: %s", tri_objective_config_name(objective));
  tri_config_differences(&tri_objective_table, &usual, objective, print_objective_key, to);
  fprintf(to, "\n");
}

/* Opens the prompts, plans the memory of rollouts, and tries the rewards on the prompts. Prints the changed keys of
 * grpo and the table of rewards to `to`. Does nothing for a run without prompts. */
static tri_status try_rollouts(tri_training *t, const tri_engine_options *options, tri_runner_need *out, FILE *to) {
  if (t->config->data.prompts[0] == '\0') return TRI_OK;
  TRI_TRY(tri_run_data_open(t->config, t->task->data, &t->identity, &t->data));
  TRI_TRY(tri_rollout_ranks_plan(t->config, options, tri_run_data_longest_prompt(&t->data), t->device, out));
  print_objective(&t->config->objective, to);
  return tri_reward_trial(t->config, &t->data, to);
}

/* Tries the rewards (try_rollouts) and prints the facts of the run; then, with `verbose` and without `json`, prints the
 * program and the memory plan of a rank. */
static tri_status dry_run(tri_training *t, const tri_train_options *given, int64_t ranks) {
  const int rank = (int)given->dry_run_rank;
  tri_engine_options options = tri_training_engine_options(t->config, NULL);
  tri_dry_run_needs needs = {0};
  tri_dry_run_memory memory;
  tri_run_facts facts;
  if (rank < t->config->samples.tensor)
    TRI_TRY(tri_training_plan_samples(t->config, &options, t->device, &needs.samples));
  TRI_TRY(try_rollouts(t, &options, &needs.rollouts, given->json ? stderr : stdout));
  options.lent_bytes = needs.rollouts.scratch_bytes;
  TRI_TRY(tri_dry_run_plan(&options, rank, t->device, &needs, &memory));
  TRI_TRY(tri_run_facts_find(t, given->resume, ranks, rank, &memory, &facts));
  if (given->json) return tri_json_write_line(stdout, tri_run_facts_json(&facts), "the facts of a run");
  tri_run_facts_print(&facts, stdout);
  if (!given->verbose) return TRI_OK;
  printf("\n");
  return tri_dry_run(&options, rank, t->device, &needs, stdout);
}

static void release(tri_training *t) {
  if (t->task != NULL && t->task->release != NULL) t->task->release(t);
  tri_training_close_samples(t);
  tri_metrics_close(t->metrics);
  tri_watchdog_stop(t->watchdog);
  tri_saver_destroy(t->saver);
  tri_snapshots_destroy(t->snapshots);
  tri_profile_close(&t->timing.profile);
  tri_engine_destroy(t->engine);
  tri_free(t->experts);
  tri_named_metrics_release(&t->named);
  tri_run_data_close(&t->data);
  tri_device_destroy(t->device);
  tri_run_output_close(&t->output);
  tri_replicas_destroy(&t->samplers);
  tri_mesh_destroy(&t->mesh);
}

/* Sets the layout, and *num_ranks to its number of ranks. A dry run may have any number of ranks on one process; a run
 * has the job's ranks. Fails with TRI_BAD_USAGE if the rank of a dry run is not one of them. */
static tri_status set_layout(tri_training *t, const tri_train_options *options, int64_t *num_ranks) {
  tri_run_config *config = t->config;
  int64_t ranks = tri_comm_size();
  if (options->dry_run) ranks = options->ranks > 0 ? options->ranks : tri_layout_least_ranks(&config->layout);
  TRI_TRY(tri_training_choose_layout(config, ranks));
  *num_ranks = ranks;
  if (options->dry_run_rank >= ranks) {
    return tri_fail(TRI_BAD_USAGE,
                    "--rank %ld: the ranks of this layout are 0 to %ld; give the number of ranks with -n",
                    (long)options->dry_run_rank, (long)ranks - 1);
  }
  return TRI_OK;
}

static tri_status start(tri_training *t, const tri_train_options *options) {
  tri_group world = tri_group_world();
  int64_t ranks = 0;
  TRI_TRY(tri_common_status(&world, set_layout(t, options, &ranks)));
  TRI_TRY(tri_common_status(&world, tri_named_metrics_of(t->config, &t->named)));
  const int threads = t->config->threads > 0 ? (int)t->config->threads : options->threads;
  TRI_TRY(tri_rank_device_create(t->config->device, threads, &t->device));
  tri_device_limit_memory(t->device, (size_t)t->config->device_memory);
  if (t->config->allow_tf32) tri_device_allow_tf32(t->device);
  if (options->dry_run) return dry_run(t, options, ranks);
  tri_mesh_shape shape = tri_layout_mesh_of(&t->config->layout, &t->config->model);
  TRI_TRY(tri_mesh_create(&world, &shape, &t->mesh));
  if (!tri_training_is_rank0(t)) tri_log_set_quiet();
  return open_and_run(t, options->resume);
}

tri_status tri_train(const tri_train_options *options) {
  tri_training t = {.mesh = tri_mesh_alone(),
                    .first_losses = NAN,
                    .first_chosen = NAN,
                    .last_chosen = NAN,
                    .last_losses = NAN,
                    .validation_loss = NAN,
                    .reward = NAN,
                    .validation_reward = NAN,
                    .evaluated_step = -1,
                    .sampled_step = -1,
                    .stop_at = options->stop_at,
                    .timing = {.path = options->timeline, .profile.path = options->profile}};
  TRI_TRY(tri_alloc("a run's configuration", 1, sizeof *t.config, &t.config));
  *t.config = *options->config;
  t.task = tri_train_task_of(t.config);
  tri_status status = start(&t, options);
  release(&t);
  tri_free(t.config);
  return status;
}

tri_status tri_train_predict(const tri_run_config *config, int64_t ranks, size_t *bytes) {
  tri_run_config *own = NULL;
  tri_device *device = NULL;
  TRI_TRY(tri_alloc("a run's configuration", 1, sizeof *own, &own));
  *own = *config;
  tri_status status = tri_training_choose_layout(own, ranks);
  if (status == TRI_OK) status = tri_device_create(own->device, (int)own->threads, &device);
  if (status == TRI_OK) {
    const tri_engine_options options = tri_training_engine_options(own, NULL);
    const tri_dry_run_needs needs = {0};
    tri_dry_run_memory memory = {0};
    status = tri_dry_run_plan(&options, 0, device, &needs, &memory);
    *bytes = memory.all;
  }
  tri_device_destroy(device);
  tri_free(own);
  return status;
}
