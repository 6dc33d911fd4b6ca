/* Where a run goes on: the memory of the nodes, a checkpoint, or the beginning. */
#include "train/train_internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/extra_files.h"
#include "comm/agreement.h"
#include "recovery/checkpointing.h"

#include <string.h>

static tri_status write_config(const tri_run_config *config) {
  char path[TRI_PATH_BYTES];
  char *text = NULL;
  TRI_TRY(tri_path_join(path, config->output, "config.yaml"));
  TRI_TRY(tri_run_config_print(config, &text));
  tri_status status = tri_file_replace(path, text, strlen(text));
  tri_free(text);
  return status;
}

/* What is in memory is taken where no checkpoint is newer. */
static tri_status open_snapshots(tri_training *t, const char *resume, bool *found) {
  const tri_run_config *config = t->config;
  const tri_group *world = &t->mesh.world;
  char root[TRI_PATH_BYTES];
  int64_t saved = -1, step = -1;
  if (config->checkpoint.snapshot_every == 0) {
    tri_snapshots_forget(config->output);
    return TRI_OK;
  }
  TRI_TRY(tri_snapshots_create(t->engine, config, &t->identity, &t->snapshots));
  if (strcmp(resume, "auto") != 0) {
    tri_snapshots_remove(t->snapshots);
    return tri_barrier(world);
  }
  TRI_TRY(tri_path_join(root, config->output, "checkpoints"));
  if (tri_training_is_first(t)) saved = tri_checkpoint_highest_step(root);
  TRI_TRY(tri_broadcast(world, 0, sizeof saved, &saved));
  TRI_TRY(tri_snapshots_find(t->snapshots, &step));
  if (step < 0 || step < saved) return TRI_OK;
  tri_status status = tri_snapshots_load(t->snapshots, step, &t->progress);
  *found = status == TRI_OK;
  if (*found) {
    if (tri_training_is_first(t))
      tri_log("resuming from the memory of the nodes, after step %ld", (long)t->progress.step);
    return TRI_OK;
  }
  if (status != TRI_BAD_FILE && status != TRI_IO_FAILED) return status;
  if (tri_training_is_first(t)) tri_log("passing over the snapshot of step %ld: %s", (long)step, tri_status_message());
  return TRI_OK;
}

/* Where what travels with the model is found: where its weights come from, or beside the tokenizer. */
static tri_status find_companions(const tri_training *t, const char *resume, char out[TRI_PATH_BYTES]) {
  const tri_run_config *config = t->config;
  const tri_checkpoint_use use = {.settings_only = true};
  const bool named = strcmp(resume, "auto") != 0 && strcmp(resume, "never") != 0;
  if (named || config->init[0] != '\0') return tri_checkpoint_find(named ? resume : config->init, &use, out);
  const char *slash = strrchr(t->data.tokenizer, '/');
  const size_t length = slash == NULL ? 0 : (size_t)(slash - t->data.tokenizer);
  memcpy(out, t->data.tokenizer, length);
  out[length] = '\0';
  return TRI_OK;
}

/* Once a run: they are kept in the output, from where every checkpoint has them. */
static tri_status keep_companions(const tri_training *t, const char *resume) {
  char from[TRI_PATH_BYTES], kept[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(kept, t->config->output, "companions"));
  if (strcmp(resume, "never") == 0) TRI_TRY(tri_directory_remove(kept)); /* of another run */
  if (!tri_path_exists(kept)) {
    TRI_TRY(find_companions(t, resume, from));
    if (from[0] != '\0') TRI_TRY(tri_companions_keep(from, kept));
  }
  return tri_saver_set_companions(t->saver, kept, tri_corpus_end_of_text(t->data.train_corpora[0]));
}

/* Opens the output and takes the run up where it was. */
tri_status tri_training_take_up(tri_training *t, const char *resume) {
  const tri_run_config *config = t->config;
  bool found = false;
  double begin_s = tri_clock_s();
  TRI_TRY(tri_checkpointing_load_base(t->engine, config, &t->identity));
  TRI_TRY(open_snapshots(t, resume, &found));
  if (!found) {
    TRI_TRY(tri_checkpointing_load(t->engine, config, &t->identity, resume, &t->progress, &found));
    if (found) tri_saver_resumed(t->saver, t->progress.step);
  }
  if (found) t->load_s = tri_clock_s() - begin_s;
  tri_engine_set_averaging(t->engine,
                           (tri_averaging){t->progress.highest_lr, t->progress.average_weights, t->progress.averaged});
  tri_status status = tri_training_is_first(t) ? write_config(config) : TRI_OK;
  if (tri_training_is_first(t) && status == TRI_OK) status = keep_companions(t, resume);
  if (tri_training_is_first(t) && status == TRI_OK) {
    status = tri_metrics_open(config->output, t->progress.step + 1, &t->metrics);
  }
  if (tri_training_is_first(t) && status == TRI_OK) status = tri_training_take_up_samples(t);
  return tri_first_rank_status(&t->mesh.world, status);
}
