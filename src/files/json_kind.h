/* The kind of a JSON value, for messages; null members; numbers that JSON cannot represent; lines of JSON. */
#ifndef TRI_FILES_JSON_KIND_H
#define TRI_FILES_JSON_KIND_H

#include "base/status.h"

#include <jansson.h>
#include <stdio.h>

/* Returns "an object", "a string", ...; "missing" for NULL. */
const char *tri_json_kind(const json_t *value);

/* Removes the members of an object that are null. In a record or a message, null means that the member is absent, since
 * files that were made from tables have every column in every record. A value that is not an object is not changed. */
void tri_json_drop_nulls(json_t *object);

/* Returns a new JSON number, or JSON null if the value is not finite. The caller owns it. */
json_t *tri_json_number(double value);

/* Writes a document as one line of `to`, and releases it. `what` names it in the message of a failure: fails with
 * TRI_OUT_OF_MEMORY if the document is NULL. The caller checks `to` for errors of the disk. */
tri_status tri_json_write_line(FILE *to, json_t *document, const char *what);

#endif
