/* The *points* of a run, which are values of all weights that the run keeps in addition to the trained ones: the
 * weights that an averaging optimizer evaluates instead of those that it trains (tri_optimizer.evaluated); the average
 * over the run, which any optimizer can have (optimizers/average.c); and the reference (optimizers/reference.c). */
#include "device/kernels.h"
#include "engine/engine_internal.h"
#include "optimizers/run.h"

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

/* ---- other points in the place of the weights -------------------------------------------------------------------- */

/* Returns whether the run keeps a point for the parameters of a call. */
static bool has_point(const tri_update_call *call, tri_policy point) {
  if (call->optimizer == NULL) return false;
  switch (point) {
    case TRI_POLICY_EVALUATED: return call->optimizer->evaluated != NULL;
    case TRI_POLICY_REFERENCE: return tri_reference_is_kept(call->settings);
    case TRI_POLICY_TRAINED: break;
  }
  return false;
}

/* Writes a point to the parameters of a call, whose trained values are at `trained`. */
static tri_status write_point(const tri_engine *engine, const tri_update_call *call, tri_policy point,
                              const void *trained, void *values) {
  tri_queue *queue = engine->device->queue;
  const tri_weights *weights = engine->executor->weights;
  const int64_t reference = tri_update_run_state(call, TRI_RUN_STATE_REFERENCE);
  switch (point) {
    case TRI_POLICY_EVALUATED:
      TRI_KERNEL_CALL(queue, lerp, call->type, call->count, call->optimizer->evaluated(call->settings), trained,
                      tri_weights_state(weights, call, 0), values);
      return TRI_OK;
    case TRI_POLICY_REFERENCE:
      return tri_update_widen(queue, call, reference, tri_weights_state(weights, call, reference), values);
    case TRI_POLICY_TRAINED: break;
  }
  return TRI_OK;
}

/* Gathers the parameters of buckets in which each replica has changed only its own shard (ZeRO 1 and 2). */
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

static bool has_any(const tri_engine *engine, tri_policy point) {
  const tri_optimizer_settings *settings = engine->options.optimizer;
  switch (point) {
    case TRI_POLICY_EVALUATED: return tri_optimizer_that_averages(settings) != NULL;
    case TRI_POLICY_REFERENCE: return settings != NULL && tri_reference_is_kept(settings);
    case TRI_POLICY_TRAINED: break;
  }
  return false;
}

tri_status tri_engine_swap_in(tri_engine *engine, tri_policy point) {
  tri_queue *queue = engine->device->queue;
  const tri_updates *updates = engine->parts.updates;
  if (!has_any(engine, point)) return TRI_OK;
  tri_queue_at(queue, "swap in weights", -1, NULL);
  for (int64_t i = 0; i < updates->count; i++) {
    const tri_update_call *call = &updates->calls[i];
    const tri_dtype wide = tri_dtype_wide(call->type);
    if (!has_point(call, point)) continue;
    void *values = tri_weights_call_values(engine->executor->weights, call);
    void *trained = tri_weights_call_gradients(engine->executor->weights, call);
    TRI_KERNEL_CALL(queue, convert, call->count, wide, values, wide, trained);
    TRI_TRY(write_point(engine, call, point, trained, values));
  }
  return gather_values(engine);
}

tri_status tri_engine_swap_back(tri_engine *engine, tri_policy point) {
  tri_queue *queue = engine->device->queue;
  const tri_updates *updates = engine->parts.updates;
  if (!has_any(engine, point)) return TRI_OK;
  tri_queue_at(queue, "swap back weights", -1, NULL);
  for (int64_t i = 0; i < updates->count; i++) {
    const tri_update_call *call = &updates->calls[i];
    const tri_dtype wide = tri_dtype_wide(call->type);
    if (!has_point(call, point)) continue;
    TRI_KERNEL_CALL(queue, convert, call->count, wide, tri_weights_call_gradients(engine->executor->weights, call),
                    wide, tri_weights_call_values(engine->executor->weights, call));
  }
  return gather_values(engine);
}

/* Returns whether a state is a state of the run that is marked as missing. */
static bool is_missing(const tri_optimizer_state *state, const bool missing[TRI_NUM_RUN_STATES]) {
  for (int r = 0; r < TRI_NUM_RUN_STATES; r++) {
    if (tri_run_states[r] == state) return missing[r];
  }
  return false;
}

tri_status tri_engine_begin_states(tri_engine *engine, const bool missing[TRI_NUM_RUN_STATES]) {
  tri_queue *queue = engine->device->queue;
  const tri_updates *updates = engine->parts.updates;
  for (int64_t i = 0; i < updates->count; i++) {
    const tri_update_call *call = &updates->calls[i];
    for (int64_t s = 0; s < tri_update_num_states(call); s++) {
      const tri_optimizer_state *state = tri_update_state(call, s);
      if (!state->as_value || (missing != NULL && !is_missing(state, missing))) continue;
      TRI_TRY(tri_update_narrow(queue, call, s, tri_weights_call_values(engine->executor->weights, call),
                                tri_weights_state(engine->executor->weights, call, s)));
    }
  }
  return TRI_OK;
}
