/* What a JSON value is, for messages; and numbers that JSON has no words for. */
#ifndef TRI_BASE_JSON_KIND_H
#define TRI_BASE_JSON_KIND_H

#include <jansson.h>

/* "an object", "a string", ...; NULL is "missing". */
const char *tri_json_kind(const json_t *value);

/* A new JSON number, or JSON null if the value is not finite. The caller owns it. */
json_t *tri_json_number(double value);

#endif
