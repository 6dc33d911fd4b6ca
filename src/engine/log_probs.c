/* Log-probabilities of labels under any layout. The loss operation writes those of each micro-batch to the results of a
 * step. Then they are gathered from the ranks that have the labels. */
#include "engine/engine_internal.h"
#include "model/trainable.h"

#include <string.h>

void tri_engine_set_kl(tri_engine *engine, double kl) { engine->kl = kl; }

/* A feed whose sample 0 is sample `first` of another feed. */
typedef struct later {
  const tri_feed *feed;
  int64_t first;
} later;

static tri_status read_later(const void *from, int64_t index, const tri_sample *out) {
  const later *at = from;
  return tri_feed_read(at->feed, at->first + index, out);
}

/* Copies the results of this rank's micro-batch to their samples in `out` [samples, sequence]. */
static void place_batch(const tri_engine *engine, int64_t micro_batch, int64_t samples, double *out) {
  const tri_executor *executor = engine->executor;
  const tri_op_list *list = engine->parts.lists[0];
  const tri_group *batch = tri_mesh_group(engine->options.mesh, TRI_DOMAIN_BATCH);
  const tri_batch host = tri_executor_host_batch(executor, micro_batch);
  const double *results = tri_executor_host_label_results(executor, micro_batch);
  const int64_t first = (micro_batch * batch->size + batch->rank) * list->batch * list->tokens;
  for (int64_t r = 0; r < list->batch * list->sequence; r++) {
    const int64_t at = first + (host.global_rows == NULL ? r : host.global_rows[r]);
    if (at < samples * list->tokens) out[at] = host.labels[r] < 0 ? 0 : results[r];
  }
}

/* Sets `out` [samples, sequence] on all ranks. The result of each label is on one rank; the others add zeros. */
static tri_status join(const tri_engine *engine, int64_t micro_batches, int64_t samples, double *out) {
  const tri_mesh *mesh = engine->options.mesh;
  const int64_t count = samples * engine->options.sequence;
  memset(out, 0, (size_t)count * sizeof *out);
  if (tri_executor_label_results(engine->executor, 0) != NULL && tri_evaluation_counts(mesh)) {
    for (int64_t m = 0; m < micro_batches; m++) place_batch(engine, m, samples, out);
  }
  return tri_all_reduce(&mesh->world, TRI_FP64, count, out);
}

tri_status tri_engine_step_log_probs(tri_engine *engine, double *out) {
  return join(engine, engine->step.program->num_micro_batches, engine->step.batch.count, out);
}

/* Computes log-probabilities of at most as many samples as a step has. */
static tri_status some_log_probs(tri_engine *engine, const tri_feed *feed, int64_t samples, bool without_factors,
                                 double *out) {
  const tri_step_results *results = NULL;
  int64_t micro_batches = 0;
  TRI_TRY(tri_engine_forward(engine, feed, samples, without_factors, &micro_batches));
  TRI_TRY(tri_executor_read_results(engine->executor, &results));
  return join(engine, micro_batches, samples, out);
}

static tri_status all_log_probs(tri_engine *engine, const tri_feed *feed, int64_t samples, bool without_factors,
                                double *out) {
  const int64_t most = engine->options.global_batch;
  for (int64_t first = 0; first < samples; first += most) {
    const later at = {feed, first};
    const tri_feed from_first = {read_later, &at};
    const int64_t some = samples - first < most ? samples - first : most;
    TRI_TRY(some_log_probs(engine, &from_first, some, without_factors, out + first * engine->options.sequence));
  }
  return TRI_OK;
}

tri_status tri_engine_log_probs(tri_engine *engine, const tri_feed *feed, int64_t samples, tri_policy policy,
                                double *out) {
  if (!tri_objective_has_completions(engine->options.objective))
    return tri_fail_internal("log-probabilities of labels need an engine with an objective that has completions");
  const bool kept = tri_reference_is_kept(engine->options.optimizer);
  switch (policy) {
    case TRI_POLICY_TRAINED: return all_log_probs(engine, feed, samples, false, out);
    case TRI_POLICY_REFERENCE:
      if (kept) break;
      if (tri_trainable_has_adapter(&engine->options.model->tuning))
        return all_log_probs(engine, feed, samples, true, out);
      return tri_fail(TRI_UNSUPPORTED,
                      "a reference needs a model with an adapter, whose base it is, or an optimizer that keeps one");
    case TRI_POLICY_EVALUATED: break;
  }
  TRI_TRY(tri_engine_swap_in(engine, policy));
  const tri_status status = all_log_probs(engine, feed, samples, false, out);
  const tri_status swapped = tri_engine_swap_back(engine, policy);
  return status != TRI_OK ? status : swapped;
}
