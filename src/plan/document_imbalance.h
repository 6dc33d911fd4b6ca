/* The time that a step loses because the attention of micro-batches with masked documents differs
 * (attention_fractions.h defines areas). */
#ifndef TRI_PLAN_DOCUMENT_IMBALANCE_H
#define TRI_PLAN_DOCUMENT_IMBALANCE_H

#include "plan/stages.h"

/* Sets *drawn to the attention fractions of the layout's micro-batches, or to NULL if documents are not masked or
 * their lengths are unknown. Sets *busiest to a copy of the request with the attention fraction of the busiest rank
 * of a micro-batch, on average over the micro-batches. */
tri_status tri_document_imbalance_find(const tri_simulation_request *request, const tri_attention_fractions **drawn,
                                       tri_simulation_request *busiest);

/* Computes how much areas differ, and the time that a step waits because of this. `stages`: those of *busiest. */
tri_status tri_document_imbalance_of(tri_stages *stages, const tri_simulation_request *request,
                                     const tri_attention_fractions *drawn, tri_document_imbalance *out);

#endif
