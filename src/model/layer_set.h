/* Sets of layers as text: `all`; `5 of 6`, the first five of each six; or layers and ranges of layers, `28-`, `0, 4-7`.
 */
#ifndef TRI_MODEL_LAYER_SET_H
#define TRI_MODEL_LAYER_SET_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_LAYER_SET_BYTES = 192 };

/* Returns whether a set in canonical form (tri_layer_set_complete) has all layers. */
bool tri_layer_set_is_all(const char *set);

/* Returns whether a layer is in a set in canonical form (tri_layer_set_complete). */
bool tri_layer_set_has(const char *set, int64_t num_layers, int64_t layer);

/* Checks the value of `key` and converts it to its canonical form: equal sets become equal texts. Fails with
 * TRI_BAD_CONFIG for an invalid set, and with TRI_UNSUPPORTED if the canonical text does not fit into
 * TRI_LAYER_SET_BYTES; the message names the key. */
tri_status tri_layer_set_complete(char set[TRI_LAYER_SET_BYTES], const char *key, int64_t num_layers);

/* Writes the canonical text of the set of layers i with chosen[i] [num_layers]. Fails with TRI_UNSUPPORTED if the text
 * does not fit into TRI_LAYER_SET_BYTES; the message names `key`. */
tri_status tri_layer_set_print(const bool *chosen, const char *key, int64_t num_layers, char out[TRI_LAYER_SET_BYTES]);

#endif
