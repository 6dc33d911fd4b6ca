#include "train/checkpointing.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/recorder.h"
#include "checkpoint/checkpoint.h"
#include "comm/agreement.h"
#include "train/shards.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Every rank reads what it holds, and no more. */
static tri_status read_slices(const tri_checkpoint *checkpoint, const tri_shards *shards, bool optimizer) {
  for (int64_t i = 0; i < shards->num_slices; i++) {
    const tri_checkpoint_slice *slice = &shards->slices[i];
    const tri_checkpoint_tensor *tensor = tri_shards_tensor(shards, slice->tensor);
    if (slice->tensor >= shards->num_weights && !optimizer) continue;
    tri_record record = tri_record_make(TRI_RECORD_WORK, "read a tensor");
    uint64_t ticket = tri_recorder_begin(&record);
    TRI_TRY(tri_checkpoint_read_slice(checkpoint, tensor->name, tensor->type, tensor->num_dims, tensor->shape, slice));
    tri_recorder_end(ticket);
  }
  return TRI_OK;
}

static int64_t integer_of(const json_t *object, const char *key) {
  return (int64_t)json_integer_value(json_object_get(object, key));
}

/* A seed of its own makes other samples follow than the run had: that is a choice, but hardly a meant one. */
static void compare_seeds(const tri_run_config *config, const tri_checkpoint *checkpoint,
                          const tri_checkpoint_state *state) {
  if (state->seed == config->seed) return;
  tri_warn("%s was saved under seed %llu and the run has seed %llu: the order of samples changes from here",
           tri_checkpoint_path(checkpoint), (unsigned long long)state->seed, (unsigned long long)config->seed);
}

static tri_status read_progress(const tri_checkpoint_state *state, tri_progress *out) {
  const json_t *more = state->progress;
  *out = (tri_progress){
      .step = state->step,
      .tokens = state->tokens,
      .updates = integer_of(more, "updates"),
      .bad_steps = integer_of(more, "bad_steps"),
      .bad_in_row = integer_of(more, "bad_in_row"),
      .seconds = json_number_value(json_object_get(more, "seconds")),
  };
  return TRI_OK;
}

/* One that was imported has none: its moments are those of a fresh run. */
static bool has_optimizer(const tri_checkpoint *checkpoint, const tri_shards *shards) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  return state != NULL && (state->step > 0 || tri_checkpoint_has(checkpoint, shards->optimizer[0].name));
}

/* A plain Hugging Face folder has weights alone: the run begins at step 0 from them. */
static tri_status load_from(tri_engine *engine, const tri_run_config *config, const char *path,
                            tri_progress *progress) {
  tri_shards shards = {0};
  tri_checkpoint *checkpoint = NULL;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_shards_create(engine, TRI_SHARDS_LOAD, &shards), done);
  TRI_TRY_GOTO(tri_checkpoint_open(path, &checkpoint), done);
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  TRI_TRY_GOTO(read_slices(checkpoint, &shards, has_optimizer(checkpoint, &shards)), done);
  if (state != NULL) {
    compare_seeds(config, checkpoint, state);
    TRI_TRY_GOTO(read_progress(state, progress), done);
    tri_log("resuming from %s, after step %ld", path, (long)progress->step);
  } else {
    tri_log("beginning with the weights of %s", path);
  }
  tri_engine_parameters_changed(engine);
done:
  tri_checkpoint_close(checkpoint);
  tri_shards_release(&shards);
  return status;
}

/* What another branch of the run left must not be taken for this one's; it is moved aside, not lost. The first name
 * ROOT.old-N that is free. */
static tri_status free_name(const char *root, char to[TRI_PATH_BYTES]) {
  for (int number = 1;; number++) {
    int length = snprintf(to, TRI_PATH_BYTES, "%s.old-%d", root, number);
    if (length < 0 || length >= TRI_PATH_BYTES) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", root);
    if (!tri_path_exists(to)) return TRI_OK;
  }
}

static tri_status move(const char *from, const char *to) {
  if (rename(from, to) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", from, to, strerror(errno));
}

static tri_status move_all_aside(const char *root) {
  char to[TRI_PATH_BYTES];
  if (!tri_path_exists(root)) return TRI_OK;
  TRI_TRY(free_name(root, to));
  TRI_TRY(move(root, to));
  tri_log("the checkpoints of an earlier run are now in %s", to);
  return TRI_OK;
}

/* The step of a checkpoint's folder by its name, or -1. */
static int64_t step_of(const char *name) {
  long step = -1;
  return sscanf(name, "step-%ld", &step) == 1 ? step : -1;
}

/* Going back to an older step begins a new branch: what lies beyond it makes room. */
static tri_status move_later_aside(const char *root, int64_t step) {
  char to[TRI_PATH_BYTES] = "", from_path[TRI_PATH_BYTES], to_path[TRI_PATH_BYTES];
  DIR *directory = opendir(root);
  if (directory == NULL) return TRI_OK;
  tri_status status = TRI_OK;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (step_of(entry->d_name) <= step) continue;
    if (to[0] == '\0') {
      TRI_TRY_GOTO(free_name(root, to), done);
      TRI_TRY_GOTO(tri_directory_create(to), done);
      tri_log("checkpoints after step %ld are now in %s", (long)step, to);
    }
    TRI_TRY_GOTO(tri_path_join(from_path, root, entry->d_name), done);
    TRI_TRY_GOTO(tri_path_join(to_path, to, entry->d_name), done);
    TRI_TRY_GOTO(move(from_path, to_path), done);
  }
done:
  closedir(directory);
  return status;
}

/* Which checkpoint to load; path is "" for none. Moving things about is the first rank's. */
static tri_status choose(const tri_group *world, const char *root, const char *resume, char path[TRI_PATH_BYTES]) {
  path[0] = '\0';
  if (strcmp(resume, "never") == 0) {
    return tri_first_rank_status(world, world->rank == 0 ? move_all_aside(root) : TRI_OK);
  }
  if (strcmp(resume, "auto") == 0) return tri_checkpoint_newest(world, root, path);
  snprintf(path, TRI_PATH_BYTES, "%s", resume);
  return TRI_OK;
}

tri_status tri_checkpointing_load(tri_engine *engine, const tri_run_config *config, const char *resume,
                                  tri_progress *progress, bool *found) {
  char root[TRI_PATH_BYTES];
  char path[TRI_PATH_BYTES] = "";
  const tri_group *world = &tri_engine_mesh(engine)->world;
  TRI_TRY(tri_path_join(root, config->output, "checkpoints"));
  *found = false;
  TRI_TRY(choose(world, root, resume, path));
  if (path[0] == '\0') return TRI_OK;
  TRI_TRY(tri_common_status(world, load_from(engine, config, path, progress)));
  *found = true;
  if (strcmp(resume, "auto") == 0 || world->rank > 0) return TRI_OK;
  return move_later_aside(root, progress->step);
}
