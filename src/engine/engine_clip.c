/* Computes the norm of the whole gradient, which is spread over ranks.
 *
 * If several ranks hold an element, it counts on one of them. Among replicas this is the rank whose shard of the bucket
 * contains the element; among tensor ranks or stages that hold copies it is the first one. Squares are added in blocks
 * whose boundaries do not depend on the layout of stages or shards (TRI_BLOCK_ELEMENTS), and the blocks' sums are added
 * exactly. So the norm, and with it the clipped update, has the same bits under every layout. The loss is added up in
 * the same way. */
#include "device/exact_sum.h"
#include "device/kernels.h"
#include "engine/engine_internal.h"

#include <math.h>

/* Adds the squares of elements [first, end) of the flat arrays, in blocks that are counted from element `origin` on.
 * `at`: address of element `first`, which may be in the middle of a block where one parameter ends and the next one
 * begins. */
static tri_status add_squares(tri_engine *engine, int64_t origin, int64_t first, int64_t end, const char *at,
                              tri_exact_sum *sum) {
  size_t element = tri_dtype_bytes(tri_dtype_wide(engine->options.precision));
  while (first < end) {
    int64_t into = (first - origin) % TRI_BLOCK_ELEMENTS;
    int64_t most = into > 0 ? TRI_BLOCK_ELEMENTS - into : end - first;
    int64_t count = end - first < most ? end - first : most;
    TRI_KERNEL_CALL(engine->device->queue, block_squares, engine->options.precision, count, TRI_BLOCK_ELEMENTS, at,
                    sum);
    first += count;
    at += (size_t)count * element;
  }
  return TRI_OK;
}

/* Adds the squares of an entry's elements in [first, end). `at`: address of element `first`. Each member of a stack
 * begins a new block, so that its sum does not depend on the neighbours of the member. */
static tri_status entry_squares(tri_engine *engine, const tri_parameter *entry, int64_t first, int64_t end,
                                const char *at, tri_exact_sum *sum) {
  size_t element = tri_dtype_bytes(tri_dtype_wide(engine->options.precision));
  int64_t members = entry->num_members < 1 ? 1 : entry->num_members, size = entry->count / members;
  if (size % TRI_BLOCK_ELEMENTS == 0) size = entry->count; /* the same blocks in one call */
  for (int64_t origin = entry->offset; origin < entry->offset + entry->count; origin += size) {
    int64_t from = origin > first ? origin : first, to = origin + size < end ? origin + size : end;
    if (from >= to) continue;
    /* blocks of a stack begin at each member; those of other parameters are the blocks of the flat arrays */
    int64_t blocks_from = members > 1 ? origin : 0;
    TRI_TRY(add_squares(engine, blocks_from, from, to, at + (size_t)(from - first) * element, sum));
  }
  return TRI_OK;
}

/* Adds the squares of this replica's shard of a bucket. With ZeRO this is the shard that the rank updates. */
static tri_status bucket_squares(tri_engine *engine, const tri_bucket *bucket, tri_exact_sum *sum) {
  size_t element = tri_dtype_bytes(tri_dtype_wide(engine->options.precision));
  int64_t part_first = bucket->first + bucket->begins[bucket->rank];
  int64_t part_end = bucket->first + bucket->begins[bucket->rank + 1];
  const char *own = tri_weights_own_gradients(engine->executor->weights, bucket);
  for (int64_t i = bucket->first_entry; i < bucket->end_entry; i++) {
    const tri_parameter *entry = &engine->parts.table->entries[i];
    if (!entry->counted || entry->count == 0 || entry->alias || !tri_parameter_has_gradient(entry)) continue;
    int64_t first = entry->offset > part_first ? entry->offset : part_first;
    int64_t end = entry->offset + entry->count < part_end ? entry->offset + entry->count : part_end;
    if (first >= end) continue;
    TRI_TRY(entry_squares(engine, entry, first, end, own + (size_t)(first - bucket->own_first) * element, sum));
  }
  return TRI_OK;
}

static tri_status own_squares(tri_engine *engine, tri_exact_sum *sum) {
  for (int64_t b = 0; b < engine->parts.buckets->count; b++) {
    TRI_TRY(bucket_squares(engine, &engine->parts.buckets->entries[b], sum));
  }
  return TRI_OK;
}

/* Returns the divisor of the sum of losses; NaN if no label or completion counts. Losses of completions are scaled
 * already, so their divisor is 1. */
static double loss_divisor(const tri_engine *engine, const tri_step *step) {
  if (tri_objective_has_completions(engine->options.objective)) return step->completions > 0 ? 1 : NAN;
  return step->counted == 0 ? NAN : step->counted;
}

/* Adds up loss and gradient norm over the ranks. Marks a step as skipped if one of them is not finite, so that one bad
 * batch does not spoil the weights. */
tri_status tri_engine_clip(tri_engine *engine, tri_step_state *state) {
  const tri_step_results *results = NULL;
  TRI_TRY(own_squares(engine, &tri_executor_step_results(engine->executor)->squares));
  TRI_TRY(tri_executor_read_results(engine->executor, &results)); /* the only wait for results in a step */
  tri_exact_sum sums[3] = {results->squares, results->losses, results->router_losses};
  if (!tri_evaluation_counts(engine->options.mesh)) sums[1] = (tri_exact_sum){0};
  for (int i = 0; i < 3; i++) tri_exact_sum_normalise(&sums[i]);
  TRI_TRY(tri_all_sum_int64(&engine->options.mesh->world, (int64_t)(sizeof sums / (sizeof(int64_t))),
                            (int64_t *)(void *)sums));
  TRI_TRY(tri_routers_join(engine->routers, engine->executor, &engine->options.mesh->world));
  double norm = sqrt(tri_exact_sum_value(&sums[0]));
  state->result.grad_norm = norm;
  state->result.router_loss = tri_exact_sum_value(&sums[2]);
  state->result.loss = tri_exact_sum_value(&sums[1]) / loss_divisor(engine, &state->result);
  state->result.skipped = !isfinite(norm) || !isfinite(state->result.loss);
  double limit = engine->options.clip;
  state->gradient_scale = limit > 0 && norm > limit ? limit / norm : 1.0;
  return TRI_OK;
}
