#include "train/checkpointing.h"

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/huggingface.h"
#include "comm/agreement.h"
#include "train/global.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A checkpoint's tensors are the global ones, under the names of the parameter table and, for the moments, a suffix.
 * Where one rank holds all they are views of its arrays; else the first rank collects them. */
typedef struct tensors {
  tri_checkpoint_tensor *weights;   /* [n] */
  tri_checkpoint_tensor *optimizer; /* [2 n] */
  char (*names)[128];               /* [2 n] */
  int64_t *entries;                 /* [n]: in the table */
  int64_t n;
  char *memory; /* NULL: views */
} tensors;

static tri_checkpoint_tensor tensor_of(const tri_parameter *parameter, const char *name, tri_dtype wide) {
  tri_checkpoint_tensor tensor = {.name = name, .type = wide, .num_dims = parameter->num_dims};
  for (int d = 0; d < parameter->num_dims; d++) tensor.shape[d] = parameter->shape[d];
  return tensor;
}

static void tensors_release(tensors *t) {
  tri_free(t->memory);
  tri_free(t->entries);
  tri_free(t->names);
  tri_free(t->optimizer);
  tri_free(t->weights);
}

/* Names and shapes. On failure the caller releases what there is. */
static tri_status tensors_create(tri_engine *engine, tri_dtype wide, tensors *out) {
  const tri_parameter_table *table = tri_engine_parameters(engine);
  size_t n = (size_t)table->num_entries;
  TRI_TRY(tri_alloc("a checkpoint's list", n, sizeof *out->weights, &out->weights));
  TRI_TRY(tri_alloc("a checkpoint's list", 2 * n, sizeof *out->optimizer, &out->optimizer));
  TRI_TRY(tri_alloc("a checkpoint's list", 2 * n, sizeof *out->names, &out->names));
  TRI_TRY(tri_alloc("a checkpoint's list", n, sizeof *out->entries, &out->entries));
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *parameter = &table->entries[e];
    if (parameter->tied_to >= 0) continue;
    int64_t i = out->n++;
    char *name1 = out->names[2 * i], *name2 = out->names[2 * i + 1];
    snprintf(name1, sizeof out->names[0], "%s%s", parameter->name, TRI_CHECKPOINT_MOMENT1);
    snprintf(name2, sizeof out->names[0], "%s%s", parameter->name, TRI_CHECKPOINT_MOMENT2);
    out->entries[i] = e;
    out->weights[i] = tensor_of(parameter, parameter->name, wide);
    out->optimizer[2 * i] = tensor_of(parameter, name1, wide);
    out->optimizer[2 * i + 1] = tensor_of(parameter, name2, wide);
  }
  return TRI_OK;
}

static void view_arrays(tri_engine *engine, tensors *t, size_t element) {
  const tri_executor *executor = tri_engine_executor(engine);
  for (int64_t i = 0; i < t->n; i++) {
    size_t offset = (size_t)tri_engine_parameters(engine)->entries[t->entries[i]].offset * element;
    t->weights[i].data = (const char *)tri_executor_values(executor) + offset;
    t->optimizer[2 * i].data = (const char *)tri_executor_moment1(executor) + offset;
    t->optimizer[2 * i + 1].data = (const char *)tri_executor_moment2(executor) + offset;
  }
}

/* COLLECTIVE. Gives every tensor its data, on the first rank. */
static tri_status collect(tri_engine *engine, tensors *t, size_t element) {
  const tri_parameter_table *table = tri_engine_parameters(engine);
  const tri_group *world = &tri_engine_mesh(engine)->world;
  if (world->size == 1) {
    view_arrays(engine, t, element);
    return TRI_OK;
  }
  if (world->rank == 0) {
    TRI_TRY(tri_alloc("the tensors of a checkpoint", 3 * (size_t)table->num_values, element, &t->memory));
  }
  char *to = t->memory;
  for (int64_t i = 0; i < t->n; i++) {
    size_t bytes = (size_t)tri_parameter_global_count(&table->entries[t->entries[i]]) * element;
    tri_checkpoint_tensor *tensor[] = {&t->weights[i], &t->optimizer[2 * i], &t->optimizer[2 * i + 1]};
    const tri_array arrays[] = {TRI_ARRAY_VALUES, TRI_ARRAY_MOMENT1, TRI_ARRAY_MOMENT2};
    for (int k = 0; k < 3; k++) {
      TRI_TRY(tri_global_collect(engine, arrays[k], t->entries[i], to));
      tensor[k]->data = to;
      if (to != NULL) to += bytes;
    }
  }
  return TRI_OK;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static tri_status save_tensors(const tensors *v, const tri_run_config *config, const tri_progress *progress,
                               const char *tokenizer) {
  char root[TRI_PATH_BYTES];
  char *run_config = NULL;
  char *model_config = NULL;
  json_t *more = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_path_join(root, config->output, "checkpoints"));
  TRI_TRY_GOTO(tri_run_config_print(config, &run_config), done);
  TRI_TRY_GOTO(tri_huggingface_print(&config->model, tri_dtype_wide(config->precision), -1, &model_config), done);
  more = json_pack("{s:I, s:I, s:I, s:f}", "updates", (json_int_t)progress->updates, "bad_steps",
                   (json_int_t)progress->bad_steps, "bad_in_row", (json_int_t)progress->bad_in_row, "seconds",
                   progress->seconds);
  if (more == NULL) {
    status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the progress of a checkpoint");
    goto done;
  }
  tri_checkpoint_request request = {
      .root = root,
      .state = {.step = progress->step,
                .samples = progress->step * config->optimizer.global_batch,
                .tokens = progress->tokens,
                .seed = config->seed,
                .run_config = run_config,
                .progress = more},
      .weights = v->weights,
      .optimizer = v->optimizer,
      .num_weights = v->n,
      .num_optimizer = 2 * v->n,
      .model_config = model_config,
      .tokenizer = tokenizer[0] == '\0' ? NULL : tokenizer,
      .keep = config->checkpoint.keep,
  };
  status = tri_checkpoint_save(&request, NULL);
done:
  json_decref(more);
  tri_free(model_config);
  tri_free(run_config);
  return status;
}

/* The first rank writes; the others wait for its verdict, so that all end a failed save alike. */
static tri_status save_on_first(tri_engine *engine, const tensors *t, const tri_run_config *config,
                                const tri_progress *progress, const char *tokenizer) {
  const tri_group *world = &tri_engine_mesh(engine)->world;
  tri_status status = world->rank == 0 ? save_tensors(t, config, progress, tokenizer) : TRI_OK;
  return tri_first_rank_status(world, status);
}

tri_status tri_checkpointing_save(tri_engine *engine, const tri_run_config *config, const tri_progress *progress,
                                  const char *tokenizer) {
  tensors t = {0};
  tri_dtype wide = tri_dtype_wide(config->precision);
  tri_status status = tensors_create(engine, wide, &t);
  if (status == TRI_OK) status = collect(engine, &t, tri_dtype_bytes(wide));
  if (status == TRI_OK) status = save_on_first(engine, &t, config, progress, tokenizer);
  tensors_release(&t);
  return status;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Every rank reads each tensor whole and takes its part. */
static tri_status read_tensor(tri_engine *engine, const tri_checkpoint *checkpoint, const tri_checkpoint_tensor *t,
                              tri_array array, int64_t entry) {
  const tri_parameter *parameter = &tri_engine_parameters(engine)->entries[entry];
  void *tensor = NULL;
  size_t element = tri_dtype_bytes(t->type);
  TRI_TRY(tri_alloc("a tensor", (size_t)tri_parameter_global_count(parameter), element, &tensor));
  tri_status status = tri_checkpoint_read(checkpoint, t->name, t->type, t->num_dims, t->shape, tensor);
  if (status == TRI_OK) status = tri_global_distribute(engine, array, entry, tensor);
  /* The twin of a tied pair, where it is on this rank without the other. */
  const tri_parameter_table *table = tri_engine_parameters(engine);
  for (int64_t twin = 0; twin < table->num_entries && status == TRI_OK; twin++) {
    if (table->entries[twin].tied_to == entry) status = tri_global_distribute(engine, array, twin, tensor);
  }
  tri_free(tensor);
  return status;
}

static tri_status read_weights(tri_engine *engine, const tri_checkpoint *checkpoint, const tensors *t) {
  for (int64_t i = 0; i < t->n; i++) {
    TRI_TRY(read_tensor(engine, checkpoint, &t->weights[i], TRI_ARRAY_VALUES, t->entries[i]));
  }
  return TRI_OK;
}

static tri_status read_optimizer(tri_engine *engine, const tri_checkpoint *checkpoint, const tensors *t) {
  for (int64_t i = 0; i < t->n; i++) {
    TRI_TRY(read_tensor(engine, checkpoint, &t->optimizer[2 * i], TRI_ARRAY_MOMENT1, t->entries[i]));
    TRI_TRY(read_tensor(engine, checkpoint, &t->optimizer[2 * i + 1], TRI_ARRAY_MOMENT2, t->entries[i]));
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

/* A plain Hugging Face folder has weights alone: the run begins at step 0 from them. */
static tri_status load_from(tri_engine *engine, const tri_run_config *config, const char *path,
                            tri_progress *progress) {
  tensors t = {0};
  tri_checkpoint *checkpoint = NULL;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tensors_create(engine, tri_dtype_wide(config->precision), &t), done);
  TRI_TRY_GOTO(tri_checkpoint_open(path, &checkpoint), done);
  TRI_TRY_GOTO(read_weights(engine, checkpoint, &t), done);
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  if (state != NULL) {
    compare_seeds(config, checkpoint, state);
    TRI_TRY_GOTO(read_optimizer(engine, checkpoint, &t), done);
    TRI_TRY_GOTO(read_progress(state, progress), done);
    tri_log("resuming from %s, after step %ld", path, (long)progress->step);
  } else {
    tri_log("beginning with the weights of %s", path);
  }
  tri_engine_parameters_changed(engine);
done:
  tri_checkpoint_close(checkpoint);
  tensors_release(&t);
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
static tri_status choose(const char *root, const char *resume, char path[TRI_PATH_BYTES]) {
  path[0] = '\0';
  if (strcmp(resume, "never") == 0) return move_all_aside(root);
  if (strcmp(resume, "auto") == 0) return tri_path_exists(root) ? tri_checkpoint_newest(root, path) : TRI_OK;
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
  tri_status status = world->rank == 0 ? choose(root, resume, path) : TRI_OK;
  TRI_TRY(tri_first_rank_status(world, status));
  TRI_TRY(tri_broadcast(world, 0, sizeof path, path));
  if (path[0] == '\0') return TRI_OK;
  TRI_TRY(tri_common_status(world, load_from(engine, config, path, progress)));
  *found = true;
  if (strcmp(resume, "auto") == 0 || world->rank > 0) return TRI_OK;
  return move_later_aside(root, progress->step);
}
