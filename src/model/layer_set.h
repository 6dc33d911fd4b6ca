/* Sets of layers as text: `all`; `5 of 6`, the first five of each six; or layers and ranges of layers, `28-`, `0, 4-7`.
 */
#ifndef TRI_MODEL_LAYER_SET_H
#define TRI_MODEL_LAYER_SET_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_LAYER_SET_BYTES = 192 };

bool tri_layer_set_is_all(const char *set);

/* Whether a layer is in the set, which has been through tri_layer_set_complete. */
bool tri_layer_set_has(const char *set, int64_t num_layers, int64_t layer);

/* Checks the value of `key` and brings it to its canonical form: equal sets become equal texts. TRI_BAD_CONFIG names
 * the key. */
tri_status tri_layer_set_complete(char set[TRI_LAYER_SET_BYTES], const char *key, int64_t num_layers);

/* Writes the canonical text of the layers i with chosen[i]. */
tri_status tri_layer_set_print(const bool *chosen, const char *key, int64_t num_layers, char out[TRI_LAYER_SET_BYTES]);

#endif
