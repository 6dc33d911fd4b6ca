/* Sliding windows: how far back the attention of each layer looks.
 *
 * model.window_layers says which layers have model.window: `all` (Mistral); `5 of 6`, the first five of each six (Gemma
 * 3; `1 of 2` is Gemma 2); or layers and ranges of them, `28-` (Qwen 2 from max_window_layers on), `0, 4-7`. */
#ifndef TRI_MODEL_WINDOW_H
#define TRI_MODEL_WINDOW_H

#include "model/model.h"

/* Keys that a query of the layer sees at most, itself among them; 0: all before it. For a complete model. */
int64_t tri_model_window(const tri_model *model, int64_t layer);

/* Brings window_layers to its one form, in which equal choices are equal texts; the message names the key. */
tri_status tri_model_complete_window(tri_model *model);

/* The text for layers that are given one by one: windowed[num_layers]. */
tri_status tri_window_layers_print(const bool *windowed, int64_t num_layers, char out[TRI_WINDOW_LAYERS_BYTES]);

#endif
