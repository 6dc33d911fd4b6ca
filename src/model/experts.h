/* The layers with experts of a model. */
#ifndef TRI_MODEL_EXPERTS_H
#define TRI_MODEL_EXPERTS_H

#include "model/model.h"
#include "model/parameters.h"
#include "ops/experts.h"

/* Returns whether a layer has experts; other layers have a dense feed-forward part. */
bool tri_model_has_experts(const tri_model *model, int64_t layer);

/* Returns the number of layers with experts in a range. */
int64_t tri_model_expert_layers(const tri_model *model, tri_layer_range layers);

/* Returns the sizes and settings of the model's layers with experts, for operations. The model must have experts. */
tri_expert_layer tri_model_expert_layer(const tri_model *model);

/* Replaces members about experts that are 0 by their defaults. Used by tri_model_complete. */
void tri_model_fill_in_experts(tri_model *m);
/* Checks that the numbers of experts fit together; the error message names the key. Used by tri_model_complete. */
tri_status tri_model_check_experts(const tri_model *m);

#endif
