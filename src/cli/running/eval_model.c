#include "cli/running/eval_model.h"

#include "base/count.h"
#include "base/format.h"
#include "base/log.h"
#include "cli/running/ranks.h"
#include "data/same_tokenizer.h"
#include "engine/block_loader.h"
#include "engine/model_files.h"
#include "engine/rank_device.h"

#include <string.h>

/* Adds advice to the message if `status` is that of an executor that does not fit into memory. Returns `status`. */
static tri_status suggest_less(tri_status status) {
  if (status != TRI_OUT_OF_MEMORY) return status;
  return tri_fail(status,
                  "%s; --precision bf16, T ranks that share the model (--tensor T), or a smaller --batch or --sequence "
                  "need less",
                  tri_status_message());
}

static tri_status create_executor(const tri_model *model, const tri_model_options *options, const tri_eval_shape *shape,
                                  tri_eval_model *out) {
  const tri_dtype precision = options->precision;
  const tri_mesh *mesh = &out->replicas.mesh;
  const tri_mesh_position position = {mesh->shape, mesh->place};
  TRI_TRY(tri_rank_device_create(options->device, (int)options->threads, &out->device));
  TRI_TRY(tri_device_supports(out->device, precision));
  TRI_TRY(tri_parameter_table_create_at(model, &position, &out->table));
  TRI_TRY(tri_block_loader_check(out->table, precision, out->device));
  tri_list_request list = tri_list_request_whole(model, shape->purpose, shape->batch, shape->sequence, precision);
  list.masked = shape->masked;
  list.shard.position = position;
  TRI_TRY(tri_model_operations(model, &list, &out->list));
  tri_memory_request request =
      tri_memory_request_forward(&out->list, out->table->num_elements, &out->device->description);
  memcpy(request.num_frozen, out->table->num_frozen, sizeof request.num_frozen);
  request.load_bytes = tri_weights_load_bytes(out->table, NULL, precision);
  tri_executor_add_exchange(&request, out->replicas.replica.size, out->device);
  TRI_TRY(tri_weights_create(out->table, NULL, precision, &out->weights));
  return suggest_less(tri_executor_create(out->weights, &request, out->device, mesh, &out->executor));
}

tri_status tri_eval_model_create(const tri_model *model, const tri_merged *weights, const tri_model_options *options,
                                 const tri_eval_shape *shape, const tri_group *group, int64_t tensor,
                                 tri_eval_model *out) {
  TRI_TRY(tri_replicas_create(group, tensor, model, weights, &out->replicas));
  TRI_TRY(tri_ranks_agree(group, create_executor(model, options, shape, out)));
  TRI_TRY(tri_model_files_load(weights, TRI_MODEL_FILES_WHOLE, out->table, &out->replicas.replica, out->executor));
  TRI_TRY(tri_model_files_agree(group, weights, out->executor));
  return tri_executor_prepare(out->executor);
}

void tri_eval_model_release(tri_eval_model *model) {
  tri_executor_destroy(model->executor);
  tri_weights_destroy(model->weights);
  tri_op_list_destroy(model->list);
  tri_parameter_table_destroy(model->table);
  tri_device_destroy(model->device);
  tri_replicas_destroy(&model->replicas);
  *model = (tri_eval_model){0};
}

void tri_eval_log_idle(const tri_group *group, int64_t tensor, int64_t samples, int64_t batch) {
  const int64_t replicas = group->size / tri_larger(1, tensor), batches = tri_divide_up(samples, batch);
  if (batches >= replicas) return;
  tri_log("%ld batch%s of %ld sequence%s for %ld replicas of the model: some have nothing to do%s", (long)batches,
          batches == 1 ? "" : "es", (long)batch, TRI_PLURAL(batch), (long)replicas,
          batch > 1 ? "; a smaller --batch makes more batches" : "");
}

tri_status tri_eval_model_score(const tri_eval_model *model, tri_feed_scoring *scoring) {
  scoring->group = &model->replicas.leaders;
  scoring->executor = model->executor;
  const tri_status status = tri_feed_score(scoring);
  tri_log_progress_end();
  return status;
}

tri_status tri_eval_corpus_tokenizer(const tri_merged *weights, const tri_model_options *options,
                                     const tri_corpus *corpus, tri_tokenizer **out) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_model_files_tokenizer(weights, options->tokenizer, !options->no_verify, path));
  if (path[0] != '\0') {
    TRI_TRY(tri_tokenizer_create(path, out));
    TRI_TRY(tri_same_tokenizer(tri_model_files_tokenizer_folder(weights), options->tokenizer, *out));
  }
  return tri_corpus_check_tokenizer(corpus, *out, path);
}
