/* Kinds of layers. Two layers are of the same kind if both have experts or both have none, and the same for a sliding
 * window and a rotary embedding. Layers of a kind do the same computation, except that different parameters of them may
 * be trained. A kind is a sum of the bits below. */
#ifndef TRI_MODEL_LAYER_KIND_H
#define TRI_MODEL_LAYER_KIND_H

#include "model/model.h"

enum {
  TRI_LAYER_EXPERTS = 1,  /* experts in place of the dense feed-forward part */
  TRI_LAYER_WINDOW = 2,   /* a sliding window */
  TRI_LAYER_UNTURNED = 4, /* no rotary embedding */
  TRI_LAYER_KINDS = 8     /* number of kinds */
};

/* Returns the kind of a layer, below TRI_LAYER_KINDS. The model must be complete (tri_model_complete). */
int tri_model_layer_kind(const tri_model *model, int64_t layer);

#endif
