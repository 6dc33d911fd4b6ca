/* Prices and sizes of single layers, for the lower bounds of the search.
 *
 * The problem: a search bounds hundreds of thousands of layouts, and a list of the operations of a whole model for each
 * of them would take too long.
 *
 * The idea: layers of one kind cost the same. So each unit is priced once, from a list of operations of one or two
 * layers. The result serves models of any depth, and all layouts that differ only in keys that do not affect layers:
 * the number of stages, the schedule, ZeRO, the number of replicas. `prices` is a hash table by the keys that affect
 * layers (TRI_LAYOUT_OF_LAYERS: tensor, context and expert parallelism, micro-batch, recompute ...). `sizes` is a short
 * list, since few keys affect the number of parameters of a rank.
 *
 * The invariant: the price or size of a kind is at most that of each of its layers. So if layers of a kind differ, the
 * kind has the price of the cheapest:
 *
 *   partial training   Layers up to and including the lowest one with a trained weight have prices of their own
 *                      (`untrained`), for the forward only. If the layers above it train differently (an adapter on
 *                      some layers, frozen patterns), the model is priced as if all its weights were frozen, with
 *                      gradients of activations passing through: no GEMM for the gradient of a weight, and no memory
 *                      for it. The size of a kind is that of its smallest layer, since an adapter may be in one layer
 *                      alone.
 *   uneven experts     Sizes are those of the rank with the fewest experts.
 *
 * Layers with and without experts, a sliding window or a rotary embedding are of different kinds, and each kind has
 * prices of its own.
 *
 * Example: a mixture of experts with 3 dense layers and 58 layers with experts, all trained, tensor 4. Four prices are
 * computed, for the embedding, layer 1, layer 3 and the head. They serve pipeline 1, 2, 4 ... with each schedule. */
#include "plan/layer_prices.h"

#include "base/count.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "model/family.h"
#include "schedule/layout_values.h"

enum { PRICE_NUMBERS = 1 << 16 }; /* number of entries of first_price */

/* Indices of two layers of a kind: its first layer, and its first layer above `lowest` (-1: it has none). */
typedef struct layers_of_kind {
  int64_t first, first_above;
} layers_of_kind;

struct tri_price_cache {
  tri_search_request request;
  /* The request's model with all weights frozen. request.model points to it if the layers train differently. */
  tri_model frozen;
  tri_model priced;    /* a copy of request.model, with only as many layers as the prices need */
  tri_model untrained; /* a copy of `frozen`, with as many layers as `priced` */
  int64_t lowest;      /* index of the lowest layer with a trained weight; -1: the embedding; num_layers: the head */
  int num_kinds;       /* number of kinds of layers in the model */
  uint8_t *kind_of;    /* kind of each layer [num_layers of the request's model] */
  layers_of_kind kinds[TRI_LAYER_KINDS]; /* layers of each kind [num_kinds] */
  tri_layer_prices *prices;              /* [num_prices]; the first num_priced are computed */
  int64_t num_prices, num_priced, room;
  int64_t *first_price;   /* index in `prices` of the first entry with each hash [PRICE_NUMBERS]; -1: none */
  tri_layer_sizes *sizes; /* [num_sizes]; the first num_sized are computed */
  int64_t num_sizes, num_sized, sizes_room;
};

/* ---- the models to price ----------------------------------------------------------------------------------------- */

/* Returns whether two parameters have the same shape and type, and are trained in the same way. */
static bool are_alike(const tri_parameter *a, const tri_parameter *b) {
  return a->frozen == b->frozen && a->factor == b->factor && a->stored == b->stored && a->num_dims == b->num_dims &&
         a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1] && (a->magnitude < 0) == (b->magnitude < 0);
}

/* Returns whether an entry of the table is the last one of its layer. */
static bool ends_layer(const tri_parameter_table *table, int64_t entry) {
  return entry + 1 == table->num_entries || table->entries[entry + 1].layer != table->entries[entry].layer;
}

/* Numbers the kinds of the layers, and finds the first layers of each kind. */
static tri_status find_kinds(tri_price_cache *cache, const tri_model *model) {
  int number_of[TRI_LAYER_KINDS];
  for (int kind = 0; kind < TRI_LAYER_KINDS; kind++) number_of[kind] = -1;
  TRI_TRY(tri_alloc("bounds", (size_t)model->num_layers, sizeof *cache->kind_of, &cache->kind_of));
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    int *number = &number_of[tri_model_layer_kind(model, layer)];
    if (*number < 0) {
      *number = cache->num_kinds++;
      cache->kinds[*number] = (layers_of_kind){.first = layer, .first_above = -1};
    }
    int64_t *above = &cache->kinds[*number].first_above;
    if (*above < 0 && layer > cache->lowest) *above = layer;
    cache->kind_of[layer] = (uint8_t)*number;
  }
  return TRI_OK;
}

/* Returns whether, above `lowest`, all layers of a kind have the same parameters, trained and frozen in the same
 * places. Compares each layer with the first one of its kind. */
static bool trains_alike(const tri_price_cache *cache, const tri_model *model, const tri_parameter_table *table) {
  int64_t first_of[TRI_LAYER_KINDS], begin = 0;
  for (int kind = 0; kind < TRI_LAYER_KINDS; kind++) first_of[kind] = -1;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const int64_t layer = table->entries[i].layer;
    const bool inside = layer > cache->lowest && layer >= 0 && layer < model->num_layers;
    if (i > 0 && table->entries[i - 1].layer != layer) begin = i;
    if (!inside) continue;
    int64_t *first = &first_of[cache->kind_of[layer]];
    if (*first < 0) *first = i;
    const int64_t other = *first + (i - begin);
    if (table->entries[other].layer != table->entries[*first].layer) return false;
    if (!are_alike(&table->entries[i], &table->entries[other])) return false;
    if (ends_layer(table, i) != ends_layer(table, other)) return false;
  }
  return true;
}

/* Sets `frozen`, and chooses the model to price. If the layers of the request's model train differently, it is the
 * frozen model with gradients passing through its layers. Such layers cost less than trained ones, since they have no
 * weight gradients and no update. */
static tri_status choose_model(tri_price_cache *cache, const tri_model *model) {
  tri_parameter_table *table = NULL;
  cache->frozen = *model;
  cache->frozen.tuning = (tri_trainable){.freeze = {.words = {{"*"}}, .count = 1}};
  if (tri_trainable_is_full(&model->tuning)) return TRI_OK;
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  if (!trains_alike(cache, model, table)) cache->request.model = &cache->frozen;
  tri_parameter_table_destroy(table);
  return TRI_OK;
}

/* Returns the layer to price for a kind whose first layer is `first`. For a kind with layer 0 it is the next layer
 * of this kind below `end`, if there is one: layer 0 costs more than others, since its first norm reads its input.
 * In other layers, the residual sum before the norm includes this read. */
static int64_t layer_to_price(const tri_price_cache *cache, int64_t first, int64_t end) {
  if (first != 0) return first;
  for (int64_t layer = 1; layer < end; layer++) {
    if (cache->kind_of[layer] == cache->kind_of[0]) return layer;
  }
  return 0;
}

/* Sets `priced` and `untrained`. The operations of a model with frozen weights or an adapter are listed from a table
 * of all its parameters, so such a model is cut after the last layer that is priced, to keep the table short. */
static void set_priced(tri_price_cache *cache) {
  cache->priced = *cache->request.model;
  cache->untrained = cache->frozen;
  if (tri_trainable_is_full(&cache->request.model->tuning)) return;
  const int64_t all = cache->priced.num_layers;
  int64_t last = tri_larger(cache->lowest + 1, 0);
  for (int kind = 0; kind < cache->num_kinds; kind++) {
    const layers_of_kind *of = &cache->kinds[kind];
    last = tri_larger(last, layer_to_price(cache, tri_larger(of->first, of->first_above), all));
  }
  cache->priced.num_layers = cache->untrained.num_layers = tri_smaller(all, last + 1);
}

tri_status tri_price_cache_create(const tri_search_request *request, tri_price_cache **out) {
  tri_price_cache *cache = NULL;
  TRI_TRY(tri_alloc("bounds", 1, sizeof *cache, &cache));
  cache->request = *request;
  tri_status status = tri_trainable_lowest_layer(request->model, &cache->lowest);
  if (status == TRI_OK) status = find_kinds(cache, request->model);
  if (status == TRI_OK) status = choose_model(cache, request->model);
  if (status == TRI_OK) set_priced(cache);
  if (status == TRI_OK) status = tri_alloc("bounds", PRICE_NUMBERS, sizeof(int64_t), &cache->first_price);
  if (status != TRI_OK) {
    tri_price_cache_destroy(cache);
    return status;
  }
  for (int64_t i = 0; i < PRICE_NUMBERS; i++) cache->first_price[i] = -1;
  *out = cache;
  return TRI_OK;
}

void tri_price_cache_destroy(tri_price_cache *cache) {
  if (cache == NULL) return;
  tri_free(cache->sizes);
  tri_free(cache->prices);
  tri_free(cache->first_price);
  tri_free(cache->kind_of);
  tri_free(cache);
}

const tri_model *tri_price_cache_model(const tri_price_cache *cache) { return cache->request.model; }
int64_t tri_price_cache_lowest(const tri_price_cache *cache) { return cache->lowest; }
int tri_price_cache_kind(const tri_price_cache *cache, int64_t layer) { return cache->kind_of[layer]; }

/* ---- prices ------------------------------------------------------------------------------------------------------ */

/* Adds the price of one layer of a kind to *unit. `first`: the first layer of the kind that counts (layer_to_price);
 * -1: does nothing. `end`: end of the layers that may be priced in its place. `passes`: whether the backward also
 * computes the gradient of the input of the layer. */
static tri_status price_layer(const tri_price_cache *cache, tri_layer_prices *of, const tri_model *model, int64_t first,
                              int64_t end, bool passes, tri_unit_price *unit) {
  if (first < 0) return TRI_OK;
  const int64_t layer = layer_to_price(cache, first, end);
  /* The list for layer 0 or 1 begins with the embedding (-1). With all weights frozen it begins with layer 0,
   * because a frozen embedding would end the gradients. */
  const int64_t start = cache->request.model == &cache->frozen ? 0 : -1, begin = layer > 1 ? layer - 1 : start;
  const tri_wanted_unit wanted = {model, {begin, layer + 1}, passes, layer, unit};
  return tri_price_unit(&cache->request, &of->of, &wanted);
}

/* Prices all units for layouts like of->of: the embedding, the head, and for each kind its first layer up to
 * `lowest` and its first layer above `lowest`. */
static tri_status price(const tri_price_cache *cache, tri_layer_prices *of) {
  const tri_search_request *request = &cache->request;
  const tri_model *model = &cache->priced, *frozen = &cache->untrained;
  const int64_t all = model->num_layers, above = cache->lowest + 1; /* first layer whose backward counts */
  const bool passes = cache->lowest < request->model->num_layers;
  const int64_t begin = all > 1 && cache->kind_of[1] == cache->kind_of[0] ? 2 : 1;
  const tri_wanted_unit ends[2] = {{model, {-1, begin}, false, -1, &of->embedding},
                                   {model, {all - 1, all + 1}, passes, all, &of->head}};
  for (int i = 0; i < 2; i++) TRI_TRY(tri_price_unit(request, &of->of, &ends[i]));
  for (int kind = 0; kind < cache->num_kinds; kind++) {
    const layers_of_kind *layers = &cache->kinds[kind];
    const int64_t below = layers->first < above ? layers->first : -1;
    TRI_TRY(price_layer(cache, of, frozen, below, tri_smaller(above, all), false, &of->untrained[kind]));
    TRI_TRY(price_layer(cache, of, model, layers->first_above, all, passes, &of->layer[kind]));
  }
  return TRI_OK;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b == 0 ? a : common_divisor(b, a % b); }

/* Returns a layout with the same prices and sizes, and as few ranks as one layer needs: one stage, no ZeRO, and only
 * as many data ranks as the expert mesh needs (one without experts). */
static tri_layout one_of(const tri_layout *layout) {
  const int64_t sharing = layout->tensor * layout->context, experts = layout->expert * layout->expert_tensor;
  tri_layout one = *layout;
  one.pipeline = one.virtual_stages = one.recompute_every = 1;
  one.data = experts / common_divisor(experts, sharing);
  one.zero = 0;
  return one;
}

/* Sets *at to the index of the prices of a layout's layers, and adds an entry if there is none. On input *at is the
 * index to try first. */
static tri_status find_prices(tri_price_cache *cache, const tri_layout *layout, int64_t *at) {
  if (*at < cache->num_prices && tri_layouts_alike(&cache->prices[*at].of, layout, TRI_LAYOUT_OF_LAYERS)) return TRI_OK;
  int64_t *first = &cache->first_price[tri_layout_number(layout, TRI_LAYOUT_OF_LAYERS) % PRICE_NUMBERS];
  for (int64_t i = *first; i >= 0; i = cache->prices[i].next) {
    if (!tri_layouts_alike(&cache->prices[i].of, layout, TRI_LAYOUT_OF_LAYERS)) continue;
    *at = i;
    return TRI_OK;
  }
  TRI_TRY(tri_grow("bounds", sizeof *cache->prices, cache->num_prices, &cache->room, &cache->prices));
  cache->prices[cache->num_prices] = (tri_layer_prices){.of = one_of(layout), .next = *first};
  *at = *first = cache->num_prices++;
  return TRI_OK;
}

tri_layout_prices tri_price_cache_prices(const tri_price_cache *cache, const tri_price_place *place) {
  return (tri_layout_prices){&cache->prices[place->listed], &cache->prices[place->kept], cache->num_kinds};
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Returns the position of the last of the ranks that share the experts. If the experts do not divide evenly, this
 * rank has the fewest, so its number of parameters is a lower bound for every rank. (The rank with the most tokens,
 * tri_layout_fullest, is not the same in all layouts that share a tri_layer_sizes.) */
static tri_mesh_position fewest_experts(const tri_layout *one) {
  const tri_mesh_shape shape = tri_layout_mesh(one);
  const tri_mesh_coordinates first = {{0}};
  return (tri_mesh_position){shape,
                             tri_domain_coordinates(&shape, &first, TRI_DOMAIN_EXPERT_HOLDERS, (int)one->expert - 1)};
}

/* Lowers the size of the kind of a layer to `count`, the size of this layer, if that is smaller. An adapter may be
 * in one layer alone, so the layers of a kind may differ in size. */
static void keep_smallest(const tri_price_cache *cache, int64_t layer, tri_parameter_counts count,
                          tri_layer_sizes *sizes) {
  const int kind = cache->kind_of[layer];
  const bool first = layer == cache->kinds[kind].first;
  tri_parameter_counts *of = &sizes->layer[kind];
  if (first || count.plain < of->plain) of->plain = count.plain;
  if (first || count.stacked < of->stacked) of->stacked = count.stacked;
}

/* Computes the sizes of the units in layouts like sizes->of. */
static tri_status measure(const tri_price_cache *cache, tri_layer_sizes *out) {
  const tri_model *model = cache->request.model;
  tri_layer_range all = {-1, model->num_layers + 1};
  tri_layer_sizes sizes = {.of = out->of};
  tri_model_share share = {.position = fewest_experts(&sizes.of), .chunks = &all, .num_chunks = 1};
  tri_parameter_counts of_layer = {0};
  tri_parameter_table *table = NULL;
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
    } else {
      *(entry->placement.has_holders ? &of_layer.stacked : &of_layer.plain) += count;
      if (!ends_layer(table, i)) continue;
      keep_smallest(cache, entry->layer, of_layer, &sizes);
      of_layer = (tri_parameter_counts){0};
    }
  }
  tri_parameter_table_destroy(table);
  *out = sizes;
  return TRI_OK;
}

/* Sets *at to the index of the sizes of a layout's units, and adds an entry if there is none. On input *at is the index
 * to try first. */
static tri_status find_sizes(tri_price_cache *cache, const tri_layout *layout, int64_t *at) {
  if (*at < cache->num_sizes && tri_layouts_alike(&cache->sizes[*at].of, layout, TRI_LAYOUT_OF_PARAMETERS))
    return TRI_OK;
  for (int64_t i = 0; i < cache->num_sizes; i++) {
    if (!tri_layouts_alike(&cache->sizes[i].of, layout, TRI_LAYOUT_OF_PARAMETERS)) continue;
    *at = i;
    return TRI_OK;
  }
  TRI_TRY(tri_grow("bounds", sizeof *cache->sizes, cache->num_sizes, &cache->sizes_room, &cache->sizes));
  cache->sizes[cache->num_sizes] = (tri_layer_sizes){.of = one_of(layout)};
  *at = cache->num_sizes++;
  return TRI_OK;
}

const tri_layer_sizes *tri_price_cache_sizes(const tri_price_cache *cache, const tri_price_place *place) {
  return &cache->sizes[place->sizes];
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* Layers that `recompute_every` skips have the prices of the same layout without recompute. */
tri_status tri_price_cache_find(tri_price_cache *cache, const tri_layout *layout, tri_price_place *place) {
  TRI_TRY(find_sizes(cache, layout, &place->sizes));
  TRI_TRY(find_prices(cache, layout, &place->listed));
  if (layout->recompute_every == 1) {
    place->kept = place->listed;
    return TRI_OK;
  }
  tri_layout kept = *layout;
  kept.recompute = TRI_RECOMPUTE_NONE;
  return find_prices(cache, &kept, &place->kept);
}

/* Computes one of the entries that are not computed yet: first the prices, then the sizes. */
static tri_status fill_entry(void *context, int64_t i, int thread) {
  const tri_price_cache *cache = context;
  const int64_t prices = cache->num_prices - cache->num_priced;
  (void)thread;
  return i < prices ? price(cache, &cache->prices[cache->num_priced + i])
                    : measure(cache, &cache->sizes[cache->num_sized + i - prices]);
}

tri_status tri_price_cache_fill(tri_price_cache *cache, int threads) {
  const int64_t prices = cache->num_prices - cache->num_priced, sizes = cache->num_sizes - cache->num_sized;
  if (prices + sizes == 0) return TRI_OK;
  TRI_TRY(tri_parallel_for(prices + sizes, threads, fill_entry, cache));
  cache->num_priced = cache->num_prices;
  cache->num_sized = cache->num_sizes;
  return TRI_OK;
}
