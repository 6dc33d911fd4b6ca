/* Sliding windows and rotary embeddings, which may differ between layers.
 *
 * model.window_layers lists the layers with the window model.window (layer_set.h): `all` (Mistral); `5 of 6`, the
 * first five of each six (Gemma 3; `1 of 2` is Gemma 2); or layers and ranges of layers, `28-` (Qwen 2 from
 * max_window_layers on). model.rope_layers lists the layers with rotary embeddings: `all`, or `3 of 4` (SmolLM 3). */
#ifndef TRI_MODEL_WINDOW_H
#define TRI_MODEL_WINDOW_H

#include "model/model.h"

/* Returns the maximum number of keys to which a query of the layer attends, including its own; 0: all keys up to its
 * own. The model must be complete. */
int64_t tri_model_window(const tri_model *model, int64_t layer);

/* Returns whether the layer has a rotary embedding. */
bool tri_model_layer_turns(const tri_model *model, int64_t layer);
/* Returns the number of components of each head that rotate. */
int64_t tri_model_rotary_dim(const tri_model *model);

/* Checks window_layers and rope_layers, and converts them to canonical form (tri_layer_set_complete); the message
 * names the key. */
tri_status tri_model_complete_layers(tri_model *model);

#endif
