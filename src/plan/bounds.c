#include "plan/bounds.h"

#include "base/memory.h"
#include "model/family.h"
#include "schedule/program.h"

/* Of one micro-batch: a layer, the embedding, the head. Seconds include the collectives of the tensor group. */
typedef struct unit_price {
  double forward, backward, backward_input; /* seconds; what runs again is in both backwards, */
  double again;                             /* and is this, for schedules that do it for either */
  double kept;                              /* bytes from the forward to the backward */
} unit_price;

typedef struct layer_prices {
  int64_t tensor, micro_batch;
  tri_recompute recompute;
  bool sequence_parallel;
  unit_price embedding, layer, head;
} layer_prices;

/* Elements on one rank, by the number of tensor ranks. */
typedef struct layer_sizes {
  int64_t tensor;
  double embedding, tied, layer, head;
} layer_sizes;

struct tri_bounds {
  const tri_search_request *request;
  layer_prices *prices;
  int64_t num_prices, room;
  layer_sizes *sizes;
  int64_t num_sizes;
};

enum { MOST_SIZES = 64 };

tri_status tri_bounds_create(const tri_search_request *request, tri_bounds **out) {
  tri_bounds *bounds = NULL;
  TRI_TRY(tri_alloc("bounds", 1, sizeof *bounds, &bounds));
  bounds->request = request;
  tri_status status = tri_alloc("bounds", MOST_SIZES, sizeof *bounds->sizes, &bounds->sizes);
  if (status != TRI_OK) {
    tri_bounds_destroy(bounds);
    return status;
  }
  *out = bounds;
  return TRI_OK;
}

void tri_bounds_destroy(tri_bounds *bounds) {
  if (bounds == NULL) return;
  tri_free(bounds->sizes);
  tri_free(bounds->prices);
  tri_free(bounds);
}

/* ---- one layer --------------------------------------------------------------------------------------------------- */

static double seconds(tri_price price) { return price.compute_s + price.tensor_s; }

/* Whether a backward reads the memory of a slot, under any name. */
static bool is_kept(const tri_op_list *list, int64_t root) {
  for (int64_t s = root; s < list->num_slots; s++) {
    if (list->slots[s].memory_of == root && list->slots[s].kept) return true;
  }
  return false;
}

/* A whole sequence from the tensor ranks' slices, which not every system keeps. */
static bool is_gathered(const tri_op_call *call) {
  tri_cost cost = {0};
  call->op->cost(call, TRI_PASS_FORWARD, &cost);
  return cost.collective == TRI_COLLECTIVE_ALL_GATHER;
}

/* Adds the calls of one layer to a unit. */
static void add_calls(const tri_search_request *request, const layer_prices *of, const tri_op_list *list, int64_t layer,
                      unit_price *unit) {
  tri_span tensor = {of->tensor, 1};
  const tri_layout as = {.recompute = of->recompute, .recompute_every = 1};
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    if (call->layer != layer || call->op->passes_messages) continue;
    double forward = seconds(tri_price_pass(request->cluster, request->system, call, TRI_PASS_FORWARD, tensor));
    double input = 0, weight = 0, again = tri_price_runs_again(request->system, &as, call) ? forward : 0;
    if (call->op->backward_input != NULL) {
      input = seconds(tri_price_pass(request->cluster, request->system, call, TRI_PASS_BACKWARD_INPUT, tensor));
    }
    if (call->op->backward_weight != NULL) {
      weight = seconds(tri_price_pass(request->cluster, request->system, call, TRI_PASS_BACKWARD_WEIGHT, tensor));
    }
    unit->forward += forward;
    unit->backward += input + weight + again;
    unit->backward_input += input + again;
    unit->again += again;
  }
  for (int64_t s = 0; s < list->num_slots; s++) {
    const tri_slot *slot = &list->slots[s];
    bool mine = slot->memory_of == s && list->calls[slot->producer].layer == layer && !slot->recomputed;
    if (request->system->gathers_again && is_gathered(&list->calls[slot->producer])) continue;
    if (mine && is_kept(list, s)) unit->kept += (double)tri_shape_bytes(&slot->shape);
  }
}

static tri_status price(const tri_search_request *request, layer_prices *of) {
  const tri_model *model = request->model;
  tri_list_request list_request =
      tri_list_request_whole(model, TRI_LIST_TRAIN, of->micro_batch, request->sequence, request->precision);
  list_request.recompute = of->recompute;
  list_request.recompute_every = 1;
  list_request.masked = request->masked;
  list_request.masked_area = request->masked_area;
  list_request.shard =
      (tri_op_shard){tri_mesh_seat_along(TRI_AXIS_TENSOR, of->tensor), of->sequence_parallel && of->tensor > 1};
  tri_op_list *list = NULL;
  list_request.layers = (tri_layer_range){-1, 1};
  TRI_TRY(tri_model_operations(model, &list_request, &list));
  add_calls(request, of, list, -1, &of->embedding);
  add_calls(request, of, list, 0, &of->layer);
  tri_op_list_destroy(list);
  list_request.layers = (tri_layer_range){model->num_layers - 1, model->num_layers + 1};
  TRI_TRY(tri_model_operations(model, &list_request, &list));
  add_calls(request, of, list, model->num_layers, &of->head);
  tri_op_list_destroy(list);
  return TRI_OK;
}

static tri_status find_prices(tri_bounds *bounds, const tri_layout *layout, const layer_prices **out) {
  for (int64_t i = bounds->num_prices - 1; i >= 0; i--) {
    const layer_prices *at = &bounds->prices[i];
    bool same = at->tensor == layout->tensor && at->micro_batch == layout->micro_batch &&
                at->recompute == layout->recompute && at->sequence_parallel == layout->sequence_parallel;
    if (!same) continue;
    *out = at;
    return TRI_OK;
  }
  if (bounds->num_prices == bounds->room) {
    int64_t room = bounds->room == 0 ? 64 : bounds->room * 2;
    TRI_TRY(tri_realloc("bounds", (size_t)room, sizeof *bounds->prices, &bounds->prices));
    bounds->room = room;
  }
  layer_prices *made = &bounds->prices[bounds->num_prices];
  *made = (layer_prices){.tensor = layout->tensor,
                         .micro_batch = layout->micro_batch,
                         .recompute = layout->recompute,
                         .sequence_parallel = layout->sequence_parallel};
  TRI_TRY(price(bounds->request, made));
  bounds->num_prices++;
  *out = made;
  return TRI_OK;
}

static tri_status find_sizes(tri_bounds *bounds, int64_t tensor, const layer_sizes **out) {
  for (int64_t i = 0; i < bounds->num_sizes; i++) {
    if (bounds->sizes[i].tensor != tensor) continue;
    *out = &bounds->sizes[i];
    return TRI_OK;
  }
  if (bounds->num_sizes == MOST_SIZES)
    return tri_fail(TRI_INTERNAL, "more than %d numbers of tensor ranks", MOST_SIZES);
  const tri_model *model = bounds->request->model;
  tri_layer_range all = {-1, model->num_layers + 1};
  tri_model_share share = {.seat = tri_mesh_seat_along(TRI_AXIS_TENSOR, tensor), .chunks = &all, .num_chunks = 1};
  tri_parameter_table *table = NULL;
  layer_sizes sizes = {.tensor = tensor};
  TRI_TRY(tri_parameter_table_create(model, &share, &table));
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    double count = (double)entry->count;
    if (entry->tied_to >= 0) {
      sizes.tied += count;
    } else if (entry->layer == -1) {
      sizes.embedding += count;
    } else if (entry->layer == model->num_layers) {
      sizes.head += count;
    } else if (entry->layer == 0) {
      sizes.layer += count;
    }
  }
  tri_parameter_table_destroy(table);
  bounds->sizes[bounds->num_sizes] = sizes;
  *out = &bounds->sizes[bounds->num_sizes++];
  return TRI_OK;
}

/* ---- a layout ---------------------------------------------------------------------------------------------------- */

static double most(double a, double b) { return a > b ? a : b; }

static double layers_of_chunk(const tri_layout *layout, const tri_model *model, int64_t chunk, int64_t stage) {
  tri_layer_range range = tri_layout_layers(layout, model, chunk * layout->pipeline + stage);
  int64_t first = range.first < 0 ? 0 : range.first,
          end = range.end > model->num_layers ? model->num_layers : range.end;
  return (double)(end - first);
}

/* Layers of a stage, all of its chunks. */
static double layers_of(const tri_layout *layout, const tri_model *model, int64_t stage) {
  double count = 0;
  for (int64_t c = 0; c < layout->virtual_stages; c++) count += layers_of_chunk(layout, model, c, stage);
  return count;
}

/* Layers of a stage times micro-batches in flight when it begins its first backward (of weights, where they are apart):
 * the stages from it on, or all of them where weights are put off by as many as there are before it; or in chunks the
 * first group in all of them, of which it has begun the last one with what it runs ahead. */
static double layers_in_flight(const tri_layout *layout, const tri_model *model, int64_t micro_batches, int64_t stage) {
  int64_t v = layout->virtual_stages, behind = layout->pipeline - stage, most = 2 * behind - 1;
  if (v == 1) {
    if (layout->schedule == TRI_SCHEDULE_ZERO_BUBBLE) behind = layout->pipeline;
    return (double)(micro_batches < behind ? micro_batches : behind) * layers_of(layout, model, stage);
  }
  int64_t period = tri_schedule_period(layout, micro_batches), group = period < micro_batches ? period : micro_batches;
  double count = (double)(group < most ? group : most) * layers_of_chunk(layout, model, v - 1, stage);
  for (int64_t c = 0; c + 1 < v; c++) count += (double)group * layers_of_chunk(layout, model, c, stage);
  return count;
}

/* A stage computes all its micro-batches one after the other; the first reaches it through all layers before its own,
 * and the last one's gradient goes back through them. */
static double pipeline_s(const tri_search_request *request, const tri_layout *layout, const layer_prices *p,
                         double layers, double last_layers) {
  double m = (double)tri_layout_micro_batches(layout, request->global_batch);
  double layer = p->layer.forward + p->layer.backward;
  if (layout->schedule == TRI_SCHEDULE_ZERO_BUBBLE) layer += p->layer.again;
  double first = layers * layer + p->embedding.forward + p->embedding.backward;
  double last = last_layers * layer + p->head.forward + p->head.backward;
  if (layout->pipeline == 1) return m * (first + p->head.forward + p->head.backward);
  double before = (double)tri_layout_layers(layout, request->model, layout->pipeline - 1).first;
  double pass = p->layer.forward + p->layer.backward_input;
  /* What a stage has put off of the weights it may do while the last gradient goes back. */
  if (layout->schedule == TRI_SCHEDULE_ZERO_BUBBLE) pass = p->layer.forward;
  return most(m * first, m * last + before * pass);
}

static double stage_elements(const layer_sizes *sizes, const tri_layout *layout, double layers, bool first, bool last) {
  double count = layers * sizes->layer;
  if (first) count += sizes->embedding;
  if (last) count += sizes->head + (layout->pipeline > 1 ? sizes->tied : 0);
  return count;
}

static double state_bytes(const tri_search_request *request, const tri_layout *layout, double count, double tied) {
  const tri_system *system = request->system;
  double data = (double)layout->data;
  bool planned = system->planned;
  double wide = (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
  double weight = planned ? wide : system->weight_bytes, gradient = planned ? wide : system->gradient_bytes;
  double states = planned ? 2 * wide : system->state_bytes;
  bool alone = tri_layout_micro_batches(layout, request->global_batch) == 1;
  double free = count - (planned ? tied : 0); /* the engine never shards a tied embedding's values and gradients */
  double sharded = free / data, whole = count - free;
  double values = layout->zero > 2 ? sharded + whole : count;
  double gradients = layout->zero > 1 && (alone || !planned) ? sharded + whole : count;
  return weight * values + gradient * gradients + states * count / (layout->zero > 0 ? data : 1);
}

/* Of messages; of another system what its libraries take. */
static double buffer_bytes(const tri_search_request *request, const tri_layout *layout, int64_t stage) {
  if (!request->system->planned) return request->system->context_bytes + request->system->bucket_bytes;
  if (layout->pipeline == 1) return 0;
  int64_t boxes = tri_program_boxes(layout, tri_layout_micro_batches(layout, request->global_batch));
  bool ends = layout->virtual_stages == 1 && (stage == 0 || stage == layout->pipeline - 1);
  double kinds = ends ? 2 : TRI_NUM_BOX_KINDS, sliced = layout->sequence_parallel ? (double)layout->tensor : 1;
  double rows = (double)layout->micro_batch * (double)request->sequence / sliced;
  double width = (double)request->model->hidden_size * (double)tri_dtype_bytes(request->precision);
  return kinds * (double)boxes * rows * width;
}

/* Of one of the first stages. */
static double stage_bytes(const tri_search_request *request, const tri_layout *layout, const layer_prices *p,
                          const layer_sizes *sizes, int64_t stage) {
  const tri_model *model = request->model;
  int64_t micro_batches = tri_layout_micro_batches(layout, request->global_batch);
  bool first = stage == 0, last = stage == layout->pipeline - 1;
  double count = stage_elements(sizes, layout, layers_of(layout, model, stage), first, last);
  double in_flight = (double)(micro_batches < layout->pipeline ? micro_batches : layout->pipeline);
  double kept = layers_in_flight(layout, model, micro_batches, stage) * p->layer.kept;
  /* Where the first stage has no layer, what the embedding makes is on its way at once: the engine has a box for it. */
  bool stays = layers_of(layout, model, stage) > 0 || request->system->planned;
  if (first && stays) kept += in_flight * p->embedding.kept;
  if (last) kept += p->head.kept;
  double tied = model->tied && first ? sizes->tied : 0;
  return state_bytes(request, layout, count, tied) + kept + buffer_bytes(request, layout, stage);
}

/* What comes behind the last backward: the update, and the gathers of new parameters. */
static double end_s(const tri_search_request *request, const tri_layout *layout, double count) {
  const tri_system *system = request->system;
  double wide = (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
  double own = layout->zero > 0 ? count / (double)layout->data : count;
  double all = tri_price_memory(request->cluster, own * tri_price_update_bytes(system, request->precision));
  if (layout->zero != 1 && layout->zero != 2) return all;
  double bytes = count * (system->gather_bytes > 0 ? system->gather_bytes : wide);
  return all + tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_GATHER, bytes,
                                      (tri_span){layout->data, layout->tensor}, system) *
                   0.999;
}

tri_status tri_bounds_of(tri_bounds *bounds, const tri_layout *layout, tri_bound *out) {
  const tri_search_request *request = bounds->request;
  const tri_model *model = request->model;
  const layer_prices *p = NULL;
  const layer_sizes *sizes = NULL;
  TRI_TRY(find_prices(bounds, layout, &p));
  TRI_TRY(find_sizes(bounds, layout->tensor, &sizes));
  double first = layers_of(layout, model, 0), last = layers_of(layout, model, layout->pipeline - 1);
  double count = stage_elements(sizes, layout, first, true, layout->pipeline == 1);
  double bytes = stage_bytes(request, layout, p, sizes, 0);
  /* The first stage may have the embedding alone. */
  if (layout->pipeline > 2) bytes = most(bytes, stage_bytes(request, layout, p, sizes, 1));
  *out = (tri_bound){.step_s = pipeline_s(request, layout, p, first, last) + end_s(request, layout, count),
                     .bytes = bytes};
  return TRI_OK;
}
