/* Averages of weights: the point that an optimizer evaluates in place of the one that it trains
 * (tri_optimizer.evaluated), and the average over the run, which any optimizer can have (optimizers/average.c). */
#include "device/kernels.h"
#include "engine/engine_internal.h"

void tri_engine_parameters_changed(tri_engine *engine) { tri_weights_changed(engine->weights); }

/* ---- state ------------------------------------------------------------------------------------------------------- */

tri_averaging tri_engine_averaging(const tri_engine *engine) { return engine->averaging; }

void tri_engine_set_averaging(tri_engine *engine, tri_averaging averaging) { engine->averaging = averaging; }

tri_averaging tri_engine_next_averaging(const tri_engine *engine, int64_t updates, double lr, double *weight) {
  const tri_optimizer_settings *settings = engine->options.optimizer;
  const tri_optimizer *optimizer = tri_optimizer_that_averages(settings);
  tri_averaging next = engine->averaging;
  *weight = 0;
  if (optimizer == NULL) return next;
  if (lr > next.highest_lr) next.highest_lr = lr;
  const double own = optimizer->weight(settings, updates + 1, next.highest_lr);
  next.weights += own;
  if (next.weights > 0) *weight = own / next.weights;
  return next;
}

/* ---- average over the run ---------------------------------------------------------------------------------------- */

tri_status tri_engine_average_weights(tri_engine *engine, int64_t update) {
  tri_queue *queue = engine->device->queue;
  const tri_updates *updates = engine->parts.updates;
  const tri_optimizer_settings *settings = engine->options.optimizer;
  if (!tri_average_is_due(settings, update)) return TRI_OK;
  const bool first = engine->averaging.taken == 0;
  const double weight = tri_average_weight(settings, engine->averaging.taken);
  tri_queue_at(queue, "average", -1, NULL);
  for (int64_t i = 0; i < updates->count; i++) {
    const tri_update_call *call = &updates->calls[i];
    const tri_dtype wide = tri_dtype_wide(call->type);
    if (call->optimizer == NULL) continue;
    const void *values = tri_weights_call_values(engine->executor->weights, call);
    void *average =
        tri_weights_state(engine->executor->weights, call, tri_update_run_state(call, TRI_RUN_STATE_AVERAGE));
    if (first) {
      TRI_KERNEL_CALL(queue, convert, call->count, wide, values, wide, average);
    } else {
      TRI_KERNEL_CALL(queue, lerp, call->type, call->count, weight, average, values, average);
    }
  }
  engine->averaging.taken++;
  return TRI_OK;
}

/* ---- evaluated point --------------------------------------------------------------------------------------------- */

static bool averages(const tri_update_call *call) {
  return call->optimizer != NULL && call->optimizer->evaluated != NULL;
}

/* Gathers the parameters of buckets in which each replica has changed only its own shard. */
static tri_status gather_values(tri_engine *engine) {
  for (int64_t b = 0; b < engine->parts.buckets->count; b++) {
    const tri_bucket *bucket = &engine->parts.buckets->entries[b];
    if (engine->options.layout->zero == 0 || bucket->ranks == 1 || bucket->values_sharded) continue;
    if (!tri_bucket_is_trained(bucket)) continue;
    TRI_TRY(tri_exchange_all_gather(engine->executor->ranks.exchange,
                                    tri_mesh_group(engine->options.mesh, bucket->replicas),
                                    tri_dtype_wide(engine->options.precision), bucket->begins,
                                    tri_weights_bucket_values(engine->executor->weights, bucket)));
  }
  tri_engine_parameters_changed(engine);
  return TRI_OK;
}

/* With `evaluated`, copies the trained weights to the gradients' memory, and replaces them by the evaluated ones;
 * without it, copies the trained weights back. */
static tri_status change_point(tri_engine *engine, bool evaluated) {
  tri_queue *queue = engine->device->queue;
  const tri_updates *updates = engine->parts.updates;
  if (tri_optimizer_that_averages(engine->options.optimizer) == NULL) return TRI_OK;
  tri_queue_at(queue, "average", -1, NULL);
  for (int64_t i = 0; i < updates->count; i++) {
    const tri_update_call *call = &updates->calls[i];
    const tri_dtype wide = tri_dtype_wide(call->type);
    if (!averages(call)) continue;
    void *values = tri_weights_call_values(engine->executor->weights, call);
    void *kept = tri_weights_call_gradients(engine->executor->weights, call);
    TRI_KERNEL_CALL(queue, convert, call->count, wide, evaluated ? values : kept, wide, evaluated ? kept : values);
    if (!evaluated) continue;
    TRI_KERNEL_CALL(queue, lerp, call->type, call->count, call->optimizer->evaluated(call->settings), kept,
                    tri_weights_state(engine->executor->weights, call, 0), values);
  }
  return gather_values(engine);
}

tri_status tri_engine_swap_in_averaged_weights(tri_engine *engine) { return change_point(engine, true); }

tri_status tri_engine_swap_back(tri_engine *engine) { return change_point(engine, false); }

tri_status tri_engine_begin_states(tri_engine *engine) {
  tri_queue *queue = engine->device->queue;
  const tri_updates *updates = engine->parts.updates;
  for (int64_t i = 0; i < updates->count; i++) {
    const tri_update_call *call = &updates->calls[i];
    const tri_dtype wide = tri_dtype_wide(call->type);
    for (int64_t s = 0; s < tri_update_num_states(call); s++) {
      if (!tri_update_state(call, s)->as_value) continue;
      TRI_KERNEL_CALL(queue, convert, call->count, wide, tri_weights_call_values(engine->executor->weights, call), wide,
                      tri_weights_state(engine->executor->weights, call, s));
    }
  }
  return TRI_OK;
}
