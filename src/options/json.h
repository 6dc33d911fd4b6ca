/* Prints a JSON document to standard output. */
#ifndef TRI_OPTIONS_JSON_H
#define TRI_OPTIONS_JSON_H

#include "base/status.h"

#include <jansson.h>

/* Prints a document and releases it. Fails with TRI_OUT_OF_MEMORY if the document is NULL. */
tri_status tri_print_json(json_t *document);

#endif
