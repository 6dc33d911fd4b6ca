#include "schedule/program.h"

#include "base/memory.h"

const char *tri_stage_buffer_name(tri_stage_buffer_kind kind) {
  switch (kind) {
    case TRI_STAGE_BUFFER_ACTIVATION_IN: return "activation_in";
    case TRI_STAGE_BUFFER_ACTIVATION_OUT: return "activation_out";
    case TRI_STAGE_BUFFER_GRADIENT_IN: return "gradient_in";
    case TRI_STAGE_BUFFER_GRADIENT_OUT: return "gradient_out";
  }
  return "?";
}

/* ---- construction ------------------------------------------------------------------------------------------------ */

typedef struct building {
  const tri_program_request *request;
  tri_program *program;
  int64_t capacity;
  const tri_turns *turns;
  tri_message *coming[TRI_NUM_STAGE_BUFFER_KINDS]; /* messages to receive, in the order of the turns [num_coming] */
  /* Numbers of messages of each kind: messages to receive in all, receives posted so far, messages received so far, and
   * messages sent so far. */
  int64_t num_coming[TRI_NUM_STAGE_BUFFER_KINDS], posted[TRI_NUM_STAGE_BUFFER_KINDS], taken[TRI_NUM_STAGE_BUFFER_KINDS];
  int64_t sent[TRI_NUM_STAGE_BUFFER_KINDS];
  int64_t stage_buffers;
  bool *reduced, *waited; /* whether a reduction of each bucket has been started; whether its last one has been awaited
                             [buckets] */
  int64_t postponed; /* bucket whose gradients are complete, but whose reduction starts only after a message is sent;
                        -1: none */
} building;

static tri_instruction blank(tri_instruction_kind kind) {
  return (tri_instruction){.kind = kind,
                           .micro_batch = -1,
                           .chunk = -1,
                           .frame = -1,
                           .first_call = -1,
                           .end_call = -1,
                           .stage_buffer = -1,
                           .in_buffer = -1,
                           .out_buffer = -1,
                           .peer = -1,
                           .tag = -1,
                           .bucket = -1};
}

static tri_status append(building *b, tri_instruction instruction) {
  tri_program *program = b->program;
  TRI_TRY(tri_grow("a step program", sizeof *program->instructions, program->num_instructions, &b->capacity,
                   &program->instructions));
  program->instructions[program->num_instructions++] = instruction;
  return TRI_OK;
}

static tri_status append_kind(building *b, tri_instruction_kind kind) { return append(b, blank(kind)); }

static tri_status append_bucket(building *b, tri_instruction_kind kind, int64_t bucket) {
  tri_instruction instruction = blank(kind);
  instruction.bucket = (int32_t)bucket;
  instruction.chunk = b->request->buckets->entries[bucket].chunk;
  if (kind == TRI_REDUCE) b->reduced[bucket] = true;
  if (kind == TRI_REDUCE || kind == TRI_WAIT_REDUCED) b->waited[bucket] = kind == TRI_WAIT_REDUCED;
  return append(b, instruction);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static bool is_backward(tri_turn_kind kind) {
  switch (kind) {
    case TRI_TURN_BACKWARD:
    case TRI_TURN_BACKWARD_INPUT: return true;
    case TRI_TURN_FORWARD:
    case TRI_TURN_BACKWARD_WEIGHT: return false; /* gradients of inputs are messages of the backward of inputs */
  }
  return false;
}

/* A forward receives from the previous virtual stage, a backward from the next one; no gradient is sent to stages below
 * the lowest trained parameter. */
bool tri_program_message_in(const tri_layout *layout, int64_t stage, const tri_turn *turn, tri_stage_buffer_kind *kind,
                            tri_message *out) {
  int64_t stages = layout->pipeline * layout->virtual_stages, v = turn->chunk * layout->pipeline + stage;
  if (turn->kind == TRI_TURN_FORWARD) {
    if (v == 0) return false;
    *kind = TRI_STAGE_BUFFER_ACTIVATION_IN;
    *out = (tri_message){(int32_t)((v - 1) % layout->pipeline), (int32_t)(2 * v)};
    return true;
  }
  if (!is_backward(turn->kind) || v == stages - 1 || v < layout->first_trained) return false;
  *kind = TRI_STAGE_BUFFER_GRADIENT_IN;
  *out = (tri_message){(int32_t)((v + 1) % layout->pipeline), (int32_t)(2 * v + 1)};
  return true;
}

bool tri_program_message_out(const tri_layout *layout, int64_t stage, const tri_turn *turn, tri_stage_buffer_kind *kind,
                             tri_message *out) {
  int64_t stages = layout->pipeline * layout->virtual_stages, v = turn->chunk * layout->pipeline + stage;
  if (turn->kind == TRI_TURN_FORWARD) {
    if (v == stages - 1) return false;
    *kind = TRI_STAGE_BUFFER_ACTIVATION_OUT;
    *out = (tri_message){(int32_t)((v + 1) % layout->pipeline), (int32_t)(2 * (v + 1))};
    return true;
  }
  if (!is_backward(turn->kind) || v <= layout->first_trained) return false;
  *kind = TRI_STAGE_BUFFER_GRADIENT_OUT;
  *out = (tri_message){(int32_t)((v - 1) % layout->pipeline), (int32_t)(2 * (v - 1) + 1)};
  return true;
}

static tri_instruction of_message(tri_instruction_kind kind, tri_stage_buffer_kind stage_buffer_kind,
                                  int64_t stage_buffer, tri_message what) {
  tri_instruction instruction = blank(kind);
  instruction.stage_buffer_kind = stage_buffer_kind;
  instruction.stage_buffer = (int32_t)stage_buffer;
  instruction.peer = what.peer;
  instruction.tag = what.tag;
  return instruction;
}

static tri_status post_next(building *b, tri_stage_buffer_kind kind) {
  int64_t number = b->posted[kind];
  if (number == b->num_coming[kind]) return TRI_OK;
  b->posted[kind]++;
  return append(b, of_message(TRI_POST_RECEIVE, kind, number % b->stage_buffers, b->coming[kind][number]));
}

static tri_status list_coming(building *b) {
  for (int64_t i = 0; i < b->turns->count; i++) {
    tri_stage_buffer_kind kind;
    tri_message what;
    if (!tri_program_message_in(b->request->layout, b->request->stage, &b->turns->turns[i], &kind, &what)) continue;
    if (b->coming[kind] == NULL) {
      TRI_TRY(tri_alloc("a step program", (size_t)b->turns->count, sizeof *b->coming[kind], &b->coming[kind]));
    }
    b->coming[kind][b->num_coming[kind]++] = what;
  }
  return TRI_OK;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static tri_instruction_kind kind_of(tri_turn_kind kind) {
  switch (kind) {
    case TRI_TURN_FORWARD: return TRI_FORWARD;
    case TRI_TURN_BACKWARD: return TRI_BACKWARD;
    case TRI_TURN_BACKWARD_INPUT: return TRI_BACKWARD_INPUT;
    case TRI_TURN_BACKWARD_WEIGHT: return TRI_BACKWARD_WEIGHT;
  }
  return TRI_FORWARD;
}

/* Returns whether a bucket has several replicas and can be reduced as soon as the backward has passed its layers. */
static bool is_early(const building *b, int64_t bucket) {
  const tri_bucket *at = &b->request->buckets->entries[bucket];
  return at->ranks > 1 && !at->tied;
}

static tri_status reduce_bucket(building *b, int64_t bucket) {
  const tri_bucket *at = &b->request->buckets->entries[bucket];
  if (!tri_bucket_is_trained(at)) return TRI_OK;
  if (b->reduced[bucket] && !b->waited[bucket]) TRI_TRY(append_bucket(b, TRI_WAIT_REDUCED, bucket));
  if (at->partial) TRI_TRY(append_bucket(b, TRI_SUM_PARTIAL, bucket));
  if (at->ranks > 1) TRI_TRY(append_bucket(b, TRI_REDUCE, bucket));
  return TRI_OK;
}

/* Waits until the reduce buffer in which a bucket's gradients are computed is free. The bucket that used this buffer
 * before must have been reduced, and its part copied out. */
static tri_status free_reduce_buffer(building *b, int64_t bucket) {
  const tri_buckets *buckets = b->request->buckets;
  if (!buckets->entries[bucket].gradients_sharded) return TRI_OK;
  for (int64_t k = bucket + 1; k < buckets->count; k++) {
    bool same = buckets->entries[k].gradients_sharded && buckets->entries[k].buffer == buckets->entries[bucket].buffer;
    if (same && !b->waited[k]) TRI_TRY(append_bucket(b, TRI_WAIT_REDUCED, k));
  }
  return TRI_OK;
}

/* A segment is a part of a forward or backward: consecutive calls whose parameters are in one bucket. Segments are in
 * the order in which they run.
 *
 * A bucket may have several segments: the experts of a layer have a bucket of their own, and after them the layer
 * may continue with parameters of its first bucket. The sharded parameters of a bucket are gathered before its
 * segment, while the segment before it runs if a gather buffer is free. The gradients of a bucket are reduced after
 * its last segment in the backward of the last micro-batch (tri_program_request.reduces_each: of every one). */
typedef struct segment {
  int64_t bucket;
  int32_t first_call, end_call;
  bool reads; /* whether a call of the segment reads parameters of the bucket in this pass */
} segment;

typedef struct segments {
  tri_instruction whole;          /* the pass as one instruction */
  bool forward, gathers, reduces; /* whether the pass is a forward, gathers parameters, reduces gradients */
  segment *all;                   /* segments of the pass, in the order in which they run */
  int64_t count;
  int64_t held[TRI_BUCKET_BUFFERS]; /* bucket whose parameters are in each gather buffer, or are being gathered into it;
                                       -1: none */
  bool awaited[TRI_BUCKET_BUFFERS]; /* whether the gather into each gather buffer has been awaited */
} segments;

static bool has_parameters(const tri_op_call *call) {
  for (int i = 0; i < TRI_OP_PARAMETERS; i++) {
    if (call->parameters[i] >= 0) return true;
  }
  return false;
}

/* Returns whether a call runs with the experts of its layer: it is one of their calls, or it has no parameters and
 * comes after one of their calls. */
static bool goes_with_experts(const tri_op_list *list, int32_t call) {
  if (list->calls[call].expert || has_parameters(&list->calls[call])) return list->calls[call].expert;
  int32_t before = call;
  while (before > 0 && list->calls[before - 1].layer == list->calls[call].layer) {
    before--;
    if (list->calls[before].expert) return true;
  }
  return false;
}

/* Finds the early bucket of a layer, or of its experts; -1 if there is none. */
static int64_t find_bucket(const building *b, int32_t chunk, int32_t layer, bool experts) {
  const tri_buckets *buckets = b->request->buckets;
  for (int64_t k = 0; k < buckets->count; k++) {
    const tri_bucket *at = &buckets->entries[k];
    if (at->chunk != chunk || at->experts != experts || !is_early(b, k)) continue;
    if (layer >= at->layers.first && layer < at->layers.end) return k;
  }
  return -1;
}

static bool holds(const building *b, int64_t bucket, int32_t parameter) {
  const tri_bucket *at = &b->request->buckets->entries[bucket];
  return parameter >= at->first_entry && parameter < at->end_entry;
}

/* Finds the bucket of a call by its own parameters. The bucket of tied matrices, which is not early, separates the
 * other parameters of the head (the last norm, and LoRA factors of the output projection), so the layer has two
 * buckets. Returns `otherwise` if no parameter of the call is in an early bucket. */
static int64_t bucket_of_parameters(const building *b, int32_t chunk, const tri_op_call *call, int64_t otherwise) {
  const tri_buckets *buckets = b->request->buckets;
  int64_t found = otherwise;
  for (int i = 0; i < TRI_OP_PARAMETERS; i++) {
    const int32_t parameter = call->parameters[i];
    if (parameter < 0) continue;
    if (otherwise >= 0 && holds(b, otherwise, parameter)) return otherwise;
    for (int64_t k = 0; k < buckets->count; k++) {
      if (buckets->entries[k].chunk == chunk && holds(b, k, parameter) && is_early(b, k)) found = k;
    }
  }
  return found;
}

/* The last result of bucket_of_call, and the layer and the kind of calls for which it is valid. */
typedef struct known_bucket {
  int32_t layer;
  bool known, experts;
  int64_t bucket;
} known_bucket;

static int64_t bucket_of_call(const building *b, int32_t chunk, int32_t number, known_bucket *last) {
  const tri_op_list *list = b->request->lists[chunk];
  const int32_t layer = list->calls[number].layer;
  const bool experts = goes_with_experts(list, number);
  if (!last->known || last->layer != layer || last->experts != experts) {
    *last = (known_bucket){layer, true, experts, find_bucket(b, chunk, layer, experts)};
  }
  if (b->request->layout->zero < 3) return last->bucket;
  return bucket_of_parameters(b, chunk, &list->calls[number], last->bucket);
}

/* Returns whether a pass does any work for a call. A backward does none below the lowest trained parameter, except
 * recomputed forwards. */
static bool has_work(const segments *p, const tri_op_call *call) {
  return p->forward || tri_op_has_inputs(call) || tri_op_has_weights(call) || call->recompute;
}

/* Returns whether a call reads its parameters in a pass of this kind. A backward reads them for the gradients of
 * inputs, for the gradients of some weights, and to recompute the forward. */
static bool reads_parameters(tri_instruction_kind kind, const tri_op_call *call) {
  const bool inputs = kind != TRI_BACKWARD_WEIGHT && tri_op_has_inputs(call);
  const bool weights = kind != TRI_BACKWARD_INPUT && call->op->weights_read && tri_op_has_weights(call);
  return kind == TRI_FORWARD || inputs || weights || call->recompute;
}

/* Returns whether a call reads parameters of a bucket in a pass. */
static bool reads_bucket(const building *b, const segments *p, const tri_op_call *call, int64_t bucket) {
  if (!reads_parameters(p->whole.kind, call)) return false;
  if (call->op->reads_experts) return b->request->buckets->entries[bucket].experts;
  for (int i = 0; i < TRI_OP_PARAMETERS; i++) {
    if (call->parameters[i] >= 0 && holds(b, bucket, call->parameters[i])) return true;
  }
  return false;
}

/* Lists the segments of a pass. A call without a bucket belongs to the next segment in the order of the pass; if no
 * segment follows, to the last one. */
static void list_segments(const building *b, segments *p) {
  const tri_op_list *list = b->request->lists[p->whole.chunk];
  int32_t num_calls = (int32_t)list->num_calls, behind = 0;
  known_bucket last_bucket = {.known = false};
  for (int32_t i = 0; i < num_calls; i++) {
    int32_t call = p->forward ? i : num_calls - 1 - i;
    int64_t bucket = bucket_of_call(b, p->whole.chunk, call, &last_bucket);
    if (bucket < 0 || !has_work(p, &list->calls[call])) continue;
    if (p->count == 0 || p->all[p->count - 1].bucket != bucket) p->all[p->count++] = (segment){.bucket = bucket};
    segment *last = &p->all[p->count - 1];
    last->reads = last->reads || reads_bucket(b, p, &list->calls[call], bucket);
    if (p->forward) {
      last->end_call = call + 1;
    } else {
      last->first_call = call;
    }
  }
  if (p->count == 0) return;
  if (p->forward) {
    p->all[p->count - 1].end_call = num_calls;
  } else {
    p->all[p->count - 1].first_call = 0;
  }
  for (int64_t i = 0; i < p->count; i++) {
    if (p->forward) {
      p->all[i].first_call = behind;
      behind = p->all[i].end_call;
    } else {
      p->all[i].end_call = i == 0 ? num_calls : p->all[i - 1].first_call;
    }
  }
}

static bool is_gathered(const building *b, const segments *p, int64_t i) {
  return p->gathers && p->all[i].reads && b->request->buckets->entries[p->all[i].bucket].values_sharded;
}

static int32_t buffer_of(const building *b, const segments *p, int64_t i) {
  return b->request->buckets->entries[p->all[i].bucket].buffer;
}

static bool is_held(const building *b, const segments *p, int64_t i) {
  return !is_gathered(b, p, i) || p->held[buffer_of(b, p, i)] == p->all[i].bucket;
}

static tri_status gather_segment(building *b, segments *p, int64_t i) {
  int32_t buffer = buffer_of(b, p, i);
  p->held[buffer] = p->all[i].bucket;
  p->awaited[buffer] = false;
  return append_bucket(b, TRI_GATHER, p->all[i].bucket);
}

/* Starts to gather the parameters of the next segment that lacks them, while segment i runs. Does nothing if a
 * segment before that one, or segment i, still needs the same gather buffer. */
static tri_status gather_ahead(building *b, segments *p, int64_t i) {
  int64_t next = i + 1;
  while (next < p->count && is_held(b, p, next)) next++;
  if (next == p->count) return TRI_OK;
  for (int64_t k = i; k < next; k++) {
    if (is_gathered(b, p, k) && buffer_of(b, p, k) == buffer_of(b, p, next)) return TRI_OK;
  }
  return gather_segment(b, p, next);
}

static tri_status wait_gathered(building *b, segments *p, int64_t i) {
  if (!is_gathered(b, p, i) || p->awaited[buffer_of(b, p, i)]) return TRI_OK;
  p->awaited[buffer_of(b, p, i)] = true;
  return append_bucket(b, TRI_WAIT_GATHERED, p->all[i].bucket);
}

/* Returns the end of the range of segments, from segment i on, whose parameters are needed before segment i of a
 * backward. If the layer in which segment i ends has recomputed calls, these run first, so the range has all
 * segments with calls of this layer. Else the range is segment i alone. */
static int64_t end_of_layer(const building *b, const segments *p, int64_t i) {
  const tri_call_range layer = tri_op_list_layer(b->request->lists[p->whole.chunk], p->all[i].first_call);
  bool again = false;
  int64_t end = i + 1;
  for (int32_t call = layer.first; call < layer.end && !p->forward; call++) {
    again = again || b->request->lists[p->whole.chunk]->calls[call].recompute;
  }
  while (end < p->count && again && p->all[end].end_call > layer.first) end++;
  return end;
}

/* Gathers the parameters of segment i, starts the gather of the next segment, and waits for the parameters of segment
 * i. If the layer of segment i is recomputed before its backward begins, also gathers and awaits the parameters of the
 * other segments of the layer. These are at most two adjacent buckets, which have different gather buffers. */
static tri_status gather_layer(building *b, segments *p, int64_t i) {
  const int64_t end = end_of_layer(b, p, i);
  for (int64_t k = i; k < end; k++) {
    if (!is_held(b, p, k)) TRI_TRY(gather_segment(b, p, k));
  }
  TRI_TRY(gather_ahead(b, p, i));
  for (int64_t k = i; k < end; k++) TRI_TRY(wait_gathered(b, p, k));
  return TRI_OK;
}

static bool is_last_of_bucket(const segments *p, int64_t i) {
  for (int64_t k = i + 1; k < p->count; k++) {
    if (p->all[k].bucket == p->all[i].bucket) return false;
  }
  return true;
}

/* Appends a pass in segments, with the gathers and reductions of their buckets. The reduction of the last bucket is
 * left to append_turn, which sends the result of the pass first. */
static tri_status append_segments(building *b, segments *p) {
  for (int buffer = 0; buffer < TRI_BUCKET_BUFFERS; buffer++) p->held[buffer] = -1;
  for (int64_t i = 0; i < p->count; i++) {
    tri_instruction instruction = p->whole;
    instruction.first_call = p->all[i].first_call;
    instruction.end_call = p->all[i].end_call;
    TRI_TRY(gather_layer(b, p, i));
    if (p->reduces) TRI_TRY(free_reduce_buffer(b, p->all[i].bucket));
    TRI_TRY(append(b, instruction));
    if (!p->reduces || !is_last_of_bucket(p, i)) continue;
    if (i + 1 == p->count) {
      b->postponed = p->all[i].bucket;
    } else {
      TRI_TRY(reduce_bucket(b, p->all[i].bucket));
    }
  }
  return TRI_OK;
}

/* Returns whether a pass may read parameters. Most backwards of weights alone do not. */
static bool reads_values(const building *b, const tri_instruction *whole) {
  bool reads = whole->kind != TRI_BACKWARD_WEIGHT;
  for (int32_t c = whole->first_call; c < whole->end_call && !reads; c++) {
    reads = reads_parameters(whole->kind, &b->request->lists[whole->chunk]->calls[c]);
  }
  return reads;
}

/* Appends a forward or backward, whole or in segments. */
static tri_status append_split(building *b, tri_instruction whole) {
  const tri_program_request *request = b->request;
  bool last = whole.micro_batch == request->micro_batches - 1;
  bool weights = whole.kind == TRI_BACKWARD || whole.kind == TRI_BACKWARD_WEIGHT;
  segments p = {.whole = whole,
                .forward = whole.kind == TRI_FORWARD,
                .gathers = request->layout->zero > 2 && reads_values(b, &whole),
                .reduces = weights && (last || request->reduces_each)};
  if (!p.gathers && !p.reduces) return append(b, whole);
  TRI_TRY(tri_alloc("a step program", (size_t)whole.end_call + 1, sizeof *p.all, &p.all));
  list_segments(b, &p);
  tri_status status = p.count == 0 ? append(b, whole) : append_segments(b, &p);
  tri_free(p.all);
  return status;
}

static tri_status append_compute(building *b, const tri_turn *turn, int64_t in_buffer, int64_t out_buffer) {
  const tri_program_request *request = b->request;
  tri_instruction instruction = blank(kind_of(turn->kind));
  instruction.micro_batch = turn->micro_batch;
  instruction.chunk = turn->chunk;
  instruction.in_buffer = (int32_t)in_buffer;
  instruction.out_buffer = (int32_t)out_buffer;
  instruction.first_call = 0;
  instruction.end_call = request->lists == NULL ? -1 : (int32_t)request->lists[turn->chunk]->num_calls;
  if (request->lists == NULL || request->buckets == NULL) return append(b, instruction);
  return append_split(b, instruction);
}

/* Appends a turn with its messages. If the stage buffer that the turn writes may still be in use by an earlier
 * message, first waits for this message. */
static tri_status append_turn(building *b, const tri_turn *turn) {
  tri_stage_buffer_kind in_kind = TRI_STAGE_BUFFER_ACTIVATION_IN, out_kind = TRI_STAGE_BUFFER_ACTIVATION_OUT;
  tri_message in, out;
  bool takes = tri_program_message_in(b->request->layout, b->request->stage, turn, &in_kind, &in);
  bool makes = tri_program_message_out(b->request->layout, b->request->stage, turn, &out_kind, &out);
  int64_t in_buffer = -1, out_buffer = -1;
  if (takes) {
    in_buffer = b->taken[in_kind]++ % b->stage_buffers;
    TRI_TRY(append(b, of_message(TRI_RECEIVE, in_kind, in_buffer, in)));
  }
  if (makes) {
    out_buffer = b->sent[out_kind] % b->stage_buffers;
    if (b->sent[out_kind] >= b->stage_buffers) TRI_TRY(append(b, of_message(TRI_WAIT_SENT, out_kind, out_buffer, out)));
    b->sent[out_kind]++;
  }
  TRI_TRY(append_compute(b, turn, in_buffer, out_buffer));
  if (takes) TRI_TRY(post_next(b, in_kind));
  if (makes) TRI_TRY(append(b, of_message(TRI_SEND, out_kind, out_buffer, out)));
  int64_t bucket = b->postponed;
  b->postponed = -1;
  return bucket < 0 ? TRI_OK : reduce_bucket(b, bucket);
}

/* Appends all turns. The first receives are posted before the first turn, and the last sends are awaited after the last
 * turn. */
static tri_status append_turns(building *b) {
  size_t turns = (size_t)b->turns->count + 1;
  TRI_TRY(tri_alloc("a step program", turns, sizeof *b->program->turn_first, &b->program->turn_first));
  TRI_TRY(list_coming(b));
  for (int64_t i = 0; i < b->stage_buffers; i++) {
    TRI_TRY(post_next(b, TRI_STAGE_BUFFER_ACTIVATION_IN));
    TRI_TRY(post_next(b, TRI_STAGE_BUFFER_GRADIENT_IN));
  }
  for (int64_t i = 0; i < b->turns->count; i++) {
    const tri_turn *turn = &b->turns->turns[i];
    if (b->request->forward_only && turn->kind != TRI_TURN_FORWARD) continue;
    b->program->turn_first[b->program->num_turns++] = b->program->num_instructions;
    TRI_TRY(append_turn(b, turn));
  }
  b->program->turn_first[b->program->num_turns] = b->program->num_instructions;
  for (int kind = 0; kind < TRI_NUM_STAGE_BUFFER_KINDS; kind++) {
    int64_t first = b->sent[kind] > b->stage_buffers ? b->sent[kind] - b->stage_buffers : 0;
    for (int64_t i = first; i < b->sent[kind]; i++) {
      TRI_TRY(append(
          b, of_message(TRI_WAIT_SENT, (tri_stage_buffer_kind)kind, i % b->stage_buffers, (tri_message){-1, -1})));
    }
  }
  return TRI_OK;
}

/* ---- the whole step ---------------------------------------------------------------------------------------------- */

/* Appends the sum of tied gradients, the reductions of all buckets that the backward has not reduced already, and the
 * waits for all reductions. */
static tri_status append_reductions(building *b) {
  const tri_program_request *request = b->request;
  const tri_buckets *buckets = request->buckets;
  if (request->tied_pair) TRI_TRY(append_kind(b, TRI_SUM_TIED));
  for (int64_t k = 0; k < buckets->count; k++) {
    const tri_bucket *bucket = &buckets->entries[k];
    if (b->reduced[k] || !tri_bucket_is_trained(bucket)) continue;
    if (bucket->partial) TRI_TRY(append_bucket(b, TRI_SUM_PARTIAL, k));
    if (bucket->ranks > 1) TRI_TRY(append_bucket(b, TRI_REDUCE, k));
  }
  for (int64_t k = 0; k < buckets->count; k++) {
    const bool is_reduced = buckets->entries[k].ranks > 1 && tri_bucket_is_trained(&buckets->entries[k]);
    if (is_reduced && !b->waited[k]) TRI_TRY(append_bucket(b, TRI_WAIT_REDUCED, k));
  }
  return TRI_OK;
}

/* Appends the gathers of updated parameters, and the waits for them, except for buckets that are gathered before each
 * use. Appends nothing without ZeRO. */
static tri_status append_gathers(building *b) {
  const tri_buckets *buckets = b->request->buckets;
  if (b->request->layout->zero == 0) return TRI_OK;
  for (int w = 0; w < 2; w++) {
    for (int64_t k = 0; k < buckets->count; k++) {
      const tri_bucket *bucket = &buckets->entries[k];
      if (bucket->ranks == 1 || bucket->values_sharded || !tri_bucket_is_trained(bucket)) continue;
      TRI_TRY(append_bucket(b, w == 0 ? TRI_GATHER : TRI_WAIT_GATHERED, k));
    }
  }
  return TRI_OK;
}

/* Appends the end of the step: reduce, clip, update, gather. */
static tri_status append_end(building *b) {
  TRI_TRY(append_reductions(b));
  TRI_TRY(append_kind(b, TRI_CLIP));
  TRI_TRY(append_kind(b, TRI_UPDATE));
  return append_gathers(b);
}

/* Returns the index of the update, or num_instructions if the program has none. No earlier instruction changes a
 * parameter. */
static int64_t find_update(const tri_program *program) {
  int64_t i = program->reduce_first;
  while (i < program->num_instructions && program->instructions[i].kind != TRI_UPDATE) i++;
  return i;
}

static tri_status append_step(building *b) {
  const tri_program_request *request = b->request;
  if (!request->forward_only) {
    for (int64_t m = 0; m < request->micro_batches; m++) {
      tri_instruction load = blank(TRI_LOAD);
      load.micro_batch = (int32_t)m;
      TRI_TRY(append(b, load));
    }
    TRI_TRY(append_kind(b, TRI_COUNT_LABELS));
  }
  TRI_TRY(append_kind(b, TRI_PREPARE));
  TRI_TRY(append_turns(b));
  b->program->reduce_first = b->program->num_instructions;
  if (request->buckets != NULL && !request->forward_only) TRI_TRY(append_end(b));
  b->program->update_first = find_update(b->program);
  return TRI_OK;
}

/* Assigns frames. Each forward gets the lowest frame of its chunk that is free; the last backward of the micro-batch
 * frees the frame. */
static tri_status assign_frames(tri_program *program, bool forward_only) {
  int64_t n = program->num_micro_batches;
  int32_t *frame_of = NULL;
  bool *taken = NULL;
  tri_status status = TRI_OK;
  size_t places = (size_t)(program->num_chunks * n);
  TRI_TRY(tri_alloc("frames", (size_t)program->num_chunks, sizeof *program->num_frames, &program->num_frames));
  TRI_TRY_GOTO(tri_alloc("frames", places, sizeof *frame_of, &frame_of), done);
  TRI_TRY_GOTO(tri_alloc("frames", places, sizeof *taken, &taken), done);
  for (int64_t i = 0; i < program->num_instructions; i++) {
    tri_instruction *at = &program->instructions[i];
    bool last = at->kind == TRI_BACKWARD || at->kind == TRI_BACKWARD_WEIGHT;
    if (at->kind != TRI_FORWARD && at->kind != TRI_BACKWARD_INPUT && !last) continue;
    bool *chunk_taken = taken + at->chunk * n;
    int32_t *frame = &frame_of[at->chunk * n + at->micro_batch];
    if (at->kind == TRI_FORWARD && at->first_call <= 0) {
      *frame = 0;
      while (chunk_taken[*frame]) (*frame)++;
      chunk_taken[*frame] = !forward_only;
      if (*frame + 1 > program->num_frames[at->chunk]) program->num_frames[at->chunk] = *frame + 1;
    }
    at->frame = *frame;
    if (last && at->first_call <= 0) chunk_taken[*frame] = false;
  }
done:
  tri_free(taken);
  tri_free(frame_of);
  return status;
}

/* Returns the number of stage buffers of each kind. Two are enough without virtual stages: one is filled while the
 * other is used. The interleaved schedule needs more, because a group travels around the whole ring before its first
 * message is consumed. An evaluation sends one micro-batch after the other, through the same stage buffers as
 * training steps. `period`: tri_schedule_period. */
static int64_t stage_buffers_for(const tri_layout *layout, int64_t period) {
  if (layout->virtual_stages == 1) return 2;
  return (period > layout->pipeline ? period : layout->pipeline) + 1;
}

int64_t tri_program_stage_buffers(const tri_program_request *request) {
  const tri_layout *layout = request->layout;
  if (request->forward_only) return stage_buffers_for(layout, layout->pipeline);
  return stage_buffers_for(layout, tri_schedule_period(layout, request->micro_batches));
}

static tri_status build(const tri_program_request *request, const tri_turns *turns, tri_program *program) {
  building b = {.request = request, .program = program, .turns = turns, .postponed = -1};
  b.stage_buffers = tri_program_stage_buffers(request);
  size_t buckets = request->buckets == NULL ? 0 : (size_t)request->buckets->count;
  TRI_TRY(tri_alloc("a step program", 2 * buckets + 1, sizeof *b.reduced, &b.reduced));
  b.waited = b.reduced + buckets;
  tri_status status = append_step(&b);
  tri_free(b.reduced);
  for (int kind = 0; kind < TRI_NUM_STAGE_BUFFER_KINDS; kind++) {
    program->stage_buffers[kind] = b.num_coming[kind] > 0 || b.sent[kind] > 0 ? b.stage_buffers : 0;
    tri_free(b.coming[kind]);
  }
  TRI_TRY(status);
  return assign_frames(program, request->forward_only);
}

/* Makes the turns of an evaluation, forwards only. A micro-batch returns to a stage after it has passed the others, so
 * groups of `pipeline` micro-batches pass through one chunk after the other, and no stage waits; the last group may be
 * smaller. */
static tri_status forward_turns(const tri_program_request *request, tri_turns *out) {
  const int64_t group = request->layout->pipeline, all = request->micro_batches;
  for (int64_t first = 0; first < all; first += group) {
    for (int64_t c = 0; c < request->layout->virtual_stages; c++) {
      for (int64_t m = first; m < all && m < first + group; m++)
        TRI_TRY(tri_turns_append(out, (tri_turn){TRI_TURN_FORWARD, (int32_t)m, (int32_t)c}));
    }
  }
  return TRI_OK;
}

tri_status tri_program_turns(const tri_program_request *request, tri_turns *out) {
  const tri_schedule *schedule = tri_schedule_of(request->layout->schedule);
  const tri_schedule_shape shape = tri_schedule_shape_of(request->layout, request->micro_batches);
  if (request->forward_only) return forward_turns(request, out);
  TRI_TRY(schedule->check(&shape));
  return schedule->turns(&shape, request->stage, out);
}

tri_status tri_program_create(const tri_program_request *request, tri_program **out) {
  const tri_layout *layout = request->layout;
  tri_program *program = NULL;
  tri_turns turns = {0};
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("a step program", 1, sizeof *program, &program));
  program->num_micro_batches = request->micro_batches;
  program->num_chunks = layout->virtual_stages;
  program->split_backward = tri_schedule_of(layout->schedule)->split_backward;
  TRI_TRY_GOTO(tri_program_turns(request, &turns), done);
  TRI_TRY_GOTO(build(request, &turns, program), done);
  *out = program;
  program = NULL;
done:
  tri_free(turns.turns);
  tri_program_destroy(program);
  return status;
}

void tri_program_destroy(tri_program *program) {
  if (program == NULL) return;
  tri_free(program->turn_first);
  tri_free(program->num_frames);
  tri_free(program->instructions);
  tri_free(program);
}
