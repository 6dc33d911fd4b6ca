#include "run/resume_check.h"

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/config_vs_weights.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/peft.h"
#include "checkpoint/tensor_list.h"
#include "checkpoint/ties.h"
#include "model/model_config.h"
#include "run/allowed_changes.h"
#include "run/learning_rate.h"
#include "run/preference_keys.h"
#include "run/resolve_auto.h"
#include "run/saved_sources.h"
#include "run/trained_text.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CHANGES_BYTES = 8192, KEY_BYTES = 64 };

/* ---- differences ------------------------------------------------------------------------------------------------- */

static const char *text_at(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text == NULL ? "" : text;
}

typedef struct changes {
  const tri_run_config *config;
  char text[CHANGES_BYTES], keys[CHANGES_BYTES / 2]; /* differences that are not allowed, for the message; their keys */
  size_t text_length, keys_length;
  bool fits;          /* whether the weights have the run's shapes in spite of the differences */
  bool other_samples; /* whether a key that determines the order of the samples differs */
  int64_t updates;    /* updates since the run began, if it is on preferences and its reference model is no longer
                         available; else 0 */
  bool other_answers; /* whether the reference model is no longer available and a key differs that changes
                         log-probabilities of answers */
  bool other_factors; /* whether the run's adapter has other factors, or other shapes */
  bool allowed;       /* whether `allow_change` names a key that differs, so that the run may become a different one */
} changes;

/* Appends `text`, after `between` unless `to` is empty. Text that does not fit is dropped; CHANGES_BYTES has room
 * for every key of a model. */
static void add_text(char *to, size_t bytes, size_t *length, const char *between, const char *text) {
  int added = snprintf(to + *length, bytes - *length, "%s%s", *length == 0 ? "" : between, text);
  *length += added > 0 && (size_t)added < bytes - *length ? (size_t)added : 0;
}

static bool has(unsigned change, tri_config_change meaning) {
  return (change & (unsigned)meaning) == (unsigned)meaning;
}

/* A key to look up in the table; `change`: TRI_CHANGE bits of its row. */
typedef struct wanted_row {
  const char *key;
  unsigned change;
} wanted_row;

static void match_row(void *context, const char *key, unsigned change) {
  wanted_row *wanted = context;
  if (strcmp(key, wanted->key) == 0) wanted->change = change;
}

static void add_change(changes *c, const char *key, const char *there, const char *here) {
  char line[512];
  wanted_row row = {.key = key};
  tri_config_changes(tri_run_config_table(), match_row, &row);
  c->other_samples = c->other_samples || has(row.change, TRI_CHANGE_SAMPLES);
  const bool fixed = c->updates > 0 && has(row.change, TRI_CHANGE_ANSWERS);
  c->other_answers = c->other_answers || fixed;
  if (!fixed && !c->other_factors && tri_change_is_allowed(c->config->allow_change, key)) {
    tri_log("%s changes from %s to %s, as `allow_change` allows", key, there, here);
    c->allowed = true;
    return;
  }
  snprintf(line, sizeof line, "%s is %.200s there and %.200s in this run", key, there, here);
  add_text(c->text, sizeof c->text, &c->text_length, "; ", line);
  add_text(c->keys, sizeof c->keys, &c->keys_length, ",", key);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void collect_difference(void *context, const tri_config_difference *difference) {
  char full[KEY_BYTES];
  if (!has(difference->change, TRI_CHANGE_FUNCTION)) return;
  changes *c = context;
  c->fits = c->fits && !has(difference->change, TRI_CHANGE_SHAPE);
  snprintf(full, sizeof full, "model.%s", difference->key);
  add_change(c, full, difference->left, difference->right);
}

/* Converts the run's model to the form in which its own checkpoints record it: keys that the family does not have get
 * their defaults. */
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
  if (tri_peft_is_folder(folder) && !tri_path_exists(path))
    return TRI_OK; /* PEFT: the model of the folder is that of its base */
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

/* Describes the first source that differs between checkpoint and run, by its path and fingerprint in each; "" if no
 * source differs. */
static void differing_source(const tri_identity *identity, const tri_run_config *config, const json_t *train,
                             char there[TRI_SAVED_SOURCE_BYTES], char here[TRI_SAVED_SOURCE_BYTES]) {
  there[0] = here[0] = '\0';
  for (int64_t k = 0; k < config->data.num_train; k++) {
    const json_t *source = tri_saved_source(train, k);
    const char *place = "";
    char number[40];
    if (!differ(text_at(source, "fingerprint"), identity->train[k])) continue;
    snprintf(number, sizeof number, "source %ld of %ld, ", (long)k + 1, (long)config->data.num_train);
    if (config->data.num_train > 1) place = number;
    snprintf(there, TRI_SAVED_SOURCE_BYTES, "%s%.150s (%.32s)", place, text_at(source, "path"),
             text_at(source, "fingerprint"));
    snprintf(here, TRI_SAVED_SOURCE_BYTES, "%.150s (%.32s)", config->data.train[k].path, identity->train[k]);
    return;
  }
}

static bool of_preferences(const tri_run_config *config) { return config->data.preferences[0] != '\0'; }

static bool of_prompts(const tri_run_config *config) { return config->data.prompts[0] != '\0'; }

static const char *source_key(const tri_run_config *config) {
  if (of_prompts(config)) return "data.prompts";
  return of_preferences(config) ? "data.preferences" : "data.train";
}

static bool label_weights_differ(const json_t *train, changes *c) {
  char there[TRI_SAVED_SOURCE_BYTES], here[TRI_SAVED_SOURCE_BYTES];
  for (int64_t k = 0; k < c->config->data.num_train; k++) {
    const tri_train_source *source = &c->config->data.train[k];
    const double weight = tri_saved_label_weight(tri_saved_source(train, k));
    if (weight == source->label_weight) continue;
    snprintf(there, sizeof there, "label_weight %g of %.150s", weight, source->path);
    snprintf(here, sizeof here, "%g", source->label_weight);
    add_change(c, source_key(c->config), there, here);
    return true;
  }
  return false;
}

static void compare_training(const tri_identity *identity, const json_t *train, changes *c) {
  char there[TRI_SAVED_SOURCE_BYTES], here[TRI_SAVED_SOURCE_BYTES];
  int64_t count = tri_saved_num_sources(train);
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
  if (tri_saved_mixture_differs(train, c->config, there, here)) add_change(c, source_key(c->config), there, here);
}

static const char *validation_key(const tri_run_config *config) {
  if (of_prompts(config)) return "data.validation_prompts";
  return of_preferences(config) ? "data.validation_preferences" : "data.validation";
}

static void compare_corpora(const tri_identity *identity, const json_t *said, changes *c) {
  const json_t *validation = json_object_get(said, "validation");
  compare_training(identity, json_object_get(said, "train"), c);
  if (differ(text_at(validation, "fingerprint"), identity->validation)) {
    tri_warn("%s is another corpus than before: its %s do not compare with earlier ones", validation_key(c->config),
             of_prompts(c->config) ? "rewards" : "losses");
  }
}

/* ---- the run file ------------------------------------------------------------------------------------------------ */

/* Returns the resolved run file that a checkpoint was saved under, with the number of its steps also if it has epochs;
 * NULL if it cannot be read. The caller frees it with tri_free. */
static tri_run_config *config_there(const tri_checkpoint_state *state) {
  tri_run_config *there = NULL;
  if (state == NULL || state->run_config == NULL || state->run_config[0] == '\0') return NULL;
  if (tri_alloc("a checkpoint's run file", 1, sizeof *there, &there) != TRI_OK) return NULL;
  const char *text = state->run_config;
  if (tri_run_config_parse("the checkpoint's run file", text, strlen(text), NULL, 0, there) == TRI_OK) {
    tri_run_resolve_auto_older(there);
    const json_t *steps = json_object_get(json_object_get(state->progress, "identity"), "steps");
    if (there->optimizer.steps == 0)
      there->optimizer.steps = json_integer_value(steps); /* the run file has epochs instead */
    return there;
  }
  tri_free(there);
  return NULL;
}

/* Logs a difference in a key that changes how the run learns (TRI_CHANGE_LEARNING), unless the key is compared and
 * reported elsewhere. */
static void log_difference(void *context, const tri_config_difference *difference) {
  (void)context;
  if (!has(difference->change, TRI_CHANGE_LEARNING) || has(difference->change, TRI_CHANGE_FUNCTION)) return;
  tri_log("%s was %s and is %s from here on", difference->key, difference->left, difference->right);
}

/* Returns whether a finished run may go on with another value of a key: the number of steps, a value that follows from
 * it, and keys of evaluations, which do not change what is trained. */
static bool may_differ_at_the_end(const char *key) {
  static const char *const names[] = {"optimizer.steps", "optimizer.epochs", "optimizer.warmup"};
  static const char *const beginnings[] = {"evaluation.", "data.validation"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(key, names[i]) == 0) return true;
  }
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
    if (strncmp(key, beginnings[i], strlen(beginnings[i])) == 0) return true;
  }
  return false;
}

/* Adds a difference that a finished run refuses, unless `allow_change` names its key. Keys whose change every run
 * refuses have been compared before. */
static void collect_of_finished(void *context, const tri_config_difference *difference) {
  changes *c = context;
  if (!has(difference->change, TRI_CHANGE_LEARNING) || has(difference->change, TRI_CHANGE_FUNCTION)) return;
  if (may_differ_at_the_end(difference->key) || tri_change_is_allowed(c->config->allow_change, difference->key)) return;
  add_change(c, difference->key, difference->left, difference->right);
}

/* Refuses other settings for a run that has made all of its steps, because further steps with them would replace its
 * checkpoints and its results. Accepts more steps or epochs alone. Accepts any settings if a key differs whose change
 * every run refuses, and `allow_change` names this key. */
static tri_status check_finished(const tri_checkpoint_state *state, changes *c, const char *folder) {
  tri_run_config *there = c->allowed ? NULL : config_there(state);
  if (there == NULL) return TRI_OK;
  const bool finished = there->optimizer.steps > 0 && state->step >= there->optimizer.steps;
  if (finished) tri_config_differences(tri_run_config_table(), there, c->config, collect_of_finished, c);
  tri_free(there);
  if (c->text_length == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "the run in %s has made all of its %" PRId64
                  " steps (%s), and %s; begin another run, with --set "
                  "output=FOLDER, or go on with this one and the change: --set allow_change=%s",
                  c->config->output, state->step, folder, c->text, c->keys);
}

static void log_rates(const tri_run_config *there, const tri_run_config *here, int64_t step) {
  const double before = tri_run_config_rate(there, step), now = tri_run_config_rate(here, step);
  if (before == now) return;
  tri_log("the learning rate of step %" PRId64 " is %.3g, and would have been %.3g before", step, now, before);
}

/* Adds the difference of a key that is compared by its value. Other keys have their own functions above and below. */
static void collect_key(void *context, const tri_config_difference *difference) {
  const bool of_model =
      strncmp(difference->key, "model.", strlen("model.")) == 0; /* the model is compared with config.json instead */
  if (of_model || !has(difference->change, TRI_CHANGE_FUNCTION) || has(difference->change, TRI_CHANGE_CONTENT)) return;
  add_change(context, difference->key, difference->left, difference->right);
}

/* Compares the keys of the run file, except the keys of the model and keys with TRI_CHANGE_CONTENT. Only warns if the
 * checkpoint's run file cannot be read. */
static void compare_keys(const char *folder, const tri_checkpoint_state *state, changes *c) {
  tri_run_config *there = config_there(state);
  if (there == NULL && state != NULL && state->run_config != NULL && state->run_config[0] != '\0')
    tri_warn("%s: the keys of its run file are not compared with this run's: %s", folder, tri_status_message());
  if (there == NULL) return;
  tri_config_differences(tri_run_config_table(), there, c->config, collect_key, c);
  tri_free(there);
}

/* Logs the number of steps of the run's epochs, if a different batch or number of samples has changed it. */
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

/* Logs each difference in a key that changes how the run learns (log_difference), in the number of steps of its epochs
 * and in the learning rate; with another batch, also the next sample. */
static void log_differences(const tri_checkpoint_state *state, const tri_run_config *config) {
  tri_run_config *there = config_there(state), *here = NULL;
  if (there == NULL) return; /* a folder without a state, or a run file that cannot be read */
  if (tri_alloc("a run's configuration", 1, sizeof *here, &here) == TRI_OK) {
    const int64_t seen = tri_resume_next_sample(config, state);
    *here = *config;
    (void)tri_run_config_count_steps(here, config->optimizer.epoch_samples, state->step,
                                     seen); /* the run computes its steps in the same way */
    tri_config_differences(tri_run_config_table(), there, here, log_difference, NULL);
    log_epochs(there, here, seen);
    log_rates(there, here, state->step + 1);
    if (there->optimizer.global_batch != here->optimizer.global_batch)
      tri_log("the run continues with the next sample, number %" PRId64, seen + 1);
  }
  tri_free(here);
  tri_free(there);
}

int64_t tri_resume_next_sample(const tri_run_config *config, const tri_checkpoint_state *state) {
  tri_run_config *there = config_there(state);
  int64_t samples = state->samples;
  if (there != NULL && there->data.sequence != config->data.sequence) {
    samples = (int64_t)((double)samples * (double)there->data.sequence / (double)config->data.sequence);
  }
  tri_free(there);
  return samples;
}

/* The first key with a change after which validation results are not comparable. */
typedef struct other_measure {
  char *key;       /* [TRI_RESUME_KEY_BYTES], "" until a key is found */
  bool of_rewards; /* whether the results are rewards, which do not depend on the keys of the objective */
} other_measure;

static void copy_first_key(void *context, const tri_config_difference *difference) {
  const other_measure *first = context;
  if (first->key[0] != '\0' || !has(difference->change, TRI_CHANGE_MEASURE)) return;
  if (first->of_rewards && strncmp(difference->key, "objective.", strlen("objective.")) == 0) return;
  snprintf(first->key, TRI_RESUME_KEY_BYTES, "%s", difference->key);
}

void tri_resume_other_measure(const tri_identity *identity, const tri_run_config *config,
                              const tri_checkpoint_state *state, char out[TRI_RESUME_KEY_BYTES]) {
  const json_t *validation = json_object_get(json_object_get(state->progress, "identity"), "validation");
  out[0] = '\0';
  if (identity != NULL && differ(text_at(validation, "fingerprint"), identity->validation)) {
    snprintf(out, TRI_RESUME_KEY_BYTES, "%s", validation_key(config));
    return;
  }
  tri_run_config *there = config_there(state);
  if (there == NULL) return;
  other_measure first = {out, of_prompts(there) && of_prompts(config)};
  tri_config_differences(tri_run_config_table(), there, config, copy_first_key, &first);
  tri_free(there);
}

/* Describes in `out` which part of the text is repeated or skipped if the samples that follow are different ones; "" if
 * they are the same. Returns out. */
static const char *describe_samples(const changes *c, const tri_checkpoint_state *state, char out[512]) {
  out[0] = '\0';
  if (!c->other_samples || state == NULL) return out;
  if (of_prompts(c->config)) {
    snprintf(out, 512, "; other completions follow with it than in a run that was not interrupted");
    return out;
  }
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

/* Returns the name of the first parameter group whose optimizer differs, and sets *there and *here to the optimizer's
 * names in the checkpoint and in the run; "" if all are the same. Checkpoints of versions without this key used AdamW.
 */
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

bool tri_resume_same_optimizer(const tri_run_config *config, const tri_checkpoint *checkpoint) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  const char *there, *here;
  if (state == NULL) return false;
  return differing_optimizer(config, json_object_get(state->progress, "identity"), &there, &here)[0] == '\0';
}

/* Compares the optimizers of all parameter groups, because states of one optimizer cannot be used by another. Adds the
 * first difference. */
static void compare_optimizers(const json_t *said, changes *c) {
  const char *there, *here;
  const char *group = differing_optimizer(c->config, said, &there, &here);
  char before[KEY_BYTES], now[KEY_BYTES];
  if (said == NULL || group[0] == '\0') return; /* said is NULL for a Hugging Face folder */
  snprintf(before, sizeof before, "%s (%s)", there, group);
  snprintf(now, sizeof now, "%s, which would reset its state", here);
  add_change(c, "optimizer.name", before, now);
}

/* Compares the bases, and adds a difference. Factors can only be used with the base that they were trained on. */
static void compare_bases(const tri_identity *identity, const json_t *said, changes *c) {
  const json_t *base = json_object_get(said, "base");
  tri_base_signature signature;
  char there[TRI_SAVED_SOURCE_BYTES], here[TRI_SAVED_SOURCE_BYTES], text[TRI_BASE_SIGNATURE_TEXT_BYTES];
  snprintf(signature.frame, sizeof signature.frame, "%s", text_at(base, "signature"));
  snprintf(signature.values, sizeof signature.values, "%s", text_at(base, "values"));
  if (tri_base_signature_same(&signature, &identity->signature)) return;
  snprintf(there, sizeof there, "on the base %.150s (%s)", text_at(base, "path"),
           tri_base_signature_text(&signature, text));
  snprintf(here, sizeof here, "on %.150s (%s)", identity->base, tri_base_signature_text(&identity->signature, text));
  add_change(c, "adapter", there, here);
}

static const char *or_none(const char *text) { return text[0] == '\0' ? "none" : text; }

/* Returns whether a checkpoint's factors are those of the run's adapter, with the same shapes. */
static bool factors_fit(const tri_checkpoint_state *state, const tri_run_config *here) {
  char before[TRI_ADAPTER_TEXT_BYTES], now[TRI_ADAPTER_TEXT_BYTES];
  tri_run_config *there = config_there(state);
  if (there == NULL) return true;
  tri_factors_text(&there->model.tuning.adapter, before);
  tri_factors_text(&here->model.tuning.adapter, now);
  tri_free(there);
  return strcmp(before, now) == 0;
}

/* Compares which parameters are trained, because parameters that were not trained have no optimizer states. Adds the
 * differences, and sets other_factors. */
static void compare_trained(const tri_checkpoint_state *state, const json_t *said, changes *c) {
  const json_t *there = json_object_get(said, "trained");
  const char *freeze = text_at(there, "freeze"), *adapter = text_at(there, "adapter");
  char own_freeze[TRI_TRAINABLE_TEXT_BYTES], own_adapter[TRI_ADAPTER_TEXT_BYTES];
  if (said == NULL) return;
  tri_trainable_describe(&c->config->model.tuning.freeze, own_freeze, sizeof own_freeze);
  tri_adapter_text(&c->config->model.tuning.adapter, own_adapter);
  if (strcmp(freeze, own_freeze) != 0) add_change(c, "freeze", or_none(freeze), or_none(own_freeze));
  if (strcmp(adapter, own_adapter) == 0) return;
  c->other_factors = !factors_fit(state, c->config);
  add_change(c, "adapter", or_none(adapter), or_none(own_adapter));
}

static tri_status compare_runs(const tri_identity *identity, const tri_run_config *config, const char *folder,
                               const json_t *said) {
  const char *there = text_at(said, "run");
  if (identity->is_new || !differ(there, identity->run)) return TRI_OK;
  if (tri_change_is_allowed(config->allow_change, "run")) {
    tri_log("%s is from run %.8s and continues as run %.8s, as `allow_change` allows", folder, there, identity->run);
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_CONFIG,
                  "%s is a checkpoint of another run (%.8s) than the one in %s (%.8s); move it away, start another run "
                  "from it with another `output` and --resume %s, or, if it belongs here, --set allow_change=run",
                  folder, there, config->output, identity->run, folder);
}

/* Warns of tensors of the checkpoint that the run's model does not have. They are lost with the next checkpoint. */
static tri_status warn_of_left_out(const tri_run_config *config, const tri_checkpoint *checkpoint) {
  tri_left_out left = {0};
  TRI_TRY(tri_checkpoint_find_left_out(checkpoint, &config->model, &left));
  if (left.count == 0) return TRI_OK;
  tri_warn("%s: %" PRId64 " of its tensors %s left out, which this run's model does not have: %.200s%s",
           tri_checkpoint_path(checkpoint), left.count, left.count == 1 ? "is" : "are", left.first,
           left.count == 1 ? "" : " and others");
  return TRI_OK;
}

/* Checks a folder that is named as the initial weights and has an adapter instead of a whole model: its factors must
 * fit the run's adapter. Fails with TRI_BAD_CONFIG if the run has none. */
static tri_status check_adapter(const tri_identity *identity, const tri_run_config *config, const char *folder) {
  const tri_adapter *adapter = &config->model.tuning.adapter;
  if (adapter->rank > 0) return tri_peft_check_from(folder, adapter, &identity->signature);
  return tri_fail(TRI_BAD_CONFIG,
                  "`init`: %s is an adapter, not a whole model; make one of it and its base with `trireme "
                  "export --merge`",
                  folder);
}

/* Checks that a Hugging Face folder with a whole model has exactly the tensors of that model
 * (tri_checkpoint_check_model). It has no checksums that show whether its files belong together. */
static tri_status check_folder(const tri_checkpoint *checkpoint) {
  tri_model model;
  if (tri_checkpoint_get_state(checkpoint) != NULL || tri_checkpoint_is_adapter(checkpoint)) return TRI_OK;
  TRI_TRY(tri_ties_load_model(checkpoint, true, false, &model));
  return tri_checkpoint_check_model(checkpoint, &model);
}

/* Returns the number of updates that the run has made if it is on preferences and its reference, the model before these
 * updates, is no longer available; else 0. */
static int64_t updates_of_reference(const tri_run_config *config, const tri_checkpoint_state *state) {
  if (state == NULL || !of_preferences(config) || tri_preferences_keep_reference(config)) return 0;
  return (int64_t)json_integer_value(json_object_get(state->progress, "updates"));
}

/* Compares everything that tri_resume_check does not compare itself: the corpora, the keys, the optimizers and the
 * trained parameters. */
static void compare_all(const tri_identity *identity, const char *folder, const tri_checkpoint_state *state,
                        changes *c) {
  const json_t *said = state == NULL ? NULL : json_object_get(state->progress, "identity");
  compare_corpora(identity, said, c);
  compare_keys(folder, state, c);
  compare_optimizers(said, c);
  compare_trained(state, said, c);
}

/* Fails with TRI_BAD_CONFIG because of differences that are not allowed; the message tells what to do. `samples`: text
 * of describe_samples. */
static tri_status refuse(const changes *c, const char *folder, const char *samples) {
  if (!c->fits) {
    return tri_fail(TRI_BAD_CONFIG,
                    "%s does not match this run: %s; its weights do not fit such a model; make the keys equal, or "
                    "take them from there: --set model=%s",
                    folder, c->text, folder);
  }
  if (c->other_factors) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "%s does not match this run: %s; its factors do not fit such an adapter; make the keys equal, start "
        "over with --resume never, or choose another `output`",
        folder, c->text);
  }
  if (c->other_answers) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "%s does not match this run: %s; the reference is the model at the beginning of the run, before %" PRId64
        " updates, and log-probabilities of other answers cannot be computed without it; make the keys equal, or begin "
        "a new run in another `output`, with `init: %s`",
        folder, c->text, c->updates, folder);
  }
  return tri_fail(TRI_BAD_CONFIG,
                  "%s does not match this run: %s%s; make them equal, or, if the change is intended, allow it by name: "
                  "--set allow_change=%s",
                  folder, c->text, samples, c->keys);
}

tri_status tri_resume_check(const tri_identity *identity, const tri_run_config *config,
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
      compare_all(identity, folder, state, &c);
      break;
    case TRI_RESUME_BRANCH: compare_all(identity, folder, state, &c); break;
    case TRI_RESUME_WEIGHTS: break;
  }
  describe_samples(&c, state, samples);
  if (c.text_length == 0) {
    if (how == TRI_RESUME_RUN && state != NULL) TRI_TRY(check_finished(state, &c, folder));
    if (samples[0] != '\0') tri_warn("%s: %s", folder, samples + 2);
    if (how != TRI_RESUME_WEIGHTS) log_differences(state, config);
    return warn_of_left_out(config, checkpoint);
  }
  return refuse(&c, folder, samples);
}
