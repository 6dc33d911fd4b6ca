/* Computes `layout.context_row_pairs` from the planner's prices. The document cut uses this number to decide over how
 * many ranks a document is split (mesh/document_cut.h). */
#ifndef TRI_PLAN_ROW_PAIRS_H
#define TRI_PLAN_ROW_PAIRS_H

#include "plan/simulate.h"

/* Sets *out to the number of query-key pairs whose attention takes as long, in all layers and both passes, as the
 * transfer of a row of keys, and its gradients, from another rank of the layout. TRI_NO_ROW_PAIRS if nothing depends on
 * the number: documents are not masked, or keys are not gathered (a ring passes all blocks, whatever the cut). */
enum { TRI_NO_ROW_PAIRS = -1 };
tri_status tri_plan_row_pairs(const tri_simulation_request *request, int64_t *out);

/* Returns whether the layout's context_row_pairs differs from row_pairs by more than a factor of two; false for
 * TRI_NO_ROW_PAIRS. */
bool tri_plan_row_pairs_differ(const tri_layout *layout, int64_t row_pairs);

#endif
