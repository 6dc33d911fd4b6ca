/* Decides which state a run resumes from. Values of `--resume`:
 *
 *   never     Nothing in the output is loaded: its checkpoints are moved aside, and its snapshots are removed. The run
 *             begins with the weights that `init` names (with an adapter: with the factors that `adapter.from` names),
 *             or with random ones.
 *   FOLDER    That checkpoint, or the newest good one if FOLDER is the output of a run. The run branches from there:
 *             later checkpoints in the run's own output are moved aside, or all of them if FOLDER belongs to another
 *             run.
 *   auto      The snapshot in the memory of the nodes, if it is complete, has the same configuration, and no checkpoint
 *             is newer. Else FOLDER, if the run began with `--resume FOLDER` and has saved nothing since. Else the
 *             newest complete and finite checkpoint of the output, which must be of this run. If the output has
 *             checkpoints but none of them is good, the run fails. If it has none, the run begins as with `never`.
 *
 * Checkpoints and snapshots of a run with an adapter have only the adapter, so its base model is loaded first in all
 * cases. load_state.c reads and verifies a checkpoint. */
#include "recovery/resume.h"

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/peft.h"
#include "checkpoint/peft_targets.h"
#include "comm/agreement.h"
#include "engine/first_factors.h"
#include "recovery/load_state.h"
#include "run/output.h"

#include <string.h>

static bool has_adapter(const tri_run_config *config) { return tri_trainable_has_adapter(&config->model.tuning); }

/* COLLECTIVE. Loads the checkpoint `given`, or the newest good one if `given` is the output of a run. Sets `path` to
 * its folder. */
static tri_status load_named(tri_loading *l, const char *given, bool optimizer, char path[TRI_PATH_BYTES]) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  const tri_checkpoint_use use = {.optimizer = optimizer};
  char found[TRI_PATH_BYTES] = "";
  bool damaged = false;
  tri_status status = world->rank == 0 ? tri_checkpoint_find(given, &use, found) : TRI_OK;
  TRI_TRY(tri_first_rank_status(world, status));
  TRI_TRY(tri_broadcast(world, 0, sizeof found, found));
  memcpy(path, found, sizeof found);
  l->plain_too = true;
  return tri_load_state(l, path, &damaged);
}

/* Logs the number of tensors of an adapter that are not loaded, since they are neither LoRA factors nor weights of
 * the base. Checks that PEFT would read the factors (peft_targets.h). */
static tri_status note_others(const char *folder, const tri_model *base) {
  tri_checkpoint *adapter = NULL;
  const char *first = NULL;
  int64_t others = 0;
  TRI_TRY(tri_checkpoint_open(folder, &adapter));
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(adapter); i++) {
    const char *name = tri_checkpoint_get_entry(adapter, i).tensor->name;
    if (strstr(name, ".lora_") != NULL || strstr(name, ".base_layer.weight") != NULL)
      continue; /* a factor, or a weight of the base */
    if (others++ == 0) first = name;
  }
  if (others > 0) {
    tri_log(
        "`adapter.from` takes the factors alone: %ld other tensor%s of %s (`%.100s`%s) %s left out; to begin with all "
        "of "
        "it, name what `trireme export --merge` makes of it as `init`",
        (long)others, others == 1 ? "" : "s", folder, first, others == 1 ? "" : ", ...", others == 1 ? "is" : "are");
  }
  const tri_status status = tri_peft_check_targets(adapter, base);
  tri_checkpoint_close(adapter);
  return status;
}

/* Checks, on the first rank, the adapter whose factors a run begins with. */
static tri_status check_factors(const tri_loading *l, const char *given) {
  const tri_checkpoint_use use = {.settings_only = true};
  char folder[TRI_PATH_BYTES];
  if (tri_engine_mesh(l->engine)->world.rank > 0) return TRI_OK;
  TRI_TRY(tri_checkpoint_find(given, &use, folder));
  TRI_TRY(tri_peft_check_from(folder, &l->config->model.tuning.adapter, NULL));
  return note_others(folder, &l->config->model);
}

/* COLLECTIVE. Loads the weights that `init` names, or with an adapter the factors that `adapter.from` names. Called if
 * the run has no checkpoint to resume from. */
static tri_status load_init(tri_loading *l) {
  char path[TRI_PATH_BYTES];
  const char *from = has_adapter(l->config) ? l->config->adapter_from : l->config->init;
  if (from[0] == '\0') return TRI_OK;
  l->kind = TRI_RESUME_WEIGHTS;
  if (!has_adapter(l->config)) return load_named(l, from, false, path);
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  TRI_TRY(tri_first_rank_status(world, check_factors(l, from)));
  tri_loading factors = *l;
  TRI_TRY(
      tri_common_status(world, tri_checkpoint_map_create(l->engine, TRI_CHECKPOINT_MAP_LOAD_FACTORS, &factors.held)));
  tri_status status = load_named(&factors, from, false, path);
  tri_checkpoint_map_release(&factors.held);
  return status;
}

/* COLLECTIVE. Sets *out to whether the run began with `--resume FOLDER` and has saved nothing since. A later start with
 * `auto`, such as the restart after a lost rank, then resumes from FOLDER again, and not from earlier checkpoints of
 * the output or from the beginning. */
static tri_status is_at_its_beginning(const tri_loading *l, const char *root, bool *out) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  int64_t highest = -1;
  *out = false;
  if (l->identity == NULL || l->identity->from[0] == '\0') return TRI_OK;
  if (world->rank == 0) highest = tri_checkpoint_highest_step(root);
  TRI_TRY(tri_broadcast(world, 0, sizeof highest, &highest));
  *out = highest <= l->identity->from_step;
  return TRI_OK;
}

/* COLLECTIVE. Finds the checkpoint for `resume` and loads it. If no checkpoint can be resumed from, sets path to "",
 * and loads the weights to begin with (load_init). */
static tri_status find_and_load(tri_loading *l, const char *root, const char *resume, char path[TRI_PATH_BYTES]) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  path[0] = '\0';
  /* tri_run_output_begin has moved earlier checkpoints aside. */
  if (strcmp(resume, "never") == 0) return load_init(l);
  bool from = false;
  TRI_TRY(is_at_its_beginning(l, root, &from));
  if (strcmp(resume, "auto") == 0 && !from) {
    TRI_TRY(tri_checkpoint_newest_that(world, root, tri_load_state, l, path));
    return path[0] == '\0' ? load_init(l) : TRI_OK;
  }
  l->kind = TRI_RESUME_BRANCH;
  return load_named(l, from && strcmp(resume, "auto") == 0 ? l->identity->from : resume, true, path);
}

/* LOCAL, on the first rank. Moves the checkpoints aside that do not belong to the branch (tri_output_make_room).
 * Records the branch before (with step INT64_MAX) and after this, so that a run which is killed in between begins the
 * branch again. */
static tri_status begin_branch(const tri_loading *l, const char *path) {
  const tri_run_config *config = l->config;
  if (l->identity != NULL) TRI_TRY(tri_identity_note_from(l->identity, config, path, INT64_MAX));
  TRI_TRY(tri_output_make_room(config->output, path, l->progress->step));
  return l->identity == NULL ? TRI_OK : tri_identity_note_from(l->identity, config, path, l->progress->step);
}

/* The states that were read from a checkpoint, and those that it lacks. */
typedef struct found_states {
  bool optimizer;                   /* whether the optimizer's states were read */
  bool missing[TRI_NUM_RUN_STATES]; /* whether the run keeps each state, and the checkpoint does not have it */
} found_states;

/* COLLECTIVE. Loads a checkpoint, or the weights to begin with. Sets *found to whether it has loaded a checkpoint to
 * resume from, and `out` to the states that were read from it. Begins a branch (begin_branch) if the checkpoint is one
 * that `--resume` names. */
static tri_status resume_checkpoint(const tri_resume_request *r, tri_progress *progress, bool *found,
                                    found_states *out) {
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES] = "";
  const tri_group *world = &tri_engine_mesh(r->engine)->world;
  tri_loading l = {.engine = r->engine, .config = r->config, .identity = r->identity, .progress = progress};
  TRI_TRY(tri_path_join(root, r->config->output, "checkpoints"));
  tri_status status = tri_checkpoint_map_create(r->engine, TRI_CHECKPOINT_MAP_LOAD, &l.held);
  if (status == TRI_OK) status = tri_checkpoint_map_create(r->engine, TRI_CHECKPOINT_MAP_SAVE, &l.saved);
  status = tri_common_status(world, status);
  if (status == TRI_OK) status = tri_common_status(world, find_and_load(&l, root, r->from, path));
  tri_checkpoint_map_release(&l.saved);
  tri_checkpoint_map_release(&l.held);
  TRI_TRY(status);
  *found = path[0] != '\0';
  out->optimizer = l.has_states;
  memcpy(out->missing, l.missing, sizeof out->missing);
  if (!*found || l.kind != TRI_RESUME_BRANCH) return TRI_OK;
  return tri_first_rank_status(world, world->rank == 0 ? begin_branch(&l, path) : TRI_OK);
}

/* COLLECTIVE. Loads the newest snapshot, and sets *found to whether it was loaded. Does not load it if a checkpoint is
 * newer, or if the snapshot is damaged or cannot be read, which is logged. If `--resume` is not `auto`, removes all
 * snapshots instead. */
static tri_status resume_snapshot(const tri_resume_request *r, tri_progress *progress, bool *found) {
  const tri_group *world = &tri_engine_mesh(r->engine)->world;
  char root[TRI_PATH_BYTES];
  int64_t saved = -1, step = -1;
  if (strcmp(r->from, "auto") != 0) {
    tri_snapshots_remove(r->snapshots);
    return tri_barrier(world);
  }
  TRI_TRY(tri_path_join(root, r->config->output, "checkpoints"));
  if (world->rank == 0) saved = tri_checkpoint_highest_step(root);
  TRI_TRY(tri_broadcast(world, 0, sizeof saved, &saved));
  TRI_TRY(tri_snapshots_find(r->snapshots, &step));
  if (step < 0 || step < saved) return TRI_OK;
  tri_status status = tri_snapshots_load(r->snapshots, step, progress);
  *found = status == TRI_OK;
  if (*found) {
    if (world->rank == 0) tri_log("resuming from the memory of the nodes, after step %ld", (long)progress->step);
    return TRI_OK;
  }
  if (status != TRI_BAD_FILE && status != TRI_IO_FAILED) return status;
  if (world->rank == 0) tri_log("passing over the snapshot of step %ld: %s", (long)step, tri_status_message());
  return TRI_OK;
}

/* COLLECTIVE. Opens the base model in a folder and calls `begin` with it, which computes initial values of an
 * adapter. */
static tri_status begin_of_base(tri_engine *engine, const char *folder,
                                tri_status (*begin)(tri_engine *engine, const tri_checkpoint *base)) {
  tri_checkpoint *base = NULL;
  tri_status status = tri_common_status(&tri_engine_mesh(engine)->world, tri_checkpoint_open(folder, &base));
  if (status == TRI_OK) status = begin(engine, base);
  tri_checkpoint_close(base);
  return status;
}

/* COLLECTIVE. Computes the initial magnitudes (DoRA) from the base model, unless the run begins with the factors of an
 * adapter. Does nothing for an adapter without magnitudes. Called if the run does not resume. */
static tri_status begin_magnitudes(const tri_resume_request *r) {
  char path[TRI_PATH_BYTES] = "";
  const tri_checkpoint_use use = {.settings_only = false};
  const tri_group *world = &tri_engine_mesh(r->engine)->world;
  if (!r->config->model.tuning.adapter.magnitude || r->config->adapter_from[0] != '\0') return TRI_OK;
  tri_status status = world->rank == 0 ? tri_checkpoint_find(r->config->init, &use, path) : TRI_OK;
  TRI_TRY(tri_first_rank_status(world, status));
  TRI_TRY(tri_broadcast(world, 0, sizeof path, path));
  return begin_of_base(r->engine, path, tri_engine_begin_magnitudes);
}

/* COLLECTIVE. Loads the base model of an adapter from `init`; does nothing without an adapter. With `adapter.init:
 * pissa`, computes the initial factors from it. */
static tri_status load_base(const tri_resume_request *r) {
  const tri_group *world = &tri_engine_mesh(r->engine)->world;
  tri_loading l = {.engine = r->engine, .config = r->config, .identity = r->identity, .kind = TRI_RESUME_WEIGHTS};
  char path[TRI_PATH_BYTES];
  if (!has_adapter(r->config)) return TRI_OK;
  tri_status status =
      tri_common_status(world, tri_checkpoint_map_create(r->engine, TRI_CHECKPOINT_MAP_LOAD_BASE, &l.held));
  if (status == TRI_OK) status = tri_common_status(world, load_named(&l, r->config->init, false, path));
  tri_checkpoint_map_release(&l.held);
  if (status == TRI_OK && tri_adapter_is_principal(&r->config->model.tuning.adapter)) {
    if (world->rank == 0)
      tri_log("finding the first singular vectors of the targets in %s (adapter.init: pissa)", path);
    status = begin_of_base(r->engine, path, tri_engine_begin_factors);
  }
  return status;
}

tri_status tri_resume(const tri_resume_request *request, tri_progress *progress, tri_resumed *out) {
  bool found = false;
  found_states states = {0};
  *out = TRI_RESUMED_NOTHING;
  TRI_TRY(load_base(request));
  if (request->snapshots != NULL) TRI_TRY(resume_snapshot(request, progress, &found));
  if (found) {
    *out = TRI_RESUMED_SNAPSHOT;
    return TRI_OK;
  }
  TRI_TRY(resume_checkpoint(request, progress, &found, &states));
  if (!found) TRI_TRY(begin_magnitudes(request));
  if (found) *out = TRI_RESUMED_CHECKPOINT;
  /* last, because some states begin as copies of factors and magnitudes */
  return tri_engine_begin_states(request->engine, states.optimizer ? states.missing : NULL);
}
