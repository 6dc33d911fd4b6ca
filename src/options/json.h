/* One JSON document on standard output. */
#ifndef TRI_OPTIONS_JSON_H
#define TRI_OPTIONS_JSON_H

#include "base/status.h"

#include <jansson.h>

/* Prints the document and takes it over; NULL is TRI_OUT_OF_MEMORY. */
tri_status tri_print_json(json_t *document);

#endif
