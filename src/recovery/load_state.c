#include "recovery/load_state.h"

#include "base/flight_recorder.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/peft_singles.h"
#include "comm/agreement.h"

#include <string.h>

/* Returns whether the checkpoint has a run state (tri_run_states), such as the average of the weights. A checkpoint has
 * a run state for all weights or for none, so only the tensor of the first weight is looked up. In map->optimizer, the
 * run states of the first weight begin at index map->first_of_run. */
static bool has_run_state(const tri_checkpoint *checkpoint, const tri_checkpoint_map *map,
                          const tri_optimizer_state *state) {
  for (int64_t i = map->first_of_run; i < map->num_optimizer && i < map->first_of_run + TRI_NUM_RUN_STATES; i++) {
    if (map->states[i] == state) return tri_checkpoint_has(checkpoint, map->optimizer[i].name);
  }
  return false;
}

/* Fails if a weight of this rank, or with `optimizer` an optimizer state, has a value that is not finite. */
static tri_status check_finite(const tri_checkpoint *checkpoint, const tri_checkpoint_map *map, bool optimizer) {
  for (int64_t i = 0; i < map->num_slices; i++) {
    const tri_checkpoint_slice *slice = &map->slices[i];
    const tri_checkpoint_tensor *tensor = tri_checkpoint_map_tensor(map, slice->tensor);
    if (slice->tensor >= map->num_weights && !optimizer) continue;
    int64_t bad = -1;
    TRI_TRY(tri_checkpoint_slice_not_finite(slice, tensor->type, &bad));
    if (bad < 0) continue;
    return tri_fail(TRI_BAD_FILE, "%s: tensor `%s` has a value that is NaN or infinite",
                    tri_checkpoint_path(checkpoint), tensor->name);
  }
  return TRI_OK;
}

/* Returns whether a slice is read from the checkpoint. Weights are always read. Optimizer states are read if
 * `optimizer` is set, and so are the run states that the checkpoint has. */
static bool is_read(const tri_checkpoint *checkpoint, const tri_checkpoint_map *map, const tri_checkpoint_slice *slice,
                    bool optimizer) {
  const int64_t kept = slice->tensor - map->num_weights;
  if (kept < 0) return true;
  return optimizer && (kept < map->first_of_run || has_run_state(checkpoint, map, map->states[kept]));
}

static tri_status read_slice(const tri_checkpoint *checkpoint, const tri_checkpoint_tensor *tensor,
                             const tri_checkpoint_slice *slice) {
  bool done = false;
  TRI_TRY(tri_peft_read_single(checkpoint, tensor->type, slice, &done));
  if (done) return TRI_OK;
  return tri_checkpoint_read_slice(checkpoint, tensor->name, tensor->type, tensor->num_dims, tensor->shape, slice);
}

/* Reads the slices that this rank holds into the engine; with `optimizer`, also those of optimizer states. */
static tri_status read_slices(tri_engine *engine, const tri_checkpoint *checkpoint, const tri_checkpoint_map *map,
                              bool optimizer) {
  for (int64_t i = 0; i < map->num_slices; i++) {
    const tri_checkpoint_slice *slice = &map->slices[i];
    const tri_checkpoint_tensor *tensor = tri_checkpoint_map_tensor(map, slice->tensor);
    if (!is_read(checkpoint, map, slice, optimizer)) continue;
    tri_record record = tri_record_make(TRI_RECORD_WORK, "read a tensor");
    uint64_t ticket = tri_recorder_begin(&record);
    const tri_status status = read_slice(checkpoint, tensor, slice);
    tri_recorder_end(ticket);
    TRI_TRY(status); /* returned after the record has ended, because the run may then try another checkpoint */
  }
  return tri_checkpoint_map_written(engine);
}

static void read_progress(const tri_checkpoint_state *state, tri_progress *out) {
  *out = (tri_progress){.step = state->step, .tokens = state->tokens};
  tri_progress_read(state->progress, out);
}

/* Returns whether the checkpoint has optimizer states. An imported checkpoint (step 0) may have none. The run then
 * begins with new states. */
static bool has_optimizer(const tri_checkpoint *checkpoint, const tri_checkpoint_map *map) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  return state != NULL && (state->step > 0 || tri_checkpoint_has(checkpoint, map->optimizer[0].name));
}

static bool takes_optimizer(const tri_loading *l, const tri_checkpoint *checkpoint) {
  return l->kind != TRI_RESUME_WEIGHTS && tri_resume_same_optimizer(l->config, checkpoint) &&
         has_optimizer(checkpoint, &l->held);
}

/* Returns whether values are converted while they are read. The checksums of the file then do not apply to memory. */
static bool converts(const tri_engine *engine, const tri_checkpoint *checkpoint, const tri_checkpoint_map *map) {
  tri_checkpoint_entry entry = tri_checkpoint_get_entry(checkpoint, 0);
  return tri_checkpoint_map_keep_narrow(engine) || entry.tensor->type != tri_safetensors_type_of(map->weights[0].type);
}

static bool is_damage(tri_status status) { return status == TRI_BAD_FILE || status == TRI_UNSUPPORTED; }

/* COLLECTIVE. Reads all slices. If that fails and the checkpoint has a state (`has_state`), verifies the checksums to
 * find out whether the checkpoint is damaged, and sets *damaged to that. If it is intact (it belongs to another model,
 * for example), returns the failure of the read. */
static tri_status read_all(const tri_loading *l, const tri_checkpoint *checkpoint, bool has_state, bool optimizer,
                           bool *damaged) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  tri_saved_error failure = {TRI_OK, ""};
  tri_status status = tri_common_failure(world, read_slices(l->engine, checkpoint, &l->held, optimizer));
  if (status == TRI_OK || !has_state) return status;
  tri_error_save(&failure, status);
  *damaged = is_damage(tri_checkpoint_verify(world, tri_checkpoint_path(checkpoint)));
  return *damaged ? TRI_BAD_FILE : tri_saved_error_restore(&failure);
}

/* COLLECTIVE. Compares the checkpoint with the run, unless there is no identity. Only the first rank does, since all
 * ranks read the same checkpoint. */
static tri_status load_state_compare(const tri_loading *l, const tri_checkpoint *checkpoint) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  if (l->identity == NULL) return TRI_OK;
  tri_status status = world->rank == 0 ? tri_resume_check(l->identity, l->config, checkpoint, l->kind) : TRI_OK;
  return tri_first_rank_status(world, status);
}

/* Returns whether the run keeps run state `state`, but the checkpoint does not have it. The state then begins as a copy
 * of the weights (tri_engine_begin_states). */
static bool begins(const tri_loading *l, const tri_checkpoint *checkpoint, tri_run_state state) {
  return tri_run_states[state]->is_kept(&l->config->optimizer.settings) &&
         !has_run_state(checkpoint, &l->held, tri_run_states[state]);
}

/* Sets states to copies of the weights. If the optimizer's states were read from the checkpoint (`optimizer`), sets
 * only the run states that it does not have, so that the states that were read, such as a reference, are not
 * overwritten; otherwise sets all states that begin as copies. */
static tri_status begin_missing(const tri_loading *l, const tri_checkpoint *checkpoint, bool optimizer) {
  bool missing[TRI_NUM_RUN_STATES];
  for (int s = 0; s < TRI_NUM_RUN_STATES; s++) missing[s] = begins(l, checkpoint, (tri_run_state)s);
  return tri_engine_begin_states(l->engine, optimizer ? missing : NULL);
}

/* Fails if the run keeps a reference and resumes after its first step from a checkpoint that has none: it would begin
 * as a copy of the trained weights. */
static tri_status check_reference(const tri_loading *l, const tri_checkpoint *checkpoint) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  if (!tri_reference_is_kept(&l->config->optimizer.settings) || l->kind == TRI_RESUME_WEIGHTS) return TRI_OK;
  if (state == NULL || state->step == 0) return TRI_OK;
  if (!takes_optimizer(l, checkpoint)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "%s: its reference (objective.beta) is one of the optimizer's states, which another optimizer does "
                    "not take over; keep the optimizer, or begin a new run with `init`",
                    tri_checkpoint_path(checkpoint));
  }
  if (!begins(l, checkpoint, TRI_RUN_STATE_REFERENCE)) return TRI_OK;
  return tri_fail(
      TRI_BAD_CONFIG,
      "`objective.beta` %g: %s has no reference, because it was saved with beta 0; set beta to 0, or begin a "
      "new run with `init`",
      l->config->objective.beta, tri_checkpoint_path(checkpoint));
}

/* COLLECTIVE. Reads the slices of this rank, verifies the checkpoint, and compares it with the run before any tensor is
 * read. Sets *damaged to whether a failure is the checkpoint's fault. Usually sizes, headers and other files are
 * verified before the tensors are read, and the checksums of the tensors afterwards, from memory. If memory differs
 * from the file, the whole checkpoint is verified before (`whole`). It differs if values are converted, or if only the
 * factors of an adapter or its base model are read. A plain Hugging Face folder has no checksums. */
static tri_status read_and_verify(const tri_loading *l, const tri_checkpoint *checkpoint, bool *damaged) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  const char *path = tri_checkpoint_path(checkpoint);
  bool has_state = tri_checkpoint_get_state(checkpoint) != NULL;
  bool optimizer = takes_optimizer(l, checkpoint);
  bool whole = has_state && (l->held.elsewhere || converts(l->engine, checkpoint, &l->held));
  tri_status status = optimizer ? tri_checkpoint_map_check_joined(l->engine, checkpoint) : TRI_OK;
  *damaged = false;
  TRI_TRY(tri_common_status(world, status));
  if (has_state || !l->plain_too)
    status = whole ? tri_checkpoint_verify(world, path) : tri_checkpoint_verify_frame(world, path);
  *damaged = is_damage(status);
  if (status == TRI_OK) status = load_state_compare(l, checkpoint);
  if (status == TRI_OK) status = check_reference(l, checkpoint);
  if (status == TRI_OK) status = read_all(l, checkpoint, has_state, optimizer, damaged);
  if (status != TRI_OK || !has_state || whole) return status;
  /* Verify memory: compute the checksums of the bytes that a save of this state would write, and compare them with
   * those of the checkpoint. With an averaging optimizer, a save computes each weight in the file from the weight in
   * memory and from a state (checkpoint_conversions.h). If the state was not read, set it to the weight in memory
   * first: a save then writes the weight as it was read. resume.c sets the states again once all weights are final. */
  TRI_TRY(tri_common_failure(world, begin_missing(l, checkpoint, optimizer)));
  const tri_checkpoint_map *saved = &l->saved;
  status = tri_checkpoint_verify_slices(world, checkpoint, saved->weights, saved->num_weights, saved->optimizer,
                                        optimizer ? saved->num_optimizer : 0, saved->slices, saved->num_slices);
  *damaged = is_damage(status);
  return status;
}

/* COLLECTIVE. Reads and verifies the checkpoint (read_and_verify). It counts as damaged if a value is not finite. */
static tri_status read_good(const tri_loading *l, const tri_checkpoint *checkpoint, bool *damaged) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  TRI_TRY(read_and_verify(l, checkpoint, damaged));
  bool optimizer = takes_optimizer(l, checkpoint);
  tri_status status = tri_common_failure(world, check_finite(checkpoint, &l->held, optimizer));
  *damaged = is_damage(status);
  return status;
}

/* Logs that the average of the weights ends, because the run keeps none, or begins, because the checkpoint has none.
 * Resets the number of averaged points in both cases. */
static void continue_average(const tri_loading *l, const tri_checkpoint *checkpoint) {
  tri_progress *progress = l->progress;
  const bool kept = tri_average_is_kept(&l->config->optimizer.settings);
  const bool new = begins(l, checkpoint, TRI_RUN_STATE_AVERAGE);
  if (new) {
    tri_log("%s has no average of the weights, so the average begins here (`average.every`)",
            tri_checkpoint_path(checkpoint));
  } else if (!kept && progress->averaged > 0) {
    tri_warn("%s has an average of the weights, which ends here: the run has average.every 0",
             tri_checkpoint_path(checkpoint));
  }
  if (!kept || new) progress->averaged = 0;
}

/* Logs that the average in the checkpoint is not used. Called if a run begins with the weights of the checkpoint,
 * because the user may have expected the average. */
static void log_unused_average(const tri_checkpoint *checkpoint) {
  const size_t ending = strlen(TRI_AVERAGE_SUFFIX);
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(checkpoint); i++) {
    const char *name = tri_checkpoint_get_entry(checkpoint, i).tensor->name;
    const size_t length = strlen(name);
    if (length < ending || strcmp(name + length - ending, TRI_AVERAGE_SUFFIX) != 0) continue;
    tri_log(
        "%s also has an average of the weights, which is not used here; to start from the average, export it first: "
        "trireme export --average",
        tri_checkpoint_path(checkpoint));
    return;
  }
}

/* Resets the best evaluation so far, and the number of evaluations since, if the run has other validation data or
 * another objective or reward than the checkpoint: old and new results cannot be compared. Logs this if the checkpoint
 * has a best evaluation. */
static void continue_best(const tri_loading *l, const tri_checkpoint_state *state) {
  tri_progress *progress = l->progress;
  char key[TRI_RESUME_KEY_BYTES];
  tri_resume_other_measure(l->identity, l->config, state, key);
  if (key[0] == '\0') return;
  const bool of_rewards = l->config->data.prompts[0] != '\0';
  if (progress->best_step > 0 && of_rewards) {
    tri_log(
        "with another %s validation rewards do not compare: the highest so far, %.4f after step %ld, no longer "
        "counts for checkpoint.best and evaluation.stop_after",
        key, progress->best_accuracy, (long)progress->best_step);
  } else if (progress->best_step > 0) {
    tri_log(
        "with another %s validation losses do not compare: the lowest so far, %.4f after step %ld, no longer "
        "counts for checkpoint.best and evaluation.stop_after",
        key, progress->best_loss, (long)progress->best_step);
  }
  progress->best_step = progress->not_better = 0;
  progress->best_loss = progress->best_accuracy = 0;
}

tri_status tri_load_state(void *context, const char *path, bool *damaged) {
  tri_loading *l = context;
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  tri_checkpoint *checkpoint = NULL;
  tri_status status = tri_engine_finish(l->engine); /* queued work may use the arrays that are overwritten below */
  status = tri_common_failure(world, status == TRI_OK ? tri_checkpoint_open(path, &checkpoint) : status);
  *damaged = is_damage(status);
  if (status == TRI_OK) status = read_good(l, checkpoint, damaged);
  if (status == TRI_OK) {
    const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
    if (state != NULL && l->kind != TRI_RESUME_WEIGHTS) {
      read_progress(state, l->progress);
      l->progress->samples = tri_resume_next_sample(l->config, state);
      if (!takes_optimizer(l, checkpoint)) { /* the optimizer begins with new states */
        l->progress->updates = 0;
        l->progress->highest_lr = l->progress->average_weights = 0;
        l->progress->averaged = 0;
      }
      continue_average(l, checkpoint);
      continue_best(l, state);
      tri_log("resuming from %s, after step %ld", path, (long)l->progress->step);
    } else {
      tri_log("beginning with the weights of %s", path);
      log_unused_average(checkpoint);
    }
    l->has_states = takes_optimizer(l, checkpoint);
    for (int s = 0; s < TRI_NUM_RUN_STATES; s++) l->missing[s] = begins(l, checkpoint, (tri_run_state)s);
    tri_engine_parameters_changed(l->engine);
  }
  tri_checkpoint_close(checkpoint);
  return status;
}
