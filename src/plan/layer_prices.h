/* Prices and sizes of single layers, cached for all layouts that share them. The lower bounds of a layout (bounds.h)
 * are sums over them.
 *
 * A *unit* is the embedding, one layer of a kind (model/layer_kind.h), or the head. The *prices* of a unit are the
 * seconds and bytes of one micro-batch in it (unit_price.h); its *size* is its number of parameters on one rank.
 *
 * The kinds of layers in a model are numbered from 0 in the order of their first layers. So a model whose layers are
 * all equal has only kind 0. */
#ifndef TRI_PLAN_LAYER_PRICES_H
#define TRI_PLAN_LAYER_PRICES_H

#include "model/layer_kind.h"
#include "plan/search.h"
#include "plan/unit_price.h"

/* The prices of all units, with layers by the number of their kind; 0 if the model has no such layer. */
typedef struct tri_layer_prices {
  /* The first layout with these prices. Another layout has the same prices if the keys that affect layers are equal
   * (TRI_LAYOUT_OF_LAYERS). */
  tri_layout of;
  tri_unit_price embedding, layer[TRI_LAYER_KINDS], head;
  /* Prices of layers up to and including the lowest one with a trained weight: only the forward counts. */
  tri_unit_price untrained[TRI_LAYER_KINDS];
  int64_t next; /* index of the next entry with the same hash; -1: none */
} tri_layer_prices;

/* The prices of a layout, owned by the cache. */
typedef struct tri_layout_prices {
  const tri_layer_prices *listed; /* prices of the layers that recompute as the layout says */
  /* Prices of the layers that `recompute_every` skips, without recomputation; `listed` if it skips none. */
  const tri_layer_prices *kept;
  int num_kinds; /* number of kinds of layers in the model */
} tri_layout_prices;

/* Numbers of parameters on one rank. ZeRO shards `plain` over the replicas of the model, and `stacked` (the weights
 * of experts) over the replicas of the experts. */
typedef struct tri_parameter_counts {
  double plain, stacked;
} tri_parameter_counts;

typedef struct tri_layer_sizes {
  /* The first layout with these sizes. Another layout has the same sizes if the keys that affect parameters are equal
   * (TRI_LAYOUT_OF_PARAMETERS). */
  tri_layout of;
  double embedding, tied, head;                /* numbers of parameters; tied: the head's copy of a tied embedding */
  tri_parameter_counts layer[TRI_LAYER_KINDS]; /* numbers of parameters of one layer of each kind */
} tri_layer_sizes;

typedef struct tri_price_cache tri_price_cache;

/* Creates an empty cache. The model, cluster and system of the request must outlive it. Its number of devices, global
 * batch and optimizer affect neither prices nor sizes. Release with tri_price_cache_destroy. */
tri_status tri_price_cache_create(const tri_search_request *request, tri_price_cache **out);
void tri_price_cache_destroy(tri_price_cache *cache);

/* Returns the model whose layers are priced: the request's, or, if its layers train differently, a copy with all
 * weights frozen. Valid until the cache is destroyed. */
const tri_model *tri_price_cache_model(const tri_price_cache *cache);

/* Returns the index of the lowest layer with a trained weight; -1: the embedding, num_layers: the head. */
int64_t tri_price_cache_lowest(const tri_price_cache *cache);

/* Returns the number of the kind of a layer. */
int tri_price_cache_kind(const tri_price_cache *cache, int64_t layer);

/* The entries of a layout in a cache. */
typedef struct tri_price_place {
  int64_t listed, kept; /* indices of its prices (tri_layout_prices) */
  int64_t sizes;        /* index of its sizes */
} tri_price_place;

/* Sets *place to the entries of a layout. Adds those that the cache does not have: tri_price_cache_fill computes them.
 * On input *place is the place of another layout, whose entries are tried first; {0} is allowed. */
tri_status tri_price_cache_find(tri_price_cache *cache, const tri_layout *layout, tri_price_place *place);

/* Computes the entries that tri_price_cache_find has added since the last call, on `threads` threads. */
tri_status tri_price_cache_fill(tri_price_cache *cache, int threads);

/* Return computed entries. Several threads may call them at the same time. The results are valid until the next
 * tri_price_cache_find. */
tri_layout_prices tri_price_cache_prices(const tri_price_cache *cache, const tri_price_place *place);
const tri_layer_sizes *tri_price_cache_sizes(const tri_price_cache *cache, const tri_price_place *place);

#endif
