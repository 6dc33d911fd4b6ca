/* The time that a step loses because micro-batches of masked documents differ (attention_fractions.h). */
#ifndef TRI_PLAN_DOCUMENT_IMBALANCE_H
#define TRI_PLAN_DOCUMENT_IMBALANCE_H

#include "plan/stages.h"

/* Sets *drawn to the fractions of the layout's micro-batches; NULL if documents are joined or their lengths are not
 * known. Sets *busiest to a copy of the request whose attention fraction is that of the busiest rank of a
 * micro-batch, on average over the micro-batches. */
tri_status tri_document_imbalance_find(const tri_simulation_request *request, const tri_attention_fractions **drawn,
                                       tri_simulation_request *busiest);

/* Computes how much areas differ, and the time that a step waits because of it. `stages` are those of *busiest. */
tri_status tri_document_imbalance_of(tri_stages *stages, const tri_simulation_request *request,
                                     const tri_attention_fractions *drawn, tri_document_imbalance *out);

#endif
