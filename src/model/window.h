/* What layers differ in: sliding windows, how far back the attention of each looks, and whether positions rotate its
 * queries and keys.
 *
 * model.window_layers says which layers have model.window (layer_set.h): `all` (Mistral); `5 of 6`, the first five of
 * each six (Gemma 3; `1 of 2` is Gemma 2); or layers and ranges of them, `28-` (Qwen 2 from max_window_layers on).
 * model.rope_layers says which rotate: `all`, or `3 of 4` (SmolLM 3). */
#ifndef TRI_MODEL_WINDOW_H
#define TRI_MODEL_WINDOW_H

#include "model/model.h"

/* Keys that a query of the layer sees at most, itself among them; 0: all before it. For a complete model. */
int64_t tri_model_window(const tri_model *model, int64_t layer);

/* Whether rotary positions rotate the layer's queries and keys, and how many components of each head. */
bool tri_model_layer_turns(const tri_model *model, int64_t layer);
int64_t tri_model_rotary_dim(const tri_model *model);

/* Brings both to their one form, in which equal choices are equal texts; the message names the key. */
tri_status tri_model_complete_layers(tri_model *model);

#endif
