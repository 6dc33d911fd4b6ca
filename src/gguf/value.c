#include "gguf/value.h"

size_t tri_gguf_value_bytes(tri_gguf_value type) {
  switch (type) {
    case TRI_GGUF_UINT8:
    case TRI_GGUF_INT8:
    case TRI_GGUF_BOOL: return 1;
    case TRI_GGUF_UINT16:
    case TRI_GGUF_INT16: return 2;
    case TRI_GGUF_UINT32:
    case TRI_GGUF_INT32:
    case TRI_GGUF_FLOAT32: return 4;
    case TRI_GGUF_UINT64:
    case TRI_GGUF_INT64:
    case TRI_GGUF_FLOAT64: return 8;
    case TRI_GGUF_STRING:
    case TRI_GGUF_ARRAY:
    case TRI_GGUF_VALUES: break;
  }
  return 0;
}

const char *tri_gguf_value_name(tri_gguf_value type) {
  switch (type) {
    case TRI_GGUF_UINT8: return "uint8";
    case TRI_GGUF_INT8: return "int8";
    case TRI_GGUF_UINT16: return "uint16";
    case TRI_GGUF_INT16: return "int16";
    case TRI_GGUF_UINT32: return "uint32";
    case TRI_GGUF_INT32: return "int32";
    case TRI_GGUF_FLOAT32: return "float32";
    case TRI_GGUF_BOOL: return "bool";
    case TRI_GGUF_STRING: return "string";
    case TRI_GGUF_ARRAY: return "array";
    case TRI_GGUF_UINT64: return "uint64";
    case TRI_GGUF_INT64: return "int64";
    case TRI_GGUF_FLOAT64: return "float64";
    case TRI_GGUF_VALUES: break;
  }
  return "?";
}
