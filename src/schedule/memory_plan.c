#include "schedule/memory_plan.h"

#include "base/memory.h"

/* Work in progress: everything transient is collected as intervals first, each with a note of who it is for. */
typedef enum owner_kind { OWNER_SLOT, OWNER_GRADIENT, OWNER_WORKSPACE } owner_kind;

typedef struct owner {
  owner_kind kind;
  int64_t index; /* slot, buffer, or call * 3 + pass */
} owner;

typedef struct planning {
  const tri_memory_request *request;
  tri_memory_plan *plan;
  tri_interval *intervals;
  owner *owners;
  int64_t num_intervals, capacity;
  int32_t *buffer_of;         /* [slot]: gradient buffer */
  tri_interval *buffer_lives; /* [buffer] */
  bool *buffer_in_frame;      /* [buffer] */
} planning;

/* The time at which a pass of a call runs. */
static int64_t time_of(const tri_op_list *list, int64_t call, tri_pass pass, bool split) {
  int64_t n = list->num_calls;
  if (pass == TRI_PASS_FORWARD) return call;
  if (pass == TRI_PASS_BACKWARD_INPUT || !split) return n + (n - 1 - call);
  return 2 * n + (n - 1 - call);
}

static tri_status add_interval(planning *p, tri_interval interval, owner who) {
  if (p->num_intervals == p->capacity) {
    int64_t capacity = p->capacity == 0 ? 256 : p->capacity * 2;
    TRI_TRY(tri_realloc("the memory plan", (size_t)capacity, sizeof *p->intervals, &p->intervals));
    TRI_TRY(tri_realloc("the memory plan", (size_t)capacity, sizeof *p->owners, &p->owners));
    p->capacity = capacity;
  }
  interval.bytes = tri_padded_bytes(interval.bytes);
  p->intervals[p->num_intervals] = interval;
  p->owners[p->num_intervals] = who;
  p->num_intervals++;
  return TRI_OK;
}

static size_t take(size_t *end, size_t bytes) {
  size_t offset = *end;
  *end += tri_padded_bytes(bytes);
  return offset;
}

/* Slots that share memory are one tensor that lives as long as any of them; slot numbers grow with time, so the one
 * whose memory it is comes first. */
static tri_status plan_slots(planning *p) {
  const tri_op_list *list = p->request->list;
  for (int64_t root = 0; root < list->num_slots; root++) {
    const tri_slot *slot = &list->slots[root];
    if (slot->memory_of != root) continue;
    tri_interval life = {slot->producer, slot->last_consumer, tri_shape_bytes(&slot->shape), 0};
    bool kept = false;
    for (int64_t s = root; s < list->num_slots; s++) {
      if (list->slots[s].memory_of != root) continue;
      kept = kept || list->slots[s].kept;
      if (list->slots[s].last_consumer > life.last) life.last = list->slots[s].last_consumer;
    }
    if (kept) {
      p->plan->slots[root] = (tri_place){TRI_REGION_FRAME, take(&p->plan->frame_bytes, life.bytes)};
    } else {
      TRI_TRY(add_interval(p, life, (owner){OWNER_SLOT, root}));
    }
  }
  return TRI_OK;
}

/* How long each gradient buffer lives, and whether it must outlast its instruction. */
static void find_buffer_lives(planning *p) {
  const tri_op_list *list = p->request->list;
  bool split = p->request->split_backward;
  for (int64_t s = 0; s < list->num_slots; s++) {
    int32_t buffer = p->buffer_of[s];
    if (buffer < 0) continue;
    const tri_slot *slot = &list->slots[s];
    bool weights_read = list->calls[slot->producer].op->backward_weight != NULL;
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
  const tri_op_list *list = p->request->list;
  size_t count = (size_t)list->num_slots + 1;
  int64_t num_buffers = 0;
  TRI_TRY(tri_alloc("the memory plan", count, sizeof *p->buffer_of, &p->buffer_of));
  TRI_TRY(tri_alloc("the memory plan", count, sizeof *p->buffer_lives, &p->buffer_lives));
  TRI_TRY(tri_alloc("the memory plan", count, sizeof *p->buffer_in_frame, &p->buffer_in_frame));
  TRI_TRY(tri_gradient_buffers(list, p->request->split_backward, p->buffer_of, &num_buffers));
  find_buffer_lives(p);
  for (int64_t b = 0; b < num_buffers; b++) {
    if (p->buffer_in_frame[b]) {
      p->buffer_lives[b].offset = take(&p->plan->frame_bytes, p->buffer_lives[b].bytes);
    } else {
      TRI_TRY(add_interval(p, p->buffer_lives[b], (owner){OWNER_GRADIENT, b}));
    }
  }
  return TRI_OK;
}

/* Scratch memory, packed weights and constants. */
static tri_status plan_calls(planning *p, size_t *arena_end) {
  const tri_op_list *list = p->request->list;
  tri_memory_plan *plan = p->plan;
  size_t begin = *arena_end;
  for (int64_t i = 0; i < list->num_constants; i++) plan->constants[i] = take(arena_end, list->constants[i].bytes);
  plan->constant_bytes = *arena_end - begin;
  begin = *arena_end;
  for (int64_t c = 0; c < list->num_calls && p->request->device != NULL; c++) {
    const tri_op_call *call = &list->calls[c];
    if (call->op->memory == NULL) continue;
    tri_op_memory memory = {0};
    TRI_TRY(call->op->memory(call, p->request->device, &memory));
    for (int i = 0; i < TRI_OP_BUFFERS; i++) {
      if (memory.buffer_bytes[i] > 0) {
        plan->buffers[c * TRI_OP_BUFFERS + i] = take(arena_end, memory.buffer_bytes[i]);
      }
    }
    if (memory.workspace_bytes == 0) continue;
    for (int pass = 0; pass < (p->request->training ? 3 : 1); pass++) {
      int64_t time = time_of(list, c, (tri_pass)pass, true);
      if (pass == TRI_PASS_BACKWARD_WEIGHT && !p->request->split_backward) {
        time = time_of(list, c, TRI_PASS_BACKWARD_INPUT, true);
      }
      TRI_TRY(add_interval(p, (tri_interval){time, time, memory.workspace_bytes, 0},
                           (owner){OWNER_WORKSPACE, c * 3 + pass}));
    }
  }
  plan->buffer_bytes = *arena_end - begin;
  return TRI_OK;
}

static tri_status place_transients(planning *p) {
  tri_memory_plan *plan = p->plan;
  TRI_TRY(tri_intervals_place(p->intervals, p->num_intervals, &plan->transient_bytes));
  for (int64_t i = 0; i < p->num_intervals; i++) {
    size_t offset = p->intervals[i].offset;
    int64_t index = p->owners[i].index;
    switch (p->owners[i].kind) {
      case OWNER_SLOT: plan->slots[index] = (tri_place){TRI_REGION_TRANSIENT, offset}; break;
      case OWNER_GRADIENT: p->buffer_lives[index].offset = offset; break;
      case OWNER_WORKSPACE: plan->workspaces[index] = offset; break;
    }
  }
  const tri_op_list *list = p->request->list;
  for (int64_t s = 0; s < list->num_slots; s++) {
    plan->slots[s] = plan->slots[list->slots[s].memory_of];
    int32_t buffer = p->buffer_of == NULL ? -1 : p->buffer_of[s];
    if (buffer < 0) continue;
    tri_region region = p->buffer_in_frame[buffer] ? TRI_REGION_FRAME : TRI_REGION_TRANSIENT;
    plan->gradients[s] = (tri_place){region, p->buffer_lives[buffer].offset};
  }
  return TRI_OK;
}

static tri_status fill_plan(planning *p) {
  const tri_memory_request *request = p->request;
  tri_memory_plan *plan = p->plan;
  size_t value_bytes = (size_t)request->num_values * tri_dtype_bytes(tri_dtype_wide(request->list->type));
  size_t end = 0;
  plan->parameters = take(&end, value_bytes);
  plan->parameter_bytes = end;
  if (request->training) {
    plan->gradient_values = take(&end, value_bytes);
    plan->gradient_bytes = end - plan->gradient_values;
    plan->moment1 = take(&end, value_bytes);
    plan->moment2 = take(&end, value_bytes);
    plan->optimizer_bytes = end - plan->moment1;
  }
  plan->tokens = take(&end, 2 * (size_t)request->num_tokens * sizeof(int32_t));
  plan->token_bytes = end - plan->tokens;
  TRI_TRY(plan_slots(p));
  if (request->training) TRI_TRY(plan_gradients(p));
  TRI_TRY(plan_calls(p, &end));
  TRI_TRY(place_transients(p));
  plan->num_frames = request->num_frames;
  plan->frames = end;
  end += plan->frame_bytes * (size_t)request->num_frames;
  plan->transient = end;
  plan->total_bytes = end + plan->transient_bytes;
  return TRI_OK;
}

tri_status tri_memory_plan_create(const tri_memory_request *request, tri_memory_plan **out) {
  const tri_op_list *list = request->list;
  tri_status status = TRI_OK;
  planning p = {.request = request};
  TRI_TRY(tri_alloc("the memory plan", 1, sizeof *p.plan, &p.plan));
  p.plan->num_slots = list->num_slots;
  p.plan->num_calls = list->num_calls;
  p.plan->num_constants = list->num_constants;
  size_t slots = (size_t)list->num_slots, calls = (size_t)list->num_calls, constants = (size_t)list->num_constants;
  TRI_TRY_GOTO(tri_alloc("the memory plan", slots, sizeof *p.plan->slots, &p.plan->slots), failed);
  TRI_TRY_GOTO(tri_alloc("the memory plan", slots, sizeof *p.plan->gradients, &p.plan->gradients), failed);
  TRI_TRY_GOTO(tri_alloc("the memory plan", calls * 3, sizeof *p.plan->workspaces, &p.plan->workspaces), failed);
  TRI_TRY_GOTO(tri_alloc("the memory plan", calls * TRI_OP_BUFFERS, sizeof *p.plan->buffers, &p.plan->buffers), failed);
  TRI_TRY_GOTO(tri_alloc("the memory plan", constants, sizeof *p.plan->constants, &p.plan->constants), failed);
  TRI_TRY_GOTO(fill_plan(&p), failed);
  *out = p.plan;
  p.plan = NULL;
failed:
  tri_memory_plan_destroy(p.plan);
  tri_free(p.buffer_in_frame);
  tri_free(p.buffer_lives);
  tri_free(p.buffer_of);
  tri_free(p.owners);
  tri_free(p.intervals);
  return status;
}

void tri_memory_plan_destroy(tri_memory_plan *plan) {
  if (plan == NULL) return;
  tri_free(plan->constants);
  tri_free(plan->buffers);
  tri_free(plan->workspaces);
  tri_free(plan->gradients);
  tri_free(plan->slots);
  tri_free(plan);
}
