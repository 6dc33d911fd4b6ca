#include "run/identity.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/system.h"
#include "checkpoint/config_vs_weights.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/peft.h"
#include "checkpoint/run_notes.h"
#include "checkpoint/tensor_list.h"
#include "checkpoint/tensor_sums.h"
#include "checkpoint/ties.h"
#include "comm/agreement.h"
#include "config/config.h"
#include "config/nearest_word.h"
#include "files/hub.h"
#include "model/model_config.h"
#include "run/learning_rate.h"
#include "run/preference_keys.h"
#include "run/resolve_auto.h"
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_FILE_BYTES = 1 << 16, CHANGES_BYTES = 8192, KEY_BYTES = 64 };

#define RUN_FILE "run.json"

enum { BASE_TYPE_BYTES = sizeof(((tri_identity *)0)->base_type) };

static const char *text_at(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text == NULL ? "" : text;
}

/* Copies the next word of a list that is separated by commas or blanks; returns false at its end. */
static bool next_word(const char **at, char word[KEY_BYTES]) {
  *at += strspn(*at, ", ");
  size_t length = strcspn(*at, ", ");
  if (length == 0) return false;
  snprintf(word, KEY_BYTES, "%.*s", (int)length, *at);
  *at += length;
  return true;
}

static bool is_allowed(const char *allow_change, const char *key) {
  char word[KEY_BYTES];
  while (next_word(&allow_change, word)) {
    if (strcmp(word, key) == 0) return true;
  }
  return false;
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
  char *text = document == NULL ? NULL : json_dumps(document, JSON_INDENT(1));
  json_decref(document);
  if (text == NULL) return tri_fail_internal("%s cannot be written as JSON: not UTF-8, or no memory", path);
  tri_status status = tri_file_replace(path, text, strlen(text));
  free(text);
  return status;
}

/* Copies the run's name from a checkpoint to `context` if the checkpoint can be opened and has one: a
 * tri_checkpoint_try. */
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

/* Finds the run's name in the newest checkpoint, for an output whose run.json was removed; leaves `out` as it is if
 * there is none. */
static void recall_name(const char *output, char out[TRI_FINGERPRINT_BYTES]) {
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  tri_group alone = tri_group_alone("recall");
  if (tri_path_join(root, output, "checkpoints") != TRI_OK) return;
  (void)tri_checkpoint_newest_that(&alone, root, copy_name, out, path);
}

/* Finds the type of the weights in `init`. A folder that cannot be opened is reported later, where its weights are
 * read. */
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
  return out->is_new ? tri_system_unique(out->run) : TRI_OK;
}

/* ---- the base of an adapter -------------------------------------------------------------------------------------- */

/* The base of an adapter while its signature is computed. The first rank decides whether tensors must be read; then all
 * ranks read. */
typedef struct open_base {
  tri_checkpoint *checkpoint;
  char folder[TRI_PATH_BYTES];
  int64_t needs_sums; /* it records no checksums, and its files have changed since the last time */
  uint64_t *sums;     /* checksums of its tensors, if needs_sums */
  tri_model model;    /* only on the first rank */
} open_base;

static tri_status find_base_path(const char *init, const char *folder, char out[TRI_PATH_BYTES]) {
  if (!tri_path_exists(init) && tri_hub_name_length(init) > 0) {
    snprintf(out, TRI_PATH_BYTES, "%s", init);
  } else if (realpath(folder, out) == NULL) {
    return tri_fail(TRI_BAD_FILE, "cannot find out where %s is: %s", folder, strerror(errno));
  }
  return TRI_OK;
}

/* On the first rank: opens the base and decides whether its tensors must be read. */
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

/* COLLECTIVE. Computes the checksums of the base's tensors; each rank reads some of them. */
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
  if (is_allowed(config->allow_change, "adapter")) {
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

/* On the first rank: computes the base's signature, and compares it with the one in run.json. */
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

enum {
  PATTERNS_BYTES = TRI_ADAPTER_PATTERNS * (TRI_TRAINABLE_WORD_BYTES + 32) + 32,
  TUNING_BYTES = 2 * TRI_TRAINABLE_TEXT_BYTES + 2 * PATTERNS_BYTES + 100
};

static const char *describe_quantise(tri_quantise quantise) {
  switch (quantise) {
    case TRI_QUANTISE_NONE: return "";
    case TRI_QUANTISE_NF4: break;
  }
  return ", the base in nf4";
}

/* Describes the scaling, because factors mean something different under another scaling. */
static const char *describe_scaling(tri_scaling scaling) {
  switch (scaling) {
    case TRI_SCALING_LORA: return "";
    case TRI_SCALING_RSLORA: break;
  }
  return " (rslora)";
}

/* Describes factors that are shared by two tied matrices. */
static const char *describe_ties(bool ensure) { return ensure ? " (tied)" : ""; }

/* Describes the initialization if its factors are subtracted from the trained ones. */
static const char *describe_init(tri_adapter_init init) {
  switch (init) {
    case TRI_ADAPTER_KAIMING:
    case TRI_ADAPTER_GAUSSIAN: return "";
    case TRI_ADAPTER_PISSA: break;
  }
  return " (pissa)";
}

static void describe_patterns(const tri_adapter_patterns *patterns, const char *key, char out[PATTERNS_BYTES]) {
  size_t held = 0;
  out[0] = '\0';
  for (int64_t i = 0; i < patterns->count; i++) {
    const tri_adapter_pattern *entry = &patterns->entries[i];
    held += (size_t)snprintf(out + held, PATTERNS_BYTES - held, "%s%s: %.12g", i == 0 ? key : ", ", entry->pattern,
                             entry->rank > 0 ? (double)entry->rank : entry->alpha);
  }
  if (held > 0) snprintf(out + held, PATTERNS_BYTES - held, "}");
}

static void describe_adapter(const tri_adapter *adapter, char out[TUNING_BYTES]) {
  char targets[TRI_TRAINABLE_TEXT_BYTES], train[TRI_TRAINABLE_TEXT_BYTES];
  char ranks[PATTERNS_BYTES], alphas[PATTERNS_BYTES];
  out[0] = '\0';
  if (adapter->rank == 0) return;
  tri_trainable_describe(&adapter->targets, targets, sizeof targets);
  tri_trainable_describe(&adapter->train, train, sizeof train);
  describe_patterns(&adapter->rank_pattern, ", rank_pattern {", ranks);
  describe_patterns(&adapter->alpha_pattern, ", alpha_pattern {", alphas);
  snprintf(out, TUNING_BYTES, "rank %ld, alpha %.12g%s%s%s%s%s%s, targets %s%s%s%s", (long)adapter->rank,
           adapter->alpha, describe_scaling(adapter->scaling), describe_init(adapter->init),
           describe_ties(adapter->ensure_weight_tying), adapter->magnitude ? ", magnitudes" : "", ranks, alphas,
           targets[0] == '\0' ? "all-linear" : targets, train[0] == '\0' ? "" : ", and ", train,
           describe_quantise(adapter->quantise));
}

/* Returns which parameters are trained. */
static json_t *trained_json(const tri_run_config *config) {
  char freeze[TRI_TRAINABLE_TEXT_BYTES], adapter[TUNING_BYTES];
  tri_trainable_describe(&config->model.tuning.freeze, freeze, sizeof freeze);
  describe_adapter(&config->model.tuning.adapter, adapter);
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

/* ---- differences ------------------------------------------------------------------------------------------------- */

/* Keys of the model that determine the shapes of its weights. */
static const char *const of_shape[] = {
    "family",         "num_layers",  "hidden_size", "ffn_size",    "vocab_size",      "tied",
    "attention_bias", "output_bias", "mlp_bias",    "num_experts", "expert_ffn_size", "shared_experts",
    "dense_layers",   "router_bias", NULL};

static const char *const other_keys[] = {"run",
                                         "data.train",
                                         "data.preferences",
                                         "data.tokenizer",
                                         "data.documents",
                                         "data.packing",
                                         "data.too_long",
                                         "data.sequence",
                                         "data.max_samples",
                                         "seed",
                                         "optimizer.name",
                                         "freeze",
                                         "adapter",
                                         NULL};

/* Keys that determine which samples follow. */
static const char *const of_samples[] = {"data.train",
                                         "data.preferences",
                                         "data.documents",
                                         "data.packing",
                                         "data.too_long",
                                         "data.sequence",
                                         "data.max_samples",
                                         "seed",
                                         NULL};

/* Keys that determine the log-probabilities of answers. */
static const char *const of_answers[] = {"data.preferences", "data.tokenizer",   "data.too_long",
                                         "data.sequence",    "data.max_samples", NULL};

static bool is_among(const char *key, const char *const *list) {
  for (; *list != NULL; list++) {
    if (strcmp(key, *list) == 0) return true;
  }
  return false;
}

typedef struct changes {
  const tri_run_config *config;
  char text[CHANGES_BYTES], keys[CHANGES_BYTES / 2];
  size_t text_length, keys_length;
  bool fits;          /* the weights have the run's shapes in spite of the differences */
  bool other_samples; /* a key of of_samples differs */
  int64_t updates; /* updates of the model that was the reference of preferences; 0: it is still available, or the run
                      has no reference */
  bool other_answers; /* a key of of_answers differs, and the reference is not available */
  bool other_factors; /* the run's adapter has other factors, or other shapes */
} changes;

/* Appends `text`, after `between` unless `to` is empty. Text that does not fit is dropped; CHANGES_BYTES has room
 * for every key of a model. */
static void add_text(char *to, size_t bytes, size_t *length, const char *between, const char *text) {
  int added = snprintf(to + *length, bytes - *length, "%s%s", *length == 0 ? "" : between, text);
  *length += added > 0 && (size_t)added < bytes - *length ? (size_t)added : 0;
}

static void add_change(changes *c, const char *key, const char *there, const char *here) {
  char line[512];
  c->other_samples = c->other_samples || is_among(key, of_samples);
  const bool fixed = c->updates > 0 && is_among(key, of_answers);
  c->other_answers = c->other_answers || fixed;
  if (!fixed && !c->other_factors && is_allowed(c->config->allow_change, key)) {
    tri_log("%s changes from %s to %s, as `allow_change` allows", key, there, here);
    return;
  }
  snprintf(line, sizeof line, "%s is %.200s there and %.200s in this run", key, there, here);
  add_text(c->text, sizeof c->text, &c->text_length, "; ", line);
  add_text(c->keys, sizeof c->keys, &c->keys_length, ",", key);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void collect_difference(void *context, const char *key, const char *there, const char *here) {
  char full[KEY_BYTES];
  if (!tri_model_key_is_of_function(key)) return;
  changes *c = context;
  c->fits = c->fits && !is_among(key, of_shape);
  snprintf(full, sizeof full, "model.%s", key);
  add_change(c, full, there, here);
}

/* Converts the run's model to what its own checkpoints record: keys that the family lacks get their defaults. */
static tri_status as_saved(const tri_run_config *config, tri_model *out) {
  char *text = NULL;
  TRI_TRY(tri_huggingface_print(&config->model, tri_dtype_wide(config->precision), -1, NULL, &text));
  tri_status status = tri_huggingface_parse("the run's own config.json", text, strlen(text), out);
  tri_free(text);
  return status;
}

static tri_status compare_models(const tri_run_config *config, const char *folder, changes *c) {
  tri_model there, here;
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, folder, "config.json"));
  if (tri_peft_is_folder(folder) && !tri_path_exists(path)) return TRI_OK; /* PEFT: its model is its base's */
  TRI_TRY(tri_huggingface_load(folder, &there));
  TRI_TRY(as_saved(config, &here));
  if (!here.tied && tri_ties_are_broken(folder, &there, false)) there.tied = false;
  tri_config_differences(&tri_model_table, &there, &here, collect_difference, c);
  return TRI_OK;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* Computes the fingerprint of a folder's tokenizer.json; "" if it is missing or unreadable. */
static void tokenizer_of_folder(const char *folder, char out[TRI_FINGERPRINT_BYTES]) {
  char path[TRI_PATH_BYTES];
  tri_tokenizer *tokenizer = NULL;
  out[0] = '\0';
  if (tri_path_join(path, folder, "tokenizer.json") != TRI_OK || !tri_path_exists(path)) return;
  tri_status status = tri_tokenizer_create(path, &tokenizer);
  if (status == TRI_OK) status = tri_tokenizer_fingerprint(tokenizer, out);
  tri_tokenizer_destroy(tokenizer);
  if (status != TRI_OK) tri_log("%s cannot be compared with this run's: %s", path, tri_status_message());
}

static bool differ(const char *there, const char *here) {
  return there[0] != '\0' && here[0] != '\0' && strcmp(there, here) != 0;
}

static void compare_tokenizers(const tri_identity *identity, const char *folder, const json_t *said, changes *c) {
  char found[TRI_FINGERPRINT_BYTES], what[TRI_PATH_BYTES + 32];
  snprintf(found, sizeof found, "%s", text_at(said, "tokenizer"));
  if (found[0] == '\0') tokenizer_of_folder(folder, found);
  if (found[0] == '\0' || identity->tokenizer[0] == '\0') return;
  snprintf(what, sizeof what, "the checkpoint %s", folder);
  if (!tri_fingerprint_fits(what, found, identity->tokenizer, identity->tokenizer_before))
    add_change(c, "data.tokenizer", found, identity->tokenizer);
}

enum { SOURCE_BYTES = 300 };

/* Returns source k that a checkpoint was trained on; an object counts as a list of one. NULL after the last. */
static const json_t *source_there(const json_t *train, int64_t k) {
  if (json_is_array(train)) return json_array_get(train, (size_t)k);
  return k == 0 && json_is_object(train) ? train : NULL;
}

static int64_t num_sources_there(const json_t *train) {
  return json_is_array(train) ? (int64_t)json_array_size(train) : json_is_object(train) ? 1 : 0;
}

/* Computes the shares of a checkpoint's sources, which are compared instead of the weights: [7, 3] is the same as [0.7,
 * 0.3]. Returns false if the weights are not valid. */
static bool shares_there(const json_t *train, tri_mixture_shares *out) {
  double weights[TRI_MOST_SOURCES];
  int64_t count = num_sources_there(train);
  if (count < 1 || count > TRI_MOST_SOURCES) return false;
  for (int64_t k = 0; k < count; k++) {
    const json_t *weight = json_object_get(source_there(train, k), "weight");
    weights[k] = count == 1 ? 1 : json_number_value(weight);
    if (!(weights[k] > 0 && weights[k] <= TRI_CONFIG_MOST)) return false;
  }
  return tri_mixture_find_shares(weights, count, out, NULL) == TRI_OK;
}

static bool same_shares(const tri_mixture_shares *a, const tri_mixture_shares *b) {
  if (a->num_sources != b->num_sources || a->period != b->period) return false;
  for (int64_t k = 0; k < a->num_sources; k++) {
    if (a->counts[k] != b->counts[k]) return false;
  }
  return true;
}

static void describe_shares(const tri_mixture_shares *shares, char out[SOURCE_BYTES]) {
  size_t length = (size_t)snprintf(out, SOURCE_BYTES, "shares of");
  for (int64_t k = 0; k < shares->num_sources && length < SOURCE_BYTES; k++) {
    length += (size_t)snprintf(out + length, SOURCE_BYTES - length, "%s %.4g", k == 0 ? "" : ",",
                               (double)shares->counts[k] / (double)shares->period);
  }
}

/* Describes the first source that differs, by its path and fingerprint; "" if all are the same. */
static void differing_source(const tri_identity *identity, const tri_run_config *config, const json_t *train,
                             char there[SOURCE_BYTES], char here[SOURCE_BYTES]) {
  there[0] = here[0] = '\0';
  for (int64_t k = 0; k < config->data.num_train; k++) {
    const json_t *source = source_there(train, k);
    const char *place = "";
    char number[40];
    if (!differ(text_at(source, "fingerprint"), identity->train[k])) continue;
    snprintf(number, sizeof number, "source %ld of %ld, ", (long)k + 1, (long)config->data.num_train);
    if (config->data.num_train > 1) place = number;
    snprintf(there, SOURCE_BYTES, "%s%.150s (%.32s)", place, text_at(source, "path"), text_at(source, "fingerprint"));
    snprintf(here, SOURCE_BYTES, "%.150s (%.32s)", config->data.train[k].path, identity->train[k]);
    return;
  }
}

/* Returns the weight of a source's labels; 1 for checkpoints of versions without this key. */
static double label_weight_there(const json_t *source) {
  const json_t *weight = json_object_get(source, "label_weight");
  return weight == NULL ? 1 : json_number_value(weight);
}

static bool of_preferences(const tri_run_config *config) { return config->data.preferences[0] != '\0'; }

static const char *source_key(const tri_run_config *config) {
  return of_preferences(config) ? "data.preferences" : "data.train";
}

static bool label_weights_differ(const json_t *train, changes *c) {
  char there[SOURCE_BYTES], here[SOURCE_BYTES];
  for (int64_t k = 0; k < c->config->data.num_train; k++) {
    const tri_train_source *source = &c->config->data.train[k];
    const double weight = label_weight_there(source_there(train, k));
    if (weight == source->label_weight) continue;
    snprintf(there, sizeof there, "label_weight %g of %.150s", weight, source->path);
    snprintf(here, sizeof here, "%g", source->label_weight);
    add_change(c, source_key(c->config), there, here);
    return true;
  }
  return false;
}

static void compare_training(const tri_identity *identity, const json_t *train, changes *c) {
  char there[SOURCE_BYTES], here[SOURCE_BYTES];
  tri_mixture_shares shares_then, shares_now;
  int64_t count = num_sources_there(train);
  if (count == 0) return;
  if (count != c->config->data.num_train) {
    snprintf(there, sizeof there, "%ld source%s", (long)count, count == 1 ? "" : "s");
    snprintf(here, sizeof here, "%ld", (long)c->config->data.num_train);
    add_change(c, source_key(c->config), there, here);
    return;
  }
  differing_source(identity, c->config, train, there, here);
  if (there[0] != '\0') {
    add_change(c, source_key(c->config), there, here);
    return;
  }
  if (label_weights_differ(train, c)) return;
  if (!shares_there(train, &shares_then) || tri_run_config_shares(c->config, &shares_now) != TRI_OK) return;
  if (same_shares(&shares_then, &shares_now)) return;
  describe_shares(&shares_then, there);
  describe_shares(&shares_now, here);
  add_change(c, source_key(c->config), there, here);
}

static void compare_corpora(const tri_identity *identity, const json_t *said, changes *c) {
  const json_t *validation = json_object_get(said, "validation");
  compare_training(identity, json_object_get(said, "train"), c);
  if (differ(text_at(validation, "fingerprint"), identity->validation)) {
    tri_warn("%s is another corpus than before: its losses do not compare with earlier ones",
             of_preferences(c->config) ? "data.validation_preferences" : "data.validation");
  }
}

/* Compares the keys that determine which samples the run reads, and in which order. Checkpoints of versions without a
 * key lack it. */
static void compare_samples(const tri_checkpoint_state *state, const json_t *said, changes *c) {
  const char *documents = text_at(said, "documents"), *packing = text_at(said, "packing");
  const char *own_documents = tri_run_config_documents(c->config->data.documents),
             *own_packing = tri_run_config_packing(c->config->data.packing);
  if (differ(documents, own_documents)) add_change(c, "data.documents", documents, own_documents);
  if (differ(packing, own_packing)) add_change(c, "data.packing", packing, own_packing);
  const char *too_long = text_at(said, "too_long"), *own_too_long = tri_run_config_too_long(c->config->data.too_long);
  if (too_long[0] == '\0' && packing[0] != '\0') too_long = tri_run_config_too_long(TRI_TOO_LONG_CUT);
  if (differ(too_long, own_too_long)) add_change(c, "data.too_long", too_long, own_too_long);
  if (state != NULL && state->step > 0 && state->seed != c->config->seed) { /* an import has read no samples */
    char there[32], here[32];
    snprintf(there, sizeof there, "%" PRIu64, state->seed);
    snprintf(here, sizeof here, "%" PRIu64, c->config->seed);
    add_change(c, "seed", there, here);
  }
}

/* ---- the run file ------------------------------------------------------------------------------------------------ */

/* Returns the resolved run file that a checkpoint was saved under; NULL if it cannot be read. The caller frees it with
 * tri_free. */
static tri_run_config *config_there(const tri_checkpoint_state *state) {
  tri_run_config *there = NULL;
  if (state == NULL || state->run_config == NULL || state->run_config[0] == '\0') return NULL;
  if (tri_alloc("a checkpoint's run file", 1, sizeof *there, &there) != TRI_OK) return NULL;
  const char *text = state->run_config;
  if (tri_run_config_parse("the checkpoint's run file", text, strlen(text), NULL, 0, there) == TRI_OK) {
    tri_run_resolve_auto_older(there);
    const json_t *steps = json_object_get(json_object_get(state->progress, "identity"), "steps");
    if (there->optimizer.steps == 0) there->optimizer.steps = json_integer_value(steps); /* the steps of its epochs */
    return there;
  }
  tri_free(there);
  return NULL;
}

/* Returns whether a key changes what a run learns or reports. Some sections count as a whole. */
static bool changes_answers(const char *key) {
  static const char *const sections[] = {"optimizer.", "data.", "evaluation.", "average.", "objective.", NULL};
  static const char *const keys[] = {"precision",
                                     "layout.reduce_precision",
                                     "layout.expert_capacity",
                                     "adapter.dropout",
                                     "model.dropout",
                                     "model.balance",
                                     "model.balance_rate",
                                     "model.z_loss",
                                     NULL};
  for (const char *const *section = sections; *section != NULL; section++) {
    if (strncmp(key, *section, strlen(*section)) == 0) return true;
  }
  return is_among(key, keys);
}

/* Logs a difference, unless the key is compared and reported elsewhere. */
static void log_difference(void *context, const char *key, const char *there, const char *here) {
  (void)context;
  if (!is_among(key, other_keys) && changes_answers(key)) tri_log("%s was %s and is %s from here on", key, there, here);
}

static void log_rates(const tri_run_config *there, const tri_run_config *here, int64_t step) {
  const double before = tri_run_config_rate(there, step), now = tri_run_config_rate(here, step);
  if (before == now) return;
  tri_log("the learning rate of step %" PRId64 " is %.3g, and would have been %.3g before", step, now, before);
}

static void compare_sequences(const tri_checkpoint_state *state, changes *c) {
  tri_run_config *there = config_there(state);
  char before[32], now[32];
  if (there == NULL) return;
  snprintf(before, sizeof before, "%" PRId64, there->data.sequence);
  snprintf(now, sizeof now, "%" PRId64, c->config->data.sequence);
  if (strcmp(before, now) != 0) add_change(c, "data.sequence", before, now);
  snprintf(before, sizeof before, "%" PRId64, there->data.max_samples);
  snprintf(now, sizeof now, "%" PRId64, c->config->data.max_samples);
  if (strcmp(before, now) != 0) add_change(c, "data.max_samples", before, now);
  tri_free(there);
}

/* Logs how many steps the run's epochs are now, if another batch or another number of samples has changed that. */
static void log_epochs(const tri_run_config *there, const tri_run_config *here, int64_t seen) {
  const double epochs = here->optimizer.epochs;
  const char *why =
      there->optimizer.global_batch != here->optimizer.global_batch ? "the batch" : "the number of samples";
  if (epochs == 0 || epochs != there->optimizer.epochs || here->optimizer.steps == there->optimizer.steps) return;
  tri_log("%g epoch%s of data.train end%s after step %" PRId64 " now (%" PRId64 " before), because %s changed; %" PRId64
          " of %.0f samples have been read",
          epochs, epochs == 1 ? "" : "s", epochs == 1 ? "s" : "", here->optimizer.steps, there->optimizer.steps, why,
          seen, epochs * (double)here->optimizer.epoch_samples);
}

/* Logs each allowed difference of the run files, and its effect. */
static void log_differences(const tri_checkpoint_state *state, const tri_run_config *config) {
  tri_run_config *there = config_there(state), *here = NULL;
  if (there == NULL) return; /* a folder without a state, or a run file that cannot be read */
  if (tri_alloc("a run's configuration", 1, sizeof *here, &here) == TRI_OK) {
    const int64_t seen = tri_identity_next_sample(config, state);
    *here = *config;
    (void)tri_run_config_count_steps(here, config->optimizer.epoch_samples, state->step,
                                     seen); /* the run does this, too */
    tri_config_differences(tri_run_config_table(), there, here, log_difference, NULL);
    log_epochs(there, here, seen);
    log_rates(there, here, state->step + 1);
    if (there->optimizer.global_batch != here->optimizer.global_batch)
      tri_log("the run continues with the next sample, number %" PRId64, seen + 1);
  }
  tri_free(here);
  tri_free(there);
}

int64_t tri_identity_next_sample(const tri_run_config *config, const tri_checkpoint_state *state) {
  tri_run_config *there = config_there(state);
  int64_t samples = state->samples;
  if (there != NULL && there->data.sequence != config->data.sequence) {
    samples = (int64_t)((double)samples * (double)there->data.sequence / (double)config->data.sequence);
  }
  tri_free(there);
  return samples;
}

/* Copies the name of the first key of the objective that differs. */
static void copy_first_key(void *context, const char *key, const char *there, const char *here) {
  char *first = context;
  (void)there;
  (void)here;
  if (first[0] == '\0' && strncmp(key, "objective.", 10) == 0) snprintf(first, TRI_IDENTITY_KEY_BYTES, "%s", key);
}

/* Returns the first key that changes the validation text, or how it is cut, masked, counted or measured; "" if there is
 * none. */
static const char *differing_validation(const tri_run_config *there, const tri_run_config *here) {
  if (there->data.sequence != here->data.sequence) return "data.sequence";
  if (there->data.documents != here->data.documents) return "data.documents";
  if (there->data.packing != here->data.packing) return "data.packing";
  if (there->data.too_long != here->data.too_long) return "data.too_long";
  if (there->data.ignore_token != here->data.ignore_token) return "data.ignore_token";
  if (there->evaluation.metric != here->evaluation.metric) return "evaluation.metric";
  return there->evaluation.sequences != here->evaluation.sequences ? "evaluation.sequences" : "";
}

void tri_identity_other_measure(const tri_identity *identity, const tri_run_config *config,
                                const tri_checkpoint_state *state, char out[TRI_IDENTITY_KEY_BYTES]) {
  const json_t *validation = json_object_get(json_object_get(state->progress, "identity"), "validation");
  out[0] = '\0';
  if (identity != NULL && differ(text_at(validation, "fingerprint"), identity->validation)) {
    snprintf(out, TRI_IDENTITY_KEY_BYTES, "data.validation%s", of_preferences(config) ? "_preferences" : "");
    return;
  }
  tri_run_config *there = config_there(state);
  if (there == NULL) return;
  tri_config_differences(tri_run_config_table(), there, config, copy_first_key, out);
  if (out[0] == '\0') snprintf(out, TRI_IDENTITY_KEY_BYTES, "%s", differing_validation(there, config));
  tri_free(there);
}

/* Describes which text is repeated or skipped if other samples follow. */
static const char *describe_samples(const changes *c, const tri_checkpoint_state *state, char out[512]) {
  out[0] = '\0';
  if (!c->other_samples || state == NULL) return out;
  snprintf(out, 512,
           "; other samples follow with it: up to %" PRId64
           " tokens that the run has read are read again before all of the text has been read, and as many others are "
           "skipped%s",
           state->tokens,
           c->config->data.num_train > 1
               ? "; `sources` in metrics.jsonl and summary.json count as if all samples so far had been read so"
               : "");
  return out;
}

/* Returns the name of the first parameter group whose optimizer differs; "" if all are the same. Checkpoints of
 * versions without this key used AdamW. */
static const char *differing_optimizer(const tri_run_config *config, const json_t *said, const char **there,
                                       const char **here) {
  const json_t *optimizers = json_object_get(said, "optimizers");
  for (int g = 0; g < TRI_NUM_GROUPS; g++) {
    const tri_parameter_group group = (tri_parameter_group)g;
    const char *name = text_at(optimizers, tri_parameter_group_name(group));
    *there = name[0] == '\0' ? tri_optimizer_adamw.name : name;
    *here = tri_optimizer_of_group(&config->optimizer.settings, group)->name;
    if (strcmp(*there, *here) != 0) return tri_parameter_group_name(group);
  }
  return "";
}

bool tri_identity_same_optimizer(const tri_run_config *config, const tri_checkpoint *checkpoint) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  const char *there, *here;
  if (state == NULL) return false;
  return differing_optimizer(config, json_object_get(state->progress, "identity"), &there, &here)[0] == '\0';
}

/* Compares the optimizers. States of one optimizer cannot be used by another. */
static void compare_optimizers(const json_t *said, changes *c) {
  const char *there, *here;
  const char *group = differing_optimizer(c->config, said, &there, &here);
  char before[KEY_BYTES], now[KEY_BYTES];
  if (said == NULL || group[0] == '\0') return; /* NULL for a Hugging Face folder */
  snprintf(before, sizeof before, "%s (%s)", there, group);
  snprintf(now, sizeof now, "%s, which would reset its state", here);
  add_change(c, "optimizer.name", before, now);
}

/* Compares the bases. Factors can only be used with the base that they were trained on. */
static void compare_bases(const tri_identity *identity, const json_t *said, changes *c) {
  const json_t *base = json_object_get(said, "base");
  tri_base_signature signature;
  char there[SOURCE_BYTES], here[SOURCE_BYTES], text[TRI_BASE_SIGNATURE_TEXT_BYTES];
  snprintf(signature.frame, sizeof signature.frame, "%s", text_at(base, "signature"));
  snprintf(signature.values, sizeof signature.values, "%s", text_at(base, "values"));
  if (tri_base_signature_same(&signature, &identity->signature)) return;
  snprintf(there, sizeof there, "on the base %.150s (%s)", text_at(base, "path"),
           tri_base_signature_text(&signature, text));
  snprintf(here, sizeof here, "on %.150s (%s)", identity->base, tri_base_signature_text(&identity->signature, text));
  add_change(c, "adapter", there, here);
}

static const char *or_none(const char *text) { return text[0] == '\0' ? "none" : text; }

/* Describes the keys of an adapter that determine which factors it has, and their shapes. */
static void describe_factors(const tri_adapter *adapter, char out[TUNING_BYTES]) {
  tri_adapter shapes = *adapter;
  shapes.alpha = 1;
  shapes.alpha_pattern.count = 0;
  shapes.scaling = TRI_SCALING_LORA;
  shapes.init = TRI_ADAPTER_KAIMING;
  shapes.quantise = TRI_QUANTISE_NONE;
  describe_adapter(&shapes, out);
}

/* Returns whether a checkpoint's factors are those of the run's adapter, with the same shapes. */
static bool factors_fit(const tri_checkpoint_state *state, const tri_run_config *here) {
  char before[TUNING_BYTES], now[TUNING_BYTES];
  tri_run_config *there = config_there(state);
  if (there == NULL) return true;
  describe_factors(&there->model.tuning.adapter, before);
  describe_factors(&here->model.tuning.adapter, now);
  tri_free(there);
  return strcmp(before, now) == 0;
}

/* Compares which parameters are trained; others have no optimizer states. */
static void compare_trained(const tri_checkpoint_state *state, const json_t *said, changes *c) {
  const json_t *there = json_object_get(said, "trained");
  const char *freeze = text_at(there, "freeze"), *adapter = text_at(there, "adapter");
  char own_freeze[TRI_TRAINABLE_TEXT_BYTES], own_adapter[TUNING_BYTES];
  if (said == NULL) return;
  tri_trainable_describe(&c->config->model.tuning.freeze, own_freeze, sizeof own_freeze);
  describe_adapter(&c->config->model.tuning.adapter, own_adapter);
  if (strcmp(freeze, own_freeze) != 0) add_change(c, "freeze", or_none(freeze), or_none(own_freeze));
  if (strcmp(adapter, own_adapter) == 0) return;
  c->other_factors = !factors_fit(state, c->config);
  add_change(c, "adapter", or_none(adapter), or_none(own_adapter));
}

static tri_status compare_runs(const tri_identity *identity, const tri_run_config *config, const char *folder,
                               const json_t *said) {
  const char *there = text_at(said, "run");
  if (identity->is_new || !differ(there, identity->run)) return TRI_OK;
  if (is_allowed(config->allow_change, "run")) {
    tri_log("%s is from run %.8s and continues as run %.8s, as `allow_change` allows", folder, there, identity->run);
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_CONFIG,
                  "%s is a checkpoint of another run (%.8s) than the one in %s (%.8s); move it away, start another run "
                  "from it with another `output` and --resume %s, or, if it belongs here, --set allow_change=run",
                  folder, there, config->output, identity->run, folder);
}

/* Warns of tensors that the run's model does not have, if it is allowed to differ. They are lost with the next
 * checkpoint. */
static tri_status say_left_out(const tri_run_config *config, const tri_checkpoint *checkpoint) {
  tri_left_out left = {0};
  TRI_TRY(tri_checkpoint_find_left_out(checkpoint, &config->model, &left));
  if (left.count == 0) return TRI_OK;
  tri_warn("%s: %" PRId64 " of its tensors %s left out, which this run's model does not have: %.200s%s",
           tri_checkpoint_path(checkpoint), left.count, left.count == 1 ? "is" : "are", left.first,
           left.count == 1 ? "" : " and others");
  return TRI_OK;
}

/* Checks an adapter's folder that is named in place of weights to begin with. */
static tri_status check_adapter(const tri_identity *identity, const tri_run_config *config, const char *folder) {
  const tri_adapter *adapter = &config->model.tuning.adapter;
  if (adapter->rank > 0) return tri_peft_check_from(folder, adapter, &identity->signature);
  return tri_fail(TRI_BAD_CONFIG,
                  "`init`: %s is an adapter, not a whole model; make one of it and its base with `trireme "
                  "export --merge`",
                  folder);
}

/* Checks that a Hugging Face folder has all tensors of its model; it has no checksums that show whether its files
 * belong together. */
static tri_status check_folder(const tri_checkpoint *checkpoint) {
  tri_model model;
  if (tri_checkpoint_get_state(checkpoint) != NULL || tri_checkpoint_is_adapter(checkpoint)) return TRI_OK;
  TRI_TRY(tri_ties_load_model(checkpoint, true, false, &model));
  return tri_checkpoint_check_model(checkpoint, &model);
}

/* Returns the number of updates after which the reference of a run on preferences is not available; 0 if it is. */
static int64_t updates_of_reference(const tri_run_config *config, const tri_checkpoint_state *state) {
  if (state == NULL || !of_preferences(config) || tri_preferences_keep_reference(config)) return 0;
  return (int64_t)json_integer_value(json_object_get(state->progress, "updates"));
}

/* Compares everything except the model, the tokenizer and the name. */
static void compare_all(const tri_identity *identity, const tri_checkpoint_state *state, changes *c) {
  const json_t *said = state == NULL ? NULL : json_object_get(state->progress, "identity");
  compare_corpora(identity, said, c);
  compare_samples(state, said, c);
  compare_optimizers(said, c);
  compare_trained(state, said, c);
  compare_sequences(state, c);
}

tri_status tri_identity_compare(const tri_identity *identity, const tri_run_config *config,
                                const tri_checkpoint *checkpoint, tri_resume_kind how) {
  const char *folder = tri_checkpoint_path(checkpoint);
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  const json_t *said = state == NULL ? NULL : json_object_get(state->progress, "identity");
  changes c = {.config = config, .fits = true};
  if (how != TRI_RESUME_WEIGHTS) c.updates = updates_of_reference(config, state);
  char samples[512];
  if (how == TRI_RESUME_WEIGHTS && tri_checkpoint_is_adapter(checkpoint)) {
    TRI_TRY(check_adapter(identity, config, folder));
  }
  TRI_TRY(check_folder(checkpoint));
  TRI_TRY(compare_models(config, folder, &c));
  compare_tokenizers(identity, folder, said, &c);
  compare_bases(identity, said, &c);
  switch (how) {
    case TRI_RESUME_RUN:
      TRI_TRY(compare_runs(identity, config, folder, said));
      compare_all(identity, state, &c);
      break;
    case TRI_RESUME_BRANCH: compare_all(identity, state, &c); break;
    case TRI_RESUME_WEIGHTS: break;
  }
  describe_samples(&c, state, samples);
  if (c.text_length == 0) {
    if (samples[0] != '\0') tri_warn("%s: %s", folder, samples + 2);
    if (how != TRI_RESUME_WEIGHTS) log_differences(state, config);
    return say_left_out(config, checkpoint);
  }
  if (!c.fits) {
    return tri_fail(TRI_BAD_CONFIG,
                    "%s does not match this run: %s; its weights do not fit such a model; make the keys equal, or "
                    "take them from there: --set model=%s",
                    folder, c.text, folder);
  }
  if (c.other_factors) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "%s does not match this run: %s; its factors do not fit such an adapter; make the keys equal, start "
        "over with --resume never, or choose another `output`",
        folder, c.text);
  }
  if (c.other_answers) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "%s does not match this run: %s; the reference is the model at the beginning of the run, before %" PRId64
        " updates, and log-probabilities of other answers cannot be computed without it; make the keys equal, or begin "
        "a new run in another `output`, with `init: %s`",
        folder, c.text, c.updates, folder);
  }
  return tri_fail(TRI_BAD_CONFIG,
                  "%s does not match this run: %s%s; make them equal, or, if the change is intended, allow it by name: "
                  "--set allow_change=%s",
                  folder, c.text, samples, c.keys);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

enum { MOST_NAMES = 64, OTHER_NAMES = sizeof other_keys / sizeof other_keys[0] };

typedef struct name_list {
  const char *names[MOST_NAMES + OTHER_NAMES];
  char texts[MOST_NAMES][KEY_BYTES];
  int count;
} name_list;

static void add_name(void *context, const char *key) {
  name_list *list = context;
  if (list->count == MOST_NAMES || !tri_model_key_is_of_function(key)) return;
  snprintf(list->texts[list->count], KEY_BYTES, "model.%s", key);
  list->names[list->count] = list->texts[list->count];
  list->count++;
}

tri_status tri_identity_check_allowed(const char *allow_change) {
  name_list list = {.count = 0};
  char word[KEY_BYTES];
  tri_config_names(&tri_model_table, add_name, &list);
  for (const char *const *key = other_keys; *key != NULL; key++) list.names[list.count++] = *key;
  while (next_word(&allow_change, word)) {
    bool known = false;
    for (int i = 0; i < list.count; i++) known = known || strcmp(word, list.names[i]) == 0;
    if (known) continue;
    const char *nearest = tri_nearest_word(word, list.names, (size_t)list.count);
    return tri_fail(TRI_BAD_CONFIG,
                    "`allow_change` names `%s`, which is not compared; it takes keys such as model.rope_theta, "
                    "data.train or data.tokenizer, with commas between%s%s%s",
                    word, nearest == NULL ? "" : "; did you mean `", nearest == NULL ? "" : nearest,
                    nearest == NULL ? "" : "`?");
  }
  return TRI_OK;
}
