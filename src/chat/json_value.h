/* JSON as values of a chat template. */
#ifndef TRI_CHAT_JSON_VALUE_H
#define TRI_CHAT_JSON_VALUE_H

#include "chat/value.h"

#include <jansson.h>

/* Converts a JSON value. Its strings are given (value.h), and stay in the JSON tree, which must outlive the value.
 * Fails with TRI_BAD_FILE for values that are nested more than 500 deep. */
tri_status tri_chat_of_json(tri_chat_arena *arena, const json_t *json, tri_chat_value *out);

#endif
