/* Prints a JSON document to standard output. */
#ifndef TRI_OPTIONS_JSON_H
#define TRI_OPTIONS_JSON_H

#include "base/status.h"

#include <jansson.h>

/* Prints the document and releases it; NULL is TRI_OUT_OF_MEMORY. */
tri_status tri_print_json(json_t *document);

#endif
