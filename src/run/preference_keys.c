#include "run/preference_keys.h"

#include "files/file.h"

#include <stdio.h>
#include <string.h>

bool tri_preferences_are_text(const char *preferences) {
  static const char *const ends[] = {".jsonl", ".json", ".ndjson", ".jsonl.zst", ".json.zst", ".ndjson.zst"};
  const size_t length = strlen(preferences);
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    const size_t end = strlen(ends[i]);
    if (length > end && strcmp(preferences + length - end, ends[i]) == 0) return true;
  }
  return false;
}

bool tri_run_begins_with_base(const tri_run_config *config) {
  const tri_adapter *adapter = &config->model.tuning.adapter;
  return adapter->rank > 0 && adapter->train.count == 0 && config->adapter_from[0] == '\0';
}

bool tri_preferences_keep_reference(const tri_run_config *config) {
  const tri_preference_loss loss = tri_objective_preference_loss(&config->objective);
  if (!tri_preference_rules_of(loss).reference) return true;
  return tri_run_begins_with_base(config);
}

/* Finds the prefix of a corpus of preferences: the one in the run file, or the one that the run prepares from JSON
 * lines. */
static tri_status find_preferences(const tri_run_config *c, const char *preferences, const char *folder,
                                   char out[TRI_PATH_BYTES]) {
  char made[TRI_PATH_BYTES];
  if (!tri_preferences_are_text(preferences)) {
    snprintf(out, TRI_PATH_BYTES, "%s", preferences);
    return TRI_OK;
  }
  TRI_TRY(tri_path_join(made, c->output, folder));
  return tri_path_join(out, made, "train");
}

static tri_status check_dropout(const tri_run_config *c) {
  const double model = c->model.dropout, adapter = c->model.tuning.adapter.dropout;
  if (c->objective.allow_dropout || (model == 0 && adapter == 0)) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`%s` is %g: dropout makes the log-probabilities noisy that objective.name %s compares; set it to 0, "
                  "or allow it with objective.allow_dropout",
                  model > 0 ? "model.dropout" : "adapter.dropout", model > 0 ? model : adapter,
                  tri_objective_config_name(&c->objective));
}

/* Refuses keys that apply only to a corpus of text, and the values of data.documents, packing, too_long and of dropout
 * that preferences cannot have. */
static tri_status check_preference_keys(const tri_run_config *c) {
  const char *key = NULL;
  if (c->data.num_train > 0) key = "data.train";
  if (c->data.validation[0] != '\0') key = "data.validation";
  if (key != NULL) {
    return tri_fail(TRI_BAD_CONFIG, "`%s` and data.preferences are both given; a run learns from one of them%s", key,
                    strcmp(key, "data.validation") == 0 ? ", and held-out pairs are data.validation_preferences" : "");
  }
  if (c->data.ignore_token >= 0) {
    return tri_fail(TRI_BAD_CONFIG, "`data.ignore_token` does not go with data.preferences; leave it out");
  }
  const char *whole = NULL;
  switch (c->data.documents) {
    case TRI_DOCUMENTS_JOINED: whole = "documents` joined"; break;
    case TRI_DOCUMENTS_MASKED:
    case TRI_DOCUMENTS_AUTO: break;
  }
  switch (c->data.packing) {
    case TRI_PACKING_WINDOWS: whole = "packing` windows"; break;
    case TRI_PACKING_DOCUMENTS:
    case TRI_PACKING_AUTO: break;
  }
  if (whole != NULL) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`data.%s cannot be used with data.preferences, because its texts are complete and do not see each "
                    "other; leave it out",
                    whole);
  }
  if (c->data.too_long == TRI_TOO_LONG_CUT || c->data.too_long == TRI_TOO_LONG_TRUNCATE) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`data.too_long` %s cannot be used with data.preferences, because answers are never cut; use "
                    "refuse, drop or truncate_prompt (cuts the beginning of prompts)",
                    tri_run_config_too_long(c->data.too_long));
  }
  return check_dropout(c);
}

/* A path in place of data.train, which the table requires; it is not used. */
static const char stand_in[] = "(preferences)";

static bool is_said(const tri_yaml *node) {
  return node != NULL && node->kind == TRI_YAML_SCALAR && node->text[0] != '\0' && !tri_yaml_is_null(node);
}

/* Returns whether a run file has data.preferences, or an objective other than cross_entropy. */
static bool wants_preferences(const tri_yaml *root, const tri_yaml *data) {
  const tri_yaml *objective = tri_yaml_find(root, "objective");
  if (objective != NULL && objective->kind == TRI_YAML_MAPPING) objective = tri_yaml_find(objective, "name");
  if (is_said(objective) && strcmp(objective->text, "cross_entropy") != 0) return true;
  return is_said(tri_yaml_find(data, "preferences"));
}

tri_status tri_preference_keys_stand_in(tri_yaml_tree *tree, tri_yaml *root) {
  tri_yaml *none = NULL;
  if (root->kind != TRI_YAML_MAPPING) return TRI_OK; /* tri_config_read reports this */
  tri_yaml *data = tri_yaml_find(root, "data");
  if (data == NULL || data->kind != TRI_YAML_MAPPING || !wants_preferences(root, data)) return TRI_OK;
  const tri_yaml *train = tri_yaml_find(data, "train");
  if (train != NULL && !tri_yaml_is_null(train)) return TRI_OK;
  TRI_TRY(tri_yaml_make(tree, data, stand_in, &none));
  return tri_yaml_put(tree, data, "train", none);
}

tri_status tri_preference_keys_finish(tri_run_config *c) {
  const bool preference = tri_objective_is_preference(&c->objective);
  if (c->data.num_train == 1 && strcmp(c->data.train[0].path, stand_in) == 0) c->data.num_train = 0;
  if (preference && c->data.preferences[0] == '\0') {
    return tri_fail(TRI_BAD_CONFIG,
                    "`objective.name` is %s, a loss of preferences, and data.preferences is empty; name a corpus of "
                    "`trireme prepare --preferences`, or JSON lines",
                    tri_objective_config_name(&c->objective));
  }
  if (!preference && (c->data.preferences[0] != '\0' || c->data.validation_preferences[0] != '\0')) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`data.%s` needs a loss of preferences: set objective.name, for example to dpo, or name text in "
                    "data.train",
                    c->data.preferences[0] != '\0' ? "preferences" : "validation_preferences");
  }
  TRI_TRY(tri_objective_config_finish(&c->objective));
  if (!preference) {
    if (c->data.too_long != TRI_TOO_LONG_REFUSE && c->data.too_long != TRI_TOO_LONG_TRUNCATE_PROMPT) return TRI_OK;
    return tri_fail(TRI_BAD_CONFIG, "`data.too_long` %s goes with data.preferences; use cut, truncate or drop",
                    tri_run_config_too_long(c->data.too_long));
  }
  TRI_TRY(check_preference_keys(c));
  c->data.documents = TRI_DOCUMENTS_MASKED;
  c->data.packing = TRI_PACKING_DOCUMENTS;
  if (c->data.too_long == TRI_TOO_LONG_AUTO) c->data.too_long = TRI_TOO_LONG_REFUSE;
  c->data.num_train = 1;
  TRI_TRY(find_preferences(c, c->data.preferences, "preferences", c->data.train[0].path));
  if (c->data.validation_preferences[0] == '\0') return TRI_OK;
  return find_preferences(c, c->data.validation_preferences, "validation-preferences", c->data.validation);
}
