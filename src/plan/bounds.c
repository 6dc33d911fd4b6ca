/* Lower bounds of the time and the memory of a layout, for the search.
 *
 * The problem: a search has hundreds of thousands of layouts, too many to simulate each. The search discards a layout
 * without a simulation if a lower bound of its step time is above the step time of the slowest of the best layouts so
 * far, or if a lower bound of its memory is above the memory of a device.
 *
 * The idea: layers of one kind (model/layer_kind.h) cost the same. So it is enough to price the embedding, one layer of
 * each kind, and the head; layer_prices.c does this, and caches the prices. A bound only counts layers and multiplies:
 *
 *   time    The largest sum of any stage (pipeline_s): all micro-batches on the stage, plus the pass of one micro-batch
 *           through the layers before it; the last chunk counts like a stage. The update is added, and with ZeRO 1 or 2
 * also the gathers of new parameters (end_s). memory  The bytes of stage 0, or those of stage 1 if they are more and
 * stage 1 is not the last (stage_bytes): weights, gradients, optimizer states, activations of the micro-batches in
 * flight, buffers of stages and of buckets, and the largest workspace of one layer.
 *
 * The invariant: a bound is never above the simulated time or the bytes of the memory plan. So each term is at most the
 * corresponding part of the simulation or of the plan, and a cost that the schedule may hide counts as 0.
 * tests/unit/test_bounds.c compares bounds and predictions of random layouts.
 *
 * A model with frozen weights (partial training, an adapter) has lower bounds of a simpler form. The update counts as
 * 0. The state is the smaller of two sums, as if all weights were trained and as if all were frozen. The layers up to
 * and including the lowest one with a trained weight count with their weights and their forward only.
 *
 * Example: 96 layers, pipeline 8, one chunk, 32 micro-batches. A stage has 12 layers, so 84 layers are before the last
 * stage. The sum for the last stage is 32 * (12 * layer + head) + 84 * (forward and input backward of a layer). If it
 * is the largest sum, the bound of the time is this sum plus the update. */
#include "plan/bounds.h"

#include "base/count.h"
#include "base/memory.h"
#include "plan/layer_prices.h"
#include "plan/network.h"
#include "plan/price.h"
#include "schedule/buckets.h"
#include "schedule/program.h"

#include <math.h>

/* Numbers of layers of each kind (model/layer_kind.h), by the work of their backward. */
typedef struct layer_count {
  double recomputed[TRI_LAYER_KINDS]; /* layers that recompute what layout.recompute says, possibly nothing */
  double kept[TRI_LAYER_KINDS];       /* layers that `recompute_every` skips: they keep their activations */
  double untrained[TRI_LAYER_KINDS];  /* layers up to the lowest one with a trained weight: only the forward counts */
} layer_count;

/* Return numbers of layers of a kind: trained_of the layers whose backward counts, all_of all layers. */
static double trained_of(const layer_count *n, int kind) { return n->recomputed[kind] + n->kept[kind]; }
static double all_of(const layer_count *n, int kind) { return trained_of(n, kind) + n->untrained[kind]; }

/* Returns a + times * b. */
static layer_count layers_plus(layer_count a, double times, layer_count b) {
  for (int kind = 0; kind < TRI_LAYER_KINDS; kind++) {
    a.recomputed[kind] += times * b.recomputed[kind];
    a.kept[kind] += times * b.kept[kind];
    a.untrained[kind] += times * b.untrained[kind];
  }
  return a;
}

/* Returns a + times * b. */
static tri_parameter_counts elements_plus(tri_parameter_counts a, double times, tri_parameter_counts b) {
  return (tri_parameter_counts){a.plain + times * b.plain, a.stacked + times * b.stacked};
}

/* INNER_STAGES: largest number of different stages between the first and the last whose layers are counted.
 * DIVISIONS_HELD: number of entries of tri_bounds.divisions. */
enum { INNER_STAGES = 4, DIVISIONS_HELD = 1 << 10 };

/* Layers of a stage. */
typedef struct stage_layers {
  layer_count own;   /* layers of the stage, all chunks */
  layer_count ahead; /* layers before the first chunk of the stage */
} stage_layers;

/* Layer counts of the stages of a layout. They are cached (tri_bounds.divisions), because many layouts divide the
 * layers alike. */
typedef struct layer_division {
  tri_layout of; /* the layout for which the layers were counted */
  struct {
    layer_count before_last, last; /* layers in all chunks but the last, and in the last chunk */
  } first[2];                      /* layers of stages 0 and 1 */
  /* The stages between the first and the last [num_inner]. Of stages with equal layers only the last one, which has the
   * most layers ahead. Stages beyond INNER_STAGES are not counted. */
  stage_layers inner[INNER_STAGES];
  int num_inner;
  stage_layers last; /* the last stage */
  stage_layers tail; /* the last chunk of the last stage, and all layers before it */
} layer_division;

struct tri_bounds {
  tri_search_request request; /* a copy; its model is the one that is priced (tri_price_cache_model) */
  tri_price_cache *cache;
  bool owns_cache;
  tri_price_place place;     /* place in the cache of the last layout of tri_bounds_of */
  int64_t lowest;            /* index of the lowest layer with a trained weight (tri_price_cache_lowest) */
  double frozen_bytes;       /* lower bound of the bytes of one frozen parameter */
  layer_division *divisions; /* cache [DIVISIONS_HELD]: the newest division with each hash of a layout */
};

/* Returns a lower bound of the bytes of a frozen parameter. In 4 bits it ignores the scales, and the tensors that
 * are not quantised. */
static double frozen_bytes(const tri_search_request *request) {
  const bool quantised = request->system->planned && tri_trainable_is_quantised(&request->model->tuning);
  return quantised ? 0.5 : (double)tri_dtype_bytes(request->precision);
}

/* Returns whether the priced model has any frozen weight. */
static bool is_frozen(const tri_search_request *request) { return !tri_trainable_is_full(&request->model->tuning); }

tri_status tri_bounds_create(const tri_search_request *request, tri_bounds **out) {
  tri_bounds *bounds = NULL;
  TRI_TRY(tri_alloc("bounds", 1, sizeof *bounds, &bounds));
  bounds->request = *request;
  bounds->frozen_bytes = frozen_bytes(request);
  bounds->cache = request->prices;
  bounds->owns_cache = request->prices == NULL;
  tri_status status = bounds->owns_cache ? tri_price_cache_create(request, &bounds->cache) : TRI_OK;
  if (status == TRI_OK) status = tri_alloc("bounds", DIVISIONS_HELD, sizeof *bounds->divisions, &bounds->divisions);
  if (status != TRI_OK) {
    tri_bounds_destroy(bounds);
    return status;
  }
  bounds->request.model = tri_price_cache_model(bounds->cache);
  bounds->lowest = tri_price_cache_lowest(bounds->cache);
  *out = bounds;
  return TRI_OK;
}

void tri_bounds_of_step(tri_bounds *bounds, int64_t global_batch, const tri_optimizer_settings *optimizer) {
  bounds->request.global_batch = global_batch;
  bounds->request.optimizer = optimizer;
}

void tri_bounds_destroy(tri_bounds *bounds) {
  if (bounds == NULL) return;
  if (bounds->owns_cache) tri_price_cache_destroy(bounds->cache);
  tri_free(bounds->divisions);
  tri_free(bounds);
}

/* ---- layers of a layout ------------------------------------------------------------------------------------------ */

/* Counts the layers first .. end - 1 of the model; indices outside of the model are ignored. Layers whose index is a
 * multiple of `recompute_every` recompute. */
static layer_count count_layers(const tri_bounds *bounds, const tri_layout *layout, int64_t first, int64_t end) {
  layer_count count = {.recomputed = {0}};
  if (first < 0) first = 0;
  if (end > bounds->request.model->num_layers) end = bounds->request.model->num_layers;
  for (int64_t layer = first; layer < end; layer++) {
    const bool again = layer % layout->recompute_every == 0;
    double *of = layer <= bounds->lowest ? count.untrained : again ? count.recomputed : count.kept;
    of[tri_price_cache_kind(bounds->cache, layer)]++;
  }
  return count;
}

/* Counts the layers of one chunk of a stage. */
static layer_count layers_of_chunk(const tri_bounds *bounds, const tri_layout *layout, int64_t chunk, int64_t stage) {
  tri_layer_range range = tri_layout_layers(layout, bounds->request.model, chunk * layout->pipeline + stage);
  return count_layers(bounds, layout, range.first, range.end);
}

/* Returns whether two layouts of the same model have equal layer counts: equal values of recompute_every, and of all
 * keys that divide the layers among chunks. */
static bool divided_alike(const tri_layout *a, const tri_layout *b) {
  return a->pipeline == b->pipeline && a->virtual_stages == b->virtual_stages && a->balance == b->balance &&
         a->stage_layers == b->stage_layers && a->embedding_as_layers == b->embedding_as_layers &&
         a->head_as_layers == b->head_as_layers && a->recompute_every == b->recompute_every;
}

static bool equal_layers(const layer_count *a, const layer_count *b) {
  for (int kind = 0; kind < TRI_LAYER_KINDS; kind++) {
    if (a->recomputed[kind] != b->recomputed[kind] || a->kept[kind] != b->kept[kind]) return false;
    if (a->untrained[kind] != b->untrained[kind]) return false;
  }
  return true;
}

/* Adds a stage between the first and the last. */
static void add_inner(layer_division *to, const stage_layers *stage) {
  int i = 0;
  while (i < to->num_inner && !equal_layers(&to->inner[i].own, &stage->own)) i++;
  if (i == INNER_STAGES) return;
  to->inner[i] = *stage;
  if (i == to->num_inner) to->num_inner++;
}

/* Counts the layers of all stages but the first. */
static void count_stages(const tri_bounds *bounds, const tri_layout *layout, layer_division *out) {
  layer_count ahead = layers_of_chunk(bounds, layout, 0, 0);
  for (int64_t stage = 1; stage < layout->pipeline; stage++) {
    const layer_count first = layers_of_chunk(bounds, layout, 0, stage);
    stage_layers at = {first, ahead};
    for (int64_t c = 1; c < layout->virtual_stages; c++) {
      at.own = layers_plus(at.own, 1, layers_of_chunk(bounds, layout, c, stage));
    }
    ahead = layers_plus(ahead, 1, first);
    if (stage + 1 < layout->pipeline) {
      add_inner(out, &at);
    } else {
      out->last = at;
    }
  }
  out->tail.own = layers_of_chunk(bounds, layout, layout->virtual_stages - 1, layout->pipeline - 1);
  out->tail.ahead = layers_plus(count_layers(bounds, layout, 0, bounds->request.model->num_layers), -1, out->tail.own);
}

/* Returns the layer counts of a layout, from the cache or counted now. The result is valid until the next call. */
static const layer_division *find_division(tri_bounds *bounds, const tri_layout *layout) {
  const int64_t number = (layout->pipeline * 61 + layout->virtual_stages) * 5 + layout->recompute_every;
  layer_division *at = &bounds->divisions[number % DIVISIONS_HELD];
  const int64_t end = layout->pipeline - 1, v = layout->virtual_stages;
  if (divided_alike(&at->of, layout)) return at;
  *at = (layer_division){.of = *layout};
  for (int64_t stage = 0; stage < 2 && stage <= end; stage++) {
    for (int64_t c = 0; c + 1 < v; c++) {
      at->first[stage].before_last =
          layers_plus(at->first[stage].before_last, 1, layers_of_chunk(bounds, layout, c, stage));
    }
    at->first[stage].last = layers_of_chunk(bounds, layout, v - 1, stage);
  }
  count_stages(bounds, layout, at);
  return at;
}

/* Returns the layer counts of stage 0 or 1, summed over its chunks. */
static layer_count layers_of(const layer_division *division, int64_t stage) {
  return layers_plus(division->first[stage].before_last, 1, division->first[stage].last);
}

/* Returns a lower bound of the layers whose activations stage 0 or 1 keeps when it begins its first backward (of
 * weights, if the backward is split). A layer counts once for each micro-batch in flight in its chunk. Their number is
 *
 *   one chunk        `pipeline - stage`, which is a lower bound for GPipe
 *   zero bubble      `pipeline`, because weight gradients are delayed by `stage` micro-batches
 *   several chunks   in all chunks but the last: one group of micro-batches (tri_schedule_period); in the last chunk,
 *                    where the warm-up ends: 2 * (pipeline - stage) - 1, or one group if that is smaller
 *
 * but at most the number of micro-batches of a step. */
static layer_count layers_in_flight(const tri_layout *layout, const layer_division *division, int64_t micro_batches,
                                    int64_t stage) {
  int64_t behind = layout->pipeline - stage, most = 2 * behind - 1;
  const layer_count none = {0};
  if (layout->virtual_stages == 1) {
    if (layout->schedule == TRI_SCHEDULE_ZERO_BUBBLE) behind = layout->pipeline;
    return layers_plus(none, (double)(micro_batches < behind ? micro_batches : behind), layers_of(division, stage));
  }
  int64_t period = tri_schedule_period(layout, micro_batches), group = period < micro_batches ? period : micro_batches;
  const layer_count count = layers_plus(none, (double)(group < most ? group : most), division->first[stage].last);
  return layers_plus(count, (double)group, division->first[stage].before_last);
}

/* Returns whether the schedule splits a backward into one for inputs and one for weights. Each of the two recomputes
 * the activations. */
static bool splits_backward(tri_schedule_kind schedule) {
  switch (schedule) {
    case TRI_SCHEDULE_GPIPE:
    case TRI_SCHEDULE_1F1B:
    case TRI_SCHEDULE_INTERLEAVED: return false;
    case TRI_SCHEDULE_ZERO_BUBBLE: break;
  }
  return true;
}

/* Returns the seconds of the forward and the backward of one micro-batch in a layer. `layer->backward` includes one
 * recomputation, so a split backward adds a second one. */
static double layer_s(const tri_layout *layout, const tri_unit_price *layer) {
  double seconds = layer->forward + layer->backward;
  if (splits_backward(layout->schedule)) seconds += layer->recompute;
  return seconds;
}

/* Returns the sum of time_of over the counted layers `n`. Untrained layers count with their forward only. */
static double sum_s(const tri_layout *layout, const tri_layout_prices *of, const layer_count *n,
                    double (*time_of)(const tri_layout *layout, const tri_unit_price *layer)) {
  double seconds = 0;
  for (int kind = 0; kind < of->num_kinds; kind++) {
    seconds += n->recomputed[kind] * time_of(layout, &of->listed->layer[kind]);
  }
  for (int kind = 0; kind < of->num_kinds; kind++) seconds += n->kept[kind] * time_of(layout, &of->kept->layer[kind]);
  for (int kind = 0; kind < of->num_kinds; kind++) {
    seconds += n->untrained[kind] * of->listed->untrained[kind].forward;
  }
  return seconds;
}

/* Returns the seconds in which one micro-batch passes a layer forward and its gradient passes the layer back. With a
 * split backward only the forward counts, because the stage may compute weight gradients while the last gradient
 * travels back. */
static double pass_s(const tri_layout *layout, const tri_unit_price *layer) {
  if (splits_backward(layout->schedule)) return layer->forward;
  return layer->forward + layer->backward_input;
}

/* Returns a lower bound of the seconds of all forwards and backwards. A stage computes its micro-batches one after
 * the other. It begins after the first micro-batch has passed all layers of earlier stages, and after it ends, the last
 * gradient passes them back. The same is true of the last chunk, with the layers of all earlier chunks. That sum is
 * larger, and so only computed, if there are fewer micro-batches than stages. */
static double pipeline_s(const tri_search_request *request, const tri_layout *layout, const tri_layout_prices *of,
                         const layer_division *division) {
  const tri_layer_prices *p = of->listed;
  double m = (double)tri_layout_micro_batches(layout, request->global_batch);
  const layer_count own = layers_of(division, 0);
  double first = sum_s(layout, of, &own, layer_s) + p->embedding.forward + p->embedding.backward;
  const double head = p->head.forward + p->head.backward;
  if (layout->pipeline == 1) return m * (first + head);
  double most = m * first;
  for (int i = 0; i < division->num_inner; i++) {
    const stage_layers *inner = &division->inner[i];
    most =
        tri_larger_double(most, m * sum_s(layout, of, &inner->own, layer_s) + sum_s(layout, of, &inner->ahead, pass_s));
  }
  const stage_layers *ends[] = {&division->last, &division->tail};
  for (int i = 0; i < (m < (double)layout->pipeline ? 2 : 1); i++) {
    const double end = m * (sum_s(layout, of, &ends[i]->own, layer_s) + head);
    most = tri_larger_double(most, end + sum_s(layout, of, &ends[i]->ahead, pass_s));
  }
  return most;
}

/* Returns the number of parameters of a rank in a stage with these layers. The first stage has the embedding, the
 * last one the head. With several stages, the head of a tied model has its own copy of the embedding. */
static tri_parameter_counts stage_elements(const tri_layer_sizes *sizes, const tri_layout *layout, layer_count layers,
                                           bool first, bool last) {
  tri_parameter_counts count = {0};
  for (int kind = 0; kind < TRI_LAYER_KINDS; kind++) {
    count = elements_plus(count, all_of(&layers, kind), sizes->layer[kind]);
  }
  if (first) count.plain += sizes->embedding;
  if (last) count.plain += sizes->head + (layout->pipeline > 1 ? sizes->tied : 0);
  return count;
}

/* Returns the number of parameters in the shard of one rank, if the replicas share them. */
static double shared_out(const tri_layout *layout, tri_parameter_counts count) {
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  return count.plain / (double)tri_domain_size(&shape, TRI_DOMAIN_REPLICAS) +
         count.stacked / (double)tri_domain_size(&shape, TRI_DOMAIN_EXPERT_REPLICAS);
}

/* Returns the bytes of optimizer states for one parameter, in the parameter group that needs the fewest. */
static double least_states(const tri_search_request *request) {
  const tri_optimizer_settings *settings =
      request->optimizer != NULL ? request->optimizer : tri_optimizer_settings_default();
  double least = INFINITY;
  for (int g = 0; g < TRI_NUM_GROUPS; g++) {
    const tri_update_call call = {.optimizer = tri_optimizer_of_group(settings, (tri_parameter_group)g),
                                  .settings = settings,
                                  .type = request->precision};
    const double states = tri_update_kept_bytes(&call);
    if (states < least) least = states;
  }
  return least;
}

/* Returns a lower bound of the bytes of weights, gradients and optimizer states. `count`: parameters of a rank of
 * the stage, before sharding; `tied`: how many of them are a tied embedding, 0 if the stage has none. */
static double state_bytes(const tri_bounds *bounds, const tri_layout *layout, tri_parameter_counts count, double tied) {
  const tri_search_request *request = &bounds->request;
  const tri_system *system = request->system;
  bool planned = system->planned;
  double wide = (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
  double weight = planned ? wide : system->weight_bytes, gradient = planned ? wide : system->gradient_bytes;
  double states = planned ? least_states(request) : system->state_bytes;
  bool alone = tri_layout_micro_batches(layout, request->global_batch) == 1;
  /* This program's engine never shards the values and gradients of a tied embedding. */
  const double whole = planned ? tied : 0, all = count.plain + count.stacked;
  const double sharded = shared_out(layout, (tri_parameter_counts){count.plain - whole, count.stacked});
  double values = layout->zero > 2 ? sharded + whole : all;
  const bool shards = layout->zero > 1 && (alone || tri_system_reduces_each(system, layout->zero));
  double gradients = shards ? sharded + whole : all;
  double updated = layout->zero > 0 ? shared_out(layout, count) : all;
  /* The layer counts do not distinguish frozen weights. So if the model has any, the bound is the smaller of two
   * sums: all weights trained, or all frozen (in the type of the activations or in 4 bits, without gradients and
   * states). */
  const double frozen = values * bounds->frozen_bytes;
  const double trained = weight * values + gradient * gradients + states * updated;
  return is_frozen(request) && frozen < trained ? frozen : trained;
}

/* Returns the bytes of the buffers for messages between stages, of all kinds that the stage has. For systems other
 * than this program, returns the bytes of library contexts and of gradient buckets instead. */
static double buffer_bytes(const tri_search_request *request, const tri_layout *layout, int64_t stage) {
  if (!request->system->planned) return request->system->context_bytes + request->system->bucket_bytes;
  if (layout->pipeline == 1) return 0;
  const tri_program_request step = {.layout = layout,
                                    .micro_batches = tri_layout_micro_batches(layout, request->global_batch)};
  int64_t stage_buffers = tri_program_stage_buffers(&step);
  bool ends = layout->virtual_stages == 1 && (stage == 0 || stage == layout->pipeline - 1);
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  double kinds = ends ? 2 : TRI_NUM_STAGE_BUFFER_KINDS;
  double sliced = layout->sequence_parallel ? (double)tri_domain_size(&shape, TRI_DOMAIN_TENSOR) : 1;
  double rows = (double)(layout->micro_batch * tri_layout_tokens(layout, request->sequence)) / sliced;
  double width = (double)request->model->hidden_size * (double)tri_dtype_bytes(request->precision);
  return kinds * (double)stage_buffers * rows * width;
}

/* Returns a lower bound of the bytes of the buffers in which this program gathers sharded parameters and reduces
 * sharded gradients (buckets.h): each has room for the largest bucket, and a bucket has at least the dense parameters
 * of a layer without experts, or all experts of a layer. Returns 0 if any weights are frozen. */
static double bucket_bytes(const tri_search_request *request, const tri_layout *layout, const tri_layer_sizes *sizes,
                           layer_count layers) {
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  const bool dense = tri_domain_size(&shape, TRI_DOMAIN_REPLICAS) > 1;
  const bool experts = tri_domain_size(&shape, TRI_DOMAIN_EXPERT_REPLICAS) > 1;
  const bool alone = tri_layout_micro_batches(layout, request->global_batch) == 1;
  const int buffers = TRI_BUCKET_BUFFERS * ((layout->zero > 2) + (layout->zero > 1 && alone));
  double most = 0;
  if (!request->system->planned || is_frozen(request)) return 0;
  for (int kind = 0; kind < TRI_LAYER_KINDS; kind++) {
    const tri_parameter_counts of = sizes->layer[kind];
    if (all_of(&layers, kind) == 0) continue;
    if (dense && of.stacked == 0) most = tri_larger_double(most, of.plain);
    if (experts) most = tri_larger_double(most, of.stacked);
  }
  return buffers * most * (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
}

/* Returns the bytes that one micro-batch in flight keeps in a layer: activations, and with a split backward also the
 * gradients that the backward of weights reads. */
static double kept_bytes(const tri_layout *layout, const tri_unit_price *layer) {
  bool splits = layout->schedule == TRI_SCHEDULE_ZERO_BUBBLE && layout->pipeline > 1;
  return layer->kept + (splits ? layer->deferred : 0);
}

/* Returns the bytes of workspace that the backward of a layer needs: all recomputed activations of the layer, which
 * exist at the same time, and in this program the largest buffer for rows that move between ranks. */
static double work_bytes(const tri_search_request *request, const tri_unit_price *layer) {
  return layer->recomputed + (request->system->planned ? layer->transfer : 0);
}

/* Returns a lower bound of the bytes of a rank of stage 0 or 1. */
static double stage_bytes(const tri_bounds *bounds, const tri_layout *layout, const tri_layout_prices *of,
                          const tri_layer_sizes *sizes, const layer_division *division, int64_t stage) {
  const tri_search_request *request = &bounds->request;
  const tri_model *model = request->model;
  const tri_layer_prices *p = of->listed;
  int64_t micro_batches = tri_layout_micro_batches(layout, request->global_batch);
  bool first = stage == 0, last = stage == layout->pipeline - 1;
  const layer_count layers = layers_of(division, stage);
  const layer_count flying = layers_in_flight(layout, division, micro_batches, stage);
  const tri_parameter_counts count = stage_elements(sizes, layout, layers, first, last);
  double in_flight = (double)(micro_batches < layout->pipeline ? micro_batches : layout->pipeline);
  double kept = 0, packed = 0, at_work = 0, all = 0;
  for (int kind = 0; kind < of->num_kinds; kind++) {
    kept += flying.recomputed[kind] * kept_bytes(layout, &p->layer[kind]);
    all += all_of(&layers, kind);
  }
  for (int kind = 0; kind < of->num_kinds; kind++) {
    kept += flying.kept[kind] * kept_bytes(layout, &of->kept->layer[kind]);
  }
  /* A first stage without layers only computes the embedding. This program keeps its output until the backward;
   * other systems free it once it was sent. */
  bool stays = all > 0 || request->system->planned;
  if (first && stays) kept += in_flight * p->embedding.kept;
  if (last) kept += p->head.kept;
  double tied = model->tied && first ? sizes->tied : 0;
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  if (layout->zero < 3 || tri_domain_size(&shape, TRI_DOMAIN_REPLICAS) == 1) {
    for (int kind = 0; kind < of->num_kinds; kind++) {
      packed += trained_of(&layers, kind) * p->layer[kind].packed;
      packed += layers.untrained[kind] * p->untrained[kind].packed;
    }
    kept += packed;
  }
  /* The workspace is needed at the same time as the activations above: in the first backward. With `recompute_every`
   * this may be the backward of a skipped layer, which needs less than a layer that recomputes. */
  const tri_layer_prices *least = layout->recompute_every > 1 ? of->kept : p;
  for (int kind = 0; kind < of->num_kinds; kind++) {
    if (trained_of(&layers, kind) > 0) at_work = tri_larger_double(at_work, work_bytes(request, &least->layer[kind]));
  }
  return state_bytes(bounds, layout, count, tied) + bucket_bytes(request, layout, sizes, layers) + kept + at_work +
         buffer_bytes(request, layout, stage);
}

/* Returns a lower bound of the seconds of gathering `count` new parameters: the time of one gather of all of them. A
 * step has one gather for each bucket, and by the model of links these take at least as long together (0.999 is a
 * margin for rounding). Measured times may grow faster than bytes, so the bound is 0 if the cluster has measured
 * collectives. */
static double gather_s(const tri_search_request *request, const tri_layout *layout, tri_domain domain, double count) {
  const tri_system *system = request->system;
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  const double wide = (double)tri_dtype_bytes(tri_dtype_wide(request->precision));
  const double bytes = count * (system->gather_bytes > 0 ? system->gather_bytes : wide);
  if (request->cluster->measured.num_collectives > 0) return 0;
  return 0.999 * tri_network_collective(request->cluster, TRI_COLLECTIVE_ALL_GATHER, bytes,
                                        tri_network_extent(&shape, domain), system);
}

/* Returns a lower bound of the seconds after the last backward: the update, and with ZeRO 1 and 2 the gathers of new
 * parameters. Returns 0 if any weights are frozen. The update counts as 0 if the cluster has measured element-wise
 * work.
 *
 * For this program, tri_price_update_bytes counts 7 accesses of AdamW to an element. Three of them read the value,
 * read the gradient and write the value; every optimizer has these. The other four are replaced by one read and one
 * write of the smallest optimizer states. */
static double end_s(const tri_search_request *request, const tri_layout *layout, tri_parameter_counts count) {
  const tri_system *system = request->system;
  double own = layout->zero > 0 ? shared_out(layout, count) : count.plain + count.stacked;
  if (is_frozen(request)) return 0;
  double bytes = tri_price_update_bytes(system, request->precision);
  if (system->planned) bytes = bytes * (3.0 / 7.0) + 2 * least_states(request);
  double all = request->cluster->measured.num_elements > 0 ? 0 : tri_price_memory(request->cluster, own * bytes);
  if (layout->zero != 1 && layout->zero != 2) return all;
  return all + gather_s(request, layout, TRI_DOMAIN_REPLICAS, count.plain) +
         gather_s(request, layout, TRI_DOMAIN_EXPERT_REPLICAS, count.stacked);
}

tri_bound tri_bounds_at(tri_bounds *bounds, const tri_layout *layout, const tri_price_place *place) {
  const tri_search_request *request = &bounds->request;
  const layer_division *division = find_division(bounds, layout);
  const tri_layout_prices prices = tri_price_cache_prices(bounds->cache, place), *p = &prices;
  const tri_layer_sizes *sizes = tri_price_cache_sizes(bounds->cache, place);
  const tri_parameter_counts count = stage_elements(sizes, layout, layers_of(division, 0), true, layout->pipeline == 1);
  double bytes = stage_bytes(bounds, layout, p, sizes, division, 0);
  /* Stage 1 may need more memory than stage 0, which may have only the embedding. */
  if (layout->pipeline > 2) bytes = tri_larger_double(bytes, stage_bytes(bounds, layout, p, sizes, division, 1));
  return (tri_bound){.step_s = pipeline_s(request, layout, p, division) + end_s(request, layout, count),
                     .bytes = bytes};
}

tri_status tri_bounds_of(tri_bounds *bounds, const tri_layout *layout, tri_bound *out) {
  TRI_TRY(tri_price_cache_find(bounds->cache, layout, &bounds->place));
  TRI_TRY(tri_price_cache_fill(bounds->cache, 1));
  *out = tri_bounds_at(bounds, layout, &bounds->place);
  return TRI_OK;
}
