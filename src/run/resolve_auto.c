#include "run/resolve_auto.h"

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "config/yaml.h"
#include "data/corpus.h"
#include "files/file.h"
#include "files/hub.h"

#include <stdio.h>
#include <string.h>

static bool is_settled(const tri_run_config *c) {
  return c->data.documents != TRI_DOCUMENTS_AUTO && c->data.packing != TRI_PACKING_AUTO &&
         c->data.too_long != TRI_TOO_LONG_AUTO;
}

void tri_run_resolve_auto_older(tri_run_config *c) {
  if (c->data.documents == TRI_DOCUMENTS_AUTO) c->data.documents = TRI_DOCUMENTS_JOINED;
  if (c->data.packing == TRI_PACKING_AUTO) c->data.packing = TRI_PACKING_WINDOWS;
  if (c->data.too_long == TRI_TOO_LONG_AUTO) c->data.too_long = TRI_TOO_LONG_CUT;
}

/* Resolves `auto` keys with the `data` section of another configuration; a key that the section lacks has the behaviour
 * of older versions. */
static void resolve_auto_from_other_run(const tri_yaml *data, tri_run_config *c) {
  const tri_yaml *documents = tri_yaml_find(data, "documents"), *packing = tri_yaml_find(data, "packing"),
                 *too_long = tri_yaml_find(data, "too_long");
  tri_document_use use = TRI_DOCUMENTS_JOINED;
  tri_packing_use packed = TRI_PACKING_WINDOWS;
  tri_too_long rule = TRI_TOO_LONG_CUT;
  if (documents != NULL && documents->kind == TRI_YAML_SCALAR) tri_run_config_find_documents(documents->text, &use);
  if (packing != NULL && packing->kind == TRI_YAML_SCALAR) tri_run_config_find_packing(packing->text, &packed);
  if (too_long != NULL && too_long->kind == TRI_YAML_SCALAR) tri_run_config_find_too_long(too_long->text, &rule);
  if (c->data.documents == TRI_DOCUMENTS_AUTO) c->data.documents = use;
  if (c->data.packing == TRI_PACKING_AUTO) c->data.packing = packed;
  if (c->data.too_long == TRI_TOO_LONG_AUTO) c->data.too_long = rule;
  tri_run_resolve_auto_older(c);
}

/* Resolves `auto` keys with the text of another configuration. A text that cannot be read is ignored, and reported
 * where it is needed. */
static void resolve_from_text(const char *name, const char *text, size_t bytes, tri_run_config *c) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  if (tri_yaml_create(&tree) != TRI_OK) return;
  if (tri_yaml_parse(tree, name, false, text, bytes, &root) == TRI_OK && root->kind == TRI_YAML_MAPPING) {
    const tri_yaml *data = tri_yaml_find(root, "data");
    if (data != NULL && data->kind == TRI_YAML_MAPPING) resolve_auto_from_other_run(data, c);
  }
  tri_yaml_destroy(tree);
}

static tri_status resolve_from_output(tri_run_config *c) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_path_join(path, c->output, "checkpoints"));
  if (tri_checkpoint_highest_step(path) < 0) return TRI_OK; /* no checkpoint to resume from */
  TRI_TRY(tri_path_join(path, c->output, "config.yaml"));
  if (!tri_path_exists(path) || tri_file_read_plain(path, TRI_YAML_MAX_BYTES, &text, &bytes) != TRI_OK) return TRI_OK;
  resolve_from_text(path, text, bytes, c);
  tri_free(text);
  return TRI_OK;
}

/* Resolves `auto` keys with the run file of a checkpoint. A folder that is missing or is not a run's checkpoint is
 * ignored here, and reported where it is opened. */
static void resolve_from_checkpoint(const char *given, tri_run_config *c) {
  char folder[TRI_PATH_BYTES];
  tri_checkpoint *checkpoint = NULL;
  const tri_checkpoint_use use = {.settings_only = true};
  if (tri_checkpoint_find(given, &use, folder) != TRI_OK || tri_checkpoint_open(folder, &checkpoint) != TRI_OK) return;
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  if (state != NULL && state->run_config != NULL) {
    resolve_from_text("the checkpoint's run file", state->run_config, strlen(state->run_config), c);
  }
  tri_checkpoint_close(checkpoint);
}

/* Copies `init` with its hub commit from another configuration, if that names the same model at another commit, and
 * logs this. */
static void resolve_commit(const char *name, const char *text, size_t bytes, tri_run_config *c) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  if (tri_yaml_create(&tree) != TRI_OK) return;
  if (tri_yaml_parse(tree, name, false, text, bytes, &root) == TRI_OK && root->kind == TRI_YAML_MAPPING) {
    const tri_yaml *init = tri_yaml_find(root, "init");
    const bool same = init != NULL && init->kind == TRI_YAML_SCALAR && tri_hub_same_model(init->text, c->init);
    if (same && strcmp(init->text, c->init) != 0 && init->text[tri_hub_name_length(init->text)] == '@') {
      tri_log("`init` stays at %s, with which this run began; the cache has another commit by now", init->text);
      snprintf(c->init, sizeof c->init, "%s", init->text);
    }
  }
  tri_yaml_destroy(tree);
}

/* Keeps the base that a resumed run began with, if `init` does not name a revision. */
static void keep_commit(tri_run_config *c, const char *resume) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  if (!c->init_follows_main || strcmp(resume, "auto") != 0) return;
  if (tri_path_join(path, c->output, "checkpoints") != TRI_OK || tri_checkpoint_highest_step(path) < 0) return;
  if (tri_path_join(path, c->output, "config.yaml") != TRI_OK || !tri_path_exists(path)) return;
  if (tri_file_read_plain(path, TRI_YAML_MAX_BYTES, &text, &bytes) != TRI_OK) return;
  resolve_commit(path, text, bytes, c);
  tri_free(text);
}

static bool has_mask(const char *prefix) {
  char path[TRI_PATH_BYTES];
  return tri_path_with(path, prefix, TRI_CORPUS_MASK_SUFFIX) == TRI_OK && tri_path_exists(path);
}

tri_status tri_run_resolve_auto(tri_run_config *c, const char *resume) {
  keep_commit(c, resume);
  if (!is_settled(c) && strcmp(resume, "auto") == 0) TRI_TRY(resolve_from_output(c));
  if (!is_settled(c) && strcmp(resume, "auto") != 0 && strcmp(resume, "never") != 0) resolve_from_checkpoint(resume, c);
  bool masked = false;
  for (int64_t k = 0; k < c->data.num_train && !is_settled(c); k++) masked = masked || has_mask(c->data.train[k].path);
  if (masked) {
    if (c->data.documents == TRI_DOCUMENTS_AUTO) c->data.documents = TRI_DOCUMENTS_MASKED;
    if (c->data.packing == TRI_PACKING_AUTO) c->data.packing = TRI_PACKING_DOCUMENTS;
    const bool packed = c->data.packing == TRI_PACKING_DOCUMENTS;
    if (c->data.too_long == TRI_TOO_LONG_AUTO && packed) c->data.too_long = TRI_TOO_LONG_TRUNCATE;
  }
  tri_run_resolve_auto_older(c);
  if (c->data.too_long == TRI_TOO_LONG_CUT || c->data.packing == TRI_PACKING_DOCUMENTS) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`data.too_long: %s` goes with `data.packing: documents`; windows of the text cut documents anywhere",
                  tri_run_config_too_long(c->data.too_long));
}
