/* Computes `layout.context_row_pairs` from prices. With this number the engine decides over how many context ranks
 * it splits a document (mesh/document_cut.h). */
#ifndef TRI_PLAN_ROW_PAIRS_H
#define TRI_PLAN_ROW_PAIRS_H

#include "plan/simulate.h"

/* Sets *out to the number of query-key pairs that take as long as one row of keys from another context rank. The
 * time of a pair is that of its attention. The time of a row is that of the transfer of its keys and of their
 * gradients. Both are sums over all layers, forward and backward. Sets *out to TRI_NO_ROW_PAIRS if the number does
 * not affect how documents are split: if they are not masked, or if keys are not gathered (a ring passes all
 * blocks). */
enum { TRI_NO_ROW_PAIRS = -1 };
tri_status tri_plan_row_pairs(const tri_simulation_request *request, int64_t *out);

/* Returns whether layout->context_row_pairs and row_pairs differ by more than a factor of two; false for
 * TRI_NO_ROW_PAIRS. */
bool tri_plan_row_pairs_differ(const tri_layout *layout, int64_t row_pairs);

#endif
