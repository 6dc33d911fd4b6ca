/* The layers of experts that a model's numbers describe. */
#ifndef TRI_MODEL_EXPERTS_H
#define TRI_MODEL_EXPERTS_H

#include "model/model.h"
#include "model/parameters.h"
#include "ops/experts.h"

/* Whether a layer has experts; other layers have a dense feed-forward part. */
bool tri_model_has_experts(const tri_model *model, int64_t layer);

/* The number of these layers that have experts. */
int64_t tri_model_expert_layers(const tri_model *model, tri_layer_range layers);

/* The description of a layer of experts for operations; the model must have experts. */
tri_expert_layer tri_model_expert_layer(const tri_model *model);

/* The number of matrix elements that one token is multiplied by in such a layer: those of the router, of its experts
 * and of the shared experts. */
double tri_model_expert_weights(const tri_model *model);

/* For tri_model_complete: replaces 0 by defaults; checks that the numbers of experts fit together, and names the key in
 * the message. */
void tri_model_fill_in_experts(tri_model *m);
tri_status tri_model_check_experts(const tri_model *m);

#endif
