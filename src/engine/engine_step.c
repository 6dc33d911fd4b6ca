/* Executes the instructions of a step program. */
#include "base/flight_recorder.h"
#include "checkpoint/singular_vectors.h"
#include "device/exact_sum.h"
#include "engine/bf16_in_place.h"
#include "engine/engine_internal.h"
#include "mesh/label.h"
#include "optimizers/run.h"

/* ---- data -------------------------------------------------------------------------------------------------------- */

static const tri_group *group_of(const tri_engine *engine, tri_domain domain) {
  return tri_mesh_group(engine->options.mesh, domain);
}

/* Returns the global number of a micro-batch. Micro-batches are assigned in turn to the ranks of TRI_DOMAIN_BATCH. */
static int64_t global_micro_batch(const tri_engine *engine, int64_t micro_batch) {
  const tri_group *batch = group_of(engine, TRI_DOMAIN_BATCH);
  return micro_batch * batch->size + batch->rank;
}

/* Waits until the previous contents of the host's batch `number` have been copied to the device, and returns the
 * batch. */
static tri_status open_batch(tri_engine *engine, int64_t number, tri_batch *out) {
  *out = tri_executor_host_batch(engine->executor, number);
  return tri_device_event_wait(&engine->uploaded[number]);
}

static tri_status upload(tri_engine *engine, int64_t number) {
  TRI_TRY(tri_executor_upload_batch(engine->executor, number));
  return tri_queue_mark(engine->device->queue, &engine->uploaded[number]);
}

/* Returns the number of rows of a micro-batch on this rank. */
static int64_t own_rows(const tri_engine *engine) {
  const tri_op_list *list = engine->parts.lists[0];
  return list->batch * list->sequence;
}

/* Returns whether a row's label belongs to a completion, even if its weight in the cross entropy is 0. */
static bool in_completion(const tri_batch *batch, int64_t row) {
  if (batch->segments == NULL) return false;
  return batch->segments[batch->global_rows == NULL ? row : batch->global_rows[row]] >= 0;
}

/* Marks the labels that do not count, so that the loss ignores them. */
static void mark_labels(int64_t rows, int32_t ignore_token, const tri_batch *batch) {
  for (int64_t i = 0; i < rows; i++) {
    const bool ignored = batch->labels[i] >= 0 && batch->labels[i] == ignore_token;
    const bool weightless = batch->labels[i] >= 0 && batch->weights[i] == 0 && !in_completion(batch, i);
    if (ignored || weightless) batch->labels[i] = TRI_LABEL_NONE;
  }
}

/* Adds the weights of the labels that count. Adjacent labels mostly have the same weight. The product of a weight and
 * the number of such labels is exact for fewer than 2^29 labels, so it is added as one term. */
static void add_weights(int64_t rows, const tri_batch *batch, tri_exact_sum *sum) {
  double weight = 0, count = 0;
  for (int64_t i = 0; i < rows; i++) {
    if (batch->labels[i] < 0) continue;
    if ((double)batch->weights[i] != weight) {
      tri_exact_sum_add(sum, weight * count);
      weight = (double)batch->weights[i];
      count = 0;
    }
    count++;
  }
  tri_exact_sum_add(sum, weight * count);
}

/* Counts the pairs of completions of the micro-batch, or its unpaired completions (tri_step.completions): the different
 * values of segment / 2, which ascend in a sequence. Only the first of the ranks that share the sequences counts them;
 * the others return 0. */
static int64_t count_completions(const tri_engine *engine, const tri_batch *batch) {
  const tri_op_list *list = engine->parts.lists[0];
  const int64_t rows = list->batch * list->tokens;
  int64_t pairs = 0, last = -1;
  if (batch->segments == NULL || tri_op_list_rank(list, TRI_DOMAIN_CONTEXT) > 0) return 0;
  for (int64_t i = 0; i < rows; i++) {
    if (i % list->tokens == 0) last = -1;
    const int64_t pair = batch->segments[i] < 0 ? -1 : batch->segments[i] / 2;
    pairs += pair > last;
    if (pair > last) last = pair;
  }
  return pairs;
}

/* Returns the number of rows that are not padding. */
static int64_t count_tokens(int64_t rows, const int32_t *labels) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < rows; i++) tokens += labels[i] != TRI_LABEL_PADDING;
  return tokens;
}

/* Returns the number of query-key pairs of the first `tokens` tokens. A token attends to itself and to the earlier
 * tokens of its document; if `most` is not 0, to at most `most` tokens. */
static int64_t count_seen(int64_t tokens, const int32_t *positions, int64_t most) {
  int64_t seen = 0;
  for (int64_t i = 0; i < tokens; i++) seen += most > 0 && positions[i] >= most ? most : positions[i] + 1;
  return seen;
}

/* Reads the tokens into host memory, counts them, and queues their copy to the device. */
static tri_status step_load(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  int64_t size = engine->options.layout->micro_batch;
  const int64_t first = global_micro_batch(engine, at->micro_batch) * size;
  const int64_t left = state->batch.count - first, samples = left < 0 ? 0 : left < size ? left : size;
  const int64_t seen_rows = samples * engine->parts.lists[0]->sequence; /* the last sequences are padding */
  tri_batch batch;
  TRI_TRY(open_batch(engine, at->micro_batch, &batch));
  for (int64_t i = 0; i < size; i++) {
    const tri_sample row = tri_executor_sequence(engine->executor, i);
    if (i < samples) TRI_TRY(tri_feed_read(state->feed, state->batch.first + first + i, &row));
    if (i >= samples) tri_sample_fill_padding(engine->options.sequence, &row);
  }
  TRI_TRY(tri_executor_make_batch(engine->executor, at->micro_batch));
  mark_labels(own_rows(engine), engine->options.ignore_token, &batch);
  add_weights(own_rows(engine), &batch, &state->counted);
  state->completions += count_completions(engine, &batch);
  state->tokens += count_tokens(own_rows(engine), batch.labels);
  state->seen += count_seen(seen_rows, batch.positions, 0);
  state->seen_in_window += count_seen(seen_rows, batch.positions, engine->options.model->window);
  return upload(engine, at->micro_batch);
}

static double one_of(double count) { return count == 0 ? 0.0 : 1.0 / count; }

static double label_scale(const tri_engine *engine) {
  return engine->options.objective == NULL ? 1.0 : engine->options.objective->label_scale;
}

/* Sets the values of the step that are known before the update, among them the scales of losses. `tokens`: tokens of
 * the global batch. */
static tri_status fill_values(tri_engine *engine, const tri_step_state *state, int64_t tokens) {
  tri_step_values *values = tri_executor_host_values(engine->executor);
  TRI_TRY(tri_device_event_wait(&engine->values_uploaded));
  *values = (tri_step_values){.gradient_scale = 1.0,
                              .loss_scale = label_scale(engine) * one_of(state->result.counted),
                              .segment_scale = one_of((double)state->result.completions),
                              .kl = engine->kl,
                              .token_scale = one_of((double)tokens),
                              .sequence_scale = 1.0 / (double)state->batch.count,
                              .step = state->batch.step,
                              .first_sample = state->batch.first,
                              .seed = engine->options.seed};
  TRI_TRY(tri_queue_upload(engine->device->queue, tri_executor_step_values(engine->executor), values, sizeof *values));
  return tri_queue_mark(engine->device->queue, &engine->values_uploaded);
}

static tri_status step_count_labels(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)at;
  struct {
    tri_exact_sum counted;
    int64_t seen, seen_in_window, tokens, completions;
  } sums = {state->counted, state->seen, state->seen_in_window, state->tokens, state->completions};
  tri_exact_sum_normalise(&sums.counted);
  TRI_TRY(tri_all_sum_int64(group_of(engine, TRI_DOMAIN_LOSS), (int64_t)(sizeof sums / sizeof(int64_t)),
                            (int64_t *)(void *)&sums));
  state->result.samples = state->batch.count;
  state->result.counted = tri_exact_sum_value(&sums.counted);
  state->result.completions = sums.completions;
  state->result.seen = sums.seen;
  state->result.seen_in_window = sums.seen_in_window;
  return fill_values(engine, state, sums.tokens);
}

static tri_status step_prepare(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  (void)at;
  return tri_executor_is_prepared(engine->executor) ? TRI_OK : tri_executor_prepare(engine->executor);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static tri_exchange_request **message_of(tri_engine *engine, const tri_instruction *at) {
  return &engine->messages[(int64_t)at->stage_buffer_kind * engine->most_stage_buffers + at->stage_buffer];
}

static tri_status step_post_receive(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  const tri_executor *executor = engine->executor;
  return tri_exchange_receive_start(
      executor->ranks.exchange, group_of(engine, TRI_DOMAIN_PIPELINE), at->peer, at->tag, executor->plan->row_bytes,
      tri_executor_stage_buffer(executor, at->stage_buffer_kind, at->stage_buffer),
      tri_executor_host_stage_buffer(executor, at->stage_buffer_kind, at->stage_buffer), message_of(engine, at));
}

static tri_status step_receive(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  return tri_exchange_wait(message_of(engine, at));
}

static tri_status step_send(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  const tri_executor *executor = engine->executor;
  return tri_exchange_send_start(
      executor->ranks.exchange, group_of(engine, TRI_DOMAIN_PIPELINE), at->peer, at->tag, executor->plan->row_bytes,
      tri_executor_stage_buffer(executor, at->stage_buffer_kind, at->stage_buffer),
      tri_executor_host_stage_buffer(executor, at->stage_buffer_kind, at->stage_buffer), message_of(engine, at));
}

static tri_status step_wait_sent(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  return tri_exchange_wait(message_of(engine, at));
}

/* ---- forward and backward ---------------------------------------------------------------------------------------- */

static void set_batch(const tri_engine *engine, int64_t number, tri_run *run) {
  tri_executor_set_batch(engine->executor, number, run);
  run->log_probs = tri_executor_label_results(engine->executor, number);
}

static tri_run run_of(tri_engine *engine, const tri_step_state *state, const tri_instruction *at) {
  int64_t size = engine->options.layout->micro_batch;
  tri_run run = tri_executor_run(engine->executor, at->chunk, at->frame);
  run.training = !state->evaluating;
  run.without_factors = state->without_factors;
  run.batch = size;
  run.sequence = engine->parts.lists[0]->sequence;
  run.values = tri_executor_step_values(engine->executor);
  run.sample = global_micro_batch(engine, at->micro_batch) * size;
  run.loss_sum = &tri_executor_step_results(engine->executor)->loss;
  if (!state->evaluating && engine->routers != NULL) {
    const tri_memory_plan *plan = engine->executor->plan;
    run.router_loss = &tri_executor_step_results(engine->executor)->routers;
    run.router_losses = &tri_executor_step_results(engine->executor)->router_losses;
    run.router_counts = tri_executor_router_counts(engine->executor, at->chunk);
    run.expert_rounds = engine->executor->expert_rounds + plan->chunks[at->chunk].first_router;
  }
  if (!state->evaluating) set_batch(engine, at->micro_batch, &run);
  return run;
}

/* Reads the tokens of a micro-batch of an evaluation, when its forward needs them. Each stage reads the tokens itself.
 * The micro-batches use the executor's batches in turn. */
static tri_status load_windows(tri_engine *engine, tri_step_state *state, const tri_instruction *at, tri_run *run) {
  const tri_engine_options *options = &engine->options;
  int64_t number = at->micro_batch % (engine->micro_batches + 1);
  tri_batch host;
  TRI_TRY(open_batch(engine, number, &host));
  tri_score_batch batch = {
      .feed = state->feed,
      .samples = state->samples,
      .first = global_micro_batch(engine, at->micro_batch) * options->layout->micro_batch,
      .batch = options->layout->micro_batch,
      .sequence = options->sequence,
      .into = tri_executor_sequence(engine->executor, 0),
  };
  TRI_TRY(tri_score_batch_read(&batch));
  TRI_TRY(tri_executor_make_batch(engine->executor, number));
  mark_labels(own_rows(engine), options->ignore_token, &host);
  if (at->chunk == 0 && at->first_call == 0) add_weights(own_rows(engine), &host, &state->counted);
  set_batch(engine, number, run);
  return upload(engine, number);
}

/* Returns whether the calls of the instruction include the loss operation. */
static bool makes_loss(const tri_engine *engine, const tri_instruction *at) {
  const tri_op_list *list = engine->parts.lists[at->chunk];
  return at->end_call > at->first_call && list->calls[at->end_call - 1].op->makes_loss;
}

static tri_status step_forward(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  tri_step_results *results = tri_executor_step_results(engine->executor);
  tri_run run = run_of(engine, state, at);
  if (state->evaluating) TRI_TRY(load_windows(engine, state, at, &run));
  run.received = tri_executor_stage_buffer(engine->executor, TRI_STAGE_BUFFER_ACTIVATION_IN, at->in_buffer);
  run.to_send = tri_executor_stage_buffer(engine->executor, TRI_STAGE_BUFFER_ACTIVATION_OUT, at->out_buffer);
  TRI_TRY(tri_executor_forward_some(engine->executor, at->chunk, at->first_call, at->end_call, &run));
  if (!makes_loss(engine, at)) return TRI_OK;
  TRI_KERNEL_CALL(engine->device->queue, exact_add, &results->loss, &results->losses);
  return TRI_OK;
}

static tri_status backward(tri_engine *engine, const tri_step_state *state, const tri_instruction *at, bool inputs,
                           bool weights) {
  tri_run run = run_of(engine, state, at);
  tri_backward what = {at->chunk, at->first_call, at->end_call, inputs, weights};
  run.received_gradient = tri_executor_stage_buffer(engine->executor, TRI_STAGE_BUFFER_GRADIENT_IN, at->in_buffer);
  run.gradient_to_send = tri_executor_stage_buffer(engine->executor, TRI_STAGE_BUFFER_GRADIENT_OUT, at->out_buffer);
  return tri_executor_backward(engine->executor, &what, &run);
}

static tri_status step_backward(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  return backward(engine, state, at, true, true);
}

static tri_status step_backward_input(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  return backward(engine, state, at, true, false);
}

static tri_status step_backward_weight(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  return backward(engine, state, at, false, true);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Returns the address of element `elements` of a wide array. */
static void *element_at(const tri_engine *engine, void *array, int64_t elements) {
  return (char *)array + (size_t)elements * tri_dtype_bytes(tri_dtype_wide(engine->options.precision));
}

/* Adds the gradients of tied parameters, embedding + output projection in this order, on one rank or over two ranks. */
static tri_status step_sum_tied(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  (void)at;
  const tri_parameter_table *table = engine->parts.table;
  tri_dtype wide = tri_dtype_wide(engine->options.precision);
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *head = &table->entries[i];
    if (head->tied_to < 0 || head->frozen) continue;
    const tri_parameter *embedding = &table->entries[head->tied_to];
    void *of_head = engine->executor->weights->parameters[i].gradient;
    void *of_embedding = engine->executor->weights->parameters[head->tied_to].gradient;
    if (head->alias) {
      TRI_KERNEL_CALL(engine->device->queue, add, wide, tri_all_rows(1), head->count, of_embedding, of_head,
                      of_embedding);
    } else if (head->count > 0) {
      TRI_TRY(tri_exchange_all_reduce(engine->executor->ranks.exchange, &engine->options.mesh->tied, wide, head->count,
                                      of_head));
    } else if (embedding->count > 0) {
      TRI_TRY(tri_exchange_all_reduce(engine->executor->ranks.exchange, &engine->options.mesh->tied, wide,
                                      embedding->count, of_embedding));
    }
  }
  return TRI_OK;
}

/* Adds the gradients of attention heads that several ranks hold: each rank copies its gradient into the slot of its
 * heads, all slots are added up over the ranks, and each rank copies its slot back. */
static tri_status sum_copies(tri_engine *engine, const tri_parameter *entry, void *gradient) {
  tri_dtype wide = tri_dtype_wide(engine->options.precision);
  size_t bytes = (size_t)entry->count * tri_dtype_bytes(wide);
  char *slots = tri_executor_partial(engine->executor);
  char *own = slots + (size_t)entry->first_unit * bytes;
  TRI_KERNEL_CALL(engine->device->queue, fill_zero, bytes * (size_t)entry->split.units, slots);
  TRI_KERNEL_CALL(engine->device->queue, convert, entry->count, wide, gradient, wide, own);
  TRI_TRY(tri_exchange_all_reduce(engine->executor->ranks.exchange, group_of(engine, entry->placement.parts), wide,
                                  entry->count * entry->split.units, slots));
  TRI_KERNEL_CALL(engine->device->queue, convert, entry->count, wide, own, wide, gradient);
  return TRI_OK;
}

static tri_status step_sum_partial(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  const tri_bucket *bucket = &engine->parts.buckets->entries[at->bucket];
  tri_dtype wide = tri_dtype_wide(engine->options.precision);
  for (int64_t i = bucket->first_entry; i < bucket->end_entry; i++) {
    const tri_parameter *entry = &engine->parts.table->entries[i];
    if (!tri_parameter_is_partial(entry) || entry->count == 0) continue;
    void *gradient = engine->executor->weights->parameters[i].gradient;
    if (entry->split.dim >= 0) {
      TRI_TRY(sum_copies(engine, entry, gradient));
    } else {
      TRI_TRY(tri_exchange_all_reduce(engine->executor->ranks.exchange, group_of(engine, entry->placement.parts), wide,
                                      entry->count, gradient));
    }
  }
  return TRI_OK;
}

/* Returns the type in which replicas exchange gradients. */
static tri_dtype exchange_type(const tri_engine *engine) {
  return tri_layout_reduce_type(engine->options.layout, engine->options.precision);
}

/* Starts the reduction of a bucket's gradients. They are added over the replicas and not averaged: the loss of each
 * label is already divided by the sum of the label weights of the global batch (step_count_labels), so the sum is the
 * gradient of the mean. */
static tri_status step_reduce(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  const tri_bucket *bucket = &engine->parts.buckets->entries[at->bucket];
  const tri_group *replicas = group_of(engine, bucket->replicas);
  int64_t count = bucket->end - bucket->first;
  tri_dtype type = exchange_type(engine);
  void *gradients = tri_weights_bucket_gradients(engine->executor->weights, bucket);
  if (type == TRI_BF16) TRI_TRY(tri_to_bf16_in_place(engine->device, count, gradients));
  if (engine->options.layout->zero == 0) {
    return tri_exchange_all_reduce_start(engine->executor->ranks.exchange, replicas, type, count, gradients,
                                         &engine->reductions[at->bucket]);
  }
  return tri_exchange_reduce_scatter_start(engine->executor->ranks.exchange, replicas, type, bucket->begins, gradients,
                                           &engine->reductions[at->bucket]);
}

/* Waits for the reduction of a bucket's gradients. If they are sharded, copies this rank's shard out of the reduce
 * buffer, because another bucket uses the buffer next. */
static tri_status step_wait_reduced(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  const tri_bucket *bucket = &engine->parts.buckets->entries[at->bucket];
  tri_dtype wide = tri_dtype_wide(engine->options.precision);
  bool all = engine->options.layout->zero == 0;
  int64_t begin = all ? 0 : bucket->own_first - bucket->first;
  int64_t end = (all ? bucket->end : bucket->own_end) - bucket->first;
  void *whole = tri_weights_bucket_gradients(engine->executor->weights, bucket);
  TRI_TRY(tri_exchange_wait(&engine->reductions[at->bucket]));
  if (exchange_type(engine) == TRI_BF16) TRI_TRY(tri_to_fp32_in_place(engine->device, begin, end, whole));
  if (!bucket->gradients_sharded) return TRI_OK;
  TRI_KERNEL_CALL(engine->device->queue, convert, end - begin, wide, element_at(engine, whole, begin), wide,
                  tri_weights_own_gradients(engine->executor->weights, bucket));
  return TRI_OK;
}

/* Gathers a bucket's frozen parameters of one stored type; copies this rank's shard into the gather buffer first. */
static tri_status gather_frozen(tri_engine *engine, const tri_bucket *bucket, tri_stored stored,
                                tri_exchange_request **request) {
  const tri_executor *executor = engine->executor;
  const tri_frozen_range *range = &bucket->frozen[stored];
  const tri_dtype type = tri_stored_gathered(stored, engine->options.precision);
  const int64_t begin = range->begins[bucket->rank], count = range->begins[bucket->rank + 1] - begin;
  char *whole = tri_weights_bucket_frozen(executor->weights, bucket, stored);
  TRI_TRY(tri_queue_move(engine->device->queue, whole + (size_t)begin * tri_dtype_bytes(type),
                         tri_weights_own_frozen(executor->weights, bucket, stored),
                         (size_t)count * tri_dtype_bytes(type)));
  return tri_exchange_all_gather_start(executor->ranks.exchange, group_of(engine, bucket->replicas), type,
                                       range->begins, whole, request);
}

static tri_status gather_trained(tri_engine *engine, const tri_bucket *bucket, tri_exchange_request **request) {
  tri_dtype wide = tri_dtype_wide(engine->options.precision);
  void *whole = tri_weights_bucket_values(engine->executor->weights, bucket);
  if (bucket->values_sharded) {
    TRI_KERNEL_CALL(engine->device->queue, convert, bucket->own_end - bucket->own_first, wide,
                    tri_weights_own_values(engine->executor->weights, bucket), wide,
                    element_at(engine, whole, bucket->own_first - bucket->first));
  }
  return tri_exchange_all_gather_start(engine->executor->ranks.exchange, group_of(engine, bucket->replicas), wide,
                                       bucket->begins, whole, request);
}

/* Starts to gather the parameters of a bucket. Frozen parameters are gathered only if they are sharded, since they
 * never change. */
static tri_status step_gather(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  const tri_bucket *bucket = &engine->parts.buckets->entries[at->bucket];
  tri_exchange_request **requests = &engine->gathers[at->bucket * BUCKET_GATHERS];
  if (tri_bucket_is_trained(bucket)) TRI_TRY(gather_trained(engine, bucket, &requests[0]));
  for (int s = 0; s < TRI_NUM_STORED && bucket->values_sharded; s++) {
    if (bucket->frozen[s].end == bucket->frozen[s].first) continue;
    TRI_TRY(gather_frozen(engine, bucket, (tri_stored)s, &requests[1 + s]));
  }
  return TRI_OK;
}

static tri_status step_wait_gathered(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)state;
  for (int g = 0; g < BUCKET_GATHERS; g++) {
    TRI_TRY(tri_exchange_wait(&engine->gathers[at->bucket * BUCKET_GATHERS + g]));
  }
  return TRI_OK;
}

/* ---- update ------------------------------------------------------------------------------------------------------ */

/* Updates this rank's shard of a parameter, and the same elements of the parameter's copy for GEMMs. If other ranks
 * update the rest of the parameter, the `prepare` functions of operations pack the whole copy after these values have
 * been gathered. */
static tri_status run_optimizer(tri_engine *engine, int64_t update, const tri_update_call *call) {
  tri_executor *executor = engine->executor;
  tri_update_run run = {
      .queue = engine->device->queue,
      .values = tri_executor_step_values(executor),
      .value = tri_weights_call_values(executor->weights, call),
      .gradient = tri_weights_call_gradients(executor->weights, call),
      .narrow = tri_weights_copy_to_write(executor->weights, call->entry, call->first, call->count),
      .workspace = tri_executor_update_workspace(executor),
      .update = update,
      .singular_vectors = tri_singular_vectors,
      .collectives = &tri_engine_collectives,
      .ranks = &executor->ranks,
  };
  for (int64_t s = 0; s < call->optimizer->num_states; s++)
    run.states[s] = tri_weights_state(executor->weights, call, s);
  return tri_update_run_call(&run, call);
}

/* Runs an optimizer's call or, if `call` has no optimizer, moves a router's biases. */
static tri_status run_call(tri_engine *engine, int64_t update, const tri_update_call *call) {
  const tri_model *model = engine->options.model;
  if (call->optimizer != NULL) return run_optimizer(engine, update, call);
  if (!tri_balances_by_bias(model->balance)) return TRI_OK;
  return tri_routers_move_bias(engine->routers, engine->executor, call, model->balance_rate);
}

static tri_status step_clip(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)at;
  return tri_engine_clip(engine, state);
}

/* Uploads the values of the step that are known only after the backward, and the values of the update. */
static tri_status upload_values(tri_engine *engine, const tri_step_state *state, double average) {
  tri_step_values *values = tri_executor_host_values(engine->executor);
  TRI_TRY(tri_device_event_wait(&engine->values_uploaded));
  values->gradient_scale = state->gradient_scale;
  values->lr = state->lr;
  values->average = average;
  values->update = state->updates + 1;
  TRI_TRY(tri_queue_upload(engine->device->queue, tri_executor_step_values(engine->executor), values, sizeof *values));
  return tri_queue_mark(engine->device->queue, &engine->values_uploaded);
}

static tri_status step_update(tri_engine *engine, tri_step_state *state, const tri_instruction *at) {
  (void)at;
  double average = 0;
  if (state->result.skipped) return TRI_OK;
  const tri_averaging next = tri_engine_next_averaging(engine, state->updates, state->lr, &average);
  TRI_TRY(upload_values(engine, state, average));
  tri_weights_changed(engine->executor->weights);
  const tri_updates *updates = engine->parts.updates;
  for (int64_t i = 0; i < updates->count; i++) TRI_TRY(run_call(engine, state->updates + 1, &updates->calls[i]));
  engine->averaging = next;
  return tri_engine_average_weights(engine, state->updates + 1);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

typedef tri_status engine_handler(tri_engine *engine, tri_step_state *state, const tri_instruction *at);

#define HANDLER(KIND, name, ...) step_##name,
static engine_handler *const handlers[] = {TRI_INSTRUCTIONS(HANDLER)};
#undef HANDLER

static uint64_t begin_record(const tri_instruction *at) {
  tri_record record = tri_record_make(TRI_RECORD_WORK, tri_instruction_name(at->kind));
  record.code = (int32_t)at->kind;
  record.micro_batch = at->micro_batch;
  record.chunk = at->chunk;
  record.bucket = at->bucket;
  return tri_recorder_begin(&record);
}

static tri_status execute(tri_engine *engine, const tri_instruction *at, tri_step_state *state) {
  uint64_t ticket = begin_record(at);
  tri_queue_at(engine->device->queue, tri_instruction_name(at->kind), -1, NULL);
  TRI_TRY(handlers[at->kind](engine, state, at));
  tri_recorder_end(ticket);
  return TRI_OK;
}

tri_status tri_engine_begin(tri_engine *engine, bool keeps_gradients) {
  engine->staged = NULL;              /* the gradients' memory has gradients again */
  engine->step.phase = TRI_STEP_NONE; /* an unfinished step is dropped */
  for (int64_t i = 0; i < engine->parts.table->num_entries; i++)
    engine->executor->weights->parameters[i].gradient_written = false;
  tri_queue_at(engine->device->queue, "begin", -1, NULL);
  TRI_TRY(tri_executor_reset_step(engine->executor, !keeps_gradients));
  TRI_TRY(tri_executor_clear_results(engine->executor));
  tri_routers_clear(engine->routers, engine->executor);
  return TRI_OK;
}

tri_status tri_engine_execute(tri_engine *engine, const tri_program *program, tri_program_part part,
                              tri_step_state *state) {
  const tri_executor *executor = engine->executor;
  int64_t results = executor->result_waits, staging = tri_exchange_waits(executor->ranks.exchange);
  for (int64_t i = part.first; i < part.end; i++) TRI_TRY(execute(engine, &program->instructions[i], state));
  if (state->evaluating) return TRI_OK;
  engine->result_waits += executor->result_waits - results;
  engine->staging_waits += tri_exchange_waits(executor->ranks.exchange) - staging;
  return TRI_OK;
}
