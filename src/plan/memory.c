/* Bytes of one rank of a stage. Trireme's own are the engine's plan. Another system's are counted: weights, gradients
 * and states by what a parameter takes, activations by the plan of the same operations. */
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "plan/simulate.h"
#include "schedule/schedule.h"

/* A schedule has all its micro-batches in flight long before so many, unless it keeps them all. The last of them are as
 * many as in the whole step. */
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

static double parameters_of(const tri_parts *parts) {
  double count = 0;
  for (int64_t i = 0; i < parts->table->num_entries; i++) {
    if (!parts->table->entries[i].alias) count += (double)parts->table->entries[i].count;
  }
  return count;
}

/* Of the tied embedding on this rank. */
static double tied_of(const tri_parts *parts) {
  double count = 0;
  for (int64_t i = 0; i < parts->table->num_entries; i++) {
    const tri_parameter *entry = &parts->table->entries[i];
    if (entry->tied_to < 0) continue;
    double other = (double)parts->table->entries[entry->tied_to].count;
    count += entry->count > 0 ? (double)entry->count : other;
  }
  return count;
}

static int64_t most_in_flight(const tri_parts *parts) {
  int64_t frames = 0;
  for (int64_t c = 0; c < parts->program->num_chunks; c++) frames += parts->program->num_frames[c];
  return frames;
}

/* Of a device with memory of its own, what lies in the host's takes none. */
static size_t counted_bytes(const tri_simulation_request *request, const tri_memory_plan *plan) {
  if (request->device != NULL) return plan->total_bytes; /* of the machine at hand, whose memory it shares */
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

static tri_memory_parts of_system(const tri_simulation_request *request, int64_t stage, const tri_parts *parts,
                                  const tri_memory_plan *plan) {
  const tri_system *system = request->system;
  const tri_layout *layout = request->layout;
  double count = parameters_of(parts), tied = tied_of(parts), data = (double)layout->data;
  double tensor = (double)layout->tensor, rows = (double)layout->micro_batch * (double)request->sequence;
  double element = (double)tri_dtype_bytes(request->precision), hidden = (double)request->model->hidden_size;
  bool last = stage == layout->pipeline - 1;
  if (system->copies_positions && last && layout->pipeline > 1) {
    count += (double)request->model->max_sequence * hidden;
    tied += (double)request->model->max_sequence * hidden;
  }
  tri_memory_parts out = {
      .parameters = system->weight_bytes * count / (layout->zero > 2 ? data : 1),
      .gradients = system->gradient_bytes * count / (layout->zero > 1 ? data : 1),
      .optimizer = system->state_bytes * count / (layout->zero > 0 ? data : 1),
      .activations = (double)(plan->activation_bytes + plan->transient_bytes),
      .buffers = system->context_bytes,
  };
  if (system->keeps_messages && stage > 0) {
    out.activations += (double)most_in_flight(parts) * rows * hidden * element / tensor;
  }
  bool shrink = system->whole_gradients && layout->zero > 0;
  double gradients = shrink ? system->gradient_bytes * count / data : out.gradients;
  if (shrink && system->whole_tied_gradients) gradients += system->gradient_bytes * tied * (1 - 1 / data);
  if (system->keeps_logits && last) {
    out.buffers += rows * (double)request->model->vocab_size / tensor * (element + 8);
  }
  out.steady = out.parameters + gradients + out.optimizer + out.buffers;
  out.buffers += system->bucket_bytes;
  out.peak = out.parameters + out.gradients + out.optimizer + out.activations + out.buffers;
  return out;
}

tri_status tri_predict_memory(const tri_simulation_request *request, int64_t stage, tri_memory_parts *out) {
  tri_parts parts = {0};
  tri_memory_plan *plan = NULL;
  tri_status status = TRI_OK;
  int64_t micro_batches = tri_layout_micro_batches(request->layout, request->global_batch);
  tri_layout layout = tri_schedule_settle(request->layout, micro_batches);
  tri_parts_request of = {.model = request->model,
                          .layout = &layout,
                          .micro_batches = enough_micro_batches(request->layout, micro_batches),
                          .sequence = request->sequence,
                          .precision = request->precision,
                          .masked = request->masked,
                          .masked_area = request->masked_area};
  tri_mesh_place place = {{0}};
  place.at[TRI_AXIS_PIPELINE] = (int)stage;
  TRI_TRY_GOTO(tri_parts_create(&of, &place, &parts), done);
  of.micro_batches = micro_batches;
  tri_memory_request memory = tri_parts_memory(&of, &parts);
  bool planned =
      request->system->planned; /* of others' systems the operations' tensors alone are taken from the plan */
  if (planned) memory.device = request->device != NULL ? request->device : tri_cluster_description(request->cluster);
  memory.staging_bytes = TRI_CHECKPOINT_BUFFER_BYTES; /* as the engine's */
  TRI_TRY_GOTO(tri_memory_plan_create(&memory, &plan), done);
  *out = planned ? of_plan(request, plan) : of_system(request, stage, &parts, plan);
done:
  tri_memory_plan_destroy(plan);
  tri_parts_destroy(&parts);
  return status;
}

/* Earlier stages have more micro-batches in flight, so of neighbours with as many layers the first is the fullest. */
static bool may_be_fullest(const tri_simulation_request *request, int64_t stage) {
  const tri_layout *layout = request->layout;
  if (stage <= 1 || stage == layout->pipeline - 1) return true;
  for (int64_t c = 0; c < layout->virtual_stages; c++) {
    tri_layer_range mine = tri_layout_layers(layout, request->model, c * layout->pipeline + stage);
    tri_layer_range before = tri_layout_layers(layout, request->model, c * layout->pipeline + stage - 1);
    if (mine.end - mine.first > before.end - before.first) return true;
  }
  return false;
}

tri_status tri_predict_fullest(const tri_simulation_request *request, int64_t *stage, tri_memory_parts *out) {
  tri_memory_parts fullest = {.peak = -1};
  int64_t where = 0;
  for (int64_t s = 0; s < request->layout->pipeline; s++) {
    tri_memory_parts here;
    if (!may_be_fullest(request, s)) continue;
    TRI_TRY(tri_predict_memory(request, s, &here));
    if (here.peak <= fullest.peak) continue;
    fullest = here;
    where = s;
  }
  if (stage != NULL) *stage = where;
  *out = fullest;
  return TRI_OK;
}

double tri_model_num_parameters(const tri_model *model) {
  tri_parameter_table *table = NULL;
  if (tri_parameter_table_create(model, NULL, &table) != TRI_OK) return 0;
  double count = (double)table->num_values;
  tri_parameter_table_destroy(table);
  return count;
}
