/* Computes `layout.context_row_pairs` from the prices of the planner. The engine uses this number to decide over how
 * many context ranks a document is split (mesh/document_cut.h). */
#ifndef TRI_PLAN_ROW_PAIRS_H
#define TRI_PLAN_ROW_PAIRS_H

#include "plan/simulate.h"

/* Sets *out to the number of query-key pairs that take as long as one row of keys from another context rank. The
 * time of a pair is that of its attention, and the time of a row is that to transfer its keys and their gradients.
 * Both are summed over all layers, forward and backward. Sets *out to TRI_NO_ROW_PAIRS if the cut does not depend on
 * the number: documents are not masked, or keys are not gathered (a ring passes all blocks). */
enum { TRI_NO_ROW_PAIRS = -1 };
tri_status tri_plan_row_pairs(const tri_simulation_request *request, int64_t *out);

/* Returns whether layout->context_row_pairs differs from row_pairs by more than a factor of two; false for
 * TRI_NO_ROW_PAIRS. */
bool tri_plan_row_pairs_differ(const tri_layout *layout, int64_t row_pairs);

#endif
