/* Sliding windows and rotary embeddings, which may differ between layers.
 *
 * model.window_layers says which layers have the window model.window (layer_set.h): `all` (Mistral); `5 of 6`, the
 * first five of each six (Gemma 3; `1 of 2` is Gemma 2); or layers and ranges of layers, `28-` (Qwen 2 from
 * max_window_layers on). model.rope_layers says which layers have rotary embeddings: `all`, or `3 of 4` (SmolLM 3). */
#ifndef TRI_MODEL_WINDOW_H
#define TRI_MODEL_WINDOW_H

#include "model/model.h"

/* The most keys that a query of the layer sees, its own included; 0: all before it. For a complete model. */
int64_t tri_model_window(const tri_model *model, int64_t layer);

/* Whether the layer has a rotary embedding. */
bool tri_model_layer_turns(const tri_model *model, int64_t layer);
/* The number of components of each head that rotate. */
int64_t tri_model_rotary_dim(const tri_model *model);

/* Checks window_layers and rope_layers, and brings them to their canonical form (tri_layer_set_complete); the message
 * names the key. */
tri_status tri_model_complete_layers(tri_model *model);

#endif
