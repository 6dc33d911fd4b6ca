/* Predicts the memory of one rank of a stage. For this program, the prediction is the engine's memory plan. For another
 * system, weights, gradients and optimizer states are counted by its bytes per parameter (system.h), and activations
 * come from a memory plan of the same operations. */
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "model/layer_kind.h"
#include "plan/call_price.h"
#include "plan/simulate.h"
#include "plan/stages.h"
#include "schedule/memory_plan.h"
#include "schedule/parts.h"
#include "schedule/schedule.h"

/* Returns a number of micro-batches that is large enough for as many to be in flight as in the whole step, so that a
 * shorter program can be planned: all with GPipe, else a few periods. The last group of micro-batches
 * (tri_schedule_period) has the same size as in the whole step. */
static int64_t enough_micro_batches(const tri_layout *layout, int64_t micro_batches) {
  int64_t period = tri_schedule_period(layout, micro_batches), few = 4 * layout->pipeline * layout->virtual_stages;
  if (few < 3 * period) few = 3 * period;
  if (micro_batches > few) few += (micro_batches - few) % period;
  switch (layout->schedule) {
    case TRI_SCHEDULE_GPIPE: return micro_batches;
    case TRI_SCHEDULE_1F1B:
    case TRI_SCHEDULE_INTERLEAVED:
    case TRI_SCHEDULE_ZERO_BUBBLE: break;
  }
  return micro_batches < few + period ? micro_batches : few;
}

/* Numbers of parameters on this rank: all of them, and those in its shard if the replicas share them (shared_out).
 * Experts and the rest of the model have different numbers of replicas. */
typedef struct held_elements {
  double all, shared_out;           /* numbers of trained parameters */
  double frozen, frozen_shared_out; /* numbers of frozen parameters */
} held_elements;

static held_elements parameters_of(const tri_parts *parts, const tri_mesh_shape *shape) {
  held_elements sum = {0};
  for (int64_t i = 0; i < parts->table->num_entries; i++) {
    const tri_parameter *entry = &parts->table->entries[i];
    if (entry->alias) continue;
    const double count = (double)entry->count, part = count / (double)tri_domain_size(shape, entry->placement.replicas);
    *(entry->frozen ? &sum.frozen : &sum.all) += count;
    *(entry->frozen ? &sum.frozen_shared_out : &sum.shared_out) += part;
  }
  return sum;
}

/* Returns the number of parameters of a tied embedding on this rank, which may have the embedding, the copy for the
 * head, or both. */
static double tied_of(const tri_parts *parts) {
  double count = 0;
  for (int64_t i = 0; i < parts->table->num_entries; i++) {
    const tri_parameter *entry = &parts->table->entries[i];
    if (entry->tied_to < 0 || entry->frozen) continue;
    double other = (double)parts->table->entries[entry->tied_to].count;
    count += entry->count > 0 ? (double)entry->count : other;
  }
  return count;
}

/* Returns the bytes that count as needed on a device. For an accelerator of the cluster these are the bytes in its
 * own memory. For CPUs, and for request->device (a device of this machine), the bytes in the memory of the host
 * count as well. */
static size_t counted_bytes(const tri_simulation_request *request, const tri_memory_plan *plan) {
  if (request->device != NULL) return plan->total_bytes;
  switch (request->cluster->device) {
    case TRI_CLUSTER_ACCELERATOR: return plan->device_bytes;
    case TRI_CLUSTER_CPU: return plan->total_bytes;
  }
  return plan->total_bytes;
}

static tri_memory_parts of_plan(const tri_simulation_request *request, const tri_memory_plan *plan) {
  tri_memory_parts parts = {
      .parameters = (double)(plan->parameter_bytes + plan->buffer_bytes),
      .gradients = (double)plan->gradient_bytes,
      .optimizer = (double)plan->optimizer_bytes,
      .activations = (double)(plan->activation_bytes + plan->transient_bytes),
      .peak = (double)counted_bytes(request, plan),
  };
  parts.buffers = parts.peak - parts.parameters - parts.gradients - parts.optimizer - parts.activations;
  parts.steady = parts.peak - parts.activations;
  return parts;
}

/* Returns the bytes that attention with stored scores keeps of a micro-batch, as in Korthikanti et al. (arXiv
 * 2205.05198, equation 1): for each score the result of the softmax, the dropout mask of one byte, the result of
 * dropout, and with a soft cap its tanh. The backward of a layer also stores the gradients of the two results. If
 * attention is recomputed, only the layer in progress stores all this. Raises *transfer to the bytes that only the
 * layer in progress stores. */
static double score_bytes(const tri_simulation_request *request, const tri_op_call *call, const tri_cost *cost,
                          double *transfer) {
  const tri_layout *layout = request->layout;
  double element = (double)tri_dtype_bytes(request->precision), square = cost->rows * cost->columns * cost->products;
  double stay = square * (2 * element + 1 + (cost->capped > 0 ? element : 0));
  bool stays = false;
  if (request->system->flash_attention || cost->scores <= 0) return 0;
  switch (layout->recompute) {
    case TRI_RECOMPUTE_NONE:
    case TRI_RECOMPUTE_EXPERTS: stays = true; break;
    case TRI_RECOMPUTE_SELECTIVE: stays = !request->system->selective_attention; break;
    case TRI_RECOMPUTE_FULL: stays = call->layer % layout->recompute_every != 0; break;
  }
  double now = square * 2 * element + (stays ? 0 : stay);
  if (now > *transfer) *transfer = now;
  return stays ? stay : 0;
}

/* Returns the bytes of gathered rows that the memory plan counts as kept, but that the system gathers again in the
 * backward. Only the layer in progress stores these bytes: raises *transfer to them. */
static double gathered_bytes(const tri_simulation_request *request, const tri_op_list *list, const tri_op_call *call,
                             double *transfer) {
  if (!tri_price_gathers_again(request->system, list, call)) return 0;
  const tri_slot *slot = &list->slots[call->outputs[0]];
  if (!slot->kept || list->slots[slot->memory_of].recomputed) return 0;
  double bytes = (double)tri_shape_bytes(&slot->shape);
  if (bytes > *transfer) *transfer = bytes;
  return bytes;
}

/* Corrects frames[chunks], the planned bytes of a micro-batch in flight in each chunk, for the system: adds stored
 * scores, and subtracts gathered rows and offloaded activations. Returns the additional bytes of the layer in
 * progress. */
static double add_to_frames(const tri_simulation_request *request, const tri_parts *parts, double *frames) {
  const double share = request->system->offload_activations;
  double scores = 0, gathered = 0, at_work = 0;
  for (int64_t c = 0; c < parts->num_chunks; c++) {
    const tri_op_list *list = parts->lists[c];
    for (int64_t i = 0; i < list->num_calls; i++) {
      const tri_op_call *call = &list->calls[i];
      tri_cost cost = {0};
      tri_op_cost(call, TRI_PASS_FORWARD, &cost);
      frames[c] += score_bytes(request, call, &cost, &scores);
      frames[c] -= gathered_bytes(request, list, call, &gathered);
      if (share <= 0 || !call->recomputable || tri_op_list_layer(list, i).end != i + 1) continue;
      const double moved = share * tri_price_kept_bytes(request->system, list, i);
      frames[c] -= moved;
      if (moved > at_work) at_work = moved;
    }
  }
  return scores + gathered + 2 * at_work; /* twice: of the layer that computes, and of the one in transfer */
}

/* Computes the largest sum of frames[chunk] over all micro-batches in flight. A micro-batch is in flight in a chunk
 * from its first instruction to its last one. The engine instead allocates each chunk's own maximum of frames. These
 * maxima do not occur at the same time, so a system with a caching allocator needs less. */
static tri_status most_in_flight(const tri_parts *parts, const double *frames, double *out) {
  const tri_program *program = parts->program;
  int64_t *last = NULL, count = program->num_chunks * program->num_micro_batches;
  double held = 0, most = 0;
  TRI_TRY(tri_alloc("micro-batches in flight", (size_t)count, sizeof *last, &last));
  for (int64_t i = 0; i < program->num_instructions; i++) {
    const tri_instruction *in = &program->instructions[i];
    if (in->frame >= 0) last[in->chunk * program->num_micro_batches + in->micro_batch] = i + 1;
  }
  for (int64_t i = 0; i < program->num_instructions; i++) {
    const tri_instruction *in = &program->instructions[i];
    if (in->frame < 0) continue;
    int64_t *end = &last[in->chunk * program->num_micro_batches + in->micro_batch];
    if (*end > 0) { /* the first instruction of the micro-batch; *end becomes negative */
      held += frames[in->chunk];
      *end = -*end;
    }
    if (held > most) most = held;
    if (-*end == i + 1) held -= frames[in->chunk];
  }
  tri_free(last);
  *out = most;
  return TRI_OK;
}

/* Computes the bytes of activations of a system other than this program: of the micro-batches in flight, with their
 * received messages if the system keeps these, and of the layer in progress. */
static tri_status activations_of(const tri_simulation_request *request, int64_t stage, const tri_parts *parts,
                                 const tri_memory_plan *plan, double *out) {
  double *frames = NULL, most = 0;
  double rows = (double)(request->layout->micro_batch * tri_layout_tokens(request->layout, request->sequence));
  double message = rows * (double)request->model->hidden_size * (double)tri_dtype_bytes(request->precision);
  const tri_mesh_shape shape = tri_layout_mesh(request->layout);
  const double holders = (double)tri_domain_size(&shape, TRI_DOMAIN_TENSOR);
  TRI_TRY(tri_alloc("bytes of micro-batches", (size_t)parts->num_chunks, sizeof *frames, &frames));
  for (int64_t c = 0; c < parts->num_chunks; c++) {
    frames[c] = (double)plan->chunks[c].frame_bytes;
    if (request->system->keeps_messages && stage > 0) frames[c] += message / holders;
  }
  double transfer = add_to_frames(request, parts, frames);
  tri_status status = most_in_flight(parts, frames, &most);
  tri_free(frames);
  *out = most + transfer + (double)plan->transient_bytes;
  return status;
}

/* Returns the number of communicators of a rank: the world; one along each axis with several ranks; with tensor and
 * pipeline parallelism, one for the gradient norm; with expert parallelism, one for the exchange of rows, and one
 * for the replicas of experts if there are several. In NCCL and RCCL each has buffers of its own. */
static double communicators_of(const tri_mesh_shape *shape) {
  bool model = tri_domain_size(shape, TRI_DOMAIN_TENSOR) > 1 && tri_domain_size(shape, TRI_DOMAIN_PIPELINE) > 1;
  double count = model ? 2 : 1;
  for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) count += shape->size[axis] > 1;
  if (tri_domain_size(shape, TRI_DOMAIN_EXPERT) == 1) return count;
  return count + (tri_domain_size(shape, TRI_DOMAIN_EXPERT_REPLICAS) > 1 ? 2 : 1);
}

static tri_memory_parts of_system(const tri_simulation_request *request, int64_t stage, const tri_parts *parts,
                                  double activations) {
  const tri_system *system = request->system;
  const tri_layout *layout = request->layout;
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  double replicas = (double)tri_domain_size(&shape, TRI_DOMAIN_REPLICAS), tied = tied_of(parts);
  held_elements count = parameters_of(parts, &shape);
  double tensor = (double)tri_domain_size(&shape, TRI_DOMAIN_TENSOR),
         rows = (double)(layout->micro_batch * tri_layout_tokens(layout, request->sequence));
  double element = (double)tri_dtype_bytes(request->precision), hidden = (double)request->model->hidden_size;
  bool last = stage == layout->pipeline - 1;
  const bool one = tri_layout_micro_batches(layout, request->global_batch) == 1;
  const bool sharded = layout->zero > 1 && (one || tri_system_reduces_each(system, layout->zero));
  if (system->copies_positions && last && layout->pipeline > 1) {
    count.all += (double)request->model->max_sequence * hidden;
    count.shared_out += (double)request->model->max_sequence * hidden / replicas;
    tied += (double)request->model->max_sequence * hidden;
  }
  tri_memory_parts out = {
      .parameters = system->weight_bytes * (layout->zero > 2 ? count.shared_out : count.all) +
                    element * (layout->zero > 2 ? count.frozen_shared_out : count.frozen),
      .gradients = system->gradient_bytes * (sharded ? count.shared_out : count.all),
      .optimizer = system->state_bytes * (layout->zero > 0 ? count.shared_out : count.all),
      .activations = activations,
  };
  bool shrink = system->whole_gradients && layout->zero > 0;
  double gradients = shrink ? system->gradient_bytes * count.shared_out : out.gradients;
  if (shrink && system->whole_tied_gradients) gradients += system->gradient_bytes * tied * (1 - 1 / replicas);
  if (system->keeps_logits && last) {
    out.buffers += rows * (double)request->model->vocab_size / tensor * (element + 8);
  }
  double outside = system->context_bytes;
  if (tri_layout_ranks(layout) > 1) outside += communicators_of(&shape) * system->communicator_bytes;
  out.steady = out.parameters + gradients + out.optimizer + out.buffers + outside;
  out.buffers += system->bucket_bytes;
  double tensors = out.parameters + out.gradients + out.optimizer + out.activations + out.buffers;
  out.buffers += outside + system->fragments * tensors;
  out.peak = out.parameters + out.gradients + out.optimizer + out.activations + out.buffers;
  return out;
}

/* Predicts the memory of a stage from its parts, without a program. */
static tri_status predict_from(const tri_simulation_request *request, int64_t stage, const tri_parts *given,
                               tri_memory_parts *out) {
  tri_parts parts = *given;
  tri_memory_plan *plan = NULL;
  double activations = 0;
  tri_status status = TRI_OK;
  int64_t micro_batches = tri_layout_micro_batches(request->layout, request->global_batch);
  const tri_layout settled = tri_schedule_settle(request->layout, micro_batches);
  const tri_layout layout = tri_system_listed(request->system, &settled);
  const tri_parts_request of = tri_stages_parts(request, &layout, micro_batches);
  TRI_TRY(tri_parts_create_program(&parts, &layout, stage, enough_micro_batches(request->layout, micro_batches),
                                   &parts.program));
  tri_memory_request memory = tri_parts_memory(&of, &parts);
  bool planned = request->system->planned; /* the plan for another system has only the tensors of operations */
  if (planned) memory.device = request->device != NULL ? request->device : tri_cluster_description(request->cluster);
  memory.staging_bytes = TRI_CHECKPOINT_BUFFER_BYTES; /* the engine reserves as many bytes for saves */
  TRI_TRY_GOTO(tri_memory_plan_create(&memory, &plan), done);
  if (planned) {
    *out = of_plan(request, plan);
  } else {
    TRI_TRY_GOTO(activations_of(request, stage, &parts, plan, &activations), done);
    *out = of_system(request, stage, &parts, activations);
  }
done:
  tri_memory_plan_destroy(plan);
  tri_program_destroy(parts.program);
  return status;
}

tri_status tri_predict_memory(const tri_simulation_request *request, int64_t stage, tri_memory_parts *out) {
  tri_parts parts = {0};
  const tri_layout layout = tri_system_listed(request->system, request->layout);
  tri_parts_request of =
      tri_stages_parts(request, &layout, tri_layout_micro_batches(request->layout, request->global_batch));
  const tri_mesh_coordinates place = tri_layout_fullest(&layout, request->sequence, stage);
  of.without_program = true;
  TRI_TRY(tri_parts_create(&of, &place, &parts));
  const tri_status status = predict_from(request, stage, &parts, out);
  tri_parts_destroy(&parts);
  return status;
}

/* Returns whether a range of layers has more layers of any kind than another range. */
static bool has_more(const tri_model *model, tri_layer_range range, tri_layer_range other) {
  int64_t more[TRI_LAYER_KINDS] = {0};
  for (int64_t layer = other.first; layer < other.end; layer++) more[tri_model_layer_kind(model, layer)]--;
  for (int64_t layer = range.first; layer < range.end; layer++) {
    if (++more[tri_model_layer_kind(model, layer)] > 0) return true;
  }
  return false;
}

/* Returns whether a stage may need the most memory. Earlier stages have more micro-batches in flight, so a stage cannot
 * need the most if the stage before it has at least as many layers of each kind in each chunk. Kinds count separately,
 * because their bytes differ: a layer with a window may have a table of rotary angles of its own
 * (model.local_rope_theta), for example.
 *
 * Stages 0 (with the embedding), 1 (the first without it) and the last (with the head) may always be the fullest. Any
 * stage may be the fullest if layers of one kind may train differently, or with `recompute_every`, since stages with
 * equally many layers may recompute different numbers of them. */
static bool may_be_fullest(const tri_simulation_request *request, int64_t stage) {
  const tri_layout *layout = request->layout;
  if (stage <= 1 || stage == layout->pipeline - 1) return true;
  if (tri_trainable_distinguishes_layers(&request->model->tuning)) return true;
  if (layout->recompute == TRI_RECOMPUTE_FULL && layout->recompute_every > 1) return true;
  for (int64_t c = 0; c < layout->virtual_stages; c++) {
    tri_layer_range mine = tri_layout_layers(layout, request->model, c * layout->pipeline + stage);
    tri_layer_range before = tri_layout_layers(layout, request->model, c * layout->pipeline + stage - 1);
    if (has_more(request->model, mine, before)) return true;
  }
  return false;
}

/* Finds the fullest stage. stages: stages of the request, whose parts are used; NULL: the parts are created. Begins
 * with stage 1, which most often is the first that does not fit. */
static tri_status find_fullest(const tri_simulation_request *request, const tri_stages *stages, double room,
                               int64_t *stage, tri_memory_parts *out) {
  const int64_t count = request->layout->pipeline;
  tri_memory_parts fullest = {.peak = -1};
  int64_t where = 0;
  for (int64_t i = 0; i < count && fullest.peak <= room; i++) {
    const int64_t s = i < 2 && count > 2 ? 1 - i : i;
    tri_memory_parts here;
    if (!may_be_fullest(request, s)) continue;
    TRI_TRY(stages != NULL ? predict_from(request, s, &stages->kinds[stages->kind_of[s]].parts, &here)
                           : tri_predict_memory(request, s, &here));
    if (here.peak < fullest.peak || (here.peak == fullest.peak && s > where)) continue;
    fullest = here;
    where = s;
  }
  if (stage != NULL) *stage = where;
  *out = fullest;
  return TRI_OK;
}

tri_status tri_predict_fullest(const tri_simulation_request *request, double room, int64_t *stage,
                               tri_memory_parts *out) {
  return find_fullest(request, NULL, room, stage, out);
}

tri_status tri_stages_predict_fullest(const tri_stages *stages, double room, int64_t *stage, tri_memory_parts *out) {
  return find_fullest(stages->request, stages, room, stage, out);
}
