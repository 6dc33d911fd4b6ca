#ifndef TRI_MODEL_MODEL_DEFAULTS_H
#define TRI_MODEL_MODEL_DEFAULTS_H

#include "model/model.h"

/* For tri_model_complete: gives members that are 0 their defaults. Numbers that are out of range stay for the checks
 * that follow. TRI_BAD_CONFIG if ffn_size is missing and the family needs it, or num_heads does not divide hidden_size
 * and there is no head_dim. */
tri_status tri_model_fill_in(tri_model *model);

#endif
