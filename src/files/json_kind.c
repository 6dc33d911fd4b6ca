#include "files/json_kind.h"

#include <math.h>
#include <stdlib.h>

const char *tri_json_kind(const json_t *value) {
  if (value == NULL) return "missing";
  switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
  }
  return "something else";
}

void tri_json_drop_nulls(json_t *object) {
  const char *key = NULL;
  void *next = NULL;
  json_t *value = NULL;
  json_object_foreach_safe(object, next, key, value) {
    if (json_is_null(value)) (void)json_object_del(object, key);
  }
}

json_t *tri_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

tri_status tri_json_write_line(FILE *to, json_t *document, const char *what) {
  char *text = document == NULL ? NULL : json_dumps(document, JSON_COMPACT);
  json_decref(document);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: %s as JSON", what);
  fprintf(to, "%s\n", text);
  free(text);
  return TRI_OK;
}
