/* From a configuration to all that a run needs: what it reads, its engine, its output. */
#include "train/train_internal.h"

#include "base/memory.h"
#include "comm/agreement.h"
#include "run/output.h"
#include "train/gemm_choices.h"
#include "train/startup_checks.h"

#include <string.h>

tri_engine_options tri_training_engine_options(const tri_run_config *config, const tri_mesh *mesh) {
  return (tri_engine_options){
      .model = &config->model,
      .layout = &config->layout,
      .mesh = mesh,
      .global_batch = config->optimizer.global_batch,
      .sequence = config->data.sequence,
      .precision = config->precision,
      .masked = config->data.documents == TRI_DOCUMENTS_MASKED,
      .seed = config->seed,
      .ignore_token = (int32_t)config->data.ignore_token,
      .optimizer = &config->optimizer.settings,
      .clip = config->optimizer.clip,
      .saves = true,
      .saves_in_background = config->checkpoint.async,
  };
}

static tri_status check_memory(tri_training *t) {
  tri_engine_options options = tri_training_engine_options(t->config, &t->mesh);
  tri_readiness_more more = {.snapshots = t->config->checkpoint.snapshot_every > 0};
  tri_status status = TRI_OK;
  if (tri_training_is_first(t)) status = tri_training_plan_samples(t->config, t->device, &more.samples);
  TRI_TRY(tri_first_rank_status(&t->mesh.world, status));
  return tri_readiness_memory(&options, t->device, &more);
}

static tri_status agree_on_products(tri_training *t, bool anew) {
  tri_engine_options options = tri_training_engine_options(t->config, &t->mesh);
  return tri_products_agree(&options, t->config, t->device, anew);
}

static tri_status create_engine(tri_training *t) {
  tri_engine_options options = tri_training_engine_options(t->config, &t->mesh);
  TRI_TRY(tri_engine_create(&options, t->device, &t->engine));
  TRI_TRY(tri_alloc("metrics of experts", (size_t)t->config->model.num_layers, sizeof *t->experts, &t->experts));
  t->predicted_bytes = tri_engine_predicted_bytes(t->engine);
  return TRI_OK;
}

tri_status tri_training_open(tri_training *t, const char *resume) {
  const tri_group *world = &t->mesh.world;
  TRI_TRY(tri_common_status(world, tri_run_data_open(t->config, &t->identity, &t->data)));
  TRI_TRY(tri_readiness_agree(&t->mesh, t->config, &t->data));
  const bool first = tri_training_is_first(t);
  TRI_TRY(tri_first_rank_status(world, first ? tri_training_check_samples(t->config, t->data.tokenizer) : TRI_OK));
  TRI_TRY(check_memory(t));
  TRI_TRY(tri_output_hold(world, t->config, strcmp(resume, "never") == 0, &t->lock, &t->identity));
  TRI_TRY(agree_on_products(t, strcmp(resume, "never") == 0));
  TRI_TRY(tri_common_status(world, create_engine(t)));
  TRI_TRY(tri_engine_share_gradients(t->engine));
  TRI_TRY(tri_common_status(
      world, tri_saver_create(t->engine, t->config, t->data.tokenizer, &t->identity, t->lock, &t->saver)));
  return tri_training_take_up(t, resume);
}
