/* Replaces the weights of a generator by those of another checkpoint of the same model. */
#include "base/memory.h"
#include "comm/agreement.h"
#include "engine/model_files.h"
#include "generation/generation.h"
#include "model/model_config.h"

#include <stdio.h>
#include <string.h>

/* Fails unless both models have the same settings. */
static tri_status check_model(const tri_generation *g, const tri_model *other, const char *path) {
  char *own = NULL, *text = NULL;
  tri_status status = tri_model_print(&g->model, &own);
  if (status == TRI_OK) status = tri_model_print(other, &text);
  if (status == TRI_OK && strcmp(own, text) != 0)
    status = tri_fail(TRI_BAD_CONFIG, "%s is of a model with other settings than %s", path,
                      tri_checkpoint_path(g->weights.named));
  tri_free(own);
  tri_free(text);
  return status;
}

static tri_status open_other(const tri_generation *g, const char *path, tri_merged *out) {
  const tri_checkpoint_use use = tri_model_options_use(&g->request->model);
  tri_model model;
  TRI_TRY(tri_merged_open(path, g->request->model.base, &use, &model, out));
  if (g->request->unmerged) TRI_TRY(tri_merged_keep_factors(out, &model));
  return check_model(g, &model, path);
}

/* COLLECTIVE. Loads the weights, and computes their hash if the request has `hashes`. */
static tri_status load(tri_generation *g, const tri_merged *from) {
  tri_executor *executor = tri_runner_executor(g->runner);
  const tri_status status = tri_model_files_load(from, TRI_MODEL_FILES_WHOLE, tri_runner_parameters(g->runner),
                                                 &g->replicas.replica, executor);
  TRI_TRY(tri_common_failure(&g->replicas.all, status));
  TRI_TRY(tri_model_files_agree(&g->replicas.all, from, executor));
  if (!g->request->hashes) return TRI_OK;
  return tri_common_failure(&g->replicas.all, tri_model_files_hash(from, executor, &g->hash));
}

/* COLLECTIVE. Loads the weights of another checkpoint. If that fails, loads the old ones again, and fails with
 * TRI_BAD_FILE; with TRI_IO_FAILED if the old ones cannot be loaded, either. */
static tri_status replace(tri_generation *g, tri_merged *other) {
  char why[1024];
  const tri_status status = load(g, other);
  if (status == TRI_OK) return TRI_OK;
  snprintf(why, sizeof why, "%s", tri_status_message());
  if (load(g, &g->weights) != TRI_OK)
    return tri_fail(TRI_IO_FAILED, "%s; and the weights before it cannot be read again: %s", why, tri_status_message());
  if (g->generator != NULL) TRI_TRY(tri_generator_publish(g->generator, TRI_PUBLISH_BETWEEN));
  return tri_fail(TRI_BAD_FILE, "%s", why);
}

tri_status tri_generation_reload(tri_generation *g, const char *path, bool *more) {
  char shared[TRI_PATH_BYTES] = "";
  tri_merged other = {.named = NULL};
  if (path != NULL) snprintf(shared, sizeof shared, "%s", path);
  TRI_TRY(tri_broadcast(&g->replicas.all, 0, sizeof shared, shared));
  *more = shared[0] != '\0';
  if (!*more) return TRI_OK;
  tri_status status = tri_common_failure(&g->replicas.all, open_other(g, shared, &other));
  if (status == TRI_OK) status = replace(g, &other);
  if (status != TRI_OK) {
    tri_merged_close(&other);
    return status;
  }
  tri_merged_close(&g->weights);
  g->weights = other;
  const tri_checkpoint_state *state = tri_checkpoint_get_state(other.named);
  g->step = state == NULL ? -1 : state->step;
  return g->generator == NULL ? TRI_OK : tri_generator_publish(g->generator, TRI_PUBLISH_BETWEEN);
}
