/* What a JSON value is, for messages. */
#ifndef TRI_BASE_JSON_KIND_H
#define TRI_BASE_JSON_KIND_H

#include <jansson.h>

/* "an object", "a string", ...; NULL is "missing". */
const char *tri_json_kind(const json_t *value);

#endif
