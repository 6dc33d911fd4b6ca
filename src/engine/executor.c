#include "engine/executor.h"

#include "base/format.h"
#include "base/memory.h"
#include "base/system.h"
#include "device/kernels.h"
#include "ops/context.h"

#include <stdio.h>

/* Returns TRI_OUT_OF_MEMORY, with a message that lists the bytes by part. `wanted`: planned bytes; `available`: bytes
 * that `who` has; `taken`: text about reserved memory, after these bytes; `more`: text at the end of the message. */
static tri_status not_enough(const tri_memory_plan *plan, size_t wanted, const char *who, size_t available,
                             const char *taken, const char *more) {
  char need[32], have[32], fixed[32], frame[32], buffers[32], rest[32];
  size_t state = plan->parameter_bytes + plan->gradient_bytes + plan->optimizer_bytes;
  size_t activations = plan->activation_bytes + plan->transient_bytes;
  size_t named = state + plan->buffer_bytes + activations;
  const char *advice = plan->gradient_bytes == 0 ? ""
                                                 : "; reduce layout.micro_batch or data.sequence if the activations "
                                                   "are the larger part, else choose a smaller "
                                                   "model or precision: bf16";
  return tri_fail(
      TRI_OUT_OF_MEMORY,
      "this run needs %zu bytes (%s), but %s has %zu (%s) available%s: parameters, gradients and optimizer %s, packed "
      "weights %s, activations of a micro-batch %s, batches, messages and staging %s%s%s",
      wanted, tri_format_bytes((double)wanted, need, sizeof need), who, available,
      tri_format_bytes((double)available, have, sizeof have), taken,
      tri_format_bytes((double)state, fixed, sizeof fixed),
      tri_format_bytes((double)plan->buffer_bytes, buffers, sizeof buffers),
      tri_format_bytes((double)activations, frame, sizeof frame),
      tri_format_bytes((double)(wanted > named ? wanted - named : 0), rest, sizeof rest), advice, more);
}

static tri_status check_fits(const tri_device *device, const tri_memory_plan *plan) {
  const tri_device_info *info = &device->info;
  char who[TRI_DEVICE_NAME_BYTES + 16], taken[160];
  size_t on_host = plan->host_bytes + (info->host_memory ? plan->device_bytes : 0);
  size_t machine = tri_system_memory_available(), limit = info->memory_bytes;
  snprintf(who, sizeof who, "the device %s", info->name);
  if (machine != 0 && on_host > machine) return not_enough(plan, on_host, "the machine", machine, "", "");
  if (limit != 0 && plan->device_bytes > limit) {
    return not_enough(plan, plan->device_bytes, who, limit, tri_device_describe_reserved(info, taken, sizeof taken),
                      "; `device_memory` of a run file limits this amount");
  }
  return TRI_OK;
}

/* Returns the address of an offset in the plan. */
static char *address(const tri_executor *executor, size_t offset) {
  const size_t scratch = executor->plan->scratch;
  return offset < scratch ? executor->arena + offset : executor->scratch + (offset - scratch);
}

static void *resolve(const tri_executor *executor, const tri_chunk_plan *chunk, tri_place place, int64_t frame) {
  switch (place.region) {
    case TRI_REGION_NONE: return NULL;
    case TRI_REGION_FRAME: return address(executor, chunk->frames) + (size_t)frame * chunk->frame_bytes + place.offset;
    case TRI_REGION_TRANSIENT: return address(executor, executor->plan->transient) + place.offset;
  }
  return NULL;
}

static void resolve_chunk(const tri_executor *executor, const tri_chunk_plan *plan, tri_executor_chunk *chunk) {
  for (int64_t f = 0; f < plan->num_frames; f++) {
    for (int64_t s = 0; s < TRI_NUM_PASSES * plan->num_slots; s++) {
      chunk->slots[f * TRI_NUM_PASSES * plan->num_slots + s] = resolve(executor, plan, plan->slots[s], f);
    }
    for (int64_t s = 0; s < plan->num_slots; s++) {
      chunk->gradients[f * plan->num_slots + s] = resolve(executor, plan, plan->gradients[s], f);
    }
  }
  for (int64_t i = 0; i < plan->num_calls * TRI_OP_BUFFERS; i++) {
    chunk->buffers[i] = plan->buffers[i] == 0 ? NULL : address(executor, plan->buffers[i]);
  }
  for (int64_t i = 0; i < plan->num_constants; i++) chunk->constants[i] = executor->arena + plan->constants[i];
  const size_t *host_state = plan->host_state, frame = host_state[plan->num_calls];
  for (int64_t i = 0; i < plan->num_frames * plan->num_calls; i++) {
    const int64_t f = i / plan->num_calls, c = i % plan->num_calls;
    bool empty = host_state[c] == host_state[c + 1];
    chunk->host_state[i] = empty ? NULL : executor->host + plan->host_states + (size_t)f * frame + host_state[c];
  }
}

static tri_status fill_constants(tri_executor *executor, const tri_executor_chunk *chunk) {
  for (int64_t i = 0; i < chunk->list->num_constants; i++) {
    const tri_constant *constant = &chunk->list->constants[i];
    void *host = NULL;
    TRI_TRY(tri_alloc("a table of constants", constant->bytes, 1, &host));
    constant->fill(constant->attributes, host);
    tri_queue_at(executor->device->queue, "constants", -1, NULL);
    tri_status status = tri_queue_upload_now(executor->device->queue, chunk->constants[i], host, constant->bytes);
    tri_free(host);
    TRI_TRY(status);
  }
  return TRI_OK;
}

static tri_status create_chunk(const tri_chunk_plan *plan, const tri_op_list *list, tri_executor_chunk *out) {
  size_t pointers = (size_t)(plan->num_frames * plan->num_slots);
  out->list = list;
  TRI_TRY(tri_alloc("slots", TRI_NUM_PASSES * pointers, sizeof *out->slots, &out->slots));
  TRI_TRY(tri_alloc("slots", pointers, sizeof *out->gradients, &out->gradients));
  TRI_TRY(tri_alloc("buffers", (size_t)plan->num_calls * TRI_OP_BUFFERS, sizeof *out->buffers, &out->buffers));
  TRI_TRY(tri_alloc("notes", (size_t)(plan->num_frames * plan->num_calls), sizeof *out->host_state, &out->host_state));
  return tri_alloc("constants", (size_t)plan->num_constants, sizeof *out->constants, &out->constants);
}

static int64_t counts_of_batch(const tri_executor *executor) {
  return executor->num_lists + 1 + 2 * (executor->outer + 1);
}

static tri_batch_counts batch_counts(const tri_executor *executor, int64_t number) {
  int64_t *at = executor->counts + number * counts_of_batch(executor), *send = at + executor->num_lists + 1;
  return (tri_batch_counts){.slice_begins = at, .send_begins = send, .receive_begins = send + executor->outer + 1};
}

/* Makes all batches in host memory. Initially every sequence is one document. */
static tri_status make_batches(tri_executor *executor, const tri_memory_request *request) {
  const tri_op_context context = tri_op_list_context(request->lists[0]);
  executor->num_lists = tri_op_context_lists(&context);
  executor->outer = context.outer;
  TRI_TRY(tri_batch_maker_create(request->lists[0], &executor->maker));
  TRI_TRY(tri_alloc("batches", (size_t)(request->num_batches * counts_of_batch(executor)), sizeof *executor->counts,
                    &executor->counts));
  TRI_TRY(tri_alloc("batches", 2 * (size_t)(context.outer + 1), sizeof *executor->begins, &executor->begins));
  for (int64_t b = 0; b < request->num_batches; b++) TRI_TRY(tri_executor_make_batch(executor, b));
  return TRI_OK;
}

/* Creates the exchange. Host copies of communicated values exist only if neither the host nor MPI can access device
 * memory. */
static tri_status create_exchange(tri_executor *executor) {
  const tri_memory_plan *plan = executor->plan;
  bool staged = plan->exchange_bytes > 0, reached = plan->sums_bytes > 0;
  const tri_exchange_memory memory = {
      .staging = staged ? executor->host + plan->exchange : NULL,
      .sums = reached ? executor->arena + plan->sums : NULL,
      .transfer = {.device = executor->arena + plan->transfer,
                   .host = staged && !reached ? executor->host + plan->host_transfer : NULL,
                   .bytes = plan->transfer_bytes},
  };
  return tri_exchange_create(executor->device, &memory, &executor->ranks.exchange);
}

/* Allocates the weights, if no other executor has done so. If this executor trains them, gives them its memory for
 * gradients and optimizer states. */
static tri_status prepare_weights(tri_executor *executor, bool training) {
  const tri_memory_plan *plan = executor->plan;
  TRI_TRY(tri_weights_allocate(executor->weights, &plan->weights, executor->device));
  if (!training) return TRI_OK;
  const tri_weights_training arrays = {.gradients = executor->arena + plan->gradient_values,
                                       .reduce_buffers = executor->arena + plan->reduce_buffers,
                                       .sink = executor->arena + plan->sink,
                                       .states = executor->arena + plan->states};
  return tri_weights_train(executor->weights, &arrays);
}

static tri_status set_up(tri_executor *executor, const tri_memory_request *given) {
  tri_memory_request here = *given;
  const tri_memory_request *request = &here;
  here.has_weights = executor->weights->device != NULL;
  TRI_TRY(tri_memory_plan_create(request, &executor->plan));
  TRI_TRY(check_fits(executor->device, executor->plan));
  const tri_lent_memory *lent = &request->lent;
  if (lent->memory != NULL && (request->num_chunks > 1 || lent->bytes < executor->plan->scratch_bytes))
    return tri_fail_internal("%zu bytes are lent, and %zu are needed", lent->bytes, executor->plan->scratch_bytes);
  size_t chunks = (size_t)request->num_chunks;
  TRI_TRY(tri_alloc("chunks", chunks, sizeof *executor->chunks, &executor->chunks));
  TRI_TRY(tri_alloc("loads of experts", (size_t)executor->plan->num_routers, sizeof *executor->expert_rounds,
                    &executor->expert_rounds));
  void *arena = NULL, *host = NULL;
  TRI_TRY(tri_device_memory_create(executor->device, executor->plan->arena_bytes, &arena));
  executor->arena = arena;
  executor->scratch = lent->memory != NULL ? lent->memory : executor->arena + executor->plan->scratch;
  if (executor->plan->host_bytes > 0) {
    TRI_TRY(tri_device_host_create(executor->device, executor->plan->host_bytes, &host));
  }
  executor->host = host;
  TRI_TRY(create_exchange(executor));
  TRI_TRY(make_batches(executor, request));
  TRI_TRY(prepare_weights(executor, request->training));
  for (int64_t c = 0; c < request->num_chunks; c++) {
    TRI_TRY(create_chunk(&executor->plan->chunks[c], request->lists[c], &executor->chunks[c]));
    resolve_chunk(executor, &executor->plan->chunks[c], &executor->chunks[c]);
    TRI_TRY(fill_constants(executor, &executor->chunks[c]));
  }
  return TRI_OK;
}

static tri_status read_memory(void *context, void *to_host, const void *from, size_t bytes) {
  return tri_queue_download_now(context, to_host, from, bytes);
}

static tri_status write_memory(void *context, void *to, const void *from_host, size_t bytes) {
  return tri_queue_upload_now(context, to, from_host, bytes);
}

void tri_executor_add_exchange(tri_memory_request *request, int64_t ranks, const tri_device *device) {
  request->sums_bytes = ranks > 1 && device->info.reached ? TRI_EXCHANGE_SUMS_BYTES : 0;
  request->exchange_bytes = ranks > 1 && !device->info.host_access ? TRI_EXCHANGE_STAGING_BYTES : 0;
}

tri_status tri_executor_create(tri_weights *weights, const tri_memory_request *request, tri_device *device,
                               const tri_mesh *mesh, tri_executor **out) {
  const tri_parameter_table *table = weights->table;
  tri_executor *executor = NULL;
  if (request->training && request->buckets == NULL && request->num_gradients < table->num_gradient_elements) {
    return tri_fail_internal("room for %ld elements of gradients, of %ld", (long)request->num_gradients,
                             (long)table->num_gradient_elements);
  }
  TRI_TRY(tri_alloc("an executor", 1, sizeof *executor, &executor));
  executor->device = device;
  executor->weights = weights;
  executor->prepared = -1;
  executor->memory = (tri_checkpoint_memory){device->queue, read_memory, write_memory, NULL};
  executor->alone = tri_mesh_alone();
  executor->ranks.mesh = mesh == NULL ? &executor->alone : mesh;
  executor->type = request->lists[0]->type;
  tri_status status = set_up(executor, request);
  if (status != TRI_OK) {
    tri_executor_destroy(executor);
    return status;
  }
  *out = executor;
  return TRI_OK;
}

void tri_executor_destroy(tri_executor *executor) {
  if (executor == NULL) return;
  if (executor->arena != NULL) {
    tri_queue_drain(executor->device->queue); /* queued work reads and writes the arena */
    tri_exchange_destroy(executor->ranks.exchange);
    tri_device_memory_destroy(executor->device, executor->arena, executor->plan->arena_bytes);
    tri_device_host_destroy(executor->device, executor->host, executor->plan->host_bytes);
  }
  tri_batch_maker_destroy(executor->maker);
  tri_free(executor->counts);
  tri_free(executor->begins);
  tri_free(executor->expert_rounds);
  for (int64_t c = 0; executor->chunks != NULL && c < executor->plan->num_chunks; c++) {
    tri_free(executor->chunks[c].host_state);
    tri_free(executor->chunks[c].constants);
    tri_free(executor->chunks[c].buffers);
    tri_free(executor->chunks[c].gradients);
    tri_free(executor->chunks[c].slots);
  }
  tri_free(executor->chunks);
  tri_memory_plan_destroy(executor->plan);
  tri_free(executor);
}

tri_run tri_executor_run(tri_executor *executor, int64_t chunk, int64_t frame) {
  const tri_executor_chunk *at = &executor->chunks[chunk];
  return (tri_run){
      .queue = executor->device->queue,
      .collectives = &tri_engine_collectives,
      .ranks = &executor->ranks,
      .slots = at->slots + frame * TRI_NUM_PASSES * executor->plan->chunks[chunk].num_slots,
      .gradients = at->gradients + frame * executor->plan->chunks[chunk].num_slots,
      .buffers = at->buffers,
      .constants = at->constants,
      .host_state = at->host_state + frame * executor->plan->chunks[chunk].num_calls,
      .parameters = executor->weights->parameters,
      .transfer = executor->arena + executor->plan->transfer,
  };
}

/* Returns the scratch memory of a call. `which`: a tri_pass, or TRI_WORKSPACE_AGAIN plus a tri_pass. */
static void *workspace_of(const tri_executor *executor, int64_t chunk, int64_t call, int which) {
  const tri_memory_plan *plan = executor->plan;
  return address(executor, plan->transient) + plan->chunks[chunk].workspaces[call * TRI_NUM_WORKSPACES + which];
}

tri_status tri_executor_prepare(tri_executor *executor) {
  for (int64_t i = 0; i < executor->plan->num_chunks; i++) {
    tri_run run = tri_executor_run(executor, i, 0);
    const tri_op_list *list = executor->chunks[i].list;
    for (int64_t c = 0; c < list->num_calls; c++) {
      const tri_op_call *call = &list->calls[c];
      if (call->op->prepare == NULL) continue;
      tri_queue_at(run.queue, call->op->name, c, "prepare");
      run.workspace = workspace_of(executor, i, c, TRI_PASS_FORWARD);
      TRI_TRY(call->op->prepare(&run, call));
    }
  }
  executor->prepared = tri_weights_version(executor->weights);
  return TRI_OK;
}

bool tri_executor_is_prepared(const tri_executor *executor) {
  return executor->prepared == tri_weights_version(executor->weights);
}

/* Marks the transient region as uninitialised, because an instruction reads nothing there that earlier ones have
 * written. With `frame`, also marks the frame of the run, because a new micro-batch reads nothing from it. */
static tri_status forget(const tri_executor *executor, int64_t chunk, const tri_run *run, bool frame) {
  const tri_memory_plan *plan = executor->plan;
  const tri_chunk_plan *at = &plan->chunks[chunk];
  TRI_TRY(tri_queue_mark_uninitialised(run->queue, address(executor, plan->transient), plan->transient_bytes));
  if (!frame || at->num_slots == 0) return TRI_OK;
  size_t number = (size_t)((run->slots - executor->chunks[chunk].slots) / (TRI_NUM_PASSES * at->num_slots));
  return tri_queue_mark_uninitialised(run->queue, address(executor, at->frames) + number * at->frame_bytes,
                                      at->frame_bytes);
}

tri_status tri_executor_reset_step(tri_executor *executor, bool gradients) {
  const tri_memory_plan *plan = executor->plan;
  tri_queue *queue = executor->device->queue;
  if (gradients)
    TRI_TRY(tri_queue_mark_uninitialised(queue, executor->arena + plan->gradient_values, plan->gradient_bytes));
  return tri_queue_mark_uninitialised(queue, executor->arena + plan->stage_buffers[0],
                                      plan->partial - plan->stage_buffers[0]);
}

/* Queues the forward of a call. If the call is a sum that the next call reads, and the next call follows in this run
 * (next_follows), leaves the sum to the kernel of the next call. */
static tri_status forward_of(const tri_executor *executor, const tri_op_call *call, bool next_follows, tri_run *run) {
  if (next_follows && call[1].sum == call->index) {
    run->sum = call;
    return TRI_OK;
  }
  TRI_TRY(call->op->forward(run, call));
  run->sum = NULL;
  return tri_exchange_progress(executor->ranks.exchange);
}

tri_status tri_executor_forward_some(tri_executor *executor, int64_t chunk, int64_t first_call, int64_t end_call,
                                     tri_run *run) {
  const tri_op_list *list = executor->chunks[chunk].list;
  if (!tri_executor_is_prepared(executor)) {
    return tri_fail_internal("weights of version %ld are packed, and the weights have version %ld",
                             (long)executor->prepared, (long)tri_weights_version(executor->weights));
  }
  if (first_call == 0) TRI_TRY(forget(executor, chunk, run, true));
  for (int64_t c = first_call; c < end_call; c++) {
    const tri_op_call *call = &list->calls[c];
    run->workspace = workspace_of(executor, chunk, c, TRI_PASS_FORWARD);
    tri_queue_at(run->queue, call->op->name, c, "forward");
    TRI_TRY(forward_of(executor, call, c + 1 < end_call, run));
  }
  return TRI_OK;
}

tri_status tri_executor_forward(tri_executor *executor, int64_t chunk, tri_run *run) {
  return tri_executor_forward_some(executor, chunk, 0, executor->chunks[chunk].list->num_calls, run);
}

/* Recomputes the activations of a layer that its forward did not keep. Runs before the backward of the layer's last
 * call. */
static tri_status run_again(tri_executor *executor, int64_t chunk, tri_call_range layer, tri_pass pass, tri_run *run) {
  const tri_op_list *list = executor->chunks[chunk].list;
  run->recompute = true;
  for (int64_t c = layer.first; c < layer.end; c++) {
    const tri_op_call *call = &list->calls[c];
    if (!call->recompute) continue;
    run->workspace = workspace_of(executor, chunk, c, TRI_WORKSPACE_AGAIN + (int)pass);
    tri_queue_at(run->queue, call->op->name, c, "forward again");
    TRI_TRY(forward_of(executor, call, c + 1 < layer.end && call[1].recompute, run));
  }
  run->recompute = false;
  return TRI_OK;
}

tri_status tri_executor_backward(tri_executor *executor, const tri_backward *backward, tri_run *given) {
  tri_run here = *given; /* a copy with other `slots`: each backward pass has its own for recomputed activations */
  tri_run *run = &here;
  const tri_op_list *list = executor->chunks[backward->chunk].list;
  tri_pass pass = backward->inputs ? TRI_PASS_BACKWARD_INPUT : TRI_PASS_BACKWARD_WEIGHT;
  if (backward->end_call == list->num_calls) TRI_TRY(forget(executor, backward->chunk, run, false));
  run->slots += (int64_t)pass * executor->plan->chunks[backward->chunk].num_slots;
  for (int64_t c = backward->end_call - 1; c >= backward->first_call; c--) {
    const tri_op_call *call = &list->calls[c];
    tri_queue_at(run->queue, call->op->name, c, "backward");
    tri_call_range layer = tri_op_list_layer(list, c);
    if (layer.end == c + 1) TRI_TRY(run_again(executor, backward->chunk, layer, pass, run));
    if (backward->inputs && tri_op_has_inputs(call)) {
      run->workspace = workspace_of(executor, backward->chunk, c, TRI_PASS_BACKWARD_INPUT);
      TRI_TRY(call->op->backward_input(run, call));
    }
    if (backward->weights && tri_op_has_weights(call)) {
      run->after_inputs = backward->inputs && tri_op_has_inputs(call);
      if (!run->after_inputs) run->workspace = workspace_of(executor, backward->chunk, c, TRI_PASS_BACKWARD_WEIGHT);
      TRI_TRY(call->op->backward_weight(run, call));
      run->after_inputs = false;
    }
    TRI_TRY(tri_exchange_progress(executor->ranks.exchange));
  }
  return TRI_OK;
}

void *tri_executor_update_workspace(const tri_executor *executor) {
  return address(executor, executor->plan->transient);
}

const tri_checkpoint_memory *tri_executor_memory(const tri_executor *executor) {
  return executor->device->info.host_access ? NULL : &executor->memory;
}

/* Returns the address of a column; NULL if batches do not have it. Offset 0 belongs to the first column, which every
 * batch has; for other columns it means that batches do not have the column. */
static void *column_at(const tri_memory_plan *plan, char *batch, tri_batch_column column) {
  const size_t offset = plan->batch_columns[column];
  return offset == 0 && column > 0 ? NULL : batch + offset;
}

static tri_batch batch_at(const tri_memory_plan *plan, char *at) {
  tri_batch batch = {.slices = (tri_attention_slice *)(void *)(at + plan->batch_slices)};
#define SET_COLUMN(NAME, ...) batch.NAME = column_at(plan, at, TRI_COLUMN_##NAME);
  TRI_SAMPLE_COLUMNS(SET_COLUMN)
  TRI_CUT_COLUMNS(SET_COLUMN)
#undef SET_COLUMN
  return batch;
}

tri_batch tri_executor_batch(const tri_executor *executor, int64_t number) {
  const tri_memory_plan *plan = executor->plan;
  return batch_at(plan, executor->arena + plan->batches + (size_t)number * plan->batch_bytes);
}

tri_batch tri_executor_host_batch(const tri_executor *executor, int64_t number) {
  const tri_memory_plan *plan = executor->plan;
  return batch_at(plan, executor->host + plan->host_batches + (size_t)number * plan->batch_bytes);
}

void tri_executor_set_batch(const tri_executor *executor, int64_t number, tri_run *run) {
  tri_batch batch = tri_executor_batch(executor, number);
  const tri_batch_counts counts = batch_counts(executor, number);
#define SET_COLUMN(NAME, TYPE, ...) run->NAME = batch.NAME;
  TRI_SAMPLE_COLUMNS(SET_COLUMN)
  TRI_CUT_COLUMNS(SET_COLUMN)
#undef SET_COLUMN
  run->slices = batch.slices;
  run->slice_begins = counts.slice_begins;
  run->send_begins = counts.send_begins;
  run->receive_begins = counts.receive_begins;
  run->begins = executor->begins;
}

tri_sample tri_executor_sequence(const tri_executor *executor, int64_t i) {
  return tri_batch_maker_sequence(executor->maker, i);
}

tri_status tri_executor_make_batch(const tri_executor *executor, int64_t number) {
  tri_batch batch = tri_executor_host_batch(executor, number);
  const tri_batch_counts counts = batch_counts(executor, number);
  return tri_batch_make(executor->maker, &batch, &counts);
}

void tri_executor_set_slices(tri_executor *executor, int64_t number, int64_t count) {
  const tri_batch_counts counts = batch_counts(executor, number);
  for (int64_t l = 0; l <= executor->num_lists; l++) counts.slice_begins[l] = l * count;
}

tri_status tri_executor_upload_batch(tri_executor *executor, int64_t number) {
  const tri_memory_plan *plan = executor->plan;
  size_t offset = (size_t)number * plan->batch_bytes;
  size_t slices = (size_t)batch_counts(executor, number).slice_begins[executor->num_lists];
  size_t bytes = plan->batch_slices + slices * sizeof(tri_attention_slice);
  return tri_queue_upload(executor->device->queue, executor->arena + plan->batches + offset,
                          executor->host + plan->host_batches + offset, bytes);
}

tri_step_values *tri_executor_step_values(const tri_executor *executor) {
  return (tri_step_values *)(void *)(executor->arena + executor->plan->values);
}

tri_step_results *tri_executor_step_results(const tri_executor *executor) {
  return (tri_step_results *)(void *)(executor->arena + executor->plan->results);
}

tri_step_values *tri_executor_host_values(const tri_executor *executor) {
  return (tri_step_values *)(void *)(executor->host + executor->plan->host_values);
}

tri_step_results *tri_executor_host_results(const tri_executor *executor) {
  return (tri_step_results *)(void *)(executor->host + executor->plan->host_results);
}

tri_status tri_executor_clear_results(tri_executor *executor) {
  TRI_KERNEL_CALL(executor->device->queue, fill_zero, executor->plan->results_bytes,
                  tri_executor_step_results(executor));
  return TRI_OK;
}

tri_status tri_executor_read_results(tri_executor *executor, const tri_step_results **out) {
  tri_step_results *host = tri_executor_host_results(executor);
  *out = host;
  executor->result_waits++;
  return tri_queue_download_now(executor->device->queue, host, tri_executor_step_results(executor),
                                executor->plan->results_bytes);
}

static int64_t *counts_behind(const tri_executor *executor, const void *results, int64_t router) {
  const tri_memory_plan *plan = executor->plan;
  char *counts = (char *)(uintptr_t)results + plan->result_counts;
  return (int64_t *)(void *)counts + router * (plan->router_experts + 1);
}

int64_t *tri_executor_router_counts(const tri_executor *executor, int64_t chunk) {
  return counts_behind(executor, tri_executor_step_results(executor), executor->plan->chunks[chunk].first_router);
}

const int64_t *tri_executor_host_counts(const tri_executor *executor, int64_t chunk) {
  return counts_behind(executor, tri_executor_host_results(executor), executor->plan->chunks[chunk].first_router);
}

static double *label_results_behind(const tri_executor *executor, const void *results, int64_t number) {
  const tri_op_list *list = executor->chunks[0].list;
  if (executor->plan->result_labels == 0) return NULL;
  char *first = (char *)(uintptr_t)results + executor->plan->result_labels;
  return (double *)(void *)first + number * list->batch * list->sequence;
}

double *tri_executor_label_results(const tri_executor *executor, int64_t number) {
  return label_results_behind(executor, tri_executor_step_results(executor), number);
}

const double *tri_executor_host_label_results(const tri_executor *executor, int64_t number) {
  return label_results_behind(executor, tri_executor_host_results(executor), number);
}

void *tri_executor_host_stage_buffer(const tri_executor *executor, tri_stage_buffer_kind kind, int64_t stage_buffer) {
  if (stage_buffer < 0 || executor->plan->exchange_bytes == 0 || executor->plan->sums_bytes > 0) return NULL;
  return executor->host + executor->plan->host_stage_buffers[kind] +
         (size_t)stage_buffer * executor->plan->stage_buffer_bytes;
}

void *tri_executor_stage_buffer(const tri_executor *executor, tri_stage_buffer_kind kind, int64_t stage_buffer) {
  if (stage_buffer < 0) return NULL;
  return executor->arena + executor->plan->stage_buffers[kind] +
         (size_t)stage_buffer * executor->plan->stage_buffer_bytes;
}

void *tri_executor_partial(const tri_executor *executor) { return executor->arena + executor->plan->partial; }

tri_lent_memory tri_executor_lend(const tri_executor *executor) {
  return (tri_lent_memory){executor->scratch, executor->plan->scratch_bytes};
}
