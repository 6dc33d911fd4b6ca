/* The value of `layout.context_row_pairs` by the planner's prices; with it the document cut decides over how many ranks
 * a document is split (mesh/document_cut.h). */
#ifndef TRI_PLAN_ROW_PAIRS_H
#define TRI_PLAN_ROW_PAIRS_H

#include "plan/simulate.h"

/* Sets *out to the number of query-key pairs whose attention takes as long, in all layers and both passes, as the
 * transfer of a row of keys, and its gradients, from another rank of the layout. TRI_NO_ROW_PAIRS if nothing depends on
 * it: documents are not masked, or keys are not gathered (a ring passes all blocks, whatever the cut). */
enum { TRI_NO_ROW_PAIRS = -1 };
tri_status tri_plan_row_pairs(const tri_simulation_request *request, int64_t *out);

/* Returns whether the layout's value differs from this by more than a factor of two. */
bool tri_plan_row_pairs_differ(const tri_layout *layout, int64_t row_pairs);

#endif
