#include "ops/list.h"

#include "base/count.h"
#include "base/memory.h"
#include "mesh/batch_columns.h"
#include "mesh/parts.h"
#include "mesh/sequence_cut.h"

#include <assert.h>
#include <string.h>

tri_status tri_op_list_create(int64_t batch, int64_t sequence, tri_dtype type, bool training, tri_op_list **out) {
  tri_op_list *list = NULL;
  TRI_TRY(tri_alloc("an operation list", 1, sizeof *list, &list));
  list->batch = batch;
  list->sequence = list->tokens = sequence;
  list->most_slices = batch;
  list->attention_fraction = 1;
  list->prefill_tokens = sequence;
  list->windows.count = 1;
  list->type = type;
  list->training = training;
  list->layer = -1;
  list->columns = TRI_COLUMNS_ALWAYS;
  list->shard.position = tri_mesh_position_alone();
  *out = list;
  return TRI_OK;
}

void tri_op_list_destroy(tri_op_list *list) {
  if (list == NULL) return;
  for (int64_t i = 0; i < list->num_blocks; i++) tri_free(list->blocks[i]);
  tri_free(list->blocks);
  tri_free(list->constants);
  tri_free(list->slots);
  tri_free(list->calls);
  tri_free(list);
}

int64_t tri_op_list_ranks(const tri_op_list *list, tri_domain domain) {
  return tri_domain_size(&list->shard.position.shape, domain);
}

int64_t tri_op_list_rank(const tri_op_list *list, tri_domain domain) {
  return tri_domain_rank(&list->shard.position.shape, &list->shard.position.place, domain);
}

void tri_op_list_set_shard(tri_op_list *list, const tri_op_shard *shard) {
  list->shard = *shard;
  list->sequence = tri_zigzag_rows(list->tokens, tri_op_list_ranks(list, TRI_DOMAIN_CONTEXT),
                                   tri_op_list_rank(list, TRI_DOMAIN_CONTEXT));
}

void tri_op_list_slice(const tri_op_list *list, tri_domain domain, int64_t *first, int64_t *rows) {
  tri_part_of(list->batch * list->sequence, tri_op_list_ranks(list, domain), tri_op_list_rank(list, domain), first,
              rows);
}

tri_status tri_op_list_keep(tri_op_list *list, const void *attributes, size_t bytes, const void **out) {
  TRI_TRY(tri_grow("operation attributes", sizeof *list->blocks, list->num_blocks, &list->blocks_room, &list->blocks));
  void *copy = NULL;
  TRI_TRY(tri_alloc("operation attributes", bytes, 1, &copy));
  memcpy(copy, attributes, bytes);
  list->blocks[list->num_blocks++] = copy;
  *out = copy;
  return TRI_OK;
}

tri_status tri_op_list_keep_slices(tri_op_list *list, tri_domain domain, int64_t width, const int64_t **out) {
  int64_t *begins = NULL, ranks = tri_op_list_ranks(list, domain);
  const void *kept = NULL;
  TRI_TRY(tri_alloc("slices of rows", (size_t)ranks + 1, sizeof *begins, &begins));
  for (int64_t r = 0; r <= ranks; r++) {
    begins[r] = tri_part_begin(list->batch * list->sequence, ranks, r) * width;
  }
  tri_status status = tri_op_list_keep(list, begins, ((size_t)ranks + 1) * sizeof *begins, &kept);
  tri_free(begins);
  *out = kept;
  return status;
}

tri_status tri_op_list_add_constant(tri_op_list *list, const tri_constant *constant, int32_t *out) {
  TRI_TRY(tri_grow("constants", sizeof *list->constants, list->num_constants, &list->constants_room, &list->constants));
  list->constants[list->num_constants] = *constant;
  *out = (int32_t)list->num_constants++;
  return TRI_OK;
}

tri_status tri_op_list_set_parameters(tri_op_list *list, const tri_op_parameter *parameters, int64_t count,
                                      const tri_op_adapter *adapter) {
  const void *kept = NULL;
  TRI_TRY(tri_op_list_keep(list, parameters, (size_t)count * sizeof *parameters, &kept));
  list->parameters = kept;
  list->num_parameters = count;
  list->adapter = *adapter;
  return TRI_OK;
}

bool tri_op_list_has_magnitudes(const tri_op_list *list, int32_t weight) {
  for (int64_t i = weight; i < list->num_parameters && (i == weight || list->parameters[i].joined); i++) {
    if (list->parameters[i].magnitude >= 0) return true;
  }
  return false;
}

/* Sets the storage of parameter 0 and the mask of frozen parameters, and replaces each parameter's number by its index.
 */
static void set_call_parameters(const tri_op_list *list, tri_op_call *call) {
  for (int i = 0; i < TRI_OP_PARAMETERS && list->parameters != NULL; i++) {
    if (call->parameters[i] < 0) continue;
    const tri_op_parameter *parameter = &list->parameters[call->parameters[i]];
    if (parameter->frozen) call->frozen |= 1u << i;
    if (i == 0) call->stored = parameter->stored;
    if (i == 0 && tri_op_list_has_magnitudes(list, call->parameters[0])) call->keeps_dense = true;
    call->parameters[i] = parameter->index;
  }
}

tri_op_call tri_op_call_of(const tri_op *op, const void *attributes) {
  tri_op_call call = {.op = op, .attributes = attributes, .constant = -1, .sum = -1};
  for (int i = 0; i < TRI_OP_INPUTS; i++) call.inputs[i] = -1;
  for (int i = 0; i < TRI_OP_OUTPUTS; i++) call.outputs[i] = -1;
  for (int i = 0; i < TRI_OP_PARAMETERS; i++) call.parameters[i] = -1;
  return call;
}

tri_status tri_op_list_call(tri_op_list *list, const tri_op *op, const void *attributes, size_t bytes,
                            tri_op_call *out) {
  const void *kept = NULL;
  TRI_TRY(tri_op_list_keep(list, attributes, bytes, &kept));
  *out = tri_op_call_of(op, kept);
  return TRI_OK;
}

tri_status tri_op_same_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                             tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)call;
  outputs[0] = inputs[0];
  return TRI_OK;
}

size_t tri_shape_bytes(const tri_shape *shape) {
  return tri_bytes_times(tri_bytes_times((size_t)shape->rows, (size_t)shape->width), tri_dtype_bytes(shape->type));
}

/* Fails if the bytes of a slot do not fit into size_t: kernels compute the same product without a check. */
static tri_status check_size(const tri_shape *shape) {
  if (tri_shape_bytes(shape) < TRI_BYTES_MOST) return TRI_OK;
  return tri_fail(TRI_OUT_OF_MEMORY,
                  "activations of %lld rows of %lld numbers are more bytes than can be counted; reduce micro_batch or "
                  "the sequence length",
                  (long long)shape->rows, (long long)shape->width);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

void tri_op_list_add_window(tri_op_list *list, int64_t positions, int64_t tokens) {
  tri_op_windows *w = &list->windows;
  if (tokens == 0 || tokens >= positions) return; /* the window covers every sequence */
  for (int64_t i = 0; i < w->count; i++) {
    if (w->tokens[i] == tokens) return;
  }
  assert(w->count < TRI_OP_WINDOWS);
  w->tokens[w->count++] = tokens;
}

void tri_op_list_set_window(tri_op_list *list, int64_t tokens) {
  list->window = 0;
  for (int32_t i = 0; i < (int32_t)list->windows.count; i++) {
    if (list->windows.tokens[i] == tokens) list->window = i;
  }
}

bool tri_op_list_is_windowed(const tri_op_list *list) { return list->windows.tokens[list->window] > 0; }

double tri_op_window_fraction(double fraction, int64_t sequence, int64_t window) {
  const double tokens = (double)sequence, seen = (double)window;
  const double length =
      fraction * (tokens + 1) - 1; /* length of documents, if all are equally long and leave this fraction */
  if (window == 0 || seen >= length) return fraction;
  return (seen * (seen + 1) / 2 + (length - seen) * seen) / length * 2 / (tokens + 1);
}

tri_status tri_op_list_append(tri_op_list *list, const tri_op_call *given, int num_outputs,
                              int32_t outputs[TRI_OP_OUTPUTS]) {
  TRI_TRY(tri_grow("operations", sizeof *list->calls, list->num_calls, &list->calls_room, &list->calls));
  tri_op_call call = *given;
  call.index = (int32_t)list->num_calls;
  call.layer = list->layer;
  call.rows = list->batch * list->sequence;
  call.sliced = list->sliced;
  call.recomputable = list->recomputable;
  call.expert = list->expert;
  call.weights_gathered = list->weights_gathered;
  if (call.sliced) tri_op_list_slice(list, TRI_DOMAIN_TENSOR, &call.first_row, &call.rows);
  call.sequence = list->sequence;
  call.most_slices = list->most_slices;
  call.window = list->window;
  call.attention_fraction =
      tri_op_window_fraction(list->attention_fraction, list->tokens, list->windows.tokens[list->window]);
  call.type = list->type;
  call.training = list->training;
  call.generating = list->generating;
  call.keeps_dense = list->keeps_dense;
  set_call_parameters(list, &call);

  tri_shape in[TRI_OP_INPUTS] = {0};
  tri_shape out[TRI_OP_OUTPUTS] = {0};
  for (int i = 0; i < TRI_OP_INPUTS; i++) {
    if (call.inputs[i] >= 0) in[i] = list->slots[call.inputs[i]].shape;
  }
  TRI_TRY(call.op->shape(&call, in, out));
  for (int i = 0; i < num_outputs; i++) {
    TRI_TRY(check_size(&out[i]));
    TRI_TRY(tri_grow("slots", sizeof *list->slots, list->num_slots, &list->slots_room, &list->slots));
    int32_t id = (int32_t)list->num_slots++;
    list->slots[id] = (tri_slot){
        .shape = out[i], .producer = call.index, .last_consumer = call.index, .memory_of = id, .next_in_memory = -1};
    call.outputs[i] = id;
    outputs[i] = id;
  }
  list->calls[list->num_calls++] = call;
  return TRI_OK;
}

tri_status tri_op_list_append_first(tri_op_list *list, const tri_op_call *call, int num_outputs, int32_t *out) {
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, call, num_outputs, outputs));
  *out = outputs[0];
  return TRI_OK;
}

/* Finds the slots that a backward pass reads, and the last call that reads each slot in the forward. */
static void find_readers(tri_op_list *list) {
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    for (int i = 0; i < TRI_OP_INPUTS; i++) {
      if (call->inputs[i] < 0) continue;
      tri_slot *slot = &list->slots[call->inputs[i]];
      slot->last_consumer = call->index;
      if (list->training && tri_op_keeps_input(call, i)) slot->kept = true;
    }
    for (int i = 0; i < TRI_OP_OUTPUTS; i++) {
      if (call->outputs[i] < 0) continue;
      if (list->training && tri_op_keeps_output(call, i)) list->slots[call->outputs[i]].kept = true;
    }
  }
}

/* Places an output over its input if the operation allows it, no later call reads the input and no backward needs
 * it. */
static void place_outputs(tri_op_list *list) {
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    if (!call->op->in_place || call->inputs[0] < 0 || call->outputs[0] < 0) continue;
    tri_slot *in = &list->slots[call->inputs[0]];
    if (in->kept || in->pinned || in->last_consumer != call->index || in->producer < 0) continue;
    list->slots[call->outputs[0]].memory_of = in->memory_of;
    in->next_in_memory = call->outputs[0];
  }
}

/* Sets `sum` of the norms that directly follow a residual sum. */
static void find_sums(tri_op_list *list) {
  for (int64_t c = 1; c < list->num_calls; c++) {
    tri_op_call *call = &list->calls[c];
    const tri_op_call *before = call - 1;
    if (!call->op->takes_sum || !before->op->sums || call->sliced != before->sliced) continue;
    if (call->inputs[0] == before->outputs[0]) call->sum = before->index;
  }
}

static bool has_trained_parameters(const tri_op_call *call) {
  for (int i = 0; i < TRI_OP_PARAMETERS; i++) {
    if (call->parameters[i] >= 0 && !tri_op_is_frozen(call, i)) return true;
  }
  return false;
}

static bool has_trained_inputs(const tri_op_list *list, const tri_op_call *call) {
  for (int i = 0; i < TRI_OP_INPUTS; i++) {
    if (call->inputs[i] >= 0 && list->slots[call->inputs[i]].trained) return true;
  }
  return false;
}

/* Returns whether a call belongs to the experts of a layer, from the router on. The backwards of these calls depend on
 * each other (one call begins an exchange and another ends it), so all run if any does. */
static bool is_of_experts(const tri_op_call *call) { return call->expert || call->op->routes || call->op->of_experts; }

static void join_experts(tri_op_list *list) {
  for (int64_t first = 0, end; first < list->num_calls; first = end) {
    bool any = false;
    for (end = first; end < list->num_calls && list->calls[end].layer == list->calls[first].layer; end++)
      any = any || (is_of_experts(&list->calls[end]) && list->calls[end].backward);
    for (int64_t c = first; c < end && any; c++) {
      tri_op_call *call = &list->calls[c];
      if (is_of_experts(call)) call->backward = call->passes_back = true;
    }
  }
}

/* Finds the calls whose backward has anything to compute, walking forward. Gradients end at the first call with a
 * trained parameter: everything before it is frozen. */
static void find_trained(tri_op_list *list) {
  for (int64_t c = 0; c < list->num_calls; c++) {
    tri_op_call *call = &list->calls[c];
    const bool first = call->inputs[0] < 0 && call->op->passes_messages;
    call->passes_back = first ? !list->below_is_frozen : has_trained_inputs(list, call);
    call->backward = call->passes_back || has_trained_parameters(call);
    call->passes_back = call->passes_back ||
                        (call->op->makes_loss && call->backward); /* the loss computes all gradients in its forward */
    for (int i = 0; i < TRI_OP_OUTPUTS; i++) {
      if (call->outputs[i] >= 0) list->slots[call->outputs[i]].trained = call->backward;
    }
  }
  join_experts(list);
}

/* Finds the slots with a gradient, walking backward: an input has a gradient if backward_input of its call runs. The
 * first call that writes a gradient overwrites it, the others add. */
static tri_status find_gradients(tri_op_list *list) {
  for (int64_t c = list->num_calls - 1; c >= 0; c--) {
    tri_op_call *call = &list->calls[c];
    if (!tri_op_has_inputs(call)) continue;
    for (int i = 0; i < TRI_OP_INPUTS; i++) {
      if (call->inputs[i] < 0 || (call->op->no_gradients >> i & 1u) != 0) continue;
      tri_slot *slot = &list->slots[call->inputs[i]];
      call->accumulate[i] = slot->has_gradient;
      slot->has_gradient = true;
      if (call->accumulate[i] && (call->op->adds_gradients >> i & 1u) == 0) {
        return tri_fail_internal("operation %d (%s) cannot add to the gradient of its input %d", call->index,
                                 call->op->name, i);
      }
    }
  }
  return TRI_OK;
}

void tri_op_list_place(tri_op_list *list) {
  for (int64_t i = 0; i < list->num_slots; i++) {
    tri_slot *slot = &list->slots[i];
    slot->kept = slot->recomputed = false;
    slot->memory_of = (int32_t)i;
    slot->next_in_memory = -1;
  }
  for (int64_t c = 0; c < list->num_calls; c++) list->calls[c].recompute = false;
  find_readers(list);
  place_outputs(list);
}

tri_status tri_op_list_finish(tri_op_list *list) {
  if (list->training) find_trained(list);
  tri_op_list_place(list);
  find_sums(list);
  return list->training ? find_gradients(list) : TRI_OK;
}
