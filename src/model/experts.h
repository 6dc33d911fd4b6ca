/* Layers of experts, as the numbers of a model say them. */
#ifndef TRI_MODEL_EXPERTS_H
#define TRI_MODEL_EXPERTS_H

#include "model/model.h"
#include "model/parameters.h"
#include "ops/experts.h"

/* Whether a layer has experts; the others have a feed-forward part that every token meets. */
bool tri_model_has_experts(const tri_model *model, int64_t layer);

/* How many of these layers have. */
int64_t tri_model_expert_layers(const tri_model *model, tri_layer_range layers);

/* The layer as operations take it, of a model that has experts. */
tri_expert_layer tri_model_expert_layer(const tri_model *model);

/* Elements of the matrices that one token meets in such a layer's feed-forward part: the router's, of the experts that
 * it chooses, and of what all tokens meet. */
double tri_model_expert_weights(const tri_model *model);

/* For tri_model_complete: what is left at 0 takes its default; and whether it goes together, the message naming the
 * key. */
void tri_model_fill_in_experts(tri_model *m);
tri_status tri_model_check_experts(const tri_model *m);

#endif
