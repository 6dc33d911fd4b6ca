#include "plan/stages.h"

#include "base/memory.h"

#include <string.h>

/* ---- which stages are alike -------------------------------------------------------------------------------------- */

static bool alike(const tri_simulation_request *request, const tri_layer_range *a, const tri_layer_range *b) {
  const tri_layout *layout = request->layout;
  int64_t behind = request->model->num_layers + 1;
  for (int64_t c = 0; c < layout->virtual_stages; c++) {
    if (a[c].end - a[c].first != b[c].end - b[c].first) return false;
    if ((a[c].first == -1) != (b[c].first == -1) || (a[c].end == behind) != (b[c].end == behind)) return false;
    if (layout->recompute == TRI_RECOMPUTE_FULL &&
        a[c].first % layout->recompute_every != b[c].first % layout->recompute_every) {
      return false;
    }
  }
  return true;
}

/* ---- prices ------------------------------------------------------------------------------------------------------ */

static tri_price add_scaled(tri_price a, double scale, tri_price b) {
  return (tri_price){a.compute_s + scale * b.compute_s, a.tensor_s + scale * b.tensor_s,
                     a.launch_s + scale * b.launch_s, a.first_s + scale * b.first_s, a.later_s + scale * b.later_s};
}

static tri_price plus(tri_price a, tri_price b) { return add_scaled(a, 1, b); }
static tri_price minus(tri_price a, tri_price b) { return add_scaled(a, -1, b); }

/* Layers repeat: what has been priced is found again by what it costs. */
typedef struct price_memory {
  struct {
    const tri_op *op;
    tri_pass pass;
    tri_cost cost;
    tri_price price;
  } known[64];
  int count;
} price_memory;

static bool same_cost(const tri_cost *a, const tri_cost *b) {
  bool same_product = a->rows == b->rows && a->inner == b->inner && a->columns == b->columns &&
                      a->products == b->products && a->form == b->form && a->passing == b->passing;
  bool same_work = a->flops == b->flops && a->vector_flops == b->vector_flops && a->bytes == b->bytes &&
                   a->elements == b->elements && a->scores == b->scores;
  return same_product && same_work && a->collective == b->collective && a->collective_bytes == b->collective_bytes;
}

static tri_price price_pass(const tri_simulation_request *request, price_memory *memory, const tri_op_call *call,
                            tri_pass pass) {
  const tri_span tensor = {request->layout->tensor, 1};
  tri_cost cost = {0};
  call->op->cost(call, pass, &cost);
  for (int i = 0; i < memory->count; i++) {
    bool same = memory->known[i].op == call->op && memory->known[i].pass == pass;
    if (same && same_cost(&memory->known[i].cost, &cost)) return memory->known[i].price;
  }
  tri_price price = tri_price_pass(request->cluster, request->system, call, pass, tensor);
  if (memory->count == sizeof memory->known / sizeof *memory->known) return price;
  const int at = memory->count++;
  memory->known[at].op = call->op;
  memory->known[at].pass = pass;
  memory->known[at].cost = cost;
  memory->known[at].price = price;
  return price;
}

/* Of a gradient to some of whose rows nobody adds. */
static double clearing_s(const tri_simulation_request *request, const tri_parts *parts, const tri_op_call *call) {
  double elements = (double)parts->table->entries[call->parameters[0]].count;
  double bytes = elements * (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
  return tri_price_work(request->cluster, request->precision, TRI_WORK_ZERO, elements, bytes);
}

static tri_status price_chunk(const tri_simulation_request *request, const tri_parts *parts, const tri_op_list *list,
                              tri_chunk_prices *out) {
  size_t n = (size_t)list->num_calls + 1;
  price_memory memory = {.count = 0};
  tri_price again = {0};
  out->num_calls = list->num_calls;
  TRI_TRY(tri_alloc("prices", 4 * n, sizeof *out->forward, &out->forward));
  out->backward_input = out->forward + n;
  out->backward_weight = out->forward + 2 * n;
  out->again = out->forward + 3 * n;
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    tri_price forward = price_pass(request, &memory, call, TRI_PASS_FORWARD), input = {0}, weight = {0};
    if (call->op->backward_input != NULL) input = price_pass(request, &memory, call, TRI_PASS_BACKWARD_INPUT);
    if (call->op->backward_weight != NULL) weight = price_pass(request, &memory, call, TRI_PASS_BACKWARD_WEIGHT);
    if (call->op->clears_gradient) weight.first_s = clearing_s(request, parts, call);
    out->forward[c + 1] = plus(out->forward[c], forward);
    out->backward_input[c + 1] = plus(out->backward_input[c], input);
    out->backward_weight[c + 1] = plus(out->backward_weight[c], weight);
    if (tri_price_runs_again(request->system, request->layout, call)) again = plus(again, forward);
    bool last = tri_op_list_layer(list, c).end == c + 1;
    out->again[c + 1] = last ? plus(out->again[c], again) : out->again[c];
    if (last) again = (tri_price){0};
  }
  return TRI_OK;
}

/* What the micro-batch's turn adds. */
static tri_price in_turn(tri_price price, const tri_instruction *at) {
  price.compute_s += at->micro_batch == 0 ? price.first_s : price.later_s;
  return price;
}

tri_price tri_stages_price_forward(const tri_stage_kind *kind, const tri_instruction *at) {
  const tri_chunk_prices *p = &kind->chunks[at->chunk];
  return in_turn(minus(p->forward[at->end_call], p->forward[at->first_call]), at);
}

tri_price tri_stages_price_backward(const tri_stage_kind *kind, const tri_instruction *at, bool inputs, bool weights) {
  const tri_chunk_prices *p = &kind->chunks[at->chunk];
  int32_t first = at->first_call, end = at->end_call;
  tri_price sum = minus(p->again[end], p->again[first]);
  if (inputs) sum = plus(sum, minus(p->backward_input[end], p->backward_input[first]));
  if (weights) sum = plus(sum, minus(p->backward_weight[end], p->backward_weight[first]));
  return in_turn(sum, at);
}

/* Over the tensor group: norms of sliced rows, heads that ranks hold copies of. */
static double price_partial(const tri_simulation_request *request, const tri_parts *parts, const tri_bucket *bucket) {
  double seconds = 0, wide = (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
  for (int64_t i = bucket->first_entry; i < bucket->end_entry; i++) {
    const tri_parameter *entry = &parts->table->entries[i];
    if (!entry->partial_gradient || entry->count == 0) continue;
    double elements = (double)entry->count * (entry->split.dim >= 0 ? (double)entry->split.units : 1.0);
    seconds += tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_REDUCE, elements * wide,
                                      (tri_span){request->layout->tensor, 1}, request->system);
  }
  return seconds;
}

static double or_else(double given, double otherwise) { return given > 0 ? given : otherwise; }

static const tri_device_description *device_of(const tri_simulation_request *request) {
  return request->device != NULL ? request->device : tri_cluster_description(request->cluster);
}

/* Elements of the copies of weights that the device packs. */
static tri_status count_packed(const tri_simulation_request *request, const tri_parts *parts, double *packed) {
  double element = (double)tri_dtype_bytes(request->precision);
  for (int64_t c = 0; c < parts->num_chunks; c++) {
    for (int64_t i = 0; i < parts->lists[c]->num_calls; i++) {
      const tri_op_call *call = &parts->lists[c]->calls[i];
      tri_op_memory memory = {0};
      if (call->op->prepare == NULL || call->op->memory == NULL) continue;
      TRI_TRY(call->op->memory(call, device_of(request), &memory));
      for (int b = 0; b < TRI_OP_BUFFERS; b++) *packed += (double)memory.buffer_bytes[b] / element;
    }
  }
  return TRI_OK;
}

/* Who updates narrows at once where packed is no more than that. */
static void price_optimizer(const tri_simulation_request *request, tri_stage_kind *kind, double own, double own_packed,
                            double packed) {
  const tri_cluster *cluster = request->cluster;
  const tri_system *system = request->system;
  const tri_dtype type = request->precision;
  double wide = (double)tri_dtype_bytes(tri_dtype_wide(type)), element = (double)tri_dtype_bytes(type);
  bool narrows = system->planned && device_of(request)->packs_plain && element < wide;
  double left = narrows ? packed - own_packed : packed, narrowed = narrows ? own_packed : 0;
  kind->clip_s =
      tri_price_work(cluster, type, TRI_WORK_SQUARES, own, own * (system->planned ? wide : system->gradient_bytes));
  kind->prepare_s = tri_price_work(cluster, type, TRI_WORK_PACK, left, left * (wide + element));
  kind->update_s = tri_price_work(cluster, type, TRI_WORK_UPDATE, own,
                                  own * tri_price_update_bytes(system, type) + narrowed * element);
}

static tri_status price_buckets(const tri_simulation_request *request, tri_stage_kind *kind) {
  const tri_layout *layout = request->layout;
  const tri_buckets *buckets = kind->parts.buckets;
  const tri_cluster *cluster = request->cluster;
  tri_span data = {layout->data, layout->tensor * layout->context};
  double wide = (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
  double sent = (double)tri_dtype_bytes(tri_layout_reduce_type(layout, request->precision));
  double reduced = or_else(request->system->reduce_bytes, sent);
  double gathered = or_else(request->system->gather_bytes, wide);
  const tri_system *system = request->system;
  tri_collective how = layout->zero == 0 ? TRI_COLLECTIVE_ALL_REDUCE : TRI_COLLECTIVE_REDUCE_SCATTER;
  size_t n = (size_t)buckets->count;
  TRI_TRY(tri_alloc("prices", 3 * n, sizeof *kind->reduce_s, &kind->reduce_s));
  kind->gather_s = kind->reduce_s + n;
  kind->partial_s = kind->reduce_s + 2 * n;
  double own = 0, all = 0;
  for (int64_t b = 0; b < buckets->count; b++) {
    const tri_bucket *bucket = &buckets->entries[b];
    double elements = (double)(bucket->end - bucket->first);
    kind->reduce_s[b] = tri_network_reduction(cluster, how, elements * reduced, data, system);
    kind->gather_s[b] = tri_network_collective(cluster, TRI_COLLECTIVE_ALL_GATHER, elements * gathered, data, system);
    kind->partial_s[b] = price_partial(request, &kind->parts, bucket);
    double part = (double)(bucket->own_end - bucket->own_first);
    double copied = tri_price_work(cluster, request->precision, TRI_WORK_COPY, part, 2.0 * part * wide);
    /* Of what is sharded a rank's part is put away behind its slot, and put into it again. */
    if (system->planned && bucket->gradients_sharded) kind->reduce_s[b] += copied;
    if (system->planned && bucket->values_sharded) kind->gather_s[b] += copied;
    own += part;
    all += elements;
  }
  double packed = 0;
  if (system->planned) TRI_TRY(count_packed(request, &kind->parts, &packed));
  price_optimizer(request, kind, own, packed * own / (all > 0 ? all : 1), packed);
  return TRI_OK;
}

static void price_tied(const tri_stages *stages, tri_stage_kind *kind) {
  const tri_simulation_request *request = stages->request;
  const tri_layout *layout = request->layout;
  double wide = (double)tri_dtype_bytes(tri_dtype_wide(request->precision)), count = 0;
  for (int64_t i = 0; i < kind->parts.table->num_entries; i++) {
    const tri_parameter *entry = &kind->parts.table->entries[i];
    if (entry->tied_to < 0) continue;
    double other = (double)kind->parts.table->entries[entry->tied_to].count;
    count += entry->count > 0 ? (double)entry->count : other;
  }
  kind->tied = tri_parts_hold_tied(kind->parts.table);
  if (!kind->tied) return;
  int64_t apart = (layout->pipeline - 1) * layout->tensor * layout->context * layout->data;
  kind->tied_s = layout->pipeline == 1
                     ? tri_price_work(request->cluster, request->precision, TRI_WORK_ADD_TO, count, 3.0 * count * wide)
                     : tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_REDUCE,
                                              count * or_else(request->system->reduce_bytes, wide),
                                              (tri_span){2, apart}, request->system);
}

/* ---- construction ------------------------------------------------------------------------------------------------ */

static tri_status add_kind(tri_stages *stages, const tri_mesh_place *place) {
  const tri_simulation_request *request = stages->request;
  tri_stage_kind *kind = &stages->kinds[stages->num_kinds++];
  tri_parts_request of = {.model = request->model,
                          .layout = request->layout,
                          .micro_batches = tri_layout_micro_batches(request->layout, request->global_batch),
                          .sequence = request->sequence,
                          .precision = request->precision,
                          .masked = request->masked,
                          .masked_area = request->masked_area,
                          .for_planning = true,
                          .without_program = true};
  TRI_TRY(tri_parts_create(&of, place, &kind->parts));
  TRI_TRY(tri_alloc("prices", (size_t)kind->parts.num_chunks, sizeof *kind->chunks, &kind->chunks));
  for (int64_t c = 0; c < kind->parts.num_chunks; c++) {
    TRI_TRY(price_chunk(request, &kind->parts, kind->parts.lists[c], &kind->chunks[c]));
  }
  TRI_TRY(price_buckets(request, kind));
  price_tied(stages, kind);
  return TRI_OK;
}

static tri_status stages_fill(tri_stages *stages) {
  const tri_simulation_request *request = stages->request;
  const tri_layout *layout = request->layout;
  int64_t v = layout->virtual_stages;
  tri_layer_range *chunks = NULL;
  stages->num_stages = layout->pipeline;
  TRI_TRY(tri_alloc("stages", (size_t)layout->pipeline, sizeof *stages->kinds, &stages->kinds));
  TRI_TRY(tri_alloc("stages", (size_t)layout->pipeline, sizeof *stages->kind_of, &stages->kind_of));
  TRI_TRY(tri_alloc("stages", (size_t)v, sizeof *chunks, &chunks));
  tri_status status = TRI_OK;
  for (int64_t s = 0; s < layout->pipeline && status == TRI_OK; s++) {
    tri_mesh_place place = {{0}};
    place.at[TRI_AXIS_PIPELINE] = (int)s;
    for (int64_t c = 0; c < v; c++) {
      chunks[c] = tri_layout_layers(layout, request->model, c * layout->pipeline + s);
    }
    int64_t k = 0;
    while (k < stages->num_kinds && !alike(request, chunks, stages->kinds[k].parts.chunks)) k++;
    if (k == stages->num_kinds) status = add_kind(stages, &place);
    stages->kind_of[s] = k;
  }
  tri_free(chunks);
  return status;
}

/* Rows go whole from stage to stage, or sliced where the sequence is; or each tensor rank sends its part of them, and
 * the receivers gather. */
static double price_message(const tri_simulation_request *request) {
  const tri_layout *layout = request->layout;
  double bytes = (double)layout->micro_batch * (double)request->sequence * (double)request->model->hidden_size *
                 (double)tri_dtype_bytes(request->precision);
  int64_t stride = layout->tensor * layout->context * layout->data, tensor = layout->tensor;
  bool sliced = layout->sequence_parallel && tensor > 1, scattered = request->system->scatter_messages && tensor > 1;
  if (layout->pipeline == 1) return 0;
  double seconds = tri_network_message(request->cluster, sliced || scattered ? bytes / (double)tensor : bytes,
                                       (tri_span){layout->pipeline, stride});
  if (!scattered || sliced) return seconds;
  return seconds + tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_GATHER, bytes, (tri_span){tensor, 1},
                                          request->system);
}

tri_status tri_stages_create(const tri_simulation_request *request, tri_stages *out) {
  tri_stages stages = {.request = request};
  const tri_layout *layout = request->layout;
  tri_status status = stages_fill(&stages);
  if (status != TRI_OK) {
    tri_stages_destroy(&stages);
    return status;
  }
  stages.message_s = price_message(request);
  stages.messages_hold = !request->system->overlap_messages || request->cluster->carries;
  stages.count_s = tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_REDUCE, 8,
                                          (tri_span){layout->data, layout->tensor * layout->context}, request->system);
  stages.clip_all_s = tri_network_collective(
      request->cluster, TRI_COLLECTIVE_ALL_REDUCE, 8,
      (tri_span){layout->tensor * layout->context * layout->data * layout->pipeline, 1}, request->system);
  *out = stages;
  return TRI_OK;
}

void tri_stages_destroy(tri_stages *stages) {
  for (int64_t k = 0; k < stages->num_kinds; k++) {
    tri_stage_kind *kind = &stages->kinds[k];
    for (int64_t c = 0; kind->chunks != NULL && c < kind->parts.num_chunks; c++) tri_free(kind->chunks[c].forward);
    tri_free(kind->chunks);
    tri_free(kind->reduce_s);
    tri_parts_destroy(&kind->parts);
  }
  tri_free(stages->kinds);
  tri_free(stages->kind_of);
  *stages = (tri_stages){0};
}
