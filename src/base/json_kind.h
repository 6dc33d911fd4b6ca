/* The kind of a JSON value, for messages; members that are null; and numbers that JSON has no words for. */
#ifndef TRI_BASE_JSON_KIND_H
#define TRI_BASE_JSON_KIND_H

#include <jansson.h>

/* "an object", "a string", ...; NULL is "missing". */
const char *tri_json_kind(const json_t *value);

/* Removes the members of an object that are null: in a record or a message null means that the member is absent, since
 * files that were tables once have every column in every record. Other values stay as they are. */
void tri_json_drop_nulls(json_t *object);

/* A new JSON number, or JSON null if the value is not finite. The caller owns it. */
json_t *tri_json_number(double value);

#endif
