#ifndef TRI_MODEL_MODEL_DEFAULTS_H
#define TRI_MODEL_MODEL_DEFAULTS_H

#include "model/model.h"

/* Sets members that are 0 to their defaults. Used by tri_model_complete. Numbers out of range are left to later checks.
 * Fails with TRI_BAD_CONFIG if ffn_size is missing and the family needs it, or if num_heads does not divide hidden_size
 * and head_dim is not given. */
tri_status tri_model_fill_in(tri_model *model);

#endif
