#include "recovery/checkpointing.h"

#include "base/log.h"
#include "base/flight_recorder.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/peft.h"
#include "checkpoint/peft_targets.h"
#include "comm/agreement.h"
#include "engine/checkpoint_map.h"
#include "run/output.h"

#include <stdio.h>
#include <string.h>

/* Of which all have it or none. */
static bool has_averages(const tri_checkpoint *checkpoint, const tri_shards *shards) {
  return shards->num_kept < shards->num_optimizer &&
         tri_checkpoint_has(checkpoint, shards->optimizer[shards->num_kept].name);
}

/* What no step can go on from is not taken up, wherever it comes from. */
static tri_status check_finite(const tri_checkpoint *checkpoint, const tri_shards *shards, bool optimizer) {
  for (int64_t i = 0; i < shards->num_slices; i++) {
    const tri_checkpoint_slice *slice = &shards->slices[i];
    const tri_checkpoint_tensor *tensor = tri_shards_tensor(shards, slice->tensor);
    if (slice->tensor >= shards->num_weights && !optimizer) continue;
    int64_t bad = -1;
    TRI_TRY(tri_checkpoint_slice_not_finite(slice, tensor->type, &bad));
    if (bad < 0) continue;
    return tri_fail(TRI_BAD_FILE, "%s: tensor `%s` has a value that is NaN or infinite",
                    tri_checkpoint_path(checkpoint), tensor->name);
  }
  return TRI_OK;
}

/* Whether a slice is read: of a checkpoint without its optimizer, or without averages of weights, what there is. */
static bool is_read(const tri_checkpoint *checkpoint, const tri_shards *shards, const tri_checkpoint_slice *slice,
                    bool optimizer) {
  if (slice->tensor < shards->num_weights) return true;
  const bool average = slice->tensor >= shards->num_weights + shards->num_kept;
  return optimizer && (!average || has_averages(checkpoint, shards));
}

/* Every rank reads what it holds, and no more. */
static tri_status read_slices(tri_engine *engine, const tri_checkpoint *checkpoint, const tri_shards *shards,
                              bool optimizer) {
  for (int64_t i = 0; i < shards->num_slices; i++) {
    const tri_checkpoint_slice *slice = &shards->slices[i];
    const tri_checkpoint_tensor *tensor = tri_shards_tensor(shards, slice->tensor);
    if (!is_read(checkpoint, shards, slice, optimizer)) continue;
    tri_record record = tri_record_make(TRI_RECORD_WORK, "read a tensor");
    uint64_t ticket = tri_recorder_begin(&record);
    TRI_TRY(tri_checkpoint_read_slice(checkpoint, tensor->name, tensor->type, tensor->num_dims, tensor->shape, slice));
    tri_recorder_end(ticket);
  }
  return tri_shards_written(engine);
}

static int64_t integer_of(const json_t *object, const char *key) {
  return (int64_t)json_integer_value(json_object_get(object, key));
}

static void read_progress(const tri_checkpoint_state *state, tri_progress *out) {
  const json_t *more = state->progress;
  *out = (tri_progress){
      .step = state->step,
      .tokens = state->tokens,
      .updates = integer_of(more, "updates"),
      .bad_steps = integer_of(more, "bad_steps"),
      .seconds = json_number_value(json_object_get(more, "seconds")),
      .highest_lr = json_number_value(json_object_get(more, "highest_lr")),
      .average_weights = json_number_value(json_object_get(more, "average_weights")),
      .averaged = integer_of(more, "averaged"),
      .best_step = integer_of(more, "best_step"),
      .best_loss = json_number_value(json_object_get(more, "best_loss")),
      .not_better = integer_of(more, "not_better"),
  };
}

/* One that was imported has none: its moments are those of a fresh run. */
static bool has_optimizer(const tri_checkpoint *checkpoint, const tri_shards *shards) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  return state != NULL && (state->step > 0 || tri_checkpoint_has(checkpoint, shards->optimizer[0].name));
}

typedef struct loading {
  tri_engine *engine;
  const tri_run_config *config;
  tri_identity *identity;
  tri_take_up how;
  tri_progress *progress;
  bool plain_too;         /* a folder without checksums will do */
  tri_shards held, saved; /* what this rank holds, and its share of what all hold together */
} loading;

static bool has_adapter(const loading *l) { return tri_tuning_has_adapter(&l->config->model.tuning); }

static bool takes_optimizer(const loading *l, const tri_checkpoint *checkpoint) {
  return l->how != TRI_TAKE_UP_WEIGHTS && tri_identity_same_optimizer(l->config, checkpoint) &&
         has_optimizer(checkpoint, &l->held);
}

/* Whether values change on the way into memory, where checksums of the file mean nothing then. */
static bool converts(const tri_engine *engine, const tri_checkpoint *checkpoint, const tri_shards *shards) {
  tri_checkpoint_entry entry = tri_checkpoint_get_entry(checkpoint, 0);
  return tri_shards_keep_narrow(engine) || entry.tensor->type != tri_safetensors_type_of(shards->weights[0].type);
}

static bool is_damage(tri_status status) { return status == TRI_BAD_FILE || status == TRI_UNSUPPORTED; }

/* Reads what does not fit: because the checkpoint is damaged, or because it is another model's. */
static tri_status read_all(const loading *l, const tri_checkpoint *checkpoint, bool has_state, bool optimizer,
                           bool *damaged) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  tri_kept failure = {TRI_OK, ""};
  tri_status status = tri_common_failure(world, read_slices(l->engine, checkpoint, &l->held, optimizer));
  if (status == TRI_OK || !has_state) return status;
  tri_keep(&failure, status);
  *damaged = is_damage(tri_checkpoint_verify(world, tri_checkpoint_path(checkpoint)));
  return *damaged ? TRI_BAD_FILE : tri_kept_tell(&failure);
}

/* One rank looks: all read the same. */
static tri_status checkpointing_compare(const loading *l, const tri_checkpoint *checkpoint) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  if (l->identity == NULL) return TRI_OK;
  tri_status status = world->rank == 0 ? tri_identity_compare(l->identity, l->config, checkpoint, l->how) : TRI_OK;
  return tri_first_rank_status(world, status);
}

/* Whether the run keeps an average that the checkpoint has not: it begins with the weights. No optimizer that has
 * states of their kind goes with it. */
static bool begins_average(const loading *l, const tri_checkpoint *checkpoint) {
  return tri_average_is_kept(&l->config->optimizer.settings) && !has_averages(checkpoint, &l->held);
}

/* Each rank reads what it holds, once; together they then verify what came of it. A plain Hugging Face folder has no
 * checksums. */
static tri_status read_and_verify(const loading *l, const tri_checkpoint *checkpoint, bool *damaged) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  const char *path = tri_checkpoint_path(checkpoint);
  bool has_state = tri_checkpoint_get_state(checkpoint) != NULL;
  bool optimizer = takes_optimizer(l, checkpoint);
  bool whole = has_state && (l->held.elsewhere || converts(l->engine, checkpoint, &l->held));
  tri_status status = optimizer ? tri_shards_check_joined(l->engine, checkpoint) : TRI_OK;
  *damaged = false;
  TRI_TRY(tri_common_status(world, status));
  if (has_state || !l->plain_too)
    status = whole ? tri_checkpoint_verify(world, path) : tri_checkpoint_verify_frame(world, path);
  *damaged = is_damage(status);
  if (status == TRI_OK) status = checkpointing_compare(l, checkpoint);
  if (status == TRI_OK) status = read_all(l, checkpoint, has_state, optimizer, damaged);
  if (status == TRI_OK && (!optimizer || begins_average(l, checkpoint))) status = tri_engine_begin_states(l->engine);
  if (status != TRI_OK || !has_state || whole) return status;
  const tri_shards *saved = &l->saved;
  status = tri_checkpoint_verify_slices(world, checkpoint, saved->weights, saved->num_weights, saved->optimizer,
                                        optimizer ? saved->num_optimizer : 0, saved->slices, saved->num_slices);
  *damaged = is_damage(status);
  return status;
}

/* In the end what was read must be what a step can begin with: else it is as bad as if it were damaged. */
static tri_status read_good(const loading *l, const tri_checkpoint *checkpoint, bool *damaged) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  TRI_TRY(read_and_verify(l, checkpoint, damaged));
  bool optimizer = takes_optimizer(l, checkpoint);
  tri_status status = tri_common_failure(world, check_finite(checkpoint, &l->held, optimizer));
  *damaged = is_damage(status);
  return status;
}

/* An average ends where the run keeps none, and begins where the checkpoint has none: both are said. */
static void take_up_average(const loading *l, const tri_checkpoint *checkpoint) {
  tri_progress *progress = l->progress;
  const bool kept = tri_average_is_kept(&l->config->optimizer.settings), begins = begins_average(l, checkpoint);
  if (kept && begins) {
    tri_log("%s has no average of the weights: it begins here, as `average.every` says",
            tri_checkpoint_path(checkpoint));
  } else if (!kept && progress->averaged > 0) {
    tri_warn("%s has an average of the weights, which ends here: the run has average.every 0",
             tri_checkpoint_path(checkpoint));
  }
  if (!kept || begins) progress->averaged = 0;
}

/* Whoever begins with a run's weights may have meant its average. */
static void say_average_stays(const tri_checkpoint *checkpoint) {
  const size_t ending = strlen(TRI_CHECKPOINT_AVERAGE);
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(checkpoint); i++) {
    const char *name = tri_checkpoint_get_entry(checkpoint, i).tensor->name;
    const size_t length = strlen(name);
    if (length < ending || strcmp(name + length - ending, TRI_CHECKPOINT_AVERAGE) != 0) continue;
    tri_log(
        "%s has an average of the weights, too, with which nothing begins; to begin with it, export it first: trireme "
        "export --average",
        tri_checkpoint_path(checkpoint));
    return;
  }
}

/* What is judged by another measure from here on is not held against the lowest loss of before: nothing might ever be
 * better, or all of it. */
static void take_up_best(const loading *l, const tri_checkpoint_state *state) {
  tri_progress *progress = l->progress;
  const char *key = tri_identity_other_measure(l->identity, l->config, state);
  if (key[0] == '\0' || progress->best_step == 0) return;
  tri_log(
      "with another %s the validation loss measures something else: the lowest so far, %.4f after step %ld, counts no "
      "more for "
      "checkpoint.best and evaluation.stop_after",
      key, progress->best_loss, (long)progress->best_step);
  progress->best_step = progress->not_better = 0;
  progress->best_loss = 0;
}

/* The state of a checkpoint into the engine: a tri_checkpoint_try. */
static tri_status load_from(void *context, const char *path, bool *damaged) {
  const loading *l = context;
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  tri_checkpoint *checkpoint = NULL;
  tri_status status = tri_engine_finish(l->engine); /* the host writes to its arrays */
  status = tri_common_failure(world, status == TRI_OK ? tri_checkpoint_open(path, &checkpoint) : status);
  *damaged = is_damage(status);
  if (status == TRI_OK) status = read_good(l, checkpoint, damaged);
  if (status == TRI_OK) {
    const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
    if (state != NULL && l->how != TRI_TAKE_UP_WEIGHTS) {
      read_progress(state, l->progress);
      l->progress->samples = tri_identity_next_sample(l->config, state);
      if (!takes_optimizer(l, checkpoint)) { /* its states begin anew */
        l->progress->updates = 0;
        l->progress->highest_lr = l->progress->average_weights = 0;
        l->progress->averaged = 0;
      }
      take_up_average(l, checkpoint);
      take_up_best(l, state);
      tri_log("resuming from %s, after step %ld", path, (long)l->progress->step);
    } else {
      tri_log("beginning with the weights of %s", path);
      say_average_stays(checkpoint);
    }
    tri_engine_parameters_changed(l->engine);
  }
  tri_checkpoint_close(checkpoint);
  return status;
}

/* Loads the checkpoint that `given` means: a folder, or the newest good one of a run's output. */
static tri_status load_named(loading *l, const char *given, bool optimizer, char path[TRI_PATH_BYTES]) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  const tri_checkpoint_use use = {.optimizer = optimizer};
  char found[TRI_PATH_BYTES] = "";
  bool damaged = false;
  tri_status status = world->rank == 0 ? tri_checkpoint_find(given, &use, found) : TRI_OK;
  TRI_TRY(tri_first_rank_status(world, status));
  TRI_TRY(tri_broadcast(world, 0, sizeof found, found));
  memcpy(path, found, sizeof found);
  l->plain_too = true;
  return load_from(l, path, &damaged);
}

/* Says what else the adapter has that a run begins with factors of; PEFT must take those. */
static tri_status note_others(const char *folder) {
  tri_checkpoint *adapter = NULL;
  const char *first = NULL;
  int64_t others = 0;
  TRI_TRY(tri_checkpoint_open(folder, &adapter));
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(adapter); i++) {
    const char *name = tri_checkpoint_get_entry(adapter, i).tensor->name;
    if (strstr(name, ".lora_A.") != NULL || strstr(name, ".lora_B.") != NULL) continue;
    if (others++ == 0) first = name;
  }
  if (others > 0) {
    tri_log(
        "`adapter.from` takes the factors alone: %ld other tensor%s of %s (`%.100s`%s) %s left out; to begin with all "
        "of "
        "it, name what `trireme export --merge` makes of it as `init`",
        (long)others, others == 1 ? "" : "s", folder, first, others == 1 ? "" : ", ...", others == 1 ? "is" : "are");
  }
  const tri_status status = tri_peft_check_targets(adapter);
  tri_checkpoint_close(adapter);
  return status;
}

/* What a run begins with factors of must have some. */
static tri_status check_factors(const loading *l, const char *given) {
  const tri_checkpoint_use use = {.settings_only = true};
  char folder[TRI_PATH_BYTES];
  if (tri_engine_mesh(l->engine)->world.rank > 0) return TRI_OK;
  TRI_TRY(tri_checkpoint_find(given, &use, folder));
  TRI_TRY(tri_peft_check_from(folder, &l->config->model.tuning.adapter, NULL));
  return note_others(folder);
}

/* A run that has nothing to go on from begins with the weights that `init` names, if it does; one with an adapter, with
 * factors that `adapter.from` names. */
static tri_status load_init(loading *l) {
  char path[TRI_PATH_BYTES];
  const char *from = has_adapter(l) ? l->config->adapter_from : l->config->init;
  if (from[0] == '\0') return TRI_OK;
  l->how = TRI_TAKE_UP_WEIGHTS;
  if (!has_adapter(l)) return load_named(l, from, false, path);
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  TRI_TRY(tri_first_rank_status(world, check_factors(l, from)));
  loading factors = *l;
  TRI_TRY(tri_common_status(world, tri_shards_create(l->engine, TRI_SHARDS_LOAD_FACTORS, &factors.held)));
  tri_status status = load_named(&factors, from, false, path);
  tri_shards_release(&factors.held);
  return status;
}

/* Whether `--resume FOLDER` began the run and it has saved nothing since: a start that says `auto`, such as that after
 * a lost rank, goes on from that folder then, and not from what was in the output before, or from nothing. */
static tri_status is_at_its_beginning(const loading *l, const char *root, bool *out) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  int64_t highest = -1;
  *out = false;
  if (l->identity == NULL || l->identity->from[0] == '\0') return TRI_OK;
  if (world->rank == 0) highest = tri_checkpoint_highest_step(root);
  TRI_TRY(tri_broadcast(world, 0, sizeof highest, &highest));
  *out = highest <= l->identity->from_step;
  return TRI_OK;
}

/* Finds what `resume` says and loads it; path is "" for none. Moving things about is the first rank's. */
static tri_status find_and_load(loading *l, const char *root, const char *resume, char path[TRI_PATH_BYTES]) {
  const tri_group *world = &tri_engine_mesh(l->engine)->world;
  path[0] = '\0';
  if (strcmp(resume, "never") == 0) return load_init(l); /* what was there is aside already: output.h */
  bool from = false;
  TRI_TRY(is_at_its_beginning(l, root, &from));
  if (strcmp(resume, "auto") == 0 && !from) {
    TRI_TRY(tri_checkpoint_newest_that(world, root, load_from, l, path));
    return path[0] == '\0' ? load_init(l) : TRI_OK;
  }
  l->how = TRI_TAKE_UP_BRANCH;
  return load_named(l, from && strcmp(resume, "auto") == 0 ? l->identity->from : resume, true, path);
}

/* What lies beyond the branch's beginning makes room for it. Whoever is killed in between begins it once more. */
static tri_status begin_branch(const loading *l, const char *path) {
  const tri_run_config *config = l->config;
  if (l->identity != NULL) TRI_TRY(tri_identity_note_from(l->identity, config, path, INT64_MAX));
  TRI_TRY(tri_output_make_room(config->output, path, l->progress->step));
  return l->identity == NULL ? TRI_OK : tri_identity_note_from(l->identity, config, path, l->progress->step);
}

tri_status tri_checkpointing_load(tri_engine *engine, const tri_run_config *config, tri_identity *identity,
                                  const char *resume, tri_progress *progress, bool *found) {
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES] = "";
  const tri_group *world = &tri_engine_mesh(engine)->world;
  loading l = {.engine = engine, .config = config, .identity = identity, .progress = progress};
  TRI_TRY(tri_path_join(root, config->output, "checkpoints"));
  tri_status status = tri_shards_create(engine, TRI_SHARDS_LOAD, &l.held);
  if (status == TRI_OK) status = tri_shards_create(engine, TRI_SHARDS_SAVE, &l.saved);
  status = tri_common_status(world, status);
  if (status == TRI_OK) status = tri_common_status(world, find_and_load(&l, root, resume, path));
  tri_shards_release(&l.saved);
  tri_shards_release(&l.held);
  TRI_TRY(status);
  *found = path[0] != '\0';
  if (!*found || l.how != TRI_TAKE_UP_BRANCH) return TRI_OK;
  return tri_first_rank_status(world, world->rank == 0 ? begin_branch(&l, path) : TRI_OK);
}

tri_status tri_checkpointing_load_base(tri_engine *engine, const tri_run_config *config, tri_identity *identity) {
  const tri_group *world = &tri_engine_mesh(engine)->world;
  loading l = {.engine = engine, .config = config, .identity = identity, .how = TRI_TAKE_UP_WEIGHTS};
  char path[TRI_PATH_BYTES];
  if (!has_adapter(&l)) return TRI_OK;
  tri_status status = tri_common_status(world, tri_shards_create(engine, TRI_SHARDS_LOAD_BASE, &l.held));
  if (status == TRI_OK) status = tri_common_status(world, load_named(&l, config->init, false, path));
  tri_shards_release(&l.held);
  return status;
}
