/* Makes a corpus in the run's folder each time the run begins, if the run file names its preferences as a file of JSON
 * lines. The same text gives the same corpus, and a changed text is detected by its fingerprint. */
#include "train/train_internal.h"

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "data/prepare.h"
#include "files/file.h"
#include "files/hub.h"
#include "run/preference_keys.h"

#include <string.h>

/* Finds the tokenizer of the run, or of the model that the run begins with. */
static tri_status find_tokenizer(const tri_run_config *config, char out[TRI_PATH_BYTES]) {
  char folder[TRI_PATH_BYTES];
  if (config->data.tokenizer[0] != '\0') {
    TRI_TRY(tri_hub_resolve(config->data.tokenizer, out));
    if (tri_path_exists(out)) return TRI_OK;
    return tri_fail(TRI_BAD_CONFIG, "`data.tokenizer`: cannot find %s; name a tokenizer.json or its folder", out);
  }
  if (config->init[0] != '\0') {
    const tri_checkpoint_use use = {.settings_only = true};
    TRI_TRY(tri_checkpoint_find(config->init, &use, out));
    TRI_TRY(tri_path_join(folder, out, "tokenizer.json"));
    if (tri_path_exists(folder)) return TRI_OK;
  }
  return tri_fail(TRI_BAD_CONFIG,
                  "`data.preferences`: %s is text, but the run has no tokenizer; set data.tokenizer to a "
                  "tokenizer.json or its folder, or begin with a model (`init`) that has one in its folder",
                  config->data.preferences);
}

static tri_status prepare_some(const tri_run_config *config, const char *key, const char *from, const char *prefix) {
  char out[TRI_PATH_BYTES], tokenizer[TRI_PATH_BYTES];
  tri_prepare_report report = {0};
  if (from[0] == '\0' || !tri_preferences_are_text(from)) return TRI_OK;
  if (!tri_path_exists(from)) return tri_fail(TRI_BAD_FILE, "`%s`: cannot find the file %s", key, from);
  TRI_TRY(find_tokenizer(config, tokenizer));
  memcpy(out, prefix, sizeof out);
  *strrchr(out, '/') = '\0';
  const tri_prepare_options options = {.tokenizer = tokenizer,
                                       .out = out,
                                       .inputs = &from,
                                       .num_inputs = 1,
                                       .seed = config->seed,
                                       .force = true,
                                       .preferences = true};
  tri_log("preparing %s", from);
  const tri_status status = tri_prepare(&options, &report);
  if (status == TRI_OK || strstr(tri_status_message(), "--skip-bad") == NULL) return status;
  tri_saved_error bad = {TRI_OK, ""};
  tri_error_save(&bad, status);
  return tri_fail(status, "%s to `trireme prepare --preferences`, whose corpus data.preferences may name, too",
                  bad.message);
}

tri_status tri_training_prepare_preferences(const tri_run_config *config) {
  TRI_TRY(prepare_some(config, "data.preferences", config->data.preferences, config->data.train[0].path));
  return prepare_some(config, "data.validation_preferences", config->data.validation_preferences,
                      config->data.validation);
}
