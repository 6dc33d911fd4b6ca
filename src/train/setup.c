/* Creates everything that a run needs from its configuration: data, engine and output. */
#include "train/train_internal.h"

#include "base/clock.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "recovery/resume.h"
#include "run/output.h"
#include "train/gemm_choices.h"
#include "train/rollout_ranks.h"
#include "train/startup_checks.h"

#include <string.h>

tri_engine_options tri_training_engine_options(const tri_run_config *config, const tri_mesh *mesh) {
  return (tri_engine_options){
      .model = &config->model,
      .layout = &config->layout,
      .mesh = mesh,
      .global_batch = config->optimizer.global_batch,
      .sequence = config->data.sequence,
      .precision = config->precision,
      .masked = config->data.documents == TRI_DOCUMENTS_MASKED,
      .objective = &config->objective.trained,
      .seed = config->seed,
      .ignore_token = (int32_t)config->data.ignore_token,
      .optimizer = &config->optimizer.settings,
      .clip = config->optimizer.clip,
      .saves = true,
      .saves_in_background = config->checkpoint.async,
  };
}

static tri_status check_memory(tri_training *t) {
  tri_engine_options options = tri_training_engine_options(t->config, &t->mesh);
  tri_startup_memory more = {.snapshots = t->config->checkpoint.snapshot_every > 0};
  tri_status status = TRI_OK;
  if (t->samples_here) status = tri_training_plan_samples(t->config, &options, t->device, &more.samples);
  if (status == TRI_OK)
    status =
        tri_rollout_ranks_plan(t->config, &options, tri_run_data_longest_prompt(&t->data), t->device, &more.rollouts);
  TRI_TRY(tri_common_status(&t->mesh.world, status));
  t->rollouts = more.rollouts;
  options.lent_bytes = t->rollouts.scratch_bytes;
  return tri_startup_check_memory(&options, t->device, &more);
}

static tri_status agree_on_gemms(tri_training *t, bool anew) {
  tri_engine_options options = tri_training_engine_options(t->config, &t->mesh);
  return tri_gemm_choices_agree(&options, t->config, t->device, anew);
}

static tri_status create_engine(tri_training *t) {
  tri_engine_options options = tri_training_engine_options(t->config, &t->mesh);
  options.lent_bytes = t->rollouts.scratch_bytes;
  TRI_TRY(tri_engine_create(&options, t->device, &t->engine));
  TRI_TRY(tri_alloc("metrics of experts", (size_t)t->config->model.num_layers, sizeof *t->experts, &t->experts));
  t->predicted_bytes = tri_engine_predicted_bytes(t->engine) + t->rollouts.device_bytes + t->rollouts.host_bytes;
  return TRI_OK;
}

static tri_status open_snapshots(tri_training *t) {
  if (t->config->checkpoint.snapshot_every > 0)
    return tri_snapshots_create(t->engine, t->config, &t->identity, &t->snapshots);
  tri_snapshots_forget(t->config->output);
  return TRI_OK;
}

/* Returns the token that ends a document of the training data. */
static int32_t document_end(const tri_training *t) {
  const tri_corpus *corpus = t->data.train_corpora[0];
  return corpus == NULL ? t->data.end_of_text : tri_corpus_end_of_text(corpus);
}

/* Returns whether the training data was rendered by a chat template, or is plain answers with a mask. */
static bool is_chat(const tri_training *t) {
  const tri_corpus *corpus = t->data.train_corpora[0];
  return corpus != NULL && tri_corpus_has_mask(corpus);
}

/* On the first rank: writes the configuration to the output, copies the extra files of checkpoints there, and opens the
 * metrics so that their next line is that of the next step. */
static tri_status open_files(tri_training *t, const char *resume) {
  TRI_TRY(tri_output_write_config(t->config));
  TRI_TRY(tri_saver_keep_extra_files(t->saver, resume, document_end(t), is_chat(t)));
  return tri_metrics_open(t->config->output, t->progress.step + 1, &t->metrics);
}

static tri_status resume_run(tri_training *t, const char *resume) {
  tri_resumed resumed;
  const double begin_s = tri_clock_s();
  TRI_TRY(open_snapshots(t));
  const tri_resume_request request = {
      .engine = t->engine, .config = t->config, .identity = &t->identity, .from = resume, .snapshots = t->snapshots};
  TRI_TRY(tri_resume(&request, &t->progress, &resumed));
  TRI_TRY(
      tri_run_config_count_steps(t->config, t->config->optimizer.epoch_samples, t->progress.step, t->progress.samples));
  const double load_s = tri_clock_s() - begin_s;
  switch (resumed) {
    case TRI_RESUMED_NOTHING: break;
    case TRI_RESUMED_CHECKPOINT:
      tri_saver_resumed(t->saver, t->progress.step);
      t->load_s = load_s;
      break;
    case TRI_RESUMED_SNAPSHOT: t->load_s = load_s; break;
  }
  tri_engine_set_averaging(t->engine,
                           (tri_averaging){t->progress.highest_lr, t->progress.average_weights, t->progress.averaged});
  if (t->task->begin != NULL && !tri_training_is_over(t)) TRI_TRY(t->task->begin(t));
  TRI_TRY(tri_first_rank_status(&t->mesh.world, tri_training_is_rank0(t) ? open_files(t, resume) : TRI_OK));
  return tri_common_status(&t->mesh.world, t->samples_here ? tri_training_resume_samples(t) : TRI_OK);
}

/* On the first rank: checks that `--resume FOLDER` names a checkpoint, before the run writes anything. */
static tri_status check_resume(const char *resume) {
  const tri_checkpoint_use use = {.settings_only = true};
  char folder[TRI_PATH_BYTES];
  if (strcmp(resume, "auto") == 0 || strcmp(resume, "never") == 0) return TRI_OK;
  return tri_checkpoint_find(resume, &use, folder);
}

tri_status tri_training_open(tri_training *t, const char *resume) {
  const tri_group *world = &t->mesh.world;
  TRI_TRY(tri_run_output_open(world, t->config, &t->output));
  TRI_TRY(tri_first_rank_status(world, tri_training_is_rank0(t) ? check_resume(resume) : TRI_OK));
  if (t->task->prepare != NULL)
    TRI_TRY(tri_first_rank_status(world, tri_training_is_rank0(t) ? t->task->prepare(t->config) : TRI_OK));
  TRI_TRY(tri_common_status(world, tri_run_data_open(t->config, t->task->data, &t->identity, &t->data)));
  TRI_TRY(tri_common_status(world, tri_run_config_count_steps(t->config, tri_run_data_per_epoch(&t->data), 0, 0)));
  TRI_TRY(tri_startup_check_agreement(&t->mesh, t->config, &t->data));
  const bool first = tri_training_is_rank0(t);
  TRI_TRY(tri_first_rank_status(world, first ? tri_training_check_samples(t->config, t->data.tokenizer) : TRI_OK));
  TRI_TRY(tri_training_group_samplers(t));
  TRI_TRY(check_memory(t));
  TRI_TRY(tri_run_output_begin(world, t->config, strcmp(resume, "never") == 0, &t->identity));
  TRI_TRY(agree_on_gemms(t, strcmp(resume, "never") == 0));
  TRI_TRY(tri_common_status(world, create_engine(t)));
  TRI_TRY(tri_engine_share_gradients(t->engine));
  TRI_TRY(tri_common_status(
      world, tri_saver_create(t->engine, t->config, t->data.tokenizer, &t->identity, t->output.lock, &t->saver)));
  return resume_run(t, resume);
}
