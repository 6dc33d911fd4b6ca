/* Lower bounds of a layout's time and memory, cheap enough for hundreds of thousands of layouts. The search uses
 * them (search.h). */
#ifndef TRI_PLAN_BOUNDS_H
#define TRI_PLAN_BOUNDS_H

#include "optimizers/optimizer.h"
#include "plan/layer_prices.h"
#include "plan/search.h"

typedef struct tri_bounds tri_bounds;

/* Creates the bounds for a search. The model, cluster and system of the request, its cache of prices, and its optimizer
 * until tri_bounds_of_step sets another one, must outlive them. Without a cache in the request, the bounds have one of
 * their own. Release with tri_bounds_destroy. */
tri_status tri_bounds_create(const tri_search_request *request, tri_bounds **out);
void tri_bounds_destroy(tri_bounds *bounds);

/* Sets the global batch and the optimizer for later calls of tri_bounds_of. Cached prices of layers stay valid. The
 * optimizer must outlive the bounds. */
void tri_bounds_of_step(tri_bounds *bounds, int64_t global_batch, const tri_optimizer_settings *optimizer);

typedef struct tri_bound {
  double step_s, bytes; /* lower bounds: seconds of a step; bytes of the rank that needs the most memory */
} tri_bound;

/* Computes the bounds of a resolved layout, and the prices that the cache lacks. */
tri_status tri_bounds_of(tri_bounds *bounds, const tri_layout *layout, tri_bound *out);

/* Returns the bounds of a resolved layout whose prices have been computed (tri_price_cache_find). Threads that do this
 * at the same time need bounds of their own, which may share a cache of prices. */
tri_bound tri_bounds_at(tri_bounds *bounds, const tri_layout *layout, const tri_price_place *place);

#endif
