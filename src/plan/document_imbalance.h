/* The time that a step loses because micro-batches with masked documents differ in attention. attention_fractions.h
 * defines areas. */
#ifndef TRI_PLAN_DOCUMENT_IMBALANCE_H
#define TRI_PLAN_DOCUMENT_IMBALANCE_H

#include "plan/stages.h"

/* Sets *drawn to the attention fractions of the micro-batches of the layout, owned by request->drawn; to NULL if
 * documents are not masked or their lengths are unknown. Sets *busiest to a copy of the request with the mean area of
 * micro-batches as its attention fraction. */
tri_status tri_document_imbalance_find(const tri_simulation_request *request, const tri_attention_fractions **drawn,
                                       tri_simulation_request *busiest);

/* Computes the differences of areas, and the seconds that a step waits because of them. `stages`: stages created for
 * the request *busiest; `drawn`: not NULL. */
tri_status tri_document_imbalance_of(tri_stages *stages, const tri_simulation_request *request,
                                     const tri_attention_fractions *drawn, tri_document_imbalance *out);

#endif
