/* What a step loses where micro-batches of documents differ (attention_fractions.h). */
#ifndef TRI_PLAN_DOCUMENT_IMBALANCE_H
#define TRI_PLAN_DOCUMENT_IMBALANCE_H

#include "plan/stages.h"

/* *drawn: how the layout's micro-batches are to the mean; NULL where documents are joined or nothing is known of their
 * lengths. *busiest: the request, of micro-batches that all are as the mean of them on their busiest rank. */
tri_status tri_document_imbalance_find(const tri_simulation_request *request, const tri_attention_fractions **drawn,
                                       tri_simulation_request *busiest);

/* Of the stages of *busiest: how far areas go apart, and what a step waits for that. */
tri_status tri_document_imbalance_of(tri_stages *stages, const tri_simulation_request *request,
                                     const tri_attention_fractions *drawn, tri_document_imbalance *out);

#endif
