#include "base/json_kind.h"

#include <math.h>

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

json_t *tri_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }
