#include "options/json.h"

#include <stdio.h>
#include <stdlib.h>

tri_status tri_print_json(json_t *document) {
  char *text = document == NULL ? NULL : json_dumps(document, JSON_INDENT(2));
  json_decref(document);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a report");
  printf("%s\n", text);
  free(text);
  return TRI_OK;
}
