/* Some of a model's layers, as a key says them: `all`; `5 of 6`, the first five of each six; or layers and ranges of
 * them, `28-`, `0, 4-7`. */
#ifndef TRI_MODEL_LAYER_SET_H
#define TRI_MODEL_LAYER_SET_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_LAYER_SET_BYTES = 192 };

bool tri_layer_set_is_all(const char *set);

/* Whether a layer is one of them; of a set that tri_layer_set_complete has passed. */
bool tri_layer_set_has(const char *set, int64_t num_layers, int64_t layer);

/* Brings the value of `key` to its one form, in which equal choices are equal texts; the message names the key. */
tri_status tri_layer_set_complete(char set[TRI_LAYER_SET_BYTES], const char *key, int64_t num_layers);

/* The text for layers that are given one by one: chosen[num_layers]. */
tri_status tri_layer_set_print(const bool *chosen, const char *key, int64_t num_layers, char out[TRI_LAYER_SET_BYTES]);

#endif
