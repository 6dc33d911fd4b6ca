#include "plan/stages.h"

#include "base/memory.h"
#include "model/layer_kind.h"
#include "plan/network.h"

#include <string.h>

/* ---- equal stages ------------------------------------------------------------------------------------------------ */

/* Returns whether two ranges of the same length have layers of the same kinds in the same order. Indices outside of
 * the model (-1, num_layers) are ignored. The order matters, because an instruction may run a part of a chunk: a
 * backward ends at the end of a bucket. */
static bool same_kinds(const tri_model *model, tri_layer_range a, tri_layer_range b) {
  for (int64_t i = 0; i < a.end - a.first; i++) {
    const int64_t mine = a.first + i, other = b.first + i;
    if (mine < 0 || mine == model->num_layers) continue;
    if (tri_model_layer_kind(model, mine) != tri_model_layer_kind(model, other)) return false;
  }
  return true;
}

/* Returns whether two stages have equal layers, so that they have the same prices. a, b [virtual_stages]: the layers
 * of the chunks of each stage. A chunk above the first one with trained weights (layout.first_trained) also computes
 * the gradient of its input. */
static bool alike(const tri_simulation_request *request, const tri_layer_range *a, const tri_layer_range *b) {
  const tri_layout *layout = request->layout;
  int64_t behind = request->model->num_layers + 1;
  const int64_t lowest = tri_layout_layers(layout, request->model, layout->first_trained).first;
  if (tri_trainable_distinguishes_layers(&request->model->tuning)) return false;
  for (int64_t c = 0; c < layout->virtual_stages; c++) {
    if (a[c].end - a[c].first != b[c].end - b[c].first) return false;
    if ((a[c].first == -1) != (b[c].first == -1) || (a[c].end == behind) != (b[c].end == behind)) return false;
    if ((a[c].first > lowest) != (b[c].first > lowest)) return false;
    if (!same_kinds(request->model, a[c], b[c])) return false;
    if (layout->recompute == TRI_RECOMPUTE_FULL &&
        a[c].first % layout->recompute_every != b[c].first % layout->recompute_every) {
      return false;
    }
  }
  return true;
}

/* ---- prices ------------------------------------------------------------------------------------------------------ */

/* Returns the seconds of clearing a gradient, once per step. For calls whose backward writes only some rows of the
 * gradient (tri_op.clears_gradient). */
static double clearing_s(const tri_simulation_request *request, const tri_parts *parts, const tri_op_call *call) {
  double elements = (double)parts->table->entries[call->parameters[0]].count;
  double bytes = elements * (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
  return tri_price_work(request->cluster, request->precision, TRI_WORK_ZERO, elements, bytes);
}

/* Returns the seconds of accumulating the gradients of a layer in a system whose GEMMs do not accumulate; 0 in other
 * systems. */
static double adding_s(const tri_simulation_request *request, const tri_parts *parts, int64_t layer) {
  double elements = 0, bytes = request->system->sum_bytes;
  for (int64_t i = 0; bytes > 0 && i < parts->table->num_entries; i++) {
    const tri_parameter *entry = &parts->table->entries[i];
    if (entry->layer == layer && tri_parameter_has_gradient(entry)) elements += (double)entry->count;
  }
  return tri_price_memory(request->cluster, elements * bytes);
}

/* Adds the seconds of attention of a call to *to if they depend on the lengths of the documents. They do not if the
 * system computes the full square of scores, or if the window of the layer is shorter than the documents. */
static void add_uneven(tri_pricer *pricer, const tri_op_list *list, int64_t call, tri_attention_price *to) {
  bool by_fraction =
      list->calls[call].attention_fraction == list->attention_fraction && pricer->system->flash_attention;
  if (!list->masked || !by_fraction) return;
  const tri_attention_price of = tri_pricer_attention(pricer, list, call);
  to->forward_s += of.forward_s;
  to->backward_s += of.backward_s;
}

/* Overlaps the exchange of rows of experts with the computation of the same layer for another micro-batch
 * (DualPipe). That computation takes as long as the one in *price. During the exchange it runs at the share `beside`
 * of its rate. */
static void lay_beside_batch(const tri_simulation_request *request, tri_price *price) {
  const double beside = request->cluster->beside;
  double *rows = &price->along_s[tri_domain_axis(TRI_DOMAIN_EXPERT)];
  const double over = *rows < price->compute_s / beside ? *rows : price->compute_s / beside;
  *rows -= over;
  price->compute_s += over * (1 - beside);
}

static void overlap_batches(const tri_simulation_request *request, tri_chunk_prices *prices, int64_t first,
                            int64_t end) {
  tri_price *each[] = {prices->forward, prices->backward_input};
  for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
    tri_price sum = tri_price_minus(each[i][end], each[i][first]);
    lay_beside_batch(request, &sum);
    each[i][end] = tri_price_plus(each[i][first], sum);
  }
}

/* Offloading of activations. The kept activations of a layer go to the host while another layer computes its
 * forward, and return while another layer computes its backward. So the forward and the backward of a layer each
 * take at least as long as the transfer for one layer. */
typedef struct offloading {
  /* Seconds of the transfer for one layer; seconds of forward and of backward, summed over the calls of the layer so
   * far. */
  double moved_s, forward_s, backward_s;
} offloading;

static void wait_for_host(const tri_simulation_request *request, const tri_op_list *list, int64_t call, bool last,
                          offloading *at, tri_call_price *price) {
  const double share = request->system->offload_activations;
  if (share <= 0 || !list->calls[call].recomputable) return;
  at->forward_s += price->forward.compute_s;
  at->backward_s += price->backward_input.compute_s + price->backward_weight.compute_s + price->recompute.compute_s;
  if (!last) return;
  at->moved_s = share * tri_price_kept_bytes(request->system, list, call) / request->cluster->host_bandwidth;
  if (at->moved_s > at->forward_s) price->forward.compute_s += at->moved_s - at->forward_s;
  if (at->moved_s > at->backward_s) price->backward_input.compute_s += at->moved_s - at->backward_s;
  *at = (offloading){0};
}

static void slow_down(double slowest, tri_call_price *price) {
  tri_price *each[] = {&price->forward, &price->backward_input, &price->backward_weight, &price->recompute,
                       &price->together};
  for (size_t i = 0; i < sizeof each / sizeof *each; i++) each[i]->compute_s *= slowest;
}

/* Computes the prefix sums of the prices of the calls of a list, and the sum of `uneven`. */
static tri_status price_chunk(const tri_simulation_request *request, const tri_parts *parts, const tri_op_list *list,
                              tri_chunk_prices *out) {
  size_t n = (size_t)list->num_calls + 1;
  tri_pricer pricer = {.cluster = request->cluster,
                       .system = request->system,
                       .layout = request->layout,
                       .shape = tri_layout_mesh(request->layout)};
  const double slowest = tri_cluster_slowest(request->cluster, tri_layout_ranks(request->layout));
  tri_price again = {0};
  offloading host = {0};
  out->num_calls = list->num_calls;
  TRI_TRY(tri_alloc("prices", 5 * n, sizeof *out->forward, &out->forward));
  out->backward_input = out->forward + n;
  out->backward_weight = out->forward + 2 * n;
  out->recompute = out->forward + 3 * n;
  out->together = out->forward + 4 * n;
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    tri_call_price price;
    tri_pricer_call(&pricer, list, c, &price);
    add_uneven(&pricer, list, c, &out->uneven);
    if (call->op->clears_gradient && !tri_op_is_frozen(call, 0))
      price.backward_weight.first_s = clearing_s(request, parts, call);
    slow_down(slowest, &price);
    bool last = tri_op_list_layer(list, c).end == c + 1;
    wait_for_host(request, list, c, last, &host, &price);
    if (last && !call->op->passes_messages) price.backward_weight.later_s += adding_s(request, parts, call->layer);
    out->forward[c + 1] = tri_price_plus(out->forward[c], price.forward);
    out->backward_input[c + 1] = tri_price_plus(out->backward_input[c], price.backward_input);
    out->backward_weight[c + 1] = tri_price_plus(out->backward_weight[c], price.backward_weight);
    out->together[c + 1] = tri_price_plus(out->together[c], price.together);
    if (last && request->system->overlap_batches && !request->cluster->carries)
      overlap_batches(request, out, tri_op_list_layer(list, c).first, c + 1);
    again = tri_price_plus(again, price.recompute);
    out->recompute[c + 1] = last ? tri_price_plus(out->recompute[c], again) : out->recompute[c];
    if (last) again = (tri_price){0};
  }
  return TRI_OK;
}

/* Returns the price of an instruction with first_s added in the first micro-batch of the step, and later_s in
 * others. */
static tri_price in_turn(tri_price price, const tri_instruction *at) {
  price.compute_s += at->micro_batch == 0 ? price.first_s : price.later_s;
  return price;
}

tri_price tri_stages_price_forward(const tri_stage_kind *kind, const tri_instruction *at) {
  const tri_chunk_prices *p = &kind->chunks[at->chunk];
  return in_turn(tri_price_minus(p->forward[at->end_call], p->forward[at->first_call]), at);
}

tri_price tri_stages_price_backward(const tri_stage_kind *kind, const tri_instruction *at, bool inputs, bool weights) {
  const tri_chunk_prices *p = &kind->chunks[at->chunk];
  int32_t first = at->first_call, end = at->end_call;
  tri_price sum = tri_price_minus(p->recompute[end], p->recompute[first]);
  if (inputs) sum = tri_price_plus(sum, tri_price_minus(p->backward_input[end], p->backward_input[first]));
  if (weights) sum = tri_price_plus(sum, tri_price_minus(p->backward_weight[end], p->backward_weight[first]));
  if (inputs && weights) sum = tri_price_plus(sum, tri_price_minus(p->together[end], p->together[first]));
  return in_turn(sum, at);
}

/* Returns the seconds of summing the partial gradients of a bucket over the domain bucket->parts. The gradients of
 * norms under sequence parallelism, and of replicated key and value heads, are partial. */
static double price_partial(const tri_simulation_request *request, const tri_parts *parts, const tri_bucket *bucket) {
  const tri_mesh_shape shape = tri_layout_mesh(request->layout);
  const tri_group_extent holders = tri_network_extent(&shape, bucket->parts);
  double seconds = 0, wide = (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
  for (int64_t i = bucket->first_entry; i < bucket->end_entry; i++) {
    const tri_parameter *entry = &parts->table->entries[i];
    if (!tri_parameter_is_partial(entry) || entry->count == 0) continue;
    double elements = (double)entry->count * (entry->split.dim >= 0 ? (double)entry->split.units : 1.0);
    seconds +=
        tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_REDUCE, elements * wide, holders, request->system);
  }
  return seconds;
}

static double or_else(double given, double otherwise) { return given > 0 ? given : otherwise; }

static const tri_device_description *device_of(const tri_simulation_request *request) {
  return request->device != NULL ? request->device : tri_cluster_description(request->cluster);
}

/* Adds the number of elements of the weights that the device packs to *packed. */
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

/* Returns the seconds of the computations that depend only on weights and are done once per step
 * (tri_op.prepare_cost). */
static double price_preparing(const tri_simulation_request *request, const tri_parts *parts) {
  const tri_mesh_shape shape = tri_layout_mesh(request->layout);
  double seconds = 0;
  for (int64_t c = 0; c < parts->num_chunks; c++) {
    for (int64_t i = 0; i < parts->lists[c]->num_calls; i++) {
      const tri_op_call *call = &parts->lists[c]->calls[i];
      tri_cost cost = {0};
      if (call->op->prepare_cost == NULL) continue;
      call->op->prepare_cost(call, &cost);
      seconds += tri_price_cost(request->cluster, request->system, call->type, &cost, &shape);
    }
  }
  return seconds;
}

/* Returns the seconds of the GEMMs and collectives of the optimizer (tri_optimizer.costs), without reading and
 * writing its states. Sets *traffic to the bytes that the optimizer reads and writes, divided by those of AdamW. */
static double price_calls(const tri_simulation_request *request, const tri_updates *updates, double *traffic) {
  const tri_mesh_shape shape = tri_layout_mesh(request->layout);
  const double adamw = tri_price_update_bytes(request->system, request->precision);
  double seconds = 0, bytes = 0, elements = 0;
  for (int64_t i = 0; i < updates->count; i++) {
    const tri_update_call *call = &updates->calls[i];
    tri_cost costs[TRI_OPTIMIZER_COSTS];
    if (call->optimizer == NULL) continue;
    elements += (double)call->count;
    bytes += (double)call->count * tri_update_element_bytes(call) + tri_update_own_shape_bytes(call);
    const int count = call->optimizer->costs == NULL ? 0 : call->optimizer->costs(call, costs);
    for (int k = 0; k < count; k++) {
      seconds += tri_price_cost(request->cluster, request->system, call->type, &costs[k], &shape);
    }
  }
  *traffic = elements > 0 ? bytes / (elements * adamw) : 1;
  return seconds;
}

/* Returns the seconds of converting weights to FP8, once per step. own, all: number of trained weights in the shard
 * of this rank, and before sharding. With ZeRO 3 a rank converts its shard, else all. */
static double converting_weights_s(const tri_simulation_request *request, double own, double all) {
  const tri_system *system = request->system;
  if (!system->fp8_products) return 0;
  return tri_price_memory(request->cluster, (request->layout->zero > 2 ? own : all) * system->fp8_conversion);
}

/* Prices clipping, the update and the packing of new weights. Numbers of parameters: `own`, the trained parameters in
 * the shard of this rank; `packed`, all weights with a packed copy; `own_packed`, the part of `packed` in the shard. If
 * packed copies are plain copies in 16 bits, the update itself writes the copies of the shard. */
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
  double traffic = 1, calls_s = system->planned ? price_calls(request, kind->parts.updates, &traffic) : 0;
  kind->update_s = calls_s + traffic * tri_price_work(cluster, type, TRI_WORK_UPDATE, own,
                                                      own * tri_price_update_bytes(system, type) + narrowed * element);
}

/* Returns the seconds of gathering the frozen parameters of a bucket if they are sharded: one gather for each stored
 * type. In this program the rank first copies its own shard into the gather buffer. */
static double price_frozen_gather(const tri_simulation_request *request, const tri_bucket *bucket) {
  const tri_mesh_shape shape = tri_layout_mesh(request->layout);
  const tri_group_extent group = tri_network_extent(&shape, bucket->replicas);
  double sum = 0;
  for (int s = 0; s < TRI_NUM_STORED && bucket->values_sharded; s++) {
    const tri_frozen_range *range = &bucket->frozen[s];
    const double element = (double)tri_stored_bytes((tri_stored)s, request->precision);
    const double bytes = (double)(range->end - range->first) * element;
    const double own = (double)(range->own_end - range->own_first) * element;
    if (bytes == 0) continue;
    sum += tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_GATHER, bytes, group, request->system);
    if (!request->system->planned) continue;
    sum += tri_price_work(request->cluster, request->precision, TRI_WORK_COPY,
                          own / (double)tri_dtype_bytes(request->precision), 2.0 * own);
  }
  return sum;
}

/* Prices the collectives of all buckets, and the optimizer. */
static tri_status price_buckets(const tri_simulation_request *request, tri_stage_kind *kind) {
  const tri_layout *layout = request->layout;
  const tri_buckets *buckets = kind->parts.buckets;
  const tri_cluster *cluster = request->cluster;
  const tri_mesh_shape shape = tri_layout_mesh(layout);
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
    const tri_group_extent group = tri_network_extent(&shape, bucket->replicas);
    double elements = (double)(bucket->end - bucket->first);
    kind->reduce_s[b] = tri_network_shared(cluster, how, elements * reduced, group, system);
    kind->gather_s[b] = tri_network_collective(cluster, TRI_COLLECTIVE_ALL_GATHER, elements * gathered, group, system);
    kind->partial_s[b] = price_partial(request, &kind->parts, bucket);
    double part = (double)(bucket->own_end - bucket->own_first);
    double copied = tri_price_work(cluster, request->precision, TRI_WORK_COPY, part, 2.0 * part * wide);
    /* This program copies the shard of the rank from the reduce buffer after a reduction, and into the gather buffer
     * before a gather. */
    if (system->planned && bucket->gradients_sharded) kind->reduce_s[b] += copied;
    if (system->planned && bucket->values_sharded) kind->gather_s[b] += copied;
    if (!tri_bucket_is_trained(bucket)) kind->gather_s[b] = 0;
    kind->gather_s[b] += price_frozen_gather(request, bucket);
    own += part;
    all += elements;
  }
  double packed = 0;
  if (system->planned) TRI_TRY(count_packed(request, &kind->parts, &packed));
  price_optimizer(request, kind, own, packed * own / (all > 0 ? all : 1), packed);
  kind->prepare_s += converting_weights_s(request, own, all) + price_preparing(request, &kind->parts);
  return TRI_OK;
}

/* Prices the sum of the gradients of a tied embedding: an all-reduce between the first and the last stage, or with
 * one stage a local addition. */
static void price_tied(const tri_stages *stages, tri_stage_kind *kind) {
  const tri_simulation_request *request = stages->request;
  const tri_layout *layout = request->layout;
  double wide = (double)tri_dtype_bytes(tri_dtype_wide(request->precision)), count = 0;
  for (int64_t i = 0; i < kind->parts.table->num_entries; i++) {
    const tri_parameter *entry = &kind->parts.table->entries[i];
    if (entry->tied_to < 0 || entry->frozen) continue;
    double other = (double)kind->parts.table->entries[entry->tied_to].count;
    count += entry->count > 0 ? (double)entry->count : other;
  }
  kind->tied = tri_parts_hold_tied(kind->parts.table);
  if (!kind->tied) return;
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  const tri_group_extent stages_of = tri_network_extent(&shape, TRI_DOMAIN_PIPELINE);
  kind->tied_s =
      layout->pipeline == 1
          ? tri_price_work(request->cluster, request->precision, TRI_WORK_ADD_TO, count, 3.0 * count * wide)
          : tri_network_collective(
                request->cluster, TRI_COLLECTIVE_ALL_REDUCE, count * or_else(request->system->reduce_bytes, wide),
                (tri_group_extent){2, (stages_of.size - 1) * stages_of.stride, stages_of.ranks}, request->system);
}

/* ---- construction ------------------------------------------------------------------------------------------------ */

tri_parts_request tri_stages_parts(const tri_simulation_request *request, const tri_layout *layout,
                                   int64_t micro_batches) {
  return (tri_parts_request){.model = request->model,
                             .layout = layout,
                             .micro_batches = micro_batches,
                             .sequence = request->sequence,
                             .precision = request->precision,
                             .optimizer = request->system->planned ? request->optimizer : NULL,
                             .objective = request->objective,
                             .masked = request->masked,
                             .masked_attention_fraction = request->masked_attention_fraction,
                             .expert_imbalance = request->expert_imbalance,
                             .for_planning = true};
}

static tri_status add_kind(tri_stages *stages, const tri_mesh_coordinates *place) {
  const tri_simulation_request *request = stages->request;
  tri_stage_kind *kind = &stages->kinds[stages->num_kinds++];
  kind->listed = tri_system_listed(request->system, request->layout);
  tri_parts_request of =
      tri_stages_parts(request, &kind->listed, tri_layout_micro_batches(request->layout, request->global_batch));
  of.without_program = true;
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
    const tri_mesh_coordinates place = tri_layout_fullest(layout, request->sequence, s);
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

/* Returns the seconds of a message to the next stage. Each tensor rank sends all rows; with sequence parallelism
 * only its slice. In systems with scatter_messages it sends an equal part, and the receivers gather the parts. */
static double price_message(const tri_simulation_request *request) {
  const tri_layout *layout = request->layout;
  double rows = (double)(layout->micro_batch * tri_layout_tokens(layout, request->sequence));
  double bytes = rows * (double)request->model->hidden_size * (double)tri_dtype_bytes(request->precision);
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  const tri_group_extent holders =
      tri_network_extent(&shape, TRI_DOMAIN_TENSOR); /* the tensor ranks, which have the same rows */
  bool several = holders.size > 1;
  bool sliced = layout->sequence_parallel && several, scattered = request->system->scatter_messages && several;
  if (layout->pipeline == 1) return 0;
  double seconds = tri_network_message(request->cluster, sliced || scattered ? bytes / (double)holders.size : bytes,
                                       tri_network_extent(&shape, TRI_DOMAIN_PIPELINE));
  if (!scattered || sliced) return seconds;
  return seconds + tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_GATHER, bytes, holders, request->system);
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
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  const tri_group_extent all = {.size = tri_layout_ranks(layout), .stride = 1};
  stages.count_s = tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_REDUCE, 8,
                                          tri_network_extent(&shape, TRI_DOMAIN_LOSS), request->system);
  stages.clip_all_s = tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_REDUCE, 8, all, request->system);
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
