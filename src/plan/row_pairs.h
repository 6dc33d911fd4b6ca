/* What a row of keys from another rank is worth, by the planner's prices: `layout.context_row_pairs`, by which the cut
 * of documents decides how many ranks share one (mesh/document_cut.h). */
#ifndef TRI_PLAN_ROW_PAIRS_H
#define TRI_PLAN_ROW_PAIRS_H

#include "plan/simulate.h"

/* *out: pairs of positions whose attention takes as long, in all layers and both passes, as a row of keys, and its
 * gradients, take to come from another rank of the layout. TRI_NO_ROW_PAIRS if nothing depends on it: documents are
 * not masked, or no keys are gathered (blocks of a ring pass whatever the cut). */
enum { TRI_NO_ROW_PAIRS = -1 };
tri_status tri_plan_row_pairs(const tri_simulation_request *request, int64_t *out);

/* Whether the layout's own number is another by more than a factor of two. */
bool tri_plan_row_pairs_differ(const tri_layout *layout, int64_t row_pairs);

#endif
