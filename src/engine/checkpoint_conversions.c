#include "engine/checkpoint_conversions.h"

#include "base/memory.h"
#include "engine/checkpoint_map.h"
#include "optimizers/run.h"

#include <string.h>

/* ---- staged ------------------------------------------------------------------------------------------------------ */

static tri_status make_staged(const tri_staged_slice *s) {
  tri_engine *engine = s->engine;
  const tri_update_call *call = s->call;
  char *to = tri_weights_call_gradients(engine->executor->weights, call);
  if (s->state >= 0) {
    return tri_update_widen(engine->device->queue, call, s->state,
                            tri_weights_state(engine->executor->weights, call, s->state), to);
  }
  TRI_KERNEL_CALL(engine->device->queue, lerp, call->type, call->count, call->optimizer->evaluated(call->settings),
                  tri_weights_call_values(engine->executor->weights, call),
                  tri_weights_state(engine->executor->weights, call, 0), to);
  return TRI_OK;
}

static tri_status narrow_staged(tri_engine *engine) {
  const tri_staged_slice *s = engine->staged;
  if (s == NULL || !engine->staged_written) return TRI_OK;
  engine->staged_written = false;
  return tri_update_narrow(engine->device->queue, s->call, s->state,
                           tri_weights_call_gradients(engine->executor->weights, s->call),
                           tri_weights_state(engine->executor->weights, s->call, s->state));
}

static tri_status stage(const tri_staged_slice *s) {
  tri_engine *engine = s->engine;
  if (engine->staged == s) return TRI_OK;
  TRI_TRY(narrow_staged(engine));
  engine->staged = s;
  TRI_TRY(make_staged(s));
  return tri_queue_finish(engine->device->queue);
}

static tri_status staged_read(void *context, void *to_host, const void *from, size_t bytes) {
  const tri_staged_slice *s = context;
  const tri_checkpoint_memory *real = tri_executor_memory(s->engine->executor);
  TRI_TRY(stage(s));
  if (real != NULL) return real->read(real->context, to_host, from, bytes);
  memcpy(to_host, from, bytes);
  return TRI_OK;
}

static tri_status staged_write(void *context, void *to, const void *from_host, size_t bytes) {
  const tri_staged_slice *s = context;
  const tri_checkpoint_memory *real = tri_executor_memory(s->engine->executor);
  TRI_TRY(stage(s));
  s->engine->staged_written = true;
  if (real != NULL) return real->write(real->context, to, from_host, bytes);
  memcpy(to, from_host, bytes);
  return TRI_OK;
}

tri_status tri_checkpoint_map_written(tri_engine *engine) {
  TRI_TRY(narrow_staged(engine));
  engine->staged = NULL;
  return tri_queue_finish(engine->device->queue);
}

void tri_staged_slice_set_up(tri_engine *engine, const tri_update_call *call, int64_t state, tri_staged_slice *out) {
  *out = (tri_staged_slice){{out, staged_read, staged_write, NULL}, engine, call, state};
}

/* ---- alternating ------------------------------------------------------------------------------------------------- */

/* Reads elements [first, first + count) of the alternating order to to_host, or writes them from from_host (the other
 * pointer is NULL). On the device the elements of a member are adjacent, so they are copied in one piece; in host
 * memory they are every n-th element. */
static tri_status pass_alternating(const tri_alternating_slice *a, int64_t first, int64_t count, char *to_host,
                                   const char *from_host) {
  const tri_checkpoint_memory *real = tri_executor_memory(a->engine->executor);
  const int64_t n = a->part.stacked.together;
  char *own = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("members of a stack", (size_t)(count / n + 2), a->element, &own));
  for (int64_t m = 0; m < n && status == TRI_OK; m++) {
    const int64_t begin = first <= m ? 0 : (first - m + n - 1) / n;
    const int64_t end = first + count <= m ? 0 : (first + count - m + n - 1) / n;
    const size_t bytes = end > begin ? (size_t)(end - begin) * a->element : 0;
    char *at = a->first + (size_t)(m * a->distance + begin) * a->element;
    if (bytes == 0) continue;
    if (to_host != NULL && real != NULL) status = real->read(real->context, own, at, bytes);
    if (to_host != NULL && real == NULL) memcpy(own, at, bytes);
    for (int64_t i = begin; i < end && status == TRI_OK; i++) {
      const size_t there = (size_t)(i * n + m - first) * a->element, here = (size_t)(i - begin) * a->element;
      if (to_host != NULL) memcpy(to_host + there, own + here, a->element);
      if (to_host == NULL) memcpy(own + here, from_host + there, a->element);
    }
    if (to_host == NULL && real != NULL && status == TRI_OK) status = real->write(real->context, at, own, bytes);
    if (to_host == NULL && real == NULL) memcpy(at, own, bytes);
  }
  tri_free(own);
  return status;
}

/* Reads elements of an alternating slice. `from` is an offset from a->first, counted as if the elements were stored
 * there in alternating order. */
static tri_status alternating_read(void *context, void *to_host, const void *from, size_t bytes) {
  const tri_alternating_slice *a = context;
  const int64_t first = ((const char *)from - a->first) / (int64_t)a->element;
  return pass_alternating(a, first, (int64_t)(bytes / a->element), to_host, NULL);
}

static tri_status alternating_write(void *context, void *to, const void *from_host, size_t bytes) {
  const tri_alternating_slice *a = context;
  const int64_t first = ((const char *)to - a->first) / (int64_t)a->element;
  return pass_alternating(a, first, (int64_t)(bytes / a->element), NULL, from_host);
}

void tri_alternating_slice_set_up(tri_engine *engine, tri_alternating_slice *out) {
  *out = (tri_alternating_slice){.memory = {out, alternating_read, alternating_write, NULL}, .engine = engine};
}

bool tri_checkpoint_converts(const tri_checkpoint_slice *slice) {
  return slice->memory != NULL && (slice->memory->read == staged_read || slice->memory->read == alternating_read);
}
