#include "run/identity.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/system.h"
#include "checkpoint/run_notes.h"
#include "checkpoint/tensor_sums.h"
#include "checkpoint/ties.h"
#include "comm/agreement.h"
#include "files/hub.h"
#include "run/allowed_changes.h"
#include "run/trained_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_FILE_BYTES = 1 << 16 };

#define RUN_FILE "run.json"

enum { BASE_TYPE_BYTES = sizeof(((tri_identity *)0)->base_type) };

static const char *text_at(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text == NULL ? "" : text;
}

/* ---- the name ---------------------------------------------------------------------------------------------------- */

static tri_status read_run(const char *path, tri_identity *out) {
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_file_read_plain(path, RUN_FILE_BYTES, &text, &bytes));
  json_t *document = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
  tri_free(text);
  const char *name = text_at(document, "run"), *from = text_at(document, "from");
  const json_t *base = json_object_get(document, "base");
  bool known = tri_fingerprint_is_valid(name) && strlen(from) < sizeof out->from;
  if (known) {
    snprintf(out->run, sizeof out->run, "%s", name);
    snprintf(out->begun, sizeof out->begun, "%s", text_at(document, "time"));
    snprintf(out->from, sizeof out->from, "%s", from);
    out->from_step = (int64_t)json_integer_value(json_object_get(document, "from_step"));
    snprintf(out->base_type, sizeof out->base_type, "%s", text_at(document, "base_type"));
    snprintf(out->signature.frame, sizeof out->signature.frame, "%s", text_at(base, "signature"));
    snprintf(out->signature.values, sizeof out->signature.values, "%s", text_at(base, "values"));
    out->base_files = strtoull(text_at(base, "files"), NULL, 16);
  }
  json_decref(document);
  if (known) return TRI_OK;
  return tri_fail(
      TRI_BAD_FILE,
      "%s does not contain the id of a run; remove it to give the run a new id (its checkpoints can still be resumed)",
      path);
}

static tri_status write_run(const char *path, const tri_identity *identity) {
  char files[20];
  snprintf(files, sizeof files, "%016" PRIx64, identity->base_files);
  json_t *document =
      json_pack("{s:s, s:s, s:s, s:I, s:s, s:{s:s, s:s, s:s}}", "format", "trireme run", "run", identity->run, "from",
                identity->from, "from_step", (json_int_t)identity->from_step, "base_type", identity->base_type, "base",
                "signature", identity->signature.frame, "values", identity->signature.values, "files", files);
  if (document != NULL && identity->begun[0] != '\0')
    json_object_set_new(document, "time", json_string(identity->begun));
  char *text = document == NULL ? NULL : json_dumps(document, JSON_INDENT(1));
  json_decref(document);
  if (text == NULL) return tri_fail_internal("%s cannot be written as JSON: not UTF-8, or no memory", path);
  tri_status status = tri_file_replace(path, text, strlen(text));
  free(text);
  return status;
}

/* Copies the run's name from a checkpoint to `context`, if the checkpoint has one. Sets *damaged if the checkpoint
 * cannot be opened. The function is a tri_checkpoint_try. */
static tri_status copy_name(void *context, const char *path, bool *damaged) {
  tri_checkpoint *checkpoint = NULL;
  tri_status status = tri_checkpoint_open(path, &checkpoint);
  *damaged = status != TRI_OK;
  TRI_TRY(status);
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  const char *name = state == NULL ? "" : text_at(json_object_get(state->progress, "identity"), "run");
  if (tri_fingerprint_is_valid(name)) snprintf(context, TRI_FINGERPRINT_BYTES, "%s", name);
  tri_checkpoint_close(checkpoint);
  return TRI_OK;
}

/* Finds the run's name in the newest checkpoint, for an output whose run.json was removed. Leaves `out` unchanged if
 * there is no checkpoint. */
static void recall_name(const char *output, char out[TRI_FINGERPRINT_BYTES]) {
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  tri_group alone = tri_group_alone("recall");
  if (tri_path_join(root, output, "checkpoints") != TRI_OK) return;
  (void)tri_checkpoint_newest_that(&alone, root, copy_name, out, path);
}

/* Sets `out` to the type of the weights in `init`. Leaves it unchanged if the folder cannot be opened, which is
 * reported later, where its weights are read. */
static void find_base_type(const char *init, char out[BASE_TYPE_BYTES]) {
  char folder[TRI_PATH_BYTES];
  tri_checkpoint *base = NULL;
  const tri_checkpoint_use use = {.settings_only = true};
  if (init[0] == '\0' || tri_checkpoint_find(init, &use, folder) != TRI_OK) return;
  if (tri_checkpoint_open(folder, &base) != TRI_OK) return;
  snprintf(out, BASE_TYPE_BYTES, "%s", tri_run_notes_type(base));
  tri_checkpoint_close(base);
}

static tri_status find_name(const tri_run_config *config, bool anew, tri_identity *out) {
  char path[TRI_PATH_BYTES];
  const char *output = config->output;
  TRI_TRY(tri_path_join(path, output, RUN_FILE));
  if (!anew && tri_path_exists(path)) return read_run(path, out);
  if (!anew) recall_name(output, out->run);
  out->is_new = out->run[0] == '\0';
  find_base_type(config->init, out->base_type);
  if (out->is_new) tri_clock_text(out->begun);
  return out->is_new ? tri_system_unique(out->run) : TRI_OK;
}

/* ---- the base of an adapter -------------------------------------------------------------------------------------- */

/* The base of an adapter while its signature is computed. The first rank decides whether tensors must be read; if so,
 * all ranks read. */
typedef struct open_base {
  tri_checkpoint *checkpoint;
  char folder[TRI_PATH_BYTES];
  int64_t needs_sums; /* 1 if the base's files record no checksums, and run.json has none for these files in their
                         present state; else 0 */
  uint64_t *sums;     /* checksums of the base's tensors, if needs_sums */
  tri_model model;    /* model of the base; only on the first rank */
} open_base;

static tri_status find_base_path(const char *init, const char *folder, char out[TRI_PATH_BYTES]) {
  if (!tri_path_exists(init) && tri_hub_name_length(init) > 0) {
    snprintf(out, TRI_PATH_BYTES, "%s", init);
  } else if (realpath(folder, out) == NULL) {
    return tri_fail(TRI_BAD_FILE, "cannot find out where %s is: %s", folder, strerror(errno));
  }
  return TRI_OK;
}

/* LOCAL, on the first rank. Opens the base, loads its model, sets identity->base to its path, and decides whether its
 * tensors must be read; if so, logs this. Fails with TRI_BAD_CONFIG if it is an adapter. */
static tri_status begin_signing(const tri_run_config *config, tri_identity *identity, open_base *base) {
  const tri_checkpoint_use use = {.optimizer = false};
  TRI_TRY(tri_checkpoint_find(config->init, &use, base->folder));
  TRI_TRY(find_base_path(config->init, base->folder, identity->base));
  TRI_TRY(tri_checkpoint_open(base->folder, &base->checkpoint));
  if (tri_checkpoint_is_adapter(base->checkpoint)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`init`: %s is an adapter, not a base model; name its base, and the adapter in "
                    "`adapter.from` to begin with its factors",
                    base->folder);
  }
  tri_base_signature recorded;
  TRI_TRY(tri_ties_load_model(base->checkpoint, true, false, &base->model));
  TRI_TRY(tri_base_signature_of(base->checkpoint, &base->model, NULL, &recorded));
  const bool known =
      identity->signature.values[0] != '\0' && tri_tensor_files_hash(base->checkpoint) == identity->base_files;
  base->needs_sums = recorded.values[0] == '\0' && !known;
  if (base->needs_sums) tri_log("computing the checksums of %s, which it does not record", identity->base);
  return TRI_OK;
}

/* COLLECTIVE. Opens the base on the ranks that have not done so, and computes the checksums of its tensors; each rank
 * reads some of them. */
static tri_status sum_base(const tri_group *world, open_base *base) {
  tri_status status = base->checkpoint == NULL ? tri_checkpoint_open(base->folder, &base->checkpoint) : TRI_OK;
  const int64_t count = status == TRI_OK ? tri_checkpoint_num_tensors(base->checkpoint) : 0;
  if (status == TRI_OK) status = tri_alloc("checksums of a base", (size_t)count, sizeof *base->sums, &base->sums);
  TRI_TRY(tri_common_status(world, status));
  return tri_tensor_sums(world, base->checkpoint, base->sums);
}

static tri_status base_changed(const tri_run_config *config, const tri_identity *identity,
                               const tri_base_signature *there) {
  char before[TRI_BASE_SIGNATURE_TEXT_BYTES], now[TRI_BASE_SIGNATURE_TEXT_BYTES];
  if (tri_change_is_allowed(config->allow_change, "adapter")) {
    tri_log("the base %s is not the one that the run began with, as `allow_change` allows", identity->base);
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_FILE,
                  "the base %s has changed since the run in %s began: its signature was %s and is %s; an adapter is "
                  "valid only for the weights that it was trained on; restore them, start over with --resume never, "
                  "or, if the change is intended, --set allow_change=adapter",
                  identity->base, config->output, tri_base_signature_text(there, before),
                  tri_base_signature_text(&identity->signature, now));
}

/* LOCAL, on the first rank. Sets identity->signature and base_files to those of the base, and compares the signature
 * with the one in run.json. Fails with TRI_BAD_FILE if they differ and `allow_change` does not allow this. */
static tri_status end_signing(const tri_run_config *config, tri_identity *identity, const open_base *base) {
  const tri_base_signature there = identity->signature;
  tri_base_signature found;
  TRI_TRY(tri_base_signature_of(base->checkpoint, &base->model, base->sums, &found));
  /* The files have not changed since these checksums were recorded. */
  if (found.values[0] == '\0') memcpy(found.values, there.values, sizeof found.values);
  identity->signature = found;
  identity->base_files = tri_tensor_files_hash(base->checkpoint);
  return tri_base_signature_same(&there, &found) ? TRI_OK : base_changed(config, identity, &there);
}

static tri_status find_base(const tri_group *world, const tri_run_config *config, tri_identity *identity) {
  open_base *base = NULL;
  const bool first = world->rank == 0;
  if (config->model.tuning.adapter.rank == 0) return TRI_OK;
  TRI_TRY(tri_alloc("a base", 1, sizeof *base, &base));
  tri_status status = tri_first_rank_status(world, first ? begin_signing(config, identity, base) : TRI_OK);
  if (status == TRI_OK) status = tri_broadcast(world, 0, sizeof base->folder, base->folder);
  if (status == TRI_OK) status = tri_broadcast(world, 0, sizeof base->needs_sums, &base->needs_sums);
  if (status == TRI_OK && base->needs_sums) status = sum_base(world, base);
  if (status == TRI_OK) status = tri_first_rank_status(world, first ? end_signing(config, identity, base) : TRI_OK);
  tri_free(base->sums);
  tri_checkpoint_close(base->checkpoint);
  tri_free(base);
  return status;
}

static tri_status write_name(const tri_run_config *config, const tri_identity *identity) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, config->output, RUN_FILE));
  return write_run(path, identity);
}

tri_status tri_identity_open(const tri_group *world, const tri_run_config *config, bool anew, tri_identity *out) {
  TRI_TRY(tri_first_rank_status(world, world->rank == 0 ? find_name(config, anew, out) : TRI_OK));
  TRI_TRY(find_base(world, config, out));
  TRI_TRY(tri_first_rank_status(world, world->rank == 0 ? write_name(config, out) : TRI_OK));
  return tri_broadcast(world, 0, sizeof *out, out); /* includes the fingerprints, which are equal on all ranks */
}

tri_status tri_identity_note_from(tri_identity *identity, const tri_run_config *config, const char *folder,
                                  int64_t step) {
  char path[TRI_PATH_BYTES], absolute[TRI_PATH_BYTES];
  if (realpath(folder, absolute) == NULL) {
    return tri_fail(TRI_BAD_FILE, "cannot find out where %s is: %s", folder, strerror(errno));
  }
  TRI_TRY(tri_path_join(path, config->output, RUN_FILE));
  memcpy(identity->from, absolute, sizeof absolute);
  identity->from_step = step;
  return write_run(path, identity);
}

/* Returns an object for a single source, or a list of the sources with their weights. */
static json_t *train_json(const tri_identity *identity, const tri_run_config *config) {
  const tri_train_source *train = config->data.train;
  if (config->data.num_train == 1)
    return json_pack("{s:s, s:s}", "path", train->path, "fingerprint", identity->train[0]);
  json_t *list = json_array();
  for (int64_t k = 0; k < config->data.num_train; k++) {
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:f, s:f}", "path", train[k].path, "fingerprint", identity->train[k], "weight",
                        train[k].weight, "label_weight", train[k].label_weight));
  }
  return list;
}

/* Returns the name of the optimizer of each parameter group. */
static json_t *optimizers_json(const tri_run_config *config) {
  json_t *object = json_object();
  for (int g = 0; g < TRI_NUM_GROUPS; g++) {
    const tri_parameter_group group = (tri_parameter_group)g;
    json_object_set_new(object, tri_parameter_group_name(group),
                        json_string(tri_optimizer_of_group(&config->optimizer.settings, group)->name));
  }
  return object;
}

/* Returns the descriptions of the frozen parameters and of the adapter. */
static json_t *trained_json(const tri_run_config *config) {
  char freeze[TRI_TRAINABLE_TEXT_BYTES], adapter[TRI_ADAPTER_TEXT_BYTES];
  tri_trainable_describe(&config->model.tuning.freeze, freeze, sizeof freeze);
  tri_adapter_text(&config->model.tuning.adapter, adapter);
  return json_pack("{s:s, s:s}", "freeze", freeze, "adapter", adapter);
}

json_t *tri_identity_print(const tri_identity *identity, const tri_run_config *config) {
  return json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:s}, s:s, s:s, s:s, s:o, s:o, s:I}", "base_type", identity->base_type,
                   "run", identity->run, "tokenizer", identity->tokenizer, "train", train_json(identity, config),
                   "validation", "path", config->data.validation, "fingerprint", identity->validation, "documents",
                   tri_run_config_documents(config->data.documents), "packing",
                   tri_run_config_packing(config->data.packing), "too_long",
                   tri_run_config_too_long(config->data.too_long), "optimizers", optimizers_json(config), "trained",
                   trained_json(config), "steps", (json_int_t)config->optimizer.steps);
}
