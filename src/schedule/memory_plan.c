#include "schedule/memory_plan.h"

#include "base/count.h"
#include "base/memory.h"
#include "device/step_values.h"
#include "ops/context.h"

/* Plans the memory of a step: every tensor gets an offset before anything is allocated (memory_plan.h has the regions).
 *
 * The problem: a step has thousands of temporary tensors, and most live for a few operations only. Memory is least if
 * tensors that never exist at the same time share addresses, and the peak is exact only if all of them are planned.
 *
 * The idea: time is the number of an operation's pass within one micro-batch (time_of): forwards at 0 .. n - 1, then
 * the backwards in reverse order, with room before each for the recomputed forwards of its layer, then the backwards of
 * weights if they are split. A tensor that a backward reads and that is not recomputed is part of the frame of its
 * micro-batch. Every other tensor, every gradient of an activation and every workspace is an interval from its first
 * use to its last. tri_intervals_place assigns the offsets of all intervals of a chunk in the transient region, which
 * all chunks share, since a rank executes one instruction at a time.
 *
 * The invariants: two intervals with a common time do not overlap in memory; a recomputed tensor has one interval for
 * each pass that reads it, so a slot has one place per pass; a buffer that several slots or gradients share lives as
 * long as any of them. Everything that survives an instruction is in a frame, because other micro-batches run in
 * between.
 *
 * Example: y = GELU(x), z = y W, without recompute. The backward of the GELU reads x and that of the GEMM reads y: both
 * are in the frame. The gradient of y is an interval from the backward of the GEMM to that of the GELU. */
/* The owner of an interval: each interval of the transient region belongs to a slot, a gradient or a workspace. */
typedef enum owner_kind { OWNER_SLOT, OWNER_GRADIENT, OWNER_WORKSPACE } owner_kind;

typedef struct owner {
  owner_kind kind;
  int64_t index; /* slot: pass * num_slots + slot; gradient: number of its buffer; workspace: call * TRI_NUM_WORKSPACES
                    + number of the workspace */
} owner;

/* The state of planning one chunk. */
typedef struct planning {
  const tri_memory_request *request;
  const tri_op_list *list;
  tri_memory_plan *whole;
  tri_chunk_plan *plan;
  tri_interval *intervals;
  owner *owners;
  int64_t num_intervals, capacity;
  int32_t *buffer_of;         /* gradient buffer of each slot [slot]; -1: none */
  tri_interval *buffer_lives; /* [buffer]: life of each gradient buffer */
  bool *buffer_in_frame;      /* [buffer]: whether the buffer is in the frame */
} planning;

/* Returns the time at which a pass of a call runs: forwards at 0 .. n - 1; then backwards, with room before each for
 * the recomputed forwards of a layer; then, if they are split, the backwards of weights in the same way. */
static int64_t time_of(const tri_op_list *list, int64_t call, tri_pass pass, bool split) {
  int64_t n = list->num_calls, room = n + 1;
  int64_t backward = n + (n - call) * room;
  switch (pass) {
    case TRI_PASS_FORWARD: return call;
    case TRI_PASS_BACKWARD_INPUT: return backward;
    case TRI_PASS_BACKWARD_WEIGHT: return split ? backward + n * room : backward;
  }
  return backward;
}

/* Returns the time of a recomputed forward: after the backward of the next layer and before the backward of its own. */
static int64_t time_again(const tri_op_list *list, int64_t call, tri_pass pass, bool split) {
  tri_call_range layer = tri_op_list_layer(list, call);
  return time_of(list, layer.end - 1, pass, split) - (layer.end - call);
}

static tri_status add_interval(planning *p, tri_interval interval, owner who) {
  int64_t capacity = p->capacity;
  TRI_TRY(tri_grow("the memory plan", sizeof *p->intervals, p->num_intervals, &capacity, &p->intervals));
  TRI_TRY(tri_grow("the memory plan", sizeof *p->owners, p->num_intervals, &p->capacity, &p->owners));
  interval.bytes = tri_padded_bytes(interval.bytes);
  p->intervals[p->num_intervals] = interval;
  p->owners[p->num_intervals] = who;
  p->num_intervals++;
  return TRI_OK;
}

static size_t allocate_arena_range(size_t *end, size_t bytes) {
  size_t offset = *end;
  *end = tri_bytes_plus(*end, tri_padded_bytes(bytes));
  return offset;
}

/* Returns the call whose forward reads the inputs of `call`: `call` itself, or the next call if that is a norm that
 * computes the sum of `call` as well. */
static int64_t reader(const tri_op_list *list, int64_t call) {
  return call + 1 < list->num_calls && list->calls[call + 1].sum == call ? call + 1 : call;
}

/* Returns the time at which a backward pass reads a recomputed slot for the last time. */
static int64_t last_read(const planning *p, int64_t slot, tri_pass pass) {
  const tri_op_list *list = p->list;
  bool split = p->request->split_backward;
  const tri_op_call *producer = &list->calls[list->slots[slot].producer];
  int64_t last = time_again(list, producer->index, pass, split);
  for (int i = 0; i < TRI_OP_OUTPUTS; i++) {
    bool reads = producer->outputs[i] == slot && tri_op_keeps_output(producer, i);
    if (reads) last = time_of(list, producer->index, pass, split);
  }
  for (int64_t c = list->slots[slot].producer; c <= list->slots[slot].last_consumer; c++) {
    const tri_op_call *call = &list->calls[c];
    for (int i = 0; i < TRI_OP_INPUTS; i++) {
      if (call->inputs[i] != slot) continue;
      int64_t again = call->recompute ? time_again(list, c, pass, split) + (reader(list, c) - c) : 0;
      int64_t backward = tri_op_keeps_input(call, i) ? time_of(list, c, pass, split) : 0;
      if (again > last) last = again;
      if (backward > last) last = backward;
    }
  }
  return last;
}

/* Adds the intervals of a recomputed tensor: one for each backward pass that reads it, from its recomputed forward
 * on. */
static tri_status plan_again(planning *p, int64_t root, size_t bytes) {
  const tri_op_list *list = p->list;
  bool split = p->request->split_backward;
  for (int pass = TRI_PASS_BACKWARD_INPUT; pass <= (split ? TRI_PASS_BACKWARD_WEIGHT : TRI_PASS_BACKWARD_INPUT);
       pass++) {
    tri_interval life = {.first = time_again(list, list->slots[root].producer, (tri_pass)pass, split), .bytes = bytes};
    for (int64_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
      int64_t last = last_read(p, s, (tri_pass)pass);
      if (last > life.last) life.last = last;
    }
    TRI_TRY(add_interval(p, life, (owner){OWNER_SLOT, pass * list->num_slots + root}));
  }
  return TRI_OK;
}

/* Adds the intervals of slots. Slots that share memory are one tensor that lives as long as any of them. The numbers
 * of slots grow with time, so the slot that owns the memory has the lowest number. */
static tri_status plan_slots(planning *p) {
  const tri_op_list *list = p->list;
  for (int64_t root = 0; root < list->num_slots; root++) {
    const tri_slot *slot = &list->slots[root];
    if (slot->memory_of != root) continue;
    tri_interval life = {slot->producer, reader(list, slot->last_consumer), tri_shape_bytes(&slot->shape), 0};
    bool kept = false;
    for (int64_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
      kept = kept || list->slots[s].kept;
      int64_t last = reader(list, list->slots[s].last_consumer);
      if (last > life.last) life.last = last;
    }
    if (kept && !slot->recomputed) {
      tri_place place = {TRI_REGION_FRAME, allocate_arena_range(&p->plan->frame_bytes, life.bytes)};
      for (int pass = 0; pass < TRI_NUM_PASSES; pass++) p->plan->slots[pass * list->num_slots + root] = place;
      continue;
    }
    TRI_TRY(add_interval(p, life, (owner){OWNER_SLOT, root}));
    if (slot->recomputed) TRI_TRY(plan_again(p, root, life.bytes));
  }
  return TRI_OK;
}

/* Finds the life of each gradient buffer, and whether the buffer must outlast its instruction. */
static void find_buffer_lives(planning *p) {
  const tri_op_list *list = p->list;
  bool split = p->request->split_backward;
  for (int64_t s = 0; s < list->num_slots; s++) {
    int32_t buffer = p->buffer_of[s];
    if (buffer < 0) continue;
    const tri_slot *slot = &list->slots[s];
    bool weights_read = tri_op_has_weights(&list->calls[slot->producer]);
    tri_pass last_pass = weights_read ? TRI_PASS_BACKWARD_WEIGHT : TRI_PASS_BACKWARD_INPUT;
    int64_t first = time_of(list, slot->last_consumer, TRI_PASS_BACKWARD_INPUT, split);
    int64_t last = time_of(list, slot->producer, last_pass, split);
    tri_interval *life = &p->buffer_lives[buffer];
    if (life->bytes == 0 || first < life->first) life->first = first;
    if (life->bytes == 0 || last > life->last) life->last = last;
    life->bytes = tri_shape_bytes(&slot->shape);
    if (split && weights_read) p->buffer_in_frame[buffer] = true;
  }
}

static tri_status plan_gradients(planning *p) {
  const tri_op_list *list = p->list;
  size_t count = (size_t)list->num_slots + 1;
  int64_t num_buffers = 0;
  TRI_TRY(tri_alloc("the memory plan", count, sizeof *p->buffer_of, &p->buffer_of));
  TRI_TRY(tri_alloc("the memory plan", count, sizeof *p->buffer_lives, &p->buffer_lives));
  TRI_TRY(tri_alloc("the memory plan", count, sizeof *p->buffer_in_frame, &p->buffer_in_frame));
  TRI_TRY(tri_gradient_buffers(list, p->request->split_backward, p->buffer_of, &num_buffers));
  find_buffer_lives(p);
  for (int64_t b = 0; b < num_buffers; b++) {
    if (p->buffer_in_frame[b]) {
      p->buffer_lives[b].offset = allocate_arena_range(&p->plan->frame_bytes, p->buffer_lives[b].bytes);
    } else {
      TRI_TRY(add_interval(p, p->buffer_lives[b], (owner){OWNER_GRADIENT, b}));
    }
  }
  return TRI_OK;
}

static tri_status plan_workspaces(planning *p, const tri_op_call *call, size_t bytes) {
  bool split = p->request->split_backward;
  int64_t first = call->index * TRI_NUM_WORKSPACES;
  for (int pass = 0; pass < (p->request->training ? TRI_NUM_PASSES : 1); pass++) {
    int64_t time = time_of(p->list, call->index, (tri_pass)pass, split);
    const bool runs = pass != TRI_PASS_BACKWARD_WEIGHT || tri_op_has_weights(call);
    if (runs) TRI_TRY(add_interval(p, (tri_interval){time, time, bytes, 0}, (owner){OWNER_WORKSPACE, first + pass}));
    if (pass == TRI_PASS_FORWARD || !call->recompute) continue;
    time = time_again(p->list, call->index, (tri_pass)pass, split);
    TRI_TRY(add_interval(p, (tri_interval){time, time, bytes, 0},
                         (owner){OWNER_WORKSPACE, first + TRI_WORKSPACE_AGAIN + pass}));
  }
  return TRI_OK;
}

static void plan_chunk_notes(planning *p) {
  size_t end = 0;
  for (int64_t c = 0; c < p->list->num_calls; c++) {
    const tri_op_call *call = &p->list->calls[c];
    p->plan->host_state[c] = end;
    if (call->op->host_state != NULL) end = tri_bytes_plus(end, tri_padded_bytes(call->op->host_state(call)));
  }
  p->plan->host_state[p->list->num_calls] = end;
}

/* Plans the constants, the buffers and the workspaces of calls. Without training the scratch region begins with the
 * buffers: weights can be packed again. In training it begins after them (fill_plan). */
static tri_status plan_calls(planning *p, size_t *arena_end) {
  const tri_op_list *list = p->list;
  tri_chunk_plan *plan = p->plan;
  size_t begin = *arena_end;
  for (int64_t i = 0; i < list->num_constants; i++)
    plan->constants[i] = allocate_arena_range(arena_end, list->constants[i].bytes);
  p->whole->constant_bytes += *arena_end - begin;
  begin = *arena_end;
  if (!p->request->training && p->whole->scratch == 0) p->whole->scratch = begin;
  for (int64_t c = 0; c < list->num_calls && p->request->device != NULL; c++) {
    const tri_op_call *call = &list->calls[c];
    if (call->op->memory == NULL) continue;
    tri_op_memory memory = {0};
    TRI_TRY(call->op->memory(call, p->request->device, &memory));
    for (int i = 0; i < TRI_OP_BUFFERS; i++) {
      if (memory.buffer_bytes[i] > 0) {
        plan->buffers[c * TRI_OP_BUFFERS + i] = allocate_arena_range(arena_end, memory.buffer_bytes[i]);
      }
    }
    if (memory.workspace_bytes > 0) TRI_TRY(plan_workspaces(p, call, memory.workspace_bytes));
  }
  p->whole->buffer_bytes += *arena_end - begin;
  return TRI_OK;
}

/* Assigns offsets to all intervals of the chunk, and records the places of slots, gradients and workspaces. */
static tri_status place_transients(planning *p) {
  tri_chunk_plan *plan = p->plan;
  size_t bytes = 0;
  TRI_TRY(tri_intervals_place(p->intervals, p->num_intervals, &bytes));
  if (bytes > p->whole->transient_bytes) p->whole->transient_bytes = bytes;
  for (int64_t i = 0; i < p->num_intervals; i++) {
    size_t offset = p->intervals[i].offset;
    int64_t index = p->owners[i].index;
    switch (p->owners[i].kind) {
      case OWNER_SLOT: plan->slots[index] = (tri_place){TRI_REGION_TRANSIENT, offset}; break;
      case OWNER_GRADIENT: p->buffer_lives[index].offset = offset; break;
      case OWNER_WORKSPACE: plan->workspaces[index] = offset; break;
    }
  }
  const tri_op_list *list = p->list;
  int64_t n = list->num_slots;
  for (int64_t s = 0; s < n; s++) {
    bool split = p->request->split_backward;
    if (!split) plan->slots[TRI_PASS_BACKWARD_WEIGHT * n + s] = plan->slots[TRI_PASS_BACKWARD_INPUT * n + s];
    for (int pass = 0; pass < TRI_NUM_PASSES; pass++) {
      plan->slots[pass * n + s] = plan->slots[pass * n + list->slots[s].memory_of];
    }
    int32_t buffer = p->buffer_of == NULL ? -1 : p->buffer_of[s];
    if (buffer < 0) continue;
    tri_region region = p->buffer_in_frame[buffer] ? TRI_REGION_FRAME : TRI_REGION_TRANSIENT;
    plan->gradients[s] = (tri_place){region, p->buffer_lives[buffer].offset};
  }
  return TRI_OK;
}

static tri_status chunk_create(const tri_op_list *list, tri_chunk_plan *plan) {
  plan->num_slots = list->num_slots;
  plan->num_calls = list->num_calls;
  plan->num_constants = list->num_constants;
  size_t slots = (size_t)list->num_slots, calls = (size_t)list->num_calls, constants = (size_t)list->num_constants;
  TRI_TRY(tri_alloc("the memory plan", TRI_NUM_PASSES * slots, sizeof *plan->slots, &plan->slots));
  TRI_TRY(tri_alloc("the memory plan", slots, sizeof *plan->gradients, &plan->gradients));
  TRI_TRY(tri_alloc("the memory plan", calls * TRI_NUM_WORKSPACES, sizeof *plan->workspaces, &plan->workspaces));
  TRI_TRY(tri_alloc("the memory plan", calls * TRI_OP_BUFFERS, sizeof *plan->buffers, &plan->buffers));
  TRI_TRY(tri_alloc("the memory plan", calls + 1, sizeof *plan->host_state, &plan->host_state));
  return tri_alloc("the memory plan", constants, sizeof *plan->constants, &plan->constants);
}

static tri_status fill_chunk(planning *p, int64_t chunk, size_t *end) {
  tri_chunk_plan *plan = p->plan;
  TRI_TRY(chunk_create(p->list, plan));
  plan_chunk_notes(p);
  TRI_TRY(plan_slots(p));
  if (p->request->training) TRI_TRY(plan_gradients(p));
  TRI_TRY(plan_calls(p, end));
  TRI_TRY(place_transients(p));
  plan->num_frames = p->request->num_frames[chunk];
  return TRI_OK;
}

/* Places the frames of all chunks. */
static void place_frames(tri_memory_plan *plan, size_t *end) {
  const size_t begin = *end;
  for (int64_t c = 0; c < plan->num_chunks; c++) {
    tri_chunk_plan *chunk = &plan->chunks[c];
    chunk->frames = *end;
    *end = tri_bytes_plus(*end, tri_bytes_times(chunk->frame_bytes, (size_t)chunk->num_frames));
  }
  plan->activation_bytes = *end - begin;
}

static tri_status plan_chunk(const tri_memory_request *request, int64_t chunk, tri_memory_plan *whole, size_t *end) {
  planning p = {.request = request, .list = request->lists[chunk], .whole = whole, .plan = &whole->chunks[chunk]};
  tri_status status = fill_chunk(&p, chunk, end);
  tri_free(p.buffer_in_frame);
  tri_free(p.buffer_lives);
  tri_free(p.buffer_of);
  tri_free(p.owners);
  tri_free(p.intervals);
  return status;
}

/* Returns the bytes of a message between stages: this rank's rows of a micro-batch. */
static size_t message_bytes(const tri_op_list *list) {
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    if (call->op->passes_messages && call->outputs[0] >= 0)
      return tri_shape_bytes(&list->slots[call->outputs[0]].shape);
    if (call->op->passes_messages) return tri_shape_bytes(&list->slots[call->inputs[0]].shape);
  }
  return 0;
}

/* Returns the number of rows of a micro-batch in a column of its cut (tri_cut_rows); 0 if the column is not needed. */
static int64_t cut_rows(const tri_op_list *list, const tri_op_context *context, tri_cut_rows rows) {
  const int64_t joined = list->batch * tri_op_context_joined_rows(context, context->outer_rank);
  const bool gathers = tri_op_context_gathers(context);
  switch (rows) {
    case TRI_CUT_ROWS_OWN: return context->ranks > 1 ? list->batch * list->sequence : 0;
    case TRI_CUT_ROWS_INNER: return context->inner > 1 ? joined : 0;
    case TRI_CUT_ROWS_ALL: return gathers ? list->batch * context->tokens : 0;
    case TRI_CUT_ROWS_SENT: return gathers && context->masked ? context->outer * joined : 0;
    case TRI_CUT_ROWS_CACHED: return list->generating ? list->batch * list->sequence : 0;
    case TRI_CUT_ROWS_LOGITS: return list->logit_rows;
    case TRI_CUT_ROWS_PAGES: return list->table_pages;
  }
  return 0;
}

/* Returns the rows of a micro-batch in a column; 0 if the column is not needed. */
static int64_t column_rows(const tri_op_list *list, const tri_op_context *context, int column) {
  const tri_column *row = &tri_columns[column];
  if (!row->of_sample) return cut_rows(list, context, row->cut_rows);
  if ((list->columns & 1u << column) == 0) return 0;
  return list->batch * (row->whole ? list->tokens : list->sequence);
}

static void plan_columns(const tri_op_list *list, const tri_op_context *context, tri_memory_plan *plan) {
  for (int column = 0; column < TRI_NUM_BATCH_COLUMNS; column++) {
    const int64_t rows = column_rows(list, context, column);
    if (rows == 0) continue;
    const size_t bytes = tri_bytes_times((size_t)rows, tri_columns[column].element);
    plan->batch_columns[column] = allocate_arena_range(&plan->batch_bytes, bytes);
  }
}

/* Plans the values and results of a step, and the micro-batches in memory with their columns and slices. All are
 * adjacent, so that one copy transfers them. */
static void plan_batches(const tri_memory_request *request, tri_memory_plan *plan, size_t *end) {
  const tri_op_list *list = request->lists[0];
  const tri_op_context context = tri_op_list_context(list);
  size_t slices = tri_bytes_times((size_t)list->most_slices, (size_t)tri_op_context_lists(&context));
  if (request->num_batches == 0) return;
  size_t begin = *end;
  plan->values = allocate_arena_range(end, sizeof(tri_step_values));
  plan->results = allocate_arena_range(end, plan->results_bytes);
  plan_columns(list, &context, plan);
  plan->batch_slices = allocate_arena_range(&plan->batch_bytes, tri_bytes_times(slices, sizeof(tri_attention_slice)));
  plan->batches = allocate_arena_range(end, tri_bytes_times(plan->batch_bytes, (size_t)request->num_batches));
  plan->token_bytes = *end - begin;
}

/* Plans the host state of calls, for each micro-batch in flight. */
static void plan_notes(tri_memory_plan *plan, size_t *end) {
  for (int64_t c = 0; c < plan->num_chunks; c++) {
    tri_chunk_plan *chunk = &plan->chunks[c];
    chunk->host_states = *end;
    *end = tri_bytes_plus(*end, tri_bytes_times(chunk->host_state[chunk->num_calls], (size_t)chunk->num_frames));
  }
}

/* Plans the host memory, and adds its size to the totals by purpose. */
static void plan_host(const tri_memory_request *request, tri_memory_plan *plan) {
  size_t *end = &plan->host_bytes;
  if (request->num_batches > 0) {
    plan->host_values = allocate_arena_range(end, sizeof(tri_step_values));
    plan->host_results = allocate_arena_range(end, plan->results_bytes);
    plan->host_batches = allocate_arena_range(end, tri_bytes_times(plan->batch_bytes, (size_t)request->num_batches));
    plan->token_bytes = tri_bytes_plus(plan->token_bytes, *end);
  }
  size_t begin = *end;
  plan_notes(plan, end);
  plan->token_bytes = tri_bytes_plus(plan->token_bytes, *end - begin);
  begin = *end;
  const bool needs_copies = request->exchange_bytes > 0 && request->sums_bytes == 0;
  for (int kind = 0; kind < TRI_NUM_STAGE_BUFFER_KINDS && needs_copies; kind++) {
    plan->host_stage_buffers[kind] = *end;
    *end = tri_bytes_plus(*end, tri_bytes_times(plan->stage_buffer_bytes, (size_t)request->stage_buffers[kind]));
  }
  if (needs_copies) plan->host_transfer = allocate_arena_range(end, plan->transfer_bytes);
  plan->message_bytes = tri_bytes_plus(plan->message_bytes, *end - begin);
  plan->exchange_bytes = request->exchange_bytes;
  plan->exchange = allocate_arena_range(end, plan->exchange_bytes);
  plan->staging_bytes = request->staging_bytes;
  plan->staging = allocate_arena_range(end, plan->staging_bytes);
}

/* Returns the size of the transfer buffer in bytes. It is that of the call that transfers the most, since only one call
 * at a time transfers rows. */
static size_t most_passing(const tri_memory_request *request) {
  size_t most = 0;
  for (int64_t l = 0; l < request->num_chunks; l++) {
    for (int64_t c = 0; c < request->lists[l]->num_calls; c++) {
      const tri_op_call *call = &request->lists[l]->calls[c];
      size_t bytes = call->op->transfer == NULL ? 0 : call->op->transfer(call);
      if (bytes > most) most = bytes;
    }
  }
  return most;
}

/* Plans the parts of a step's results that follow tri_step_results: in training the counts of the routers, then the
 * log-probabilities of labels if they are requested. */
static void find_routers(const tri_memory_request *request, tri_memory_plan *plan) {
  for (int64_t c = 0; c < request->num_chunks; c++) {
    plan->chunks[c].first_router = plan->num_routers;
    plan->num_routers += request->lists[c]->num_routers;
    if (request->lists[c]->num_routers > 0) plan->router_experts = request->lists[c]->router_experts;
  }
  if (!request->training) plan->num_routers = 0;
  plan->result_counts = tri_bytes_in_lines(sizeof(tri_step_results));
  plan->results_bytes =
      plan->result_counts + (size_t)(plan->num_routers * (plan->router_experts + 1)) * sizeof(int64_t);
  if (!request->label_results) return;
  const int64_t rows = request->lists[0]->batch * request->lists[0]->sequence;
  plan->result_labels = tri_bytes_in_lines(plan->results_bytes);
  plan->results_bytes =
      tri_bytes_plus(plan->result_labels, tri_bytes_times((size_t)(request->num_batches * rows), sizeof(double)));
}

/* Plans the workspace of the update, if there is one, and of loading weights. It is in the transient region, because no
 * activations exist then. */
static tri_status plan_updates(const tri_memory_request *request, tri_memory_plan *plan) {
  size_t bytes = 0;
  if (request->updates != NULL) TRI_TRY(tri_updates_workspace(request->updates, request->device, &bytes));
  if (request->load_bytes > bytes) bytes = request->load_bytes;
  if (bytes > plan->transient_bytes) plan->transient_bytes = tri_bytes_in_lines(bytes);
  return TRI_OK;
}

/* Plans the rest of the scratch region, from offset `end` on, and the size of the arena. */
static void plan_scratch(const tri_memory_request *request, size_t end, tri_memory_plan *plan) {
  place_frames(plan, &end);
  plan->transient = end;
  plan->scratch_bytes = tri_bytes_plus(end, plan->transient_bytes) - plan->scratch;
  if (plan->scratch_bytes < request->least_scratch) {
    plan->lent_bytes = request->least_scratch - plan->scratch_bytes;
    plan->scratch_bytes = request->least_scratch;
  }
  plan->arena_bytes = tri_bytes_plus(plan->scratch, request->lent.memory == NULL ? plan->scratch_bytes : 0);
}

static tri_status fill_plan(const tri_memory_request *request, tri_memory_plan *plan) {
  size_t element = tri_dtype_bytes(tri_dtype_wide(request->lists[0]->type));
  size_t end = 0;
  find_routers(request, plan);
  size_t reduce_buffer = request->buckets == NULL ? 0 : (size_t)request->buckets->reduce_buffer_elements;
  plan->weights =
      tri_weights_plan_make(request->buckets, request->num_values, request->num_frozen, request->lists[0]->type);
  plan->parameter_bytes = request->has_weights ? 0 : plan->weights.bytes;
  if (request->training) {
    plan->gradient_values = allocate_arena_range(&end, tri_bytes_times((size_t)request->num_gradients, element));
    plan->reduce_buffers = allocate_arena_range(&end, tri_bytes_times(reduce_buffer, TRI_BUCKET_BUFFERS * element));
    plan->sink = allocate_arena_range(&end, tri_bytes_times((size_t)request->num_sink, element));
    plan->gradient_bytes = end - plan->gradient_values;
  }
  plan->transfer_bytes = most_passing(request);
  plan->transfer = allocate_arena_range(&end, plan->transfer_bytes);
  if (request->training) {
    plan->states = allocate_arena_range(&end, request->updates == NULL ? 0 : request->updates->state_bytes);
    plan->optimizer_bytes = end - plan->states;
  }
  plan_batches(request, plan, &end);
  size_t begin = end;
  plan->row_bytes = message_bytes(request->lists[0]);
  plan->stage_buffer_bytes = tri_padded_bytes(plan->row_bytes);
  for (int kind = 0; kind < TRI_NUM_STAGE_BUFFER_KINDS; kind++) {
    plan->stage_buffers[kind] = end;
    end = tri_bytes_plus(end, tri_bytes_times(plan->stage_buffer_bytes, (size_t)request->stage_buffers[kind]));
  }
  plan->partial = allocate_arena_range(&end, tri_bytes_times((size_t)request->num_partial, element));
  plan->message_bytes = end - begin;
  plan->sums_bytes = request->sums_bytes;
  plan->sums = allocate_arena_range(&end, plan->sums_bytes);
  for (int64_t c = 0; c < request->num_chunks; c++) TRI_TRY(plan_chunk(request, c, plan, &end));
  TRI_TRY(plan_updates(request, plan));
  if (request->training) plan->scratch = end;
  plan_scratch(request, end, plan);
  plan->queue_bytes = request->device == NULL ? 0 : request->device->queue_bytes;
  plan->device_bytes = tri_bytes_plus(tri_bytes_plus(plan->parameter_bytes, plan->arena_bytes), plan->queue_bytes);
  plan_host(request, plan);
  plan->total_bytes = tri_bytes_plus(plan->device_bytes, plan->host_bytes);
  if (plan->total_bytes < TRI_BYTES_MOST) return TRI_OK;
  return tri_fail(
      TRI_OUT_OF_MEMORY,
      "a rank's memory is more bytes than can be counted; reduce micro_batch, the sequence length or the model");
}

tri_memory_request tri_memory_request_forward(tri_op_list *const *list, int64_t num_values,
                                              const tri_device_description *device) {
  static const int64_t one_frame = 1;
  return (tri_memory_request){
      .lists = (const tri_op_list *const *)list,
      .num_frames = &one_frame,
      .num_chunks = 1,
      .num_values = num_values,
      .num_batches = 1,
      .device = device,
  };
}

tri_status tri_memory_plan_create(const tri_memory_request *request, tri_memory_plan **out) {
  tri_memory_plan *plan = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("the memory plan", 1, sizeof *plan, &plan));
  plan->num_chunks = request->num_chunks;
  TRI_TRY_GOTO(tri_alloc("the memory plan", (size_t)request->num_chunks, sizeof *plan->chunks, &plan->chunks), failed);
  TRI_TRY_GOTO(fill_plan(request, plan), failed);
  *out = plan;
  return TRI_OK;
failed:
  tri_memory_plan_destroy(plan);
  return status;
}

void tri_memory_plan_destroy(tri_memory_plan *plan) {
  if (plan == NULL) return;
  for (int64_t c = 0; plan->chunks != NULL && c < plan->num_chunks; c++) {
    tri_chunk_plan *chunk = &plan->chunks[c];
    tri_free(chunk->host_state);
    tri_free(chunk->constants);
    tri_free(chunk->buffers);
    tri_free(chunk->workspaces);
    tri_free(chunk->gradients);
    tri_free(chunk->slots);
  }
  tri_free(plan->chunks);
  tri_free(plan);
}
