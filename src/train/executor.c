#include "train/executor.h"

#include "base/format.h"
#include "base/memory.h"
#include "base/system.h"

static tri_status check_fits(const tri_memory_plan *plan) {
  size_t available = tri_system_memory_available();
  if (available == 0 || plan->total_bytes <= available) return TRI_OK;
  char need[32], have[32], fixed[32], frame[32], buffers[32];
  return tri_fail(
      TRI_OUT_OF_MEMORY,
      "this run needs %zu bytes (%s) and the machine has %zu (%s) to give: parameters, gradients and optimizer %s, "
      "packed weights %s, activations of a micro-batch %s; turn down layout.micro_batch or data.sequence if the "
      "activations are the larger part, else take a smaller model or precision: bf16",
      plan->total_bytes, tri_format_bytes((double)plan->total_bytes, need, sizeof need), available,
      tri_format_bytes((double)available, have, sizeof have),
      tri_format_bytes((double)(plan->parameter_bytes + plan->gradient_bytes + plan->optimizer_bytes), fixed,
                       sizeof fixed),
      tri_format_bytes((double)plan->buffer_bytes, buffers, sizeof buffers),
      tri_format_bytes((double)plan->frame_bytes * (double)plan->num_frames + (double)plan->transient_bytes, frame,
                       sizeof frame));
}

static void *resolve(const tri_executor *executor, tri_place place, int64_t frame) {
  const tri_memory_plan *plan = executor->plan;
  switch (place.region) {
    case TRI_REGION_NONE: return NULL;
    case TRI_REGION_FRAME: return executor->arena + plan->frames + (size_t)frame * plan->frame_bytes + place.offset;
    case TRI_REGION_TRANSIENT: return executor->arena + plan->transient + place.offset;
  }
  return NULL;
}

static void resolve_all(tri_executor *executor) {
  const tri_memory_plan *plan = executor->plan;
  for (int64_t f = 0; f < plan->num_frames; f++) {
    for (int64_t s = 0; s < plan->num_slots; s++) {
      executor->slots[f * plan->num_slots + s] = resolve(executor, plan->slots[s], f);
      executor->gradients[f * plan->num_slots + s] = resolve(executor, plan->gradients[s], f);
    }
  }
  for (int64_t i = 0; i < plan->num_calls * TRI_OP_BUFFERS; i++) {
    executor->buffers[i] = plan->buffers[i] == 0 ? NULL : executor->arena + plan->buffers[i];
  }
  for (int64_t i = 0; i < plan->num_constants; i++) executor->constants[i] = executor->arena + plan->constants[i];
  size_t element = tri_dtype_bytes(tri_dtype_wide(executor->list->type));
  for (int64_t i = 0; i < executor->table->num_entries; i++) {
    size_t offset = (size_t)executor->table->entries[i].offset * element;
    executor->parameters[i].value = executor->arena + plan->parameters + offset;
    executor->parameters[i].gradient =
        executor->list->training ? executor->arena + plan->gradient_values + offset : NULL;
  }
}

static tri_status fill_constants(tri_executor *executor) {
  for (int64_t i = 0; i < executor->list->num_constants; i++) {
    const tri_constant *constant = &executor->list->constants[i];
    void *host = NULL;
    TRI_TRY(tri_alloc("a table of constants", constant->bytes, 1, &host));
    constant->fill(constant->attributes, host);
    tri_status status =
        executor->device->kernels->copy_in(executor->device, executor->constants[i], host, constant->bytes);
    tri_free(host);
    TRI_TRY(status);
  }
  return TRI_OK;
}

static tri_status set_up(tri_executor *executor, const tri_memory_request *request) {
  const tri_op_list *list = executor->list;
  TRI_TRY(tri_memory_plan_create(request, &executor->plan));
  TRI_TRY(check_fits(executor->plan));
  size_t pointers = (size_t)(request->num_frames * list->num_slots);
  TRI_TRY(tri_alloc("slots", pointers, sizeof *executor->slots, &executor->slots));
  TRI_TRY(tri_alloc("slots", pointers, sizeof *executor->gradients, &executor->gradients));
  TRI_TRY(
      tri_alloc("buffers", (size_t)list->num_calls * TRI_OP_BUFFERS, sizeof *executor->buffers, &executor->buffers));
  TRI_TRY(tri_alloc("constants", (size_t)list->num_constants, sizeof *executor->constants, &executor->constants));
  TRI_TRY(tri_alloc("parameters", (size_t)executor->table->num_entries, sizeof *executor->parameters,
                    &executor->parameters));
  void *arena = NULL;
  TRI_TRY(tri_device_memory_create(executor->device, executor->plan->total_bytes, &arena));
  executor->arena = arena;
  resolve_all(executor);
  return fill_constants(executor);
}

tri_status tri_executor_create(const tri_parameter_table *table, const tri_memory_request *request,
                               tri_executor **out) {
  tri_executor *executor = NULL;
  TRI_TRY(tri_alloc("an executor", 1, sizeof *executor, &executor));
  executor->device = request->device;
  executor->table = table;
  executor->list = request->list;
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
    tri_device_memory_destroy(executor->device, executor->arena, executor->plan->total_bytes);
  }
  tri_free(executor->parameters);
  tri_free(executor->constants);
  tri_free(executor->buffers);
  tri_free(executor->gradients);
  tri_free(executor->slots);
  tri_memory_plan_destroy(executor->plan);
  tri_free(executor);
}

tri_run tri_executor_run(tri_executor *executor, int64_t frame) {
  return (tri_run){
      .device = executor->device,
      .slots = executor->slots + frame * executor->plan->num_slots,
      .gradients = executor->gradients + frame * executor->plan->num_slots,
      .buffers = executor->buffers,
      .constants = executor->constants,
      .parameters = executor->parameters,
  };
}

tri_status tri_executor_prepare(tri_executor *executor) {
  tri_run run = tri_executor_run(executor, 0);
  for (int64_t c = 0; c < executor->list->num_calls; c++) {
    const tri_op_call *call = &executor->list->calls[c];
    if (call->op->prepare != NULL) TRI_TRY(call->op->prepare(&run, call));
  }
  return TRI_OK;
}

static void *workspace_of(const tri_executor *executor, int64_t call, tri_pass pass) {
  return executor->arena + executor->plan->transient + executor->plan->workspaces[call * 3 + (int64_t)pass];
}

tri_status tri_executor_forward(tri_executor *executor, tri_run *run) {
  for (int64_t c = 0; c < executor->list->num_calls; c++) {
    const tri_op_call *call = &executor->list->calls[c];
    run->workspace = workspace_of(executor, c, TRI_PASS_FORWARD);
    TRI_TRY(call->op->forward(run, call));
  }
  return TRI_OK;
}

tri_status tri_executor_backward(tri_executor *executor, tri_run *run, bool inputs, bool weights) {
  for (int64_t c = executor->list->num_calls - 1; c >= 0; c--) {
    const tri_op_call *call = &executor->list->calls[c];
    if (inputs && call->op->backward_input != NULL) {
      run->workspace = workspace_of(executor, c, TRI_PASS_BACKWARD_INPUT);
      TRI_TRY(call->op->backward_input(run, call));
    }
    if (weights && call->op->backward_weight != NULL) {
      run->workspace = workspace_of(executor, c, TRI_PASS_BACKWARD_WEIGHT);
      TRI_TRY(call->op->backward_weight(run, call));
    }
  }
  return TRI_OK;
}

void *tri_executor_values(const tri_executor *executor) { return executor->arena + executor->plan->parameters; }

void *tri_executor_gradients(const tri_executor *executor) { return executor->arena + executor->plan->gradient_values; }

void *tri_executor_moment1(const tri_executor *executor) { return executor->arena + executor->plan->moment1; }

void *tri_executor_moment2(const tri_executor *executor) { return executor->arena + executor->plan->moment2; }

int32_t *tri_executor_tokens(const tri_executor *executor) {
  return (int32_t *)(void *)(executor->arena + executor->plan->tokens);
}
