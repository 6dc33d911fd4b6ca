/* The kind of a JSON value, for messages; null members; numbers that JSON cannot represent. */
#ifndef TRI_FILES_JSON_KIND_H
#define TRI_FILES_JSON_KIND_H

#include <jansson.h>

/* Returns "an object", "a string", ...; "missing" for NULL. */
const char *tri_json_kind(const json_t *value);

/* Removes the members of an object that are null. In a record or a message, null means that the member is absent, since
 * files that were made from tables have every column in every record. A value that is not an object is not changed. */
void tri_json_drop_nulls(json_t *object);

/* Returns a new JSON number, or JSON null if the value is not finite. The caller owns it. */
json_t *tri_json_number(double value);

#endif
