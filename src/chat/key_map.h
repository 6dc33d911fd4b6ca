/* Other names of the keys of records: "prompt=question,chosen=good" reads `question` as `prompt` and `good` as
 * `chosen`. */
#ifndef TRI_CHAT_KEY_MAP_H
#define TRI_CHAT_KEY_MAP_H

#include "base/status.h"

#include <jansson.h>

enum { TRI_KEY_MAP_PAIRS = 16, TRI_KEY_MAP_NAME_BYTES = 64 };

/* Fails with TRI_BAD_USAGE if the text is not a list of at most TRI_KEY_MAP_PAIRS pairs KEY=OTHER with each KEY
 * once. */
tri_status tri_key_map_check(const char *map);

/* Renames the keys of a record. All pairs apply at once, so two keys may be exchanged; an existing value under a new
 * name is replaced. Fails with TRI_BAD_FILE if the record lacks a key. `map` has passed tri_key_map_check; NULL: no
 * change. */
tri_status tri_key_map_apply(const char *map, json_t *record);

#endif
