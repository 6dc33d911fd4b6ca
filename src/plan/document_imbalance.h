/* The time that a step loses because micro-batches of masked documents differ (attention_fractions.h). */
#ifndef TRI_PLAN_DOCUMENT_IMBALANCE_H
#define TRI_PLAN_DOCUMENT_IMBALANCE_H

#include "plan/stages.h"

/* Sets *drawn to the fractions of the layout's micro-batches; NULL if documents are joined or their lengths are not
 * known. Sets *busiest to the request with an attention fraction that is the mean over micro-batches of that of the
 * busiest rank. */
tri_status tri_document_imbalance_find(const tri_simulation_request *request, const tri_attention_fractions **drawn,
                                       tri_simulation_request *busiest);

/* Computes the spread of the areas and the time that a step waits because of it. `stages`: of *busiest. */
tri_status tri_document_imbalance_of(tri_stages *stages, const tri_simulation_request *request,
                                     const tri_attention_fractions *drawn, tri_document_imbalance *out);

#endif
