/* Lower bounds of a layout's time and memory, cheap enough for hundreds of thousands of layouts. Used by the search. */
#ifndef TRI_PLAN_BOUNDS_H
#define TRI_PLAN_BOUNDS_H

#include "optimizers/optimizer.h"
#include "plan/search.h"

typedef struct tri_bounds tri_bounds;

/* Release with tri_bounds_destroy. */
tri_status tri_bounds_create(const tri_search_request *request, tri_bounds **out);
void tri_bounds_destroy(tri_bounds *bounds);

/* From now on bounds are of steps of such a batch and with such an optimizer, which must outlive them, in the place of
 * the request's: the prices of layers hold for all. */
void tri_bounds_of_step(tri_bounds *bounds, int64_t global_batch, const tri_optimizer_settings *optimizer);

typedef struct tri_bound {
  double step_s, bytes; /* no less than these */
} tri_bound;

/* Of a resolved layout. Prices of layers are made when they are first asked for: not to be called by two threads. */
tri_status tri_bounds_of(tri_bounds *bounds, const tri_layout *layout, tri_bound *out);

#endif
